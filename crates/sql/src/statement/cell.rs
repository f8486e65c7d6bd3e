//! One value of a `VALUES` list, as far as we can read it without the planner.
//!
//! A literal becomes a text that the column's type parses, so that a column of literals takes one pass of the text
//! parser. For example, `1.10` reaches a DECIMAL exactly, and `'2013-07-31'` becomes a DATE by the rules of assignment.
//! A parameter already is a value. Everything else is [`LiteralCell::Computed`], which a query evaluates.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, new_null_array};
use rowmill_base::{Error, Result, SqlType};
use rowmill_plan::Constant;
use sqlparser::ast::{Expr, TypedString, UnaryOperator, Value, ValueWithSpan};

use crate::assign::assign;
use rowmill_query::binder::type_name::built_in_type;

/// One value of a `VALUES` list.
#[derive(Clone, Debug)]
pub(crate) enum LiteralCell<'a> {
    Null,
    /// A text that the column's type parses.
    Text(Cow<'a, str>),
    /// The parameter with this index.
    Parameter(usize),
    /// `DEFAULT`
    Default,
    /// Any other expression.
    Computed(&'a Expr),
}

impl<'a> LiteralCell<'a> {
    /// Reads `expr` for a column of type `kind`.
    pub(crate) fn of(expr: &'a Expr, kind: &SqlType) -> LiteralCell<'a> {
        match expr {
            Expr::Value(ValueWithSpan { value, .. }) => {
                LiteralCell::of_value(value, kind).unwrap_or(LiteralCell::Computed(expr))
            }
            // `(DEFAULT)` is not the keyword, so the planner must report it.
            Expr::Nested(inner) => match LiteralCell::of(inner, kind) {
                LiteralCell::Computed(_) | LiteralCell::Default => LiteralCell::Computed(expr),
                cell => cell,
            },
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => match plain_number(inner, kind) {
                Some(digits) => LiteralCell::Text(format!("-{digits}").into()),
                None => LiteralCell::Computed(expr),
            },
            Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => match plain_number(inner, kind) {
                Some(digits) => LiteralCell::Text(digits.into()),
                None => LiteralCell::Computed(expr),
            },
            Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false }) => match &value.value {
                Value::SingleQuotedString(text) if built_in_type(data_type).is_ok_and(|named| named == *kind) => {
                    LiteralCell::Text(text.into())
                }
                _ => LiteralCell::Computed(expr),
            },
            Expr::Identifier(name) if name.quote_style.is_none() && name.value == "default" => LiteralCell::Default,
            _ => LiteralCell::Computed(expr),
        }
    }

    fn of_value(value: &'a Value, kind: &SqlType) -> Option<LiteralCell<'a>> {
        match value {
            Value::Null => Some(LiteralCell::Null),
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                is_flat(kind).then(|| LiteralCell::Text(text.into()))
            }
            Value::Number(digits, false) => reads_number(digits, kind).then(|| LiteralCell::Text(digits.into())),
            Value::Boolean(value) if *kind == SqlType::Boolean => {
                Some(LiteralCell::Text(if *value { "true" } else { "false" }.into()))
            }
            Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                number.checked_sub(1).map(LiteralCell::Parameter)
            }
            _ => None,
        }
    }

    /// Returns the value as one row of `column`. The caller must handle parameters, defaults and computed values
    /// itself.
    pub(crate) fn value(&self, kind: &SqlType, column: &str) -> Result<ArrayRef> {
        match self {
            LiteralCell::Null => Ok(new_null_array(&kind.arrow(), 1)),
            LiteralCell::Text(text) => {
                let text: ArrayRef = Arc::new(StringViewArray::from_iter_values([text.as_ref()]));
                assign(&text, kind, column)
            }
            LiteralCell::Parameter(_) | LiteralCell::Default | LiteralCell::Computed(_) => {
                Err(Error::internal("a parameter, default or computed value was taken for a literal"))
            }
        }
    }
}

/// Returns the value of a parameter as one row of `column`.
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

/// Whether the type's text parser reads a number literal exactly as SQL does. For integer columns it does not round a
/// fraction. For text columns the planner must choose the number's type first, which decides how it is printed.
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
    !matches!(kind, SqlType::Json | SqlType::List(_) | SqlType::Struct(_))
}
