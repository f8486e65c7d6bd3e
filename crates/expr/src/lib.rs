//! Expressions: typing, folding, evaluation, and the functions.
//!
//! The modules, in the order in which an expression passes them:
//!
//! - `typing`: the common type of operands, implicit casts, and the typed expression of an operator.
//! - `functions`: the registry. One family of functions per file.
//! - `sketch`: sketches in the formats of Apache DataSketches, for functions and for the aggregates of the engine.
//! - `fold`: constant folding, and facts for the optimizer: whether an expression can fail, whether it can be NULL.
//! - `evaluator`: computes the values of an expression for a batch.
//! - `json`: the parts of JSON documents, by path, and documents taken apart.
//! - `kernels`: arithmetic, comparisons, LIKE and casts, shared by batches and single rows.
//! - `regexp`: regular expressions, with a matcher of our own for the usual ones. `glob`: patterns of names.
//! - `unscaled`: the integers that hold decimals.
//! - `kinds`: properties of types that all of them need, and errors that name a type.
//! - `display`: the SQL text of an expression.
//! - `session_zone`: the time zone of the session, while a statement is bound.
//! - `time_buckets`: the beginnings of buckets of time, also in time zones.
//! - `text`: the text form of every type, read and written. No other code may read values from text.

pub mod display;
pub mod evaluator;
pub mod fold;
pub mod functions;
pub mod glob;
pub mod json;
pub mod kernels;
pub mod kinds;
mod regexp;
pub mod session_zone;
pub mod sketch;
pub mod text;
pub mod time_buckets;
pub mod typing;
mod unscaled;
