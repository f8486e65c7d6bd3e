//! Connections for asynchronous programs: each call runs on a thread for blocking work.

use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_sql::CancelHandle;
use tokio::task::spawn_blocking;

use crate::{Connection, FromRow, Params, Row, Transaction};

/// A connection whose statements run on tokio's threads for blocking work, so that they never hold a thread of the
/// runtime. Clones share the connection; their calls run one after the other. Dropping the future of a call cancels its
/// statement.
///
/// ```
/// # use rowmill::{AsyncConnection, Connection, Result};
/// # fn main() -> Result<()> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// # runtime.block_on(async {
/// let connection = AsyncConnection::new(Connection::open_in_memory()?);
/// connection.execute("CREATE TABLE stock (item TEXT, pieces BIGINT)", ()).await?;
/// connection.execute("INSERT INTO stock VALUES (?, ?)", ("bolt", 200)).await?;
/// let rows: Vec<(String, i64)> = connection.query_as("SELECT * FROM stock", ()).await?;
/// assert_eq!(rows, [("bolt".to_owned(), 200)]);
/// let pieces = connection.call(|connection| connection.query_row("SELECT 1", (), |row| row.get::<i64>(0))).await?;
/// assert_eq!(pieces, 1);
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AsyncConnection {
    connection: Arc<Mutex<Connection>>,
    cancel: CancelHandle,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    /// It waits for a thread, or for the calls before it.
    Waiting,
    /// It holds the connection.
    Running,
    /// It has ended.
    Done,
    /// Its future was dropped before it ran, so it must not run.
    Abandoned,
}

/// Cancels the statement of a call whose future is dropped before it is done.
struct CancelOnDrop {
    cancel: CancelHandle,
    state: Arc<Mutex<CallState>>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        match *state {
            CallState::Waiting => *state = CallState::Abandoned,
            // The call cannot end while the state is locked, so this never reaches the statement of another call.
            CallState::Running => self.cancel.cancel(),
            CallState::Done | CallState::Abandoned => {}
        }
    }
}

impl AsyncConnection {
    /// Wraps a connection.
    pub fn new(connection: Connection) -> AsyncConnection {
        let cancel = connection.cancel_handle();
        AsyncConnection { connection: Arc::new(Mutex::new(connection)), cancel }
    }

    /// Runs `work` with the connection on a thread for blocking work.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let connection = Arc::clone(&self.connection);
        let state = Arc::new(Mutex::new(CallState::Waiting));
        let _guard = CancelOnDrop { cancel: self.cancel.clone(), state: Arc::clone(&state) };
        let task = spawn_blocking(move || {
            let mut connection = connection.lock();
            let before = std::mem::replace(&mut *state.lock(), CallState::Running);
            if before == CallState::Abandoned {
                return Err(Error::new(ErrorKind::Cancelled, "the call was dropped before it ran"));
            }
            let result = work(&mut connection);
            *state.lock() = CallState::Done;
            result
        });
        let panicked = |error| Error::internal(format!("a call of an asynchronous connection: {error}"));
        task.await.unwrap_or_else(|error| Err(panicked(error)))
    }

    /// Runs one statement and returns the number of rows that it changed.
    pub async fn execute(&self, sql: impl Into<String>, params: impl Params + Send + 'static) -> Result<u64> {
        let sql = sql.into();
        self.call(move |connection| connection.execute(&sql, params)).await
    }

    /// Runs one or several statements and returns the number of rows that they changed.
    pub async fn execute_batch(&self, sql: impl Into<String>) -> Result<u64> {
        let sql = sql.into();
        self.call(move |connection| connection.execute_batch(&sql)).await
    }

    /// Runs one statement and returns all rows of its result.
    pub async fn query(&self, sql: impl Into<String>, params: impl Params + Send + 'static) -> Result<Vec<Row>> {
        let sql = sql.into();
        self.call(move |connection| connection.query_with(&sql, params)?.rows()).await
    }

    /// Runs one statement and returns its rows as tuples, or as values of the only column.
    pub async fn query_as<T: for<'r> FromRow<'r> + Send + 'static>(
        &self,
        sql: impl Into<String>,
        params: impl Params + Send + 'static,
    ) -> Result<Vec<T>> {
        let sql = sql.into();
        self.call(move |connection| connection.query_as(&sql, params)).await
    }

    /// Runs `work` in a transaction and commits it, as [`Connection::transact`] does.
    pub async fn transact<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.call(move |connection| connection.transact(work)).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn dropping_a_call_cancels_its_statement() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        runtime.block_on(async {
            let connection = AsyncConnection::new(Connection::open_in_memory().unwrap());
            let long = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b
                WHERE a.value + b.value = 7";
            let begun = Instant::now();
            let call = connection.query_as::<i64>(long, ());
            assert!(tokio::time::timeout(Duration::from_millis(200), call).await.is_err());
            // The connection is free again only after the statement has ended.
            assert_eq!(connection.query_as::<i64>("SELECT 1", ()).await.unwrap(), [1]);
            assert!(begun.elapsed() < Duration::from_secs(20));
        });
    }
}
