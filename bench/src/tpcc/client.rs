//! What the driver asks of an engine. Parameters are borrowed and results are read in place by position, so that what is
//! measured is the engine and not what lies between.

use rowmill_base::{Error, ErrorKind, Result};

use super::statement::Sql;
use super::table::Table;

/// A value on its way to the engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Param<'a> {
    /// NULL
    Null,
    /// A whole number.
    Integer(i64),
    /// A decimal number: in units of its last digit, and how many digits are behind the point.
    Decimal(i64, u8),
    /// A floating-point number.
    Double(f64),
    /// A text; also a day, `2024-02-29`.
    Text(&'a str),
    /// A moment: microseconds since 1970.
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

/// An amount in cents.
pub fn money(cents: i64) -> Param<'static> {
    Param::Decimal(cents, 2)
}

/// A tax or a discount in hundredths of a percent.
pub fn rate(hundredths: i64) -> Param<'static> {
    Param::Decimal(hundredths, 4)
}

/// One row of a result; columns count from 0.
pub trait Row {
    /// Whether it is NULL.
    fn is_null(&self, column: usize) -> Result<bool>;
    /// A whole number.
    fn integer(&self, column: usize) -> Result<i64>;
    /// A decimal number, in units of its last digit.
    fn decimal(&self, column: usize) -> Result<i64>;
    /// A text, where it lies.
    fn text(&self, column: usize) -> Result<&str>;
    /// A moment: microseconds since 1970.
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
/// An error of kind [`rowmill_base::ErrorKind::SerializationFailure`] means that the transaction is to be rolled back and
/// run again.
pub trait Client {
    /// A row of its results.
    type Row<'a>: Row;

    /// Begins a transaction.
    fn begin(&mut self, access: Access) -> Result<()>;
    /// Commits it.
    fn commit(&mut self) -> Result<()>;
    /// Rolls it back. Without one, as after a commit that failed, it does nothing.
    fn rollback(&mut self) -> Result<()>;
    /// Changes rows.
    fn execute(&mut self, sql: Sql, params: &[Param<'_>]) -> Result<()>;
    /// Hands each row of the result to `each`.
    fn query(&mut self, sql: Sql, params: &[Param<'_>], each: impl FnMut(&Self::Row<'_>) -> Result<()>) -> Result<()>;

    /// What `read` takes from the row, if there is one.
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

    /// What `read` takes from the row that has to be there.
    fn get<T>(&mut self, sql: Sql, params: &[Param<'_>], read: impl FnMut(&Self::Row<'_>) -> Result<T>) -> Result<T> {
        self.find(sql, params, read)?.ok_or_else(|| Error::internal(format!("no row for {params:?}: {}", sql.text())))
    }
}

/// A connection of an analyst.
pub trait Reader {
    /// Begins a transaction that only reads.
    fn begin(&mut self) -> Result<()>;
    /// Ends it. Without one it does nothing.
    fn end(&mut self) -> Result<()>;
    /// Reads the answer to its end and tells how many rows it has.
    fn ask(&mut self, sql: &str) -> Result<usize>;
    /// The rows of the answer as texts.
    fn rows(&mut self, sql: &str) -> Result<Vec<String>>;
}

/// What a row of a table is handed to: a value for each column, in order.
pub type RowFn<'a> = dyn FnMut(&[Param<'_>]) -> Result<()> + 'a;

/// A database.
pub trait Engine: Sync {
    /// Its clients.
    type Client<'a>: Client
    where
        Self: 'a;

    /// As the report names it.
    fn name(&self) -> &'static str;
    /// What follows the definition of a table.
    fn table_options(&self, table: &Table) -> &'static str;
    /// Runs a statement that gives nothing.
    fn execute(&self, sql: &str) -> Result<()>;
    /// Runs a statement that gives one number.
    fn number(&self, sql: &str) -> Result<i64>;
    /// Fills a table with what `rows` hands over, in one transaction.
    fn fill(&self, table: &Table, rows: impl FnOnce(&mut RowFn<'_>) -> Result<()>) -> Result<()>;
    /// To be called when everything is loaded: what there is goes where it stays.
    fn settle(&self) -> Result<()>;
    /// Connects an analyst. Only an engine that knows the words of the questions has one.
    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Err(Error::new(ErrorKind::Unsupported, format!("{} has no analysts", self.name()))
            .hint("their questions are in Rowmill's SQL: --engine rowmill, or --analysts 0"))
    }
    /// Connects, prepares, and hands the client to `work`.
    fn with_client<T>(&self, work: impl FnOnce(&mut Self::Client<'_>) -> Result<T>) -> Result<T>;
}
