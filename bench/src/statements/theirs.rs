//! SQLite, configured as for TPC-C.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rowmill_base::Result;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::contender::{Contender, Outcome, RUNS_PER_TRANSACTION, quoted};
use super::draw::Drawn;
use super::statement::{Statement, Way, with_literals};
use crate::tpcc::client::Param;
use crate::tpcc::sqlite_client::{Sqlite, bind, error};

/// A connection to SQLite.
pub(super) struct Theirs {
    connection: Connection,
}

impl Theirs {
    /// Opens a connection. `LIKE` must be case-sensitive as in Rowmill; otherwise SQLite could not use an index for it.
    pub(super) fn new(sqlite: &Sqlite) -> Result<Theirs> {
        let connection = sqlite.connection()?;
        connection.execute_batch("PRAGMA case_sensitive_like = ON").map_err(error)?;
        Ok(Theirs { connection })
    }

    fn time_prepared(&mut self, statement: &Statement, runs: &[Vec<Drawn>]) -> Result<Duration> {
        let mut prepared = self.connection.prepare(&statement.sqlite_text()).map_err(error)?;
        let runs: Vec<Vec<Param<'_>>> = runs.iter().map(|run| params(run)).collect();
        let mut time = Duration::ZERO;
        let (parts, in_transaction) = match statement.way {
            Way::RolledBack => (RUNS_PER_TRANSACTION, true),
            _ => (runs.len().max(1), false),
        };
        for part in runs.chunks(parts) {
            if in_transaction {
                self.connection.execute_batch("BEGIN IMMEDIATE").map_err(error)?;
            }
            let begun = Instant::now();
            for params in part {
                bind(&mut prepared, params)?;
                read(&mut prepared)?;
            }
            time += begun.elapsed();
            if in_transaction {
                self.connection.execute_batch("ROLLBACK").map_err(error)?;
            }
        }
        Ok(time)
    }

    fn time_texts(&mut self, texts: &[String]) -> Result<Duration> {
        let begun = Instant::now();
        for text in texts {
            read(&mut self.connection.prepare(text).map_err(error)?)?;
        }
        Ok(begun.elapsed())
    }
}

impl Contender for Theirs {
    fn time(&mut self, statement: &Statement, runs: &[Vec<Drawn>]) -> Result<Duration> {
        match statement.way {
            Way::Text => {
                let texts: Vec<String> = runs.iter().map(|run| text(statement, run)).collect();
                self.time_texts(&texts)
            }
            Way::Read | Way::RolledBack | Way::Committed => self.time_prepared(statement, runs),
        }
    }

    fn outcome(&mut self, statement: &Statement, values: &[Drawn]) -> Result<Outcome> {
        if statement.way == Way::Text {
            let rows = self.rows(&text(statement, values))?;
            return Ok(Outcome { rows, changed: None });
        }
        let mut prepared = self.connection.prepare(&statement.sqlite_text()).map_err(error)?;
        bind(&mut prepared, &params(values))?;
        let columns = prepared.column_count();
        let rows = texts(&mut prepared)?;
        Ok(Outcome { rows, changed: (columns == 0).then(|| self.connection.changes()) })
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        texts(&mut self.connection.prepare(sql).map_err(error)?)
    }

    fn begin(&mut self) -> Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(error)
    }

    fn roll_back(&mut self) -> Result<()> {
        if self.connection.is_autocommit() { Ok(()) } else { self.connection.execute_batch("ROLLBACK").map_err(error) }
    }

    fn explain(&mut self, statement: &Statement, values: &[Drawn]) -> Result<Vec<String>> {
        let rows = self.rows(&format!("EXPLAIN QUERY PLAN {}", text(statement, values)))?;
        Ok(rows.into_iter().filter_map(|mut row| row.pop()?).collect())
    }
}

fn params(values: &[Drawn]) -> Vec<Param<'_>> {
    values.iter().map(Drawn::param).collect()
}

/// Runs a statement with the values bound to it, and reads every value of its rows.
fn read(statement: &mut rusqlite::Statement<'_>) -> Result<()> {
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(error)? {
        for column in 0..columns {
            black_box(row.get_ref(column).map_err(error)?);
        }
    }
    Ok(())
}

fn texts(statement: &mut rusqlite::Statement<'_>) -> Result<Vec<Vec<Option<String>>>> {
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    let mut texts = Vec::new();
    while let Some(row) = rows.next().map_err(error)? {
        let values = (0..columns).map(|column| row.get_ref(column).map(value));
        texts.push(values.collect::<rusqlite::Result<_>>().map_err(error)?);
    }
    Ok(texts)
}

fn value(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// Returns the statement with its values as literals.
fn text(statement: &Statement, values: &[Drawn]) -> String {
    with_literals(&statement.sqlite_text(), values.iter().map(literal))
}

fn literal(value: &Drawn) -> String {
    match value {
        Drawn::Integer(number) | Drawn::Cents(number) | Drawn::Moment(number) => number.to_string(),
        Drawn::Text(text) => quoted(text),
    }
}
