//! Rowmill behind the driver's trait. All that is between the two is here.

use std::path::Path;

use rowmill::arrow::array::{Array as _, AsArray as _, RecordBatch};
use rowmill::arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType};
use rowmill::arrow::temporal_conversions::timestamp_us_to_datetime;
use rowmill::{Connection, Database, Options, Statement, TransactionState, Value};
use rowmill_base::{Error, ErrorKind, Result};

use super::batch_builder::BatchBuilder;
use super::client::{Access, Client, Engine, Param, Row, RowFn};
use super::statement::Sql;
use super::table::Table;

/// Rows that are appended as one batch.
const ROWS_PER_BATCH: usize = 8_192;

/// A database of Rowmill.
#[derive(Debug)]
pub struct Rowmill {
    database: Database,
    durability: &'static str,
}

impl Rowmill {
    /// The database in a directory, which is made if absent; `base` is what it keeps its rows in, if not the default.
    pub fn open(directory: &Path, is_synced: bool, base: Option<&str>) -> Result<Rowmill> {
        let options = match base {
            Some(base) => Options::new().set("base", base)?,
            None => Options::new(),
        };
        let durability = if is_synced { "full" } else { "relaxed" };
        let rowmill = Rowmill { database: Database::open_with(directory, options)?, durability };
        rowmill.set_durability(durability)?;
        Ok(rowmill)
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
        self.database.connect()?.execute(sql).map(drop)
    }

    fn number(&self, sql: &str) -> Result<i64> {
        let mut connection = self.database.connect()?;
        for batch in connection.query(sql)? {
            let batch = batch?;
            if batch.num_rows() > 0 {
                return BatchRow { batch: &batch, row: 0 }.integer(0);
            }
        }
        Err(Error::internal(format!("no rows: {sql}")))
    }

    /// Without a log while it lasts: a process that dies has to load again.
    fn fill(&self, table: &Table, rows: impl FnOnce(&mut RowFn<'_>) -> Result<()>) -> Result<()> {
        self.set_durability("off")?;
        let mut appender = self.database.connect()?.appender(table.name)?;
        let mut batch = BatchBuilder::new(table);
        rows(&mut |values| {
            batch.push(values)?;
            if batch.len() < ROWS_PER_BATCH { Ok(()) } else { appender.batch(&batch.finish()?) }
        })?;
        appender.batch(&batch.finish()?)?;
        appender.finish().map(drop)
    }

    fn settle(&self) -> Result<()> {
        self.execute("CHECKPOINT")?;
        self.set_durability(self.durability)
    }

    fn with_client<T>(&self, work: impl FnOnce(&mut RowmillClient) -> Result<T>) -> Result<T> {
        let mut connection = self.database.connect()?;
        let mut prepare = |sql: &str| connection.prepare(sql);
        let mut client = RowmillClient {
            begin: prepare("BEGIN")?,
            begin_to_read: prepare("BEGIN READ ONLY")?,
            commit: prepare("COMMIT")?,
            rollback: prepare("ROLLBACK")?,
            statements: Sql::ALL.iter().map(|sql| prepare(sql.text())).collect::<Result<_>>()?,
            params: Vec::new(),
            connection,
        };
        work(&mut client)
    }
}

/// A connection with its statements.
pub struct RowmillClient {
    connection: Connection,
    begin: Statement,
    begin_to_read: Statement,
    commit: Statement,
    rollback: Statement,
    /// In the order of their numbers.
    statements: Vec<Statement>,
    /// Of the statement that runs.
    params: Vec<Value>,
}

impl RowmillClient {
    fn take_params(&mut self, params: &[Param<'_>]) -> Result<()> {
        self.params.clear();
        params.iter().try_for_each(|param| {
            self.params.push(value(param)?);
            Ok(())
        })
    }
}

impl Client for RowmillClient {
    type Row<'a> = BatchRow<'a>;

    fn begin(&mut self, access: Access) -> Result<()> {
        let begin = match access {
            Access::Read => &self.begin_to_read,
            Access::Write => &self.begin,
        };
        begin.execute(&mut self.connection, &[]).map(drop)
    }

    fn commit(&mut self) -> Result<()> {
        self.commit.execute(&mut self.connection, &[]).map(drop)
    }

    fn rollback(&mut self) -> Result<()> {
        match self.connection.transaction_state() {
            TransactionState::Idle => Ok(()),
            _ => self.rollback.execute(&mut self.connection, &[]).map(drop),
        }
    }

    fn execute(&mut self, sql: Sql, params: &[Param<'_>]) -> Result<()> {
        self.take_params(params)?;
        self.statements[sql as usize].execute(&mut self.connection, &self.params).map(drop)
    }

    fn query(
        &mut self,
        sql: Sql,
        params: &[Param<'_>],
        mut each: impl FnMut(&BatchRow<'_>) -> Result<()>,
    ) -> Result<()> {
        self.take_params(params)?;
        for batch in self.statements[sql as usize].query(&mut self.connection, &self.params)? {
            let batch = batch?;
            (0..batch.num_rows()).try_for_each(|row| each(&BatchRow { batch: &batch, row }))?;
        }
        Ok(())
    }
}

/// Decimals and timestamps are given as texts.
fn value(param: &Param<'_>) -> Result<Value> {
    Ok(match param {
        Param::Null => Value::Null,
        Param::Integer(number) => Value::Integer(*number),
        Param::Decimal(unscaled, scale) => Value::Text(decimal_text(*unscaled, *scale)),
        Param::Text(text) => Value::Text((*text).to_owned()),
        Param::Moment(micros) => {
            let moment = timestamp_us_to_datetime(*micros)
                .ok_or_else(|| Error::new(ErrorKind::InvalidDatetime, format!("{micros} is no timestamp")))?;
            Value::Text(moment.to_string())
        }
    })
}

fn decimal_text(unscaled: i64, scale: u8) -> String {
    let (sign, unit) = (if unscaled < 0 { "-" } else { "" }, 10_u64.pow(u32::from(scale)));
    let (whole, rest) = (unscaled.unsigned_abs() / unit, unscaled.unsigned_abs() % unit);
    format!("{sign}{whole}.{rest:0width$}", width = usize::from(scale))
}

/// A row of a batch.
pub struct BatchRow<'a> {
    batch: &'a RecordBatch,
    row: usize,
}

impl BatchRow<'_> {
    fn mismatch(&self, column: usize, wanted: &str) -> Error {
        let field = self.batch.schema_ref().field(column);
        let message = format!("column {} is of type {} and read as {wanted}", field.name(), field.data_type());
        Error::new(ErrorKind::DatatypeMismatch, message)
    }
}

impl Row for BatchRow<'_> {
    fn is_null(&self, column: usize) -> Result<bool> {
        Ok(self.batch.column(column).is_null(self.row))
    }

    fn integer(&self, column: usize) -> Result<i64> {
        let values = self.batch.column(column);
        match values.data_type() {
            DataType::Int32 => Ok(i64::from(values.as_primitive::<Int32Type>().value(self.row))),
            DataType::Int64 => Ok(values.as_primitive::<Int64Type>().value(self.row)),
            _ => Err(self.mismatch(column, "a number")),
        }
    }

    fn decimal(&self, column: usize) -> Result<i64> {
        let values = self.batch.column(column).as_primitive_opt::<Decimal128Type>();
        let unscaled = values.map(|values| values.value(self.row)).and_then(|value| i64::try_from(value).ok());
        unscaled.ok_or_else(|| self.mismatch(column, "a decimal number"))
    }

    fn text(&self, column: usize) -> Result<&str> {
        let values = self.batch.column(column);
        match values.data_type() {
            DataType::Utf8View => Ok(values.as_string_view().value(self.row)),
            DataType::Utf8 => Ok(values.as_string::<i32>().value(self.row)),
            _ => Err(self.mismatch(column, "a text")),
        }
    }

    fn moment(&self, column: usize) -> Result<i64> {
        let values = self.batch.column(column).as_primitive_opt::<TimestampMicrosecondType>();
        values.map(|values| values.value(self.row)).ok_or_else(|| self.mismatch(column, "a timestamp"))
    }
}
