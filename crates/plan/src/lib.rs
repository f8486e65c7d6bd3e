//! What the planner tells the engine. Data only: no I/O, no execution, nothing that either side could hide in it.

mod predicate;

pub use predicate::{CompareOp, Predicate};
