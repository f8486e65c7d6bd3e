//! Columns in the expressions of their table: CHECK conditions and generated columns. The catalog keeps the text of
//! these. A column that gets another name gets it there, too, and one that is dropped takes its conditions along.

use std::ops::ControlFlow;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_query::syntax_walk::SyntaxTree as _;
use rowmill_storage::{CheckDef, GeneratedDef, TableDef};
use rowmill_txn::Transaction;
use sqlparser::ast::{Expr, Ident, VisitorMut};

use super::generated_column::{GeneratedExprs, reads};
use super::sql_text::{self, name_text};
use super::write::binder::WriteBinder;
use crate::names::lower;
use crate::session::Work;

/// Writes the new name of the column at a place in the expressions that read it. `table` is the definition before the
/// column is renamed.
pub(super) fn rename(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    place: usize,
    new: &str,
) -> Result<()> {
    let view = transaction.view()?;
    let lowered = lower(new);
    let new = if name_text(&lowered) == lowered { Ident::new(lowered) } else { Ident::with_quote('"', lowered) };
    let (table_name, old) = (lower(&table.name), lower(&table.columns[place].name));
    let renamed = |sql: &str, reader: &str| {
        let mut expr = sql_text::expr(sql, work.settings())?;
        if expr.walk_mut(&mut RenamedColumn { table: &table_name, old: &old, new: &new }).is_continue() {
            return Ok(expr.to_string());
        }
        let what = format!("\"{old}\" is also a parameter in the expression of {reader}: {sql}");
        Err(Error::new(ErrorKind::Unsupported, what).hint("drop that one first, and add it again"))
    };
    for reader in GeneratedExprs::of(work, &view, table)?.readers(place) {
        let column = &table.columns[reader];
        let Some(sql) = table.generated(column.id) else { continue };
        let sql = renamed(sql, &format!("the generated column \"{}\"", column.name))?;
        transaction.set_generated(table.id, GeneratedDef { column: column.id, sql })?;
    }
    for check in WriteBinder::new(work, &view, &[]).checks(table)? {
        if reads(&check.condition, place) {
            let sql = renamed(&check.sql, &format!("the constraint \"{}\"", check.name))?;
            transaction.set_check(table.id, CheckDef { name: check.name, sql })?;
        }
    }
    Ok(())
}

/// Drops the CHECK conditions that read the column at a place.
pub(super) fn drop_checks(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    place: usize,
) -> Result<()> {
    let view = transaction.view()?;
    // Columns that the statement has dropped before took their conditions along, so only those that are left are bound.
    let left = |check: &CheckDef| {
        let now = view.catalog().table_by_id(table.id);
        now.is_some_and(|now| now.rules.checks.iter().any(|other| other.name == check.name))
    };
    let mut of_left = table.clone();
    of_left.rules.checks.retain(left);
    for check in WriteBinder::new(work, &view, &[]).checks(&of_left)? {
        if reads(&check.condition, place) {
            transaction.drop_check(table.id, &check.name)?;
        }
    }
    Ok(())
}

/// Gives a column another name in an expression. Stops at a parameter of a function that has the old name.
struct RenamedColumn<'n> {
    table: &'n str,
    old: &'n str,
    new: &'n Ident,
}

impl VisitorMut for RenamedColumn<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) if name.value == self.old => *name = self.new.clone(),
            Expr::CompoundIdentifier(names) => {
                let is_qualified = names[0].value == self.table && names.len() > 1;
                if let Some(name) = names.get_mut(usize::from(is_qualified)).filter(|name| name.value == self.old) {
                    *name = self.new.clone();
                }
            }
            Expr::Lambda(function) if function.params.iter().any(|parameter| parameter.name.value == self.old) => {
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
