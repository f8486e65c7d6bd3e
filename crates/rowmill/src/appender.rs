//! Appends rows without SQL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::concat;
use rowmill_base::{Error, Result};
use rowmill_txn::{Engine, MAIN_SCHEMA, Transaction};

use crate::append_target::AppendTarget;
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
    target: AppendTarget,
    /// Rows that are not part of a batch yet.
    pending: Vec<Vec<Value>>,
    rows: u64,
}

impl Appender {
    pub(crate) fn new(engine: &Arc<Engine>, name: &str) -> Result<Self> {
        let transaction = engine.begin()?;
        let (schema, table) = name.split_once('.').unwrap_or((MAIN_SCHEMA, name));
        let target = AppendTarget::find(transaction.catalog(), schema, table)?;
        Ok(Appender { transaction, target, pending: Vec::new(), rows: 0 })
    }

    /// Appends one row. It must have a value for each column, in order.
    pub fn row(&mut self, values: &[Value]) -> Result<()> {
        self.target.check_columns(values.len())?;
        self.pending.push(values.to_vec());
        if self.pending.len() == ROWS_PER_BATCH { self.flush() } else { Ok(()) }
    }

    /// Appends the rows of a batch, whose columns must be the columns of the table, in order. Values of other types are
    /// converted; a value that does not fit is an error.
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        // Earlier single rows must come first, so that rows keep the order in which they were appended.
        self.flush()?;
        let columns = self.target.convert_all(batch)?;
        self.insert(columns)
    }

    /// Commits, and returns the number of appended rows.
    pub fn finish(mut self) -> Result<u64> {
        // The commit is the only point at which the rows become visible: after an error here, none of them are.
        self.flush()?;
        self.transaction.commit()?;
        Ok(self.rows)
    }

    fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.pending);
        let columns = (0..self.target.table().columns.len()).map(|index| {
            let values: Vec<ArrayRef> = rows.iter().map(|row| self.value(index, &row[index])).collect::<Result<_>>()?;
            let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
            concat(&values).map_err(|error| Error::internal(error.to_string()))
        });
        self.insert(columns.collect::<Result<_>>()?)
    }

    fn value(&self, index: usize, value: &Value) -> Result<ArrayRef> {
        if *value == Value::Null {
            return Ok(new_null_array(&self.target.table().columns[index].kind.arrow(), 1));
        }
        let array = Arc::clone(Param::from(value).to_constant().array());
        self.target.convert(index, &array)
    }

    fn insert(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        self.rows += self.target.insert(&mut self.transaction, columns)?;
        Ok(())
    }
}
