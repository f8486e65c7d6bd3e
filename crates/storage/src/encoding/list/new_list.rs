//! The value list and the codes of a column to be encoded. They are found once, and then each encoding measures its
//! form of the codes.
//!
//! We do not try a value list if more than three quarters of the rows have a value of their own: finding and sorting
//! the values would take longer than everything else, and the list would hardly be shorter than the rows.

use super::HUNDREDTHS;
use super::distinct::Distinct;
use crate::chunk::{NewSection, SectionKind};
use crate::encoding::choice::{Analysis, Cheapest};
use crate::encoding::new_column::{FixedColumn, NewColumn};
use crate::encoding::scaled::{NarrowWords, each_width};
use crate::sequence::{self, Word};
use crate::strings::Dictionary;

/// Up to this many values, a list is always tried.
const DISTINCT_ALWAYS: usize = 256;
/// Bytes that we add to the size for each run or single row, because finding an entry takes readers longer than
/// unpacking a code.
const ENTRY_PRICE: usize = 1;

/// The maximum number of distinct values of a list.
fn distinct_max(rows: usize) -> usize {
    (rows / 4 * 3).max(DISTINCT_ALWAYS)
}

/// A value list, ready to be written, and its codes.
pub(in crate::encoding) struct NewList {
    pub(in crate::encoding) codes: NewCodes,
    pub(in crate::encoding) distinct: usize,
    pub(in crate::encoding) values: Vec<u8>,
    pub(in crate::encoding) counts: Vec<u8>,
}

/// The code of each row of a column to be encoded.
pub(in crate::encoding) struct NewCodes {
    pub(super) words: NarrowWords,
    /// The number of rows of each code, at the end that of NULL.
    pub(super) counts: Vec<u32>,
    /// The number of runs of equal codes.
    pub(super) runs: usize,
    /// The bytes of the value list and its counts, as far as they matter for the choice.
    list_bytes: usize,
}

/// Codes in one form, ready to be written.
pub(super) struct StoredCodes {
    pub(super) common: u32,
    pub(super) sections: Vec<NewSection>,
}

impl NewList {
    /// Finds the distinct values of `column`. `None` if there are too many.
    pub(in crate::encoding) fn of_fixed(column: &FixedColumn<'_>) -> Option<NewList> {
        each_width!(&column.scaled.words, words => of_words(words, column))
    }
}

fn of_words<W: Word>(words: &[W], column: &FixedColumn<'_>) -> Option<NewList> {
    // A forced list may be of any size.
    let most = if column.is_forced { words.len() } else { distinct_max(words.len()) };
    let high = words.iter().copied().max().unwrap_or_default();
    let mut found = Distinct::find(words, high, &column.null_rows, most)?;
    if column.null_rows.len() == words.len() {
        found.forget_values();
    }
    // We count one more code than values, because NULL has a code too.
    let codes = match found.values.len() {
        0..=0xff => NarrowWords::W1(found.codes(words, &column.null_rows)),
        0x100..=0xffff => NarrowWords::W2(found.codes(words, &column.null_rows)),
        _ => NarrowWords::W4(found.codes(words, &column.null_rows)),
    };
    let (values, counts) = (sequence::encode(&found.values), sequence::encode(&found.counts));
    let list_bytes = values.len() + counts.len();
    let codes = NewCodes::of(codes, &found.counts, column.null_rows.len(), list_bytes);
    Some(NewList { codes, distinct: found.values.len(), values, counts })
}

impl NewCodes {
    fn of(words: NarrowWords, counts: &[u32], null_count: usize, list_bytes: usize) -> NewCodes {
        // Counting runs is cheap and tells whether runs or single rows may pay.
        let runs = each_width!(&words, codes => 1 + codes.windows(2).filter(|pair| pair[0] != pair[1]).count());
        // NULL's count is only needed to find the common code. It is not stored.
        let counts = counts.iter().copied().chain([null_count as u32]).collect();
        NewCodes { words, counts, runs, list_bytes }
    }

    /// Takes the codes out of `found`. Strings in a list have no other encoding, so the size of the list does not
    /// matter.
    pub(in crate::encoding) fn of_strings(found: &mut Dictionary<'_>, null_count: usize) -> NewCodes {
        NewCodes::of(NarrowWords::W4(std::mem::take(&mut found.codes)), &found.counts, null_count, 0)
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        each_width!(&self.words, codes => codes.len())
    }

    /// Whether a form with this many entries may be cheaper than the offered ones, so that we should build it. An entry
    /// needs about as many bits for its code as a row does in the best form so far, plus about two bits for its row.
    pub(super) fn may_win_with(&self, entries: usize, offered: &Cheapest) -> bool {
        let price = offered.codes_price() as f64;
        let codes = price / self.len() as f64 * entries as f64;
        codes + (entries * ENTRY_PRICE) as f64 + entries as f64 / 4.0 < price
    }

    /// The analysis of packed codes, which are measured without being built.
    pub(super) fn packed(&self, bytes: usize, build: fn(&NewCodes) -> StoredCodes) -> Analysis {
        let analysis = Analysis::of(bytes + self.list_bytes, HUNDREDTHS, move |column: NewColumn<'_>| {
            let stored = build(column.codes().expect("the column has a list"));
            column.listed(stored.common, stored.sections)
        });
        // Packed codes have no entries that a reader would need to search.
        analysis.with_codes(bytes)
    }

    /// The analysis of codes that are already built.
    pub(super) fn built(&self, stored: StoredCodes) -> Analysis {
        let bytes: usize = stored.sections.iter().map(|section| section.bytes.len()).sum();
        // The number of runs and single rows.
        let is_code = |kind| matches!(kind, SectionKind::RunCodes | SectionKind::SingleCodes);
        let entries: usize = stored.sections.iter().filter(|it| is_code(it.kind)).map(|it| it.count).sum();
        let analysis = Analysis::of(bytes + self.list_bytes, HUNDREDTHS, move |column: NewColumn<'_>| {
            column.listed(stored.common, stored.sections)
        });
        analysis.with_codes(bytes + entries * ENTRY_PRICE)
    }
}

/// Encodes `values` as a section.
pub(super) fn section<W: Word>(kind: SectionKind, values: &[W]) -> NewSection {
    NewSection { kind, count: values.len(), bytes: sequence::encode(values) }
}
