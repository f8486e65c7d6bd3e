use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use rowmill_base::ErrorKind;
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};

use super::*;
use crate::kinds::type_name;
use crate::text;

const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn column(kind: &DataType) -> ScalarExpr {
    ScalarExpr::column(0, kind.clone())
}

fn decimal(text: &str, digits: u8, scale: i8) -> ScalarExpr {
    ScalarExpr::literal(text::parse(text, &DataType::Decimal128(digits, scale)).expect("a decimal"))
}

#[test]
fn common_types_are_wide_enough_for_both() {
    use DataType::{
        Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt32, UInt64, Utf8View,
    };
    let cases = [
        (Int8, Int64, Some(Int64)),
        (UInt8, Int8, Some(Int16)),
        (UInt32, Int32, Some(Int64)),
        (UInt8, UInt32, Some(UInt32)),
        (UInt64, Int8, Some(Decimal128(20, 0))),
        (Int32, Decimal128(6, 2), Some(Decimal128(12, 2))),
        (Decimal128(6, 2), Decimal128(5, 3), Some(Decimal128(7, 3))),
        (Decimal128(38, 0), Decimal128(5, 3), Some(Decimal128(38, 3))),
        (Decimal128(6, 2), Float32, Some(Float32)),
        (Int64, Float32, Some(Float32)),
        (Float32, Float64, Some(Float64)),
        (DataType::Null, Date32, Some(Date32)),
        (DataType::Null, DataType::Null, Some(DataType::Null)),
        (Date32, MICROS, Some(MICROS)),
        (
            DataType::Timestamp(TimeUnit::Second, None),
            DataType::Timestamp(TimeUnit::Nanosecond, None),
            Some(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        ),
        (
            MICROS,
            DataType::Timestamp(TimeUnit::Second, Some("UTC".into())),
            Some(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        ),
        (Utf8View, Date32, Some(Date32)),
        (Utf8View, INTERVAL, Some(INTERVAL)),
        (Utf8View, Int64, Some(Utf8View)),
        (Utf8View, Boolean, None),
        (list(DataType::Null), list(Int8), Some(list(Int8))),
        (list(Int8), list(Int64), Some(list(Int64))),
        (list(Int8), Int8, None),
        (Int64, Date32, None),
        (Boolean, Int64, None),
        (TIME, MICROS, None),
    ];
    for (a, b, expected) in cases {
        assert_eq!(common_kind([&a, &b]), expected, "{a} and {b}");
        assert_eq!(common_kind([&b, &a]), expected, "{b} and {a}");
    }
    assert_eq!(common_kind([]), None);
    assert_eq!(common_kind([&Int8, &DataType::Null, &Int32]), Some(Int32));
}

#[test]
fn arithmetic_has_the_type_of_the_rules() {
    use ArithmeticOp::{Divide, Minus, Plus, Remainder, Times};
    use DataType::{Decimal128, Float32, Float64, Int8, Int32, Int64, UInt64};
    let cases = [
        (Plus, Int8, Int32, Int32),
        (Divide, Int8, Int64, Int64),
        (Plus, Decimal128(10, 2), Decimal128(5, 3), Decimal128(12, 3)),
        (Times, Decimal128(10, 2), Decimal128(5, 3), Decimal128(15, 5)),
        (Remainder, Decimal128(10, 2), Decimal128(5, 3), Decimal128(5, 3)),
        (Divide, Decimal128(10, 2), Int32, Float64),
        (Plus, Decimal128(10, 2), Int32, Decimal128(13, 2)),
        (Plus, UInt64, Int32, Decimal128(21, 0)),
        (Divide, UInt64, Int32, Decimal128(20, 0)),
        (Times, Decimal128(10, 2), Float32, Float32),
        (Minus, Float32, Float64, Float64),
        (Minus, DataType::Null, Int8, Int8),
    ];
    for (op, left, right, expected) in cases {
        let typed = arithmetic(op, column(&left), column(&right)).expect("numbers");
        assert_eq!(typed.kind, expected, "{left} {op} {right}");
        let expected = decimal_or_same(&typed);
        assert!(expected, "operands of {left} {op} {right} go together");
    }
    // A literal integer needs only its own digits.
    let sum = arithmetic(Plus, column(&Decimal128(10, 2)), ScalarExpr::literal(1)).expect("numbers");
    assert_eq!(sum.kind, Decimal128(11, 2));
    let read = arithmetic(Plus, column(&Int32), ScalarExpr::literal("5")).expect("a number");
    assert_eq!(read.kind, Int32);
    assert_eq!(
        arithmetic(Plus, column(&Int32), ScalarExpr::literal("x")).expect_err("a text").kind(),
        ErrorKind::InvalidText
    );
}

/// Whether the operands have the types that [`ExprOp::Arithmetic`] needs.
fn decimal_or_same(expr: &ScalarExpr) -> bool {
    let ExprOp::Arithmetic(_, pair) = &expr.op else { return false };
    let is_decimal = |expr: &ScalarExpr| matches!(expr.kind, DataType::Decimal128(..));
    pair[0].kind == pair[1].kind || pair.iter().any(is_decimal)
}

#[test]
fn errors_of_missing_operators_name_the_types() {
    let cases = [
        (ArithmeticOp::Plus, DataType::Utf8View, DataType::Int64, "there is no TEXT + BIGINT"),
        (ArithmeticOp::Times, DataType::Date32, DataType::Int64, "there is no DATE * BIGINT"),
        (ArithmeticOp::Plus, DataType::Date32, DataType::Date32, "there is no DATE + DATE"),
        (ArithmeticOp::Plus, DataType::Int64, DataType::Boolean, "there is no BIGINT + BOOLEAN"),
        (ArithmeticOp::Plus, list(DataType::Int64), DataType::Int64, "there is no BIGINT[] + BIGINT"),
    ];
    for (op, left, right, message) in cases {
        let error = arithmetic(op, column(&left), column(&right)).expect_err(message);
        assert_eq!((error.kind(), error.message()), (ErrorKind::DatatypeMismatch, message));
    }
    let error = compare(CompareOp::Equal, column(&DataType::Int32), column(&DataType::Date32)).expect_err("no order");
    assert_eq!(error.message(), "the two sides of INTEGER = DATE do not go together");
    let error = negate(column(&DataType::Utf8View)).expect_err("no number");
    assert_eq!(error.message(), "there is no operator '-' of TEXT");
    let error = cast(column(&DataType::Int64), &DataType::Date32, false).expect_err("no date");
    assert_eq!(error.message(), "BIGINT cannot be cast to DATE");
}

#[test]
fn literals_adapt_to_the_type_they_are_compared_with() {
    let kind_of = |left: ScalarExpr, right: ScalarExpr| comparison_kind(&[&left, &right]).map(|kind| type_name(&kind));
    let is = |left, right, expected: &str| assert_eq!(kind_of(left, right).as_deref(), Some(expected));
    let int32 = || column(&DataType::Int32);
    let money = || column(&DataType::Decimal128(10, 2));
    is(int32(), ScalarExpr::literal(5), "INTEGER");
    is(ScalarExpr::literal(3_000_000_000), int32(), "BIGINT");
    is(int32(), decimal("12.0", 3, 1), "INTEGER");
    is(int32(), decimal("12.5", 3, 1), "DECIMAL(11,1)");
    is(money(), decimal("1.550", 4, 3), "DECIMAL(10,2)");
    is(money(), decimal("1.555", 4, 3), "DECIMAL(11,3)");
    is(money(), ScalarExpr::literal("1.55"), "DECIMAL(10,2)");
    is(column(&DataType::Float32), decimal("0.1", 2, 1), "REAL");
    is(column(&DataType::Boolean), ScalarExpr::literal("t"), "BOOLEAN");
    is(ScalarExpr::literal("2013-07-31"), column(&DataType::Date32), "DATE");
    is(column(&DataType::BinaryView), ScalarExpr::literal("\\x00"), "BLOB");
    is(ScalarExpr::literal("a"), ScalarExpr::literal("b"), "TEXT");
    is(ScalarExpr::literal("5"), ScalarExpr::literal(5), "BIGINT");
    is(int32(), ScalarExpr::null(DataType::Null), "INTEGER");
    assert_eq!(kind_of(ScalarExpr::literal("x"), column(&list(DataType::Int8))), None);
    assert_eq!(kind_of(column(&DataType::BinaryView), ScalarExpr::literal(5)), None);
    let between = [ScalarExpr::literal("abc"), ScalarExpr::literal(20), ScalarExpr::literal(true)];
    assert_eq!(comparison_kind(&between.iter().collect::<Vec<_>>()), None);
    let error = compare(CompareOp::Equal, column(&DataType::Date32), ScalarExpr::literal("soon")).expect_err("no date");
    assert_eq!(error.message(), "'soon' is not a value of type DATE");
}

#[test]
fn negation_makes_literals_and_signed_numbers() {
    let least = negate(decimal("9223372036854775808", 19, 0)).expect("a number");
    assert_eq!(least.as_constant().and_then(rowmill_plan::Constant::as_bigint), Some(i64::MIN));
    assert_eq!(negate(ScalarExpr::literal(5)).expect("a number"), ScalarExpr::literal(-5));
    assert_eq!(negate(decimal("1.50", 3, 2)).expect("a number"), decimal("-1.50", 3, 2));
    assert_eq!(negate(column(&DataType::UInt8)).expect("a number").kind, DataType::Int16);
    assert_eq!(negate(column(&DataType::UInt64)).expect("a number").kind, DataType::Decimal128(20, 0));
}

#[test]
fn casts_of_literals_are_evaluated_at_once_unless_they_fail() {
    let five = cast(ScalarExpr::literal("5"), &DataType::Int8, false).expect("a cast");
    assert!(five.as_constant().is_some());
    let small = cast(ScalarExpr::literal(255), &DataType::UInt8, false).expect("a cast");
    assert_eq!(small.as_constant().and_then(crate::kinds::exact_value), Some((255, 0)));
    let large = cast(ScalarExpr::literal(256), &DataType::UInt8, false).expect("it fails when it is evaluated");
    assert!(matches!(large.op, ExprOp::Cast { or_null: false, .. }));
    assert_eq!(
        cast(ScalarExpr::literal(256), &DataType::UInt8, true).expect("a cast"),
        ScalarExpr::null(DataType::UInt8)
    );
    let fails = cast(ScalarExpr::literal("x"), &DataType::Int8, false).expect("it fails when it is evaluated");
    assert!(matches!(fails.op, ExprOp::Cast { or_null: false, .. }));
    let null = cast(ScalarExpr::literal("x"), &DataType::Int8, true).expect("a cast");
    assert_eq!(null, ScalarExpr::null(DataType::Int8));
}
