//! The choice of a join by slices of time for a join along an order.

use std::sync::Arc;

use rowmill_base::{Broker, Result};
use rowmill_plan::{Aggregate, Expr, Node, OrderedChoice, OrderedJoin, OrderedResult, Scan};
use rowmill_storage::TableSource;
use rowmill_storage::spill::TempSpace;

use super::builder::Builder;
use crate::sliced_join::{JoinSlices, SliceSide, SlicedJoin, SlicedRequest, SlicedResult, TimeReach};

/// The sides and slices of a join that can go by slices of time.
struct SlicedWay {
    left: SliceSide,
    right: SliceSide,
    slices: JoinSlices,
    result: SlicedResult,
}

/// Describes in words how the engine carries out a join along an order, if it is not the usual way, by an index.
pub fn ordered_join_way(join: &OrderedJoin, tables: &[Arc<dyn TableSource>]) -> Option<String> {
    // If a zone map cannot be read, the query will say so.
    let way = SlicedWay::of(join, tables).ok().flatten()?;
    Some(format!("in {} slices of time", way.slices.count()))
}

impl Builder {
    /// A join of two tables in the order of time, which needs no index of the right side.
    pub(super) fn sliced_join(
        &self,
        join: &OrderedJoin,
        (broker, temp): (&Broker, &TempSpace),
    ) -> Result<Option<Arc<SlicedJoin>>> {
        let Some(SlicedWay { left, right, slices, result }) = SlicedWay::of(join, &self.tables)? else {
            return Ok(None);
        };
        Ok(Some(SlicedJoin::new(SlicedRequest {
            left,
            right,
            slices,
            result,
            schema: Arc::clone(&join.schema),
            batch_rows: self.batch_rows,
            cancel: self.cancel.clone(),
            broker: broker.clone(),
            temp: temp.clone(),
        })))
    }
}

/// A scan, and the column of the scan that each column of a node above it is. `None` for computed columns and row
/// numbers.
fn scan_below(node: &Node) -> Option<(&Scan, Vec<Option<usize>>)> {
    match node {
        Node::Scan(scan) => {
            let column = |column: usize| (column < scan.columns.len()).then_some(column);
            Some((scan, (0..scan.schema.fields().len()).map(column).collect()))
        }
        Node::Project { input, exprs, .. } => {
            let (scan, below) = scan_below(input)?;
            let column = |expr: &Expr| match expr {
                Expr::Column(column) => below[*column],
                Expr::Function(_) => None,
            };
            Some((scan, exprs.iter().map(column).collect()))
        }
        _ => None,
    }
}

/// The columns of a scan that a join needs, each once.
#[derive(Default)]
struct KeptColumns(Vec<usize>);

impl KeptColumns {
    /// The position of a column among the kept ones.
    fn place(&mut self, column: usize) -> usize {
        self.0.iter().position(|kept| *kept == column).unwrap_or_else(|| {
            self.0.push(column);
            self.0.len() - 1
        })
    }
}

impl SlicedWay {
    /// Returns `None` if the join cannot go by slices of time, or if that does not pay.
    fn of(join: &OrderedJoin, tables: &[Arc<dyn TableSource>]) -> Result<Option<SlicedWay>> {
        match SlicedWay::sides(join, tables) {
            Some((left, right, reach, result)) => {
                let is_bounded = matches!(result, SlicedResult::Aggregates { .. });
                let slices = JoinSlices::of(&left, &right, reach, is_bounded)?;
                Ok(slices.map(|slices| SlicedWay { left, right, slices, result }))
            }
            None => Ok(None),
        }
    }

    fn sides(
        join: &OrderedJoin,
        tables: &[Arc<dyn TableSource>],
    ) -> Option<(SliceSide, SliceSide, TimeReach, SlicedResult)> {
        let (left, left_columns) = scan_below(&join.left)?;
        let (right, right_columns) = scan_below(&join.right)?;
        let (time, reach) = reach(join)?;
        // Ties are ordered by the numbers of rows, and by nothing else.
        let is_tied = |tie: usize| match &*join.right {
            Node::Scan(scan) => scan.row_number && tie == scan.columns.len(),
            Node::Project { input, exprs, .. } => match (&**input, exprs.get(tie)) {
                (Node::Scan(scan), Some(Expr::Column(column))) => scan.row_number && *column == scan.columns.len(),
                _ => false,
            },
            _ => false,
        };
        if join.nulls_equal || !join.tie.is_none_or(is_tied) {
            return None;
        }
        let (mut of_left, mut of_right) = (KeptColumns::default(), KeptColumns::default());
        let width = left_columns.len();
        let result = match &join.result {
            OrderedResult::Rows { inner } if join.choice == OrderedChoice::Last => {
                let output = join.output.iter().map(|column| {
                    Some(match column.checked_sub(width) {
                        None => (false, of_left.place(left_columns[*column]?)),
                        Some(column) => (true, of_right.place(right_columns[column]?)),
                    })
                });
                let strict = !join.upper?.inclusive;
                SlicedResult::Last { strict, inner: *inner, output: output.collect::<Option<_>>()? }
            }
            OrderedResult::Aggregates(aggregates) => {
                if !join.lower?.inclusive || !join.upper?.inclusive {
                    return None;
                }
                let output = join.output.iter().map(|column| Some(of_left.place(left_columns[*column]?)));
                let output = output.collect::<Option<_>>()?;
                let mut aggregates: Vec<Aggregate> = aggregates.clone();
                for expr in aggregates.iter_mut().flat_map(Aggregate::exprs_mut) {
                    match expr {
                        Expr::Column(column) => *column = of_right.place(right_columns[*column]?),
                        Expr::Function(_) => return None,
                    }
                }
                let with_prevailing = match join.choice {
                    OrderedChoice::All => false,
                    OrderedChoice::AllWithPrevailing => true,
                    _ => return None,
                };
                SlicedResult::Aggregates { output, aggregates, with_prevailing }
            }
            OrderedResult::Rows { .. } => return None,
        };
        let keys = |columns: &[Option<usize>], of: fn(&(usize, usize)) -> usize| -> Option<Vec<usize>> {
            join.on.iter().map(|pair| columns[of(pair)]).collect()
        };
        let (left_keys, right_keys) = (keys(&left_columns, |pair| pair.0)?, keys(&right_columns, |pair| pair.1)?);
        let side =
            |scan: &Scan, keys, time, kept| SliceSide::new(Arc::clone(&tables[scan.table]), scan, keys, time, kept);
        let left = side(left, left_keys, left_columns[time]?, of_left.0)?;
        let right = side(right, right_keys, right_columns[join.position]?, of_right.0)?;
        Some((left, right, reach, result))
    }
}

/// The left column of the time, and the distances of the bounds from it. `None` if the distances differ from row to
/// row.
fn reach(join: &OrderedJoin) -> Option<(usize, TimeReach)> {
    let upper = join.upper?.origin?;
    let lower = match join.lower {
        None => None,
        Some(bound) => Some(bound.origin.filter(|origin| bound.inclusive && origin.column == upper.column)?),
    };
    let reach = TimeReach { lower: lower.map(|lower| lower.ticks), upper: upper.ticks };
    reach.lower.is_none_or(|lower| lower <= reach.upper).then_some((upper.column, reach))
}
