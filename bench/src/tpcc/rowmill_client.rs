//! Implements the driver's traits for Rowmill. All code between the driver and Rowmill is here.

use std::path::Path;

use rowmill::{Answer, BaseKind, Connection, Database, Options, Statement, TransactionState};
use rowmill_base::{Error, ErrorKind, Result};

use super::batch_builder::BatchBuilder;
use super::client::{Access, Client, Engine, Param, Reader, Row, RowFn};
use super::statement::Sql;
use super::table::Table;

/// The rows that we append as one batch.
const ROWS_PER_BATCH: usize = 8_192;

/// The most parameters of a statement.
const PARAMS_MAX: usize = 24;

/// A Rowmill database.
#[derive(Debug)]
pub struct Rowmill {
    database: Database,
    durability: &'static str,
}

impl Rowmill {
    /// Opens the database in a directory, and makes it if it is absent. `base` chooses the store of its rows, if it
    /// should not be the default. An existing database with another base is refused.
    pub fn open(directory: &Path, is_synced: bool, base: Option<BaseKind>) -> Result<Rowmill> {
        if let (Some(asked), Some(found)) = (base, BaseKind::of(directory)?)
            && asked != found
        {
            let what = format!("{} keeps its rows in {found}, but --base asks for {asked}", directory.display());
            return Err(
                Error::new(ErrorKind::InvalidParameter, what).hint("leave --base out, or load into another directory")
            );
        }
        let options = Options::new().base(base.unwrap_or_default());
        let durability = if is_synced { "full" } else { "relaxed" };
        let rowmill = Rowmill { database: Database::open_with(directory, options)?, durability };
        rowmill.set_durability(durability)?;
        Ok(rowmill)
    }

    /// The opened database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    fn set_durability(&self, durability: &str) -> Result<()> {
        self.execute(&format!("SET durability = '{durability}'"))
    }
}

impl Engine for Rowmill {
    type Client<'a> = RowmillClient;

    fn name(&self) -> &'static str {
        "rowmill"
    }

    fn table_options(&self, _: &Table) -> &'static str {
        ""
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.database.connect()?.execute_batch(sql).map(drop)
    }

    fn number(&self, sql: &str) -> Result<i64> {
        let mut connection = self.database.connect()?;
        let statement = connection.prepare(sql)?;
        statement.ask(&mut connection, &[])?.integer(0, 0)
    }

    /// Fills a table without a log, because that is faster. If the process dies during the load, the load must be
    /// repeated.
    fn fill(&self, table: &Table, rows: impl FnOnce(&mut RowFn<'_>) -> Result<()>) -> Result<()> {
        self.set_durability("off")?;
        let mut connection = self.database.connect()?;
        let mut appender = connection.appender(table.name)?;
        let mut batch = BatchBuilder::new(table);
        rows(&mut |values| {
            batch.push(values)?;
            if batch.len() < ROWS_PER_BATCH { Ok(()) } else { appender.batch(&batch.finish()?) }
        })?;
        appender.batch(&batch.finish()?)?;
        appender.finish().map(drop)
    }

    fn settle(&self) -> Result<()> {
        // The load ran without a log, so only this checkpoint makes its rows durable. After it we set the durability of
        // the run.
        self.execute("CHECKPOINT")?;
        self.set_durability(self.durability)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        let mut connection = self.database.connect()?;
        connection.execute_batch("SET threads = 1")?;
        Ok(Box::new(RowmillReader { connection }))
    }

    fn with_client<T>(&self, work: impl FnOnce(&mut RowmillClient) -> Result<T>) -> Result<T> {
        let mut connection = self.database.connect()?;
        let mut client = RowmillClient {
            statements: Sql::ALL.iter().map(|sql| connection.prepare(sql.text())).collect::<Result<_>>()?,
            connection,
        };
        work(&mut client)
    }
}

/// A connection with its prepared statements.
pub struct RowmillClient {
    connection: Connection,
    /// The statements, in the order of their numbers.
    statements: Vec<Statement>,
}

impl RowmillClient {
    fn ask(&mut self, sql: Sql, params: &[Param<'_>]) -> Result<Answer<'_>> {
        let mut values = [rowmill::Param::Null; PARAMS_MAX];
        let values = &mut values[..params.len()];
        values.iter_mut().zip(params).for_each(|(value, param)| *value = borrowed(param));
        self.statements[sql as usize].ask(&mut self.connection, values)
    }
}

/// A connection of an analyst. It uses one thread, so that it keeps at most one core busy.
struct RowmillReader {
    connection: Connection,
}

impl Reader for RowmillReader {
    fn begin(&mut self) -> Result<()> {
        self.connection.begin(true)
    }

    fn end(&mut self) -> Result<()> {
        roll_back(&mut self.connection)
    }

    fn ask(&mut self, sql: &str) -> Result<usize> {
        self.connection.query(sql)?.try_fold(0, |rows, batch| Ok(rows + batch?.num_rows()))
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<String>> {
        let text = |row: &rowmill::Row| {
            let values = (0..row.len()).map(|column| row.get::<Option<String>>(column));
            let texts = values.map(|value| value.map(|text| text.unwrap_or_else(|| "NULL".to_owned())));
            Ok(texts.collect::<Result<Vec<_>>>()?.join("|"))
        };
        self.connection.query(sql)?.rows()?.iter().map(text).collect()
    }
}

fn roll_back(connection: &mut Connection) -> Result<()> {
    match connection.transaction_state() {
        TransactionState::Idle => Ok(()),
        _ => connection.rollback(),
    }
}

impl Client for RowmillClient {
    type Row<'a> = AnswerRow<'a>;

    fn begin(&mut self, access: Access) -> Result<()> {
        self.connection.begin(access == Access::Read)
    }

    fn commit(&mut self) -> Result<()> {
        self.connection.commit()
    }

    fn rollback(&mut self) -> Result<()> {
        roll_back(&mut self.connection)
    }

    fn execute(&mut self, sql: Sql, params: &[Param<'_>]) -> Result<()> {
        self.ask(sql, params).map(drop)
    }

    fn query(
        &mut self,
        sql: Sql,
        params: &[Param<'_>],
        mut each: impl FnMut(&AnswerRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let answer = self.ask(sql, params)?;
        (0..answer.len()).try_for_each(|row| each(&AnswerRow { answer, row }))
    }
}

/// Converts a parameter to Rowmill's type.
pub(crate) fn borrowed<'a>(param: &Param<'a>) -> rowmill::Param<'a> {
    match *param {
        Param::Null => rowmill::Param::Null,
        Param::Integer(number) => rowmill::Param::Integer(number),
        Param::Decimal(unscaled, scale) => rowmill::Param::Decimal(unscaled.into(), scale),
        Param::Double(value) => rowmill::Param::Double(value),
        Param::Text(text) => rowmill::Param::Text(text),
        Param::Moment(micros) => rowmill::Param::Timestamp(micros),
    }
}

/// A row of an answer.
pub struct AnswerRow<'a> {
    answer: Answer<'a>,
    row: usize,
}

impl Row for AnswerRow<'_> {
    fn is_null(&self, column: usize) -> Result<bool> {
        self.answer.is_null(self.row, column)
    }

    fn integer(&self, column: usize) -> Result<i64> {
        self.answer.integer(self.row, column)
    }

    fn decimal(&self, column: usize) -> Result<i64> {
        let unscaled = self.answer.decimal(self.row, column)?;
        i64::try_from(unscaled)
            .map_err(|_| Error::new(ErrorKind::NumericOutOfRange, format!("{unscaled} as an amount")))
    }

    fn text(&self, column: usize) -> Result<&str> {
        self.answer.text(self.row, column)
    }

    fn moment(&self, column: usize) -> Result<i64> {
        self.answer.integer(self.row, column)
    }
}
