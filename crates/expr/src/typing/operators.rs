//! Typed operators and calls.

use arrow::array::Decimal256Array;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::ArgumentKind;
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, Constant, ExprOp, FunctionSpec, ScalarExpr};

use super::casts::{cast, coerce};
use super::common::{common_kind, comparison_kind, is_open_text};
use super::decimal_digits::decimal_result;
use super::zones::call_in_zone;
use crate::functions;
use crate::kinds::{
    digits_and_scale, digits_of, exact_value, exact_wide_value, is_decimal, is_number, is_wide_decimal, type_name,
};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Makes `left op right` of numbers, dates, times, timestamps and intervals. A literal text, or NULL, takes the type
/// that the operator needs beside the other operand.
pub fn arithmetic(op: ArithmeticOp, left: ScalarExpr, right: ScalarExpr) -> Result<ScalarExpr> {
    let (left, right) = adapt_literals(op, left, right)?;
    match is_number(&left.kind) && is_number(&right.kind) {
        true => of_numbers(op, left, right),
        false => of_times(op, left, right),
    }
}

/// Gives literal texts and NULLs a type.
fn adapt_literals(op: ArithmeticOp, left: ScalarExpr, right: ScalarExpr) -> Result<(ScalarExpr, ScalarExpr)> {
    let is_open = |expr: &ScalarExpr| expr.kind == DataType::Null || is_open_text(expr);
    Ok(match (is_open(&left), is_open(&right)) {
        (true, true) if left.kind == DataType::Null && right.kind == DataType::Null => {
            (ScalarExpr::null(DataType::Int64), ScalarExpr::null(DataType::Int64))
        }
        (true, false) => {
            let kind = kind_beside(op, &right.kind, left.kind == DataType::Null, true);
            (kind.map_or(Ok(left.clone()), |kind| coerce(left, &kind))?, right)
        }
        (false, true) => {
            let kind = kind_beside(op, &left.kind, right.kind == DataType::Null, false);
            (left, kind.map_or(Ok(right.clone()), |kind| coerce(right, &kind))?)
        }
        _ => (left, right),
    })
}

/// Returns the type that a literal without its own type gets beside `other`.
fn kind_beside(op: ArithmeticOp, other: &DataType, is_null: bool, is_left: bool) -> Option<DataType> {
    Some(match (op, other) {
        (_, other) if is_number(other) => other.clone(),
        (ArithmeticOp::Plus | ArithmeticOp::Minus, DataType::Date32) if is_null && !is_left => DataType::Int64,
        (ArithmeticOp::Plus, DataType::Date32) if is_null => DataType::Int64,
        (ArithmeticOp::Plus, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_)) => INTERVAL,
        (ArithmeticOp::Minus, DataType::Timestamp(..) | DataType::Time64(_)) if is_null && !is_left => INTERVAL,
        (ArithmeticOp::Minus, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_)) => other.clone(),
        (ArithmeticOp::Plus | ArithmeticOp::Minus, DataType::Interval(_)) => INTERVAL,
        (ArithmeticOp::Times | ArithmeticOp::Divide, DataType::Interval(_)) => DataType::Float64,
        _ => return None,
    })
}

fn of_numbers(op: ArithmeticOp, left: ScalarExpr, right: ScalarExpr) -> Result<ScalarExpr> {
    let kind = common_kind([&left.kind, &right.kind]).ok_or_else(|| no_operator(op, &left.kind, &right.kind))?;
    if !is_decimal(&kind) {
        let operands = [coerce(left, &kind)?, coerce(right, &kind)?];
        return Ok(ScalarExpr::new(kind, ExprOp::Arithmetic(op, Box::new(operands))));
    }
    // For BIGINT UNSIGNED beside a signed integer, no integer type holds all values of both, so we compute with
    // decimals. A quotient of whole numbers must still be a whole number.
    let are_integers = left.kind.is_integer() && right.kind.is_integer();
    let (left, right) = match are_integers {
        true => (coerce(left, &kind)?, coerce(right, &kind)?),
        false => (own_digits(left), own_digits(right)),
    };
    let result = match (op, are_integers) {
        (ArithmeticOp::Divide, true) => kind,
        _ => {
            let digits = |expr: &ScalarExpr| {
                digits_and_scale(&expr.kind).ok_or_else(|| Error::internal("decimal arithmetic of a float"))
            };
            decimal_result(op, digits(&left)?, digits(&right)?)?
        }
    };
    Ok(ScalarExpr::new(result, ExprOp::Arithmetic(op, Box::new([left, right]))))
}

/// A literal integer beside a decimal needs only its own digits, not those of its type.
fn own_digits(expr: ScalarExpr) -> ScalarExpr {
    if !expr.kind.is_integer() {
        return expr;
    }
    let Some((value, _)) = expr.as_constant().and_then(exact_value) else { return expr };
    decimal_literal(value, digits_of(value), 0)
}

fn decimal_literal(value: i128, digits: u8, scale: i8) -> ScalarExpr {
    let array = arrow::array::Decimal128Array::from(vec![value])
        .with_precision_and_scale(digits, scale)
        .expect("the digits of a decimal are counted");
    ScalarExpr::literal(Constant::new(std::sync::Arc::new(array)))
}

fn of_times(op: ArithmeticOp, left: ScalarExpr, right: ScalarExpr) -> Result<ScalarExpr> {
    use ArithmeticOp::{Divide, Minus, Plus, Times};
    use DataType::{Date32, Interval, Time64, Timestamp};
    match (op, &left.kind, &right.kind) {
        (Plus, Date32, days) if days.is_integer() => named("date_plus_days", left, right),
        (Plus, days, Date32) if days.is_integer() => named("date_plus_days", right, left),
        (Minus, Date32, days) if days.is_integer() => named("date_minus_days", left, right),
        (Minus, Date32, Date32) => named("date_minus_date", left, right),
        // A date means the midnight that it begins with, because adding an interval of hours leaves that midnight.
        (Plus, Date32, Interval(_)) => named("timestamp_plus_interval", coerce(left, &TIMESTAMP)?, right),
        (Plus, Interval(_), Date32) => named("timestamp_plus_interval", coerce(right, &TIMESTAMP)?, left),
        (Minus, Date32, Interval(_)) => named("timestamp_minus_interval", coerce(left, &TIMESTAMP)?, right),
        (Plus, Timestamp(..), Interval(_)) => named("timestamp_plus_interval", left, right),
        (Plus, Interval(_), Timestamp(..)) => named("timestamp_plus_interval", right, left),
        (Minus, Timestamp(..), Interval(_)) => named("timestamp_minus_interval", left, right),
        (Minus, Timestamp(..), Timestamp(..) | Date32) | (Minus, Date32, Timestamp(..)) => {
            let kind = common_kind([&left.kind, &right.kind]).unwrap_or(TIMESTAMP);
            named("timestamp_minus_timestamp", coerce(left, &kind)?, coerce(right, &kind)?)
        }
        (Plus, Time64(_), Interval(_)) => named("time_plus_interval", left, right),
        (Plus, Interval(_), Time64(_)) => named("time_plus_interval", right, left),
        (Minus, Time64(_), Interval(_)) => named("time_minus_interval", left, right),
        (Minus, Time64(_), Time64(_)) => named("time_minus_time", left, right),
        (Plus, Interval(_), Interval(_)) => named("interval_plus_interval", left, right),
        (Minus, Interval(_), Interval(_)) => named("interval_minus_interval", left, right),
        (Times, Interval(_), number) if is_number(number) => named("interval_times_number", left, right),
        (Times, number, Interval(_)) if is_number(number) => named("interval_times_number", right, left),
        (Divide, Interval(_), number) if is_number(number) => named("interval_divided_by_number", left, right),
        _ => Err(no_operator(op, &left.kind, &right.kind)),
    }
}

fn no_operator(op: ArithmeticOp, left: &DataType, right: &DataType) -> Error {
    let message = format!("there is no {} {op} {}", type_name(left), type_name(right));
    Error::new(ErrorKind::DatatypeMismatch, message).hint("CAST one side to a number")
}

/// Makes the call of a function that implements an operator.
fn named(function: &str, left: ScalarExpr, right: ScalarExpr) -> Result<ScalarExpr> {
    call(operator_function(function)?, vec![left, right])
}

fn operator_function(name: &str) -> Result<&'static FunctionSpec> {
    functions::find(name).ok_or_else(|| Error::internal(format!("the function {name} of an operator is missing")))
}

/// Makes `-expr`. A literal number becomes its opposite. An unsigned integer is first cast to a wider signed one.
pub fn negate(expr: ScalarExpr) -> Result<ScalarExpr> {
    if let Some(opposite) = opposite_literal(&expr) {
        return Ok(opposite);
    }
    let signed = match expr.kind {
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Null => DataType::Int64,
        DataType::Interval(_) => return call(operator_function("negate_interval")?, vec![expr]),
        ref kind if is_number(kind) => kind.clone(),
        ref other => {
            let message = format!("there is no operator '-' of {}", type_name(other));
            return Err(Error::new(ErrorKind::DatatypeMismatch, message).hint("CAST it to a number"));
        }
    };
    let value = coerce(expr, &signed)?;
    // The opposite of NULL is NULL of the signed type.
    if value.as_constant().is_some_and(Constant::is_null) {
        return Ok(value);
    }
    Ok(ScalarExpr::new(signed, ExprOp::Negate(Box::new(value))))
}

/// Returns the opposite of a literal number. `9223372036854775808` is a DECIMAL, and its opposite is the least BIGINT.
fn opposite_literal(expr: &ScalarExpr) -> Option<ScalarExpr> {
    if is_wide_decimal(&expr.kind) {
        let (value, _) = exact_wide_value(expr.as_constant()?)?;
        let array = Decimal256Array::from(vec![value.wrapping_neg()]).with_data_type(expr.kind.clone());
        return Some(ScalarExpr::literal(Constant::new(std::sync::Arc::new(array))));
    }
    let (value, scale) = exact_value(expr.as_constant()?)?;
    let opposite = value.checked_neg()?;
    match expr.kind {
        DataType::Decimal128(_, 0) if opposite == i128::from(i64::MIN) => Some(ScalarExpr::literal(i64::MIN)),
        DataType::Decimal128(digits, _) => Some(decimal_literal(opposite, digits, scale)),
        DataType::Int64 => Some(ScalarExpr::literal(i64::try_from(opposite).ok()?)),
        _ => None,
    }
}

/// Makes the comparison `left op right` after casting both to their common type.
pub fn compare(op: CompareOp, left: ScalarExpr, right: ScalarExpr) -> Result<ScalarExpr> {
    let [left, right] = alike(&op, left, right)?;
    Ok(ScalarExpr::compare(left, op, right))
}

/// Makes `left IS [NOT] DISTINCT FROM right`.
pub fn is_distinct(left: ScalarExpr, right: ScalarExpr, negated: bool) -> Result<ScalarExpr> {
    let op = if negated { "IS NOT DISTINCT FROM" } else { "IS DISTINCT FROM" };
    let operands = Box::new(alike(&op, left, right)?);
    Ok(ScalarExpr::new(DataType::Boolean, ExprOp::IsDistinct { operands, negated }))
}

fn alike(op: &dyn std::fmt::Display, left: ScalarExpr, right: ScalarExpr) -> Result<[ScalarExpr; 2]> {
    let Some(kind) = comparison_kind(&[&left, &right]) else {
        let (left, right) = (type_name(&left.kind), type_name(&right.kind));
        let message = format!("the two sides of {left} {op} {right} do not go together");
        return Err(Error::new(ErrorKind::DatatypeMismatch, message).hint("CAST one side to the type of the other"));
    };
    Ok([coerce(left, &kind)?, coerce(right, &kind)?])
}

/// Makes `left || right` of texts, blobs or lists. A value of another type beside a text is written as text.
pub fn concat(left: ScalarExpr, right: ScalarExpr) -> Result<ScalarExpr> {
    use DataType::{BinaryView, List, Null, Utf8View};
    match (&left.kind, &right.kind) {
        (List(_), List(_) | Null) | (Null, List(_)) => {
            let kind = common_kind([&left.kind, &right.kind]).ok_or_else(|| no_concat(&left.kind, &right.kind))?;
            named("list_concat", coerce(left, &kind)?, coerce(right, &kind)?)
        }
        (List(_), _) => named("list_append", left, right),
        (_, List(_)) => named("list_prepend", left, right),
        (Null, _) | (_, Null) => {
            let is_blob = left.kind == BinaryView || right.kind == BinaryView;
            Ok(ScalarExpr::null(if is_blob { BinaryView } else { Utf8View }))
        }
        (BinaryView, BinaryView) => named("blob_concat", left, right),
        // Only a literal text is read as a BLOB. Beside a column of texts, the BLOB becomes a text.
        (BinaryView, Utf8View) if right.as_constant().is_some() => {
            let right = coerce(right, &BinaryView)?;
            named("blob_concat", left, right)
        }
        (Utf8View, BinaryView) if left.as_constant().is_some() => {
            let left = coerce(left, &BinaryView)?;
            named("blob_concat", left, right)
        }
        (Utf8View, _) | (_, Utf8View) => {
            named("text_concat", cast(left, &Utf8View, false)?, cast(right, &Utf8View, false)?)
        }
        (left, right) => Err(no_concat(left, right)),
    }
}

fn no_concat(left: &DataType, right: &DataType) -> Error {
    let message = format!("there is no {} || {}", type_name(left), type_name(right));
    Error::new(ErrorKind::DatatypeMismatch, message).hint("CAST one side to TEXT")
}

/// Makes a call of a function with its arguments cast to the types of the signature. An error names the types that were
/// given.
pub fn call(function: &'static FunctionSpec, arguments: Vec<ScalarExpr>) -> Result<ScalarExpr> {
    let given: Vec<ArgumentKind<'_>> = arguments
        .iter()
        .map(|argument| ArgumentKind { kind: &argument.kind, constant: argument.as_constant() })
        .collect();
    let Some(kinds) = (function.signature)(&given) else {
        let given: Vec<String> = arguments.iter().map(|argument| type_name(&argument.kind)).collect();
        let message = format!("there is no {}({})", function.name, given.join(", "));
        return Err(Error::new(ErrorKind::UndefinedFunction, message)
            .hint("check the order and the types of the arguments; CAST(... AS type) makes another type of one"));
    };
    if let Some(made) = call_in_zone(function, &arguments)? {
        return Ok(made);
    }
    // A signature with another number of arguments is a bug of the function.
    if kinds.arguments.len() != arguments.len() {
        return Err(Error::internal(format!("the signature of {} gives another number of arguments", function.name)));
    }
    let arguments = arguments
        .into_iter()
        .zip(&kinds.arguments)
        .map(|(argument, kind)| coerce(argument, kind))
        .collect::<Result<_>>()?;
    Ok(ScalarExpr::new(kinds.result, ExprOp::Call(function, arguments)))
}
