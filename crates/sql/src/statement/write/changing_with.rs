//! Statements with a `WITH` query that changes rows.
//!
//! ```text
//! WITH gone AS (DELETE FROM orders WHERE day < '2026-01-01' RETURNING *) INSERT INTO archive SELECT * FROM gone
//! ```
//!
//! The parts run in the order in which they are written, and the statement after `WITH` runs last. All of them read the
//! state before the statement, so no part sees the changes of another. The rows of `RETURNING` wait in memory under the
//! name of their part, like a table that the program has registered. Plain queries that come before a change wait there
//! too: several parts may read them, and all must read the same rows.
//!
//! Two parts that each look for rows of one table to change could meet the same row, and the result would depend on
//! their order. We refuse such a statement.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Error, ErrorKind, Reservation, Result, TableId};
use rowmill_plan::write::WriteSource;
use rowmill_query::binder::BoundQuery;
use rowmill_txn::{Snapshot, Transaction};
use sqlparser::ast::{Cte, Query, SetExpr, Statement as Sql, With};

use super::binder::WriteBinder;
use super::executor::WriteExecutor;
use super::waiting::{WAITING_ROWS, WaitingBatches, bytes_of};
use super::{BoundWrite, ChangeSyntax, OwnedChange, only_body};
use crate::outcome::{Outcome, RowStream};
use crate::query::kinds_of;
use crate::session::Work;
use crate::session_objects::converted_rows;
use crate::shape::result_schema;
use crate::statement::clause::refuse;
use crate::statement::lock::LockedParts;
use crate::statement::sql_text::{self, quoted};

/// A statement, divided into the parts that run before it and the rest.
pub(crate) struct ChangingWith {
    recursive: bool,
    parts: Vec<Cte>,
    /// The statement without these parts. Its `WITH` clause has the plain queries after the last change.
    rest: Sql,
}

impl ChangingWith {
    /// Divides `sql`, or returns `None` if no query of its `WITH` clause changes rows.
    pub(crate) fn of(sql: &Sql) -> Option<ChangingWith> {
        let last = last_change(sql)?;
        let mut rest = sql.clone();
        let kept = match &mut rest {
            Sql::Query(query) => &mut query.with,
            Sql::Insert(insert) => &mut insert.source.as_mut()?.with,
            _ => return None,
        };
        let With { with_token, recursive, mut cte_tables } = kept.take()?;
        let after = cte_tables.split_off(last + 1);
        if !after.is_empty() {
            *kept = Some(With { with_token, recursive, cte_tables: after });
        }
        Some(ChangingWith { recursive, parts: cte_tables, rest })
    }
}

/// Returns the place of the last query of the statement's `WITH` clause that changes rows.
pub(crate) fn last_change(sql: &Sql) -> Option<usize> {
    let with = match sql {
        Sql::Query(query) => query.with.as_ref()?,
        Sql::Insert(insert) => insert.source.as_ref()?.with.as_ref()?,
        _ => return None,
    };
    with.cte_tables.iter().rposition(|part| change_of(part).is_some())
}

/// Returns the change of rows that a `WITH` query is, if it is one.
fn change_of(part: &Cte) -> Option<ChangeSyntax<'_>> {
    match only_body(&part.query)? {
        (
            with,
            SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) | SetExpr::Merge(change),
        ) => Some(ChangeSyntax { with, change }),
        _ => None,
    }
}

/// Runs the parts and then the rest.
pub(crate) fn run(work: &mut Work<'_>, statement: &ChangingWith) -> Result<Outcome> {
    work.write(|work, transaction| {
        let view = transaction.view()?;
        let kept = work.engine().broker().reservation(WAITING_ROWS);
        let mut run = PartsRun { view, searched: Vec::new(), kept, locked: LockedParts::default() };
        for part in &statement.parts {
            run.part(work, transaction, statement.recursive, part)?;
        }
        run.rest(work, transaction, &statement.rest)
    })
}

/// The parts of a statement that have run.
struct PartsRun {
    /// The state before the statement.
    view: Arc<Snapshot>,
    /// The tables among whose rows a part has looked for rows to change.
    searched: Vec<TableId>,
    /// The memory of the rows that later parts can read.
    kept: Reservation,
    /// The subqueries that have locked rows.
    locked: LockedParts,
}

impl PartsRun {
    fn part(&mut self, work: &mut Work<'_>, transaction: &mut Transaction, recursive: bool, part: &Cte) -> Result<()> {
        let rows = match change_of(part) {
            Some(change) => match self.change(work, transaction, change)? {
                Outcome::Rows(rows) => rows,
                Outcome::Changed { .. } | Outcome::Done { .. } => {
                    work.hide_part(&part.alias.name.value);
                    return Ok(());
                }
            },
            None => {
                let mut query = query_of(work, recursive, part)?;
                self.locked.run(work, transaction, &self.view, &mut query)?;
                self.query(work, &query)?
            }
        };
        let schema = renamed(work, part, &rows.schema())?;
        let mut batches = Vec::new();
        for batch in rows {
            let batch = batch?;
            self.kept.grow(bytes_of(&batch))?;
            batches.push(under(&schema, &batch)?);
        }
        add_part(work, part, &schema, &batches)
    }

    /// Runs a change of rows over the state before the statement.
    fn change(
        &mut self,
        work: &mut Work<'_>,
        transaction: &mut Transaction,
        change: ChangeSyntax<'_>,
    ) -> Result<Outcome> {
        let settled = OwnedChange::settled(work, transaction, &self.view, change, &mut self.locked)?;
        let (work, change) = (&*work, settled.syntax());
        let kinds = kinds_of(work.params);
        let write = work.with_planning_room(|| WriteBinder::new(work, &self.view, &kinds).bind(change))?;
        let BoundWrite { tag, table, plan, values, reads_clock: _ } = write;
        if matches!(plan.source, WriteSource::Target { .. } | WriteSource::Merge(_)) {
            if self.searched.contains(&table.id) {
                let what = format!("two parts of the statement change rows of table \"{}\"", table.name);
                return Err(Error::new(ErrorKind::Unsupported, what)
                    .hint("make them statements of one transaction: BEGIN; ...; ...; COMMIT"));
            }
            self.searched.push(table.id);
        }
        let executor = WriteExecutor::new(work, tag, table, &plan)?;
        executor.run(work, transaction, Arc::clone(&self.view), plan, values)
    }

    /// Plans and starts a query over the state before the statement.
    fn query(&self, work: &Work<'_>, query: &Query) -> Result<RowStream> {
        let kinds = kinds_of(work.params);
        let bound = work.with_planning_room(|| WriteBinder::new(work, &self.view, &kinds).query(query))?;
        work.rows_of(Arc::clone(&self.view), bound)
    }

    fn rest(&mut self, work: &mut Work<'_>, transaction: &mut Transaction, rest: &Sql) -> Result<Outcome> {
        if let Some(change) = ChangeSyntax::of(rest) {
            return self.change(work, transaction, change);
        }
        let Sql::Query(query) = rest else {
            return Err(Error::internal("a statement with parts is a query or a change of rows"));
        };
        let mut query = query.clone();
        self.locked.run(work, transaction, &self.view, &mut *query)?;
        let rows = self.query(work, &query)?;
        // The query must be at its end before the changes are committed, because they happen only if it succeeds.
        let (schema, mut waiting) = (rows.schema(), WaitingBatches::new(work.engine().broker(), work.engine().temp()));
        for batch in rows {
            waiting.push(batch?)?;
        }
        Ok(Outcome::Rows(RowStream::new(schema, waiting.into_batches()?)))
    }
}

/// Returns the query of all rows of a plain part, with the names that its alias gives its columns.
fn query_of(work: &Work<'_>, recursive: bool, part: &Cte) -> Result<Query> {
    let mut query = sql_text::query(&format!("SELECT * FROM {}", quoted(&part.alias.name.value)), work.settings())?;
    let with_token = sqlparser::ast::helpers::attached_token::AttachedToken::empty();
    query.with = Some(With { with_token, recursive, cte_tables: vec![part.clone()] });
    Ok(query)
}

/// Returns the columns of a part under the names of its alias: `gone (a, b)`.
fn renamed(work: &Work<'_>, part: &Cte, schema: &SchemaRef) -> Result<SchemaRef> {
    let names = &part.alias.columns;
    if change_of(part).is_none() || names.is_empty() {
        return Ok(Arc::clone(schema));
    }
    refuse("WITH", [(names.iter().any(|name| name.data_type.is_some()), "the type of a column of an alias")])?;
    if names.len() > schema.fields().len() {
        let what = format!(
            "WITH {} names {} columns, but the query has {}",
            work.statement.spell(&part.alias.name),
            names.len(),
            schema.fields().len()
        );
        return Err(Error::new(ErrorKind::CardinalityViolation, what));
    }
    let fields = schema.fields().iter().enumerate().map(|(place, field)| match names.get(place) {
        Some(name) => Field::clone(field).with_name(work.statement.spell(&name.name)),
        None => Field::clone(field),
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// Returns a batch under the column names of `schema`.
fn under(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)
        .map_err(|error| Error::internal(format!("the rows of a part: {error}")))
}

/// Makes rows readable under the name of their part.
fn add_part(work: &mut Work<'_>, part: &Cte, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<()> {
    let name = &part.alias.name;
    let rows = converted_rows(work.statement.spell(name).to_owned(), schema, batches)?;
    work.show_part(&name.value, rows);
    Ok(())
}

/// Returns the columns of the result, and the types that the statement gives its parameters. Changes nothing.
pub(crate) fn shape(
    work: &mut Work<'_>,
    view: &Arc<Snapshot>,
    statement: &ChangingWith,
    kinds: &[DataType],
) -> Result<(Option<BoundQuery>, Vec<Option<DataType>>)> {
    let mut parameters = vec![None; kinds.len()];
    for part in &statement.parts {
        let result = match change_of(part) {
            Some(change) => shape_of_change(work, view, change, kinds, &mut parameters)?,
            None => {
                Some(shape_of_query(work, view, &query_of(work, statement.recursive, part)?, kinds, &mut parameters)?)
            }
        };
        match result {
            None => work.hide_part(&part.alias.name.value),
            Some(bound) => {
                let schema = renamed(work, part, &result_schema(&bound))?;
                add_part(work, part, &schema, &[])?;
            }
        }
    }
    let result = match (ChangeSyntax::of(&statement.rest), &statement.rest) {
        (Some(change), _) => shape_of_change(work, view, change, kinds, &mut parameters)?,
        (None, Sql::Query(query)) => Some(shape_of_query(work, view, query, kinds, &mut parameters)?),
        _ => None,
    };
    Ok((result, parameters))
}

fn shape_of_change(
    work: &Work<'_>,
    view: &Arc<Snapshot>,
    change: ChangeSyntax<'_>,
    kinds: &[DataType],
    parameters: &mut [Option<DataType>],
) -> Result<Option<BoundQuery>> {
    let binder = WriteBinder::new(work, view, kinds);
    let bound = binder.bind(change)?;
    if let Some(values) = &bound.values {
        binder.bind_values(&bound.table, values)?;
    }
    merge_kinds(parameters, &binder.parameters());
    Ok(bound.plan.returning)
}

fn shape_of_query(
    work: &Work<'_>,
    view: &Arc<Snapshot>,
    query: &Query,
    kinds: &[DataType],
    parameters: &mut [Option<DataType>],
) -> Result<BoundQuery> {
    let binder = WriteBinder::new(work, view, kinds);
    let bound = binder.query(query)?;
    merge_kinds(parameters, &binder.parameters());
    Ok(bound)
}

/// Adds the types that a part has given to parameters. The first part that gives a type decides.
fn merge_kinds(parameters: &mut [Option<DataType>], found: &[Option<DataType>]) {
    for (known, found) in parameters.iter_mut().zip(found) {
        if known.is_none() {
            known.clone_from(found);
        }
    }
}
