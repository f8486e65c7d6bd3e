//! Rowmill: one SQL database for events and for the tables around them.
//!
//! A database is a directory of files, or it is in memory. Connections run SQL. Results are Arrow record batches, or
//! typed rows if they are small.
//!
//! ```
//! use rowmill::{Database, Result};
//!
//! # fn main() -> Result<()> {
//! let database = Database::memory()?;
//! let mut connection = database.connect()?;
//! connection.execute("CREATE TABLE visits (page TEXT, seconds INTEGER)")?;
//! connection.execute("INSERT INTO visits VALUES ('/', 3), ('/docs', 40), ('/docs', 20)")?;
//!
//! let rows = connection.query("SELECT page, SUM(seconds) AS s FROM visits GROUP BY page ORDER BY s DESC")?.rows()?;
//! assert_eq!(rows[0].get::<String>("page")?, "/docs");
//! assert_eq!(rows[0].get::<i64>(1)?, 60);
//! # Ok(())
//! # }
//! ```
//!
//! Several threads can share a [`Database`]; each must use a [`Connection`] of its own. Readers never wait for writers:
//! a statement sees one committed state, no matter which commits happen while it runs.

mod answer;
mod append_target;
mod appender;
mod background_jobs;
mod connection;
mod database;
mod database_load;
mod login;
mod row;
mod rows;
mod statement;
mod value;

pub use answer::Answer;
pub use append_target::TableColumn;
pub use appender::Appender;
pub use connection::Connection;
pub use database::{Database, Options};
pub use database_load::DatabaseLoad;
pub use row::{ColumnRef, FromValue, Row};
pub use rows::Rows;
pub use statement::Statement;
pub use value::Value;

pub use arrow;
/// Counts allocations. A program whose allocator counts should report to it, so that `EXPLAIN ANALYZE` shows the
/// numbers.
pub use rowmill_base::allocations;
pub use rowmill_base::{
    DamagePlace, Error, ErrorKind, Result, SETTINGS, Setting, Settings, SqlType, TextPosition, TimeUnit,
};
pub use rowmill_txn::base::BaseKind;
/// Values as SQL text, and SQL text as a user types it.
pub mod text {
    pub use rowmill_base::parse_bytes;
    pub use rowmill_expr::text::writer::{TextColumn, format_value, write_json_string};
    pub use rowmill_sql::{Lexeme, LexemeKind, SqlSplitter, TextStatement, is_complete, lexemes, without_passwords};
}

/// PostgreSQL's types, and the one by which each of ours goes over its wire protocol.
pub mod pg_types {
    pub use rowmill_sql::pg_types::{PgScalar, PgType, type_modifier};
}

/// Files as COPY reads them: their options and their columns.
pub mod input {
    pub use rowmill_storage::spill::NamedTempFile;

    pub use rowmill_sql::files::{FileSet, ReadOptions, TargetColumn, unknown_option};
}

/// Who a connection acts for, and how clients of a server prove who they are.
pub mod access {
    pub use crate::login::LoginRole;
    pub use rowmill_base::RoleId;
    pub use rowmill_sql::files::FileFolders;
    pub use rowmill_sql::{Actor, Admission, AdmissionGuard, Authority, ScramKey, ScramVerifier};
}

/// Results in the formats of files, written to streams.
pub mod output {
    pub use rowmill_sql::files::{BatchWriter, FileFormat, WriteOptions, stream_writer};
}

pub use rowmill_sql::{
    CancelHandle, ClientInfo, Outcome, Param, Progress, ProgressFn, RowStream, RunningStatement, STATEMENTS,
    StatementInfo, StatementShape, TransactionState,
};
