//! Functions of numbers.
//!
//! Functions of real numbers convert every number to DOUBLE, except REAL, and follow IEEE 754: the square root of -1 is
//! NaN, the logarithm of 0 is minus infinity. They never fail. Functions that are useful for integers and decimals
//! (`abs`, `round`, `ceil` and similar) stay exact: they return integers and decimals.

mod bits;
mod float;
mod integer;
mod random;
mod rounding;
mod sign;
mod special;
mod whole;
mod wide_sum;

#[cfg(test)]
mod tests;

use arrow::datatypes::DataType;
use rowmill_plan::FunctionSpec;
use rowmill_plan::function::{RowValue, Volatility};

use super::signatures::{BIGINT, BOOLEAN, DOUBLE, INTEGER, exactly, floats, one_number, ordinary};
use float::{apply, apply_pair, canonical};
pub use random::SessionRandom;
pub(super) use special::{ANGLES, SPECIAL};

/// Makes the spec of a function of one real number.
const fn real_function(name: &'static str) -> FunctionSpec {
    FunctionSpec { name, signature: |arguments| floats(arguments, 1), ..ordinary("math") }
}

/// The functions of the family.
pub(super) static MATH: &[FunctionSpec] = &[
    FunctionSpec {
        name: "abs",
        signature: |arguments| one_number(arguments, Clone::clone),
        kernel: sign::abs,
        can_fail: true,
        doc: "The number without its sign.",
        example: ("abs(-5)", "5"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "sign",
        aliases: &["signum"],
        signature: |arguments| one_number(arguments, sign::kind_of_sign),
        kernel: sign::sign,
        doc: "-1 for a negative number, 0 for zero, 1 for a positive one.",
        example: ("sign(-42)", "-1"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "round",
        signature: rounding::round_kinds,
        kernel: rounding::round,
        row: Some(|arguments, kinds, _| double(arguments, kinds, whole::round)),
        can_fail: true,
        doc: "The number rounded half away from zero, to whole numbers or to places after the point; to tens, \
              hundreds and so on if negative.",
        example: ("round(2.345, 2)", "2.35"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "trunc",
        signature: rounding::trunc_kinds,
        kernel: rounding::trunc,
        row: Some(|arguments, kinds, _| double(arguments, kinds, whole::trunc)),
        can_fail: true,
        doc: "The number cut toward zero, to whole numbers or to a number of digits after the point.",
        example: ("trunc(42.738, 1)", "42.7"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "ceil",
        aliases: &["ceiling"],
        signature: |arguments| one_number(arguments, rounding::whole_kind),
        kernel: rounding::ceil,
        row: Some(|arguments, kinds, _| double(arguments, kinds, whole::ceil)),
        doc: "The least whole number that is not below the number.",
        example: ("ceil(3.14)", "4"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "floor",
        signature: |arguments| one_number(arguments, rounding::whole_kind),
        kernel: rounding::floor,
        row: Some(|arguments, kinds, _| double(arguments, kinds, whole::floor)),
        doc: "The greatest whole number that is not above the number.",
        example: ("floor(-3.14)", "-4"),
        ..ordinary("math")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::sqrt),
        doc: "The square root.",
        example: ("sqrt(16)", "4.0"),
        ..real_function("sqrt")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::cbrt),
        doc: "The cube root.",
        example: ("cbrt(27)", "3.0"),
        ..real_function("cbrt")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::exp),
        doc: "e raised to the number.",
        example: ("exp(0)", "1.0"),
        ..real_function("exp")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::ln),
        doc: "The natural logarithm.",
        example: ("ln(1)", "0.0"),
        ..real_function("ln")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::log2),
        doc: "The logarithm to base 2.",
        example: ("log2(8)", "3.0"),
        ..real_function("log2")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::log10),
        doc: "The logarithm to base 10.",
        example: ("log10(1000)", "3.0"),
        ..real_function("log10")
    },
    FunctionSpec {
        name: "log",
        signature: |arguments| floats(arguments, if arguments.len() == 2 { 2 } else { 1 }),
        kernel: float::log,
        doc: "The logarithm to the base of the first of two arguments, or to base 10 of one.",
        example: ("log(2, 8)", "3.0"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "power",
        aliases: &["pow"],
        signature: |arguments| exactly(arguments, &[DOUBLE, DOUBLE], DOUBLE),
        kernel: float::power,
        doc: "The first number raised to the second one.",
        example: ("power(2, 10)", "1024.0"),
        ..ordinary("math")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::sin),
        doc: "The sine of an angle in radians.",
        example: ("sin(0)", "0.0"),
        ..real_function("sin")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::cos),
        doc: "The cosine of an angle in radians.",
        example: ("cos(0)", "1.0"),
        ..real_function("cos")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::tan),
        doc: "The tangent of an angle in radians.",
        example: ("tan(0)", "0.0"),
        ..real_function("tan")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, |angle| angle.tan().recip()),
        doc: "The cotangent of an angle in radians.",
        example: ("round(cot(1), 4)", "0.6421"),
        ..real_function("cot")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::asin),
        doc: "The angle in radians with this sine.",
        example: ("asin(0)", "0.0"),
        ..real_function("asin")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::acos),
        doc: "The angle in radians with this cosine.",
        example: ("acos(1)", "0.0"),
        ..real_function("acos")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::atan),
        doc: "The angle in radians with this tangent.",
        example: ("atan(0)", "0.0"),
        ..real_function("atan")
    },
    FunctionSpec {
        name: "atan2",
        signature: |arguments| floats(arguments, 2),
        kernel: |arguments, kind, rows| apply_pair(arguments, kind, rows, f64::atan2),
        doc: "The angle in radians of the point with the first number as y and the second one as x.",
        example: ("atan2(0, 1)", "0.0"),
        ..ordinary("math")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::sinh),
        doc: "The hyperbolic sine.",
        example: ("sinh(0)", "0.0"),
        ..real_function("sinh")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::cosh),
        doc: "The hyperbolic cosine.",
        example: ("cosh(0)", "1.0"),
        ..real_function("cosh")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::tanh),
        doc: "The hyperbolic tangent.",
        example: ("tanh(0)", "0.0"),
        ..real_function("tanh")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::asinh),
        doc: "The number with this hyperbolic sine.",
        example: ("asinh(0)", "0.0"),
        ..real_function("asinh")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::acosh),
        doc: "The number with this hyperbolic cosine.",
        example: ("acosh(1)", "0.0"),
        ..real_function("acosh")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::atanh),
        doc: "The number with this hyperbolic tangent.",
        example: ("atanh(0)", "0.0"),
        ..real_function("atanh")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::to_degrees),
        doc: "The angle in degrees of an angle in radians.",
        example: ("degrees(pi())", "180.0"),
        ..real_function("degrees")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, f64::to_radians),
        doc: "The angle in radians of an angle in degrees.",
        example: ("round(radians(180), 4)", "3.1416"),
        ..real_function("radians")
    },
    FunctionSpec {
        name: "pi",
        signature: |arguments| exactly(arguments, &[], DOUBLE),
        kernel: float::pi,
        doc: "The ratio of a circle's circumference to its diameter.",
        example: ("pi()", "3.141592653589793"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "isnan",
        signature: |arguments| one_number(arguments, |_| BOOLEAN),
        kernel: float::isnan,
        doc: "Whether the number is NaN.",
        example: ("isnan(1.5)", "false"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "iszero",
        signature: |arguments| one_number(arguments, |_| BOOLEAN),
        kernel: sign::iszero,
        doc: "Whether the number is zero.",
        example: ("iszero(0)", "true"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "nanvl",
        signature: |arguments| floats(arguments, 2),
        kernel: |arguments, kind, rows| {
            apply_pair(arguments, kind, rows, |number, instead| if number.is_nan() { instead } else { number })
        },
        doc: "The first number, or the second one if the first one is NaN.",
        example: ("nanvl(1, 5)", "1.0"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "gcd",
        aliases: &["greatest_common_divisor"],
        signature: |arguments| exactly(arguments, &[BIGINT, BIGINT], BIGINT),
        kernel: integer::gcd,
        can_fail: true,
        doc: "The greatest common divisor of two integers; 0 if both are 0.",
        example: ("gcd(48, 18)", "6"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "lcm",
        aliases: &["least_common_multiple"],
        signature: |arguments| exactly(arguments, &[BIGINT, BIGINT], BIGINT),
        kernel: integer::lcm,
        can_fail: true,
        doc: "The least common multiple of two integers; 0 if one is 0.",
        example: ("lcm(4, 6)", "12"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "factorial",
        signature: |arguments| exactly(arguments, &[BIGINT], BIGINT),
        kernel: integer::factorial,
        can_fail: true,
        doc: "The product of all integers from 1 to the number, which is at most 20.",
        example: ("factorial(5)", "120"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "bitwise_and",
        signature: |arguments| bits::integer_kinds(arguments, 2),
        kernel: bits::and,
        doc: "The bits that both integers have, as the operator & gives them.",
        example: ("bitwise_and(6, 3)", "2"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "bitwise_or",
        signature: |arguments| bits::integer_kinds(arguments, 2),
        kernel: bits::or,
        doc: "The bits that one of the integers has, as the operator | gives them.",
        example: ("bitwise_or(6, 3)", "7"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "bitwise_xor",
        aliases: &["xor"],
        signature: |arguments| bits::integer_kinds(arguments, 2),
        kernel: bits::xor,
        doc: "The bits that exactly one of the integers has, as the operator # gives them.",
        example: ("bitwise_xor(6, 3)", "5"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "bitwise_not",
        signature: |arguments| bits::integer_kinds(arguments, 1),
        kernel: bits::not,
        doc: "The bits that the integer does not have, as the operator ~ gives them.",
        example: ("bitwise_not(6)", "-7"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "bitwise_shift_left",
        signature: |arguments| bits::integer_kinds(arguments, 2),
        kernel: bits::shift_left,
        doc: "The integer with its bits moved to the left, as the operator << gives it.",
        example: ("bitwise_shift_left(3, 2)", "12"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "bitwise_shift_right",
        signature: |arguments| bits::integer_kinds(arguments, 2),
        kernel: bits::shift_right,
        doc: "The integer with its bits moved to the right, as the operator >> gives it.",
        example: ("bitwise_shift_right(-12, 2)", "-3"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "width_bucket",
        signature: |arguments| exactly(arguments, &[DOUBLE, DOUBLE, DOUBLE, BIGINT], INTEGER),
        kernel: float::width_bucket,
        can_fail: true,
        doc: "The number of the bucket that the first argument falls into, out of the fourth argument's count of \
            equal buckets \
              between the second and the third: 0 below the first, the count plus 1 above the last.",
        example: ("width_bucket(5.3, 0, 10, 5)", "3"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "wide_sum_part",
        signature: wide_sum::part_kinds,
        kernel: wide_sum::part,
        doc: "One of three parts of a DECIMAL of more than 38 digits, from which wide_sum makes the sum of such \
              numbers.",
        example: ("wide_sum_part(CAST(7 AS DECIMAL(76,0)), 0)", "7"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "wide_sum",
        can_fail: true,
        signature: wide_sum::sum_kinds,
        kernel: wide_sum::sum,
        doc: "The sum of numbers of more than 38 digits, from the sums of their three parts and their digits after the \
              point.",
        example: (
            "wide_sum(CAST(750 AS DECIMAL(38,0)), CAST(0 AS DECIMAL(38,0)), CAST(0 AS DECIMAL(38,0)), 2)",
            "7.50",
        ),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "wide_average",
        can_fail: true,
        signature: wide_sum::average_kinds,
        kernel: wide_sum::average,
        doc: "The average of numbers of more than 38 digits, from the sums of their three parts, their count and their \
              digits after the point.",
        example: (
            "wide_average(CAST(750 AS DECIMAL(38,0)), CAST(0 AS DECIMAL(38,0)), CAST(0 AS DECIMAL(38,0)), 2, 2)",
            "3.75",
        ),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "wide_list_sum",
        can_fail: true,
        signature: wide_sum::list_sum_kinds,
        kernel: wide_sum::list_sum,
        doc: "The sum of the items of a list of decimals of more than 38 digits.",
        example: ("wide_list_sum([CAST(7 AS DECIMAL(76,1)), CAST(0.5 AS DECIMAL(76,1))])", "7.5"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "wide_list_average",
        can_fail: true,
        signature: wide_sum::list_average_kinds,
        kernel: wide_sum::list_average,
        doc: "The average of the items of a list of decimals of more than 38 digits.",
        example: ("wide_list_average([CAST(7 AS DECIMAL(76,1)), CAST(0.5 AS DECIMAL(76,1))])", "3.75"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "random",
        aliases: &["rand"],
        volatility: Volatility::Volatile,
        signature: |arguments| exactly(arguments, &[], DOUBLE),
        kernel: random::random,
        doc: "A random number from 0 to below 1.",
        example: ("random() < 1", "true"),
        ..ordinary("math")
    },
];

/// Calls a generic function of a kernel with the Arrow type of the integers of a `DataType`.
macro_rules! for_integer {
    ($kind:expr, $call:ident ( $($argument:expr),* ), $otherwise:expr) => {{
        use arrow::datatypes as types;
        match $kind {
            DataType::Int8 => $call::<types::Int8Type>($($argument),*),
            DataType::Int16 => $call::<types::Int16Type>($($argument),*),
            DataType::Int32 => $call::<types::Int32Type>($($argument),*),
            DataType::Int64 => $call::<types::Int64Type>($($argument),*),
            DataType::UInt8 => $call::<types::UInt8Type>($($argument),*),
            DataType::UInt16 => $call::<types::UInt16Type>($($argument),*),
            DataType::UInt32 => $call::<types::UInt32Type>($($argument),*),
            DataType::UInt64 => $call::<types::UInt64Type>($($argument),*),
            _ => $otherwise,
        }
    }};
}
use for_integer;

/// Returns the error for a kernel that is called with a type outside of its signature. This is a bug.
fn not_a_number(kind: &DataType) -> rowmill_base::Error {
    rowmill_base::Error::internal(format!("a function of numbers was given {kind}"))
}

/// The result of a function of one DOUBLE for a row.
fn double<'a>(arguments: &[RowValue<'_>], kinds: &[DataType], of: fn(f64) -> f64) -> Option<RowValue<'a>> {
    match (arguments, kinds) {
        ([RowValue::Float(value)], [DataType::Float64]) => Some(RowValue::Float(canonical(of(*value)))),
        _ => None,
    }
}
