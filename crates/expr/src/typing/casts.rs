//! Implicit and explicit casts.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int8Array, Int16Array, Int32Array, Int64Array, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, NumberedType, Result, SqlType, is_json};
use rowmill_plan::{Constant, ExprOp, ScalarExpr};

use crate::kernels;
use crate::kinds::{exact_value, is_number, type_name};
use crate::text;
use crate::typing::call;
use crate::typing::zones::cast_in_zone;

/// Whether values of `from` can be cast to `to`, as far as the types tell.
pub(crate) fn can_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{BinaryView, Boolean, Date32, FixedSizeBinary, List, Null, Struct, Time64, Timestamp, Utf8View};
    if from == to {
        return true;
    }
    match (from, to) {
        (Null, _) | (Utf8View, _) | (_, Utf8View) => true,
        (from, to) if is_json(from) || is_json(to) => true,
        (Boolean, to) if is_number(to) => true,
        (from, Boolean) if is_number(from) => true,
        (from, to) if is_number(from) && is_number(to) => true,
        (Date32 | Timestamp(..), Date32 | Timestamp(..)) | (Timestamp(..), Time64(_)) => true,
        (BinaryView, FixedSizeBinary(16)) | (FixedSizeBinary(16), BinaryView) => true,
        (BinaryView, other) | (other, BinaryView) => NumberedType::of_arrow_with_bytes(other).is_some(),
        (List(from), List(to)) => can_cast(from.data_type(), to.data_type()),
        (Struct(from), Struct(to)) => kernels::cast::struct_places(from, to).is_some_and(|places| {
            to.iter().zip(places).all(|(field, place)| match place {
                Some(place) => can_cast(from[place].data_type(), field.data_type()),
                None => true,
            })
        }),
        _ => false,
    }
}

/// Casts `expr` to the type `kind` where SQL casts implicitly: in operators, arguments, CASE, and set operations. A
/// literal text is read as a value of the type, and fails if it is not one.
pub fn coerce(expr: ScalarExpr, kind: &DataType) -> Result<ScalarExpr> {
    if expr.kind == *kind {
        return Ok(expr);
    }
    if let Some(text) = expr.as_constant().and_then(Constant::as_text) {
        return Ok(ScalarExpr::literal(text::parse(text, kind)?));
    }
    cast(expr, kind, false)
}

/// Makes `CAST(expr AS kind)` or `TRY_CAST(expr AS kind)`. A literal is cast at once, unless that fails: the cast may
/// be in a branch that is never taken, so it must fail only when it is evaluated.
pub fn cast(expr: ScalarExpr, kind: &DataType, or_null: bool) -> Result<ScalarExpr> {
    if expr.kind == *kind {
        return Ok(expr);
    }
    if !can_cast(&expr.kind, kind) {
        return Err(no_cast(&expr.kind, kind));
    }
    if let Some(made) = cast_in_zone(&expr, kind, or_null)? {
        return Ok(made);
    }
    // The fast path for literal integers.
    if let Some((value, 0)) = expr.as_constant().and_then(exact_value)
        && let Some(literal) = integer_literal(value, kind)
    {
        return Ok(literal);
    }
    if let Some(value) = expr.as_constant()
        && let Ok(array) = kernels::cast::cast(value.array(), kind, or_null)
    {
        return Ok(ScalarExpr::literal(Constant::new(array)));
    }
    Ok(ScalarExpr::new(kind.clone(), ExprOp::Cast { value: Box::new(expr), or_null }))
}

/// Makes `CAST(expr AS kind)` or `TRY_CAST` to a type that may limit the length of a text: `VARCHAR(n)` keeps the first
/// `n` characters.
pub fn cast_to_sql_type(expr: ScalarExpr, kind: &SqlType, or_null: bool) -> Result<ScalarExpr> {
    let value = cast(expr, &kind.arrow(), or_null)?;
    match kind {
        SqlType::Text { chars_max: Some(chars_max) } => {
            let left = crate::functions::find("left").ok_or_else(|| Error::internal("the function left is missing"))?;
            call(left, vec![value, ScalarExpr::literal(i64::from(*chars_max))])
        }
        _ => Ok(value),
    }
}

/// Returns a literal of an integer type with this value. Long IN lists are cast value by value, and a kernel call for
/// each would take longer than all other work.
fn integer_literal(value: i128, kind: &DataType) -> Option<ScalarExpr> {
    macro_rules! literal {
        ($native:ty, $array:ty) => {
            Arc::new(<$array>::from(vec![<$native>::try_from(value).ok()?]))
        };
    }
    let array: ArrayRef = match kind {
        DataType::Int8 => literal!(i8, Int8Array),
        DataType::Int16 => literal!(i16, Int16Array),
        DataType::Int32 => literal!(i32, Int32Array),
        DataType::Int64 => literal!(i64, Int64Array),
        DataType::UInt8 => literal!(u8, UInt8Array),
        DataType::UInt16 => literal!(u16, UInt16Array),
        DataType::UInt32 => literal!(u32, UInt32Array),
        DataType::UInt64 => literal!(u64, UInt64Array),
        _ => return None,
    };
    Some(ScalarExpr::literal(Constant::new(array)))
}

/// Returns the error for a cast between types that have none.
fn no_cast(from: &DataType, to: &DataType) -> Error {
    let message = format!("{} cannot be cast to {}", type_name(from), type_name(to));
    let error = Error::new(ErrorKind::DatatypeMismatch, message);
    let is_time = |kind: &DataType| matches!(kind, DataType::Timestamp(..) | DataType::Date32 | DataType::Time64(_));
    // A number is not a point in time: only the user knows from when and in which unit it counts.
    if is_number(from) && is_time(to) {
        return error
            .hint("to_timestamp_seconds(n), to_timestamp_millis(n) and DATE '1970-01-01' + n convert a number");
    }
    if is_time(from) && is_number(to) {
        return error.hint("extract(epoch FROM t) and d - DATE '1970-01-01' convert it to a number");
    }
    error
}
