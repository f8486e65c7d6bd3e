//! Makes rows of a table: orders the columns as in the table, fills in defaults, assigns values, computes generated
//! columns and checks conditions.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result, TableId};
use rowmill_plan::write::{ColumnValue, NewRow};
use rowmill_storage::{ColumnDef, TableDef};
use rowmill_txn::Transaction;

use super::check_clause::RowChecks;
use super::default_value::DefaultValue;
use super::row_expr::RowExpr;
use crate::assign::{assign, check_pair};
use crate::session::Work;

/// The source of the values of one column of the table, ready to be evaluated.
#[derive(Debug)]
pub(super) enum ColumnSource {
    /// The column at this position of the input.
    Input(usize),
    /// The row that the new one replaces, which the input does not have.
    Kept,
    /// The default.
    Default(DefaultValue),
    /// The next values of a sequence.
    Sequence(TableId),
    /// An expression over the other columns of the row.
    Generated(Box<RowExpr>),
}

/// Makes rows of a table from the rows of a source.
pub(super) struct RowSink {
    table: Arc<TableDef>,
    schema: SchemaRef,
    sources: Vec<ColumnSource>,
    checks: Arc<RowChecks>,
}

impl RowSink {
    /// Prepares the values of `row`, which has one for each column of `table`.
    pub(super) fn new(
        work: &Work<'_>,
        table: &Arc<TableDef>,
        row: &NewRow,
        checks: &Arc<RowChecks>,
    ) -> Result<RowSink> {
        assert_eq!(table.columns.len(), row.columns.len(), "every column has a value");
        let sources = table.columns.iter().zip(&row.columns).map(|(column, value)| {
            Ok(match value {
                ColumnValue::Source(index) => ColumnSource::Input(*index),
                ColumnValue::Kept => ColumnSource::Kept,
                ColumnValue::Default(expr) => ColumnSource::Default(DefaultValue::new(work, expr, column)?),
                ColumnValue::Sequence(sequence) => ColumnSource::Sequence(*sequence),
                ColumnValue::Generated(expr) => ColumnSource::Generated(Box::new(RowExpr::new(work, expr.clone())?)),
            })
        });
        let sources = sources.collect::<Result<_>>()?;
        Ok(RowSink { schema: schema_of_rows(table), table: Arc::clone(table), sources, checks: Arc::clone(checks) })
    }

    /// The sources of the columns in the table's order.
    pub(super) fn sources(&self) -> &[ColumnSource] {
        &self.sources
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

    /// The positions of the columns that get values, if others are kept.
    pub(super) fn replaced_columns(&self) -> Option<Vec<usize>> {
        let is_kept = |place: &usize| matches!(self.sources[*place], ColumnSource::Kept);
        let (kept, replaced): (Vec<usize>, Vec<usize>) = (0..self.sources.len()).partition(is_kept);
        (!kept.is_empty()).then_some(replaced)
    }

    /// Assigns `rows` rows with the columns `input`. Returns the values of the columns that are not kept.
    pub(super) fn replaced(
        &self,
        transaction: &mut Transaction,
        input: &[ArrayRef],
        rows: usize,
    ) -> Result<Vec<ArrayRef>> {
        let columns = self.table.columns.iter().zip(&self.sources);
        let columns = columns.filter(|(_, source)| !matches!(source, ColumnSource::Kept));
        columns.map(|(column, source)| values_of(source, column, transaction, input, rows)).collect()
    }

    /// Assigns `rows` rows with the columns `input` and checks the conditions of the table. Returns the rows of the
    /// table.
    pub(super) fn assigned(
        &self,
        transaction: &mut Transaction,
        input: &[ArrayRef],
        rows: usize,
    ) -> Result<RecordBatch> {
        let columns = self.table.columns.iter().zip(&self.sources);
        let columns = columns.map(|(column, source)| values_of(source, column, transaction, input, rows));
        let mut columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        for (place, source) in self.sources.iter().enumerate() {
            if let ColumnSource::Generated(expr) = source {
                let column = &self.table.columns[place];
                columns[place] = assign(&expr.values(&columns, rows)?, &column.kind, &column.name)?;
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::internal(format!("assignment gives the columns of the table: {error}")))?;
        // Conditions read the values as they will be stored, so they come after the assignment.
        self.checks.verify(&self.table, &batch)?;
        Ok(batch)
    }
}

/// Returns the assigned values of a column. Those of a generated column are NULL.
fn values_of(
    source: &ColumnSource,
    column: &ColumnDef,
    transaction: &mut Transaction,
    input: &[ArrayRef],
    rows: usize,
) -> Result<ArrayRef> {
    match source {
        ColumnSource::Input(index) => assign(&input[*index], &column.kind, &column.name),
        ColumnSource::Default(default) => default.rows(rows),
        ColumnSource::Sequence(sequence) => next_values(transaction, *sequence, column, rows),
        // Generated columns read the values that the others will store, so they come after the assignment.
        ColumnSource::Generated(_) => Ok(new_null_array(&column.kind.arrow(), rows)),
        ColumnSource::Kept => Err(Error::internal(format!("column \"{}\" is kept, not assigned", column.name))),
    }
}

/// Returns the schema of rows that are about to enter a table.
pub(super) fn schema_of_rows(table: &TableDef) -> SchemaRef {
    // All columns are nullable here. The transaction checks NOT NULL, and its error names the column.
    let fields = table.columns.iter().map(|column| Field::new(&column.name, column.kind.arrow(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
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

/// Whether only a sequence may give the column values.
pub(super) fn is_generated(table: &TableDef, column: &ColumnDef) -> bool {
    table.identity(column.id).is_some_and(|identity| identity.always)
}

/// Returns the error for a value that is given to such a column, or to a generated one.
pub(super) fn generated(table: &TableDef, column: &ColumnDef) -> Error {
    let source = match table.generated(column.id) {
        Some(sql) => format!("({sql})"),
        None => "IDENTITY".to_owned(),
    };
    let what = format!("column \"{}\" of table \"{}\" is GENERATED ALWAYS AS {source}", column.name, table.name);
    Error::new(ErrorKind::GeneratedAlways, what).hint("leave the column out, or write DEFAULT")
}
