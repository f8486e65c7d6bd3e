//! Guards: a statement may fail, but it must never take the process down.
//!
//! Everything that a hostile or careless statement can ask for has a limit, and we check each limit before we make the
//! thing. We check the text before we parse it ([`statement`]). The levels of that text bound the recursion of the
//! parser and of the planner. We compute what the queries of WITH multiply to before we plan ([`expansion`]), and the
//! bytes of a function's result before we allocate them. A panic ends only its statement ([`panics`]). Every refusal
//! must name what was asked, the limit and the setting.

mod expansion;
mod panics;
mod statement;

pub(crate) use expansion::check_expansion;
pub(crate) use panics::catch_panics;
pub(crate) use statement::{StatementLimits, check_statement, flatten_chains};
