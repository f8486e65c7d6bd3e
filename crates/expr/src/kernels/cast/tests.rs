use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use rowmill_base::ErrorKind;

use super::*;
use crate::text::{format, parse};
use crate::typing::can_cast;

const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn zoned() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn shown(array: &ArrayRef) -> String {
    format(array, 0).unwrap_or_else(|| "NULL".to_owned())
}

/// Casts `text`, a value of `from`, to `to`. Returns its text or the message of the error.
fn cast_text(text: &str, from: &DataType, to: &DataType) -> String {
    let value = parse(text, from).expect("a value");
    assert!(can_cast(from, to), "{from} to {to}");
    match cast(value.array(), to, false) {
        Ok(array) => {
            assert_eq!(array.data_type(), to);
            assert_eq!(shown(&cast(value.array(), to, true).expect("TRY_CAST")), shown(&array));
            shown(&array)
        }
        Err(error) => {
            assert_eq!(shown(&cast(value.array(), to, true).expect("TRY_CAST")), "NULL");
            error.message().to_owned()
        }
    }
}

#[test]
fn numbers_are_rounded_or_refused() {
    use DataType::{Decimal128, Float32, Float64, Int8, Int32, Int64, UInt64};
    let cases = [
        ("300", Int64, Int8, "number out of range: 300 does not fit TINYINT"),
        ("-1", Int64, UInt64, "number out of range: -1 does not fit BIGINT UNSIGNED"),
        ("18446744073709551615", UInt64, Decimal128(20, 0), "18446744073709551615"),
        ("100", Int64, Decimal128(4, 2), "number out of range: 100 does not fit DECIMAL(4,2)"),
        ("2.5", Decimal128(2, 1), Int32, "3"),
        ("-2.5", Decimal128(2, 1), Int32, "-3"),
        ("2.499", Decimal128(4, 3), Int32, "2"),
        ("2.345", Decimal128(4, 3), Decimal128(10, 2), "2.35"),
        ("-2.345", Decimal128(4, 3), Decimal128(10, 2), "-2.35"),
        ("99.95", Decimal128(4, 2), Decimal128(3, 1), "number out of range: 99.95 does not fit DECIMAL(3,1)"),
        ("99.94", Decimal128(4, 2), Decimal128(3, 1), "99.9"),
        ("2.5", Float64, Int32, "2"),
        ("3.5", Float64, Int32, "4"),
        ("3e9", Float64, Int32, "number out of range: 3000000000.0 does not fit INTEGER"),
        ("NaN", Float64, Int32, "number out of range: NaN does not fit INTEGER"),
        ("9223372036854775808", Float64, Int64, "number out of range: 9.223372036854776e18 does not fit BIGINT"),
        ("1e39", Float64, Float32, "number out of range: 1e39 does not fit REAL"),
        ("Infinity", Float64, Float32, "Infinity"),
        ("0.1", Float64, Decimal128(5, 3), "0.100"),
        ("0.1", Float32, Decimal128(5, 3), "0.100"),
        ("2.5", Float64, Decimal128(1, 0), "3"),
        ("NaN", Float64, Decimal128(4, 2), "number out of range: NaN does not fit DECIMAL(4,2)"),
        ("99.999", Decimal128(6, 3), Float64, "99.999"),
        ("0.1", Decimal128(38, 20), Float32, "0.1"),
        ("9007199254740993", Int64, Float64, "9007199254740992.0"),
        ("16777217", Int64, Float32, "16777216.0"),
        ("1", Int64, DataType::Boolean, "true"),
        ("-3", Int64, DataType::Boolean, "true"),
        ("0", Float64, DataType::Boolean, "false"),
        ("0.0", Decimal128(2, 1), DataType::Boolean, "false"),
        ("true", DataType::Boolean, Float64, "1.0"),
        ("true", DataType::Boolean, Decimal128(3, 2), "1.00"),
    ];
    for (text, from, to, expected) in cases {
        assert_eq!(cast_text(text, &from, &to), expected, "{text} from {from} to {to}");
    }
}

#[test]
fn texts_are_read_and_written_as_results_show_them() {
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let uuid = "550e8400-e29b-41d4-a716-446655440000";
    let cases = [
        ("1.50", DataType::Decimal128(8, 3), "1.500"),
        ("1e20", DataType::Float64, "1e20"),
        ("yes", DataType::Boolean, "true"),
        ("2024-03-15 10:00", MICROS, "2024-03-15 10:00:00"),
        ("2024-03-15T10:00:00Z", MICROS, "2024-03-15 10:00:00"),
        ("2024-03-15", MICROS, "2024-03-15 00:00:00"),
        ("2013-07-31 12:30:45.5+02", zoned(), "2013-07-31 10:30:45.5+00"),
        ("12:30:45.5", DataType::Time64(TimeUnit::Microsecond), "12:30:45.5"),
        ("1 year 2 mons -3 days 04:05:06.5", interval.clone(), "1 year 2 mons -3 days 04:05:06.5"),
        ("1", interval.clone(), "00:00:01"),
        ("P1Y2M", interval.clone(), "1 year 2 mons"),
        ("1 day 02:00:00", interval, "1 day 02:00:00"),
        ("\\x00FF", DataType::BinaryView, "\\x00ff"),
        ("{550E8400E29B41D4A716446655440000}", DataType::FixedSizeBinary(16), uuid),
        ("[1,null]", list(DataType::Int32), "[1, null]"),
    ];
    for (text, kind, expected) in cases {
        assert_eq!(cast_text(text, &DataType::Utf8View, &kind), expected);
        assert_eq!(cast_text(expected, &kind, &DataType::Utf8View), expected);
        assert_eq!(cast_text(expected, &DataType::Utf8View, &kind), expected, "the text reads back as the value");
    }
    assert_eq!(
        cast_text(uuid, &DataType::FixedSizeBinary(16), &DataType::BinaryView),
        "\\x550e8400e29b41d4a716446655440000"
    );
    assert_eq!(
        cast_text("\\x550e8400e29b41d4a716446655440000", &DataType::BinaryView, &DataType::FixedSizeBinary(16)),
        uuid
    );
    assert_eq!(
        cast_text("\\x00", &DataType::BinaryView, &DataType::FixedSizeBinary(16)),
        "'\\x00' is not a value of type UUID"
    );
}

#[test]
fn unreadable_texts_name_the_text_and_the_type() {
    let cases = [
        ("many", DataType::Int32, ErrorKind::InvalidText, "'many' is not a value of type INTEGER"),
        ("", DataType::Int32, ErrorKind::InvalidText, "'' is not a value of type INTEGER"),
        ("1.5", DataType::Int64, ErrorKind::InvalidText, "'1.5' is not a value of type BIGINT"),
        ("99999", DataType::Int16, ErrorKind::NumericOutOfRange, "number out of range: '99999' does not fit SMALLINT"),
        ("1e400", DataType::Float64, ErrorKind::NumericOutOfRange, "number out of range: '1e400' does not fit DOUBLE"),
        ("x", DataType::Decimal128(4, 2), ErrorKind::InvalidText, "'x' is not a value of type DECIMAL(4,2)"),
        ("soon", DataType::Date32, ErrorKind::InvalidDatetime, "'soon' is not a value of type DATE"),
        (
            "2013-02-30",
            DataType::Date32,
            ErrorKind::InvalidDatetime,
            "'2013-02-30' is not a value of type DATE: out of range",
        ),
        ("5", MICROS, ErrorKind::InvalidDatetime, "'5' is not a value of type TIMESTAMP"),
        ("x", DataType::FixedSizeBinary(16), ErrorKind::InvalidText, "'x' is not a value of type UUID"),
        ("\\x0", DataType::BinaryView, ErrorKind::InvalidText, "'\\x0' is not a value of type BLOB"),
    ];
    for (text, kind, error_kind, message) in cases {
        let error = parse(text, &kind).expect_err(text);
        assert_eq!((error.kind(), error.message()), (error_kind, message));
        assert_eq!(cast_text(text, &DataType::Utf8View, &kind), message);
    }
}

#[test]
fn times_round_down_to_their_unit() {
    let seconds = DataType::Timestamp(TimeUnit::Second, None);
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let time = DataType::Time64(TimeUnit::Microsecond);
    let before = "1969-12-31 23:59:59.987654321";
    let cases = [
        (before, &nanos, &seconds, "1969-12-31 23:59:59"),
        (before, &nanos, &MICROS, "1969-12-31 23:59:59.987654"),
        (before, &nanos, &DataType::Date32, "1969-12-31"),
        (before, &nanos, &time, "23:59:59.987654"),
        ("1969-12-31 23:59:59.5", &MICROS, &DataType::Date32, "1969-12-31"),
        ("2013-07-31", &DataType::Date32, &MICROS, "2013-07-31 00:00:00"),
        ("2013-07-31", &DataType::Date32, &zoned(), "2013-07-31 00:00:00+00"),
        ("2013-07-31 00:30:00+02", &zoned(), &DataType::Date32, "2013-07-30"),
        ("2013-07-31 00:30:00+02", &zoned(), &MICROS, "2013-07-30 22:30:00"),
        ("0001-01-01 00:00:00", &MICROS, &DataType::Date32, "0001-01-01"),
    ];
    for (text, from, to, expected) in cases {
        assert_eq!(cast_text(text, from, to), expected, "{text} from {from} to {to}");
    }
    assert!(cast_text("9999-12-31 00:00:00", &MICROS, &nanos).contains("does not fit TIMESTAMP(9)"));
}

#[test]
fn lists_and_structs_are_cast_by_their_parts() {
    assert_eq!(cast_text("[1, null, 300]", &list(DataType::Int64), &list(DataType::Utf8View)), r#"["1", null, "300"]"#);
    let narrow = list(DataType::Int8);
    let value = parse("[1, null, 300]", &list(DataType::Int64)).expect("a list");
    let error = cast(value.array(), &narrow, false).expect_err("300");
    assert_eq!(error.message(), "number out of range: 300 does not fit TINYINT");
    assert_eq!(shown(&cast(value.array(), &narrow, true).expect("TRY_CAST")), "[1, null, null]");
    let fields = |names: [&str; 2]| -> Fields {
        vec![Field::new(names[0], DataType::Int64, true), Field::new(names[1], DataType::Utf8View, true)].into()
    };
    let from = DataType::Struct(fields(["a", "b"]));
    let to =
        DataType::Struct(vec![Field::new("B", DataType::Utf8View, true), Field::new("a", DataType::Int8, true)].into());
    assert_eq!(cast_text(r#"{"a": 1, "b": "x"}"#, &from, &to), r#"{"B": "x", "a": 1}"#);
    assert!(!can_cast(&from, &DataType::Struct(fields(["a", "c"]))));
    // A value under a NULL struct must not be cast.
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 1_000]));
    let a: Fields = vec![Field::new("a", DataType::Int64, true)].into();
    let hidden: ArrayRef = Arc::new(StructArray::new(a, vec![numbers], Some(NullBuffer::from(vec![true, false]))));
    let narrow = DataType::Struct(vec![Field::new("a", DataType::Int8, true)].into());
    assert!(cast(&hidden, &narrow, false).is_ok());
}

#[test]
fn null_rows_and_empty_columns_are_cast() {
    let nulls = Some(NullBuffer::from(vec![false, true]));
    let wide: ArrayRef = Arc::new(Int64Array::new(vec![1_000, 1].into(), nulls.clone()));
    let doubles: ArrayRef = Arc::new(Float64Array::new(vec![f64::NAN, 1.0].into(), nulls));
    for array in [&wide, &doubles] {
        for to in [DataType::Int8, DataType::Decimal128(2, 1), DataType::Float32, DataType::Utf8View, DataType::Boolean]
        {
            let result = cast(array, &to, false).expect("a value under NULL is not cast");
            assert!(result.is_null(0) && result.is_valid(1), "{to}");
            assert_eq!(cast(&array.slice(0, 0), &to, false).expect("nothing").len(), 0);
        }
    }
    let null: ArrayRef = arrow::array::new_null_array(&DataType::Null, 2);
    assert_eq!(cast(&null, &list(DataType::Int8), false).expect("NULL").null_count(), 2);
}
