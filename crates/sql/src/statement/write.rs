//! Statements that change rows: one binder, one plan, one executor.
//!
//! ```text
//! INSERT, COPY FROM, UPDATE, DELETE, MERGE -> WriteBinder -> rowmill_plan::write -> WriteExecutor, in batches
//!                                                                               -> crate::program, over keyed tables
//! ```
//!
//! `changing_with` runs statements whose `WITH` clause changes rows: several changes, one after the other.
//!
//! Each statement destructures its syntax tree in a file of its own, as methods of [`WriteBinder`].

pub(crate) mod binder;
pub(crate) mod changing_with;
pub(super) mod conflict;
pub(super) mod executor;
pub(super) mod keys;
pub(super) mod waiting;

use std::sync::Arc;

use rowmill_base::{Error, Result};
use rowmill_plan::write::Write;
use rowmill_query::binder::BoundQuery;
use rowmill_storage::TableDef;
use rowmill_txn::{Snapshot, Transaction};
use sqlparser::ast::{Expr, Query, SetExpr, Statement as Sql, With};

use crate::outcome::Outcome;
use crate::query::kinds_of;
use crate::session::Work;
use crate::statement::lock::LockedParts;
use binder::WriteBinder;
use executor::WriteExecutor;

/// The plan of a statement that changes rows, and everything that the plan reads from outside of it.
#[derive(Clone)]
pub(crate) struct BoundWrite<'s> {
    /// The kind of the statement, as drivers show it.
    pub(crate) tag: &'static str,
    pub(crate) table: Arc<TableDef>,
    pub(crate) plan: Write<BoundQuery>,
    /// The rows of `VALUES`.
    pub(crate) values: Option<ValueRows<'s>>,
    /// Whether an expression outside of the queries contains the time of the transaction.
    pub(crate) reads_clock: bool,
}

/// The rows of `VALUES`, as the syntax tree has them.
#[derive(Clone)]
pub(crate) struct ValueRows<'s> {
    /// The columns of the table that they give values for, in their order.
    pub(crate) targets: Vec<usize>,
    pub(crate) rows: Vec<&'s [Expr]>,
}

/// A statement that changes rows, with the `WITH` clause before it.
#[derive(Clone, Copy)]
pub(crate) struct ChangeSyntax<'s> {
    pub(crate) with: Option<&'s With>,
    pub(crate) change: &'s Sql,
}

impl<'s> ChangeSyntax<'s> {
    /// Returns the change of rows that `sql` is. `WITH ... UPDATE` reaches us as a query whose body is the change.
    pub(crate) fn of(sql: &'s Sql) -> Option<ChangeSyntax<'s>> {
        match sql {
            Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_) => {
                Some(ChangeSyntax { with: None, change: sql })
            }
            Sql::Query(query) => match only_body(query)? {
                (
                    with,
                    SetExpr::Insert(change)
                    | SetExpr::Update(change)
                    | SetExpr::Delete(change)
                    | SetExpr::Merge(change),
                ) => Some(ChangeSyntax { with, change }),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Returns the `WITH` clause and the body of a query that has no other part.
pub(super) fn only_body(query: &Query) -> Option<(Option<&With>, &SetExpr)> {
    let Query {
        with,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = query
    else {
        return None;
    };
    (locks.is_empty() && pipe_operators.is_empty()).then_some((with.as_ref(), &**body))
}

/// A change of rows whose subqueries that lock rows have run.
pub(super) struct OwnedChange {
    with: Option<With>,
    change: Sql,
}

impl OwnedChange {
    /// Runs the subqueries of a change that lock rows. `parts` keeps the memory of their rows.
    pub(super) fn settled(
        work: &mut Work<'_>,
        transaction: &mut Transaction,
        view: &Arc<Snapshot>,
        syntax: ChangeSyntax<'_>,
        parts: &mut LockedParts,
    ) -> Result<OwnedChange> {
        let mut owned = OwnedChange { with: syntax.with.cloned(), change: syntax.change.clone() };
        if let Some(with) = &mut owned.with {
            parts.run(work, transaction, view, with)?;
        }
        parts.run(work, transaction, view, &mut owned.change)?;
        Ok(owned)
    }

    pub(super) fn syntax(&self) -> ChangeSyntax<'_> {
        ChangeSyntax { with: self.with.as_ref(), change: &self.change }
    }
}

/// Runs a statement that changes rows.
pub(crate) fn run(work: &mut Work<'_>, syntax: ChangeSyntax<'_>) -> Result<Outcome> {
    work.write(|work, transaction| {
        let view = transaction.view()?;
        let kinds = kinds_of(work.params);
        let mut parts = LockedParts::default();
        let settled;
        let syntax = match work.statement.locks_parts() {
            false => syntax,
            true => {
                settled = OwnedChange::settled(work, transaction, &view, syntax, &mut parts)?;
                settled.syntax()
            }
        };
        let write = work.with_planning_room(|| WriteBinder::new(work, &view, &kinds).bind(syntax))?;
        let BoundWrite { tag, table, plan, values, reads_clock: _ } = write;
        WriteExecutor::new(work, tag, table, &plan)?.run(work, transaction, view, plan, values)
    })
}

/// Returns the error for a plan that no statement makes.
fn misfit(what: &str) -> Error {
    Error::internal(format!("a plan of a change has {what}"))
}
