//! `SET VARIABLE x = value` and `RESET VARIABLE x`. The function `getvariable('x')` gives the value.
//!
//! Variables belong to one connection. No transaction keeps or undoes them.

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Constant;
use sqlparser::ast::{Expr, ObjectName, SelectItem, SetExpr};

use super::sql_text;
use crate::names::{identifiers, lower};
use crate::outcome::Outcome;
use crate::session::Work;

/// Returns the name of a variable, which the parser reads as a part of `VARIABLE`.
pub(crate) fn variable_name(name: &ObjectName) -> Option<String> {
    match identifiers(name).ok()?.as_slice() {
        [word, name] if word.quote_style.is_none() && word.value == "variable" => Some(lower(&name.value)),
        _ => None,
    }
}

/// Sets a variable to the value of an expression, which may be a subquery.
pub(crate) fn set(work: &mut Work<'_>, name: &str, values: &[Expr]) -> Result<Outcome> {
    let [value] = values else {
        let what = format!("SET VARIABLE {name} takes one value");
        return Err(Error::new(ErrorKind::InvalidParameter, what).hint("a list has brackets: [1, 2]"));
    };
    let view = work.view()?;
    let mut query = sql_text::query("SELECT 1", work.settings())?;
    let SetExpr::Select(select) = &mut *query.body else { return Err(Error::internal("SELECT 1 is a SELECT")) };
    select.projection = vec![SelectItem::UnnamedExpr(value.clone())];
    let mut rows = work.rows(view, &query)?;
    let batch = rows.next().transpose()?.filter(|batch| batch.num_rows() == 1);
    let batch = batch.ok_or_else(|| {
        let what = format!("the value of the variable \"{name}\" is not exactly one");
        Error::new(ErrorKind::CardinalityViolation, what)
    })?;
    work.session.set_variable(name, Some(Constant::new(batch.column(0).clone())));
    Ok(Outcome::Done { tag: "SET" })
}

/// Removes a variable.
pub(crate) fn reset(work: &mut Work<'_>, name: &str) {
    work.session.set_variable(name, None);
}
