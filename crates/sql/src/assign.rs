//! Assignment: converts the values of an expression to the type of the column that stores them.
//!
//! `INSERT`, `UPDATE`, `DEFAULT` and the column list of `CREATE TABLE AS` all go through [`assign`]. It uses the
//! conversions of the file loaders, so that a text means the same wherever it comes from. In addition we round the
//! result of an expression, because a computed value is seldom exactly a value of the column's type:
//!
//! | from | to | how |
//! | --- | --- | --- |
//! | integer, DECIMAL, REAL, DOUBLE | integer | rounded: DECIMAL half away from zero, REAL and DOUBLE half to even |
//! | number | DECIMAL | rounded half away from zero |
//! | TIMESTAMP | TIMESTAMP, DATE, TIME | the finer part is cut off, towards the past |
//! | text | every type | read as a literal of that type |
//! | every type | TEXT, VARCHAR(n) | as it is displayed |
//!
//! A value that does not fit must be an error that names the value, the type and the column. It must never become NULL
//! or another value. A pair of types that no conversion lists is an error before any value is read.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Date32Type, Float32Type, Float64Type, Int64Type,
    Time64MicrosecondType, TimeUnit,
};
use rowmill_base::{Error, ErrorKind, Result, SqlType};

use crate::files::convert::{NotConverted, convert, is_convertible};
use crate::files::report::Complaint;
use rowmill_expr::session_zone::assigned_in_zone;
use rowmill_expr::text::calendar::units_per_second;

/// Converts `values` to the type `kind` of the column `column`. Does not check NOT NULL or the length of a
/// `VARCHAR(n)`: that happens where rows enter the table.
pub(crate) fn assign(values: &ArrayRef, kind: &SqlType, column: &str) -> Result<ArrayRef> {
    // Values that already have the column's type need no conversion.
    if *values.data_type() == kind.arrow() {
        return Ok(Arc::clone(values));
    }
    if let Some(moved) = assigned_in_zone(values, &kind.arrow())?
        && moved.data_type() != values.data_type()
    {
        return assign(&moved, kind, column);
    }
    let target = match kind {
        SqlType::Text { .. } => &SqlType::TEXT,
        other => other,
    };
    let rounded = match (values.data_type(), kind) {
        (_, to) if to.arrow().is_integer() => whole(values)?,
        (DataType::Timestamp(unit, _), SqlType::Date) => start_of_day(values, *unit)?,
        (DataType::Timestamp(unit, _), SqlType::Time) => time_of_day(values, *unit)?,
        _ => Arc::clone(values),
    };
    convert(&rounded, target).map_err(|error| match error {
        NotConverted::Value(misfit) => Complaint::value(column, kind, &misfit.text, misfit.problem).into_value_error(),
        NotConverted::Types => wrong_type(values.data_type(), kind, column),
    })
}

/// Returns an error if no value of the type `found` can be assigned to `kind`.
pub(crate) fn check_pair(found: &DataType, kind: &SqlType, column: &str) -> Result<()> {
    // A TIMESTAMP can be assigned to a TIME only because we cut off its date first; the converter does not know the
    // pair.
    let moment_to_time = matches!((found, kind), (DataType::Timestamp(..), SqlType::Time));
    if moment_to_time || is_convertible(found, kind) { Ok(()) } else { Err(wrong_type(found, kind, column)) }
}

/// Rounds numbers to whole numbers. A value that cannot be rounded stays as it is; the conversion then rejects it.
fn whole(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float32 => {
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even))
        }
        DataType::Float64 => {
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even))
        }
        DataType::Decimal32(_, 1..) | DataType::Decimal64(_, 1..) | DataType::Decimal128(_, 1..) => {
            cast(values, &DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))?
        }
        DataType::Decimal256(_, 1..) => {
            // In 76 digits any rounded number fits.
            rowmill_expr::kernels::cast::cast(values, &DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0), false)?
        }
        _ => Arc::clone(values),
    })
}

/// Converts timestamps to days. All days that a timestamp with sub-second units can hold fit a DATE with much room.
fn start_of_day(values: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef> {
    let units_per_day = units_per_second(unit) * SECONDS_PER_DAY;
    let numbers = cast(values, &DataType::Int64)?;
    let days = numbers
        .as_primitive::<Int64Type>()
        .unary_opt::<_, Date32Type>(|value| i32::try_from(value.div_euclid(units_per_day)).ok());
    // Only a TIMESTAMP(0) can be outside of that range. Then we return the timestamps, so that the conversion reports
    // the value.
    if days.null_count() == values.null_count() { Ok(Arc::new(days)) } else { Ok(Arc::clone(values)) }
}

/// Converts timestamps to microseconds since midnight. Moments before 1970 round towards the past.
fn time_of_day(values: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef> {
    let units_per_second = units_per_second(unit);
    let numbers = cast(values, &DataType::Int64)?;
    let micros = numbers.as_primitive::<Int64Type>().unary::<_, Time64MicrosecondType>(|value| {
        let (seconds, fraction) = (value.div_euclid(units_per_second), value.rem_euclid(units_per_second));
        let micros = if units_per_second > 1_000_000 {
            fraction / (units_per_second / 1_000_000)
        } else {
            fraction * (1_000_000 / units_per_second)
        };
        // `rem_euclid` counts from the midnight before, also for moments before 1970.
        seconds.rem_euclid(SECONDS_PER_DAY) * 1_000_000 + micros
    });
    Ok(Arc::new(micros))
}

const SECONDS_PER_DAY: i64 = 86_400;

/// Calls an Arrow conversion that must not fail, whatever the values are.
fn cast(values: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    cast_with_options(values, wanted, &CastOptions { safe: false, ..CastOptions::default() })
        .map_err(|error| Error::internal(format!("{} becomes {wanted}: {error}", values.data_type())))
}

fn wrong_type(found: &DataType, kind: &SqlType, column: &str) -> Error {
    let name = SqlType::from_arrow(found).map_or_else(|| found.to_string(), |found| found.to_string());
    let error = Error::new(
        ErrorKind::DatatypeMismatch,
        format!("column \"{column}\" is of type {kind}, but the value is of type {name}"),
    );
    match kind {
        SqlType::Date | SqlType::Timestamp { .. } if found.is_integer() => {
            error.hint("to_timestamp_seconds(value) and to_timestamp_millis(value) make a timestamp of a number")
        }
        SqlType::Boolean => error.hint("compare it: value <> 0"),
        _ => error.hint(format!("convert it: CAST(value AS {kind})")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{
        Decimal128Array, Float64Array, Int64Array, StringViewArray, TimestampMicrosecondArray, TimestampSecondArray,
    };
    use rowmill_base::TimeUnit as Unit;

    use super::*;
    use rowmill_expr::text::writer::format_value;

    fn assigned(values: ArrayRef, kind: SqlType) -> Result<Vec<String>> {
        let values = assign(&values, &kind, "c")?;
        (0..values.len()).map(|row| Ok(format_value(&values, row)?.unwrap_or_else(|| "NULL".into()))).collect()
    }

    #[test]
    fn numbers_are_rounded_to_integers() {
        let doubles = Arc::new(Float64Array::from(vec![Some(0.5), Some(1.5), Some(-2.5), None, Some(1e18)]));
        assert_eq!(assigned(doubles, SqlType::Int64).unwrap(), ["0", "2", "-2", "NULL", "1000000000000000000"]);
        let decimals = Decimal128Array::from(vec![5, 15, -25]).with_precision_and_scale(10, 1).unwrap();
        assert_eq!(assigned(Arc::new(decimals), SqlType::Int8).unwrap(), ["1", "2", "-3"]);
    }

    #[test]
    fn an_error_names_the_value_that_does_not_fit() {
        let error = assigned(Arc::new(Int64Array::from(vec![1, 300])), SqlType::Int8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
        assert_eq!(error.message(), "column \"c\": '300' is out of range for the type TINYINT");
        for value in [f64::NAN, f64::INFINITY, 1e30] {
            let error = assigned(Arc::new(Float64Array::from(vec![value])), SqlType::Int64).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NumericOutOfRange | ErrorKind::InvalidText), "{error}");
        }
        let error = assigned(Arc::new(StringViewArray::from(vec!["soon"])), SqlType::Date).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidDatetime);
        assert!(error.hint_text().is_some());
    }

    #[test]
    fn moments_are_cut_off_towards_the_past() {
        let micros = TimestampMicrosecondArray::from(vec![1, -1, 86_400_000_000, -86_400_000_001]);
        let values: ArrayRef = Arc::new(micros);
        assert_eq!(
            assigned(Arc::clone(&values), SqlType::Date).unwrap(),
            ["1970-01-01", "1969-12-31", "1970-01-02", "1969-12-30"]
        );
        assert_eq!(
            assigned(values, SqlType::Time).unwrap(),
            ["00:00:00.000001", "23:59:59.999999", "00:00:00", "23:59:59.999999"]
        );
        let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]));
        assert!(assigned(Arc::clone(&far), SqlType::Date).is_err());
        let nanos = SqlType::Timestamp { unit: Unit::Nanosecond, zoned: false };
        assert_eq!(assigned(far, nanos).unwrap_err().kind(), ErrorKind::InvalidDatetime);
    }

    #[test]
    fn a_pair_of_types_without_a_conversion_is_refused_before_any_value_is_read() {
        let error = check_pair(&DataType::Date32, &SqlType::Int64, "c").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DatatypeMismatch);
        assert!(check_pair(&DataType::Int64, &SqlType::Date, "c").is_err());
        assert!(check_pair(&DataType::Null, &SqlType::Date, "c").is_ok());
        assert!(check_pair(&DataType::Utf8View, &SqlType::Uuid, "c").is_ok());
    }
}
