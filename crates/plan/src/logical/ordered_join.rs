//! The join along an order: `ASOF`, `LT`, `NEAREST` and `WINDOW` joins.

use crate::logical::AggregateCall;
use crate::{ColumnId, Logical, ScalarExpr};

/// A join by equal keys in which an order decides which of the right rows with the keys of a left row it meets.
///
/// The columns of both sides stay. With aggregates, the columns of the left side and the aggregates stay.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalOrderedJoin {
    /// The rows that each look for rows of the right side. They may be correlated, the right side must not be.
    pub left: Box<Logical>,
    /// The rows that are ordered.
    pub right: Box<Logical>,
    /// The keys: pairs of an expression over the left side and one over the right side of the same type. A NULL equals
    /// nothing.
    pub on: Vec<(ScalarExpr, ScalarExpr)>,
    /// The position of a right row in the order, over the right side. A row with NULL meets nothing.
    pub position: ScalarExpr,
    /// A column of the right side that orders rows of equal keys and position (BIGINT UNSIGNED).
    pub tie: Option<ColumnId>,
    /// The least position that a left row may meet.
    pub lower: Option<LogicalOrderBound>,
    /// The greatest position that a left row may meet.
    pub upper: Option<LogicalOrderBound>,
    /// The rows that a left row meets, of the right rows with its keys between its bounds.
    pub choice: LogicalOrderedChoice,
    /// Whether a left row that meets nothing is left out. Otherwise it is given once, with NULL in the columns of the
    /// right side. Without effect if there are aggregates.
    pub inner: bool,
    /// Aggregates over the rows that a left row meets, in place of these rows. Their expressions name only columns of
    /// the right side.
    pub aggregates: Option<Vec<(ColumnId, AggregateCall)>>,
}

/// A bound of the positions that a left row may meet. A row whose bound is NULL meets nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalOrderBound {
    /// The bound, over the left side, of the type of the position.
    pub expr: ScalarExpr,
    /// Whether a position that equals the bound is within it.
    pub inclusive: bool,
}

/// The rows that a left row meets, of the right rows with its keys between its bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum LogicalOrderedChoice {
    /// The one with the greatest position.
    Last,
    /// The one with the least position.
    First,
    /// The one whose position is closest to a value over the left side.
    Nearest(ScalarExpr),
    /// Every one.
    All,
    /// Every one and, if none has the position of the lower bound, also the last one before it.
    AllWithPrevailing,
}

impl LogicalOrderedJoin {
    /// All expressions of the operator.
    pub fn exprs(&self) -> Vec<&ScalarExpr> {
        let mut exprs: Vec<&ScalarExpr> = self.on.iter().flat_map(|(left, right)| [left, right]).collect();
        exprs.push(&self.position);
        exprs.extend(self.lower.iter().chain(&self.upper).map(|bound| &bound.expr));
        if let LogicalOrderedChoice::Nearest(to) = &self.choice {
            exprs.push(to);
        }
        for (_, call) in self.aggregates.iter().flatten() {
            exprs.extend(call.arguments.iter().chain(call.order.iter().map(|key| &key.expr)).chain(&call.filter));
        }
        exprs
    }

    /// All expressions of the operator, as mutable references.
    pub fn exprs_mut(&mut self) -> Vec<&mut ScalarExpr> {
        let mut exprs: Vec<&mut ScalarExpr> = self.on.iter_mut().flat_map(|(left, right)| [left, right]).collect();
        exprs.push(&mut self.position);
        exprs.extend(self.lower.iter_mut().chain(&mut self.upper).map(|bound| &mut bound.expr));
        if let LogicalOrderedChoice::Nearest(to) = &mut self.choice {
            exprs.push(to);
        }
        for (_, call) in self.aggregates.iter_mut().flatten() {
            let order = call.order.iter_mut().map(|key| &mut key.expr);
            exprs.extend(call.arguments.iter_mut().chain(order).chain(&mut call.filter));
        }
        exprs
    }
}
