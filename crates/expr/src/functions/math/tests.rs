use std::f64::consts::PI;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Decimal128Array, Float32Array, Int8Array, Int32Array, UInt64Array};
use arrow::datatypes::{DataType, Float64Type};
use rowmill_base::ErrorKind;
use rowmill_plan::Operand;

use crate::functions::signatures::{BIGINT, DOUBLE, TEXT};
use crate::functions::test_call::*;

/// Makes a column of decimals.
fn decimal<const N: usize>(precision: u8, scale: i8, values: [Option<i128>; N]) -> Operand {
    column(Decimal128Array::from_iter(values).with_precision_and_scale(precision, scale).unwrap())
}

fn value(name: &str, arguments: &[Operand]) -> f64 {
    call(name, arguments).unwrap().as_primitive::<Float64Type>().value(0)
}

#[test]
fn absolute_values_keep_their_type_and_the_least_integer_fails() {
    assert_eq!(shown("abs", &[column(Int8Array::from(vec![Some(-127), None, Some(5)]))]), ["127", "NULL", "5"]);
    let error = refused("abs", &[column(Int8Array::from(vec![1, -128]))]);
    assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(error.message(), "number out of range: abs(-128) does not fit TINYINT");
    assert_eq!(refused("abs", &[constant(i64::MIN)]).kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(shown("abs", &[column(UInt64Array::from(vec![u64::MAX]))]), [u64::MAX.to_string()]);
    assert_eq!(shown("abs", &[decimal(3, 2, [Some(-150), None])]), ["1.50", "NULL"]);
    assert_eq!(shown("abs", &[double([Some(-1.5), Some(-0.0), None])]), ["1.5", "0.0", "NULL"]);
    assert_eq!(show(&call_rows("abs", &[constant(-7)], 3).unwrap()), ["7"; 3]);
    assert!(kinds("abs", &[text([None])]).is_none());
    assert_eq!(kinds("abs", &[constant("-5")]).unwrap().arguments, [DOUBLE]);
}

#[test]
fn signs_have_the_type_of_the_number() {
    assert_eq!(shown("sign", &[column(Int32Array::from(vec![-42, 0, 7]))]), ["-1", "0", "1"]);
    assert_eq!(shown("signum", &[decimal(3, 2, [Some(-150), Some(0), None])]), ["-1", "0", "NULL"]);
    assert_eq!(shown("sign", &[double([Some(-1.5), Some(-0.0), Some(f64::NAN)])]), ["-1.0", "0.0", "NaN"]);
    assert_eq!(shown("sign", &[column(UInt64Array::from(vec![0, 9]))]), ["0", "1"]);
    assert_eq!(shown("iszero", &[double([Some(-0.0), Some(1.0), None])]), ["true", "false", "NULL"]);
    assert_eq!(shown("iszero", &[bigint([Some(0), Some(1)])]), ["true", "false"]);
    assert_eq!(shown("isnan", &[double([Some(f64::NAN), Some(1.0), None])]), ["true", "false", "NULL"]);
    assert_eq!(shown("isnan", &[decimal(3, 2, [Some(1), None])]), ["false", "NULL"]);
}

#[test]
fn decimals_are_rounded_exactly_and_have_the_digits_asked_for() {
    let numbers = || decimal(4, 3, [Some(2345), Some(-2345), Some(9995), Some(-2499), None]);
    assert_eq!(shown("round", &[numbers(), constant(2)]), ["2.35", "-2.35", "10.00", "-2.50", "NULL"]);
    assert_eq!(shown("round", &[numbers()]), ["2", "-2", "10", "-2", "NULL"]);
    assert_eq!(shown("round", &[numbers(), constant(5)])[0], "2.345");
    assert_eq!(kinds("round", &[numbers(), constant(2)]).unwrap().result, DataType::Decimal128(4, 2));
    assert_eq!(shown("round", &[numbers(), constant(-1)]), ["0", "0", "10", "0", "NULL"]);
    let places = bigint([Some(1), Some(0), Some(2), Some(9), None]);
    assert_eq!(shown("round", &[numbers(), places]), ["2.300", "-2.000", "10.000", "-2.499", "NULL"]);
    assert_eq!(shown("trunc", &[numbers(), constant(1)]), ["2.3", "-2.3", "9.9", "-2.4", "NULL"]);
    assert_eq!(shown("trunc", &[numbers()]), ["2", "-2", "9", "-2", "NULL"]);
    assert_eq!(shown("ceil", &[numbers()]), ["3", "-2", "10", "-2", "NULL"]);
    assert_eq!(shown("floor", &[numbers()]), ["2", "-3", "9", "-3", "NULL"]);
    let largest = || decimal(38, 0, [Some(10_i128.pow(38) - 1)]);
    assert_eq!(refused("round", &[largest(), constant(-1)]).kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(shown("trunc", &[largest(), constant(-37)]), [format!("9{}", "0".repeat(37))]);
    assert_eq!(shown("round", &[largest(), constant(i64::MIN)]), ["0"]);
    assert_eq!(shown("ceil", &[decimal(38, 38, [Some(1), Some(-1)])]), ["1", "0"]);
    assert_eq!(
        show(&call_rows("round", &[Operand::constant(decimal(2, 1, [Some(25)]).values)], 2).unwrap()),
        ["3", "3"]
    );
}

#[test]
fn integers_are_rounded_to_tens_without_losing_digits() {
    let numbers = || bigint([Some(1250), Some(-1250), Some(i64::MAX), None]);
    assert_eq!(shown("round", &[numbers()]), ["1250", "-1250", "9223372036854775807", "NULL"]);
    assert_eq!(shown("round", &[numbers(), constant(3)])[2], "9223372036854775807");
    assert_eq!(shown("trunc", &[numbers(), constant(-2)]), ["1200", "-1200", "9223372036854775800", "NULL"]);
    assert_eq!(shown("round", &[bigint([Some(1250), Some(-1250)]), constant(-2)]), ["1300", "-1300"]);
    assert_eq!(shown("round", &[numbers(), constant(-30)]), ["0", "0", "0", "NULL"]);
    assert_eq!(refused("round", &[numbers(), constant(-1)]).kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(shown("ceil", &[numbers()])[2], "9223372036854775807");
}

#[test]
fn floats_are_rounded_half_away_from_zero() {
    let numbers = || double([Some(2.5), Some(-2.5), Some(1.005), Some(f64::NAN), Some(f64::INFINITY), None]);
    assert_eq!(shown("round", &[numbers()]), ["3.0", "-3.0", "1.0", "NaN", "inf", "NULL"]);
    assert_eq!(shown("round", &[numbers(), constant(1)])[..2], ["2.5", "-2.5"]);
    assert_eq!(shown("round", &[double([Some(1234.5), Some(1e300)]), constant(-2)]), ["1200.0", "1e300"]);
    let exact = double([5.05, 5.15, 0.25, -0.25, -5.05, 2.675, 123456.789].map(Some));
    assert_eq!(shown("round", &[exact, constant(1)]), ["5.0", "5.2", "0.3", "-0.3", "-5.0", "2.7", "123456.8"]);
    let exact = double([2.675, 1.015, 8.345, 709.7275].map(Some));
    assert_eq!(shown("round", &[exact, constant(2)]), ["2.67", "1.01", "8.35", "709.73"]);
    let beside = double([Some(1250.0), Some(1249.9999999999998), Some(-1250.0)]);
    assert_eq!(shown("round", &[beside, constant(-2)]), ["1300.0", "1200.0", "-1300.0"]);
    assert_eq!(shown("round", &[double([Some(123456.789)]), constant(20)]), ["123456.789"]);
    assert_eq!(shown("round", &[double([Some(59181.791738296626)]), constant(11)]), ["59181.79173829663"]);
    assert_eq!(shown("round", &[double([Some(1e300), Some(5e-324)]), constant(310)]), ["1e300", "5e-324"]);
    assert_eq!(shown("round", &[double([Some(1.5)]), constant(i64::MAX)]), ["1.5"]);
    assert_eq!(shown("round", &[double([Some(1.5)]), constant(i64::MIN)]), ["0.0"]);
    assert_eq!(shown("trunc", &[numbers()])[..2], ["2.0", "-2.0"]);
    assert_eq!(shown("ceil", &[double([Some(-0.5), Some(0.5)])]), ["0.0", "1.0"]);
    assert_eq!(shown("floor", &[double([Some(-0.5), Some(0.5)])]), ["-1.0", "0.0"]);
    let real = || column(Float32Array::from(vec![0.15, 2.5]));
    assert_eq!(shown("round", &[real(), constant(1)]), ["0.2", "2.5"]);
    assert_eq!(kinds("round", &[real()]).unwrap().result, DataType::Float32);
}

#[test]
fn real_functions_follow_ieee_754() {
    assert_eq!(value("sqrt", &[double([Some(16.0)])]), 4.0);
    // There is one NaN, because comparisons look at bits.
    assert_eq!(value("sqrt", &[double([Some(-1.0)])]).to_bits(), f64::NAN.to_bits());
    assert_eq!(value("ln", &[double([Some(0.0)])]), f64::NEG_INFINITY);
    assert_eq!(value("sin", &[double([Some(-0.0)])]).to_bits(), 0);
    assert_eq!(value("exp", &[number(1000.0)]), f64::INFINITY);
    assert_eq!(value("log", &[number(1000.0)]), 3.0);
    assert_eq!(value("log", &[number(2.0), double([Some(8.0)])]), 3.0);
    assert_eq!(value("log", &[number(3.0), double([Some(9.0)])]), 2.0);
    assert_eq!(value("log2", &[number(8.0)]), 3.0);
    assert_eq!(value("power", &[constant(2), constant(10)]), 1024.0);
    assert_eq!(value("pow", &[constant(2), number(-1.0)]), 0.5);
    assert_eq!(value("atan2", &[number(1.0), number(0.0)]), PI / 2.0);
    assert_eq!(value("degrees", &[number(PI)]), 180.0);
    assert_eq!(value("radians", &[constant(180)]), PI);
    assert_eq!(value("cbrt", &[number(27.0)]), 3.0);
    assert_eq!(value("cot", &[number(PI / 4.0)]).round(), 1.0);
    assert_eq!(value("pi", &[]), PI);
    for name in ["tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh"] {
        assert_eq!(value(name, &[number(0.0)]), 0.0, "{name}");
    }
    for name in ["cos", "cosh"] {
        assert_eq!(value(name, &[number(0.0)]), 1.0, "{name}");
    }
    for name in ["acos", "acosh", "log10"] {
        assert_eq!(value(name, &[number(1.0)]), 0.0, "{name}");
    }
    assert_eq!(shown("sqrt", &[double([Some(4.0), None])]), ["2.0", "NULL"]);
    assert_eq!(shown("power", &[double([Some(4.0), None]), null(&DOUBLE)]), ["NULL", "NULL"]);
    assert_eq!(shown("nanvl", &[double([Some(f64::NAN), Some(1.0), None]), number(5.0)]), ["5.0", "1.0", "NULL"]);
    assert_eq!(kinds("sqrt", &[column(Float32Array::from(vec![1.0]))]).unwrap().result, DataType::Float32);
    assert!(kinds("sqrt", &[]).is_none() && kinds("log", &[]).is_none());
    assert_eq!(show(&call_rows("sqrt", &[number(4.0)], 2).unwrap()), ["2.0", "2.0"]);
    assert_eq!(show(&call_rows("sqrt", &[null(&DOUBLE)], 2).unwrap()), ["NULL", "NULL"]);
}

#[test]
fn divisors_multiples_and_factorials_fit_or_fail() {
    let of =
        |name, left: i64, right: i64| call(name, &[constant(left), constant(right)]).map(|made| show(&made).remove(0));
    assert_eq!(of("gcd", 48, -18).unwrap(), "6");
    assert_eq!(of("gcd", 0, 0).unwrap(), "0");
    assert_eq!(of("gcd", i64::MIN, 0).unwrap_err().kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(of("gcd", i64::MIN, 6).unwrap(), "2");
    assert_eq!(of("lcm", 4, -6).unwrap(), "12");
    assert_eq!(of("lcm", 0, 5).unwrap(), "0");
    assert_eq!(of("lcm", i64::MAX, 2).unwrap_err().kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(shown("factorial", &[bigint([Some(0), Some(20), None])]), ["1", "2432902008176640000", "NULL"]);
    assert!(refused("factorial", &[constant(30)]).message().contains("out of range"));
    assert_eq!(refused("factorial", &[constant(i64::MAX)]).kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(refused("factorial", &[constant(-1)]).kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(kinds("gcd", &[column(Int8Array::from(vec![1])), constant(2)]).unwrap().arguments, [BIGINT, BIGINT]);
}

#[test]
fn bits_stay_in_their_type() {
    let small = |values: [i8; 2]| column(Int8Array::from(values.to_vec()));
    assert_eq!(shown("bitwise_and", &[small([6, -1]), small([3, 5])]), ["2", "5"]);
    assert_eq!(shown("bitwise_or", &[small([6, -1]), small([3, 5])]), ["7", "-1"]);
    assert_eq!(shown("bitwise_xor", &[small([6, -1]), small([3, 5])]), ["5", "-6"]);
    assert_eq!(shown("bitwise_not", &[small([6, -1])]), ["-7", "0"]);
    assert_eq!(shown("bitwise_shift_left", &[small([64, 3]), small([1, 2])]), ["-128", "12"]);
    assert_eq!(shown("bitwise_shift_right", &[small([-12, 12]), small([2, 8])]), ["-3", "12"]);
    assert_eq!(shown("bitwise_and", &[bigint([Some(6), None]), constant(3)]), ["2", "NULL"]);
    assert_eq!(show(&call_rows("bitwise_not", &[constant(6)], 2).unwrap()), ["-7", "-7"]);
    assert_eq!(shown("bitwise_not", &[column(UInt64Array::from(vec![0]))]), [u64::MAX.to_string()]);
    assert!(kinds("bitwise_and", &[number(1.0), constant(1)]).is_none());
    assert!(kinds("bitwise_not", &[constant(1), constant(1)]).is_none());
}

#[test]
fn buckets_have_numbers_from_one() {
    let bucket = |values: Operand, low: f64, high: f64, count: i64| {
        call("width_bucket", &[values, number(low), number(high), constant(count)]).map(|made| show(&made))
    };
    let values = || double([Some(-1.0), Some(0.0), Some(5.3), Some(9.99), Some(10.0), Some(f64::INFINITY), None]);
    assert_eq!(bucket(values(), 0.0, 10.0, 5).unwrap(), ["0", "1", "3", "5", "6", "6", "NULL"]);
    assert_eq!(bucket(values(), 10.0, 0.0, 5).unwrap()[..3], ["6", "6", "3"]);
    assert_eq!(bucket(values(), 0.0, 10.0, 0).unwrap_err().kind(), ErrorKind::InvalidParameter);
    assert_eq!(bucket(values(), 1.0, 1.0, 5).unwrap_err().kind(), ErrorKind::InvalidParameter);
    assert_eq!(bucket(number(f64::NAN), 0.0, 1.0, 5).unwrap_err().kind(), ErrorKind::InvalidParameter);
}

#[test]
fn random_numbers_differ_and_stay_below_one() {
    let numbers = call_rows("random", &[], 10_000).unwrap();
    let numbers = numbers.as_primitive::<Float64Type>();
    assert!(numbers.values().iter().all(|number| (0.0..1.0).contains(number)));
    let mean = numbers.values().iter().sum::<f64>() / 10_000.0;
    assert!((0.48..0.52).contains(&mean), "{mean}");
    assert_ne!(numbers.value(0), numbers.value(1));
    assert_eq!(call_rows("rand", &[], 0).unwrap().len(), 0);
}

#[test]
fn empty_batches_give_empty_columns() {
    for name in ["abs", "sign", "round", "ceil", "sqrt", "iszero", "isnan"] {
        assert_eq!(call_rows(name, &[double([])], 0).unwrap().len(), 0, "{name}");
        assert_eq!(call_rows(name, &[null(&TEXT)].map(|_| null(&DataType::Null)), 0).unwrap().len(), 0, "{name}");
    }
    assert_eq!(call_rows("abs", &[Operand::constant(Arc::new(Int8Array::from(vec![1])))], 0).unwrap().len(), 0);
}
