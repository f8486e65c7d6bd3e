//! The ordered join: `ASOF`, `LT`, `NEAREST` and `WINDOW` joins.
//!
//! ```text
//! rows of the right side with the key of a left row, by their position
//!
//!     lower                      upper
//!       |                          |
//!   a   |   b       c      d       |   e        Last: d   First: b   All: b, c, d   AllWithPrevailing: a, b, c, d
//!                     |
//!                     to                        Nearest: c
//! ```

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::{Aggregate, Expr, Node};

/// A join by equal keys in which an order decides which of the right rows with the key of a left row it meets.
///
/// A right row whose position is NULL meets nothing. NaN is above all other positions. The rows come in any order.
#[derive(Clone, Debug)]
pub struct OrderedJoin {
    /// The rows that each look for their rows of the right side.
    pub left: Arc<Node>,
    /// The rows that are ordered. They are kept in memory, by their keys.
    pub right: Arc<Node>,
    /// The keys: pairs of a column of `left` and a column of `right`, which must have the same type.
    pub on: Vec<(usize, usize)>,
    /// Whether NULL equals NULL in a key. Otherwise a NULL equals nothing.
    pub nulls_equal: bool,
    /// The right column with the position of a row: a number, date, time, timestamp, text or blob.
    pub position: usize,
    /// The right column (BIGINT UNSIGNED) that orders rows of equal key and position. Without it, their order is
    /// unspecified.
    pub tie: Option<usize>,
    /// The least position that a left row may meet.
    pub lower: Option<OrderBound>,
    /// The greatest position that a left row may meet.
    pub upper: Option<OrderBound>,
    /// The rows that a left row meets, of those between its bounds.
    pub choice: OrderedChoice,
    /// What the join gives for the rows that meet.
    pub result: OrderedResult,
    /// The columns of the result, as positions in the columns of `left` followed by those of `right`. With aggregates,
    /// they must be columns of `left`.
    pub output: Vec<usize>,
    /// The result: the columns of `output`, then the aggregates.
    pub schema: SchemaRef,
}

/// A bound of the positions that a left row may meet. A row whose bound is NULL meets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OrderBound {
    /// The left column of the bound, which must have the type of the position.
    pub column: usize,
    /// Whether a position that equals the bound is within it.
    pub inclusive: bool,
    /// Where the bound is a timestamp at the same distance from another one in each row: that one. An engine may use
    /// it in place of the column.
    pub origin: Option<BoundOrigin>,
}

/// The timestamp from which a bound has the same distance in each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BoundOrigin {
    /// The left column of the timestamp, of the type of the bound.
    pub column: usize,
    /// The distance in units of the type: the bound is the timestamp plus this. A result outside of the type is an
    /// error.
    pub ticks: i64,
}

/// The rows that a left row meets, of the right rows with its key between its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderedChoice {
    /// The one with the greatest position; of ties the last.
    Last,
    /// The one with the least position; of ties the first.
    First,
    /// The one whose position is closest to a left value. If two are equally close, the earlier one. Of ties, the one
    /// that is next to the value in the order: the last of those that are not after it, the first of those after it.
    /// Positions must be numbers, dates, times or timestamps.
    Nearest {
        /// The left column of the value, which must have the type of the position. A row meets nothing if it is NULL.
        to: usize,
    },
    /// Every one.
    All,
    /// Every one and, if no row with the key has the position `lower`, also the last one before `lower`. Its value
    /// prevails when the window of the left row begins. It may be after `upper`, if that is less than `lower`.
    AllWithPrevailing,
}

/// What an ordered join gives.
#[derive(Clone, Debug)]
pub enum OrderedResult {
    /// Pairs of rows that meet.
    Rows {
        /// Whether a left row that meets nothing is left out. Otherwise it is given once, with NULL in the columns of
        /// the right side.
        inner: bool,
    },
    /// Each left row once, with aggregates over the rows that it meets. The choice must be [`OrderedChoice::All`] or
    /// [`OrderedChoice::AllWithPrevailing`]. Without an order of its own, an aggregate gets the rows by their
    /// positions. The expressions of an aggregate must be columns of `right`.
    Aggregates(Vec<Aggregate>),
}

impl OrderedJoin {
    /// The number of columns of `left` and `right` together.
    pub fn columns(&self) -> usize {
        self.left.schema().fields().len() + self.right.schema().fields().len()
    }

    /// The side that a column of the result comes from, and its position there. `None` for an aggregate.
    pub fn side(&self, column: usize) -> Option<(&Node, usize)> {
        let place = *self.output.get(column)?;
        let of_left = self.left.schema().fields().len();
        Some(match place.checked_sub(of_left) {
            None => (&self.left, place),
            Some(place) => (&self.right, place),
        })
    }

    /// Whether a column of the result can be NULL.
    pub(crate) fn is_nullable(&self, column: usize) -> bool {
        match (&self.result, self.side(column)) {
            (_, Some((side, column))) if std::ptr::eq(side, &*self.left) => self.left.is_nullable(column),
            (OrderedResult::Rows { inner }, Some((side, column))) => !inner || side.is_nullable(column),
            (OrderedResult::Aggregates(aggregates), None) => {
                !aggregates[column - self.output.len()].function.is_zero_of_nothing
            }
            _ => true,
        }
    }

    /// The names of the result's columns. `left` and `right` give the names of the inputs' columns.
    pub(crate) fn names(&self, left: &dyn Fn(usize) -> String, right: &dyn Fn(usize) -> String) -> Vec<String> {
        let of_left = self.left.schema().fields().len();
        let name = |column: &usize| match column.checked_sub(of_left) {
            None => left(*column),
            Some(column) => right(column),
        };
        self.output.iter().map(name).chain(self.aggregate_texts(right)).collect()
    }

    fn aggregate_texts(&self, right: &dyn Fn(usize) -> String) -> Vec<String> {
        let name = |expr: Expr| match expr {
            Expr::Column(column) => right(column),
            Expr::Function(_) => "?".to_owned(),
        };
        match &self.result {
            OrderedResult::Rows { .. } => Vec::new(),
            OrderedResult::Aggregates(aggregates) => aggregates.iter().map(|call| call.text(&name)).collect(),
        }
    }

    /// The operator as EXPLAIN shows it. `left` and `right` give the names of the inputs' columns, `way` says how the
    /// engine joins.
    pub(crate) fn text(
        &self,
        left: &dyn Fn(usize) -> String,
        right: &dyn Fn(usize) -> String,
        way: Option<String>,
    ) -> String {
        let mut parts = match &self.result {
            OrderedResult::Rows { inner: true } => vec!["inner".to_owned()],
            OrderedResult::Rows { inner: false } => vec!["outer (first)".to_owned()],
            OrderedResult::Aggregates(_) => self.aggregate_texts(right),
        };
        if !self.on.is_empty() {
            let on = self.on.iter().map(|(of_left, of_right)| format!("{} = {}", left(*of_left), right(*of_right)));
            parts.push(format!("on [{}]", on.collect::<Vec<_>>().join(", ")));
        }
        let sign = |bound: &OrderBound| if bound.inclusive { "<=" } else { "<" };
        let lower = self.lower.as_ref().map(|bound| format!("{} {} ", left(bound.column), sign(bound)));
        let upper = self.upper.as_ref().map(|bound| format!(" {} {}", sign(bound), left(bound.column)));
        if lower.is_some() || upper.is_some() {
            let position = right(self.position);
            parts.push(format!("where {}{position}{}", lower.unwrap_or_default(), upper.unwrap_or_default()));
        }
        let tie = self.tie.map(|tie| format!(", {}", right(tie))).unwrap_or_default();
        let order = format!("by [{}{tie}]", right(self.position));
        parts.push(match self.choice {
            OrderedChoice::Last => format!("last {order}"),
            OrderedChoice::First => format!("first {order}"),
            OrderedChoice::Nearest { to } => format!("nearest to {} {order}", left(to)),
            OrderedChoice::All => format!("all {order}"),
            OrderedChoice::AllWithPrevailing => format!("all and the prevailing one {order}"),
        });
        parts.extend(way);
        format!("Ordered join: {}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests;
