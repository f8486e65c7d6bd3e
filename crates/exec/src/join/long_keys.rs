//! Keys that do not fit one number: texts, structures, or too many columns.
//!
//! Such keys are hashed. If hashes are equal, the columns are compared one by one. Values of a fixed size are kept as
//! numbers, texts stay where they are, and other values become bytes that are equal exactly if the values are.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanBufferBuilder, MAX_INLINE_VIEW_LEN};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, interleave};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use rowmill_base::{Error, Reservation, Result};

use super::columns::{compact, join_arrays};
use super::packing::{NO_KEY, each_null};
use crate::hash::{hash_of_bytes, hash_of_wide, mix};
use crate::numbers::{self, Width};
use crate::row_keys::with_canonical_floats;

/// The keys of rows.
#[derive(Debug)]
pub(crate) struct LongKeys {
    columns: Vec<LongColumn>,
    rows: usize,
    /// Whether NULL equals NULL.
    nulls_equal: bool,
}

/// One column of keys. A NULL is zero as a number; as bytes it has arbitrary content.
#[derive(Debug)]
struct LongColumn {
    values: LongValues,
    nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum LongValues {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
    Bytes(BinaryViewArray),
}

impl LongKeys {
    /// The keys of rows whose key columns are `columns`.
    pub(crate) fn of(columns: &[ArrayRef], rows: usize, nulls_equal: bool) -> Result<LongKeys> {
        let columns = columns.iter().map(LongColumn::of).collect::<Result<_>>()?;
        Ok(LongKeys { columns, rows, nulls_equal })
    }

    /// The keys of all `parts`, one after the other. Grows `memory` by the copied bytes.
    pub(super) fn join(parts: &[LongKeys], nulls_equal: bool, memory: &mut Reservation) -> Result<LongKeys> {
        let columns = (0..parts.first().map_or(0, |part| part.columns.len())).map(|index| {
            let parts: Vec<&LongColumn> = parts.iter().map(|part| &part.columns[index]).collect();
            LongColumn::join(&parts, memory)
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(LongKeys { columns, rows: parts.iter().map(|part| part.rows).sum(), nulls_equal })
    }

    /// The keys at some places: the number of a part, and a row of it. Grows `memory` by the copied bytes.
    pub(super) fn at_places(
        parts: &[&LongKeys],
        places: &[(usize, usize)],
        nulls_equal: bool,
        memory: &mut Reservation,
    ) -> Result<LongKeys> {
        let columns = (0..parts.first().map_or(0, |part| part.columns.len())).map(|index| {
            let parts: Vec<&LongColumn> = parts.iter().map(|part| &part.columns[index]).collect();
            LongColumn::at_places(&parts, places, memory)
        });
        Ok(LongKeys { columns: columns.collect::<Result<_>>()?, rows: places.len(), nulls_equal })
    }

    /// Bytes that were allocated for the keys.
    pub(super) fn bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.values.row_bytes() * self.rows as u64).sum()
    }

    /// Puts the hashes of all rows into `hashes`. A row that equals no row because of a NULL gets [`NO_KEY`].
    pub(crate) fn hash(&self, hashes: &mut Vec<u64>) {
        hashes.clear();
        hashes.resize(self.rows, 0);
        self.columns.iter().for_each(|column| column.hash(hashes));
        // `NO_KEY` is reserved, so a hash with this value must be changed.
        hashes.iter_mut().filter(|hash| **hash == NO_KEY).for_each(|hash| *hash = 0);
        if !self.nulls_equal {
            // A NULL in any column makes the whole key unequal to all others.
            for nulls in self.columns.iter().filter_map(|column| column.nulls.as_ref()) {
                each_null(nulls, |row| hashes[row] = NO_KEY);
            }
        }
    }

    /// Whether two rows have the same key. The caller must not ask this for a row that equals no row because of a NULL.
    pub(super) fn is_same(&self, row: usize, other: &LongKeys, other_row: usize) -> bool {
        let mut columns = self.columns.iter().zip(&other.columns);
        columns.all(|(column, other)| column.is_same(row, other, other_row))
    }

    /// Clears `same` for each row whose key differs from the key of its partner in `others`.
    pub(super) fn compare(&self, others: &[u32], other: &LongKeys, same: &mut [bool]) {
        for (column, other) in self.columns.iter().zip(&other.columns) {
            for (row, (same, other_row)) in same.iter_mut().zip(others).enumerate() {
                *same = *same && column.is_same(row, other, *other_row as usize);
            }
        }
    }

    /// Whether two keys may be equal if each NULL could be any value.
    pub(super) fn may_be_same(&self, row: usize, other: &LongKeys, other_row: usize) -> bool {
        self.columns.iter().zip(&other.columns).all(|(column, other)| {
            column.is_null(row) || other.is_null(other_row) || column.is_same(row, other, other_row)
        })
    }
}

impl LongColumn {
    fn of(values: &ArrayRef) -> Result<LongColumn> {
        let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let values = match numbers::width_of(values.data_type()) {
            Some(Width::Narrow) => {
                let mut numbers = Vec::with_capacity(values.len());
                numbers::extend_narrow(values, &mut numbers)?;
                LongValues::Narrow(with_zeros(numbers, nulls.as_ref()))
            }
            Some(Width::Wide) => {
                let mut numbers = Vec::with_capacity(values.len());
                numbers::extend_wide(values, &mut numbers)?;
                LongValues::Wide(with_zeros(numbers, nulls.as_ref()))
            }
            None => LongValues::Bytes(bytes_of(values)?),
        };
        Ok(LongColumn { values, nulls })
    }

    fn join(parts: &[&LongColumn], memory: &mut Reservation) -> Result<LongColumn> {
        let rows: usize = parts.iter().map(|part| part.values.len()).sum();
        let values = match &parts[0].values {
            LongValues::Narrow(_) => {
                memory.grow((rows * size_of::<u64>()) as u64)?;
                let mut all = Vec::with_capacity(rows);
                parts.iter().for_each(|part| all.extend_from_slice(part.values.narrow()));
                LongValues::Narrow(all)
            }
            LongValues::Wide(_) => {
                memory.grow((rows * size_of::<u128>()) as u64)?;
                let mut all = Vec::with_capacity(rows);
                parts.iter().for_each(|part| all.extend_from_slice(part.values.wide()));
                LongValues::Wide(all)
            }
            LongValues::Bytes(_) => {
                let parts: Vec<ArrayRef> =
                    parts.iter().map(|part| Arc::new(part.values.bytes().clone()) as ArrayRef).collect();
                LongValues::Bytes(join_arrays(&DataType::BinaryView, &parts, memory)?.as_binary_view().clone())
            }
        };
        Ok(LongColumn { values, nulls: join_nulls(parts, rows) })
    }

    fn at_places(parts: &[&LongColumn], places: &[(usize, usize)], memory: &mut Reservation) -> Result<LongColumn> {
        memory.grow(places.len() as u64 * parts[0].values.row_bytes())?;
        let values = match &parts[0].values {
            LongValues::Narrow(_) => {
                LongValues::Narrow(places.iter().map(|(part, row)| parts[*part].values.narrow()[*row]).collect())
            }
            LongValues::Wide(_) => {
                LongValues::Wide(places.iter().map(|(part, row)| parts[*part].values.wide()[*row]).collect())
            }
            LongValues::Bytes(_) => {
                let all: Vec<&dyn Array> = parts.iter().map(|part| part.values.bytes() as &dyn Array).collect();
                // The copies do not keep the texts of all rows in memory.
                let values = compact(&interleave(&all, places).map_err(failed)?);
                memory.grow(values.as_binary_view().total_buffer_bytes_used() as u64)?;
                LongValues::Bytes(values.as_binary_view().clone())
            }
        };
        let has_nulls = parts.iter().any(|part| part.nulls.is_some());
        let nulls = has_nulls.then(|| places.iter().map(|(part, row)| !parts[*part].is_null(*row)).collect());
        Ok(LongColumn { values, nulls })
    }

    fn hash(&self, hashes: &mut [u64]) {
        match &self.values {
            LongValues::Narrow(numbers) => {
                hashes.iter_mut().zip(numbers).for_each(|(hash, number)| *hash = mix(number ^ turned(*hash)));
            }
            LongValues::Wide(numbers) => hashes.iter_mut().zip(numbers).for_each(|(hash, number)| {
                *hash = mix(*number as u64 ^ mix((number >> 64) as u64 ^ turned(*hash)));
            }),
            LongValues::Bytes(values) => hashes.iter_mut().enumerate().for_each(|(row, hash)| {
                *hash = if self.is_null(row) { hash_of_bytes(&[], *hash) } else { hash_of_value(values, row, *hash) };
            }),
        }
    }

    #[inline]
    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    #[inline]
    fn is_same(&self, row: usize, other: &LongColumn, other_row: usize) -> bool {
        match (self.is_null(row), other.is_null(other_row)) {
            (false, false) => {}
            (is_null, is_other_null) => return is_null == is_other_null,
        }
        match (&self.values, &other.values) {
            (LongValues::Narrow(values), LongValues::Narrow(others)) => values[row] == others[other_row],
            (LongValues::Wide(values), LongValues::Wide(others)) => values[row] == others[other_row],
            (values, others) => are_same_bytes(values.bytes(), row, others.bytes(), other_row),
        }
    }
}

/// Whether two values are the same. Views have the length and the first bytes of a value, and short values as a whole,
/// so the bytes themselves are compared only if two long values begin alike.
#[inline]
fn are_same_bytes(values: &BinaryViewArray, row: usize, others: &BinaryViewArray, other_row: usize) -> bool {
    let (view, other) = (values.views()[row], others.views()[other_row]);
    // The lower half has the length and the first four bytes.
    if view as u64 != other as u64 {
        return false;
    }
    if view as u32 <= MAX_INLINE_VIEW_LEN { view == other } else { values.value(row) == others.value(other_row) }
}

/// The hash of a value. A short value is hashed by its view, which takes no look at bytes of varying length.
#[inline]
fn hash_of_value(values: &BinaryViewArray, row: usize, seed: u64) -> u64 {
    let view = values.views()[row];
    match view as u32 <= MAX_INLINE_VIEW_LEN {
        true => hash_of_wide(view, seed),
        false => hash_of_bytes(values.value(row), seed),
    }
}

/// The reason why a column always has the form that is asked for.
const ONE_TYPE: &str = "the key columns of both sides and of all batches have one type";

impl LongValues {
    fn len(&self) -> usize {
        match self {
            LongValues::Narrow(numbers) => numbers.len(),
            LongValues::Wide(numbers) => numbers.len(),
            LongValues::Bytes(values) => values.len(),
        }
    }

    fn row_bytes(&self) -> u64 {
        match self {
            LongValues::Narrow(_) => size_of::<u64>() as u64,
            LongValues::Wide(_) | LongValues::Bytes(_) => size_of::<u128>() as u64,
        }
    }

    fn narrow(&self) -> &[u64] {
        match self {
            LongValues::Narrow(numbers) => numbers,
            _ => unreachable!("{ONE_TYPE}"),
        }
    }

    fn wide(&self) -> &[u128] {
        match self {
            LongValues::Wide(numbers) => numbers,
            _ => unreachable!("{ONE_TYPE}"),
        }
    }

    #[inline]
    fn bytes(&self) -> &BinaryViewArray {
        match self {
            LongValues::Bytes(values) => values,
            _ => unreachable!("{ONE_TYPE}"),
        }
    }
}

/// Rotates a hash, so that equal columns do not cancel each other out.
#[inline]
fn turned(hash: u64) -> u64 {
    hash.rotate_left(29)
}

/// Sets the number of each NULL to zero, so that all NULLs have the same hash.
fn with_zeros<N: Default>(mut numbers: Vec<N>, nulls: Option<&NullBuffer>) -> Vec<N> {
    if let Some(nulls) = nulls {
        each_null(nulls, |row| numbers[row] = N::default());
    }
    numbers
}

fn join_nulls(parts: &[&LongColumn], rows: usize) -> Option<NullBuffer> {
    parts.iter().any(|part| part.nulls.is_some()).then(|| {
        let mut valid = BooleanBufferBuilder::new(rows);
        for part in parts {
            match &part.nulls {
                Some(nulls) => valid.append_buffer(nulls.inner()),
                None => valid.append_n(part.values.len(), true),
            }
        }
        NullBuffer::new(valid.finish())
    })
}

/// Values as bytes that are equal exactly if the values are. The bytes of a NULL are arbitrary.
fn bytes_of(values: &ArrayRef) -> Result<BinaryViewArray> {
    Ok(match values.data_type() {
        // Views share the buffers of the array, so no bytes are copied.
        DataType::BinaryView => values.as_binary_view().clone(),
        DataType::Utf8View => values.as_string_view().clone().to_binary_view(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            cast(values, &DataType::BinaryView).map_err(failed)?.as_binary_view().clone()
        }
        _ => BinaryViewArray::from(&rows_of(values)?),
    })
}

/// Values of any type as the bytes of Arrow rows with one column.
fn rows_of(values: &ArrayRef) -> Result<BinaryArray> {
    // Floats inside of structures must have one form for 0 and one for NaN, because bytes are compared.
    let values = with_canonical_floats(values).map_err(failed)?;
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())]).map_err(failed)?;
    converter.convert_columns(&[values]).and_then(|rows| rows.try_into_binary()).map_err(failed)
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("the keys of a join: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{FixedSizeBinaryArray, Float64Array, Int32Array, ListArray, StringViewArray, StructArray};
    use arrow::datatypes::{Field, Float64Type};
    use rowmill_base::Broker;

    use super::*;

    fn columns() -> Vec<ArrayRef> {
        let long = "a text that is longer than a view";
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(1), None, Some(0)]));
        let texts = vec![Some(long), Some("b"), Some(long), Some("b"), None];
        let ids = [[1_u8; 16], [2; 16], [1; 16], [2; 16], [3; 16]];
        let lists = [Some(0.0), None, Some(-0.0), None, Some(1.0)].map(|value| Some(vec![value, Some(f64::NAN)]));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists));
        let field = Arc::new(Field::new("x", DataType::Float64, true));
        let floats: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(f64::NAN), None, Some(-f64::NAN), None, Some(0.0)]));
        vec![
            numbers,
            Arc::new(StringViewArray::from(texts)),
            Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).expect("sixteen bytes each")),
            lists,
            Arc::new(StructArray::from(vec![(field, floats)])),
        ]
    }

    #[test]
    fn equal_rows_have_equal_keys_and_hashes() {
        for columns in columns().into_iter().map(|column| vec![column]).chain([columns()]) {
            let keys = LongKeys::of(&columns, 5, true).expect("keys");
            let mut hashes = Vec::new();
            keys.hash(&mut hashes);
            for (row, other) in [(0, 2), (1, 3)] {
                assert!(keys.is_same(row, &keys, other) && hashes[row] == hashes[other], "{row} {columns:?}");
            }
            for row in 0..4 {
                assert!(!keys.is_same(row, &keys, 4) && hashes[row] != hashes[4], "{row} {columns:?}");
            }
        }
    }

    #[test]
    fn null_equals_nothing_unless_asked_to() {
        let columns = &columns()[..2];
        let mut hashes = Vec::new();
        LongKeys::of(columns, 5, false).expect("keys").hash(&mut hashes);
        assert_eq!([1, 3, 4].map(|row| hashes[row]), [NO_KEY; 3]);
        LongKeys::of(columns, 5, true).expect("keys").hash(&mut hashes);
        assert!(!hashes.contains(&NO_KEY));
    }

    #[test]
    fn null_may_be_equal_to_any_value() {
        let keys = LongKeys::of(&columns()[..2], 5, false).expect("keys");
        assert!(keys.may_be_same(1, &keys, 3));
        assert!(!keys.may_be_same(0, &keys, 1));
        assert!(!keys.may_be_same(0, &keys, 4));
        assert!(keys.may_be_same(1, &keys, 4));
    }

    #[test]
    fn joined_parts_have_the_same_keys_as_the_whole() {
        let columns = columns();
        let part = |start: usize, rows: usize| {
            let columns: Vec<ArrayRef> = columns.iter().map(|column| column.slice(start, rows)).collect();
            LongKeys::of(&columns, rows, true).expect("keys")
        };
        let (whole, broker) = (part(0, 5), Broker::new(1 << 20));
        let mut memory = broker.reservation("test");
        let joined = LongKeys::join(&[part(0, 2), part(2, 3)], true, &mut memory).expect("memory");
        assert!((0..5).all(|row| joined.is_same(row, &whole, row)));
        assert_eq!(joined.bytes(), 5 * (8 + 4 * 16));
        let (first, second) = (part(0, 2), part(2, 3));
        let some = LongKeys::at_places(&[&first, &second], &[(1, 2), (0, 1), (1, 0)], true, &mut memory).expect("rows");
        assert!([4, 1, 2].into_iter().enumerate().all(|(row, other)| some.is_same(row, &whole, other)));
        assert!(memory.bytes() >= joined.bytes());
        let (mut hashes, mut of_whole) = (Vec::new(), Vec::new());
        joined.hash(&mut hashes);
        whole.hash(&mut of_whole);
        assert_eq!(hashes, of_whole);
    }
}
