//! The conditions of a scan: does the head already decide one, which codes pass, and which rows pass?
//!
//! Each answer narrows the next question. The head knows the least and the greatest value. The value list is sorted, so
//! we search it for the ends of ranges without decoding it. Rows are read only if that leaves the condition open, and
//! only the rows that are still in the mask.

use std::borrow::Cow;

use rowmill_base::{Error, Result};

use super::borders::Borders;
use super::code_set::CodeSet;
use super::head::SectionKind;
use super::kinds::with_kind;
use super::pick::UsedCodes;
use super::stored_keys::DecodedRows;
use super::value_set::{ValueRanges, ValueSet};
use super::{Chunk, fixed_list};
use crate::row_mask::RowMask;
use crate::strings::{Grams, StringList, StringWindow, TextGroups};

/// Sets the entry of each string of a window that passes. All entries are false before the call.
pub type StringTest<'t> = dyn FnMut(StringWindow<'_>, &mut [bool]) + 't;

/// The truth of a condition, as far as it is known before any row is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is true for no row.
    Nothing,
    /// It is true for every row.
    Everything,
    /// It must be checked row by row.
    Unknown,
}

impl Chunk {
    /// Decides the condition from the head alone. Returns [`Verdict::Nothing`] for a chunk without rows.
    pub fn verdict(&self, set: &ValueSet) -> Verdict {
        self.stored_set(set).verdict(&self.head.facts)
    }

    /// The set in the form of the stored values.
    fn stored_set<'s>(&self, set: &'s ValueSet) -> Cow<'s, ValueSet> {
        match self.is_widened() {
            true => Cow::Owned(set.narrowed()),
            false => Cow::Borrowed(set),
        }
    }

    /// The codes of the values in `set`, which must be of the column's type. `None` if the chunk has no value list.
    /// Searches the list without decoding it.
    pub fn codes_of(&self, set: &ValueSet) -> Result<Option<CodeSet>> {
        if !self.has_values() {
            return Ok(None);
        }
        let values = self.distinct().unwrap_or_default() as u32;
        let set = self.stored_set(set);
        let ranges = match &set.values {
            // All rows are NULL, so no value can be found.
            _ if values == 0 => Borders::none(),
            ValueRanges::Keys(keys) => with_kind!(
                self.head.facts.physical,
                K => fixed_list::places::<K>(self, keys)?,
                else return Err(self.unsuited())
            ),
            ValueRanges::Strings(strings) => {
                let list = self.stored_strings()?;
                let places = strings.try_map(&values, |border| list.lower_bound(border).map(|place| place as u32));
                places.map_err(|error| self.in_section(SectionKind::Values, error))?
            }
        };
        let null = (self.null_count() > 0).then_some(set.null);
        Ok(Some(CodeSet::of_values(&ranges, values, null)))
    }

    /// The codes of the strings that pass `test`, or with `negated` of those that do not. NULL is never among them.
    /// `None` if the chunk has no list of strings. Every string that passes must contain `needle`, which may be empty:
    /// groups of the list that cannot contain it are skipped. Decodes the other strings a window at a time.
    pub fn codes_where(&self, needle: &[u8], negated: bool, test: &mut StringTest<'_>) -> Result<Option<CodeSet>> {
        self.codes_with(needle, negated, |list, groups, truth| {
            list.for_each_window_of(groups, |window| {
                let first = window.first();
                test(window, &mut truth[first..first + window.len()]);
                Ok(())
            })
        })
    }

    /// The codes of the strings that contain `needle`, which must not be empty, or with `negated` of those that do not.
    /// NULL is never among them. `None` if the chunk has no list of strings.
    pub fn codes_containing(&self, needle: &[u8], negated: bool) -> Result<Option<CodeSet>> {
        self.codes_with(needle, negated, |list, groups, truth| list.contains(needle, groups, truth))
    }

    /// Runs `find` on the groups that may contain `needle`, and returns the codes that it sets to true. With `negated`,
    /// returns the other codes except NULL's.
    fn codes_with(
        &self,
        needle: &[u8],
        negated: bool,
        find: impl FnOnce(&StringList<'_>, &TextGroups, &mut [bool]) -> Result<()>,
    ) -> Result<Option<CodeSet>> {
        let Some((list, mut truth)) = self.list_and_truth()? else { return Ok(None) };
        let groups = self.groups_with(needle, &list)?;
        // Skipped groups keep `false`: none of their strings contains the needle.
        self.count_decoded(list.values_in(&groups));
        let of_values = &mut truth[..list.len()];
        find(&list, &groups, of_values).map_err(|error| self.in_section(SectionKind::Values, error))?;
        if negated {
            of_values.iter_mut().for_each(|truth| *truth = !*truth);
        }
        Ok(Some(CodeSet::of_truth(truth)))
    }

    /// The codes of the strings that pass `test`, like [`Chunk::codes_where`], but only among the codes of the rows in
    /// `mask`. Reads no other string, and returns no other code. `mask` must be within the rows of the chunk.
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
        // Each value is tested once, however many rows have it.
        let mut wanted = UsedCodes::of(&of_rows, list.len() as u32).ascending();
        // The code of NULL is the last one.
        wanted.pop_if(|code| *code as usize == list.len());
        // A string in a group that is skipped does not pass, so its answer is already known.
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

    /// The groups of the list in which a string may contain `needle`. Without grams these are all groups.
    fn groups_with(&self, needle: &[u8], list: &StringList<'_>) -> Result<TextGroups> {
        let Some(section) = self.head.find(SectionKind::Grams) else { return Ok(list.all_groups()) };
        let (bytes, _) = self.section_bytes(SectionKind::Grams)?;
        let grams = Grams::open(section.count as usize, list.groups(), bytes);
        grams.map(|grams| grams.groups_with(needle)).map_err(|error| self.in_section(SectionKind::Grams, error))
    }

    /// Opens the list of strings, and makes a truth value for each code, initially false. `None` if the chunk has no
    /// list of strings.
    fn list_and_truth(&self) -> Result<Option<(StringList<'_>, Vec<bool>)>> {
        if !self.is_string() || !self.has_values() {
            return Ok(None);
        }
        let list = self.stored_strings()?;
        let codes = list.len() + usize::from(self.null_count() > 0);
        self.need_memory(codes)?;
        Ok(Some((list, vec![false; codes])))
    }

    /// Leaves the rows in `mask` whose string passes `test` as in [`Chunk::codes_where`]. NULL rows never pass. Reads
    /// only the strings of rows in the mask, and each string once. Returns an error if the column does not have
    /// strings.
    pub fn retain_where(
        &self,
        needle: &[u8],
        negated: bool,
        test: &mut StringTest<'_>,
        mask: &mut RowMask,
    ) -> Result<()> {
        self.check_range(&mask.rows())?;
        if !self.is_string() {
            return Err(Error::internal(format!("a condition on strings for a column of {}", self.kind())));
        }
        if !self.has_values() {
            let extent = mask.extent();
            if let Some(nulls) = self.nulls(DecodedRows::Range(&extent))? {
                mask.and_bits(extent, nulls.inner());
            }
            return self.encoding().retain_strings(self, negated, test, mask);
        }
        match self.codes_where_of(needle, negated, test, mask)? {
            Some(codes) => self.retain_codes(&codes, mask),
            None => Err(self.unsuited()),
        }
    }

    /// Estimates [`Chunk::rows_of`]. If the exact answer needs too many counts, it assumes that all values have equally
    /// many rows.
    pub fn about_rows_of(&self, codes: &CodeSet) -> Result<usize> {
        const COUNTS_READ_MAX: usize = 4096;
        // The counts of the smaller side of the set are enough, because all counts add up to the rows.
        let (all, within) = (codes.codes(), codes.count());
        let others = || self.rows_of(&codes.other_codes()).map(|rows| self.rows() - rows);
        match (within <= COUNTS_READ_MAX, all - within <= COUNTS_READ_MAX) {
            _ if codes.table().is_some() => Ok(self.rows() * within / all.max(1)),
            (true, _) => self.rows_of(codes),
            (_, true) => others(),
            _ => Ok(self.rows() * within / all.max(1)),
        }
    }

    /// The number of rows whose code is in `codes`, a set of this chunk. Adds up the stored counts of the values.
    pub fn rows_of(&self, codes: &CodeSet) -> Result<usize> {
        let values = self.distinct().unwrap_or_default();
        let nulls = if codes.contains(values as u32) { self.null_count() } else { 0 };
        let mut rows = 0;
        match codes.table() {
            Some(truth) => {
                let mut truth = truth.iter();
                self.encoding().counts(self, DecodedRows::Range(&(0..values)), &mut |counts| {
                    let counts = counts.iter().zip(&mut truth);
                    rows += counts.map(|(count, is_in)| u64::from(*count) * u64::from(*is_in)).sum::<u64>();
                })?;
            }
            None => {
                for (low, high) in codes.ranges() {
                    let range = (low as usize).min(values)..(high as usize + 1).min(values);
                    self.encoding().counts(self, DecodedRows::Range(&range), &mut |counts| {
                        rows += counts.iter().map(|count| u64::from(*count)).sum::<u64>();
                    })?;
                }
            }
        }
        // Damaged counts may add up to more than the rows.
        Ok((rows as usize).saturating_add(nulls).min(self.rows()))
    }

    /// Leaves the rows in `mask` whose code is in `codes`, a set of this chunk. `mask` must be within the rows of the
    /// chunk.
    pub fn retain_codes(&self, codes: &CodeSet, mask: &mut RowMask) -> Result<()> {
        self.check_range(&mask.rows())?;
        match (codes.is_empty(), codes.is_full()) {
            (true, _) => mask.clear(),
            (_, true) => {}
            _ => {
                self.verify()?;
                self.encoding().retain_codes(self, codes, mask)?;
            }
        }
        Ok(())
    }

    /// Leaves the rows in `mask` whose value is in `set`, which must be of the column's type. Compares packed values
    /// without unpacking them.
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

    /// Leaves the rows in `mask` whose value is in `set`, for encodings without a value list.
    fn retain_stored(&self, set: &ValueSet, mask: &mut RowMask) -> Result<()> {
        let extent = mask.extent();
        // NULL rows leave the mask first, because their stored value is arbitrary. They come back at the end if the set
        // has NULL.
        let null_rows = self.nulls(DecodedRows::Range(&extent))?.map(|nulls| {
            let mut null_rows = mask.clone();
            mask.and_bits(extent, nulls.inner());
            null_rows.and_not(mask);
            null_rows
        });
        match &self.stored_set(set).values {
            // These two also cover types without keys, for example lists.
            ValueRanges::Keys(keys) if *keys == Borders::all() => {}
            ValueRanges::Keys(keys) if *keys == Borders::none() => mask.clear(),
            ValueRanges::Keys(keys) => self.encoding().retain_keys(self, keys, mask)?,
            ValueRanges::Strings(strings) => {
                let test = &mut |window: StringWindow<'_>, truth: &mut [bool]| {
                    let truth = truth.iter_mut().enumerate();
                    truth.for_each(|(row, is_in)| *is_in = strings.contains_bytes(window.value(row)));
                };
                self.encoding().retain_strings(self, false, test, mask)?;
            }
        }
        if let Some(null_rows) = null_rows.filter(|_| set.null) {
            mask.or(&null_rows);
        }
        Ok(())
    }
}
