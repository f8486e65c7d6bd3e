//! `REFRESH MATERIALIZED VIEW`: brings the rows of a materialized view up to date, in one transaction.
//!
//! A query over one columnar table with one row for each group is refreshed incrementally: only the groups of rows that
//! were inserted or deleted since the last refresh are computed again, and replace their rows. For all other queries,
//! and if the changed rows cannot be known, all rows are computed.
//!
//! A refresh that fails, or that a crash ends, leaves the rows and the refresh point of the refresh before.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use rowmill_base::{CommitId, Error, ErrorKind, Isolation, Result, Settings, TableId};
use rowmill_query::binder::BoundQuery;
use rowmill_query::changed_groups::GroupedQuery;
use rowmill_storage::{TableDef, TableSource};
use rowmill_txn::{
    ChangedRows, MaterializedView, RefreshPoint, Snapshot, SourceLag, SourcePoint, TableSnapshot, Transaction,
};
use sqlparser::ast::Statement as Sql;

use super::key_clauses::def_of;
use super::materialized_view::same_columns;
use super::relation::{self, NamedRelation, RelationKind};
use super::row_sink::schema_of_rows;
use super::write::keys::numbers;
use crate::assign::assign;
use crate::engine_query;
use crate::names::qualified;
use crate::open_transaction::now_us;
use crate::outcome::Outcome;
use crate::parse::{self, RefreshStatement, StatementBody};
use crate::session::Work;

const STATEMENT: &str = "REFRESH MATERIALIZED VIEW";

/// If more than one row of this many has changed, all rows are computed.
const CHANGED_SHARE: u64 = 2;

/// If more keys than this have changed, all rows are computed, so that the keys take little memory.
const CHANGED_KEYS_MAX: usize = 1 << 20;

/// The state that the rows of a view show after a refresh.
pub(super) struct Refreshed {
    pub(super) point: RefreshPoint,
    /// Why each refresh of the view computes all rows, if it does.
    pub(super) full_because: Option<String>,
}

pub(crate) fn run(work: &mut Work<'_>, refresh: &RefreshStatement) -> Result<Outcome> {
    if work.session.in_transaction() {
        let message = format!("{STATEMENT} does not run inside of a transaction");
        return Err(Error::new(ErrorKind::ActiveTransaction, message)
            .hint("a refresh is a transaction of its own: COMMIT first"));
    }
    let name = qualified(&refresh.name, work.statement.spellings())?;
    let view = work.view()?;
    relation::schema(view.catalog(), &name.schema)?;
    let table = match relation::find(view.catalog(), &name) {
        Some(NamedRelation::Materialized(table)) => table.id,
        Some(other) => return Err(relation::wrong_kind(other.name(), other.kind(), RelationKind::Materialized)),
        None => return Err(relation::unknown(view.catalog(), &name, &[RelationKind::Materialized])),
    };
    drop(view);
    let extent = match refresh.is_full {
        Some(true) => Extent::Full,
        Some(false) => Extent::Incremental,
        None => Extent::Least,
    };
    refresh_view(work, table, extent)?;
    Ok(Outcome::Done { tag: STATEMENT })
}

/// How much a refresh computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All rows.
    Full,
    /// The changed groups, or all rows if the changes cannot be known. Views that are always refreshed in full are
    /// refused.
    Incremental,
    /// As little as possible.
    Least,
}

/// Refreshes one view in a transaction of its own, and notes how that ended.
pub(crate) fn refresh_view(work: &mut Work<'_>, view: TableId, extent: Extent) -> Result<()> {
    let engine = Arc::clone(work.engine());
    // The transaction must begin after our turn has come. Otherwise it could lose against the refresh before.
    let _turn = engine.refreshes().begin(view, &work.cancel)?;
    let mut read = None;
    let done = work.write(|work, transaction| {
        // A refresh reads one state. What others commit meanwhile is for the next refresh.
        transaction.set_isolation(Isolation::Snapshot);
        read = refresh_in(work, transaction, view, extent)?;
        Ok(())
    });
    match done {
        Ok(()) => {
            if let Some(ReadState { commit, base }) = read {
                engine.refreshes().succeeded(view, commit, base);
            }
            Ok(())
        }
        Err(error) => {
            // The next refresh shows whether it is worth a report that this one was ended or was not the first.
            if !matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::SerializationFailure) {
                engine.refreshes().failed(view, error.clone());
            }
            Err(error)
        }
    }
}

/// The state that a refresh has read.
struct ReadState {
    commit: CommitId,
    /// The base table of a view that is refreshed incrementally.
    base: Option<Arc<TableSnapshot>>,
}

/// Refreshes a view in `transaction`, which has changed nothing yet. Returns `None` if the view is up to date.
fn refresh_in(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    view: TableId,
    extent: Extent,
) -> Result<Option<ReadState>> {
    let before = transaction.view()?;
    let gone = || Error::new(ErrorKind::UndefinedTable, "the materialized view no longer exists");
    let known = Arc::clone(before.catalog().materialized(view).ok_or_else(gone)?);
    let table = def_of(transaction, view)?;
    let bound = bind_view(work, &before, &known.sql)?;
    same_columns(&table, &bound)?;
    let grouped = GroupedQuery::of(bound.clone());
    if let (Extent::Incremental, Err(why)) = (extent, &grouped) {
        let message = format!("materialized view \"{}\" cannot be refreshed incrementally: {why}", table.name);
        return Err(Error::new(ErrorKind::Unsupported, message)
            .hint("leave out INCREMENTAL; REFRESH MATERIALIZED VIEW ... FULL computes all rows"));
    }
    let is_current =
        known.refreshed.as_ref().is_some_and(|point| point.lag(&before) == SourceLag::Rows(0) && !point.reads_more);
    let last_failed = work.engine().refreshes().failure(view).is_some();
    if is_current && extent != Extent::Full && !last_failed {
        return Ok(None);
    }
    let point = point_of(&before, &bound)?;
    let base = grouped.as_ref().ok().and_then(|_| before.table(point.sources.first()?.table));
    let read = ReadState { commit: point.commit, base };
    let old = known.refreshed.as_ref().filter(|_| extent != Extent::Full);
    let replaced = match (&grouped, old, &read.base) {
        (Ok(grouped), Some(old), Some(base)) => {
            let changes = ViewChanges { table: &table, before: &before, base, old };
            changes.replace_groups(work, transaction, grouped)?
        }
        _ => false,
    };
    if !replaced {
        if extent == Extent::Incremental {
            work.notice(format!("all rows of \"{}\" were computed: its changes are not known or too many", table.name));
        }
        transaction.truncate(view)?;
        insert_rows(work, transaction, &table, &before, bound)?;
    }
    let (refreshed, full_because) = (Some(point), grouped.err());
    transaction.set_materialized(MaterializedView { refreshed, full_because, ..(*known).clone() })?;
    Ok(Some(read))
}

/// A view that is refreshed group by group.
struct ViewChanges<'a> {
    table: &'a TableDef,
    /// The state that the refresh reads.
    before: &'a Arc<Snapshot>,
    /// The base table in that state.
    base: &'a Arc<TableSnapshot>,
    /// The point of the refresh before.
    old: &'a RefreshPoint,
}

impl ViewChanges<'_> {
    /// Replaces the rows of changed groups. Returns `false` if all rows must be computed: nothing has changed then.
    fn replace_groups(&self, work: &Work<'_>, transaction: &mut Transaction, grouped: &GroupedQuery) -> Result<bool> {
        let base_id = self.base.table().id;
        let Some(source) = self.old.sources.iter().find(|source| source.table == base_id) else { return Ok(false) };
        let held = work.engine().refreshes().base(self.table.id, self.old.commit);
        let Some(changed) = ChangedRows::since(source, held.as_deref(), self.base)? else { return Ok(false) };
        // Then it is faster to compute all groups.
        if changed.rows().saturating_mul(CHANGED_SHARE) > self.base.row_count() {
            return Ok(false);
        }
        let Some(keys) = self.changed_keys(work, grouped, &changed)? else { return Ok(false) };
        if keys.num_rows() == 0 {
            return Ok(true);
        }
        let gone = || Error::internal("a materialized view without its table");
        let view = self.before.table(self.table.id).ok_or_else(gone)?;
        for batch in work.rows_of(Arc::clone(self.before), grouped.stale_rows(view, &keys))? {
            work.cancel.check()?;
            transaction.delete(self.table.id, numbers(batch?.column(0)))?;
        }
        insert_rows(work, transaction, self.table, self.before, grouped.groups(&keys)?)?;
        Ok(true)
    }

    /// Returns the keys of changed rows, possibly twice. `None` if there are too many.
    fn changed_keys(
        &self,
        work: &Work<'_>,
        grouped: &GroupedQuery,
        changed: &ChangedRows,
    ) -> Result<Option<RecordBatch>> {
        let (mut found, mut count, mut schema) = (Vec::new(), 0, None);
        for rows in [&changed.inserted, &changed.deleted] {
            let keys =
                work.rows_of(Arc::clone(self.before), grouped.keys_of(Arc::clone(rows) as Arc<dyn TableSource>))?;
            schema = Some(keys.schema());
            for batch in keys {
                work.cancel.check()?;
                let batch = batch?;
                count += batch.num_rows();
                // The query must run to its end: leaving it early would cancel the statement.
                match count <= CHANGED_KEYS_MAX {
                    true => found.push(batch),
                    false => found.clear(),
                }
            }
        }
        if count > CHANGED_KEYS_MAX {
            return Ok(None);
        }
        let schema = schema.ok_or_else(|| Error::internal("keys without columns"))?;
        let keys = concat_batches(&schema, &found).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Some(keys))
    }
}

/// Adds all rows of the query of a new view to its empty table. They show the state `before`.
pub(super) fn compute_all(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    before: &Arc<Snapshot>,
    bound: BoundQuery,
) -> Result<Refreshed> {
    let point = point_of(before, &bound)?;
    let full_because = GroupedQuery::of(bound.clone()).err();
    insert_rows(work, transaction, table, before, bound)?;
    Ok(Refreshed { point, full_because })
}

/// Adds the rows of a query over `before` to the table of a view.
fn insert_rows(
    work: &Work<'_>,
    transaction: &mut Transaction,
    table: &TableDef,
    before: &Arc<Snapshot>,
    bound: BoundQuery,
) -> Result<()> {
    let schema = schema_of_rows(table);
    for batch in work.rows_of(Arc::clone(before), bound)? {
        work.cancel.check()?;
        let batch = batch?;
        let columns = table.columns.iter().zip(batch.columns());
        let columns = columns.map(|(column, values)| assign(values, &column.kind, &column.name));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(schema.clone(), columns.collect::<Result<_>>()?, &options);
        let rows = rows.map_err(|error| Error::internal(format!("rows of a materialized view: {error}")))?;
        transaction.insert(table.id, &rows)?;
    }
    Ok(())
}

/// Returns the refresh point of rows that `bound` computes over `snapshot`.
fn point_of(snapshot: &Snapshot, bound: &BoundQuery) -> Result<RefreshPoint> {
    let tables: BTreeSet<TableId> = bound.tables.iter().map(|table| table.table().id).collect();
    let gone = || Error::internal("a query reads a table that its snapshot does not have");
    let sources = tables.into_iter().map(|table| SourcePoint::of(snapshot, table).ok_or_else(gone));
    Ok(RefreshPoint {
        at_us: now_us(),
        commit: snapshot.commit(),
        reads_more: bound.reads_more_than_tables(),
        sources: sources.collect::<Result<_>>()?,
    })
}

/// Binds the query of a materialized view over `snapshot`.
pub(super) fn bind_view(work: &Work<'_>, snapshot: &Arc<Snapshot>, sql: &str) -> Result<BoundQuery> {
    let corrupt = |what: &str| Error::corrupt(format!("the query of a materialized view is not {what}"));
    let mut statements = parse::parse(sql, &Settings::default())?;
    let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
        return Err(corrupt("one statement"));
    };
    let StatementBody::Sql(body) = statement.body() else { return Err(corrupt("a query")) };
    let Sql::Query(query) = &**body else { return Err(corrupt("a query")) };
    let context = work.context(Arc::clone(snapshot));
    let bound = work.with_planning_room(|| engine_query::bind(&context, query, statement.spellings(), &[]));
    // Places in the text of the view are not those in the statement that runs.
    bound.map_err(Error::without_position)
}
