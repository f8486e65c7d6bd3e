//! SQL over Rowmill: sessions, statements and what they do.
//!
//! A statement's way: text → [`Session::parse`] (tokens, names in lower case, syntax tree) → its program, where it has one
//! (crate `program`); otherwise dispatch (one function per kind of statement) → for a query: bind to one snapshot, optimize, lower
//! (crate `query`), run (crate `exec`), and stream batches; for a change: a transaction of its own or the open one. What is known of
//! a statement by its text is kept by its session (`statement_cache.rs`).

mod assign;
mod catalog;
mod deep;
mod dialect;
mod dispatch;
mod engine_query;
pub mod errors;
mod explain;
mod function_list;
pub mod guards;
mod information_schema;
mod lexer;
mod lifted;
mod log_functions;
mod names;
mod open_transaction;
mod outcome;
mod param;
mod parse;
mod prepared;
mod program;
mod query;
mod query_catalog;
mod scan_progress;
mod sequence_functions;
mod session;
mod settings;
mod statement;
mod statement_cache;
mod storage_function;
mod walk;
mod workers;

pub use lexer::is_complete;
pub use outcome::{Outcome, Progress, ProgressFn, RowStream, TransactionState};
pub use param::Param;
pub use parse::Statement;
pub use prepared::Prepared;
pub use rowmill_files as files;
pub use rowmill_plan::Constant;
pub use session::{CancelHandle, Session};
