//! Errors of the binder: their position in the statement, and suggestions for misspelled names.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, SqlType, TextPosition, nearest};
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Spanned, Value};
use sqlparser::tokenizer::Span;

/// Adds the line and the column at which `span` begins to `error`. An error that already has a position keeps it.
pub(crate) fn at(error: Error, span: Span) -> Error {
    if span.start.line == 0 || error.message().contains("(line ") {
        return error;
    }
    let placed = Error::new(
        error.kind(),
        format!("{} (line {}, column {})", error.message(), span.start.line, span.start.column),
    )
    .at_position(TextPosition { line: span.start.line, column: span.start.column });
    match error.hint_text() {
        Some(hint) => placed.hint(hint),
        None => placed,
    }
}

/// The position at which an expression begins. Follows chains of operators in a loop, because they may be long.
pub(crate) fn start_of(expr: &Expr) -> Span {
    let mut at = expr;
    loop {
        at = match at {
            Expr::BinaryOp { left, .. } | Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } => left,
            Expr::IsNull(value)
            | Expr::IsNotNull(value)
            | Expr::IsTrue(value)
            | Expr::IsNotTrue(value)
            | Expr::IsFalse(value)
            | Expr::IsNotFalse(value)
            | Expr::IsUnknown(value)
            | Expr::IsNotUnknown(value)
            | Expr::IsDistinctFrom(value, _)
            | Expr::IsNotDistinctFrom(value, _)
            | Expr::Nested(value) => value,
            Expr::InList { expr, .. }
            | Expr::InSubquery { expr, .. }
            | Expr::Between { expr, .. }
            | Expr::Like { expr, .. }
            | Expr::ILike { expr, .. }
            | Expr::UnaryOp { expr, .. }
            | Expr::Cast { expr, .. } => expr,
            Expr::Function(call) => return call.name.span(),
            Expr::Case { case_token, .. } => return case_token.0.span,
            Expr::Tuple(values) => match values.first() {
                Some(first) => first,
                None => return Span::empty(),
            },
            other => return other.span(),
        };
    }
}

/// The position of an error about an expression: the literal that the error quotes, if it is an operand, otherwise the
/// beginning of the expression.
pub(crate) fn place_of(error: &Error, expr: &Expr) -> Span {
    let operands: Vec<&Expr> = match expr {
        Expr::BinaryOp { left, right, .. } => vec![left, right],
        Expr::Between { low, high, .. } => vec![low, high],
        Expr::InList { list, .. } => list.iter().collect(),
        Expr::Cast { expr, .. } => vec![expr],
        Expr::Function(call) => match &call.args {
            FunctionArguments::List(list) => list.args.iter().filter_map(argument).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    operands.into_iter().find_map(|operand| literal_in(error, operand)).unwrap_or_else(|| start_of(expr))
}

fn argument(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// The position of `operand` if it is the literal that `error` quotes at its beginning.
fn literal_in(error: &Error, operand: &Expr) -> Option<Span> {
    let Expr::Value(literal) = operand else { return None };
    let Value::SingleQuotedString(text) = &literal.value else { return None };
    error.message().strip_prefix('\'')?.strip_prefix(text.as_str())?.starts_with('\'').then_some(literal.span)
}

/// Adds a hint with names that are similar to `asked`.
pub(crate) fn suggest<'n>(error: Error, asked: &str, names: impl IntoIterator<Item = &'n str>) -> Error {
    let near = nearest(asked, names);
    if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) }
}

/// The error for a clause or form that the parser accepts but the binder does not support.
pub(crate) fn unsupported(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} is not supported"))
}

/// The SQL name of a type.
pub(crate) fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Null => "NULL".into(),
        _ => SqlType::from_arrow(kind).map_or_else(|| kind.to_string(), |kind| kind.to_string()),
    }
}

/// The SQL names of types, separated by commas.
pub(crate) fn type_names<'k>(kinds: impl IntoIterator<Item = &'k DataType>) -> String {
    kinds.into_iter().map(type_name).collect::<Vec<_>>().join(", ")
}
