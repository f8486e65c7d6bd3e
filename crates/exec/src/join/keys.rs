//! The form of the keys of a join, chosen when the build side is complete: as numbers where they fit 64 bits, hashed
//! otherwise.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use rowmill_base::Result;

use super::long_keys::LongKeys;
use super::packing::{PackScratch, Packing, Range};
use crate::numbers::{self, Width};

/// Least and greatest values of key columns.
#[derive(Clone, Debug)]
pub(super) struct KeyRanges {
    /// `None` for a column whose values are no numbers.
    columns: Vec<Option<(Width, Range)>>,
}

impl KeyRanges {
    pub(super) fn new(kinds: &[DataType]) -> KeyRanges {
        KeyRanges { columns: kinds.iter().map(|kind| numbers::width_of(kind).map(|width| (width, None))).collect() }
    }

    /// Extends the ranges to the values of `columns`.
    pub(super) fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        for (column, values) in self.columns.iter_mut().zip(columns) {
            let Some((width, range)) = column else { continue };
            *range = both(*range, range_of(*width, values)?);
        }
        Ok(())
    }

    /// Extends the ranges to those of `other`.
    pub(super) fn merge(&mut self, other: &KeyRanges) {
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

/// What keys are made of.
#[derive(Clone, Debug)]
pub(super) enum KeyForm {
    /// There are no key columns: all rows match by their keys.
    Every,
    /// A word is the key.
    Packed(Packing),
    /// A word is the hash of the key.
    Long { nulls_equal: bool },
}

impl KeyForm {
    /// The form for keys with these ranges, a long one if `column_by_column` they have to be compared.
    pub(super) fn new(ranges: &KeyRanges, nulls_equal: bool, column_by_column: bool) -> KeyForm {
        if ranges.columns.is_empty() {
            return KeyForm::Every;
        }
        let numbers = (!column_by_column).then(|| ranges.columns.iter().cloned().collect::<Option<Vec<_>>>());
        match numbers.flatten().and_then(|ranges| Packing::new(&ranges, nulls_equal)) {
            Some(packing) => KeyForm::Packed(packing),
            None => KeyForm::Long { nulls_equal },
        }
    }

    /// How many words there can be; `None` if they are hashes.
    pub(super) fn word_count(&self) -> Option<u64> {
        match self {
            KeyForm::Packed(packing) => Some(packing.keys()),
            KeyForm::Every | KeyForm::Long { .. } => None,
        }
    }

    /// Puts the words of rows into `words`, and gives their keys if these are longer.
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
            KeyForm::Packed(packing) => packing.pack(columns, scratch, words).map(|()| None),
            KeyForm::Long { nulls_equal } => {
                let keys = LongKeys::of(columns, rows, *nulls_equal)?;
                keys.hash(words);
                Ok(Some(keys))
            }
        }
    }
}
