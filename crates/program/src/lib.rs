//! Prepared statements on keyed tables, compiled once into a small program that runs without a planner, without threads and
//! without locks, and in steady state all but without allocation.
//!
//! A [`Program`](rowmill_plan::program::Program) says what a statement does; [`Compiled::new`] finds its tables and gives every
//! column, parameter and text a place; [`Compiled::run_read`] and [`Compiled::run_write`] run it with the memory of a
//! [`Scratch`] and fill [`ResultRows`].
//!
//! ```text
//! key_value   what a key column is compared with, as a value of that column
//! access      those values as a key or a range, and the rows that are there
//! read        lookups as loops within loops -> output: rows, sorted rows, groups of aggregates
//! windows     values that other rows of a partition decide
//! change      rows of an access, found and then updated or deleted;  insert: new ones
//! expr        values of rows: types are looked at once, texts lie where they lie
//! ```
//!
//! Values are borrowed from rows, parameters and literals. Lists of them are kept from row to row, which the compiler allows
//! since each is emptied and collected anew (`recycled.rs`); nothing here is unsafe.
//!
//! Results are those of the general engine. What would not be is not compiled, and a statement that turns out to hold many rows is
//! given up before it has changed any; both are [`Unsupported`](rowmill_base::ErrorKind), and to be run by that engine.

mod access;
mod aggregate;
mod arrays;
mod change;
mod compiled;
mod expr;
mod groups;
mod insert;
mod key_value;
mod number;
mod output;
mod pace;
mod read;
mod recycled;
mod result_rows;
mod scratch;
mod texts;
mod windows;

pub use change::meets_several;
pub use compiled::Compiled;
pub use read::ROUNDS_MAX;
pub use result_rows::ResultRows;
pub use scratch::Scratch;
