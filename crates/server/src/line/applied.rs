//! Keys of requests, so that a request that a client repeats is applied once.
//!
//! We insert the key in the transaction that stores the lines. So either both are there or none, also after a crash.
//! Of two requests with the same key at the same time, the second one to commit fails with a conflict, runs again, and
//! then finds the key.

use rowmill::{Connection, ErrorKind, Result};

/// The name of the table.
pub(super) const APPLIED_TABLE: &str = "rowmill_applied_requests";

/// Notes in the open transaction that the request with this key is applied. Returns false if it was applied before.
pub(super) fn note_applied(connection: &mut Connection, key: &str) -> Result<bool> {
    match connection.columns(APPLIED_TABLE) {
        Ok(_) => {
            let sql = format!("SELECT 1 FROM {APPLIED_TABLE} WHERE \"key\" = $1");
            if !connection.query_with(&sql, [key])?.rows()?.is_empty() {
                return Ok(false);
            }
        }
        Err(error) if error.kind() == ErrorKind::UndefinedTable => {
            connection.execute_batch(&format!(
                "CREATE TABLE {APPLIED_TABLE} (\"key\" TEXT PRIMARY KEY, applied TIMESTAMP)"
            ))?;
        }
        Err(error) => return Err(error),
    }
    let sql = format!("INSERT INTO {APPLIED_TABLE} VALUES ($1, now()::TIMESTAMP)");
    connection.query_with(&sql, [key])?;
    Ok(true)
}
