//! Window functions: rows with values that depend on other rows of their partition.
//!
//! The rows of a read are sorted by partition and order. Each window value is then computed from the first row of a
//! partition to its last. An aggregate is continued from row to row as long as its frame only grows, and is computed
//! from scratch otherwise.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use rowmill_base::{Error, Result, SqlType};
use rowmill_plan::logical::{FrameExclude, FrameRow, RankFunction, share_of_rank, tile_of_row};
use rowmill_plan::program::{self, FrameEnd, RowFrame, WindowValue};
use rowmill_storage::keyed::ValueRef;

use crate::aggregate::{Aggregate, Total};
use crate::expr::{Env, ExprCompiler, RowsLayout, unsupported};
use crate::pace::{Pace, bounded};
use crate::result_rows::ResultRows;
use crate::texts::ComputedTexts;
use crate::way::Way;

/// Rows that frames may read again in total. With more, the batch engine is better, because it keeps partial results.
const FRAME_ROWS_MAX: usize = 1 << 20;

/// The windows of a lookup, ready to run.
#[derive(Debug)]
pub(crate) struct Windows {
    partition: Box<[usize]>,
    order: Box<[(usize, Way)]>,
    values: Box<[WindowCallValue]>,
    /// How many columns of the read are given.
    columns: usize,
    /// The types of the given columns, then those of the window values.
    kinds: Arc<[SqlType]>,
    texts: usize,
}

#[derive(Debug)]
enum WindowCallValue {
    Rank(RankFunction),
    Ntile(i64),
    Shift { value: usize, rows: i64, default: Option<usize> },
    Aggregate(Box<Aggregate>, RowFrame),
    Nth { value: usize, nth: FrameRow<i64>, frame: RowFrame },
}

/// Memory that windows need, kept from one run to the next.
#[derive(Debug, Default)]
pub(crate) struct WindowScratch {
    /// The rows of the read.
    pub(crate) rows: ResultRows,
    /// The positions of the rows, sorted by partition and order.
    places: Vec<usize>,
    /// For each window value, its result for each row in sorted order.
    values: Vec<ResultRows>,
    total: Total,
    texts: ComputedTexts,
}

impl Windows {
    /// Compiles `windows`, but not its read, for parameters of these types.
    pub(crate) fn new(windows: &program::WindowRows, parameters: &[SqlType]) -> Result<Windows> {
        let invalid = || Error::internal("the program has a window over columns that its read does not have");
        let kinds: Arc<[SqlType]> = windows.output().ok_or_else(invalid)?.into();
        let columns = windows.read.output();
        let layout = RowsLayout::of_all([columns.clone()]);
        let mut compiler = ExprCompiler::new(parameters, &layout, 1);
        let values = windows.values.iter().map(|value| {
            Ok(match value {
                WindowValue::Rank(function) => WindowCallValue::Rank(*function),
                WindowValue::Ntile(parts) => WindowCallValue::Ntile(*parts),
                WindowValue::Shift { value, rows, default } => {
                    WindowCallValue::Shift { value: *value, rows: *rows, default: *default }
                }
                WindowValue::Aggregate(of, frame) => {
                    WindowCallValue::Aggregate(Box::new(Aggregate::new(of, &mut compiler)?), *frame)
                }
                WindowValue::Nth { value, nth, frame } => {
                    WindowCallValue::Nth { value: *value, nth: nth.clone(), frame: *frame }
                }
            })
        });
        let values = values.collect::<Result<_>>()?;
        let order = windows.order.iter().map(|by| {
            let is_ordered = columns.get(by.column).is_some_and(SqlType::is_ordered);
            is_ordered.then_some((by.column, Way { descending: by.descending, nulls_first: by.nulls_first }))
        });
        let order = order.collect::<Option<_>>().ok_or_else(invalid)?;
        if windows.partition.iter().any(|column| !columns.get(*column).is_some_and(SqlType::is_ordered)) {
            return Err(invalid());
        }
        let (partition, texts) = (windows.partition.as_slice().into(), compiler.texts());
        Ok(Windows { partition, order, values, columns: windows.columns, kinds, texts })
    }

    /// The types of the columns of its result.
    pub(crate) fn kinds(&self) -> &Arc<[SqlType]> {
        &self.kinds
    }

    /// Appends the rows of the read that `scratch` holds, with their window values, to `out`.
    pub(crate) fn run(
        &self,
        parameters: &[ValueRef<'_>],
        scratch: &mut WindowScratch,
        pace: &mut Pace<'_>,
        out: &mut ResultRows,
    ) -> Result<()> {
        let WindowScratch { rows, places, values, total, texts } = scratch;
        places.clear();
        places.extend(0..rows.len());
        // Rows that compare equal keep their order, as in the general engine.
        places.sort_unstable_by(|left, right| self.compare(rows, *left, *right).then(left.cmp(right)));
        values.resize_with(values.len().max(self.values.len()), ResultRows::default);
        let columns = self.columns;
        for (at, value) in self.values.iter().enumerate() {
            let kind: Arc<[SqlType]> = [self.kinds[columns + at].clone()].into();
            values[at].start(&kind);
            let mut of = OfPartition { windows: self, rows, places, parameters, total, texts, frame_rows: 0 };
            let mut start = 0;
            while start < places.len() {
                let in_partition =
                    |place: &&usize| self.compare_partition(rows, places[start], **place) == Ordering::Equal;
                // The rows are sorted, so a partition ends at the first row with another key.
                let end = start + places[start..].iter().take_while(in_partition).count();
                of.give(value, start..end, pace, &mut values[at])?;
                start = end;
            }
        }
        for (number, place) in places.iter().enumerate() {
            (0..columns).for_each(|column| out.push(rows.get(*place, column)));
            values[..self.values.len()].iter().for_each(|value| out.push(value.get(number, 0)));
            out.end_row();
            bounded(out.bytes())?;
        }
        Ok(())
    }

    fn compare_partition(&self, rows: &ResultRows, left: usize, right: usize) -> Ordering {
        let way = Way { descending: false, nulls_first: false };
        let columns = self.partition.iter();
        columns.map(|at| way.compare(rows.get(left, *at), rows.get(right, *at))).fold(Ordering::Equal, Ordering::then)
    }

    fn compare_order(&self, rows: &ResultRows, left: usize, right: usize) -> Ordering {
        let columns = self.order.iter();
        let compared = columns.map(|(at, way)| way.compare(rows.get(left, *at), rows.get(right, *at)));
        compared.fold(Ordering::Equal, Ordering::then)
    }

    fn compare(&self, rows: &ResultRows, left: usize, right: usize) -> Ordering {
        self.compare_partition(rows, left, right).then_with(|| self.compare_order(rows, left, right))
    }
}

/// Computes a window value for the rows of one partition after another.
struct OfPartition<'w> {
    windows: &'w Windows,
    rows: &'w ResultRows,
    places: &'w [usize],
    parameters: &'w [ValueRef<'w>],
    total: &'w mut Total,
    texts: &'w mut ComputedTexts,
    /// Rows of frames that were read more than once, so far.
    frame_rows: usize,
}

impl OfPartition<'_> {
    /// Computes a window value for each row of the partition at `range` of the sorted rows.
    fn give(
        &mut self,
        value: &WindowCallValue,
        range: Range<usize>,
        pace: &mut Pace<'_>,
        out: &mut ResultRows,
    ) -> Result<()> {
        match value {
            WindowCallValue::Rank(function) => {
                self.ranks(*function, range, out);
                Ok(())
            }
            WindowCallValue::Ntile(parts) => {
                for row in 0..range.len() as i64 {
                    out.push(ValueRef::Int(tile_of_row(row, range.len() as i64, *parts)));
                    out.end_row();
                }
                Ok(())
            }
            WindowCallValue::Shift { value, rows, default } => {
                for at in range.clone() {
                    // The other row must be inside the partition; overflow means that it is not.
                    let other = i64::try_from(at).ok().and_then(|at| usize::try_from(at.checked_add(*rows)?).ok());
                    let own = self.places[at];
                    let value = match (other.filter(|other| range.contains(other)), default) {
                        (Some(other), _) => self.rows.get(self.places[other], *value),
                        (None, Some(default)) => self.rows.get(own, *default),
                        (None, None) => ValueRef::Null,
                    };
                    out.push(value);
                    out.end_row();
                }
                Ok(())
            }
            WindowCallValue::Aggregate(aggregate, frame) => self.totals(aggregate, *frame, range, pace, out),
            WindowCallValue::Nth { value, nth, frame } => {
                let mut frames = Frames::new(self.windows, (self.rows, self.places), range.clone(), *frame);
                for at in range {
                    pace.step()?;
                    let frame = frames.of(at);
                    let mut left = frame.clone().filter(|other| !frames.leaves_out(*other));
                    let row = match nth {
                        FrameRow::First => left.next(),
                        FrameRow::Last => left.next_back(),
                        FrameRow::Nth(row) => usize::try_from(row - 1).ok().and_then(|before| left.nth(before)),
                    };
                    out.push(row.map_or(ValueRef::Null, |row| self.rows.get(self.places[row], *value)));
                    out.end_row();
                }
                Ok(())
            }
        }
    }

    fn ranks(&mut self, function: RankFunction, range: Range<usize>, out: &mut ResultRows) {
        let rows = range.len();
        let mut dense = 0;
        let mut start = range.start;
        // All rows of a group of peers have the rank of the first one.
        while start < range.end {
            let peers = (start + 1..range.end).take_while(|at| self.are_peers(at - 1, *at)).count() + 1;
            dense += 1;
            let before = start - range.start;
            for at in before..before + peers {
                out.push(match function {
                    RankFunction::RowNumber => ValueRef::Int(at as i64 + 1),
                    RankFunction::Rank => ValueRef::Int(before as i64 + 1),
                    RankFunction::DenseRank => ValueRef::Int(dense),
                    RankFunction::PercentRank => ValueRef::Float(share_of_rank(before, rows)),
                    RankFunction::CumulativeShare => ValueRef::Float((before + peers) as f64 / rows as f64),
                });
                out.end_row();
            }
            start += peers;
        }
    }

    fn totals(
        &mut self,
        aggregate: &Aggregate,
        frame: RowFrame,
        range: Range<usize>,
        pace: &mut Pace<'_>,
        out: &mut ResultRows,
    ) -> Result<()> {
        let mut frames = Frames::new(self.windows, (self.rows, self.places), range.clone(), frame);
        // The sorted rows that the total includes.
        let mut counted = range.start..range.start;
        self.total.start(aggregate);
        for at in range {
            pace.step()?;
            let frame = frames.of(at);
            // A total can only grow. If a row leaves the frame, we must start it again.
            if frame.start != counted.start || frame.end < counted.end || frames.has_exclusion() {
                counted = frame.start..frame.start;
                self.total.start(aggregate);
                self.frame_rows += frame.len();
                if self.frame_rows > FRAME_ROWS_MAX {
                    return Err(unsupported("a window whose frames have many rows"));
                }
            }
            while counted.end < frame.end {
                if !frames.leaves_out(counted.end) {
                    self.count(aggregate, counted.end)?;
                }
                counted.end += 1;
            }
            out.push(aggregate.value(self.total)?);
            out.end_row();
        }
        Ok(())
    }

    /// Adds a row to the total.
    fn count(&mut self, aggregate: &Aggregate, at: usize) -> Result<()> {
        let columns = self.rows.kinds().len();
        let values: Vec<ValueRef<'_>> = (0..columns).map(|column| self.rows.get(self.places[at], column)).collect();
        self.texts.clear(self.windows.texts);
        aggregate.take(self.total, Env { columns: &values, parameters: self.parameters, texts: self.texts })
    }

    fn are_peers(&self, left: usize, right: usize) -> bool {
        self.windows.compare_order(self.rows, self.places[left], self.places[right]) == Ordering::Equal
    }
}

/// The frames of the rows of a partition, which are asked for from its first row to its last.
struct Frames<'f> {
    windows: &'f Windows,
    rows: &'f ResultRows,
    places: &'f [usize],
    range: Range<usize>,
    frame: RowFrame,
    /// The first row of each group of peers, and the end of the last group.
    groups: Vec<usize>,
    /// The rows whose value of the order column is not NULL, if the frame has distances.
    numbered: Range<usize>,
    /// The current row, and the number of its group.
    at: usize,
    group: usize,
}

impl<'f> Frames<'f> {
    fn new(
        windows: &'f Windows,
        (rows, places): (&'f ResultRows, &'f [usize]),
        range: Range<usize>,
        frame: RowFrame,
    ) -> Frames<'f> {
        let begins = |at: &usize| {
            *at == range.start || windows.compare_order(rows, places[*at - 1], places[*at]) != Ordering::Equal
        };
        let mut groups: Vec<usize> = range.clone().filter(begins).collect();
        groups.push(range.end);
        let (at, numbered) = (range.start, range.clone());
        let mut frames = Frames { windows, rows, places, at, range, frame, groups, numbered, group: 0 };
        if [frame.start, frame.end].iter().any(|end| matches!(end, FrameEnd::Distance(_))) {
            // The rows with NULL are at one end of the partition.
            let is_null = |at: &usize| frames.number(*at).is_none();
            let before = frames.range.clone().take_while(is_null).count();
            let start = frames.range.start + before;
            let after = (start..frames.range.end).rev().take_while(is_null).count();
            frames.numbered = start..frames.range.end - after;
        }
        frames
    }

    /// The rows between the ends of the frame of a row. The caller must ask for the rows in order.
    fn of(&mut self, at: usize) -> Range<usize> {
        while at >= self.groups[self.group + 1] {
            self.group += 1;
        }
        self.at = at;
        let start = match self.frame.start {
            FrameEnd::Partition => self.range.start,
            FrameEnd::Peers => self.groups[self.group],
            FrameEnd::Row(rows) => self.row(rows),
            FrameEnd::Group(groups) => self.group_at(groups).map_or_else(|end| end, |group| self.groups[group]),
            FrameEnd::Distance(distance) => self.first_from(distance, false),
        };
        let end = match self.frame.end {
            FrameEnd::Partition => self.range.end,
            FrameEnd::Peers => self.groups[self.group + 1],
            FrameEnd::Row(rows) => self.row(rows.saturating_add(1)),
            FrameEnd::Group(groups) => self.group_at(groups).map_or_else(|end| end, |group| self.groups[group + 1]),
            FrameEnd::Distance(distance) => self.first_from(distance, true),
        };
        start..end.max(start)
    }

    fn row(&self, rows: i64) -> usize {
        let row = (self.at as i64).saturating_add(rows);
        row.clamp(self.range.start as i64, self.range.end as i64) as usize
    }

    /// The number of the group at a distance from the current one, or the end of the partition that it is beyond.
    fn group_at(&self, groups: i64) -> std::result::Result<usize, usize> {
        let group = (self.group as i64).saturating_add(groups);
        match usize::try_from(group) {
            Err(_) => Err(self.range.start),
            Ok(group) if group + 1 >= self.groups.len() => Err(self.range.end),
            Ok(group) => Ok(group),
        }
    }

    /// The first row whose value is at least `distance` after that of the current row, or more than that if
    /// `is_after`.
    fn first_from(&self, distance: i128, is_after: bool) -> usize {
        let Some(own) = self.number(self.at) else { return self.groups[self.group + usize::from(is_after)] };
        let bound = own.saturating_add(distance);
        let is_before = |at: usize| {
            let number = self.number(at).unwrap_or(i128::MAX);
            number < bound || is_after && number == bound
        };
        let Range { start: mut low, end: mut high } = self.numbered.clone();
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(middle) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The value of the first order column of a row, as a number that grows in the direction of the order. `None` for
    /// NULL.
    fn number(&self, at: usize) -> Option<i128> {
        let (column, way) = self.windows.order.first()?;
        let number = match self.rows.get(self.places[at], *column) {
            ValueRef::Int(value) => value.into(),
            ValueRef::UInt(value) => value.into(),
            ValueRef::Decimal(value) => value,
            _ => return None,
        };
        Some(if way.descending { number.saturating_neg() } else { number })
    }

    fn has_exclusion(&self) -> bool {
        self.frame.exclude != FrameExclude::NoOthers
    }

    /// Whether a row is left out of the frame of the current row.
    fn leaves_out(&self, other: usize) -> bool {
        let is_peer = || (self.groups[self.group]..self.groups[self.group + 1]).contains(&other);
        match self.frame.exclude {
            FrameExclude::NoOthers => false,
            FrameExclude::CurrentRow => other == self.at,
            FrameExclude::Group => is_peer(),
            FrameExclude::Ties => other != self.at && is_peer(),
        }
    }
}
