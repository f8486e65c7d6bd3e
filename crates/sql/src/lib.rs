//! SQL over Rowmill: sessions and the statements that they run.
//!
//! A statement passes these steps. [`Session::parse`] turns its text into tokens, names in lower case and a syntax
//! tree. If it has a program (crate `program`), the program runs. Otherwise dispatch calls one function per kind of
//! statement. A query is bound to one snapshot, optimized, lowered (crate `query`), run (crate `exec`), and streams
//! batches. A change runs in its own transaction or in the open one. The session caches everything that the text alone
//! determines (`statement_cache.rs`).
//!
//! The modules, in the order in which a statement passes them:
//!
//! - `lexer`, `splitter`: where statements end in a text, before any parser.
//! - `session`: a connection: settings, transaction, and the path of a statement. `open_transaction`: the
//!   transaction between `BEGIN` and `COMMIT`. `session/temporary`: tables that end with the connection.
//!   `session/name_resolution`, `search_path`: the schemas that names mean. `databases`, `attached_table`,
//!   `session/elsewhere`, `session/write_target`: other databases, and the statements that run in them.
//!   `background_jobs`: the jobs of each open database.
//! - `lifted`, `statement_cache`, `prepared`, `param`: what a connection keeps of earlier statements, by their text.
//!   `idle_statements`: what it leaves to later connections. `shape`: the parameters and the result of a statement that
//!   did not run yet.
//! - `guards`, `deep`: limits of a statement and room on the stack for its tree.
//! - `dialect`, `parse`, `names`: from text to a syntax tree, with names in lower case.
//! - `program`: statements on keyed tables that run without a planner.
//! - `statements`, `dispatch`: the list of statements, and the call of each. `statement`: one file for each statement;
//!   those that change rows share `statement/write`.
//!   `settings`, `explain`: `SET`, `SHOW`, `RESET`, `USE` and `EXPLAIN`.
//! - `query`, `engine_query`, `workers`, `scan_progress`: queries that the engine runs, its threads, their progress.
//!   `running_statements`, `open_connections`: lists of them and of connections. `refresher`: the job that refreshes
//!   materialized views.
//! - `catalog`, `query_catalog`: what names mean in a statement. `information_schema`, `pg_catalog`, `file_functions`,
//!   `function_list`, `storage_function`, `table_order_function`, `log_functions`, `memory_functions`,
//!   `statement_functions`, `snapshot_function`, `materialized_list`, `pragma_functions`, `sequence_functions`,
//!   `random_functions`, `advisory_lock_functions`, `sqlite_function`: tables and functions that the session itself
//!   answers.
//!   `session_objects`: those that the program adds to its connection.
//! - `advisory_locks`: locks whose meaning only programs know.
//! - `access`: who runs a statement, and what they may do. `scram_verifier`: what proves a password.
//!   `redaction`: statements as logs may show them.
//! - `assign`: from the type of a value to the type of its column. `cell_builder`, `row_builder`: columns of rows
//!   that come value by value.
//! - `outcome`, `outside`, `errors`, `exhausted`, `error_place`: answers of statements, also as other programs can read
//!   them, errors that have no other home, errors of exhausted limits, and the places of errors in the text.

mod access;
mod advisory_lock_functions;
mod advisory_locks;
mod assign;
mod attached_table;
mod background_jobs;
mod catalog;
mod cell_builder;
mod databases;
mod deep;
mod dialect;
mod dispatch;
mod engine_query;
mod error_place;
pub mod errors;
mod exhausted;
mod explain;
mod file_functions;
mod function_list;
mod guards;
mod idle_statements;
mod information_schema;
mod lexer;
mod lifted;
mod log_functions;
mod materialized_list;
mod memory_functions;
mod names;
mod open_connections;
mod open_transaction;
mod outcome;
mod outside;
mod param;
mod parse;
mod pg_catalog;
mod pragma_functions;
mod prepared;
mod program;
mod query;
mod query_catalog;
mod random_functions;
mod redaction;
mod refresher;
mod row_builder;
mod running_statements;
mod scan_progress;
mod scram_verifier;
mod search_path;
mod sequence_functions;
mod session;
mod session_objects;
mod settings;
mod shape;
mod snapshot_function;
mod splitter;
#[cfg(feature = "sqlite")]
mod sqlite_function;
mod statement;
mod statement_cache;
mod statement_functions;
mod statements;
mod storage_function;
mod table_order_function;
mod workers;

pub use access::{Actor, Authority};
pub use background_jobs::BackgroundJobs;
pub use cell_builder::{CellBuilder, Conversion, converted};
pub use databases::AttachedDatabases;
pub use idle_statements::IdleStatements;
pub use lexer::{Lexeme, LexemeKind, is_complete, lexemes};
pub use open_connections::{
    ConnectionActivity, ConnectionEnd, ConnectionList, ConnectionState, OpenConnection, WaitReason,
};
pub use open_transaction::TransactionInfo;
pub use outcome::{Outcome, Progress, ProgressFn, RowStream, TransactionState};
pub use outside::outside_batch;
pub use param::Param;
pub use parse::Statement;
pub use pg_catalog::type_oids as pg_types;
pub use prepared::PreparedStatement;
pub use redaction::without_passwords;
pub use refresher::Refresher;
pub use row_builder::{RowBuilder, RowRefusal, RowWriter};
pub use rowmill_exec::workers::Workers;
pub use rowmill_files as files;
pub use rowmill_plan::{Constant, Volatility};
pub use running_statements::{ClientInfo, RunningStatement, RunningStatements};
pub use scram_verifier::{ScramKey, ScramVerifier, token_hash};
pub use session::{Admission, AdmissionGuard, CancelHandle, PlacedOutcome, Session};
pub use session_objects::{HostFunction, ScalarBody, TableBody};
pub use shape::{ORIGIN, StatementShape};
pub use splitter::{SqlSplitter, TextStatement};
pub use statement::append::AppendPlan;
pub use statement::attach::{MEMORY_PATH, no_memory_to_read};
pub use statements::{STATEMENTS, StatementInfo};
pub use workers::query_threads;
