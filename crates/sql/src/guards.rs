//! A statement can fail, never the process.
//!
//! What a hostile or careless statement can ask for has a bound, and each bound is checked before the thing is made:
//! the text before it is parsed ([`statement`]), the recursion of the parser and of the planner by the levels of that
//! text, what the queries of WITH multiply to ([`expansion`]), the bytes of a function's result before they are allocated. A panic ends its statement ([`panics`]). Every
//! refusal names what was asked, the limit and the setting.

mod expansion;
mod panics;
mod statement;

pub use expansion::check_expansion;
pub use panics::{catch_panics, quiet_panics};
pub use statement::{StatementLimits, check_statement, flatten_chains};
