//! The common type of values that share a place, for example the branches of a CASE.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, TimeUnit, i256};
use rowmill_base::{NumberedType, decimal_arrow, is_json};
use rowmill_plan::{Constant, ExprOp, ScalarExpr};

use crate::kinds::{
    digits_and_scale, digits_max_of, digits_of_integer, exact_wide_value, integer_bounds, is_float, is_number,
};
use crate::unscaled::Unscaled;

/// The type that values of all `kinds` are implicitly cast to where they share a place, as in CASE, COALESCE
/// and set operations; `None` if there is none. The type NULL goes with every type; of NULLs alone the common type is
/// NULL.
pub fn common_kind<'a>(kinds: impl IntoIterator<Item = &'a DataType>) -> Option<DataType> {
    let mut kinds = kinds.into_iter();
    let first = kinds.next()?.clone();
    kinds.try_fold(first, |common, kind| common_pair(&common, kind))
}

/// Whether an operand is a text that is read as the type beside it: a literal, or a parameter, which may replace a
/// literal.
pub(super) fn is_open_text(operand: &ScalarExpr) -> bool {
    operand.kind == DataType::Utf8View
        && match &operand.op {
            ExprOp::Literal(value) => !value.is_null(),
            op => matches!(op, ExprOp::Parameter(_)),
        }
}

/// Returns the type in which `operands` are compared. This is [`common_kind`], except that literals adapt. A literal
/// text, or the text of a parameter, is read as the type beside it. A literal number does not widen a type that can
/// hold it. Comparisons, IN and BETWEEN should use it rather than [`common_kind`].
pub fn comparison_kind(operands: &[&ScalarExpr]) -> Option<DataType> {
    let adapts_itself =
        |operand: &&ScalarExpr| is_open_text(operand) || operand.as_constant().is_some_and(|value| !value.is_null());
    let (literals, others): (Vec<&ScalarExpr>, Vec<&ScalarExpr>) = operands.iter().copied().partition(adapts_itself);
    let mut common = common_kind(others.iter().map(|operand| &operand.kind)).unwrap_or(DataType::Null);
    for literal in &literals {
        let Some(value) = literal.as_constant() else { continue };
        // A number that does not fit widens the common type.
        if literal.kind != DataType::Utf8View && !adapts(value, &common) {
            common = common_pair(&common, value.kind())?;
        }
    }
    if common == DataType::Null {
        // All operands are texts and NULLs.
        return common_kind(operands.iter().map(|operand| &operand.kind));
    }
    let has_text = literals.iter().any(|literal| literal.kind == DataType::Utf8View);
    if has_text && is_json(&common) {
        // Documents compare by their text.
        return Some(DataType::Utf8View);
    }
    (!has_text || !common.is_nested()).then_some(common)
}

/// Whether `kind` holds the literal exactly, or is a float, which the number becomes.
fn adapts(value: &Constant, kind: &DataType) -> bool {
    let Some((value, scale)) = exact_wide_value(value) else { return false };
    if is_float(kind) {
        return true;
    }
    let Some((digits, kind_scale)) = digits_and_scale(kind) else { return false };
    let shift = i32::from(kind_scale) - i32::from(scale);
    let Some(value) = (match shift {
        0.. => value.multiply(i256::power_of_ten(shift.unsigned_abs())),
        _ => {
            let unit = i256::power_of_ten(shift.unsigned_abs());
            value.quotient(unit).filter(|_| value.remainder(unit) == Some(i256::ZERO))
        }
    }) else {
        return false;
    };
    match integer_bounds(kind) {
        Some((least, most)) => value.narrow().is_some_and(|value| (least..=most).contains(&value)),
        None => value.is_within(i256::power_of_ten(digits.into())),
    }
}

fn common_pair(a: &DataType, b: &DataType) -> Option<DataType> {
    if a == b || *b == DataType::Null {
        return Some(a.clone());
    }
    if *a == DataType::Null {
        return Some(b.clone());
    }
    if is_number(a) && is_number(b) {
        return common_number(a, b);
    }
    match (a, b) {
        (DataType::Utf8View, other) | (other, DataType::Utf8View) => beside_text(other),
        (DataType::Timestamp(fine, zone), DataType::Timestamp(coarse, other)) => {
            Some(DataType::Timestamp(finer(*fine, *coarse), zone.clone().or_else(|| other.clone())))
        }
        (DataType::Date32, timestamp @ DataType::Timestamp(..))
        | (timestamp @ DataType::Timestamp(..), DataType::Date32) => Some(timestamp.clone()),
        (DataType::List(a), DataType::List(b)) => {
            let item = common_pair(a.data_type(), b.data_type())?;
            Some(DataType::List(Arc::new(Field::new("item", item, true))))
        }
        (DataType::Struct(a), DataType::Struct(b)) => common_struct(a, b),
        _ => None,
    }
}

/// Returns the common type of two structs. They must have the same field names; the order is that of `a`.
fn common_struct(a: &Fields, b: &Fields) -> Option<DataType> {
    if a.len() != b.len() {
        return None;
    }
    let fields: Option<Fields> = a
        .iter()
        .map(|field| {
            let other = b.iter().find(|other| other.name().eq_ignore_ascii_case(field.name()))?;
            Some(Field::new(field.name(), common_pair(field.data_type(), other.data_type())?, true))
        })
        .collect();
    Some(DataType::Struct(fields?))
}

/// Returns the type that a text becomes beside another type. Most types are read from text, but numbers are written as
/// text.
fn beside_text(other: &DataType) -> Option<DataType> {
    match other {
        DataType::Date32
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Interval(_)
        | DataType::FixedSizeBinary(16)
        | DataType::BinaryView => Some(other.clone()),
        other if is_number(other) || is_json(other) => Some(DataType::Utf8View),
        other => match NumberedType::of_arrow(other) {
            // A text need not be a label.
            Some(kind) if kind.labels().is_some() => Some(DataType::Utf8View),
            Some(_) => Some(other.clone()),
            None => None,
        },
    }
}

fn common_number(a: &DataType, b: &DataType) -> Option<DataType> {
    if is_float(a) || is_float(b) {
        let is_double = *a == DataType::Float64 || *b == DataType::Float64;
        return Some(if is_double { DataType::Float64 } else { DataType::Float32 });
    }
    if a.is_integer() && b.is_integer() {
        return Some(common_integer(a, b));
    }
    let ((p1, s1), (p2, s2)) = (digits_and_scale(a)?, digits_and_scale(b)?);
    // The common decimal keeps the digits of both before and after the point, up to 38 in all, or 76 if one has more.
    let whole = (i16::from(p1) - i16::from(s1)).max(i16::from(p2) - i16::from(s2));
    let scale = s1.max(s2);
    let digits = (whole + i16::from(scale)).clamp(1, i16::from(digits_max_of([a, b]))) as u8;
    Some(decimal_arrow(digits, scale))
}

/// Returns the narrowest integer type that holds all values of both types, or else a decimal.
fn common_integer(a: &DataType, b: &DataType) -> DataType {
    let bounds = |kind: &DataType| integer_bounds(kind).expect("both are integers");
    let ((least, most), (other_least, other_most)) = (bounds(a), bounds(b));
    let (least, most) = (least.min(other_least), most.max(other_most));
    let candidates = match least {
        0 => [DataType::UInt8, DataType::UInt16, DataType::UInt32, DataType::UInt64],
        // A negative value needs a signed type.
        _ => [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64],
    };
    let holds_all = |kind: &DataType| bounds(kind).0 <= least && most <= bounds(kind).1;
    let digits = digits_of_integer(&DataType::UInt64).expect("an integer has digits");
    candidates.into_iter().find(holds_all).unwrap_or(DataType::Decimal128(digits, 0))
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    a.max(b)
}
