//! Expressions: how they are typed, evaluated and folded, and which functions there are.
//!
//! The modules in the order in which an expression meets them:
//!
//! - `typing`: the common type of operands, implicit casts, and the typed expression of an operator.
//! - `functions`: the registry. One family of functions per file.
//! - `fold`: constants, and what the optimizer asks of an expression: whether it can fail, whether it can be NULL.
//! - `evaluator`: the values of an expression for a batch.
//! - `kernels`: arithmetic, comparisons, LIKE, casts; shared by batches and by single rows.
//! - `kinds`: what all of them ask of a type, and the errors that name one.
//! - `display`: the SQL text of an expression.
//! - `text`: the text form of every type, read and written. There is no other reader of values.

pub mod display;
pub mod evaluator;
pub mod fold;
pub mod functions;
pub mod kernels;
pub mod kinds;
pub mod regexp;
pub mod text;
pub mod typing;
