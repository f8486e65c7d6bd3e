//! Operands that are compared or take each other's place, brought to one type where DataFusion would choose another.
//!
//! A DECIMAL beside a REAL or DOUBLE becomes one: a float has more sizes than any decimal can hold, and literals with a
//! point are decimals. A text beside a date, a time or a timestamp is read as one, in its unit.

use arrow::datatypes::DataType;
use datafusion::common::ExprSchema;
use datafusion::logical_expr::{Expr, ExprSchemable};

use super::typing::{cast, is_decimal, is_uuid};
use crate::types::is_text;

/// Functions that give back one of their arguments.
pub(super) const CHOOSERS: &[&str] = &["coalesce", "nullif", "nvl", "ifnull", "greatest", "least"];

/// The type that operands of these types are cast to, if it is ours to say.
pub(super) fn type_of_all<'a>(kinds: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let has = |is: fn(&DataType) -> bool| kinds.clone().find(|kind| is(kind)).cloned();
    if has(is_decimal).is_some() {
        return has(|kind| *kind == DataType::Float64).or_else(|| has(|kind| *kind == DataType::Float32));
    }
    has(is_text)?;
    let mut read = kinds.filter(|kind| is_read_from_text(kind));
    let first = read.next()?;
    read.all(|kind| kind == first).then(|| first.clone())
}

fn is_read_from_text(kind: &DataType) -> bool {
    is_uuid(kind) || matches!(kind, DataType::Date32 | DataType::Time64(_) | DataType::Timestamp(..))
}

/// Casts those of `operands` that are of another type than all of them should have. Whether any was.
pub(super) fn make_alike<'a>(operands: impl Iterator<Item = &'a mut Expr>, schema: &dyn ExprSchema) -> bool {
    let mut operands: Vec<(&mut Expr, DataType)> = operands
        .filter_map(|operand| {
            let kind = operand.get_type(schema).ok()?;
            Some((operand, kind))
        })
        .collect();
    let Some(kind) = type_of_all(operands.iter().map(|(_, kind)| kind)) else { return false };
    let mut is_changed = false;
    for (operand, from) in &mut operands {
        if needs_cast(from, &kind) {
            let expr = std::mem::take(*operand);
            **operand = cast(expr, kind.clone());
            is_changed = true;
        }
    }
    is_changed
}

/// Whether an operand of the type `from` is cast to that of all. What is neither a decimal nor a text DataFusion widens.
pub(super) fn needs_cast(from: &DataType, to: &DataType) -> bool {
    is_decimal(from) && to.is_floating() || is_text(from) && is_read_from_text(to)
}
