//! One value of a `VALUES` list, as far as it can be read without the planner.
//!
//! A literal becomes a text that the column's type reads, so that a column of literals is one pass of the text parser:
//! `1.10` reaches a DECIMAL exactly, and `'2013-07-31'` a DATE, as assignment says. A parameter is a value already.
//! Everything else is [`Cell::Computed`] and evaluated by a query.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, new_null_array};
use rowmill_base::{Error, Result, SqlType};
use rowmill_plan::Constant;
use sqlparser::ast::{Expr, TypedString, UnaryOperator, Value, ValueWithSpan};

use crate::assign::assign;
use rowmill_query::binder::type_name::sql_type;

/// One value of a `VALUES` list.
#[derive(Clone, Debug)]
pub(super) enum Cell<'a> {
    Null,
    /// The text that the column's type reads.
    Text(Cow<'a, str>),
    /// The parameter with this index.
    Parameter(usize),
    /// `DEFAULT`
    Default,
    /// Anything else.
    Computed(&'a Expr),
}

impl<'a> Cell<'a> {
    /// Reads `expr` for a column of type `kind`.
    pub(super) fn of(expr: &'a Expr, kind: &SqlType) -> Cell<'a> {
        match expr {
            Expr::Value(ValueWithSpan { value, .. }) => Cell::of_value(value, kind).unwrap_or(Cell::Computed(expr)),
            Expr::Nested(inner) => match Cell::of(inner, kind) {
                Cell::Computed(_) | Cell::Default => Cell::Computed(expr),
                cell => cell,
            },
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => match plain_number(inner, kind) {
                Some(digits) => Cell::Text(format!("-{digits}").into()),
                None => Cell::Computed(expr),
            },
            Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => match plain_number(inner, kind) {
                Some(digits) => Cell::Text(digits.into()),
                None => Cell::Computed(expr),
            },
            Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false }) => match &value.value {
                Value::SingleQuotedString(text) if sql_type(data_type).is_ok_and(|named| named == *kind) => {
                    Cell::Text(text.into())
                }
                _ => Cell::Computed(expr),
            },
            Expr::Identifier(name) if name.quote_style.is_none() && name.value == "default" => Cell::Default,
            _ => Cell::Computed(expr),
        }
    }

    fn of_value(value: &'a Value, kind: &SqlType) -> Option<Cell<'a>> {
        match value {
            Value::Null => Some(Cell::Null),
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                is_flat(kind).then(|| Cell::Text(text.into()))
            }
            Value::Number(digits, false) => reads_number(digits, kind).then(|| Cell::Text(digits.into())),
            Value::Boolean(value) if *kind == SqlType::Boolean => {
                Some(Cell::Text(if *value { "true" } else { "false" }.into()))
            }
            Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                number.checked_sub(1).map(Cell::Parameter)
            }
            _ => None,
        }
    }

    /// The value as one row of `column`. Parameters, defaults and computed values are not known here.
    pub(super) fn value(&self, kind: &SqlType, column: &str) -> Result<ArrayRef> {
        match self {
            Cell::Null => Ok(new_null_array(&kind.arrow(), 1)),
            Cell::Text(text) => {
                let text: ArrayRef = Arc::new(StringViewArray::from_iter_values([text.as_ref()]));
                assign(&text, kind, column)
            }
            Cell::Parameter(_) | Cell::Default | Cell::Computed(_) => {
                Err(Error::internal("a value that is not written out was taken for a literal"))
            }
        }
    }
}

/// The value of a parameter as one row of `column`.
pub(super) fn parameter(value: &Constant, kind: &SqlType, column: &str) -> Result<ArrayRef> {
    assign(value.array(), kind, column)
}

fn plain_number<'a>(expr: &'a Expr, kind: &SqlType) -> Option<&'a str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, false), .. }) if reads_number(digits, kind) => {
            Some(digits)
        }
        _ => None,
    }
}

/// Whether the type's text parser gives a number literal its value. It does not round to integers, and a number for a
/// text column is printed by its type, which the planner chooses.
fn reads_number(digits: &str, kind: &SqlType) -> bool {
    match kind {
        SqlType::Float32 | SqlType::Float64 | SqlType::Decimal { .. } => !digits.contains('_'),
        SqlType::Int8
        | SqlType::Int16
        | SqlType::Int32
        | SqlType::Int64
        | SqlType::UInt8
        | SqlType::UInt16
        | SqlType::UInt32
        | SqlType::UInt64 => digits.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

fn is_flat(kind: &SqlType) -> bool {
    !matches!(kind, SqlType::List(_) | SqlType::Struct(_))
}
