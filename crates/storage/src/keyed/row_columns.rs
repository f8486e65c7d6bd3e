//! Batches of rows: encodes Arrow arrays as rows, and decodes rows to arrays.
//!
//! Rows are decoded column by column. The type of a column is examined once. Its location is computed once for all rows
//! with the same head, and usually all rows have the same. So the loop only loads a value and a NULL bit.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewBuilder, BooleanArray, BooleanBufferBuilder, FixedSizeBinaryBuilder, NullBufferBuilder,
    new_null_array,
};
use arrow::datatypes::{ArrowNativeType, i256};
use rowmill_base::{Error, Result, SqlType};

use super::form::ValueForm;
use super::natives::native_array;
use super::nested::{decode_nested, json_of_texts};
use super::row::{ColumnInRow, RowLayout, RowView, bool_of, interval_of, not_text};
use super::unchecked_texts::TextViews;
use super::{ByteRows, ColumnValues, ValueRef};
use crate::open_run::concat_values;
use crate::wide::of_ordered_bytes;

impl RowLayout {
    /// Adds each row of `columns`, which must have one array per column of the layout. Fewer arrays are the first
    /// columns.
    pub fn encode_rows(&self, rows: usize, columns: &[ArrayRef], out: &mut ByteRows) -> Result<()> {
        let values = columns.iter().zip(&self.columns).map(|(array, column)| ColumnValues::new(array, &column.kind));
        let values = values.collect::<Result<Vec<_>>>()?;
        for row in 0..rows {
            out.push_with(|bytes| self.encode_by(columns.len(), |column| Ok(values[column].get(row)), bytes))?;
        }
        Ok(())
    }

    /// Decodes the `wanted` columns of `rows`. Each column comes with the value that rows older than it have.
    pub fn decode_columns(&self, rows: &[&[u8]], wanted: &[(usize, ValueRef<'_>)]) -> Result<Vec<ArrayRef>> {
        // We check every row once, so that reading the columns needs no checks of slots.
        for row in rows {
            RowView::new(self, row)?;
        }
        wanted
            .iter()
            .map(|(column, missing)| ColumnOfRows { layout: self, column: *column, rows }.read(*missing))
            .collect()
    }
}

/// One column of rows. The rows must have been checked.
struct ColumnOfRows<'a> {
    layout: &'a RowLayout,
    column: usize,
    rows: &'a [&'a [u8]],
}

/// The stored field of a row.
enum Field<'a> {
    /// The row is older than the column.
    Absent,
    Null,
    /// The location of the field, and the row.
    At(&'a ColumnInRow, &'a [u8]),
}

impl ColumnOfRows<'_> {
    fn read(&self, missing: ValueRef<'_>) -> Result<ArrayRef> {
        // The missing value in the type of the column. `check` below makes sure that it fits.
        let int = match missing {
            ValueRef::Int(value) => value,
            _ => 0,
        };
        let uint = match missing {
            ValueRef::UInt(value) => value,
            _ => 0,
        };
        let float = match missing {
            ValueRef::Float(value) => value,
            _ => 0.0,
        };
        let decimal = match missing {
            ValueRef::Decimal(value) => value,
            _ => 0,
        };
        let interval = match missing {
            ValueRef::Interval(value) => value,
            _ => interval_of([0; 16]),
        };
        let form = self.layout.columns[self.column].form;
        form.check(missing)?;
        let there = !missing.is_null();
        match form {
            ValueForm::Bool => self.bools(missing),
            ValueForm::Int { width: 1 } => self.natives(i8::from_le_bytes, there, int as i8),
            ValueForm::Int { width: 2 } => self.natives(i16::from_le_bytes, there, int as i16),
            ValueForm::Int { width: 4 } => self.natives(i32::from_le_bytes, there, int as i32),
            ValueForm::Int { .. } => self.natives(i64::from_le_bytes, there, int),
            ValueForm::UInt { width: 1 } => self.natives(u8::from_le_bytes, there, uint as u8),
            ValueForm::UInt { width: 2 } => self.natives(u16::from_le_bytes, there, uint as u16),
            ValueForm::UInt { width: 4 } => self.natives(u32::from_le_bytes, there, uint as u32),
            ValueForm::UInt { .. } => self.natives(u64::from_le_bytes, there, uint),
            ValueForm::Float32 => self.natives(f32::from_le_bytes, there, float as f32),
            ValueForm::Float64 => self.natives(f64::from_le_bytes, there, float),
            ValueForm::Decimal { width: 8, .. } => {
                self.natives(|bytes| i128::from(i64::from_le_bytes(bytes)), there, decimal)
            }
            ValueForm::Decimal { .. } => self.natives(i128::from_le_bytes, there, decimal),
            ValueForm::Interval => self.natives(interval_of, there, interval),
            ValueForm::Uuid => {
                let mut builder = FixedSizeBinaryBuilder::with_capacity(self.rows.len(), 16);
                self.each(|field| {
                    let value = match (field, missing) {
                        (Field::At(place, row), _) => Some(place.fixed::<16>(row)),
                        (Field::Absent, ValueRef::Bytes(value)) => value.first_chunk().copied(),
                        _ => None,
                    };
                    match value {
                        Some(value) => builder.append_value(value).expect("the builder takes 16 bytes"),
                        None => builder.append_null(),
                    }
                    Ok(())
                })?;
                Ok(Arc::new(builder.finish()))
            }
            ValueForm::Wide { .. } => {
                let wide = match missing {
                    ValueRef::Bytes(bytes) => bytes.try_into().map(of_ordered_bytes).unwrap_or_default(),
                    _ => i256::ZERO,
                };
                self.natives(of_ordered_bytes, there, wide)
            }
            ValueForm::Text => {
                let mut texts = TextViews::with_capacity(self.rows.len());
                self.each(|field| {
                    let text = match (field, missing) {
                        (Field::At(place, row), _) => place.string(row)?,
                        (Field::Absent, ValueRef::Text(value)) => value.as_bytes(),
                        _ => {
                            texts.push_null();
                            return Ok(());
                        }
                    };
                    if texts.push(text) { Ok(()) } else { Err(not_text()) }
                })?;
                let texts = texts.finish();
                match self.kind() {
                    SqlType::Json => json_of_texts(texts),
                    _ => Ok(Arc::new(texts)),
                }
            }
            ValueForm::Blob => {
                let mut builder = BinaryViewBuilder::with_capacity(self.rows.len());
                self.each(|field| {
                    match (field, missing) {
                        (Field::At(place, row), _) => builder.append_value(place.string(row)?),
                        (Field::Absent, ValueRef::Bytes(value)) => builder.append_value(value),
                        _ => builder.append_null(),
                    }
                    Ok(())
                })?;
                Ok(Arc::new(builder.finish()))
            }
            ValueForm::Nested => self.nested(missing),
        }
    }

    /// Calls `each` with the field of every row.
    #[inline]
    fn each(&self, mut each: impl FnMut(Field<'_>) -> Result<()>) -> Result<()> {
        // The location depends only on the head, so it is computed again only when the head changes.
        let Some(first) = self.rows.first() else { return Ok(()) };
        let head_of = |row: &[u8]| u16::from_le_bytes(*row.first_chunk().expect("a checked row should have a head"));
        let mut head = head_of(first);
        let mut place = self.layout.place(head, self.column);
        for row in self.rows {
            if head_of(row) != head {
                head = head_of(row);
                place = self.layout.place(head, self.column);
            }
            each(match &place {
                None => Field::Absent,
                Some(place) if place.is_null(row) => Field::Null,
                Some(place) => Field::At(place, row),
            })?;
        }
        Ok(())
    }

    fn kind(&self) -> &SqlType {
        &self.layout.columns[self.column].kind
    }

    fn natives<T: ArrowNativeType, const N: usize>(
        &self,
        value: impl Fn([u8; N]) -> T,
        is_there: bool,
        missing: T,
    ) -> Result<ArrayRef> {
        let mut values = Vec::with_capacity(self.rows.len());
        let mut nulls = NullBufferBuilder::new(self.rows.len());
        self.each(|field| {
            let (is_value, value) = match field {
                Field::At(place, row) => (true, value(place.fixed(row))),
                Field::Null => (false, T::default()),
                Field::Absent => (is_there, missing),
            };
            values.push(value);
            nulls.append(is_value);
            Ok(())
        })?;
        native_array(self.kind().arrow(), values, nulls.finish())
    }

    fn bools(&self, missing: ValueRef<'_>) -> Result<ArrayRef> {
        let mut values = BooleanBufferBuilder::new(self.rows.len());
        let mut nulls = NullBufferBuilder::new(self.rows.len());
        self.each(|field| {
            let value = match (field, missing) {
                (Field::At(place, row), _) => Some(bool_of(place.fixed(row))?),
                (Field::Absent, ValueRef::Bool(value)) => Some(value),
                _ => None,
            };
            values.append(value.unwrap_or_default());
            nulls.append(value.is_some());
            Ok(())
        })?;
        Ok(Arc::new(BooleanArray::new(values.finish(), nulls.finish())))
    }

    /// Decodes each value to an array of its own, which is slow. Such columns are rare in keyed tables.
    fn nested(&self, missing: ValueRef<'_>) -> Result<ArrayRef> {
        let null = new_null_array(&self.kind().arrow(), 1);
        // An empty part gives the result its type if there are no rows.
        let mut parts = vec![null.slice(0, 0)];
        self.each(|field| {
            parts.push(match (field, missing) {
                (Field::At(place, row), _) => decode_nested(place.string(row)?, self.kind())?,
                (Field::Absent, ValueRef::Bytes(value)) => decode_nested(value, self.kind())?,
                _ => null.clone(),
            });
            Ok(())
        })?;
        let values = concat_values(&parts)?;
        match values.len() == self.rows.len() {
            true => Ok(values),
            false => Err(Error::internal("each stored value of a nested column must be one row")),
        }
    }
}
