//! What the planner tells the engine. Data only: no I/O, no execution, nothing that either side could hide in it.

mod group;
pub mod join_order;
mod node;
mod predicate;
pub mod program;
mod text;

pub use group::{Aggregate, AggregateFunction, AggregateOrder, Expr, Group, Key, is_aggregated, is_key_kind};
pub use node::{Expand, Foreign, Join, JoinKind, KeySet, Node, Scan, SortKey};
pub use predicate::{CompareOp, Predicate};
pub use text::{Names, where_clause};
