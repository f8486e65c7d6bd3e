//! Connections of ADBC, and their transactions.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use adbc_core::constants;
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::{CancelHandle, Connection, Optionable, schemas};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use rowmill::TransactionState;

use crate::adbc::database::text_of;
use crate::adbc::errors::{AdbcResult, adbc_error, no_option, not_implemented, wrong_argument, wrong_state};
use crate::adbc::objects::{ObjectFilter, objects_batch};
use crate::adbc::statement::AdbcStatement;
use crate::adbc::{info, objects};
use crate::capsule::outside_schema;

/// A reader of batches that a caller may keep.
pub(super) type BoxedReader = Box<dyn RecordBatchReader + Send + 'static>;

/// The connection that a connection of ADBC and its statements share. Its statements run one after the other.
#[derive(Clone)]
pub(super) struct SharedSession {
    connection: Arc<Mutex<rowmill::Connection>>,
    autocommit: Arc<AtomicBool>,
    /// Keeps the database open, and known to later connections.
    _database: Arc<rowmill::Database>,
}

impl SharedSession {
    /// Runs `work` with the connection, in a transaction unless each statement commits.
    pub(super) fn run<T>(&self, work: impl FnOnce(&mut rowmill::Connection) -> rowmill::Result<T>) -> AdbcResult<T> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = !self.autocommit.load(Ordering::Relaxed);
        if begins && connection.transaction_state() == TransactionState::Idle {
            connection.begin(false).map_err(|error| adbc_error(&error))?;
        }
        work(&mut connection).map_err(|error| adbc_error(&error))
    }

    fn end(&self, commits: bool) -> AdbcResult<()> {
        if self.autocommit.load(Ordering::Relaxed) {
            let what = if commits { "commit" } else { "rollback" };
            return Err(wrong_state(format!("{what}: the connection commits each statement by itself (autocommit)")));
        }
        self.settle(commits)
    }

    /// Ends the open transaction, if any.
    fn settle(&self, commits: bool) -> AdbcResult<()> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = match (connection.transaction_state(), commits) {
            (TransactionState::Idle, _) => Ok(()),
            (_, true) => connection.commit(),
            (_, false) => connection.rollback(),
        };
        ended.map_err(|error| adbc_error(&error))
    }

    fn text(&self, sql: &str) -> AdbcResult<String> {
        self.run(|connection| connection.query_row(sql, (), |row| row.get::<String>(0)))
    }

    /// The handle that cancels the statement which runs.
    pub(super) fn cancel_handle(&self) -> Box<dyn CancelHandle> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        Box::new(Canceller(connection.cancel_handle()))
    }
}

struct Canceller(rowmill::CancelHandle);

impl CancelHandle for Canceller {
    fn try_cancel(&self) -> AdbcResult<()> {
        self.0.cancel();
        Ok(())
    }
}

/// A connection.
pub(super) struct AdbcConnection {
    session: SharedSession,
}

impl AdbcConnection {
    pub(super) fn open(database: Arc<rowmill::Database>) -> AdbcResult<AdbcConnection> {
        let connection = database.connect().map_err(|error| adbc_error(&error))?;
        let (connection, autocommit) = (Arc::new(Mutex::new(connection)), Arc::new(AtomicBool::new(true)));
        Ok(AdbcConnection { session: SharedSession { connection, autocommit, _database: database } })
    }
}

/// A reader of one batch.
pub(super) fn reader_of(batch: RecordBatch) -> BoxedReader {
    let schema = batch.schema();
    Box::new(RecordBatchIterator::new(std::iter::once(Ok::<_, ArrowError>(batch)), schema))
}

/// A name as SQL writes it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The table `schema.name` as SQL writes it.
pub(super) fn qualified(schema: Option<&str>, name: &str) -> String {
    match schema.filter(|schema| !schema.is_empty()) {
        Some(schema) => format!("{}.{}", quoted(schema), quoted(name)),
        None => quoted(name),
    }
}

impl Connection for AdbcConnection {
    type StatementType = AdbcStatement;

    fn new_statement(&mut self) -> AdbcResult<AdbcStatement> {
        Ok(AdbcStatement::new(self.session.clone()))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        self.session.cancel_handle()
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> AdbcResult<BoxedReader> {
        Ok(reader_of(info::info_batch(codes)?))
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> AdbcResult<BoxedReader> {
        let types = table_type.map(|types| types.into_iter().map(str::to_owned).collect());
        let filter = ObjectFilter::new(depth, [catalog, db_schema, table_name, column_name], types);
        Ok(reader_of(objects_batch(&self.session, &filter)?))
    }

    fn get_table_schema(&self, catalog: Option<&str>, db_schema: Option<&str>, table_name: &str) -> AdbcResult<Schema> {
        self.check_catalog(catalog)?;
        let sql = format!("SELECT * FROM {}", qualified(db_schema, table_name));
        let statement = self.session.run(|connection| connection.prepare(&sql))?;
        let schema: SchemaRef = outside_schema(statement.schema().ok_or_else(|| wrong_state("a table has columns"))?);
        Ok(schema.as_ref().clone())
    }

    fn get_table_types(&self) -> AdbcResult<BoxedReader> {
        let kinds: ArrayRef = Arc::new(StringArray::from_iter_values(objects::TABLE_TYPES));
        Ok(reader_of(RecordBatch::try_new(schemas::GET_TABLE_TYPES_SCHEMA.clone(), vec![kinds])?))
    }

    fn get_statistic_names(&self) -> AdbcResult<BoxedReader> {
        Ok(reader_of(RecordBatch::new_empty(schemas::GET_STATISTIC_NAMES_SCHEMA.clone())))
    }

    fn get_statistics(
        &self,
        _catalog: Option<&str>,
        _db_schema: Option<&str>,
        _table_name: Option<&str>,
        _approximate: bool,
    ) -> AdbcResult<BoxedReader> {
        Err(not_implemented("get_statistics"))
    }

    fn commit(&mut self) -> AdbcResult<()> {
        self.session.end(true)
    }

    fn rollback(&mut self) -> AdbcResult<()> {
        self.session.end(false)
    }

    fn read_partition(&self, _partition: impl AsRef<[u8]>) -> AdbcResult<BoxedReader> {
        Err(not_implemented("read_partition"))
    }
}

impl AdbcConnection {
    /// A database is one catalog, whose name need not be given.
    fn check_catalog(&self, catalog: Option<&str>) -> AdbcResult<()> {
        let Some(catalog) = catalog.filter(|catalog| !catalog.is_empty()) else { return Ok(()) };
        let own = self.session.text(objects::CURRENT_CATALOG)?;
        if catalog == own {
            return Ok(());
        }
        Err(wrong_argument(format!("there is no catalog \"{catalog}\": the database is \"{own}\"")))
    }
}

/// The isolation level of SQL for one of ADBC.
fn isolation_of(level: &str) -> AdbcResult<&'static str> {
    match level {
        constants::ADBC_OPTION_ISOLATION_LEVEL_DEFAULT
        | constants::ADBC_OPTION_ISOLATION_LEVEL_REPEATABLE_READ
        | constants::ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT => Ok("repeatable read"),
        constants::ADBC_OPTION_ISOLATION_LEVEL_READ_COMMITTED => Ok("read committed"),
        constants::ADBC_OPTION_ISOLATION_LEVEL_SERIALIZABLE => Ok("serializable"),
        _ => Err(not_implemented(&format!("the isolation level {level}"))),
    }
}

impl Optionable for AdbcConnection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> AdbcResult<()> {
        match key {
            OptionConnection::AutoCommit => {
                let autocommit = bool::try_from(value)?;
                if autocommit {
                    self.session.settle(true)?;
                }
                self.session.autocommit.store(autocommit, Ordering::Relaxed);
                Ok(())
            }
            OptionConnection::IsolationLevel => {
                let level = isolation_of(&text_of(key.as_ref(), value)?)?;
                let sql = format!("SET default_transaction_isolation = '{level}'");
                let mut connection = self.session.connection.lock().unwrap_or_else(PoisonError::into_inner);
                connection.execute(&sql, ()).map(drop).map_err(|error| adbc_error(&error))
            }
            key => Err(no_option(key.as_ref())),
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> AdbcResult<String> {
        match key {
            OptionConnection::AutoCommit => Ok(self.session.autocommit.load(Ordering::Relaxed).to_string()),
            OptionConnection::CurrentCatalog => self.session.text(objects::CURRENT_CATALOG),
            OptionConnection::CurrentSchema => self.session.text("SELECT current_schema()"),
            key => Err(no_option(key.as_ref())),
        }
    }

    fn get_option_bytes(&self, key: OptionConnection) -> AdbcResult<Vec<u8>> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_int(&self, key: OptionConnection) -> AdbcResult<i64> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionConnection) -> AdbcResult<f64> {
        Err(no_option(key.as_ref()))
    }
}
