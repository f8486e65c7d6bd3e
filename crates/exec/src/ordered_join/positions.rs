//! Positions in a form that sorts like the values: numbers, or bytes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, UInt32Array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use rowmill_base::{Error, Result};

use crate::join::own_bytes;
use crate::row_keys::RowKeys;
use crate::sort::{SortNumbers, numbers_of, width_of};

/// One position.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Position {
    Narrow(u64),
    Wide(u128),
    Bytes(Vec<u8>),
}

/// The position of the first row; `None` without rows. That of a NULL is arbitrary.
pub(crate) fn first_position(values: &ArrayRef) -> Result<Option<Position>> {
    if values.is_empty() {
        return Ok(None);
    }
    Ok(Some(match Positions::of(&values.slice(0, 1))? {
        Positions::Narrow(numbers) => Position::Narrow(numbers[0]),
        Positions::Wide(numbers) => Position::Wide(numbers[0]),
        Positions::Bytes(values) => Position::Bytes(values.value(0).to_vec()),
    }))
}

/// The positions of rows. That of a NULL is arbitrary.
#[derive(Debug)]
pub(crate) enum Positions {
    /// Numbers of up to 64 bits.
    Narrow(Vec<u64>),
    /// Numbers of 128 bits.
    Wide(Vec<u128>),
    /// Texts and blobs, and values of other types in the form of bytes.
    Bytes(BinaryViewArray),
}

impl Positions {
    /// The positions of values.
    pub(super) fn of(values: &ArrayRef) -> Result<Positions> {
        if width_of(values.data_type()).is_some() {
            return Ok(match numbers_of(values)? {
                SortNumbers::Narrow(numbers) => Positions::Narrow(numbers),
                SortNumbers::Wide(numbers) => Positions::Wide(numbers),
            });
        }
        Ok(Positions::Bytes(match values.data_type() {
            // Views share the buffers of the array, so no bytes are copied.
            DataType::BinaryView => values.as_binary_view().clone(),
            DataType::Utf8View => values.as_string_view().clone().to_binary_view(),
            kind => {
                let rows = RowKeys::new([kind.clone()])?.encode(std::slice::from_ref(values))?;
                let mut bytes = BinaryViewBuilder::with_capacity(values.len());
                (0..values.len()).for_each(|row| bytes.append_value(rows.get(row)));
                bytes.finish()
            }
        }))
    }

    /// The positions of all `parts`, one after the other. All parts must have one form.
    pub(super) fn join(parts: Vec<Positions>) -> Result<Positions> {
        const ONE_FORM: &str = "all positions of a join have one form";
        let Some(first) = parts.first() else { return Ok(Positions::Narrow(Vec::new())) };
        let rows = parts.iter().map(Positions::len).sum();
        Ok(match first {
            Positions::Narrow(_) => {
                let mut all = Vec::with_capacity(rows);
                parts.iter().for_each(|part| match part {
                    Positions::Narrow(part) => all.extend_from_slice(part),
                    _ => unreachable!("{ONE_FORM}"),
                });
                Positions::Narrow(all)
            }
            Positions::Wide(_) => {
                let mut all = Vec::with_capacity(rows);
                parts.iter().for_each(|part| match part {
                    Positions::Wide(part) => all.extend_from_slice(part),
                    _ => unreachable!("{ONE_FORM}"),
                });
                Positions::Wide(all)
            }
            Positions::Bytes(_) => {
                let parts = parts.iter().map(|part| match part {
                    Positions::Bytes(part) => part as &dyn Array,
                    _ => unreachable!("{ONE_FORM}"),
                });
                Positions::Bytes(concat(&parts.collect::<Vec<_>>()).map_err(failed)?.as_binary_view().clone())
            }
        })
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Positions::Narrow(numbers) => numbers.len(),
            Positions::Wide(numbers) => numbers.len(),
            Positions::Bytes(values) => values.len(),
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        (match self {
            Positions::Narrow(numbers) => numbers.capacity() * size_of::<u64>(),
            Positions::Wide(numbers) => numbers.capacity() * size_of::<u128>(),
            Positions::Bytes(values) => own_bytes(&(Arc::new(values.clone()) as ArrayRef)),
        }) as u64
    }

    /// The bytes of a position of `kind` without those of long texts.
    pub(super) fn bytes_of_row(kind: &DataType) -> u64 {
        match width_of(kind) {
            Some(..=64) => size_of::<u64>() as u64,
            _ => size_of::<u128>() as u64,
        }
    }
}

/// The values at `rows`.
pub(super) fn values_at(values: &BinaryViewArray, rows: &[u32]) -> Result<BinaryViewArray> {
    let rows = UInt32Array::from(rows.to_vec());
    Ok(take(values, &rows, None).map_err(failed)?.as_binary_view().clone())
}

pub(super) fn failed(error: ArrowError) -> Error {
    Error::internal(format!("the order of a join: {error}"))
}
