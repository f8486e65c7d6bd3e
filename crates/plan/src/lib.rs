//! The plans that the planner hands to the engine. This crate has only data: no I/O and no execution, so neither
//! side can hide behaviour in it.

pub mod aggregate;
pub mod function;
mod group;
pub mod item_function;
pub mod join_order;
pub mod logical;
mod logical_text;
mod node;
mod predicate;
pub mod program;
mod scalar_expr;
mod text;
pub mod window;

pub use aggregate::{
    AggregateFunction, AggregateNulls, AggregateOrdering, AggregateParameter, AggregateRole, AggregateSpec,
};
pub use function::{FunctionSpec, Operand, Volatility};
pub use group::{Aggregate, AggregateOrder, Expr, Group, GroupKey, is_key_kind};
pub use item_function::ItemFunction;
pub use logical::{ColumnId, ColumnNames, Logical, LogicalQuery};
pub use node::{Expand, Foreign, Join, JoinKind, KeySet, Node, Recursive, Scan, Series, SetAll, SortKey, Unnest};
pub use predicate::{CompareOp, Predicate};
pub use scalar_expr::{Constant, DynamicFunction, ExprOp, ScalarExpr};
pub use text::{Names, where_clause};
pub use window::{FrameOffset, Window, WindowCall, WindowFunction};
