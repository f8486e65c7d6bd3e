use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int8Array, Int64Array, StringViewArray, UInt64Array};
use arrow::datatypes::{DataType, Float64Type, Int8Type};
use rowmill_base::{ErrorKind, Result};
use rowmill_plan::Operand;
use rowmill_plan::program::ArithmeticOp;

use super::*;
use crate::text;
use crate::typing::decimal_result;

const OPS: [ArithmeticOp; 5] =
    [ArithmeticOp::Plus, ArithmeticOp::Minus, ArithmeticOp::Times, ArithmeticOp::Divide, ArithmeticOp::Remainder];

fn values(texts: &[Option<&str>], kind: &DataType) -> ArrayRef {
    let texts: ArrayRef = Arc::new(StringViewArray::from(texts.to_vec()));
    crate::kernels::cast::cast(&texts, kind, false).expect("values")
}

fn shown(array: &ArrayRef) -> Vec<String> {
    (0..array.len()).map(|row| text::format(array, row).unwrap_or_else(|| "NULL".to_owned())).collect()
}

fn run(op: ArithmeticOp, left: &ArrayRef, right: &ArrayRef, kind: &DataType) -> Result<Vec<String>> {
    let rows = left.len();
    arithmetic(op, &Operand::rows(Arc::clone(left)), &Operand::rows(Arc::clone(right)), kind, rows)
        .map(|array| shown(&array))
}

fn message(result: Result<Vec<String>>) -> String {
    result.expect_err("out of range").message().to_owned()
}

#[test]
fn every_pair_of_bytes_gives_its_result_or_an_error() {
    let all: ArrayRef = Arc::new(Int8Array::from_iter_values(i8::MIN..=i8::MAX));
    for op in OPS {
        for left in i8::MIN..=i8::MAX {
            let direct = |right: i8| match op {
                ArithmeticOp::Plus => left.checked_add(right),
                ArithmeticOp::Minus => left.checked_sub(right),
                ArithmeticOp::Times => left.checked_mul(right),
                ArithmeticOp::Divide => left.checked_div(right),
                ArithmeticOp::Remainder if right == -1 => Some(0),
                ArithmeticOp::Remainder => left.checked_rem(right),
            };
            let fine: Vec<i8> = (i8::MIN..=i8::MAX).filter(|right| direct(*right).is_some()).collect();
            let expected = Int8Array::from_iter_values(fine.iter().filter_map(|right| direct(*right)));
            // A constant beside a column, over the rows that have a result.
            let constant = Operand::constant(Arc::new(Int8Array::from(vec![left])));
            let rows = Operand::rows(Arc::new(Int8Array::from(fine.clone())));
            let result = arithmetic(op, &constant, &rows, &DataType::Int8, fine.len()).expect("fits");
            assert_eq!(result.as_primitive::<Int8Type>(), &expected, "{left} {op}");
            let rows = Operand::rows(Arc::clone(&all));
            let result = arithmetic(op, &constant, &rows, &DataType::Int8, all.len());
            assert_eq!(result.is_ok(), fine.len() == all.len(), "{left} {op}");
            // Two columns, one row at a time.
            for right in i8::MIN..=i8::MAX {
                let [one, other] = [left, right].map(|value| Operand::rows(Arc::new(Int8Array::from(vec![value]))));
                let result = arithmetic(op, &one, &other, &DataType::Int8, 1).ok();
                let result = result.map(|array| array.as_primitive::<Int8Type>().value(0));
                assert_eq!(result, direct(right), "{left} {op} {right}");
            }
        }
    }
}

#[test]
fn integers_of_every_type_fail_outside_of_their_range() {
    let cases = [
        (DataType::Int8, "127", "-128"),
        (DataType::Int16, "32767", "-32768"),
        (DataType::Int32, "2147483647", "-2147483648"),
        (DataType::Int64, "9223372036854775807", "-9223372036854775808"),
        (DataType::UInt8, "255", "0"),
        (DataType::UInt16, "65535", "0"),
        (DataType::UInt32, "4294967295", "0"),
        (DataType::UInt64, "18446744073709551615", "0"),
    ];
    for (kind, most, least) in cases {
        let of = |text: &str| values(&[Some("1"), Some(text)], &kind);
        let (one, two, zero) = (of("1"), of("2"), of("0"));
        let name = crate::kinds::type_name(&kind);
        let fails = |op: ArithmeticOp, left: &str, right: &ArrayRef| message(run(op, &of(left), right, &kind));
        assert_eq!(
            fails(ArithmeticOp::Plus, most, &one),
            format!("number out of range: {most} + 1 does not fit {name}")
        );
        assert_eq!(
            fails(ArithmeticOp::Minus, least, &one),
            format!("number out of range: {least} - 1 does not fit {name}")
        );
        assert_eq!(
            fails(ArithmeticOp::Times, most, &two),
            format!("number out of range: {most} * 2 does not fit {name}")
        );
        assert_eq!(fails(ArithmeticOp::Divide, most, &zero), "division by zero");
        assert_eq!(fails(ArithmeticOp::Remainder, most, &zero), "division by zero");
        assert_eq!(run(ArithmeticOp::Times, &of(most), &one, &kind).expect("fits"), ["1", most]);
        if kind.is_signed_integer() {
            let minus_one = of("-1");
            assert!(fails(ArithmeticOp::Divide, least, &minus_one).contains("does not fit"));
            assert_eq!(run(ArithmeticOp::Remainder, &of(least), &minus_one, &kind).expect("fits"), ["0", "0"]);
            assert!(negate(&of(least)).is_err());
            assert_eq!(shown(&negate(&of("5")).expect("fits")), ["-1", "-5"]);
        }
    }
}

#[test]
fn values_under_a_null_cause_no_error() {
    use arrow::buffer::NullBuffer;
    let nulls = || Some(NullBuffer::from(vec![false, true]));
    let left: ArrayRef = Arc::new(Int64Array::new(vec![i64::MAX, 6].into(), nulls()));
    let right: ArrayRef = Arc::new(Int64Array::new(vec![0, 3].into(), nulls()));
    for (op, expected) in OPS.into_iter().zip(["9", "3", "18", "2", "0"]) {
        assert_eq!(run(op, &left, &right, &DataType::Int64).expect("no error"), ["NULL", expected]);
    }
    let least: ArrayRef = Arc::new(Int64Array::new(vec![i64::MIN, 6].into(), nulls()));
    assert_eq!(shown(&negate(&least).expect("no error")), ["NULL", "-6"]);
    let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    assert!(run(ArithmeticOp::Divide, &none, &none, &DataType::Int64).expect("no row").is_empty());
}

fn decimal(op: ArithmeticOp, left: &str, right: &str, kinds: [(u8, i8); 2]) -> Result<Vec<String>> {
    let kind = decimal_result(op, kinds[0], kinds[1])?;
    let of = |text, (digits, scale)| values(&[Some(text)], &DataType::Decimal128(digits, scale));
    run(op, &of(left, kinds[0]), &of(right, kinds[1]), &kind)
}

#[test]
fn decimals_keep_their_digits() {
    use ArithmeticOp::{Divide, Minus, Plus, Remainder, Times};
    let two_and_one = [(3, 2), (2, 1)];
    assert_eq!(decimal(Plus, "1.25", "1.5", two_and_one).expect("fits"), ["2.75"]);
    assert_eq!(decimal(Minus, "1.25", "9.5", two_and_one).expect("fits"), ["-8.25"]);
    assert_eq!(decimal(Times, "1.25", "1.5", two_and_one).expect("fits"), ["1.875"]);
    assert_eq!(decimal(Remainder, "-7.25", "2.0", two_and_one).expect("fits"), ["-1.25"]);
    assert_eq!(decimal(Divide, "1.00", "4.0", two_and_one).expect("fits"), ["0.25"]);
    for op in [Divide, Remainder] {
        assert_eq!(decimal(op, "1.00", "0.0", two_and_one).expect_err("by zero").kind(), ErrorKind::DivisionByZero);
    }
    let nines = "9".repeat(38);
    let full = [(38, 0), (38, 0)];
    let error = message(decimal(Plus, &nines, "1", full));
    assert_eq!(error, format!("number out of range: {nines} + 1 does not fit DECIMAL(38,0)"));
    assert!(message(decimal(Times, &nines, &nines, full)).contains("does not fit DECIMAL(38,0)"));
    assert_eq!(decimal(Minus, &nines, "1", full).expect("fits"), [format!("{}8", "9".repeat(37))]);
    let behind = decimal(Times, "1", "1", [(38, 20), (38, 20)]).expect_err("40 digits");
    assert!(behind.message().contains("40 digits after the point"));
}

#[test]
fn an_integer_beside_a_decimal_becomes_a_decimal() {
    let decimals = values(&[Some("1.50"), None], &DataType::Decimal128(5, 2));
    let integers: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, 1]));
    let kind = decimal_result(ArithmeticOp::Plus, (5, 2), (20, 0)).expect("23 digits");
    assert_eq!(
        run(ArithmeticOp::Plus, &decimals, &integers, &kind).expect("fits"),
        ["18446744073709551616.50", "NULL"]
    );
    // These are whole numbers of two types that no integer type can hold together.
    let wide = DataType::Decimal128(20, 0);
    let (left, right) = (values(&[Some("-7")], &wide), values(&[Some("2")], &wide));
    assert_eq!(run(ArithmeticOp::Divide, &left, &right, &wide).expect("fits"), ["-3"]);
    let three = values(&[Some("3"), Some("3")], &DataType::Int64);
    let kind = DataType::Decimal128(25, 2);
    assert_eq!(run(ArithmeticOp::Times, &decimals, &three, &kind).expect("fits"), ["4.50", "NULL"]);
}

#[test]
fn floats_have_one_nan_and_one_zero() {
    let left = values(&[Some("0"), Some("-1"), Some("NaN"), Some("1"), None], &DataType::Float64);
    let right = values(&[Some("0"), Some("0"), Some("1"), Some("0"), Some("1")], &DataType::Float64);
    let quotient = run(ArithmeticOp::Divide, &left, &right, &DataType::Float64).expect("no error");
    assert_eq!(quotient, ["NaN", "-Infinity", "NaN", "Infinity", "NULL"]);
    assert_eq!(shown(&negate(&right).expect("no error")), ["0.0", "0.0", "-1.0", "0.0", "-1.0"]);
    let bits = |op, left: f64| {
        let [left, right] = [left, 0.0].map(|value| Operand::rows(Arc::new(Float64Array::from(vec![value]))));
        let result = arithmetic(op, &left, &right, &DataType::Float64, 1).expect("no error");
        result.as_primitive::<Float64Type>().value(0).to_bits()
    };
    assert_eq!(bits(ArithmeticOp::Divide, 0.0), f64::NAN.to_bits());
    assert_eq!(bits(ArithmeticOp::Times, -1.0), 0);
}
