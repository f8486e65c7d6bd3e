//! Appends rows without SQL.

use arrow::array::{ArrayRef, RecordBatch};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_sql::{AppendPlan, Conversion, RowBuilder, RowRefusal, RowWriter, TransactionState, converted};

use crate::{Connection, Param, Params};

/// The savepoint of an appender in an open transaction. SQL cannot give a savepoint this name.
const SAVEPOINT: &str = "appender ";

/// Appends rows to one table. This is the fastest way into the database.
///
/// In an open transaction the rows belong to it. Otherwise the appender has a transaction of its own, and
/// [`Appender::finish`] commits it. Dropping the appender discards the rows, so callers should end with `finish`.
/// Columns that get no value have their defaults or the next number of their identity, and the constraints of the table
/// hold. An error names the row, counted from 0.
///
/// ```
/// # use rowmill::{Database, Result, params};
/// # fn main() -> Result<()> {
/// let mut connection = Database::memory()?.connect()?;
/// connection.execute("CREATE TABLE readings (sensor TEXT, celsius DOUBLE)", ())?;
/// let mut appender = connection.appender("readings")?;
/// for step in 0..5000 {
///     appender.append_row(("attic", 20.0 + f64::from(step % 10)))?;
/// }
/// assert_eq!(appender.finish()?, 5000);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Appender<'c> {
    connection: &'c mut Connection,
    plan: AppendPlan,
    pending: RowBuilder,
    /// The rows that are in the transaction.
    rows: u64,
    /// Whether the transaction is the appender's own.
    owns_transaction: bool,
    is_finished: bool,
    /// Whether inserting a batch failed, so that the appender can only be dropped.
    has_failed: bool,
}

impl<'c> Appender<'c> {
    pub(crate) fn new(connection: &'c mut Connection, table: &str, columns: &[&str]) -> Result<Self> {
        let owns_transaction = connection.transaction_state() == TransactionState::Idle;
        let session = connection.session();
        if owns_transaction {
            session.begin(false)?;
        }
        let (schema, table) = table.split_once('.').map_or((None, table), |(schema, table)| (Some(schema), table));
        let planned = session.plan_append(schema, table, columns).and_then(|plan| {
            if !owns_transaction {
                session.set_savepoint(SAVEPOINT)?;
            }
            Ok(plan)
        });
        match planned {
            Ok(plan) => {
                let pending = plan.builder(Conversion::Exact);
                Ok(Appender {
                    connection,
                    plan,
                    pending,
                    rows: 0,
                    owns_transaction,
                    is_finished: false,
                    has_failed: false,
                })
            }
            Err(error) => {
                if owns_transaction {
                    session.rollback()?;
                }
                Err(error)
            }
        }
    }

    /// Appends one row: a tuple, an array, or [`params!`](crate::params). It must have a value for each column, in
    /// order. A value that does not fit its column is an error, and the row is not appended.
    #[inline]
    pub fn append_row(&mut self, values: impl Params) -> Result<()> {
        self.write_row(|row| values.write_row(row))
    }

    /// Appends one row of values whose types are only known when the program runs.
    #[inline]
    pub fn row(&mut self, values: &[crate::Value]) -> Result<()> {
        self.append_row(values)
    }

    /// Appends one row of borrowed values. This is the fastest way to append rows one by one.
    ///
    /// ```
    /// # use rowmill::{Database, Param, Result};
    /// # fn main() -> Result<()> {
    /// # let mut connection = Database::memory()?.connect()?;
    /// # connection.execute("CREATE TABLE readings (sensor TEXT, celsius DOUBLE)", ())?;
    /// let mut appender = connection.appender("readings")?;
    /// appender.push(&[Param::Text("attic"), Param::Double(21.5)])?;
    /// appender.finish()?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn push(&mut self, values: &[Param<'_>]) -> Result<()> {
        self.write_row(|row| values.iter().try_for_each(|value| row.push(*value)))
    }

    #[inline]
    fn write_row(&mut self, write: impl FnOnce(&mut RowWriter<'_>) -> Result<()>) -> Result<()> {
        if self.pending.is_full() {
            self.flush()?;
        }
        self.pending.push_row(write).map_err(|refusal| self.refused(refusal))
    }

    #[cold]
    fn refused(&self, refusal: RowRefusal) -> Error {
        let row = self.rows + self.pending.rows() as u64;
        let error = match refusal {
            RowRefusal::Value(error) => error,
            RowRefusal::Width { found } => wrong_width(&self.plan, found, "values"),
        };
        error.context(format_args!("row {row} of table \"{}\"", self.plan.table().name))
    }

    /// Appends several rows.
    pub fn append_rows<P: Params>(&mut self, rows: impl IntoIterator<Item = P>) -> Result<()> {
        rows.into_iter().try_for_each(|row| self.append_row(row))
    }

    /// Appends the rows of a batch, whose columns must be the columns of the appender, in order. Values of other types
    /// are converted; a value that does not fit is an error.
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        // Earlier single rows must come first, so that rows keep the order in which they were appended.
        self.flush()?;
        let columns = converted_columns(&self.plan, batch)?;
        self.insert(&columns, batch.num_rows())
    }

    /// Moves the rows that wait in the appender into the transaction. An appender does this by itself, too.
    pub fn flush(&mut self) -> Result<()> {
        let (columns, rows) = self.pending.take()?;
        if rows > 0 { self.insert(&columns, rows) } else { Ok(()) }
    }

    /// Ends the appender, and commits its transaction if it is its own. Returns the number of appended rows.
    pub fn finish(mut self) -> Result<u64> {
        self.flush()?;
        if self.has_failed {
            let what = "rows that were appended before could not be inserted";
            return Err(Error::new(ErrorKind::FailedTransaction, what).hint("the error of that call says why"));
        }
        self.is_finished = true;
        let session = self.connection.session();
        match self.owns_transaction {
            // The commit is the only point at which the rows become visible: after an error here, none of them are.
            true => session.commit()?,
            false => session.release(SAVEPOINT)?,
        }
        Ok(self.rows)
    }

    fn insert(&mut self, columns: &[ArrayRef], rows: usize) -> Result<()> {
        let inserted = self.connection.session().append_rows(&self.plan, columns, rows, self.rows);
        self.has_failed |= inserted.is_err();
        inserted?;
        self.rows += rows as u64;
        Ok(())
    }
}

impl Drop for Appender<'_> {
    fn drop(&mut self) {
        if self.is_finished || self.connection.transaction_state() == TransactionState::Idle {
            return;
        }
        let session = self.connection.session();
        let _ = match self.owns_transaction {
            true => session.rollback(),
            false => session.rollback_to(SAVEPOINT).and_then(|()| session.release(SAVEPOINT)),
        };
    }
}

#[cold]
fn wrong_width(plan: &AppendPlan, found: usize, what: &str) -> Error {
    let names: Vec<&str> = plan.columns().map(|column| column.name.as_str()).collect();
    let wanted = names.len();
    let message = format!("table {} takes {wanted} columns here, but {found} {what} were given", plan.table().name);
    let error = Error::new(ErrorKind::CardinalityViolation, message);
    if names.len() <= 20 { error.hint(format!("the columns are {}", names.join(", "))) } else { error }
}

/// Converts the columns of a batch to the types of the columns that the plan fills.
pub(crate) fn converted_columns(plan: &AppendPlan, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    if batch.num_columns() != plan.columns().len() {
        return Err(wrong_width(plan, batch.num_columns(), "columns"));
    }
    let columns = batch.columns().iter().zip(plan.columns());
    columns.map(|(values, column)| converted(values, &column.kind, &column.name, Conversion::Exact)).collect()
}
