//! Further functions of numbers: the gamma function, neighbours of floats, even numbers, remainders.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::float::{apply, apply_pair};
use super::rounding::{round_even, round_kinds};
use super::whole;
use crate::functions::rowwise::{NumberArgument, bigints, booleans, numbers};
use crate::functions::signatures::{BIGINT, BOOLEAN, DOUBLE, INTEGER, exactly, floats, ordinary};
use crate::kinds::{digits_and_scale, division_by_zero, is_decimal, is_float, is_number, out_of_range};

/// The functions of this file.
pub(in crate::functions) static SPECIAL: &[FunctionSpec] = &[
    FunctionSpec {
        name: "gamma",
        signature: |arguments| floats(arguments, 1),
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, libm::tgamma),
        doc: "The gamma function, which is the factorial of the number minus 1.",
        example: ("gamma(5)", "24.0"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "lgamma",
        signature: |arguments| floats(arguments, 1),
        kernel: |arguments, kind, rows| apply(arguments, kind, rows, libm::lgamma),
        doc: "The logarithm of the absolute value of the gamma function.",
        example: ("lgamma(2)", "0.0"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "even",
        signature: |arguments| floats(arguments, 1),
        kernel: |arguments, kind, rows| {
            apply(arguments, kind, rows, |number| (number.abs() / 2.0).ceil().copysign(number) * 2.0)
        },
        doc: "The number rounded away from zero to an even number.",
        example: ("even(2.1)", "4.0"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "fdiv",
        signature: |arguments| floats(arguments, 2),
        kernel: |arguments, kind, rows| apply_pair(arguments, kind, rows, |left, right| whole::floor(left / right)),
        doc: "The quotient of two numbers, rounded down.",
        example: ("fdiv(7, 2)", "3.0"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "fmod",
        signature: |arguments| floats(arguments, 2),
        kernel: |arguments, kind, rows| {
            apply_pair(arguments, kind, rows, |left, right| left - right * whole::floor(left / right))
        },
        doc: "The remainder of two numbers, with the sign of the second one.",
        example: ("fmod(-7, 2)", "1.0"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "nextafter",
        signature: |arguments| floats(arguments, 2),
        kernel: |arguments, kind, rows| match kind {
            // The next REAL is not the next DOUBLE.
            DataType::Float32 => {
                let [from, to] = [0, 1].map(|place| NumberArgument::<f32>::new::<Float32Type>(&arguments[place]));
                numbers::<Float32Type>(arguments, kind, rows, |row| Ok(libm::nextafterf(from.at(row), to.at(row))))
            }
            _ => apply_pair(arguments, kind, rows, libm::nextafter),
        },
        doc: "The next float after the first number in the direction of the second one.",
        example: ("nextafter(1.0, 2.0)", "1.0000000000000002"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "isinf",
        signature: one_float,
        kernel: |arguments, _, rows| test(arguments, rows, f64::is_infinite),
        doc: "Whether the number is infinite.",
        example: ("isinf(1.5)", "false"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "isfinite",
        signature: |arguments| match arguments {
            [value] if is_of_time(value.kind) => {
                Some(CallKinds { arguments: vec![value.kind.clone()], result: BOOLEAN })
            }
            _ => one_float(arguments),
        },
        kernel: |arguments, _, rows| match is_of_time(arguments[0].values.data_type()) {
            // Our dates, timestamps and intervals have no infinite values.
            true => booleans(arguments, rows, |_| true),
            false => test(arguments, rows, f64::is_finite),
        },
        doc: "Whether a number is neither infinite nor NaN. Dates, timestamps and intervals are always finite.",
        example: ("isfinite(1.5)", "true"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "signbit",
        signature: one_float,
        kernel: |arguments, _, rows| test(arguments, rows, |number| number.is_sign_negative() && number != 0.0),
        doc: "Whether the number is below zero.",
        example: ("signbit(-1.5)", "true"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "round_even",
        aliases: &["roundbankers"],
        can_fail: true,
        signature: round_kinds,
        kernel: round_even,
        doc: "The number rounded to places after the point, a half to the even neighbour.",
        example: ("round_even(12.345, 2)", "12.34"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "binom",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[BIGINT, BIGINT], BIGINT),
        kernel: binom,
        doc: "The number of ways to choose k things from n: the binomial coefficient.",
        example: ("binom(5, 2)", "10"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "div",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[BIGINT, BIGINT], BIGINT),
        kernel: |arguments, kind, rows| {
            let (lefts, rights) = (bigints(&arguments[0]), bigints(&arguments[1]));
            numbers::<Int64Type>(arguments, kind, rows, |row| {
                let (left, right) = (lefts.at(row), rights.at(row));
                if right == 0 {
                    return Err(division_by_zero());
                }
                left.checked_div(right).ok_or_else(|| out_of_range(format!("div({left}, {right})"), kind))
            })
        },
        doc: "The quotient of two integers, cut toward zero.",
        example: ("div(-7, 2)", "-3"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "scale",
        signature: exact_number,
        kernel: |arguments, kind, rows| {
            let scale = digits_and_scale(arguments[0].values.data_type()).map_or(0, |(_, scale)| i32::from(scale));
            numbers::<arrow::datatypes::Int32Type>(arguments, kind, rows, |_| Ok(scale))
        },
        doc: "The digits after the point of the type of a number.",
        example: ("scale(8.40)", "2"),
        ..ordinary("math")
    },
    FunctionSpec {
        name: "min_scale",
        signature: exact_number,
        kernel: super::rounding::min_scale,
        doc: "The digits after the point that an exact number needs.",
        example: ("min_scale(8.40)", "1"),
        ..ordinary("math")
    },
];

fn one_float(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    floats(arguments, 1).map(|kinds| CallKinds { result: BOOLEAN, ..kinds })
}

fn exact_number(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [value] = arguments else { return None };
    let kind = match value.kind {
        DataType::Null => BIGINT,
        kind if kind.is_integer() || is_decimal(kind) => kind.clone(),
        kind if is_number(kind) && !is_float(kind) => kind.clone(),
        _ => return None,
    };
    Some(CallKinds { arguments: vec![kind], result: INTEGER })
}

fn is_of_time(kind: &DataType) -> bool {
    matches!(kind, DataType::Date32 | DataType::Timestamp(..) | DataType::Interval(_))
}

fn test(arguments: &[Operand], rows: usize, of: impl Fn(f64) -> bool) -> Result<ArrayRef> {
    match arguments[0].values.data_type() {
        DataType::Float32 => {
            let numbers = NumberArgument::<f32>::new::<Float32Type>(&arguments[0]);
            booleans(arguments, rows, |row| of(f64::from(numbers.at(row))))
        }
        _ => {
            let numbers = NumberArgument::<f64>::new::<Float64Type>(&arguments[0]);
            booleans(arguments, rows, |row| of(numbers.at(row)))
        }
    }
}

fn binom(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (all, chosen) = (bigints(&arguments[0]), bigints(&arguments[1]));
    numbers::<Int64Type>(arguments, kind, rows, |row| {
        let (all, chosen) = (all.at(row), chosen.at(row));
        if all < 0 || chosen < 0 {
            let message = format!("binom({all}, {chosen}) is not defined: a number is negative");
            return Err(Error::new(ErrorKind::NumericOutOfRange, message));
        }
        if chosen > all {
            return Ok(0);
        }
        // The product of the first k factors is divisible by k!, so each step is exact.
        let ways = (0..chosen.min(all - chosen)).try_fold(1_i128, |ways, step| {
            let ways = ways * i128::from(all - step) / i128::from(step + 1);
            (ways <= i128::from(i64::MAX)).then_some(ways)
        });
        let ways = ways.and_then(|ways| i64::try_from(ways).ok());
        ways.ok_or_else(|| out_of_range(format!("binom({all}, {chosen})"), kind))
    })
}

/// The functions of angles in degrees, as PostgreSQL has them: exact at multiples of 30 and 45 degrees.
pub(in crate::functions) static ANGLES: &[FunctionSpec] = &[
    angle(
        "sind",
        |arguments, kind, rows| apply(arguments, kind, rows, sine),
        "The sine of an angle in degrees.",
        ("sind(30)", "0.5"),
    ),
    angle(
        "cosd",
        |arguments, kind, rows| apply(arguments, kind, rows, |angle| sine(90.0 - angle.abs() % 360.0)),
        "The cosine of an angle in degrees.",
        ("cosd(60)", "0.5"),
    ),
    angle(
        "tand",
        |arguments, kind, rows| apply(arguments, kind, rows, tangent),
        "The tangent of an angle in degrees.",
        ("tand(45)", "1.0"),
    ),
    angle(
        "cotd",
        |arguments, kind, rows| apply(arguments, kind, rows, |angle| 1.0 / tangent(angle)),
        "The cotangent of an angle in degrees.",
        ("cotd(45)", "1.0"),
    ),
    angle(
        "asind",
        |arguments, kind, rows| apply(arguments, kind, rows, |sine| whole_degrees(sine.asin())),
        "The angle in degrees with this sine.",
        ("asind(0.5)", "30.0"),
    ),
    angle(
        "acosd",
        |arguments, kind, rows| apply(arguments, kind, rows, |cosine| whole_degrees(cosine.acos())),
        "The angle in degrees with this cosine.",
        ("acosd(0.5)", "60.0"),
    ),
    angle(
        "atand",
        |arguments, kind, rows| apply(arguments, kind, rows, |tangent| whole_degrees(tangent.atan())),
        "The angle in degrees with this tangent.",
        ("atand(1)", "45.0"),
    ),
    FunctionSpec {
        name: "atan2d",
        signature: |arguments| exactly(arguments, &[DOUBLE, DOUBLE], DOUBLE),
        kernel: |arguments, kind, rows| apply_pair(arguments, kind, rows, |y, x| whole_degrees(y.atan2(x))),
        doc: "The angle in degrees of the point with the coordinates y and x.",
        example: ("atan2d(1, 1)", "45.0"),
        ..ordinary("math")
    },
];

/// Makes the spec of a function of one DOUBLE.
const fn angle(
    name: &'static str,
    kernel: rowmill_plan::function::Kernel,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> FunctionSpec {
    let signature = |arguments: &[ArgumentKind<'_>]| exactly(arguments, &[DOUBLE], DOUBLE);
    FunctionSpec { name, signature, kernel, doc, example, ..ordinary("math") }
}

/// The sine of an angle in degrees, exact where it is 0, one half or 1.
fn sine(angle: f64) -> f64 {
    let turned = angle % 360.0;
    let (sign, angle) = if turned < 0.0 { (-1.0, -turned) } else { (1.0, turned) };
    let (sign, angle) = if angle > 180.0 { (-sign, angle - 180.0) } else { (sign, angle) };
    let angle = if angle > 90.0 { 180.0 - angle } else { angle };
    sign * match angle {
        0.0 => 0.0,
        30.0 => 0.5,
        90.0 => 1.0,
        // Near 90 degrees the cosine of the complement is more accurate.
        angle if angle > 45.0 => (90.0 - angle).to_radians().cos(),
        angle => angle.to_radians().sin(),
    }
}

fn tangent(angle: f64) -> f64 {
    let turned = angle.abs() % 180.0;
    let exact = match turned {
        0.0 => 0.0,
        45.0 => 1.0,
        90.0 => f64::INFINITY,
        135.0 => -1.0,
        _ => sine(angle.abs()) / sine(90.0 - turned) * if (angle.abs() % 360.0) >= 180.0 { -1.0 } else { 1.0 },
    };
    exact * angle.signum()
}

/// An angle in degrees, whose rounding errors near whole degrees are removed.
fn whole_degrees(angle: f64) -> f64 {
    let degrees = angle.to_degrees();
    if (degrees - degrees.round()).abs() < 1e-13 { degrees.round() } else { degrees }
}
