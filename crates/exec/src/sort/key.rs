//! Keys: the values of the key columns as bits of entries.
//!
//! A column of fixed size takes the bits of its numbers (numbers.rs) and one bit above them that puts NULLs first or
//! last. The columns follow each other, with the first key in the highest bits. Keys that do not fit an entry, or have
//! no fixed size, are long keys: the entry holds only their first bytes (long.rs).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use rowmill_base::Result;

use super::entry::{Entry, RowPlace, Wide};
use super::long::{LongKeys, LongLayout};
use super::numbers::{SortNumbers, numbers_of, width_of};
use super::{SortKey, options};

/// The key columns, and the form of their keys.
#[derive(Debug)]
pub(super) struct KeyLayout {
    pub(super) keys: Vec<SortKey>,
    form: SortKeyForm,
}

#[derive(Debug)]
enum SortKeyForm {
    /// The entry holds the bits of all columns.
    Fixed(Vec<FixedColumn>),
    /// The entry holds only the first bytes of the key.
    Long(LongLayout),
}

/// The bits of a column in a key.
#[derive(Debug)]
struct FixedColumn {
    width: u32,
    /// The number of bits of the key below this column.
    shift: u32,
    options: SortOptions,
}

impl KeyLayout {
    /// Chooses the layout for `keys`, which are columns of `schema`. Fails for a type that has no order.
    pub(super) fn new(keys: Vec<SortKey>, schema: &SchemaRef) -> Result<KeyLayout> {
        let kinds: Vec<&DataType> = keys.iter().map(|key| schema.field(key.column).data_type()).collect();
        let widths: Option<Vec<u32>> = kinds.iter().map(|kind| width_of(kind)).collect();
        let form = match widths {
            // Prefer the smallest entry that fits, because sorting moves entries several times.
            Some(widths) if bits_of(&widths) <= u128::KEY_BITS => {
                SortKeyForm::Fixed(fixed_columns(&keys, &widths, u128::KEY_BITS))
            }
            Some(widths) if bits_of(&widths) <= Wide::KEY_BITS => {
                SortKeyForm::Fixed(fixed_columns(&keys, &widths, Wide::KEY_BITS))
            }
            _ => SortKeyForm::Long(LongLayout::new(&keys, &kinds)?),
        };
        Ok(KeyLayout { keys, form })
    }

    /// Whether keys fit the smaller entries.
    pub(super) fn is_narrow(&self) -> bool {
        match &self.form {
            SortKeyForm::Fixed(columns) => {
                let widths: Vec<u32> = columns.iter().map(|column| column.width).collect();
                bits_of(&widths) <= u128::KEY_BITS
            }
            SortKeyForm::Long(_) => false,
        }
    }

    /// Returns the key columns of a batch.
    pub(super) fn columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.keys.iter().map(|key| Arc::clone(batch.column(key.column))).collect()
    }

    /// Appends an entry for each row of part `part` to `entries`. `columns` are the key columns of the part. Returns
    /// the long keys if the keys have that form.
    pub(super) fn add_entries<E: Entry>(
        &self,
        columns: &[ArrayRef],
        part: usize,
        entries: &mut Vec<E>,
    ) -> Result<Option<LongKeys>> {
        // Begin with the places. The bits of the keys are added column by column.
        let first = entries.len();
        entries.extend((0..columns[0].len()).map(|row| E::at(RowPlace { part, row })));
        let entries = &mut entries[first..];
        match &self.form {
            SortKeyForm::Fixed(fixed) => {
                for (fixed, column) in fixed.iter().zip(columns) {
                    fixed.add(column, entries)?;
                }
                Ok(None)
            }
            SortKeyForm::Long(long) => {
                let keys = long.keys(columns)?;
                long.add(&keys, entries);
                Ok(Some(keys))
            }
        }
    }

    /// The layout of long keys; `None` if keys fit their entries.
    pub(super) fn long(&self) -> Option<&LongLayout> {
        match &self.form {
            SortKeyForm::Fixed(_) => None,
            SortKeyForm::Long(long) => Some(long),
        }
    }
}

/// The number of bits of a key with columns of these widths, including the bits for NULL.
fn bits_of(widths: &[u32]) -> u32 {
    widths.iter().map(|width| width + 1).sum()
}

/// Places columns of these widths in the highest bits of a key of `key_bits`.
fn fixed_columns(keys: &[SortKey], widths: &[u32], key_bits: u32) -> Vec<FixedColumn> {
    let column = |(number, key): (usize, &SortKey)| FixedColumn {
        width: widths[number],
        shift: key_bits - bits_of(&widths[..=number]),
        options: options(key),
    };
    keys.iter().enumerate().map(column).collect()
}

impl FixedColumn {
    /// Adds the bits of the values to the entries of their rows.
    fn add<E: Entry>(&self, values: &ArrayRef, entries: &mut [E]) -> Result<()> {
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        match numbers_of(values)? {
            SortNumbers::Narrow(numbers) => self.add_numbers(&numbers, nulls, entries),
            SortNumbers::Wide(numbers) => self.add_numbers(&numbers, nulls, entries),
        }
        Ok(())
    }

    fn add_numbers<E: Entry, N: Copy + Into<u128>>(
        &self,
        numbers: &[N],
        nulls: Option<&NullBuffer>,
        entries: &mut [E],
    ) {
        let all = u128::MAX >> (u128::BITS - self.width);
        // Inverting the bits of a number reverses its order. The rank above it is not inverted, because NULLS FIRST
        // does not depend on the direction.
        let flip = if self.options.descending { all } else { 0 };
        let rank = |is_null: bool| E::of_key(u128::from(is_null != self.options.nulls_first), self.shift + self.width);
        let (null, value) = (rank(true), rank(false));
        let key = |number: N| {
            let mut key = value;
            key |= E::of_key(number.into() ^ flip, self.shift);
            key
        };
        let rows = entries.iter_mut().zip(numbers);
        match nulls {
            None => rows.for_each(|(entry, number)| *entry |= key(*number)),
            Some(nulls) => rows.zip(nulls).for_each(|((entry, number), is_value)| {
                *entry |= if is_value { key(*number) } else { null };
            }),
        }
    }
}
