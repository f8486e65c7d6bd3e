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
//! connection.execute("CREATE TABLE visits (page TEXT, seconds INTEGER)", ())?;
//! connection.execute("INSERT INTO visits VALUES (?, ?), ('/docs', 40), ('/docs', 20)", ("/", 3))?;
//!
//! let sql = "SELECT page, SUM(seconds) AS s FROM visits GROUP BY page ORDER BY s DESC";
//! for row in connection.query(sql)?.row_iter() {
//!     let row = row?;
//!     println!("{}: {}", row.get::<&str>("page")?, row.get::<i64>("s")?);
//! }
//! let pages: Vec<(String, i64)> = connection.query_as(sql, ())?;
//! assert_eq!(pages[0], ("/docs".to_owned(), 60));
//! # Ok(())
//! # }
//! ```
//!
//! The modules, in the order in which a program meets them:
//!
//! - `database`, `database_load`: opening a database, and how busy it is. `login`: the roles of a
//!   server.
//! - `connection`: running statements. `transaction`: guards that roll back when they are dropped. `async_connection`:
//!   connections of asynchronous programs.
//! - `params`, `to_param`, `value`: Rust values as parameters. `statement`: prepared statements.
//! - `rows`, `row`, `cell`, `from_value`, `from_row`, `serde_rows`: results as rows and Rust values. `answer`: small
//!   results that are read in place.
//! - `decimal`, `chrono_values`, `uuid_values`, `rust_decimal_values`: types with values of their own.
//! - `appender`, `table_column`: rows without SQL. `functions`: functions of SQL in Rust.
//!
//! Several threads can share a [`Database`]; each must use a [`Connection`] of its own. Readers never wait for writers:
//! a statement sees one committed state, no matter which commits happen while it runs.

/// The example of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;

mod answer;
mod appender;
#[cfg(feature = "async")]
mod async_connection;
mod cell;
#[cfg(feature = "chrono")]
mod chrono_values;
mod connection;
mod database;
mod database_load;
mod decimal;
mod from_row;
mod from_value;
mod functions;
mod login;
mod params;
mod row;
mod rows;
#[cfg(feature = "rust_decimal")]
mod rust_decimal_values;
#[cfg(feature = "serde")]
mod serde_rows;
mod statement;
mod table_column;
mod to_param;
mod transaction;
#[cfg(feature = "uuid")]
mod uuid_values;
mod value;

pub use answer::{Answer, PlacedAnswer};
pub use appender::Appender;
#[cfg(feature = "async")]
pub use async_connection::AsyncConnection;
pub use cell::CellRef;
pub use connection::Connection;
pub use database::{Database, Options};
pub use database_load::DatabaseLoad;
pub use decimal::Decimal;
pub use from_row::FromRow;
pub use from_value::FromValue;
pub use functions::{FunctionResult, RustFunction, SqlValue};
pub use params::{ParamValues, Params, ParamsFromIter, params_from_iter};
pub use row::{ColumnRef, Row};
pub use rows::{MappedRows, RowIter, Rows};
pub use statement::{ParameterInfo, Statement};
pub use table_column::TableColumn;
pub use to_param::{ParamValue, ToParam};
pub use transaction::{SavepointGuard, Transaction, TransactionOptions};
pub use value::Value;

pub use arrow;
/// Counts allocations. A program whose allocator counts should report to it, so that `EXPLAIN ANALYZE` shows the
/// numbers.
pub use rowmill_base::allocations;
pub use rowmill_base::{
    BrokenRule, DamagePlace, Error, ErrorKind, Isolation, Result, SETTINGS, Setting, Settings, SqlType, TextPosition,
    TimeUnit,
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
    pub use rowmill_sql::ORIGIN;
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
    CancelHandle, CellBuilder, ClientInfo, ConnectionEnd, ConnectionState, OpenConnection, Outcome, Param, Progress,
    ProgressFn, RowStream, RunningStatement, STATEMENTS, StatementInfo, StatementShape, TransactionInfo,
    TransactionState, Volatility,
};
