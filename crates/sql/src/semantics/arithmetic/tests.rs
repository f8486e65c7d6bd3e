#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, Float64Array, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int8Type, Int32Type, Int64Type, UInt8Type, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{ColumnarValue, Operator};
use rowmill_base::{ErrorKind, Result};

use super::{decimals, digits_of, floats, integers};

const SUMS: [Operator; 3] = [Operator::Plus, Operator::Minus, Operator::Multiply];

fn exact(op: Operator, left: i128, right: i128) -> Option<i128> {
    match op {
        Operator::Plus => left.checked_add(right),
        Operator::Minus => left.checked_sub(right),
        _ => left.checked_mul(right),
    }
}

/// Every pair of `values`, alone in its column, must give the exact result or an error.
fn agrees_with_exact<T>(values: &[T::Native])
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128> + PartialEq + std::fmt::Debug,
    i128: From<T::Native>,
{
    for (left, right) in values.iter().flat_map(|left| values.iter().map(move |right| (*left, *right))) {
        let column = |value| ColumnarValue::Array(Arc::new(PrimitiveArray::<T>::from_value(value, 1)) as ArrayRef);
        for op in SUMS {
            let wanted = exact(op, left.into(), right.into()).and_then(|value| T::Native::try_from(value).ok());
            match (integers::apply(op, &column(left), &column(right), 1), wanted) {
                (Ok(found), Some(wanted)) => assert_eq!(found.as_primitive::<T>().value(0), wanted),
                (Err(error), None) => assert_eq!(error.kind(), ErrorKind::NumericOutOfRange),
                (found, wanted) => panic!("{left:?} {op} {right:?}: {found:?}, not {wanted:?}"),
            }
        }
    }
}

#[test]
fn integers_are_exact_or_an_error() {
    agrees_with_exact::<Int8Type>(&(i8::MIN..=i8::MAX).collect::<Vec<_>>());
    agrees_with_exact::<UInt8Type>(&(u8::MIN..=u8::MAX).collect::<Vec<_>>());
    let around = |at: i128| (-3..=3).map(move |offset| at.saturating_add(offset));
    let edges = |min: i128, max: i128| {
        let mut edges: Vec<i128> = [min, max, 0, min / 2, max / 2, 1 << 16, 46_341, 3_037_000_500]
            .into_iter()
            .flat_map(around)
            .filter(|value| (min..=max).contains(value))
            .collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    };
    let typed = |value: i128| i32::try_from(value).unwrap();
    agrees_with_exact::<Int32Type>(&edges(i32::MIN.into(), i32::MAX.into()).into_iter().map(typed).collect::<Vec<_>>());
    let typed = |value: i128| i64::try_from(value).unwrap();
    agrees_with_exact::<Int64Type>(&edges(i64::MIN.into(), i64::MAX.into()).into_iter().map(typed).collect::<Vec<_>>());
    let typed = |value: i128| u64::try_from(value).unwrap();
    agrees_with_exact::<UInt64Type>(&edges(0, u64::MAX.into()).into_iter().map(typed).collect::<Vec<_>>());
}

#[test]
fn rows_with_null_cannot_fail_and_the_error_names_the_row() {
    let mut values = PrimitiveArray::<Int64Type>::from(vec![Some(1), None, Some(3)]).into_data();
    // What stands under a NULL is arbitrary.
    values =
        values.into_builder().buffers(vec![arrow::buffer::Buffer::from_vec(vec![1_i64, i64::MAX, 3])]).build().unwrap();
    let column = ColumnarValue::Array(Arc::new(PrimitiveArray::<Int64Type>::from(values)));
    let one = ColumnarValue::Scalar(ScalarValue::Int64(Some(1)));
    let sums = integers::apply(Operator::Plus, &column, &one, 3).unwrap();
    assert_eq!(sums.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(2), None, Some(4)]);
    let large = ColumnarValue::Scalar(ScalarValue::Int64(Some(i64::MAX - 2)));
    let error = integers::apply(Operator::Plus, &column, &large, 3).unwrap_err();
    assert!(error.message().contains("3 + 9223372036854775805 does not fit BIGINT"), "{error}");
    let null = ColumnarValue::Scalar(ScalarValue::Int64(None));
    assert_eq!(integers::apply(Operator::Multiply, &null, &column, 3).unwrap().null_count(), 3);
}

fn decimal(value: i128, digits: u8, scale: i8) -> ColumnarValue {
    let array = Decimal128Array::from(vec![value]).with_precision_and_scale(digits, scale).unwrap();
    ColumnarValue::Array(Arc::new(array))
}

fn run_decimals(op: Operator, left: (i128, u8, i8), right: (i128, u8, i8)) -> Result<(i128, DataType)> {
    let kind = decimals::result_type(op, (left.1, left.2), (right.1, right.2))?;
    let found = decimals::apply(op, &decimal(left.0, left.1, left.2), &decimal(right.0, right.1, right.2), &kind, 1)?;
    Ok((found.as_primitive::<Decimal128Type>().value(0), kind))
}

#[test]
fn decimals_keep_every_digit() {
    let ten = |digits: u32| 10_i128.pow(digits);
    assert_eq!(run_decimals(Operator::Plus, (125, 3, 2), (1, 1, 0)).unwrap(), (225, DataType::Decimal128(4, 2)));
    assert_eq!(run_decimals(Operator::Minus, (1, 1, 0), (7, 15, 2)).unwrap(), (93, DataType::Decimal128(16, 2)));
    assert_eq!(run_decimals(Operator::Multiply, (15, 2, 1), (-25, 3, 2)).unwrap(), (-375, DataType::Decimal128(5, 3)));
    assert_eq!(run_decimals(Operator::Modulo, (55, 2, 1), (2, 1, 0)).unwrap(), (15, DataType::Decimal128(2, 1)));
    let large = (ten(38) - 1, 38, 0);
    assert_eq!(run_decimals(Operator::Plus, large, (1, 1, 0)).unwrap_err().kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(run_decimals(Operator::Plus, large, (0, 1, 0)).unwrap().0, ten(38) - 1);
    assert_eq!(run_decimals(Operator::Multiply, large, large).unwrap_err().kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(
        run_decimals(Operator::Multiply, (1, 38, 20), (1, 38, 20)).unwrap_err().kind(),
        ErrorKind::NumericOutOfRange
    );
    assert_eq!(run_decimals(Operator::Modulo, (1, 1, 0), (0, 1, 0)).unwrap_err().kind(), ErrorKind::DivisionByZero);
}

#[test]
fn a_quotient_of_decimals_is_a_double() {
    let quotient = |left: ColumnarValue, right: ColumnarValue| decimals::divide(&left, &right, 1);
    let found = quotient(decimal(100, 3, 1), decimal(4, 1, 0)).unwrap();
    assert_eq!(found.as_primitive::<Float64Type>().value(0), 2.5);
    let error = quotient(decimal(1, 1, 0), decimal(0, 1, 0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DivisionByZero);
}

#[test]
fn floats_have_one_nan_and_one_zero() {
    let column = |values: Vec<f64>| ColumnarValue::Array(Arc::new(Float64Array::from(values)));
    let infinity = f64::INFINITY;
    let left = column(vec![0.0, infinity, -0.0, 1.0, -1.0]);
    let right = column(vec![0.0, infinity, 0.0, 0.0, f64::NAN]);
    for op in [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide, Operator::Modulo] {
        for value in floats::apply(op, &left, &right, 5).unwrap().as_primitive::<Float64Type>().values() {
            assert!(!value.is_nan() || value.to_bits() == f64::NAN.to_bits(), "{op}");
            assert!(*value != 0.0 || value.is_sign_positive(), "{op}");
        }
    }
}

#[test]
fn digits_are_counted() {
    assert_eq!([0, 9, 10, -999, i128::from(i64::MAX)].map(digits_of), [1, 1, 2, 3, 19]);
}
