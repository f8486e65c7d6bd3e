//! Ranks: functions of the position of a row in its partition.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::FrameOffset;
use rowmill_plan::logical::{RankFunction, share_of_rank, tile_of_row};

use super::evaluate::Evaluation;
use super::offset::integers;
use super::sorted::SortedRows;

/// Computes the ranks of rows.
pub(super) fn ranks(function: RankFunction, rows: &SortedRows) -> ArrayRef {
    let mut numbers: Vec<i64> = Vec::new();
    let mut shares: Vec<f64> = Vec::new();
    match function {
        RankFunction::RowNumber => {
            numbers.reserve(rows.len());
            rows.each_partition().for_each(|partition| numbers.extend(1..=partition.len() as i64));
        }
        RankFunction::Rank => each_group(rows, |partition, _, group| {
            numbers.resize(group.end, (group.start - partition.start + 1) as i64);
        }),
        RankFunction::DenseRank => each_group(rows, |_, number, group| numbers.resize(group.end, number as i64 + 1)),
        RankFunction::PercentRank => each_group(rows, |partition, _, group| {
            shares.resize(group.end, share_of_rank(group.start - partition.start, partition.len()));
        }),
        RankFunction::CumulativeShare => each_group(rows, |partition, _, group| {
            shares.resize(group.end, (group.end - partition.start) as f64 / partition.len() as f64);
        }),
    }
    match function {
        RankFunction::RowNumber | RankFunction::Rank | RankFunction::DenseRank => Arc::new(Int64Array::from(numbers)),
        RankFunction::PercentRank | RankFunction::CumulativeShare => Arc::new(Float64Array::from(shares)),
    }
}

/// Calls `each` with each partition, the number of each group of peers in it, and the range of the group.
fn each_group(rows: &SortedRows, mut each: impl FnMut(&std::ops::Range<usize>, usize, std::ops::Range<usize>)) {
    let mut groups = rows.peers.windows(2);
    for partition in rows.each_partition() {
        if partition.is_empty() {
            continue;
        }
        for (number, ends) in groups.by_ref().enumerate() {
            each(&partition, number, ends[0]..ends[1]);
            if ends[1] == partition.end {
                break;
            }
        }
    }
}

/// Computes `ntile`: the part of each row. If the parts cannot have equal sizes, the first ones have one more row.
pub(super) fn tiles(parts: &FrameOffset, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
    let parts = integers(parts, evaluation)?;
    let mut tiles = Vec::with_capacity(evaluation.rows.len());
    for partition in evaluation.rows.each_partition() {
        for position in partition.clone() {
            let tile = match parts.get(position) {
                None => None,
                Some(parts) if parts <= 0 => {
                    let message = format!("ntile is asked for {parts} parts, but it needs at least one");
                    return Err(Error::new(ErrorKind::InvalidParameter, message));
                }
                Some(parts) => Some(tile_of_row((position - partition.start) as i64, partition.len() as i64, parts)),
            };
            tiles.push(tile);
        }
    }
    Ok(Arc::new(Int64Array::from(tiles)))
}
