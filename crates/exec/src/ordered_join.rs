//! Ordered joins: `ASOF`, `LT`, `NEAREST` and `WINDOW` joins.
//!
//! An ordered join is a hash join whose index also orders the rows of each key. The right side is the build side, and
//! the left side the probe side:
//!
//! ```text
//! gather, prepare   as in a hash join; batches are put in the order of their first positions, and rows whose position
//!          is NULL get no key                                                                    join/gather.rs
//! index    the rows of each key are brought together, and ordered by position and tie           key_order.rs
//! arrange  positions, and columns that aggregates read, in this order; aggregates are prepared      ordered_rows.rs
//! probe    a worker takes a batch of the left side, finds the keys of all its rows, then the places of their bounds
//!          (places.rs), then the rows between these (choice.rs, distance.rs) or the aggregates over them
//! ```
//!
//! If the right side does not fit into memory, both sides go to disk, into buckets by their keys, as those of a hash
//! join do (join/spill.rs). The rows of one key must fit into memory.
//!
//! A search begins at the place of the previous row with the same key. If both sides come in the order of time, the
//! next place is near, so that each row looks at a few positions only.

mod choice;
mod distance;
mod key_order;
mod layout;
mod ordered_rows;
mod places;
mod positions;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use rowmill_base::{Broker, Cancel, Error, ErrorKind, Result};
use rowmill_plan::{JoinKind, OrderBound, OrderedChoice, OrderedResult};
use rowmill_storage::spill::TempSpace;

pub(crate) use self::key_order::{KeyOrder, OrderedPart};
pub(crate) use self::layout::{OrderedLayout, columns_of_aggregates};
pub(crate) use self::ordered_rows::{OrderedAggregates, OrderedRows, PlaceRanges, PreparedAggregates, RowsMet};
pub(crate) use self::places::PlaceCursors;
pub(crate) use self::positions::first_position;
use crate::batch::BatchSource;
use crate::join::{HashJoin, JoinRequest};

/// A request for an ordered join: see [`rowmill_plan::OrderedJoin`].
#[derive(Clone, Debug)]
pub struct OrderedJoinRequest {
    /// The keys: pairs of a column of the left side and a column of the right side, each of the same Arrow type.
    pub on: Vec<(usize, usize)>,
    /// Whether NULL equals NULL in a key.
    pub nulls_equal: bool,
    /// The order of the right side, and the rows of it that a left row meets.
    pub order: OrderRules,
    /// What the join returns.
    pub result: OrderedResult,
    /// The columns of the result, as positions in the columns of the left side followed by those of the right side.
    pub output: Vec<usize>,
    /// The schema of the result: the types of `output`, then those of the aggregates.
    pub schema: SchemaRef,
    /// The most rows of a batch.
    pub batch_rows: usize,
    /// Ends the work early. Workers check it once per batch.
    pub cancel: Cancel,
    /// Grants the memory for the right side.
    pub broker: Broker,
    /// The place of temporary files.
    pub temp: TempSpace,
}

/// The order of the right side, and the rows of it that a left row meets.
#[derive(Clone, Debug)]
pub struct OrderRules {
    /// The right column with the position of a row.
    pub position: usize,
    /// The right column (UInt64) that orders rows of equal key and position.
    pub tie: Option<usize>,
    /// The least position that a left row may meet.
    pub lower: Option<OrderBound>,
    /// The greatest position that a left row may meet.
    pub upper: Option<OrderBound>,
    /// The rows that a left row meets, of those between its bounds.
    pub choice: OrderedChoice,
}

/// What makes a hash join an ordered one.
#[derive(Clone, Debug)]
pub struct OrderedRequest {
    pub(crate) rules: OrderRules,
    /// The aggregates, if the join returns them in place of right columns.
    pub(crate) aggregates: Option<Vec<rowmill_plan::Aggregate>>,
}

/// Prepares an ordered join of `left` with the rows of `right`. Reads no rows. Fails if the request does not fit the
/// inputs.
pub fn ordered_join(
    left: Arc<dyn BatchSource>,
    right: Arc<dyn BatchSource>,
    request: OrderedJoinRequest,
) -> Result<Arc<HashJoin>> {
    let request = join_request(left.schema(), right.schema(), request)?;
    HashJoin::new(right, left, request)
}

/// The request for the hash join of `right`, as the build side, with `left`.
fn join_request(left: &Schema, right: &Schema, request: OrderedJoinRequest) -> Result<JoinRequest> {
    let OrderedJoinRequest { on, nulls_equal, order, result, output, schema, .. } = request;
    let (of_left, of_right) = (left.fields().len(), right.fields().len());
    let (kind, aggregates) = match result {
        OrderedResult::Rows { inner: true } => (JoinKind::Inner, None),
        OrderedResult::Rows { inner: false } => (JoinKind::ProbeOuter, None),
        OrderedResult::Aggregates(aggregates) => (JoinKind::ProbeOuter, Some(aggregates)),
    };
    // The columns of a pair begin with those of the right side, because it is the build side.
    let in_pair = |column: usize| match column.checked_sub(of_left) {
        None => of_right + column,
        Some(column) => column,
    };
    if let Some(column) = output.iter().find(|column| **column >= of_left + of_right) {
        return Err(Error::internal(format!("an invalid join: column {column} of {}", of_left + of_right)));
    }
    Ok(JoinRequest {
        kind,
        on: on.into_iter().map(|(left, right)| (right, left)).collect(),
        nulls_equal,
        residual: None,
        bounds: Vec::new(),
        output: output.into_iter().map(in_pair).collect(),
        schema,
        batch_rows: request.batch_rows,
        cancel: request.cancel,
        broker: request.broker,
        temp: request.temp,
        null_aware: false,
        ordered: Some(Arc::new(OrderedRequest { rules: order, aggregates })),
    })
}

/// The error for a position of a type whose values have no distances.
fn no_distances(kind: &DataType) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the nearest of values of {kind} is not defined"))
        .hint("use a number, a date, a time or a timestamp as the position")
}
