//! Helpers that read operands as slices of numbers, and make arrays of times from numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, ArrowPrimitiveType, AsArray, UInt32Array, make_array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{ArrowNativeType, DataType, IntervalUnit, TimeUnit};
use arrow::datatypes::{Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType};
use arrow::datatypes::{TimestampNanosecondType, TimestampSecondType};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;
use rowmill_plan::function::ArgumentKind;

/// The type INTERVAL.
pub(in crate::functions) const INTERVAL_KIND: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// The type TIME.
pub(in crate::functions) const TIME_KIND: DataType = DataType::Time64(TimeUnit::Microsecond);
/// The type TIMESTAMP.
pub(in crate::functions) const TIMESTAMP_KIND: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Returns the type TIMESTAMP WITH TIME ZONE of a unit.
pub(crate) fn instant_kind(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some(Arc::from("UTC")))
}

/// Whether an argument is a literal text, which we read as a value of the expected type.
pub(in crate::functions) fn is_literal_text(argument: &ArgumentKind<'_>) -> bool {
    *argument.kind == DataType::Utf8View && argument.constant.is_some()
}

/// Whether an argument is accepted as an interval.
pub(in crate::functions) fn is_interval(argument: &ArgumentKind<'_>) -> bool {
    matches!(argument.kind, DataType::Interval(_) | DataType::Null) || is_literal_text(argument)
}

/// The values of an operand: one per row, or one for all rows.
#[derive(Clone, Copy)]
pub(in crate::functions) struct SlotValues<'a, N> {
    /// The values.
    pub values: &'a [N],
    step: usize,
}

impl<'a, N: Copy> SlotValues<'a, N> {
    fn new(operand: &Operand, values: &'a [N]) -> SlotValues<'a, N> {
        SlotValues { values, step: usize::from(!operand.is_constant) }
    }

    /// Returns the value of a row. If the row is NULL, the value is arbitrary.
    #[inline(always)]
    pub(in crate::functions) fn at(&self, row: usize) -> N {
        self.values[row * self.step]
    }

    /// Returns the value of all rows if the operand is constant.
    pub(in crate::functions) fn constant(&self) -> Option<N> {
        (self.step == 0).then(|| self.values[0])
    }
}

/// Returns the values of an operand of a primitive type.
pub(in crate::functions) fn slots<T: ArrowPrimitiveType>(operand: &Operand) -> SlotValues<'_, T::Native> {
    SlotValues::new(operand, operand.values.as_primitive::<T>().values())
}

/// Returns the ticks of an operand that is a timestamp or a time.
pub(in crate::functions) fn tick_slots(operand: &Operand) -> SlotValues<'_, i64> {
    SlotValues::new(operand, ticks_of(&operand.values))
}

/// Returns the ticks of timestamps of any unit, or of times.
pub(in crate::functions) fn ticks_of(array: &ArrayRef) -> &[i64] {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => array.as_primitive::<TimestampSecondType>().values(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => array.as_primitive::<TimestampMillisecondType>().values(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => array.as_primitive::<TimestampMicrosecondType>().values(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => array.as_primitive::<TimestampNanosecondType>().values(),
        _ => array.as_primitive::<Time64MicrosecondType>().values(),
    }
}

/// Returns the unit of a timestamp. For every other type, returns the unit of `TIME`.
pub(in crate::functions) fn unit_of(kind: &DataType) -> TimeUnit {
    match kind {
        DataType::Timestamp(unit, _) => *unit,
        _ => TimeUnit::Microsecond,
    }
}

/// Makes an array of a primitive type from values.
pub(in crate::functions) fn primitive<N: ArrowNativeType>(
    kind: &DataType,
    values: Vec<N>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    // We build from raw data, because the Arrow type is known only at run time.
    let data = ArrayData::builder(kind.clone())
        .len(values.len())
        .add_buffer(ScalarBuffer::from(values).into_inner())
        .nulls(nulls)
        .build();
    data.map(make_array).map_err(failed)
}

/// Returns the validity of a strict function's result: it is NULL where an operand is NULL.
pub(in crate::functions) fn strict_nulls(arguments: &[Operand], rows: usize) -> Option<NullBuffer> {
    let mut nulls: Option<NullBuffer> = None;
    for operand in arguments {
        let own = match operand.is_constant {
            false => operand.values.logical_nulls(),
            true => (operand.values.logical_null_count() > 0).then(|| NullBuffer::new_null(rows)),
        };
        nulls = NullBuffer::union(nulls.as_ref(), own.as_ref());
    }
    nulls.filter(|nulls| nulls.null_count() > 0)
}

/// Computes the value of each row that is not NULL.
#[inline(always)]
pub(in crate::functions) fn each_row<N: Default>(
    rows: usize,
    nulls: Option<&NullBuffer>,
    mut value: impl FnMut(usize) -> Result<N>,
) -> Result<Vec<N>> {
    let mut values = Vec::with_capacity(rows);
    match nulls {
        None => {
            for row in 0..rows {
                values.push(value(row)?);
            }
        }
        Some(nulls) => {
            for row in 0..rows {
                values.push(if nulls.is_valid(row) { value(row)? } else { N::default() });
            }
        }
    }
    Ok(values)
}

/// Repeats the only value of `array` for `rows` rows.
pub(in crate::functions) fn repeated(array: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    match rows {
        1 => Ok(array.clone()),
        _ => take(array, &UInt32Array::from(vec![0; rows]), None).map_err(failed),
    }
}

/// Applies the kernel `of` to one operand, only once if the operand is constant. Kernels of one argument should use it.
pub(in crate::functions) fn unary(
    operand: &Operand,
    rows: usize,
    of: impl FnOnce(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let values = of(&operand.values)?;
    if operand.is_constant { repeated(&values, rows) } else { Ok(values) }
}

/// Returns the error for a failure that only a bug can cause.
pub(in crate::functions) fn failed(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}

/// Returns the error for a date, time or interval that its type cannot hold.
#[cold]
pub(in crate::functions) fn out_of_range(what: &str) -> Error {
    Error::new(ErrorKind::NumericOutOfRange, format!("{what} is out of range"))
}
