//! Queries: from a syntax tree to a physical plan.
//!
//! ```text
//! syntax tree -> binder -> logical plan -> optimizer -> logical plan -> lowering -> physical plan
//! ```
//!
//! The catalog is a trait, so this crate does not depend on sessions and transactions and its tests need no
//! database.

pub mod binder;
pub mod catalog;
mod column_set;
pub mod estimate;
pub mod lower;
pub mod memory_rows;
pub mod optimizer;
mod parameters;
pub mod program;
mod reuse;

pub use lower::{PhysicalQuery, lower};
