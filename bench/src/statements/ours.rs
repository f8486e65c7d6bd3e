//! Rowmill, used through its library.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rowmill::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, TimestampMicrosecondArray};
use rowmill::arrow::datatypes::{DataType, Decimal128Type, TimeUnit, TimestampMicrosecondType};
use rowmill::text::format_value;
use rowmill::{Answer, Connection, Param, Rows, TransactionState};
use rowmill_base::{Error, ErrorKind, Result};

use super::contender::{Contender, Outcome, RUNS_PER_TRANSACTION, quoted};
use super::draw::Drawn;
use super::statement::{Statement, Way, with_literals};
use crate::tpcc::rowmill_client::{Rowmill, borrowed};

/// A connection to Rowmill.
pub(super) struct Ours {
    connection: Connection,
    /// Whether results are read row by row instead of in place.
    reads_rows: bool,
}

impl Ours {
    pub(super) fn new(rowmill: &Rowmill, reads_rows: bool) -> Result<Ours> {
        Ok(Ours { connection: rowmill.database().connect()?, reads_rows })
    }

    fn time_prepared(&mut self, statement: &Statement, runs: &[Vec<Drawn>]) -> Result<Duration> {
        let prepared = self.connection.prepare(&statement.rowmill_text())?;
        let runs: Vec<Vec<Param<'_>>> = runs.iter().map(|run| params(run)).collect();
        let mut time = Duration::ZERO;
        let (parts, in_transaction) = match statement.way {
            Way::RolledBack => (RUNS_PER_TRANSACTION, true),
            _ => (runs.len().max(1), false),
        };
        for part in runs.chunks(parts) {
            if in_transaction {
                self.begin()?;
            }
            let begun = Instant::now();
            for params in part {
                match self.reads_rows {
                    true => read_rows(prepared.query(&mut self.connection, params)?)?,
                    false => read(&prepared.ask(&mut self.connection, params)?)?,
                }
            }
            time += begun.elapsed();
            if in_transaction {
                self.roll_back()?;
            }
        }
        Ok(time)
    }

    fn time_texts(&mut self, texts: &[String]) -> Result<Duration> {
        let begun = Instant::now();
        for text in texts {
            for batch in self.connection.query(text)? {
                black_box(batch?.num_rows());
            }
        }
        Ok(begun.elapsed())
    }
}

impl Contender for Ours {
    fn time(&mut self, statement: &Statement, runs: &[Vec<Drawn>]) -> Result<Duration> {
        match statement.way {
            Way::Text => {
                let texts: Vec<String> = runs.iter().map(|run| text(statement, run)).collect::<Result<_>>()?;
                self.time_texts(&texts)
            }
            Way::Read | Way::RolledBack | Way::Committed => self.time_prepared(statement, runs),
        }
    }

    fn outcome(&mut self, statement: &Statement, values: &[Drawn]) -> Result<Outcome> {
        if statement.way == Way::Text {
            let rows = self.rows(&text(statement, values)?)?;
            return Ok(Outcome { rows, changed: None });
        }
        let prepared = self.connection.prepare(&statement.rowmill_text())?;
        let answer = prepared.ask(&mut self.connection, &params(values))?;
        Ok(Outcome { rows: texts(&answer.to_batch()?)?, changed: Some(answer.changed()) })
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let mut rows = Vec::new();
        for batch in self.connection.query(sql)? {
            rows.extend(texts(&batch?)?);
        }
        Ok(rows)
    }

    fn begin(&mut self) -> Result<()> {
        self.connection.begin(false)
    }

    fn roll_back(&mut self) -> Result<()> {
        match self.connection.transaction_state() {
            TransactionState::Idle => Ok(()),
            _ => self.connection.rollback(),
        }
    }

    fn explain(&mut self, statement: &Statement, values: &[Drawn]) -> Result<Vec<String>> {
        let rows = self.rows(&format!("EXPLAIN {}", text(statement, values)?))?;
        Ok(rows.into_iter().flatten().flatten().collect())
    }
}

fn params(values: &[Drawn]) -> Vec<Param<'_>> {
    values.iter().map(|value| borrowed(&value.param())).collect()
}

/// Reads every value of an answer.
fn read(answer: &Answer<'_>) -> Result<()> {
    let columns = answer.column_count();
    for row in 0..answer.len() {
        for column in 0..columns {
            black_box(answer.is_null(row, column)?);
        }
    }
    Ok(())
}

/// Reads every value of a result row by row.
fn read_rows(mut rows: Rows) -> Result<()> {
    while let Some(row) = rows.next_row()? {
        for column in 0..row.len() {
            black_box(row.cell(column)?.is_null());
        }
    }
    Ok(())
}

/// Returns the statement with its values as literals.
fn text(statement: &Statement, values: &[Drawn]) -> Result<String> {
    let literals: Vec<String> = values.iter().map(literal).collect::<Result<_>>()?;
    Ok(with_literals(&statement.rowmill_text(), literals.into_iter()))
}

fn literal(value: &Drawn) -> Result<String> {
    Ok(match value {
        Drawn::Integer(number) => number.to_string(),
        Drawn::Cents(cents) => format!("{}.{:02}", cents / 100, cents % 100),
        Drawn::Moment(micros) => {
            let moment = format_value(&TimestampMicrosecondArray::from(vec![*micros]), 0)?.unwrap_or_default();
            format!("TIMESTAMP {}", quoted(&moment))
        }
        Drawn::Text(text) => quoted(text),
    })
}

/// Returns the rows of a batch as texts.
fn texts(batch: &RecordBatch) -> Result<Vec<Vec<Option<String>>>> {
    let row = |row| batch.columns().iter().map(|column| value(column, row)).collect::<Result<_>>();
    (0..batch.num_rows()).map(row).collect()
}

/// Returns a value in the form in which SQLite stores it.
fn value(column: &ArrayRef, row: usize) -> Result<Option<String>> {
    if column.is_null(row) {
        return Ok(None);
    }
    Ok(match column.data_type() {
        DataType::Boolean => Some(i64::from(column.as_boolean().value(row)).to_string()),
        DataType::Decimal128(..) => Some(column.as_primitive::<Decimal128Type>().value(row).to_string()),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            Some(column.as_primitive::<TimestampMicrosecondType>().value(row).to_string())
        }
        DataType::Timestamp(..) => {
            return Err(Error::new(ErrorKind::DatatypeMismatch, "expected microseconds, found another unit"));
        }
        _ => format_value(column, row)?,
    })
}
