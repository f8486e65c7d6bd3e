//! Frames: for each row, the positions of the rows that a call reads.
//!
//! A frame is a range of positions within the partition of its row. EXCLUDE may split it into up to three ranges.

use std::ops::Range;

use rowmill_base::{Error, Result};
use rowmill_plan::logical::{FrameBound, FrameExclude, FrameUnit, WindowFrame};
use rowmill_plan::{FrameOffset, SortKey};

use super::evaluate::Evaluation;
use super::offset::{Offsets, distances};
use super::range::{RangeKeys, bounds_by_distance};
use super::sorted::SortedRows;

/// How the frames of neighbouring rows of a partition relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameShape {
    /// Every frame is the whole partition.
    Whole,
    /// Frames start with the partition, and none ends before the frame of the previous row.
    Growing,
    /// Frames end with the partition, and none starts before the frame of the previous row.
    Shrinking,
    /// Neither bound is before the same bound of the previous row.
    Sliding,
    /// Frames in no particular relation.
    Loose,
}

/// The frames of the rows of some partitions.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    pub(super) rows: &'a SortedRows,
    pub(super) shape: FrameShape,
    starts: Vec<u32>,
    ends: Vec<u32>,
    exclude: FrameExclude,
    /// The group of peers of each row. Only filled if EXCLUDE needs it.
    groups: Vec<u32>,
}

/// Whether computing `frame` needs the peers of rows.
pub(super) fn needs_peers(frame: &WindowFrame<FrameOffset>) -> bool {
    let is_free = |bound: &FrameBound<FrameOffset>| matches!(bound, FrameBound::Unbounded);
    let by_rows = frame.unit == FrameUnit::Rows || is_free(&frame.start) && is_free(&frame.end);
    !by_rows || matches!(frame.exclude, FrameExclude::Group | FrameExclude::Ties)
}

impl<'a> Frames<'a> {
    pub(super) fn new(
        frame: &WindowFrame<FrameOffset>,
        order: &[SortKey],
        evaluation: &Evaluation<'a>,
    ) -> Result<Frames<'a>> {
        let rows = evaluation.rows;
        let needs_groups = matches!(frame.exclude, FrameExclude::Group | FrameExclude::Ties);
        let groups = if needs_groups { group_numbers(rows) } else { Vec::new() };
        let mut frames = Frames {
            rows,
            shape: shape_of(frame),
            starts: Vec::new(),
            ends: Vec::new(),
            exclude: frame.exclude,
            groups,
        };
        // Every frame is its partition, so no bounds are needed.
        if frames.shape == FrameShape::Whole && frame.exclude == FrameExclude::NoOthers {
            return Ok(frames);
        }
        let keys = match (frame.unit, [&frame.start, &frame.end].into_iter().any(has_offset), order) {
            (FrameUnit::Range, true, [key]) => Some(RangeKeys::new(key, evaluation)?),
            (FrameUnit::Range, true, _) => {
                return Err(Error::internal("RANGE with an offset needs one ORDER BY value"));
            }
            _ => None,
        };
        frames.starts = bounds(frame.unit, &frame.start, FrameSide::Start, keys.as_ref(), evaluation)?;
        frames.ends = bounds(frame.unit, &frame.end, FrameSide::End, keys.as_ref(), evaluation)?;
        // If the start is after the end, the frame is empty.
        frames.ends.iter_mut().zip(&frames.starts).for_each(|(end, start)| *end = (*end).max(*start));
        // The clause does not tell the shape, but the bounds may still be sorted. Then a faster algorithm applies.
        if frames.shape == FrameShape::Loose && frames.are_ranges() {
            frames.shape = frames.shape_found(frame);
        }
        Ok(frames)
    }

    /// The frames from `starts` to `ends` over rows that they do not belong to. `rows` must be empty.
    pub(super) fn of_ranges(rows: &'a SortedRows, starts: &[u32], ends: &[u32]) -> Frames<'a> {
        let (starts, ends) = (starts.to_vec(), ends.to_vec());
        let (shape, exclude) = (FrameShape::Loose, FrameExclude::NoOthers);
        Frames { rows, shape, starts, ends, exclude, groups: Vec::new() }
    }

    /// The number of frames. Must not be called for frames that are whole partitions.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Finds the shape of frames that depends on the rows: we look whether the bounds are sorted.
    fn shape_found(&self, frame: &WindowFrame<FrameOffset>) -> FrameShape {
        let is_sliding = |bounds: &[u32]| self.rows.each_partition().all(|partition| bounds[partition].is_sorted());
        match (is_sliding(&self.starts), is_sliding(&self.ends)) {
            (true, true) if frame.start == FrameBound::Unbounded => FrameShape::Growing,
            // The ends of empty frames were moved up to their starts, so a shrinking frame may not end with its
            // partition.
            (true, true) => FrameShape::Sliding,
            _ => FrameShape::Loose,
        }
    }

    /// Whether every frame is its whole partition without excluded rows.
    pub(super) fn are_partitions(&self) -> bool {
        self.shape == FrameShape::Whole && self.exclude == FrameExclude::NoOthers
    }

    /// Whether every frame is one range without excluded rows.
    pub(super) fn are_ranges(&self) -> bool {
        self.exclude == FrameExclude::NoOthers
    }

    /// The starts and ends of the frames by position. Must not be called for frames that are whole partitions.
    pub(super) fn ranges(&self) -> impl ExactSizeIterator<Item = (usize, usize)> + Clone + '_ {
        self.starts.iter().zip(&self.ends).map(|(start, end)| (*start as usize, *end as usize))
    }

    /// The frame of a row without the excluded rows, as ranges in order. Some may be empty.
    pub(super) fn pieces(&self, position: usize) -> [Range<usize>; 3] {
        let (start, end) = (self.starts[position] as usize, self.ends[position] as usize);
        let cut = |range: Range<usize>| {
            let first = range.start.clamp(start, end);
            first..range.end.clamp(first, end)
        };
        let group = |groups: &[u32]| {
            let group = groups[position] as usize;
            self.rows.peers[group]..self.rows.peers[group + 1]
        };
        match self.exclude {
            FrameExclude::NoOthers => [start..end, end..end, end..end],
            FrameExclude::CurrentRow => [cut(start..position), cut(position + 1..end.max(position + 1)), end..end],
            FrameExclude::Group => {
                let peers = group(&self.groups);
                [cut(start..peers.start), cut(peers.end..end.max(peers.end)), end..end]
            }
            FrameExclude::Ties => {
                let peers = group(&self.groups);
                [cut(start..peers.start), cut(position..position + 1), cut(peers.end..end.max(peers.end))]
            }
        }
    }

    /// The average number of rows in a frame, rounded down.
    pub(super) fn rows_on_average(&self) -> usize {
        let total: u64 = self.starts.iter().zip(&self.ends).map(|(start, end)| u64::from(end - start)).sum();
        (total / self.starts.len().max(1) as u64) as usize
    }
}

/// The number of each row's group of peers.
fn group_numbers(rows: &SortedRows) -> Vec<u32> {
    let groups = rows.peers.windows(2).enumerate();
    groups.flat_map(|(number, ends)| std::iter::repeat_n(number as u32, ends[1] - ends[0])).collect()
}

fn has_offset(bound: &FrameBound<FrameOffset>) -> bool {
    matches!(bound, FrameBound::Preceding(_) | FrameBound::Following(_))
}

/// The shape of frames that follows from the frame clause alone, whatever the rows are.
fn shape_of(frame: &WindowFrame<FrameOffset>) -> FrameShape {
    use FrameBound::{CurrentRow, Following, Preceding, Unbounded};
    let is_steady = |bound: &FrameBound<FrameOffset>| match bound {
        Unbounded | CurrentRow => true,
        // With RANGE, adding a month can change the order of dates, and the frames of NULLs are different in kind.
        Preceding(FrameOffset::Constant(_)) | Following(FrameOffset::Constant(_)) => frame.unit != FrameUnit::Range,
        Preceding(_) | Following(_) => false,
    };
    if frame.exclude != FrameExclude::NoOthers {
        return FrameShape::Loose;
    }
    match (&frame.start, &frame.end) {
        (Unbounded, Unbounded) => FrameShape::Whole,
        (Unbounded, end) if is_steady(end) => FrameShape::Growing,
        (start, Unbounded) if is_steady(start) => FrameShape::Shrinking,
        (start, end) if is_steady(start) && is_steady(end) => FrameShape::Sliding,
        _ => FrameShape::Loose,
    }
}

/// Selects a bound of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameSide {
    Start,
    End,
}

impl FrameSide {
    /// The number to add to a position for this side: 1 for an end, because an end is the position after the last row.
    fn more(self) -> usize {
        usize::from(self == FrameSide::End)
    }
}

/// Computes one bound of every frame, by position: the first row of a frame, or the row after its last.
fn bounds(
    unit: FrameUnit,
    bound: &FrameBound<FrameOffset>,
    side: FrameSide,
    keys: Option<&RangeKeys<'_>>,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<u32>> {
    let rows = evaluation.rows;
    match (unit, bound) {
        (_, FrameBound::Unbounded) => Ok(ends_of(&rows.partitions, side, rows.len())),
        (FrameUnit::Rows, FrameBound::CurrentRow) => {
            let more = side.more() as u32;
            Ok((0..rows.len() as u32).map(|position| position + more).collect())
        }
        (FrameUnit::Groups | FrameUnit::Range, FrameBound::CurrentRow) => Ok(ends_of(&rows.peers, side, rows.len())),
        (FrameUnit::Rows, FrameBound::Preceding(offset)) => {
            Ok(by_rows(rows, &distances(offset, evaluation)?, |position, distance, partition| {
                (position + side.more()).saturating_sub(distance).max(partition.start)
            }))
        }
        (FrameUnit::Rows, FrameBound::Following(offset)) => {
            Ok(by_rows(rows, &distances(offset, evaluation)?, |position, distance, partition| {
                (position + side.more()).saturating_add(distance).min(partition.end)
            }))
        }
        (FrameUnit::Groups, FrameBound::Preceding(offset)) => {
            Ok(by_groups(rows, &distances(offset, evaluation)?, |group, distance, groups| {
                (group + side.more()).saturating_sub(distance).max(groups.start)
            }))
        }
        (FrameUnit::Groups, FrameBound::Following(offset)) => {
            Ok(by_groups(rows, &distances(offset, evaluation)?, |group, distance, groups| {
                (group + side.more()).saturating_add(distance).min(groups.end)
            }))
        }
        (FrameUnit::Range, FrameBound::Preceding(offset)) => bounds_by_distance(keys, offset, false, side, evaluation),
        (FrameUnit::Range, FrameBound::Following(offset)) => bounds_by_distance(keys, offset, true, side, evaluation),
    }
}

/// For each row, the start or the end of the range between neighbouring `ends` that contains the row.
pub(super) fn ends_of(ends: &[usize], side: FrameSide, rows: usize) -> Vec<u32> {
    let mut bounds = Vec::with_capacity(rows);
    for ends in ends.windows(2) {
        let bound = if side == FrameSide::Start { ends[0] } else { ends[1] };
        bounds.resize(ends[1], bound as u32);
    }
    bounds
}

fn by_rows(
    rows: &SortedRows,
    distances: &Offsets<usize>,
    bound: impl Fn(usize, usize, &Range<usize>) -> usize,
) -> Vec<u32> {
    let mut bounds = Vec::with_capacity(rows.len());
    for partition in rows.each_partition() {
        match distances {
            Offsets::Constant(distance) => {
                bounds.extend(partition.clone().map(|position| bound(position, *distance, &partition) as u32));
            }
            Offsets::PerRow(distances) => {
                bounds
                    .extend(partition.clone().map(|position| bound(position, distances[position], &partition) as u32));
            }
        }
    }
    bounds
}

/// Bounds at groups of peers. `bound` returns the number of the group whose start is the bound, or the number after
/// the last group for the end of the partition.
fn by_groups(
    rows: &SortedRows,
    distances: &Offsets<usize>,
    bound: impl Fn(usize, usize, &Range<usize>) -> usize,
) -> Vec<u32> {
    let mut bounds = Vec::with_capacity(rows.len());
    let mut next_group = 0;
    for partition in rows.each_partition() {
        let first = next_group;
        // A group of peers never crosses partitions, so both lists can be walked together.
        while rows.peers[next_group] < partition.end {
            next_group += 1;
        }
        let groups = first..next_group;
        for group in groups.clone() {
            for position in rows.peers[group]..rows.peers[group + 1] {
                bounds.push(rows.peers[bound(group, distances.get(position), &groups)] as u32);
            }
        }
    }
    bounds
}
