//! Reads some values of a list: the values that certain rows use, each once, without decoding the others.

use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::compute::{concat, take};
use rowmill_base::{Error, Result};

use super::head::SectionKind;
use super::kinds::{Physical, with_kind};
use super::{Chunk, fixed_list};
use crate::encoding::ListPlace;
use crate::strings::GROUP_VALUES;

/// The codes that some rows use, as one bit for each code of the chunk.
pub(super) struct UsedCodes {
    words: Vec<u64>,
    /// The number of used codes before each word.
    before: Vec<u32>,
    count: usize,
}

impl UsedCodes {
    /// Collects the distinct codes of `codes`. None of them may be above `highest`.
    pub(super) fn of(codes: &[u32], highest: u32) -> UsedCodes {
        let mut words = vec![0_u64; highest as usize / 64 + 1];
        codes.iter().for_each(|code| words[*code as usize / 64] |= 1 << (code % 64));
        let mut count = 0;
        let before = words
            .iter()
            .map(|word| {
                let before = count;
                count += word.count_ones();
                before
            })
            .collect();
        UsedCodes { words, before, count: count as usize }
    }

    /// The used codes, ascending.
    pub(super) fn ascending(&self) -> Vec<u32> {
        let mut codes = Vec::with_capacity(self.count);
        // `left & (left - 1)` clears the lowest bit that is set.
        for (word, first) in self.words.iter().zip((0_u32..).step_by(64)) {
            let mut left = *word;
            while left != 0 {
                codes.push(first + left.trailing_zeros());
                left &= left - 1;
            }
        }
        codes
    }

    /// The number of used codes below `code`.
    pub(super) fn place(&self, code: u32) -> u32 {
        let word = code as usize / 64;
        // Used codes in the words before, and those below the code in its own word.
        self.before[word] + (self.words[word] & ((1 << (code % 64)) - 1)).count_ones()
    }
}

impl Chunk {
    /// Returns the distinct values of single rows, in order with NULL last, and for each row the index of its value.
    /// `None` if the chunk has no value list. The rows must ascend.
    pub fn take_listed(&self, rows: &[u32]) -> Result<Option<(ArrayRef, Vec<u32>)>> {
        if !self.has_values() {
            return Ok(None);
        }
        let mut codes = Vec::new();
        self.take_codes(rows, &mut codes)?;
        self.listed(codes).map(Some)
    }

    /// Returns the distinct values of `codes`, in order, and for each code the index of its value.
    pub(crate) fn listed(&self, mut codes: Vec<u32>) -> Result<(ArrayRef, Vec<u32>)> {
        let used = UsedCodes::of(&codes, codes.iter().copied().max().unwrap_or(0));
        let values = self.values_at(&used.ascending())?;
        codes.iter_mut().for_each(|code| *code = used.place(*code));
        Ok((values, codes))
    }

    /// The values of `codes`. The codes must ascend and be distinct. The last one may be the code of NULL, which equals
    /// the number of values.
    pub fn values_at(&self, codes: &[u32]) -> Result<ArrayRef> {
        debug_assert!(codes.is_sorted_by(|a, b| a < b), "the codes must ascend, each at most once");
        let values = self.distinct().unwrap_or_default();
        let (listed, null) = match codes.split_last() {
            Some((last, listed)) if *last as usize == values => (listed, true),
            _ => (codes, false),
        };
        if let Some(code) = listed.last().filter(|code| **code as usize >= values) {
            return Err(Error::corrupt(format!("byte 16 of the chunk: code {code} in a list of {values} values")));
        }
        let found = self.finished(self.picked(listed)?)?;
        if !null {
            return Ok(found);
        }
        let null = new_null_array(found.data_type(), 1);
        concat(&[&found as &dyn Array, &null]).map_err(|error| Error::internal(error.to_string()))
    }

    fn picked(&self, codes: &[u32]) -> Result<ArrayRef> {
        // The whole list is decoded, or cheaper to decode now.
        if !self.is_picked(codes) {
            let values = self.values()?.ok_or_else(|| self.unsuited())?;
            return take(&values, &UInt32Array::from(codes.to_vec()), None)
                .map_err(|error| Error::internal(error.to_string()));
        }
        self.count_decoded(codes.len());
        match self.head.facts.physical {
            Physical::Text | Physical::Blob | Physical::Wide => {
                let list = self.stored_strings()?.decode_wanted(codes, self.string_kind()?);
                list.map(|list| list.array().clone()).map_err(|error| self.in_section(SectionKind::Values, error))
            }
            physical => with_kind!(
                physical,
                K => fixed_list::picked_list::<K>(self, codes),
                else Err(self.unsuited())
            ),
        }
    }

    /// Whether to decode only these values of the list and not all of them.
    ///
    /// Strings are decoded by groups, so each value in another group costs a whole group. We add up the costs of all
    /// calls: once they reach the cost of decoding everything, we decode the list and keep it. For example, in a list
    /// of 1,600 strings the 101st group exceeds that.
    fn is_picked(&self, codes: &[u32]) -> bool {
        /// How many values of a fixed-size list can be decoded in the time that picking one takes.
        const FIXED_PICK_COST: usize = 4;
        let all = self.distinct().unwrap_or_default();
        if self.list_place() == ListPlace::Head || self.is_list_decoded() {
            return false;
        }
        match self.head.facts.physical {
            Physical::Text | Physical::Blob | Physical::Wide => {
                let cost = codes.chunk_by(|a, b| a / GROUP_VALUES == b / GROUP_VALUES).count() * GROUP_VALUES as usize;
                self.picked.fetch_add(cost, Ordering::Relaxed) + cost <= all
            }
            _ => codes.len() * FIXED_PICK_COST < all,
        }
    }
}
