//! Queries: from a syntax tree to a physical plan.
//!
//! ```text
//! syntax tree -> binder -> logical plan -> optimizer -> logical plan -> lowering -> physical plan
//! ```
//!
//! The modules, in the order in which a query passes them:
//!
//! - `catalog`: what the binder asks the database.
//! - `binder`: from the syntax tree to a logical plan. One file for each kind of clause or expression.
//!   `parameters`: puts values in the places of parameters. `reading`: gives a bound query other rows to read.
//! - `optimizer`: rules over the logical plan, one file each. `column_set`: sets of columns, which most rules use.
//! - `estimate`: rows that an operator is expected to return.
//! - `lower`: from the logical plan to the operators of the engine, one file for each kind of operator. `memory_rows`:
//!   rows that are in memory already, as an input of a plan.
//! - `program`: from the logical plan to a program, if the statement is on keyed tables.
//! - `origin`: the stored columns that a result shows.
//! - `syntax_walk`: walks over syntax trees, for the binder and for the crate `sql`.
//! - `widening`: casts that lose nothing, which keys and scans see through.
//! - `table_parts`: tables with parts of documents as columns.
//! - `reuse`: plans that later runs of a statement can use. `changed_groups`: queries whose results can be brought up
//!   to date group by group.
//!
//! The catalog is a trait, so this crate does not depend on sessions and transactions and its tests need no
//! database.

pub mod binder;
pub mod catalog;
pub mod changed_groups;
mod column_set;
pub mod estimate;
pub mod lower;
pub mod memory_rows;
pub mod optimizer;
mod origin;
pub mod parameters;
pub mod program;
mod reading;
mod reuse;
pub mod syntax_walk;
mod table_parts;
mod widening;

pub use lower::{PhysicalQuery, lower};
pub use reuse::UnreadTable;
