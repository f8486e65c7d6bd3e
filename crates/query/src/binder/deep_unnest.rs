//! `unnest(list, recursive := true)` and `unnest(list, max_depth := 2)`, as in DuckDB: the items of the lists in a list
//! are rows, too. The lists are put together before they are unnested.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::ScalarExpr;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Value};

use super::Binder;
use super::from::item_kind;
use super::place::unsupported;

impl Binder<'_> {
    /// Returns the list whose items are the rows of a call of `unnest` with named arguments.
    pub(super) fn deep_list(&mut self, arguments: &[FunctionArg]) -> Result<ScalarExpr> {
        let (mut list, mut levels, mut is_recursive) = (None, 1_u64, false);
        for argument in arguments {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if list.is_none() => list = Some(expr),
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(Expr::Value(value)), .. } => {
                    match (name.value.as_str(), &value.value) {
                        ("recursive", Value::Boolean(value)) => is_recursive = *value,
                        ("max_depth", Value::Number(digits, _)) if digits.parse::<u64>().is_ok_and(|most| most > 0) => {
                            levels = digits.parse().unwrap_or(1);
                        }
                        _ => return Err(unsupported(format!("the argument {argument} of unnest"))),
                    }
                }
                other => return Err(unsupported(format!("the argument {other} of unnest"))),
            }
        }
        let list = list.ok_or_else(|| Error::new(ErrorKind::UndefinedFunction, "unnest takes a list"))?;
        let value = self.expr(list)?;
        let mut value = self.list_value(value)?;
        if is_recursive {
            levels = u64::MAX;
        }
        while levels > 1 && item_kind(&value.kind).is_some_and(|item| item_kind(&item).is_some()) {
            value = self.form_call("flatten", "unnest", vec![value])?;
            levels -= 1;
        }
        if is_recursive && matches!(item_kind(&value.kind), Some(DataType::Struct(_))) {
            return Err(unsupported("unnest(..., recursive := true) of structs")
                .hint("unnest the list in FROM, and select struct.* of its rows"));
        }
        Ok(value)
    }
}
