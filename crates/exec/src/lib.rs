//! The engine. Reads [`rowmill_storage::TableSource`]s by page frames; evaluates per distinct value what it can.

pub mod batch;
pub mod group;
mod like;
pub mod predicate;
pub mod quotient;
pub mod scan;
#[cfg(test)]
mod testing;
