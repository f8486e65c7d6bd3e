//! SQL over Rowmill, and the only crate that knows DataFusion.
//!
//! A statement's way: text → [`Session::parse`] (tokens, names in lower case, syntax tree) → dispatch (one function per
//! kind of statement) → for a query: bind to one snapshot, optimise, run, and stream batches; for a change: a
//! transaction of its own or the open one. What the engine does not run itself yet, DataFusion's operators do over the
//! engine's scan; `EXPLAIN` says which is which.
//!
//! Everything outside is synchronous; DataFusion's asynchronous operators run on a pool of threads in here.

mod assign;
mod calendar;
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
mod leaf;
mod lifted;
mod log_functions;
mod logical;
mod names;
mod native;
mod open_transaction;
mod operators;
mod outcome;
mod parse;
mod plan_cache;
mod planner;
mod predicate;
mod prepared;
mod program;
mod query;
mod query_catalog;
mod runtime;
pub mod semantics;
mod sequence_functions;
mod session;
mod settings;
mod statement;
mod storage_function;
mod substitution;
mod table_scan;
#[cfg(test)]
mod testing;
pub mod text_format;
mod text_parse;
pub mod types;
mod view;
mod walk;

pub use datafusion::common::ScalarValue;
pub use lifted::{Lifted, Literal, lift};
pub use names::SPELLING_KEY;
pub use outcome::{Outcome, Progress, ProgressFn, RowStream, TransactionState};
pub use parse::Statement;
pub use prepared::Prepared;
pub use program::{ParameterKind, StatementProgram};
pub use rowmill_files as files;
pub use session::{CancelHandle, Session};
