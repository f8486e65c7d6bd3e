//! The form of a join's keys. It is chosen when the build side is complete: numbers if the keys fit 64 bits, otherwise
//! hashes.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use rowmill_base::Result;

use super::long_keys::LongKeys;
use super::packing::{PackScratch, Packing, Range};
use crate::numbers::{self, Width};

/// The least and greatest values of key columns.
#[derive(Clone, Debug)]
pub(super) struct KeyValueRanges {
    /// `None` for a column whose values are not numbers.
    columns: Vec<Option<(Width, Range)>>,
}

impl KeyValueRanges {
    pub(super) fn new(kinds: &[DataType]) -> KeyValueRanges {
        KeyValueRanges {
            columns: kinds.iter().map(|kind| numbers::width_of(kind).map(|width| (width, None))).collect(),
        }
    }

    /// Extends the ranges by the values of `columns`.
    pub(super) fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        for (column, values) in self.columns.iter_mut().zip(columns) {
            let Some((width, range)) = column else { continue };
            *range = both(*range, range_of(*width, values)?);
        }
        Ok(())
    }

    /// Extends the ranges by those of `other`.
    pub(super) fn merge(&mut self, other: &KeyValueRanges) {
        for (column, other) in self.columns.iter_mut().flatten().zip(other.columns.iter().flatten()) {
            column.1 = both(column.1, other.1);
        }
    }
}

fn range_of(width: Width, values: &ArrayRef) -> Result<Range> {
    Ok(match width {
        Width::Narrow => {
            let mut found = Vec::with_capacity(values.len());
            numbers::extend_narrow(values, &mut found)?;
            numbers::range(&found, values.nulls()).map(|(min, max)| (min.into(), max.into()))
        }
        Width::Wide => {
            let mut found = Vec::with_capacity(values.len());
            numbers::extend_wide(values, &mut found)?;
            numbers::range(&found, values.nulls())
        }
    })
}

fn both(left: Range, right: Range) -> Range {
    match (left, right) {
        (Some(left), Some(right)) => Some((left.0.min(right.0), left.1.max(right.1))),
        (range, None) | (None, range) => range,
    }
}

/// The form of keys.
#[derive(Clone, Debug)]
pub(super) enum KeyForm {
    /// The join has no key columns, so all rows match by their keys.
    Every,
    /// The join has no key columns, but its rows are indexed. Every row has the same word.
    One,
    /// A word is the whole key.
    Packed(Packing),
    /// A word is the hash of the key.
    Long { nulls_equal: bool },
}

impl KeyForm {
    /// Chooses the form for keys with these ranges. With `column_by_column` keys must be compared by columns, so the
    /// form is long. With `is_indexed`, rows are indexed even if there are no keys.
    pub(super) fn new(ranges: &KeyValueRanges, nulls_equal: bool, column_by_column: bool, is_indexed: bool) -> KeyForm {
        if ranges.columns.is_empty() {
            return if is_indexed { KeyForm::One } else { KeyForm::Every };
        }
        // A packed key cannot be compared by columns, and a column that is not a number cannot be packed.
        let numbers = (!column_by_column).then(|| ranges.columns.iter().cloned().collect::<Option<Vec<_>>>());
        match numbers.flatten().and_then(|ranges| Packing::new(&ranges, nulls_equal)) {
            Some(packing) => KeyForm::Packed(packing),
            None => KeyForm::Long { nulls_equal },
        }
    }

    /// The number of possible words; `None` if words are hashes.
    pub(super) fn word_count(&self) -> Option<u64> {
        match self {
            KeyForm::Packed(packing) => Some(packing.keys()),
            KeyForm::One => Some(1),
            KeyForm::Every | KeyForm::Long { .. } => None,
        }
    }

    /// Puts the words of rows into `words`. Returns the keys if a word is not the whole key.
    pub(super) fn words(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        scratch: &mut PackScratch,
        words: &mut Vec<u64>,
    ) -> Result<Option<LongKeys>> {
        match self {
            KeyForm::Every => {
                words.clear();
                Ok(None)
            }
            KeyForm::One => {
                words.clear();
                words.resize(rows, 0);
                Ok(None)
            }
            KeyForm::Packed(packing) => packing.pack(columns, scratch, words).map(|()| None),
            KeyForm::Long { nulls_equal } => {
                let keys = LongKeys::of(columns, rows, *nulls_equal)?;
                keys.hash(words);
                Ok(Some(keys))
            }
        }
    }
}
