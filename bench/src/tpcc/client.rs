//! The interface between the driver and an engine. Parameters are borrowed, and results are read in place by position.
//! So we measure the engine and not the code around it.

use rowmill_base::{Error, ErrorKind, Result};

use super::statement::Sql;
use super::table::Table;

/// A parameter value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Param<'a> {
    /// NULL
    Null,
    /// A whole number.
    Integer(i64),
    /// A decimal number: the value in units of its last digit, and the number of digits after the point.
    Decimal(i64, u8),
    /// A floating-point number.
    Double(f64),
    /// A text. Also a day, for example `2024-02-29`.
    Text(&'a str),
    /// A timestamp in microseconds since 1970.
    Moment(i64),
}

impl From<i64> for Param<'_> {
    fn from(number: i64) -> Self {
        Param::Integer(number)
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(text: &'a str) -> Self {
        Param::Text(text)
    }
}

/// Returns an amount in cents as a parameter.
pub fn money(cents: i64) -> Param<'static> {
    Param::Decimal(cents, 2)
}

/// Returns a tax or a discount in hundredths of a percent as a parameter.
pub fn rate(hundredths: i64) -> Param<'static> {
    Param::Decimal(hundredths, 4)
}

/// One row of a result. Columns count from 0.
pub trait Row {
    /// Whether the value is NULL.
    fn is_null(&self, column: usize) -> Result<bool>;
    /// A whole number.
    fn integer(&self, column: usize) -> Result<i64>;
    /// A decimal number, in units of its last digit.
    fn decimal(&self, column: usize) -> Result<i64>;
    /// A text, read in place.
    fn text(&self, column: usize) -> Result<&str>;
    /// A timestamp in microseconds since 1970.
    fn moment(&self, column: usize) -> Result<i64>;
}

/// What a transaction is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only to read.
    Read,
    /// To read and write.
    Write,
}

/// A connection with every statement prepared.
///
/// After an error of kind [`rowmill_base::ErrorKind::SerializationFailure`] the caller should roll back the transaction
/// and run it again.
pub trait Client {
    /// A row of its results.
    type Row<'a>: Row;

    /// Begins a transaction.
    fn begin(&mut self, access: Access) -> Result<()>;
    /// Commits the transaction.
    fn commit(&mut self) -> Result<()>;
    /// Rolls back the transaction. Does nothing if none is open, for example after a commit that failed.
    fn rollback(&mut self) -> Result<()>;
    /// Changes rows.
    fn execute(&mut self, sql: Sql, params: &[Param<'_>]) -> Result<()>;
    /// Hands each row of the result to `each`.
    fn query(&mut self, sql: Sql, params: &[Param<'_>], each: impl FnMut(&Self::Row<'_>) -> Result<()>) -> Result<()>;

    /// Returns the value that `read` takes from the first row, or `None` without a row.
    fn find<T>(
        &mut self,
        sql: Sql,
        params: &[Param<'_>],
        mut read: impl FnMut(&Self::Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut found = None;
        self.query(sql, params, |row| {
            found = Some(read(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the value that `read` takes from the first row. The row must exist.
    fn get<T>(&mut self, sql: Sql, params: &[Param<'_>], read: impl FnMut(&Self::Row<'_>) -> Result<T>) -> Result<T> {
        self.find(sql, params, read)?.ok_or_else(|| Error::internal(format!("no row for {params:?}: {}", sql.text())))
    }
}

/// A connection of an analyst.
pub trait Reader {
    /// Begins a transaction that only reads.
    fn begin(&mut self) -> Result<()>;
    /// Ends the transaction. Does nothing if none is open.
    fn end(&mut self) -> Result<()>;
    /// Reads the whole answer, and returns its number of rows.
    fn ask(&mut self, sql: &str) -> Result<usize>;
    /// Returns the rows of the answer as texts.
    fn rows(&mut self, sql: &str) -> Result<Vec<String>>;
}

/// A function that takes the rows of a table: a value for each column, in order.
pub type RowFn<'a> = dyn FnMut(&[Param<'_>]) -> Result<()> + 'a;

/// A database with its engine.
pub trait Engine: Sync {
    /// The type of its clients.
    type Client<'a>: Client
    where
        Self: 'a;

    /// The engine's name in the report.
    fn name(&self) -> &'static str;
    /// The options that follow the definition of a table.
    fn table_options(&self, table: &Table) -> &'static str;
    /// Runs a statement without a result.
    fn execute(&self, sql: &str) -> Result<()>;
    /// Runs a statement whose result is one number.
    fn number(&self, sql: &str) -> Result<i64>;
    /// Fills a table with the rows that `rows` passes on, in one transaction.
    fn fill(&self, table: &Table, rows: impl FnOnce(&mut RowFn<'_>) -> Result<()>) -> Result<()>;
    /// Writes everything to its final place, for example by a checkpoint. The caller must call it when everything is
    /// loaded.
    fn settle(&self) -> Result<()>;
    /// Connects an analyst. Only an engine that understands the SQL of the questions supports it.
    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Err(Error::new(ErrorKind::Unsupported, format!("{} has no analysts", self.name()))
            .hint("their questions are in Rowmill's SQL: --engine rowmill, or --analysts 0"))
    }
    /// Makes a connection, prepares the statements, and passes the client to `work`.
    fn with_client<T>(&self, work: impl FnOnce(&mut Self::Client<'_>) -> Result<T>) -> Result<T>;
}
