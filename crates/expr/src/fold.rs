//! Constant folding, and facts about expressions for the optimizer.

mod ascending;
mod bounds;
mod failure;
mod nulls;
mod simplify;

pub use ascending::{ascending_operand, threshold, value_of_number};
pub use bounds::is_never_true_within;
pub use failure::{can_fail, can_fail_within, operator_can_fail};
pub use nulls::{is_nullable, rejects_nulls};
pub use simplify::fold;

#[cfg(test)]
mod tests;
