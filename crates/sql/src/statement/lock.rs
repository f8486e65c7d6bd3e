//! `SELECT ... FOR UPDATE` and `FOR SHARE`.
//!
//! We record the rows that are returned, and the commit fails if another transaction has written one of them by then. A
//! transaction that waits for rows claims them, too, so that others like it wait. Outside of a transaction nothing is
//! recorded.
//!
//! With `NOWAIT` and `SKIP LOCKED` the rows are claimed one by one while the query runs, so that it knows at once which
//! of them another transaction has. With `SKIP LOCKED` we count LIMIT and OFFSET here, after the locked rows are left
//! out, so the query itself has no LIMIT and is read to its end.
//!
//! A subquery of a change of rows can lock rows, too: `DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id
//! LIMIT 1 FOR UPDATE SKIP LOCKED)`. It runs first, and its rows take its place.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, Schema, SchemaRef};
use rowmill_base::{Error, ErrorKind, Reservation, Result};
use rowmill_query::syntax_walk::{SyntaxTree, any_query, try_walk_mut};
use rowmill_storage::TableDef;
use rowmill_txn::roles::{ObjectId, Rights};
use rowmill_txn::{Snapshot, Transaction};
use sqlparser::ast::{self, CastKind, Expr, LimitClause, Offset, Query, SelectItem, SetExpr, VisitorMut};

use super::clause::{refuse, unsupported};
use super::relation;
use super::sql_text::{self, quoted};
use super::target_table::TargetTable;
use super::write::binder::WriteBinder;
use super::write::keys::{as_keys, filter};
use super::write::waiting::{WAITING_ROWS, bytes_of};
use crate::access::Access;
use crate::outcome::{Outcome, RowStream};
use crate::parse::RowLock;
use crate::query::kinds_of;
use crate::session::Work;
use crate::session_objects::converted_rows;

const STATEMENT: &str = "FOR UPDATE and FOR SHARE";

pub(crate) fn run(work: &mut Work<'_>, query: &Query, lock: RowLock) -> Result<Outcome> {
    if lock != RowLock::Wait {
        return work.write(|work, transaction| {
            let view = transaction.view()?;
            let LockedRows { schema, batches, kept: _ } = lock_rows(work, transaction, &view, query, lock)?;
            Ok(Outcome::Rows(RowStream::new(schema, batches.into_iter().map(Ok))))
        });
    }
    let view = work.view()?;
    lockable_table(work, &view, query)?;
    // The recorded keys come from a second run of the query, with the key as one more column.
    if work.session.in_transaction() {
        for batch in rows_with_keys(work, &view, query)? {
            let batch = batch?;
            let keys = keys_of(&batch)?;
            let transaction = work.open_transaction(STATEMENT)?.settled()?;
            (0..keys.len()).for_each(|row| transaction.validate_read(keys.value(row)));
        }
        work.keep_locked_rows()?;
    }
    let ready = work.ready_whole(view, query)?;
    Ok(Outcome::Rows(ready.start(work.progress().cloned(), work.started)))
}

/// Returns the table whose rows a query locks.
fn lockable_table(work: &Work<'_>, view: &Arc<Snapshot>, query: &Query) -> Result<Arc<TableDef>> {
    let SetExpr::Select(select) = &*query.body else { return Err(Error::internal("only a SELECT locks rows")) };
    let [from] = select.from.as_slice() else { return Err(Error::internal("rows of one table are locked")) };
    let target = TargetTable::of(work, STATEMENT, from)?;
    let table = relation::table(view.catalog(), &target.name)?;
    if table.keyed.is_none() {
        return Err(unsupported(STATEMENT, "a table without a primary key")
            .hint("with ISOLATION LEVEL SERIALIZABLE the commit fails if rows that were read have changed"));
    }
    Ok(table)
}

/// Runs a query of one table with the key of each row as one more column.
fn rows_with_keys(work: &Work<'_>, view: &Arc<Snapshot>, query: &Query) -> Result<RowStream> {
    let kinds = kinds_of(work.params);
    let mut keyed = work.with_planning_room(|| WriteBinder::new(work, view, &kinds).query(query))?;
    if !keyed.add_row_key() {
        return Err(unsupported(STATEMENT, "a query whose rows are not those of its table"));
    }
    work.rows_of(Arc::clone(view), keyed)
}

fn keys_of(batch: &RecordBatch) -> Result<arrow::array::BinaryArray> {
    as_keys(batch.columns().last().ok_or_else(|| Error::internal("the last column has the keys"))?)
}

/// Rows that are locked.
struct LockedRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// Their memory.
    kept: Reservation,
}

/// Locks the rows of a query, and returns them.
fn lock_rows(
    work: &Work<'_>,
    transaction: &mut Transaction,
    view: &Arc<Snapshot>,
    query: &Query,
    lock: RowLock,
) -> Result<LockedRows> {
    let table = lockable_table(work, view, query)?;
    Access::of(view.catalog(), work.actor()).require(Rights::UPDATE, ObjectId::Table(table.id), None)?;
    let mut query = query.clone();
    let mut range = match lock {
        RowLock::Skip => RowRange::take(work, view, &mut query)?,
        RowLock::Wait | RowLock::Refuse => RowRange { skipped: 0, left: u64::MAX },
    };
    let rows = rows_with_keys(work, view, &query)?;
    let fields = rows.schema().fields().clone();
    let own = fields.len() - 1;
    let schema = Arc::new(Schema::new(fields[..own].to_vec()));
    let mut locked = LockedRows { schema, batches: Vec::new(), kept: work.engine().broker().reservation(WAITING_ROWS) };
    let places: Vec<usize> = (0..own).collect();
    for batch in rows {
        work.cancel.check()?;
        let batch = batch?;
        // The query must run to its end, because dropping a running query cancels the statement.
        if range.left == 0 {
            continue;
        }
        let keys = keys_of(&batch)?;
        let mut is_taken = Vec::with_capacity(keys.len());
        for row in 0..keys.len() {
            let key = keys.value(row);
            // A row after the last one that is returned must stay free for others.
            let is_free = range.left > 0 && (lock == RowLock::Wait || transaction.try_claim(key));
            if !is_free && lock == RowLock::Refuse {
                let what = format!("a row of table \"{}\" is locked by another transaction", table.name);
                return Err(Error::new(ErrorKind::NotAvailable, what)
                    .hint("without NOWAIT the statement waits for it; SKIP LOCKED leaves it out"));
            }
            let is_in = is_free && range.counts_in();
            if is_in {
                transaction.validate_read(key);
            }
            is_taken.push(is_in);
        }
        let taken = filter(&batch, &BooleanArray::from(is_taken))?;
        let taken = taken.project(&places).map_err(|error| Error::internal(format!("locked rows: {error}")))?;
        locked.kept.grow(bytes_of(&taken))?;
        locked.batches.push(taken);
    }
    Ok(locked)
}

/// The rows that LIMIT and OFFSET let through.
struct RowRange {
    /// How many more rows OFFSET leaves out.
    skipped: u64,
    left: u64,
}

impl RowRange {
    /// Takes LIMIT and OFFSET out of a query, and computes them.
    fn take(work: &Work<'_>, view: &Arc<Snapshot>, query: &mut Query) -> Result<RowRange> {
        refuse("SKIP LOCKED", [(query.fetch.is_some(), "FETCH FIRST ... WITH TIES")])?;
        let (limit, offset) = match query.limit_clause.take() {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, limit_by: _ }) => {
                (limit, offset.map(|Offset { value, rows: _ }| value))
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        };
        let is_share = |expr: &Expr| match expr {
            Expr::Function(function) => function.name.to_string().contains("limit percent"),
            _ => false,
        };
        refuse("SKIP LOCKED", [(limit.as_ref().is_some_and(is_share), "LIMIT with a percentage")])?;
        let count = |expr: Option<Expr>| expr.map_or(Ok(None), |expr| count_of(work, view, expr));
        Ok(RowRange { skipped: count(offset)?.unwrap_or(0), left: count(limit)?.unwrap_or(u64::MAX) })
    }

    /// Counts a row. Returns whether it is let through.
    fn counts_in(&mut self) -> bool {
        if self.skipped > 0 {
            self.skipped -= 1;
            return false;
        }
        self.left -= 1;
        true
    }
}

/// Computes the number of LIMIT or OFFSET. NULL means none.
fn count_of(work: &Work<'_>, view: &Arc<Snapshot>, expr: Expr) -> Result<Option<u64>> {
    let mut query = sql_text::query("SELECT 1", work.settings())?;
    let SetExpr::Select(select) = &mut *query.body else { return Err(Error::internal("SELECT 1 is a SELECT")) };
    let number = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: ast::DataType::BigInt(None),
        array: false,
        format: None,
    };
    select.projection = vec![SelectItem::UnnamedExpr(number)];
    // The query must run to its end, because dropping a running query cancels the statement.
    let batches = work.rows(Arc::clone(view), &query)?.collect::<Result<Vec<_>>>()?;
    let values =
        batches.first().filter(|batch| batch.num_rows() == 1 && *batch.column(0).data_type() == DataType::Int64);
    let values = values.ok_or_else(|| Error::internal("a number of rows is one value"))?;
    let values = values.column(0).as_primitive::<Int64Type>();
    if values.is_null(0) {
        return Ok(None);
    }
    u64::try_from(values.value(0)).map(Some).map_err(|_| {
        Error::new(ErrorKind::InvalidParameter, format!("LIMIT and OFFSET must not be negative: {}", values.value(0)))
    })
}

/// The subqueries of a change of rows that lock rows, when they have run.
#[derive(Default)]
pub(crate) struct LockedParts {
    /// The memory of their rows.
    kept: Vec<Reservation>,
}

impl LockedParts {
    /// Runs the subqueries of `tree` that lock rows, over `view`. Each of them becomes a query of the rows that it has
    /// returned.
    pub(crate) fn run(
        &mut self,
        work: &mut Work<'_>,
        transaction: &mut Transaction,
        view: &Arc<Snapshot>,
        tree: &mut impl SyntaxTree,
    ) -> Result<()> {
        let mut found = LockingQueries { work, first: self.kept.len(), queries: Vec::new() };
        try_walk_mut(tree, &mut found)?;
        for (name, query, lock) in found.queries {
            let rows = lock_rows(work, transaction, view, &query, lock).map_err(|error| match error.kind() {
                ErrorKind::UndefinedColumn => {
                    error.hint("a subquery with FOR UPDATE runs first, so it can name columns of its own table only")
                }
                _ => error,
            })?;
            work.show_part(&name, converted_rows(name.clone(), &rows.schema, &rows.batches)?);
            self.kept.push(rows.kept);
        }
        Ok(())
    }
}

/// Takes the subqueries that lock rows out of a tree.
struct LockingQueries<'a, 'w> {
    work: &'a Work<'w>,
    /// The number of the first one.
    first: usize,
    queries: Vec<(String, Query, RowLock)>,
}

impl VisitorMut for LockingQueries<'_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let Some(lock) = RowLock::of(query) else { return ControlFlow::Continue(()) };
        let name = format!("locked rows {}", self.first + self.queries.len() + 1);
        let rows = match sql_text::query(&format!("SELECT * FROM {}", quoted(&name)), self.work.settings()) {
            Ok(rows) => rows,
            Err(error) => return ControlFlow::Break(error),
        };
        let mut locking = std::mem::replace(query, rows);
        locking.locks.clear();
        if any_query(&locking, |inner| !inner.locks.is_empty()) {
            return ControlFlow::Break(unsupported(STATEMENT, "a subquery of a query that locks rows, too,"));
        }
        self.queries.push((name, locking, lock));
        ControlFlow::Continue(())
    }
}
