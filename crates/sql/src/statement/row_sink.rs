//! Brings rows into a table: orders the columns as in the table, fills in defaults and assigns values.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result, TableId};
use rowmill_storage::{ColumnDef, TableDef};
use rowmill_txn::Transaction;

use super::check_clause;
use super::default_value::DefaultValue;
use super::relation;
use super::returning::schema_of_rows;
use crate::assign::{assign, check_pair};
use crate::outcome::RowStream;
use crate::session::Work;

/// The source of the values of one column of the table.
#[derive(Debug)]
pub(super) enum ColumnSource {
    /// The column at this position of the input.
    Input(usize),
    /// The default.
    Default(DefaultValue),
    /// The next values of a sequence.
    Sequence(TableId),
}

impl ColumnSource {
    /// Returns the source of a column that the statement does not name.
    pub(super) fn absent(work: &Work<'_>, table: &TableDef, column: &ColumnDef) -> Result<Self> {
        match table.identity(column.id) {
            Some(identity) => Ok(ColumnSource::Sequence(identity.sequence)),
            None => default_of(work, column).map(ColumnSource::Default),
        }
    }
}

/// A table that rows are written to.
pub(super) struct RowSink {
    table: Arc<TableDef>,
    schema: SchemaRef,
    sources: Vec<ColumnSource>,
    rows: u64,
    /// The rows that were written, if the caller needs them.
    written: Option<Vec<RecordBatch>>,
}

impl RowSink {
    /// Creates a sink for `table` with one source per column.
    pub(super) fn new(table: Arc<TableDef>, sources: Vec<ColumnSource>) -> Self {
        assert_eq!(table.columns.len(), sources.len(), "every column has a source");
        RowSink { schema: schema_of_rows(&table), table, sources, rows: 0, written: None }
    }

    /// Creates a sink whose input has the columns `targets` in that order. The other columns get their defaults.
    pub(super) fn for_targets(work: &Work<'_>, table: &Arc<TableDef>, targets: &[usize]) -> Result<Self> {
        let sources = table.columns.iter().enumerate().map(|(index, column)| {
            match targets.iter().position(|target| *target == index) {
                Some(input) => Ok(ColumnSource::Input(input)),
                None => ColumnSource::absent(work, table, column),
            }
        });
        Ok(RowSink::new(Arc::clone(table), sources.collect::<Result<_>>()?))
    }

    /// Returns an error if values of the types of `input` can never be assigned to the columns.
    pub(super) fn check_types(&self, input: &[FieldRef]) -> Result<()> {
        for (column, source) in self.table.columns.iter().zip(&self.sources) {
            if let ColumnSource::Input(index) = source {
                check_pair(input[*index].data_type(), &column.kind, &column.name)?;
            }
        }
        Ok(())
    }

    /// Keeps all rows that are written from now on.
    pub(super) fn keep_written(&mut self) {
        self.written = Some(Vec::new());
    }

    /// Returns the rows that were kept.
    pub(super) fn take_written(&mut self) -> Vec<RecordBatch> {
        self.written.take().unwrap_or_default()
    }

    /// Returns the number of rows written so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Assigns and writes the rows of `input`.
    pub(super) fn write(&mut self, work: &Work<'_>, transaction: &mut Transaction, input: &RecordBatch) -> Result<()> {
        self.write_columns(work, transaction, input.columns(), input.num_rows())
    }

    /// Assigns and writes `rows` rows with the columns `input`.
    pub(super) fn write_columns(
        &mut self,
        work: &Work<'_>,
        transaction: &mut Transaction,
        input: &[ArrayRef],
        rows: usize,
    ) -> Result<()> {
        let batch = self.assigned(work, transaction, input, rows)?;
        transaction.insert(self.table.id, &batch)?;
        self.rows += rows as u64;
        if let Some(written) = &mut self.written {
            written.push(batch);
        }
        Ok(())
    }

    /// Assigns `rows` rows with the columns `input` and checks the conditions of the table. Returns the rows of the
    /// table.
    pub(super) fn assigned(
        &self,
        work: &Work<'_>,
        transaction: &mut Transaction,
        input: &[ArrayRef],
        rows: usize,
    ) -> Result<RecordBatch> {
        let columns = self.table.columns.iter().zip(&self.sources).map(|(column, source)| match source {
            ColumnSource::Input(index) => assign(&input[*index], &column.kind, &column.name),
            ColumnSource::Default(default) => default.rows(rows),
            ColumnSource::Sequence(sequence) => next_values(transaction, *sequence, column, rows),
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::internal(format!("assignment gives the columns of the table: {error}")))?;
        // Conditions read the values as they will be stored, so they come after the assignment.
        check_clause::verify(work, transaction, &self.table, &batch)?;
        Ok(batch)
    }

    /// Writes all batches of `input`.
    pub(super) fn write_all(&mut self, work: &Work<'_>, transaction: &mut Transaction, input: RowStream) -> Result<()> {
        self.check_types(input.schema().fields())?;
        if self.table.keyed.is_some() {
            // A keyed table shows a transaction its own writes at once, but a statement must read the state before it.
            // So we collect all rows first.
            for batch in input.collect::<Result<Vec<_>>>()? {
                self.write(work, transaction, &batch)?;
            }
            return Ok(());
        }
        for batch in input {
            work.cancel.check()?;
            self.write(work, transaction, &batch?)?;
        }
        Ok(())
    }
}

/// Takes the next values of a sequence for a column.
pub(super) fn next_values(
    transaction: &mut Transaction,
    sequence: TableId,
    column: &ColumnDef,
    rows: usize,
) -> Result<ArrayRef> {
    let values: ArrayRef = Arc::new(Int64Array::from(transaction.next_values(sequence, rows)?));
    assign(&values, &column.kind, &column.name)
}

/// Returns the default of a column, or NULL if it declares none.
pub(super) fn default_of(work: &Work<'_>, column: &ColumnDef) -> Result<DefaultValue> {
    match &column.default {
        Some(text) => DefaultValue::of(work, text, &column.name, &column.kind),
        None => Ok(DefaultValue::null(&column.name, &column.kind)),
    }
}

/// Returns the positions of the columns `names`. A name must not occur twice.
pub(super) fn targets<'n>(table: &TableDef, names: impl IntoIterator<Item = &'n str>) -> Result<Vec<usize>> {
    let mut targets = Vec::new();
    for name in names {
        let index = relation::column(table, name)?;
        if targets.contains(&index) {
            return Err(Error::new(
                ErrorKind::DuplicateColumn,
                format!("column \"{}\" is named twice", table.columns[index].name),
            ));
        }
        targets.push(index);
    }
    Ok(targets)
}

/// Whether only a sequence may give the column values.
pub(super) fn is_generated(table: &TableDef, column: &ColumnDef) -> bool {
    table.identity(column.id).is_some_and(|identity| identity.always)
}

/// Returns the error for a value that is given to such a column.
pub(super) fn generated(table: &TableDef, column: &ColumnDef) -> Error {
    let what = format!("column \"{}\" of table \"{}\" is GENERATED ALWAYS AS IDENTITY", column.name, table.name);
    Error::new(ErrorKind::GeneratedAlways, what).hint("leave the column out, or write DEFAULT")
}
