//! The plans that the planner hands to the engine. This crate has only data: no I/O and no execution, so neither
//! side can hide behaviour in it.
//!
//! The modules, in the order in which a query passes them:
//!
//! - `scalar_expr`: the typed expression. `function`, `item_function`, `aggregate`: what expressions call, as data.
//!   `expansion`: functions that stand for other expressions.
//! - `logical`, `logical_text`: the logical plan, and its text.
//! - `join_order`: the order in which joined relations are read.
//! - `node`: the physical plan, a tree of operators. `group`, `window`, `ordered_join`: its largest operators.
//!   `predicate`: conditions that a scan checks itself. `text`: its text for EXPLAIN.
//! - `fill`: rows for buckets of time without rows.
//! - `write`: the plan of a statement that changes rows.
//! - `program`: the plan of a prepared statement on keyed tables.

pub mod aggregate;
pub mod expansion;
pub mod fill;
pub mod function;
mod group;
pub mod item_function;
pub mod join_order;
pub mod logical;
mod logical_text;
mod node;
mod ordered_join;
mod predicate;
pub mod program;
mod scalar_expr;
mod text;
pub mod window;
pub mod write;

pub use aggregate::{
    AggregateFunction, AggregateNulls, AggregateOrdering, AggregateParameter, AggregateRole, AggregateSpec, SizeBounds,
};
pub use fill::{Fill, FillMode, FilledBuckets, LogicalFill};
pub use function::{FunctionSpec, Operand, Volatility};
pub use group::{Aggregate, AggregateOrder, Expr, Group, GroupKey, is_key_kind};
pub use item_function::ItemFunction;
pub use logical::{ColumnId, ColumnNames, Logical, LogicalQuery};
pub use node::{
    Expand, Foreign, Join, JoinBound, JoinKind, KeySet, Latest, Node, Recursive, Scan, Series, SetAll, SortKey, Unnest,
};
pub use ordered_join::{BoundOrigin, OrderBound, OrderedChoice, OrderedJoin, OrderedResult};
pub use predicate::{CompareOp, ComputedCondition, ConditionInput, Predicate};
pub use scalar_expr::{Constant, DynamicFunction, ExprOp, ScalarExpr};
pub use text::Names;
pub use window::{FrameOffset, Window, WindowCall, WindowFunction};
