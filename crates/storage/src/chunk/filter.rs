//! What a scan asks a chunk about conditions: does its head settle one, which codes pass, which rows pass.
//!
//! Each answer narrows the next. The head knows the least and the greatest value; the value list, which is sorted, is
//! searched for the ends of ranges without being decoded; and only what they leave open is asked of rows, of those alone
//! that are still in.

use rowmill_base::{Error, Result};

use super::borders::Borders;
use super::code_set::CodeSet;
use super::fixed_decode::{self, Rows};
use super::head::SectionKind;
use super::kinds::{self, Physical, with_kind};
use super::pick::UsedCodes;
use super::text::StringTest;
use super::value_set::{ValueSet, Values};
use super::{Chunk, Encoding, text};
use crate::row_mask::RowMask;
use crate::strings::{Grams, Groups, StringList};

/// What is known of a condition before any row is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is true for no row.
    Nothing,
    /// It is true for every row.
    Everything,
    /// Rows have to be looked at.
    Unknown,
}

impl Chunk {
    /// What the head says: of a chunk without rows, that nothing passes.
    pub fn verdict(&self, set: &ValueSet) -> Verdict {
        set.verdict(&self.head.facts)
    }

    /// The codes of the values in `set`, which is of the column's type; `None` if there is no value list. The list is
    /// searched, not decoded.
    pub fn codes_of(&self, set: &ValueSet) -> Result<Option<CodeSet>> {
        if !self.has_values() {
            return Ok(None);
        }
        let values = self.distinct().unwrap_or_default() as u32;
        let ranges = match &set.values {
            _ if values == 0 => Borders::none(),
            Values::Keys(keys) => with_kind!(
                self.head.facts.physical,
                K => match self.encoding() {
                    Encoding::Constant if keys.contains(&fixed_decode::constant_key::<K>(self)) => Borders::all(),
                    Encoding::Constant => Borders::none(),
                    _ => fixed_decode::places::<K>(self, keys)?,
                },
                else return Err(self.unsuited())
            ),
            Values::Strings(strings) => {
                let list = self.stored_strings()?;
                let places = strings.try_map(&values, |border| list.lower_bound(border).map(|place| place as u32));
                places.map_err(|error| self.in_section(SectionKind::Values, error))?
            }
        };
        let null = (self.null_count() > 0).then_some(set.null);
        Ok(Some(CodeSet::of_values(&ranges, values, null)))
    }

    /// The codes of the strings that pass `test`, or with `negated` do not; NULL is not among them. `None` if there is no list
    /// of strings. Goes through the list some strings at a time, and leaves out what cannot have `needle` in it, as all that
    /// passes has; that may be empty.
    pub fn codes_where(&self, needle: &[u8], negated: bool, test: &mut StringTest<'_>) -> Result<Option<CodeSet>> {
        self.codes_with(needle, negated, |list, groups, truth| {
            list.for_each_window_of(groups, |window| {
                let first = window.first();
                test(window, &mut truth[first..first + window.len()]);
                Ok(())
            })
        })
    }

    /// The codes of the strings that have `needle` in them, which is not empty, or with `negated` have not; NULL is not among
    /// them. `None` if there is no list of strings.
    pub fn codes_containing(&self, needle: &[u8], negated: bool) -> Result<Option<CodeSet>> {
        self.codes_with(needle, negated, |list, groups, truth| list.contains(needle, groups, truth))
    }

    /// The codes of the strings of which `find` sets the truth, among the groups of those that may have `needle` in them.
    fn codes_with(
        &self,
        needle: &[u8],
        negated: bool,
        find: impl FnOnce(&StringList<'_>, &Groups, &mut [bool]) -> Result<()>,
    ) -> Result<Option<CodeSet>> {
        let Some((list, mut truth)) = self.list_and_truth()? else { return Ok(None) };
        let groups = self.groups_with(needle, &list)?;
        self.count_decoded(list.values_in(&groups));
        let of_values = &mut truth[..list.len()];
        find(&list, &groups, of_values).map_err(|error| self.in_section(SectionKind::Values, error))?;
        if negated {
            of_values.iter_mut().for_each(|truth| *truth = !*truth);
        }
        Ok(Some(CodeSet::of_truth(truth)))
    }

    /// As [`Chunk::codes_where`], but of the codes of the rows in `mask` alone, some of the chunk's: no other string is looked
    /// at, and no other code is in.
    pub fn codes_where_of(
        &self,
        needle: &[u8],
        negated: bool,
        test: &mut StringTest<'_>,
        mask: &RowMask,
    ) -> Result<Option<CodeSet>> {
        self.check_range(&mask.rows())?;
        let Some((list, mut truth)) = self.list_and_truth()? else { return Ok(None) };
        let groups = self.groups_with(needle, &list)?;
        let mut of_rows = Vec::new();
        self.take_codes(&mask.positions(), &mut of_rows)?;
        let mut wanted = UsedCodes::of(&of_rows, list.len() as u32).ascending();
        // NULL's code is the last.
        wanted.pop_if(|code| *code as usize == list.len());
        wanted.iter().for_each(|code| truth[*code as usize] = negated);
        list.retain_in(&groups, &mut wanted);
        self.count_decoded(wanted.len());
        let mut found = vec![false; wanted.len()];
        let read = list.for_each_wanted(&wanted, |window| {
            let first = window.first();
            test(window, &mut found[first..first + window.len()]);
            Ok(())
        });
        read.map_err(|error| self.in_section(SectionKind::Values, error))?;
        wanted.iter().zip(found).for_each(|(code, is_in)| truth[*code as usize] = is_in != negated);
        Ok(Some(CodeSet::of_truth(truth)))
    }

    /// The groups of the list that may have `needle` in a string.
    fn groups_with(&self, needle: &[u8], list: &StringList<'_>) -> Result<Groups> {
        let Some(section) = self.head.find(SectionKind::Grams) else { return Ok(list.all_groups()) };
        let (bytes, _) = self.section_bytes(SectionKind::Grams)?;
        let grams = Grams::open(section.count as usize, list.groups(), bytes);
        grams.map(|grams| grams.groups_with(needle)).map_err(|error| self.in_section(SectionKind::Grams, error))
    }

    /// The list of strings, and a truth for each code that is not set; `None` if there is no list of strings.
    fn list_and_truth(&self) -> Result<Option<(StringList<'_>, Vec<bool>)>> {
        if !self.is_string() || !self.has_values() {
            return Ok(None);
        }
        let list = self.stored_strings()?;
        let codes = list.len() + usize::from(self.null_count() > 0);
        self.need_memory(codes)?;
        Ok(Some((list, vec![false; codes])))
    }

    /// Leaves the rows in `mask`, some of the chunk's, whose string is as [`Chunk::codes_where`] wants it: no NULL. Looks only at
    /// strings that such rows have, each once. An error if the column is not one of strings.
    pub fn retain_where(
        &self,
        needle: &[u8],
        negated: bool,
        test: &mut StringTest<'_>,
        mask: &mut RowMask,
    ) -> Result<()> {
        self.check_range(&mask.rows())?;
        if !self.is_string() {
            return Err(Error::internal(format!("a condition on the strings of a column of {}", self.kind())));
        }
        if !self.has_values() {
            let extent = mask.extent();
            if let Some(nulls) = self.nulls(Rows::Range(&extent))? {
                mask.and_bits(extent, nulls.inner());
            }
            return text::retain_rows(self, mask, negated, test);
        }
        match self.codes_where_of(needle, negated, test, mask)? {
            Some(codes) => self.retain_codes(&codes, mask),
            None => Err(self.unsuited()),
        }
    }

    /// As [`Chunk::rows_of`], but if that would take reading many counts, as if all values had as many rows.
    pub fn about_rows_of(&self, codes: &CodeSet) -> Result<usize> {
        const COUNTS_READ_MAX: usize = 4096;
        let (all, within) = (codes.codes(), codes.count());
        let others = || self.rows_of(&codes.other_codes()).map(|rows| self.rows() - rows);
        match (within <= COUNTS_READ_MAX, all - within <= COUNTS_READ_MAX) {
            _ if codes.table().is_some() => Ok(self.rows() * within / all.max(1)),
            (true, _) => self.rows_of(codes),
            (_, true) => others(),
            _ => Ok(self.rows() * within / all.max(1)),
        }
    }

    /// Rows whose code is in `codes`, a set of this chunk, as the counts of its values say.
    pub fn rows_of(&self, codes: &CodeSet) -> Result<usize> {
        let values = self.distinct().unwrap_or_default();
        let nulls = if codes.contains(values as u32) { self.null_count() } else { 0 };
        if self.encoding() == Encoding::Constant {
            return Ok(if values > 0 && codes.contains(0) { self.rows() } else { nulls });
        }
        let counts = self.ints(SectionKind::Counts)?;
        self.check_list(counts.len())?;
        let mut rows = 0;
        match codes.table() {
            Some(truth) => {
                let mut truth = truth.iter();
                counts.for_each(0..values, |counts: &[u32]| {
                    let counts = counts.iter().zip(&mut truth);
                    rows += counts.map(|(count, is_in)| u64::from(*count) * u64::from(*is_in)).sum::<u64>();
                })?;
            }
            None => {
                for (low, high) in codes.ranges() {
                    let range = (low as usize).min(values)..(high as usize + 1).min(values);
                    counts.for_each(range, |counts: &[u32]| {
                        rows += counts.iter().map(|count| u64::from(*count)).sum::<u64>();
                    })?;
                }
            }
        }
        // Counts that were never written may come to more than the rows.
        Ok((rows as usize).saturating_add(nulls).min(self.rows()))
    }

    /// Leaves the rows in `mask`, some of the chunk's, whose code is in `codes`, a set of this chunk.
    pub fn retain_codes(&self, codes: &CodeSet, mask: &mut RowMask) -> Result<()> {
        self.check_range(&mask.rows())?;
        match (codes.is_empty(), codes.is_full()) {
            (true, _) => mask.clear(),
            (_, true) => {}
            _ => self.row_codes()?.retain(codes, mask)?,
        }
        Ok(())
    }

    /// Leaves the rows in `mask`, some of the chunk's, whose value is in `set`, which is of the column's type. Packed values
    /// are compared as they are packed.
    pub fn retain_values(&self, set: &ValueSet, mask: &mut RowMask) -> Result<()> {
        self.check_range(&mask.rows())?;
        match self.verdict(set) {
            Verdict::Nothing => mask.clear(),
            Verdict::Everything => {}
            Verdict::Unknown => match self.codes_of(set)? {
                Some(codes) => self.retain_codes(&codes, mask)?,
                None => self.retain_stored(set, mask)?,
            },
        }
        Ok(())
    }

    /// As [`Chunk::retain_values`], where rows are stored without a value list.
    fn retain_stored(&self, set: &ValueSet, mask: &mut RowMask) -> Result<()> {
        let extent = mask.extent();
        let null_rows = self.nulls(Rows::Range(&extent))?.map(|nulls| {
            let mut null_rows = mask.clone();
            mask.and_bits(extent, nulls.inner());
            null_rows.and_not(mask);
            null_rows
        });
        match &set.values {
            Values::Keys(keys) if *keys == Borders::all() => {}
            Values::Keys(keys) if *keys == Borders::none() => mask.clear(),
            Values::Keys(keys) => match self.head.facts.physical {
                Physical::Float32 => fixed_decode::retain_floats::<kinds::Float32>(self, keys, mask)?,
                Physical::Float64 => fixed_decode::retain_floats::<kinds::Float64>(self, keys, mask)?,
                physical => with_kind!(
                    physical,
                    K => fixed_decode::retain::<K>(self, keys, mask)?,
                    else return Err(self.unsuited())
                ),
            },
            Values::Strings(strings) => text::retain_rows(self, mask, false, &mut |window, truth| {
                truth
                    .iter_mut()
                    .enumerate()
                    .for_each(|(row, is_in)| *is_in = strings.contains_bytes(window.value(row)));
            })?,
        }
        if let Some(null_rows) = null_rows.filter(|_| set.null) {
            mask.or(&null_rows);
        }
        Ok(())
    }
}
