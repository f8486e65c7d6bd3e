//! Prepared statements on keyed tables. Each one is compiled once into a small program. The program runs without a
//! planner, without threads and without locks, and after a few runs almost without allocations.
//!
//! A [`Program`](rowmill_plan::program::Program) describes a statement as data. [`Compiled::new`] looks up its tables
//! and gives every column, parameter and text a place. [`Compiled::run_read`] and [`Compiled::run_write`] run it with
//! the memory of a [`Scratch`] and fill [`ResultRows`].
//!
//! ```text
//! key_value   a value that a key column is compared with, converted to the type of that column
//! access      turns those values into a key or a range, and finds the rows
//! read        nested loops over lookups -> output: rows, sorted rows, groups of aggregates
//! windows     values that depend on other rows of the partition
//! change      finds the rows of an access, then updates or deletes them;  insert: adds rows
//! expr        values of rows; types are checked once, texts are borrowed and not copied
//! ```
//!
//! Values are borrowed from rows, parameters and literals. Lists of such values are reused from row to row. The borrow
//! checker allows that because each list is emptied and then collected into a list with a new lifetime
//! ([`recycled`](rowmill_base::recycled)).
//! This crate has no unsafe code.
//!
//! The results must be the same as those of the general engine. A statement that a program could not run with the same
//! result is not compiled: the error is [`Unsupported`](rowmill_base::ErrorKind). A statement that turns out to hold
//! many rows stops before it has changed any of them ([`RunEnd::GivenUp`]). In both cases the caller should run the
//! statement with the general engine.
//!
//! The modules, in the order in which a statement passes them:
//!
//! - `compiled`: a program that is ready to run, and the entries to its runs.
//! - `scratch`: memory that is kept from run to run. `pace`: when a run must stop.
//! - `key_value`, `access`: the key or range of a lookup, and its rows.
//! - `read`, `read/pending`, `nested_index`: nested loops over lookups. `run_condition`: conditions for many rows at
//!   once.
//! - `expr`, `number`, `texts`: values of rows.
//! - `groups`, `aggregate`, `windows`: values over several rows.
//! - `output`, `late_columns`, `result_rows`, `arrays`: the result, its columns that are evaluated for all rows at
//!   once, its memory, and its form outside of the program. `way`: its order.
//! - `change`, `insert`: statements that write.

mod access;
mod aggregate;
mod arrays;
mod change;
mod compiled;
mod expr;
mod groups;
mod insert;
mod key_value;
mod late_columns;
mod nested_index;
mod number;
mod output;
mod pace;
mod read;
mod result_rows;
mod run_condition;
mod scratch;
mod texts;
mod way;
mod windows;

pub use arrays::array_of_value;
pub use change::meets_several;
pub use compiled::{Compiled, RunEnd};
pub use read::ROUNDS_MAX;
pub use result_rows::ResultRows;
pub use scratch::ProgramScratch;
