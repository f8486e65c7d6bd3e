//! SQL over Rowmill: sessions and the statements that they run.
//!
//! A statement passes these steps. [`Session::parse`] turns its text into tokens, names in lower case and a syntax
//! tree. If it has a program (crate `program`), the program runs. Otherwise dispatch calls one function per kind of
//! statement. A query is bound to one snapshot, optimized, lowered (crate `query`), run (crate `exec`), and streams
//! batches. A change runs in its own transaction or in the open one. The session caches everything that the text alone
//! determines (`statement_cache.rs`).

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
pub use prepared::PreparedStatement;
pub use rowmill_files as files;
pub use rowmill_plan::Constant;
pub use session::{CancelHandle, Session};
