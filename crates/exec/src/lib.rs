//! The engine. Reads [`rowmill_storage::TableSource`]s by page frames; evaluates per distinct value what it can.

pub mod batch;
pub mod collect;
pub mod filter;
pub mod function;
pub mod group;
mod hash;
pub mod limit;
pub mod operator;
pub mod join;
pub mod key_filter;
mod numbers;
mod phase;
pub mod predicate;
pub mod project;
pub mod quotient;
pub mod regexp;
pub mod scan;
mod share;
pub mod sort;
#[cfg(test)]
mod test_input;
pub mod union;
pub mod values;
pub mod workers;
