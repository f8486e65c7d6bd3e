//! Runs the plan of a change in batches.
//!
//! The rows of a columnar table stream. We read a batch of row numbers and values from the state before the statement.
//! The numbers go into the delete vectors, and the new rows into the open block, which is sealed when it is full. So a
//! change of every row of a large table holds only a few batches and the blocks that are being sealed. For an UPDATE
//! that keeps columns, we read only the new values. The transaction holds them until it knows all rows of their block
//! ([`ReplacedRows`]).
//!
//! The rows of a keyed table stream too if the changes of some rows cannot concern others: for INSERT, DELETE, and an
//! UPDATE that assigns no column of a unique key. In all other statements a key that one row gives up must be free for
//! another row. So we find all rows, and then remove rows, change rows and add rows, in this order. We also find all
//! rows first if the transaction has changed keyed rows before: a query that runs shares these changes, so that the
//! next write would copy them. Rows that wait go to a temporary file if memory has no room for them.

use std::iter;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use arrow::error::ArrowError;
use rowmill_base::{Broker, Error, ErrorKind, Reservation, Result};
use rowmill_plan::write::{RepeatedRow, Write, WriteAction, WriteSource};
use rowmill_program::meets_several;
use rowmill_query::binder::BoundQuery;
use rowmill_storage::TableDef;
use rowmill_storage::spill::TempSpace;
use rowmill_txn::{ReplacedRows, Snapshot, Transaction};

use super::conflict::ConflictRows;
use super::keys::{FoundRows, as_keys, filter, numbers};
use super::waiting::{WAITING_ROWS, WaitingBatches, bytes_of};
use super::{ValueRows, misfit};
use crate::outcome::{Outcome, RowStream};
use crate::session::Work;
use crate::statement::check_clause::RowChecks;
use crate::statement::returning;
use crate::statement::row_sink::RowSink;
use crate::statement::value_rows;

/// A change that runs.
pub(in crate::statement) struct WriteExecutor {
    tag: &'static str,
    table: Arc<TableDef>,
    actions: Vec<Action>,
    /// What to do with rows that are found again.
    repeated: Option<Repeated>,
    /// The rows that were found, if the transaction does not tell which of them are found again.
    found: Option<FoundRows>,
    conflict: Option<ConflictRows>,
    /// Whether all rows of the source are found before the first change.
    finds_first: bool,
    /// The changes of a keyed table that wait for each other, if they must be made together.
    together: Option<KeyedChanges>,
    /// The memory of the rows for ON CONFLICT and RETURNING.
    kept: Reservation,
    broker: Broker,
    temp: TempSpace,
    changed: u64,
    /// The rows for RETURNING.
    written: Option<Vec<RecordBatch>>,
    /// The columns of joined tables that RETURNING reads. They are the last columns of the source.
    beside: Vec<FieldRef>,
}

enum Action {
    Insert(RowSink),
    Update(RowSink),
    /// An update of a columnar table that keeps some columns.
    Replace(RowSink, Option<ReplacedRows>),
    /// With the sink of the removed rows, if RETURNING reads them.
    Delete(Option<RowSink>),
}

#[derive(Clone, Copy, PartialEq)]
enum Repeated {
    LeftOut,
    Refused,
    RefusedByMerge,
}

/// Changes of a keyed table that wait until all rows are found.
struct KeyedChanges {
    /// The keys of rows.
    deleted: WaitingBatches,
    /// The keys of rows, followed by the columns of the new rows.
    updated: WaitingBatches,
    inserted: WaitingBatches,
}

impl WriteExecutor {
    /// Prepares the actions of `plan`.
    pub(in crate::statement) fn new(
        work: &Work<'_>,
        tag: &'static str,
        table: Arc<TableDef>,
        plan: &Write<BoundQuery>,
    ) -> Result<WriteExecutor> {
        // A program that handles conflicts checks the rows itself, because it also makes rows.
        let checks = if plan.conflict.is_some() { &[] } else { plan.checks.as_slice() };
        let checks = Arc::new(RowChecks::new(work, checks)?);
        let action = |action: &WriteAction| {
            Ok(match action {
                WriteAction::Insert(row) => Action::Insert(RowSink::new(work, &table, row, &checks)?),
                WriteAction::Update(row) => {
                    let sink = RowSink::new(work, &table, row, &checks)?;
                    if sink.replaced_columns().is_some() { Action::Replace(sink, None) } else { Action::Update(sink) }
                }
                WriteAction::Delete(None) => Action::Delete(None),
                WriteAction::Delete(Some(old)) => {
                    Action::Delete(Some(RowSink::new(work, &table, old, &Arc::default())?))
                }
            })
        };
        let actions = plan.actions.iter().map(action).collect::<Result<_>>()?;
        let repeated = match plan.source {
            WriteSource::Target { repeated: RepeatedRow::Refused, .. } => Some(Repeated::Refused),
            // The transaction counts a row that is deleted twice once, so only RETURNING needs to know.
            WriteSource::Target { repeated: RepeatedRow::Once, .. } if plan.returning.is_some() => {
                Some(Repeated::LeftOut)
            }
            WriteSource::Merge(_) => Some(Repeated::RefusedByMerge),
            _ => None,
        };
        // A row of a columnar table that is deleted a second time counts only once, so the counts tell. Where new rows
        // replace others by their keys, they may have deleted rows that are found later.
        let is_counted = table.keyed.is_none() && table.time.as_ref().is_none_or(|time| time.dedup_keys.is_empty());
        let needs_found = repeated.is_some() && (repeated == Some(Repeated::LeftOut) || !is_counted);
        let (broker, temp) = (work.engine().broker().clone(), work.engine().temp().clone());
        let waiting = || WaitingBatches::new(&broker, &temp);
        let waits = table.keyed.is_some() && !changes_rows_alone(&table, &plan.actions);
        let together = waits.then(|| KeyedChanges { deleted: waiting(), updated: waiting(), inserted: waiting() });
        Ok(WriteExecutor {
            tag,
            actions,
            repeated,
            found: needs_found.then(|| FoundRows::new(table.keyed.is_some())),
            conflict: None,
            finds_first: together.is_some(),
            together,
            kept: broker.reservation(WAITING_ROWS),
            broker,
            temp,
            changed: 0,
            written: plan.returning.as_ref().map(|_| Vec::new()),
            beside: plan.beside.iter().map(|(name, kind)| Arc::new(Field::new(name, kind.clone(), true))).collect(),
            table,
        })
    }

    /// Runs the plan over `view`, the state before the statement.
    pub(super) fn run(
        mut self,
        work: &Work<'_>,
        transaction: &mut Transaction,
        view: Arc<Snapshot>,
        plan: Write<BoundQuery>,
        values: Option<ValueRows<'_>>,
    ) -> Result<Outcome> {
        self.finds_first |= self.table.keyed.is_some() && transaction.has_keyed_writes();
        if plan.conflict.is_some() {
            self.conflict = Some(ConflictRows::new(work, &view, &self.table, &plan)?);
        }
        match (plan.source, values) {
            (WriteSource::Values(_), Some(values)) => value_rows::insert(work, transaction, &mut self, &values)?,
            (WriteSource::Query(query), None) => {
                let rows = work.rows_of(view, query)?;
                self.insert_all(work, transaction, rows)?;
            }
            (WriteSource::Target { rows, .. } | WriteSource::Merge(rows), None) => {
                let rows = work.rows_of(view, rows)?;
                self.change_all(work, transaction, rows)?;
            }
            _ => return Err(misfit("a source that it cannot read")),
        }
        self.finish(work, transaction, plan.returning)
    }

    /// The table that changes.
    pub(in crate::statement) fn table(&self) -> &Arc<TableDef> {
        &self.table
    }

    /// Returns the number of rows changed so far.
    pub(in crate::statement) fn changed(&self) -> u64 {
        self.changed
    }

    /// Returns the sink of the rows that an INSERT adds.
    pub(in crate::statement) fn inserted(&self) -> Result<&RowSink> {
        match self.actions.as_slice() {
            [Action::Insert(sink)] => Ok(sink),
            _ => Err(misfit("rows to insert, but another action")),
        }
    }

    /// Adds `rows` rows of the source, whose columns are `input`.
    pub(in crate::statement) fn insert(
        &mut self,
        transaction: &mut Transaction,
        input: &[ArrayRef],
        rows: usize,
    ) -> Result<()> {
        let batch = self.inserted()?.assigned(transaction, input, rows)?;
        if self.conflict.is_some() || self.written.is_some() {
            self.kept.grow(bytes_of(&batch))?;
        }
        match &mut self.conflict {
            Some(conflict) => conflict.add(&batch),
            None => self.add(transaction, batch),
        }
    }

    /// Adds all rows of the source.
    pub(in crate::statement) fn insert_all(
        &mut self,
        work: &Work<'_>,
        transaction: &mut Transaction,
        rows: RowStream,
    ) -> Result<()> {
        self.inserted()?.check_types(rows.schema().fields())?;
        for batch in self.before_writes(rows)? {
            work.cancel.check()?;
            let batch = batch?;
            self.insert(transaction, batch.columns(), batch.num_rows())?;
        }
        Ok(())
    }

    /// Returns the rows of a query, which is at its end before the first write if the changes must wait.
    fn before_writes(&mut self, rows: RowStream) -> Result<RowStream> {
        if !self.finds_first {
            return Ok(rows);
        }
        let (schema, mut found) = (rows.schema(), WaitingBatches::new(&self.broker, &self.temp));
        for batch in rows {
            found.push(batch?)?;
        }
        Ok(RowStream::new(schema, found.into_batches()?))
    }

    fn change_all(&mut self, work: &Work<'_>, transaction: &mut Transaction, rows: RowStream) -> Result<()> {
        let leading = self.leading();
        let schema = rows.schema();
        self.check_types(&schema.fields()[leading..])?;
        for batch in self.before_writes(rows)? {
            work.cancel.check()?;
            let batch = batch?;
            if leading == 1 {
                let batch = self.each_once(batch)?;
                self.act(transaction, 0, &batch)?;
                continue;
            }
            let clauses = batch.column(1).as_primitive::<Int64Type>().clone();
            let batch = filter(&batch, &clauses.iter().map(|clause| Some(clause.is_some())).collect())?;
            let batch = self.each_once(batch)?;
            let clauses = batch.column(1).as_primitive::<Int64Type>();
            for action in 0..self.actions.len() {
                let is_met: BooleanArray = clauses.iter().map(|clause| Some(clause == Some(action as i64))).collect();
                if is_met.true_count() > 0 {
                    self.act(transaction, action, &filter(&batch, &is_met)?)?;
                }
            }
        }
        for action in &mut self.actions {
            if let Action::Replace(_, Some(replaced)) = action {
                transaction.finish_replaced(replaced)?;
            }
        }
        self.apply_keyed(transaction)
    }

    /// The number of columns before the values: the row, and for MERGE its action.
    fn leading(&self) -> usize {
        if self.repeated == Some(Repeated::RefusedByMerge) { 2 } else { 1 }
    }

    /// Returns an error if a column of the source can never be assigned. We check this before any row changes.
    fn check_types(&self, fields: &[FieldRef]) -> Result<()> {
        for action in &self.actions {
            if let Action::Insert(sink) | Action::Update(sink) | Action::Replace(sink, _) = action {
                sink.check_types(fields)?;
            }
        }
        Ok(())
    }

    fn each_once(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        match &mut self.found {
            None => Ok(batch),
            Some(found) if self.repeated == Some(Repeated::LeftOut) => found.only_new(&batch),
            Some(found) => match found.all_new(batch.column(0))? {
                true => Ok(batch),
                false => Err(self.found_again()),
            },
        }
    }

    /// The error for a row that is found again.
    fn found_again(&self) -> Error {
        match self.repeated {
            Some(Repeated::RefusedByMerge) => meets_several_sources(&self.table),
            _ => meets_several(&self.table),
        }
    }

    /// Counts rows of a columnar table, `deleted` of `found` rows. Each of them was live before the statement, so a
    /// smaller number means that one was found again.
    fn count_changed(&mut self, deleted: u64, found: usize) -> Result<()> {
        self.changed += deleted;
        let is_refused = self.repeated.is_some() && self.found.is_none();
        if is_refused && deleted < found as u64 { Err(self.found_again()) } else { Ok(()) }
    }

    /// Applies an action to the rows of a batch.
    fn act(&mut self, transaction: &mut Transaction, action: usize, batch: &RecordBatch) -> Result<()> {
        let (rows, input) = (batch.column(0), &batch.columns()[self.leading()..]);
        if let Action::Replace(sink, replaced) = &mut self.actions[action] {
            if replaced.is_none() {
                let columns = sink.replaced_columns().unwrap_or_default();
                *replaced = Some(transaction.replaced_rows(self.table.id, columns)?);
            }
            let values = sink.replaced(transaction, input, batch.num_rows())?;
            let replaced = replaced.as_mut().expect("it was just made");
            let deleted = transaction.replace(replaced, numbers(rows), &values)?;
            return self.count_changed(deleted, rows.len());
        }
        let made = match &self.actions[action] {
            Action::Insert(sink) | Action::Update(sink) | Action::Delete(Some(sink)) => {
                Some(sink.assigned(transaction, input, batch.num_rows())?)
            }
            Action::Delete(None) | Action::Replace(..) => None,
        };
        let is_keyed = self.table.keyed.is_some();
        if let (Some(written), Some(made)) = (&mut self.written, &made) {
            let row = beside(made, &self.beside, input)?;
            self.kept.grow(bytes_of(&row))?;
            written.push(row);
        }
        match (&self.actions[action], made) {
            (Action::Insert(_), Some(new)) if self.together.is_some() => {
                self.together.as_mut().map_or(Ok(()), |together| together.inserted.push(new))?;
            }
            (Action::Insert(_), Some(new)) => self.append(transaction, &new)?,
            (Action::Update(_), Some(new)) => {
                if let Some(together) = &mut self.together {
                    together.updated.push(with_keys(as_keys(rows)?, &new)?)?;
                } else if is_keyed {
                    let keys = as_keys(rows)?;
                    let change =
                        || -> Box<dyn Iterator<Item = _>> { Box::new(iter::once(Ok((keys.clone(), new.clone())))) };
                    self.changed += transaction.update_keyed(self.table.id, &change)?;
                } else {
                    // The query reads the state before the statement, so it never finds the rows that we append.
                    let deleted = transaction.delete(self.table.id, numbers(rows))?;
                    self.count_changed(deleted, rows.len())?;
                    transaction.insert(self.table.id, &new)?;
                }
            }
            (_, _) => {
                if let Some(together) = &mut self.together {
                    together.deleted.push(keys_alone(as_keys(rows)?)?)?;
                } else if is_keyed {
                    self.changed += transaction.delete_keyed(self.table.id, &[as_keys(rows)?])?;
                } else {
                    let deleted = transaction.delete(self.table.id, numbers(rows))?;
                    self.count_changed(deleted, rows.len())?;
                }
            }
        }
        Ok(())
    }

    fn append(&mut self, transaction: &mut Transaction, batch: &RecordBatch) -> Result<()> {
        transaction.insert(self.table.id, batch)?;
        self.changed += batch.num_rows() as u64;
        Ok(())
    }

    /// Adds rows of an INSERT, whose memory was counted if RETURNING needs them.
    fn add(&mut self, transaction: &mut Transaction, batch: RecordBatch) -> Result<()> {
        self.append(transaction, &batch)?;
        if let Some(written) = &mut self.written {
            written.push(batch);
        }
        Ok(())
    }

    fn apply_keyed(&mut self, transaction: &mut Transaction) -> Result<()> {
        let Some(KeyedChanges { mut deleted, mut updated, inserted }) = self.together.take() else {
            return Ok(());
        };
        deleted.finish()?;
        for keys in deleted.batches() {
            self.changed += transaction.delete_keyed(self.table.id, &[as_keys(keys?.column(0))?])?;
        }
        drop(deleted);
        // All updates are applied together, so that rows can exchange their keys.
        updated.finish()?;
        let changes = || -> Box<dyn Iterator<Item = _> + '_> {
            Box::new(updated.batches().map(|batch| batch.and_then(|batch| without_keys(&batch))))
        };
        self.changed += transaction.update_keyed(self.table.id, &changes)?;
        drop(updated);
        inserted.into_batches()?.try_for_each(|batch| self.append(transaction, &batch?))
    }

    /// Writes what still waits and returns the outcome of the statement.
    pub(in crate::statement) fn finish(
        mut self,
        work: &Work<'_>,
        transaction: &mut Transaction,
        returning: Option<BoundQuery>,
    ) -> Result<Outcome> {
        if let Some(conflict) = self.conflict.take() {
            return conflict.finish(work, transaction, self.tag);
        }
        match returning {
            None => Ok(Outcome::Changed { tag: self.tag, rows: self.changed }),
            Some(query) => {
                let written = self.written.unwrap_or_default();
                returning::outcome(work, transaction, &self.table, &self.beside, query, &written)
            }
        }
    }
}

/// The rows of the table, with the last columns of the source after them.
fn beside(rows: &RecordBatch, fields: &[FieldRef], source: &[ArrayRef]) -> Result<RecordBatch> {
    if fields.is_empty() {
        return Ok(rows.clone());
    }
    let all = rows.schema().fields().iter().chain(fields).cloned().collect::<Vec<_>>();
    let columns = rows.columns().iter().chain(&source[source.len() - fields.len()..]).cloned().collect();
    RecordBatch::try_new(Arc::new(Schema::new(all)), columns).map_err(failed)
}

/// A batch of keys.
fn keys_alone(keys: BinaryArray) -> Result<RecordBatch> {
    let field = Field::new(KEY, DataType::Binary, true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(keys)]).map_err(failed)
}

/// A batch of the keys and the columns of rows.
fn with_keys(keys: BinaryArray, rows: &RecordBatch) -> Result<RecordBatch> {
    let mut fields = vec![Arc::new(Field::new(KEY, DataType::Binary, true))];
    fields.extend(rows.schema().fields().iter().cloned());
    let mut columns: Vec<ArrayRef> = vec![Arc::new(keys)];
    columns.extend_from_slice(rows.columns());
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(failed)
}

/// The keys and the rows of a batch that [`with_keys`] made.
fn without_keys(batch: &RecordBatch) -> Result<(BinaryArray, RecordBatch)> {
    let columns: Vec<usize> = (1..batch.num_columns()).collect();
    Ok((as_keys(batch.column(0))?, batch.project(&columns).map_err(failed)?))
}

/// The name of the column of keys, which no error shows.
const KEY: &str = "key";

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot keep the rows of a change: {error}"))
}

/// Whether each row of a keyed table can be changed without regard to the other rows that the statement changes.
fn changes_rows_alone(table: &TableDef, actions: &[WriteAction]) -> bool {
    match (&table.keyed, actions) {
        (_, [WriteAction::Insert(_) | WriteAction::Delete(_)]) => true,
        (Some(keyed), [WriteAction::Update(row)]) => {
            let unique = keyed.indexes.iter().filter(|index| index.unique).flat_map(|index| &index.parts);
            let mut kept = keyed.key.iter().chain(unique).map(|key| key.column);
            let generated = row.generated().map(|(place, _)| place);
            let changed: Vec<usize> = row.assigned.iter().copied().chain(generated).collect();
            kept.all(|kept| changed.iter().all(|changed| table.columns[*changed].id != kept))
        }
        _ => false,
    }
}

/// The error for a row that several rows of a MERGE's source would change or remove. The result would depend on their
/// order.
fn meets_several_sources(table: &TableDef) -> Error {
    let what = format!("a row of table \"{}\" meets several rows of the source", table.name);
    Error::new(ErrorKind::CardinalityViolation, what)
        .hint("narrow ON down, or aggregate the source, so that each row meets one")
}
