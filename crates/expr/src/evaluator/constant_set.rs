//! The constants of an IN list as a set, in which each row's value is looked up.

use std::hash::Hash;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type, i256,
};
use hashbrown::HashSet;
use rowmill_base::{Error, Result};
use rowmill_plan::Constant;

/// A set of values of one type, with a flag for NULL.
#[derive(Debug)]
pub(super) struct ConstantSet {
    values: ConstantValues,
    has_null: bool,
}

#[derive(Debug)]
enum ConstantValues {
    /// Whole numbers within a narrow range: bit `i` means `least + i`.
    Range {
        least: i64,
        bits: BooleanBuffer,
    },
    /// Whole numbers, dates and times. An unsigned number is stored by its bits.
    Integers(HashSet<i64>),
    Decimals(HashSet<i128>),
    WideDecimals(HashSet<i256>),
    /// Doubles, stored by the bits that all equal doubles share.
    Floats(HashSet<u64>),
    Bytes(HashSet<Box<[u8]>>),
    Booleans([bool; 2]),
}

/// The widest range that is stored as bits: 8 KiB. The bits should stay in the fastest cache.
const RANGE_MAX: u64 = 1 << 16;

/// Evaluates `$body` for an array of integers of at most 64 bits. `$values` are its values, and `$wide` converts one of
/// them to 64 bits. Evaluates `$otherwise` for any other array.
macro_rules! with_integers {
    ($array:expr, |$values:ident, $wide:ident| $body:expr, $otherwise:expr) => {{
        macro_rules! with {
            ($kind:ty, $native:ty) => {{
                let $values: &[$native] = $array.as_primitive::<$kind>().values();
                #[allow(clippy::cast_lossless, reason = "one cast for all widths")]
                let $wide = |value: $native| value as i64;
                $body
            }};
        }
        match $array.data_type() {
            DataType::Int8 => with!(Int8Type, i8),
            DataType::Int16 => with!(Int16Type, i16),
            DataType::Int32 => with!(Int32Type, i32),
            DataType::Int64 => with!(Int64Type, i64),
            DataType::UInt8 => with!(UInt8Type, u8),
            DataType::UInt16 => with!(UInt16Type, u16),
            DataType::UInt32 => with!(UInt32Type, u32),
            DataType::UInt64 => with!(UInt64Type, u64),
            DataType::Date32 => with!(Date32Type, i32),
            DataType::Time64(TimeUnit::Microsecond) => with!(Time64MicrosecondType, i64),
            DataType::Timestamp(TimeUnit::Second, _) => with!(TimestampSecondType, i64),
            DataType::Timestamp(TimeUnit::Millisecond, _) => with!(TimestampMillisecondType, i64),
            DataType::Timestamp(TimeUnit::Microsecond, _) => with!(TimestampMicrosecondType, i64),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => with!(TimestampNanosecondType, i64),
            _ => $otherwise,
        }
    }};
}

impl ConstantSet {
    /// Makes a set of `constants`, or `None` if values of their type `kind` cannot be hashed.
    pub(super) fn new(constants: &[&Constant], kind: &DataType) -> Option<ConstantSet> {
        let valid: Vec<&ArrayRef> =
            constants.iter().filter(|value| !value.is_null()).map(|value| value.array()).collect();
        // A NULL in the list never equals a value, but it makes "not found" unknown.
        let has_null = valid.len() < constants.len();
        let values = match kind {
            DataType::Boolean => {
                let has = |wanted: bool| valid.iter().any(|value| value.as_boolean().value(0) == wanted);
                ConstantValues::Booleans([has(false), has(true)])
            }
            DataType::Float32 => {
                ConstantValues::Floats(first_values::<Float32Type, _>(&valid, |value| float_bits(value.into())))
            }
            DataType::Float64 => ConstantValues::Floats(first_values::<Float64Type, _>(&valid, float_bits)),
            DataType::Decimal128(..) => {
                ConstantValues::Decimals(first_values::<Decimal128Type, _>(&valid, |value| value))
            }
            DataType::Decimal256(..) => {
                ConstantValues::WideDecimals(first_values::<Decimal256Type, _>(&valid, |value| value))
            }
            DataType::Utf8View => ConstantValues::Bytes(
                valid.iter().map(|text| text.as_string_view().value(0).as_bytes().into()).collect(),
            ),
            DataType::BinaryView => {
                ConstantValues::Bytes(valid.iter().map(|blob| blob.as_binary_view().value(0).into()).collect())
            }
            DataType::FixedSizeBinary(_) => {
                ConstantValues::Bytes(valid.iter().map(|uuid| uuid.as_fixed_size_binary().value(0).into()).collect())
            }
            _ => {
                // We test an array of the type, because `valid` is empty if all constants are NULL.
                first_integer(&arrow::array::new_null_array(kind, 1))?;
                let integers: Option<Vec<i64>> = valid.iter().map(|array| first_integer(array)).collect();
                integer_values(&integers?)
            }
        };
        Some(ConstantSet { values, has_null })
    }

    /// Returns which of `values` are in the set. The result is NULL for a NULL, and for a value that is not found in a
    /// set with a NULL.
    pub(super) fn contains(&self, values: &ArrayRef, negated: bool) -> Result<BooleanArray> {
        let found = self.found(values)?;
        let nulls = match self.has_null {
            false => values.logical_nulls(),
            true => {
                let valid = match values.logical_nulls() {
                    // With a NULL in the set, only a value that was found has a known result.
                    Some(nulls) => &found & nulls.inner(),
                    None => found.clone(),
                };
                Some(arrow::buffer::NullBuffer::new(valid))
            }
        };
        Ok(BooleanArray::new(if negated { !&found } else { found }, nulls))
    }

    fn found(&self, values: &ArrayRef) -> Result<BooleanBuffer> {
        let rows = values.len();
        Ok(match &self.values {
            ConstantValues::Booleans([no, yes]) => {
                let values = values.as_boolean().values();
                match (no, yes) {
                    (false, false) => BooleanBuffer::new_unset(rows),
                    (false, true) => values.clone(),
                    (true, false) => !values,
                    (true, true) => BooleanBuffer::new_set(rows),
                }
            }
            ConstantValues::Floats(set) => match values.data_type() {
                DataType::Float32 => {
                    let values = values.as_primitive::<Float32Type>().values();
                    BooleanBuffer::collect_bool(rows, |row| set.contains(&float_bits(values[row].into())))
                }
                _ => {
                    let values = values.as_primitive::<Float64Type>().values();
                    BooleanBuffer::collect_bool(rows, |row| set.contains(&float_bits(values[row])))
                }
            },
            ConstantValues::WideDecimals(set) => {
                let values = values.as_primitive::<Decimal256Type>().values();
                BooleanBuffer::collect_bool(rows, |row| set.contains(&values[row]))
            }
            ConstantValues::Decimals(set) => {
                let values = values.as_primitive::<Decimal128Type>().values();
                BooleanBuffer::collect_bool(rows, |row| set.contains(&values[row]))
            }
            ConstantValues::Bytes(set) => match values.data_type() {
                DataType::Utf8View => {
                    let values = values.as_string_view();
                    BooleanBuffer::collect_bool(rows, |row| set.contains(values.value(row).as_bytes()))
                }
                DataType::BinaryView => {
                    let values = values.as_binary_view();
                    BooleanBuffer::collect_bool(rows, |row| set.contains(values.value(row)))
                }
                _ => {
                    let values = values.as_fixed_size_binary();
                    BooleanBuffer::collect_bool(rows, |row| set.contains(values.value(row)))
                }
            },
            ConstantValues::Range { least, bits } => with_integers!(
                values,
                |values, wide| BooleanBuffer::collect_bool(rows, |row| {
                    // A value below `least` wraps to a large number, so one comparison checks both bounds.
                    let place = wide(values[row]).wrapping_sub(*least).cast_unsigned();
                    place < bits.len() as u64 && bits.value(place as usize)
                }),
                return Err(not_hashed(values.data_type()))
            ),
            ConstantValues::Integers(set) => with_integers!(
                values,
                |values, wide| BooleanBuffer::collect_bool(rows, |row| set.contains(&wide(values[row]))),
                return Err(not_hashed(values.data_type()))
            ),
        })
    }
}

fn not_hashed(kind: &DataType) -> Error {
    Error::internal(format!("values of type {kind} are looked up in a set of integers"))
}

fn first_integer(array: &ArrayRef) -> Option<i64> {
    with_integers!(array, |values, wide| values.first().map(|value| wide(*value)), None)
}

fn integer_values(integers: &[i64]) -> ConstantValues {
    let (Some(least), Some(most)) = (integers.iter().min(), integers.iter().max()) else {
        return ConstantValues::Integers(HashSet::new());
    };
    // A narrow range is stored as bits, because testing a bit is much faster than hashing.
    let width = most.abs_diff(*least);
    if width >= RANGE_MAX {
        return ConstantValues::Integers(integers.iter().copied().collect());
    }
    let mut bits = BooleanBufferBuilder::new(width as usize + 1);
    bits.append_n(width as usize + 1, false);
    integers.iter().for_each(|value| bits.set_bit(value.abs_diff(*least) as usize, true));
    ConstantValues::Range { least: *least, bits: bits.finish() }
}

fn first_values<T: ArrowPrimitiveType, K: Hash + Eq>(arrays: &[&ArrayRef], key: impl Fn(T::Native) -> K) -> HashSet<K> {
    arrays.iter().map(|array| key(array.as_primitive::<T>().value(0))).collect()
}

/// Returns the bits that all doubles equal to this one share: one zero and one NaN.
fn float_bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}
