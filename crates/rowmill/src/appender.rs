//! Appends rows without SQL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, SqlType, TableId, nearest};
use rowmill_sql::files::convert::{NotConverted, convert};
use rowmill_txn::{Engine, MAIN_SCHEMA, TableDef, Transaction};

use crate::{Param, Value};

/// We collect this number of rows before we insert them as one batch.
const ROWS_PER_BATCH: usize = 1024;

/// Appends rows to one table, in one transaction. [`Appender::finish`] makes all of them visible at once; dropping the
/// appender discards them.
///
/// ```
/// # use rowmill::{Database, Result};
/// # fn main() -> Result<()> {
/// let mut connection = Database::memory()?.connect()?;
/// connection.execute("CREATE TABLE readings (sensor TEXT, celsius DOUBLE)")?;
/// let mut appender = connection.appender("readings")?;
/// for step in 0..5000 {
///     appender.row(&["attic".into(), (20.0 + f64::from(step % 10)).into()])?;
/// }
/// assert_eq!(appender.finish()?, 5000);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Appender {
    transaction: Transaction,
    table: Arc<TableDef>,
    /// Rows that are not part of a batch yet.
    pending: Vec<Vec<Value>>,
    rows: u64,
}

impl Appender {
    pub(crate) fn new(engine: &Arc<Engine>, name: &str) -> Result<Self> {
        let mut transaction = engine.begin()?;
        let view = transaction.view()?;
        let (schema, table) = name.split_once('.').unwrap_or((MAIN_SCHEMA, name));
        let catalog = view.catalog();
        let schema = catalog
            .schema(schema)
            .ok_or_else(|| Error::new(ErrorKind::UndefinedSchema, format!("there is no schema \"{schema}\"")))?;
        let table = catalog.table(schema.id, table).cloned().ok_or_else(|| {
            let error = Error::new(ErrorKind::UndefinedTable, format!("there is no table \"{name}\""));
            let near = nearest(table, catalog.tables(schema.id).map(|table| table.name.as_str()));
            if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) }
        })?;
        if catalog.materialized(table.id).is_some() {
            let message = format!("\"{name}\" is a materialized view, not a table");
            return Err(Error::new(ErrorKind::WrongObject, message)
                .hint("append to the tables that its query reads, then REFRESH MATERIALIZED VIEW"));
        }
        // Only SQL statements evaluate CHECK conditions. An appender must not bypass them, so it refuses such a table.
        if table.keyed.as_ref().is_some_and(|keyed| !keyed.checks.is_empty()) {
            let message = format!("an appender does not check the conditions (CHECK) of table \"{}\"", table.name);
            return Err(Error::new(ErrorKind::Unsupported, message).hint("INSERT and COPY check them"));
        }
        Ok(Appender { transaction, table, pending: Vec::new(), rows: 0 })
    }

    fn table_id(&self) -> TableId {
        self.table.id
    }

    /// Appends one row. It must have a value for each column, in order.
    pub fn row(&mut self, values: &[Value]) -> Result<()> {
        self.check_columns(values.len())?;
        self.pending.push(values.to_vec());
        if self.pending.len() == ROWS_PER_BATCH { self.flush() } else { Ok(()) }
    }

    /// Appends the rows of a batch, whose columns must be the columns of the table, in order. Values of other types are
    /// converted; a value that does not fit is an error.
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_columns(batch.num_columns())?;
        // Earlier single rows must come first, so that rows keep the order in which they were appended.
        self.flush()?;
        let columns = batch.columns().iter().enumerate().map(|(index, values)| self.convert(index, values));
        self.insert(columns.collect::<Result<_>>()?)
    }

    /// Commits, and returns the number of appended rows.
    pub fn finish(mut self) -> Result<u64> {
        // The commit is the only point at which the rows become visible: after an error here, none of them are.
        self.flush()?;
        self.transaction.commit()?;
        Ok(self.rows)
    }

    fn check_columns(&self, found: usize) -> Result<()> {
        let wanted = self.table.columns.len();
        if found == wanted {
            return Ok(());
        }
        let message = format!("table {} has {wanted} columns, but {found} values were given", self.table.name);
        Err(Error::new(ErrorKind::CardinalityViolation, message))
    }

    fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.pending);
        let columns = (0..self.table.columns.len()).map(|index| {
            let values: Vec<ArrayRef> = rows.iter().map(|row| self.value(index, &row[index])).collect::<Result<_>>()?;
            let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
            concat(&values).map_err(|error| Error::internal(error.to_string()))
        });
        self.insert(columns.collect::<Result<_>>()?)
    }

    fn value(&self, index: usize, value: &Value) -> Result<ArrayRef> {
        if *value == Value::Null {
            return Ok(new_null_array(&self.table.columns[index].kind.arrow(), 1));
        }
        let array = Arc::clone(Param::from(value).to_constant().array());
        self.convert(index, &array)
    }

    fn convert(&self, index: usize, values: &ArrayRef) -> Result<ArrayRef> {
        let column = &self.table.columns[index];
        let wanted: DataType = column.kind.arrow();
        if *values.data_type() == wanted {
            return Ok(Arc::clone(values));
        }
        let refuse = |why: String| {
            let message = format!("column {} of table {} takes {}: {why}", column.name, self.table.name, column.kind);
            Error::new(ErrorKind::DatatypeMismatch, message)
        };
        // Arrow does not know the texts of these types.
        if matches!(column.kind, SqlType::Uuid | SqlType::Numbered(_)) {
            return convert(values, &column.kind).map_err(|error| match error {
                NotConverted::Value(misfit) => refuse(format!("'{}' is not such a value", misfit.text)),
                NotConverted::Types => refuse(format!("it has no values of the type {}", values.data_type())),
            });
        }
        // With `safe`, a value that does not fit would silently become NULL.
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(values, &wanted, &strict).map_err(|error| refuse(error.to_string()))
    }

    fn insert(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let batch = RecordBatch::try_new(self.table.arrow_schema(), columns);
        // The columns have the right types here, so only a NULL in a NOT NULL column can fail.
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                return Err(Error::new(ErrorKind::NotNullViolation, format!("table {}: {error}", self.table.name)));
            }
        };
        self.transaction.insert(self.table_id(), &batch)?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }
}
