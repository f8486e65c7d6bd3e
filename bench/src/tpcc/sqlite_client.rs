//! SQLite, configured for speed: a write-ahead log that is synced at each commit or only at checkpoints, and a cache
//! and a mapping that hold the database. Each client has one connection with its statements prepared. Writers use BEGIN
//! IMMEDIATE, so that they wait for each other there and never have to run again.

use std::path::{Path, PathBuf};

use rowmill_base::{Error, ErrorKind, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement, ffi};

use super::client::{Access, Client, Engine, Param, Row, RowFn};
use super::statement::Sql;
use super::table::Table;

/// The size of each connection's cache, in KiB.
const CACHE_KIB: u64 = 1 << 20;
/// The bytes that SQLite maps rather than reads. We give the maximum that it accepts.
const MAPPED_BYTES: u64 = 0x7fff_0000;
/// The pages of the log after which SQLite makes a checkpoint: 64 MiB, the same size as for Rowmill's log.
const CHECKPOINT_PAGES: u64 = 16_384;
/// The most milliseconds that a writer waits for another.
const PATIENCE_MS: u64 = 60_000;

/// An SQLite database.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    synchronous: &'static str,
}

impl Sqlite {
    /// Opens the database in a file, and makes it if it is absent. If commits are not synced, the log is still synced
    /// at checkpoints.
    pub fn open(path: &Path, is_synced: bool) -> Sqlite {
        Sqlite { path: path.to_owned(), synchronous: if is_synced { "FULL" } else { "NORMAL" } }
    }

    /// Connects, with the sync mode of the database.
    pub fn connection(&self) -> Result<Connection> {
        self.connect(self.synchronous)
    }

    fn connect(&self, synchronous: &str) -> Result<Connection> {
        let connection = Connection::open(&self.path).map_err(error)?;
        let pragmas = format!(
            "PRAGMA busy_timeout = {PATIENCE_MS}; PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; \
             PRAGMA cache_size = -{CACHE_KIB}; PRAGMA mmap_size = {MAPPED_BYTES}; PRAGMA temp_store = MEMORY; \
             PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};"
        );
        connection.execute_batch(&pragmas).map_err(error)?;
        Ok(connection)
    }
}

impl Engine for Sqlite {
    type Client<'a> = SqliteClient<'a>;

    fn name(&self) -> &'static str {
        "sqlite"
    }

    /// A table is `WITHOUT ROWID` if its rows take less than a twentieth of a page, as SQLite's documentation advises.
    fn table_options(&self, table: &Table) -> &'static str {
        match table.name {
            "new_order" | "orders" | "order_line" => " WITHOUT ROWID",
            _ => "",
        }
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.connection()?.execute_batch(sql).map_err(error)
    }

    fn number(&self, sql: &str) -> Result<i64> {
        self.connection()?.query_row(sql, [], |row| row.get(0)).map_err(error)
    }

    fn fill(&self, table: &Table, rows: impl FnOnce(&mut RowFn<'_>) -> Result<()>) -> Result<()> {
        let connection = self.connect("OFF")?;
        let mut insert = connection.prepare(&table.insert()).map_err(error)?;
        connection.execute_batch("BEGIN IMMEDIATE").map_err(error)?;
        rows(&mut |values| execute(&mut insert, values))?;
        connection.execute_batch("COMMIT").map_err(error)
    }

    fn settle(&self) -> Result<()> {
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    fn with_client<T>(&self, work: impl FnOnce(&mut SqliteClient<'_>) -> Result<T>) -> Result<T> {
        let connection = self.connection()?;
        let prepare = |sql: &str| connection.prepare(sql).map_err(error);
        let mut client = SqliteClient {
            connection: &connection,
            begin: prepare("BEGIN")?,
            begin_to_write: prepare("BEGIN IMMEDIATE")?,
            commit: prepare("COMMIT")?,
            rollback: prepare("ROLLBACK")?,
            statements: Sql::ALL.iter().map(|sql| prepare(sql.text())).collect::<Result<_>>()?,
        };
        work(&mut client)
    }
}

/// A connection with its prepared statements.
pub struct SqliteClient<'a> {
    connection: &'a Connection,
    begin: Statement<'a>,
    begin_to_write: Statement<'a>,
    commit: Statement<'a>,
    rollback: Statement<'a>,
    /// The statements, in the order of their numbers.
    statements: Vec<Statement<'a>>,
}

impl Client for SqliteClient<'_> {
    type Row<'a> = SqliteRow<'a>;

    fn begin(&mut self, access: Access) -> Result<()> {
        match access {
            Access::Read => execute(&mut self.begin, &[]),
            Access::Write => execute(&mut self.begin_to_write, &[]),
        }
    }

    fn commit(&mut self) -> Result<()> {
        execute(&mut self.commit, &[])
    }

    fn rollback(&mut self) -> Result<()> {
        if self.connection.is_autocommit() { Ok(()) } else { execute(&mut self.rollback, &[]) }
    }

    fn execute(&mut self, sql: Sql, params: &[Param<'_>]) -> Result<()> {
        execute(&mut self.statements[sql as usize], params)
    }

    fn query(
        &mut self,
        sql: Sql,
        params: &[Param<'_>],
        mut each: impl FnMut(&SqliteRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let statement = &mut self.statements[sql as usize];
        bind(statement, params)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(error)? {
            each(&SqliteRow(row))?;
        }
        Ok(())
    }
}

fn execute(statement: &mut Statement<'_>, params: &[Param<'_>]) -> Result<()> {
    bind(statement, params)?;
    statement.raw_execute().map(drop).map_err(error)
}

/// Binds values to the parameters of a statement, in order.
pub(crate) fn bind(statement: &mut Statement<'_>, params: &[Param<'_>]) -> Result<()> {
    for (at, param) in (1..).zip(params) {
        let bound = match param {
            Param::Null => statement.raw_bind_parameter(at, rusqlite::types::Null),
            Param::Integer(value) | Param::Decimal(value, _) | Param::Moment(value) => {
                statement.raw_bind_parameter(at, value)
            }
            Param::Double(value) => statement.raw_bind_parameter(at, value),
            Param::Text(text) => statement.raw_bind_parameter(at, text),
        };
        bound.map_err(error)?;
    }
    Ok(())
}

/// A row that we read in place.
pub struct SqliteRow<'a>(&'a rusqlite::Row<'a>);

impl Row for SqliteRow<'_> {
    fn is_null(&self, column: usize) -> Result<bool> {
        Ok(self.0.get_ref(column).map_err(error)? == ValueRef::Null)
    }

    fn integer(&self, column: usize) -> Result<i64> {
        self.0.get_ref(column).map_err(error)?.as_i64().map_err(mismatch)
    }

    fn decimal(&self, column: usize) -> Result<i64> {
        self.integer(column)
    }

    fn text(&self, column: usize) -> Result<&str> {
        self.0.get_ref(column).map_err(error)?.as_str().map_err(mismatch)
    }

    fn moment(&self, column: usize) -> Result<i64> {
        self.integer(column)
    }
}

fn mismatch(error: rusqlite::types::FromSqlError) -> Error {
    Error::new(ErrorKind::DatatypeMismatch, error.to_string())
}

/// Converts an error. A snapshot that is too old to write, and a lock that another connection holds for too long, are
/// serialization failures, because the transaction can succeed if it runs again.
pub(crate) fn error(error: rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked) => ErrorKind::SerializationFailure,
        Some(ffi::ErrorCode::DiskFull) => ErrorKind::DiskFull,
        Some(ffi::ErrorCode::ConstraintViolation) => ErrorKind::UniqueViolation,
        Some(ffi::ErrorCode::SystemIoFailure | ffi::ErrorCode::CannotOpen) => ErrorKind::Io,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, format!("SQLite: {error}"))
}
