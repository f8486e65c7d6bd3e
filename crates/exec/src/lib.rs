//! The engine. Reads [`rowmill_storage::TableSource`]s by page frames; evaluates per distinct value what it can.

pub mod batch;
pub mod function;
pub mod group;
mod hash;
pub mod join;
pub mod key_filter;
mod numbers;
mod phase;
pub mod predicate;
pub mod quotient;
pub mod scan;
