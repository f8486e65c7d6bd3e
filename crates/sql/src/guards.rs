//! A statement can fail, never the process.
//!
//! What a hostile or careless statement can ask for has a bound here, and each bound is checked before the thing is
//! made: the text before it is parsed ([`statement`]), the planner's recursion on a stack that is large enough and
//! under the deadline ([`stack`]), the bytes of a function's result before they are allocated ([`functions`]), the
//! operators' memory from the one broker ([`pool`]), the rounds of a recursive query and the frames between two looks
//! at the cancel flag ([`plan`], [`stream`]). Every refusal names what was asked, the limit and the setting.

mod expansion;
mod functions;
mod growth;
mod lexer;
mod optimizer;
mod options;
mod plan;
mod pool;
mod stack;
mod statement;
mod stream;

pub use expansion::check_expansion;
pub(crate) use functions::{bound_aggregates, bound_scalars, bounded};
pub use growth::check_growth;
pub use optimizer::bounded_rules;
pub use options::GuardOptions;
pub use plan::{guard_joins, guard_plan, without_checkpoint};
pub use pool::BrokerPool;
pub use stack::{Patience, STACK_BYTES, catch_panics, quiet_panics, run_on_large_stack};
pub use statement::{StatementLimits, check_statement, flatten_chains};
pub use stream::guarded_stream;

#[cfg(test)]
mod tests;
