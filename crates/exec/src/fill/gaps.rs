//! Finds the rows of a FILL one after the other: those of the input, and those that are added between them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::time_buckets::TimeBuckets;
use rowmill_storage::times_of;

use super::{FillShape, joined, with_schema};
use crate::row_keys::KeyRows;

/// The next row of the result. Rows of the input are named by their places in [`Gaps::batch`].
pub(super) enum NextRow {
    /// A row of the input.
    Read(usize),
    /// Rows that are added. [`Gaps::read_gap`] gives them.
    Gap,
    /// The batch has no more rows. The caller must give the next one.
    BatchEnds,
}

/// Rows that are added one after the other.
pub(super) struct GapRows {
    pub(super) rows: usize,
    /// The last row before them that has their keys.
    pub(super) previous: Option<usize>,
    /// The first row after them that has their keys.
    pub(super) next: Option<usize>,
}

/// The buckets that are still missing before a row.
struct Gap {
    ticks: i64,
    /// The first tick after the gap.
    end: i64,
    previous: Option<usize>,
    next: Option<usize>,
}

/// What a [`Gaps`] needs to know about the rows of a slice of time, which are in the order of keys and buckets.
#[derive(Default)]
pub(super) struct SliceKeys {
    /// The number of the key of each row. Equal keys have equal numbers.
    pub(super) keys: Vec<u32>,
    /// The beginning of the bucket of each row.
    pub(super) ticks: Vec<i64>,
    /// Whether a row is the last one of its key in the slices before, and therefore no row of this slice.
    pub(super) are_carried: Vec<bool>,
    /// Whether no slice follows.
    pub(super) is_last: bool,
}

/// The keys of the rows that are being read.
enum GapKeys {
    Bytes(KeyRows),
    Section(SliceKeys),
}

impl GapKeys {
    fn are_equal(&self, one: usize, other: usize) -> bool {
        match self {
            GapKeys::Bytes(keys) => keys.get(one) == keys.get(other),
            GapKeys::Section(section) => section.keys[one] == section.keys[other],
        }
    }

    fn is_carried(&self, row: usize) -> bool {
        matches!(self, GapKeys::Section(section) if section.are_carried[row])
    }

    /// Whether the last row of a key is its last row in the whole result.
    fn are_whole(&self) -> bool {
        !matches!(self, GapKeys::Section(section) if !section.is_last)
    }
}

/// The bucket of each row.
struct BucketTicks {
    ticks: Vec<i64>,
    nulls: Option<NullBuffer>,
}

impl BucketTicks {
    fn of(buckets: &ArrayRef) -> Result<BucketTicks> {
        Ok(BucketTicks {
            ticks: times_of(buckets)?,
            nulls: buckets.logical_nulls().filter(|nulls| nulls.null_count() > 0),
        })
    }

    /// The beginning of a row's bucket. `None` for NULL.
    #[inline]
    fn at(&self, row: usize) -> Option<i64> {
        match &self.nulls {
            Some(nulls) if nulls.is_null(row) => None,
            _ => Some(self.ticks[row]),
        }
    }
}

/// The rows of a FILL, found one after the other.
pub(super) struct Gaps {
    shape: Arc<FillShape>,
    buckets: Option<TimeBuckets>,
    /// The ticks between the beginnings of two buckets, if all buckets are equally long.
    stride: Option<i64>,
    /// The rows that are being read: the last row of the batch before, if there is one, and a batch.
    rows: Option<RecordBatch>,
    keys: Option<GapKeys>,
    ticks: Option<BucketTicks>,
    /// The row before the next one, whose gap to the next one was not looked at yet.
    previous: Option<usize>,
    /// The row after that.
    next: usize,
    gap: Option<Gap>,
    /// Whether the row `next` was reached: the gap before it is done.
    is_reached: bool,
    has_ended: bool,
}

impl Gaps {
    pub(super) fn new(shape: &Arc<FillShape>) -> Gaps {
        Gaps {
            shape: Arc::clone(shape),
            buckets: None,
            stride: None,
            rows: None,
            keys: None,
            ticks: None,
            previous: None,
            next: 0,
            gap: None,
            is_reached: false,
            has_ended: false,
        }
    }

    /// The rows of a slice of time. Only the source columns of `shape` have their values in `rows`.
    pub(super) fn of_section(shape: &Arc<FillShape>, rows: RecordBatch, mut section: SliceKeys) -> Result<Gaps> {
        let buckets = shape.buckets(shape.plan.buckets.origin)?;
        Ok(Gaps {
            stride: buckets.even_stride(),
            buckets: Some(buckets),
            ticks: Some(BucketTicks { ticks: std::mem::take(&mut section.ticks), nulls: None }),
            rows: Some(rows),
            keys: Some(GapKeys::Section(section)),
            ..Gaps::new(shape)
        })
    }

    /// The rows that [`NextRow`] names.
    pub(super) fn batch(&self) -> &RecordBatch {
        self.rows.as_ref().expect("a row was read")
    }

    /// Takes the next rows of the input.
    pub(super) fn read(&mut self, batch: &RecordBatch) -> Result<()> {
        let schema = Arc::clone(&self.shape.input);
        let batch = with_schema(batch, &schema)?;
        let rows = match (&self.rows, self.previous) {
            (Some(rows), Some(previous)) => joined(&schema, &rows.slice(previous, 1), &batch)?,
            _ => batch,
        };
        self.next = usize::from(self.previous.is_some());
        self.previous = self.previous.map(|_| 0);
        let columns: Vec<ArrayRef> = self.shape.plan.keys.iter().map(|key| Arc::clone(rows.column(*key))).collect();
        self.keys = Some(GapKeys::Bytes(self.shape.keys.encode(&columns)?));
        self.ticks = Some(BucketTicks::of(rows.column(self.shape.plan.bucket))?);
        if self.buckets.is_none() {
            let origin = match self.shape.plan.origin {
                Some(column) => BucketTicks::of(&rows.column(column).slice(0, 1))?.at(0),
                None => None,
            };
            self.set_buckets(self.shape.buckets(origin.unwrap_or(self.shape.plan.buckets.origin))?);
        }
        self.rows = Some(rows);
        Ok(())
    }

    fn set_buckets(&mut self, buckets: TimeBuckets) {
        self.stride = buckets.even_stride();
        self.buckets = Some(buckets);
    }

    /// Takes note that the input has ended. With `is_empty`, the whole range is added, because there was no row.
    pub(super) fn end(&mut self, is_empty: bool) -> Result<()> {
        self.has_ended = true;
        if is_empty {
            let buckets = self.shape.buckets(self.shape.plan.buckets.origin)?;
            if let (Some(from), Some(to)) = (self.shape.plan.from, self.shape.plan.to)
                && let Some(ticks) = buckets.start(from)
            {
                self.gap = Some(Gap { ticks, end: to, previous: None, next: None });
            }
            self.set_buckets(buckets);
            self.rows = Some(RecordBatch::new_empty(Arc::clone(&self.shape.input)));
        } else if let Some(previous) = self.previous {
            self.gap = self.gap_after(previous)?;
        }
        Ok(())
    }

    pub(super) fn next_row(&mut self) -> Result<NextRow> {
        loop {
            if let Some(gap) = &self.gap {
                if gap.ticks < gap.end {
                    return Ok(NextRow::Gap);
                }
                self.gap = None;
            }
            let Some(rows) = self.rows.as_ref().filter(|rows| self.next < rows.num_rows()) else {
                match self.previous.take_if(|_| matches!(self.keys, Some(GapKeys::Section(_)))) {
                    Some(previous) => self.gap = self.gap_after(previous)?,
                    None => return Ok(NextRow::BatchEnds),
                }
                continue;
            };
            debug_assert!(self.next < rows.num_rows(), "the row exists");
            if self.is_reached {
                self.is_reached = false;
                self.previous = Some(self.next);
                self.next += 1;
                if self.keys.as_ref().is_some_and(|keys| keys.is_carried(self.next - 1)) {
                    continue;
                }
                return Ok(NextRow::Read(self.next - 1));
            }
            self.find_gap()?;
        }
    }

    /// Takes at most `rows_max` buckets of the gap that comes next. Appends their beginnings to `ticks`, if it is
    /// given.
    pub(super) fn read_gap(&mut self, rows_max: usize, ticks: Option<&mut Vec<i64>>) -> Result<GapRows> {
        let gap = self.gap.as_mut().expect("a gap comes next");
        let mut taken = 0;
        if let Some(stride) = self.stride {
            let left = gap.end.saturating_sub(gap.ticks);
            let rows = rows_max.min(usize::try_from((left - 1) / stride + 1).unwrap_or(usize::MAX));
            let first = gap.ticks;
            if let Some(ticks) = ticks {
                ticks.extend((0..rows as i64).map(|row| first + row * stride));
            }
            taken = rows;
            // The last bucket may be the last one of the type.
            gap.ticks = first.saturating_add(stride.saturating_mul(rows as i64));
        } else {
            let buckets = self.buckets.as_ref().expect("the buckets are known with the first row");
            let mut ticks = ticks;
            while taken < rows_max && gap.ticks < gap.end {
                if let Some(ticks) = &mut ticks {
                    ticks.push(gap.ticks);
                }
                gap.ticks = buckets.next(gap.ticks).ok_or_else(out_of_range)?;
                taken += 1;
            }
        }
        Ok(GapRows { rows: taken, previous: gap.previous, next: gap.next })
    }

    /// Finds the gap before the row `next`.
    fn find_gap(&mut self) -> Result<()> {
        let keys = self.keys.as_ref().expect("a batch was read");
        match self.previous {
            Some(previous) if keys.are_equal(previous, self.next) => {
                self.is_reached = true;
                if let (Some(before), Some(end)) = (self.ticks_of(previous), self.ticks_of(self.next)) {
                    let ticks = self.next_bucket(before)?;
                    if ticks < end {
                        self.gap = Some(Gap { ticks, end, previous: Some(previous), next: Some(self.next) });
                    }
                }
            }
            Some(previous) => {
                // The keys before end here: their last buckets come first.
                self.gap = self.gap_after(previous)?;
                self.previous = None;
            }
            None => {
                self.is_reached = true;
                if !keys.is_carried(self.next) {
                    self.gap = self.gap_before(self.next)?;
                }
            }
        }
        Ok(())
    }

    /// The buckets from the beginning of the range to the first row of its keys.
    fn gap_before(&self, next: usize) -> Result<Option<Gap>> {
        let (Some(from), Some(end)) = (self.shape.plan.from, self.ticks_of(next)) else { return Ok(None) };
        let buckets = self.buckets.as_ref().expect("the buckets are known with the first row");
        let ticks = buckets.start(from).ok_or_else(out_of_range)?;
        Ok(Some(Gap { ticks, end, previous: None, next: Some(next) }))
    }

    /// The buckets from the last row of its keys to the end of the range.
    fn gap_after(&self, previous: usize) -> Result<Option<Gap>> {
        if !self.keys.as_ref().is_none_or(GapKeys::are_whole) {
            return Ok(None);
        }
        let (Some(end), Some(before)) = (self.shape.plan.to, self.ticks_of(previous)) else { return Ok(None) };
        Ok(Some(Gap { ticks: self.next_bucket(before)?, end, previous: Some(previous), next: None }))
    }

    /// The beginning of a row's bucket. `None` for NULL.
    #[inline]
    pub(super) fn ticks_of(&self, row: usize) -> Option<i64> {
        self.ticks.as_ref().and_then(|ticks| ticks.at(row))
    }

    /// The beginning of the bucket after the one that begins at `start`.
    #[inline]
    fn next_bucket(&self, start: i64) -> Result<i64> {
        let next = match self.stride {
            Some(stride) => start.checked_add(stride),
            None => self.buckets.as_ref().expect("the buckets are known with the first row").next(start),
        };
        next.ok_or_else(out_of_range)
    }
}

#[cold]
fn out_of_range() -> Error {
    Error::new(ErrorKind::NumericOutOfRange, "a bucket of time is out of the range of its type")
}
