//! Finds the rows of a FILL one after the other: those of the input, and those that are added between them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::time_buckets::TimeBuckets;

use super::{FillShape, joined};
use crate::row_keys::KeyRows;

/// The next row of the result. Rows of the input are named by their places in [`Gaps::batch`].
pub(super) enum NextRow {
    /// A row of the input.
    Read(usize),
    /// A row that is added for the bucket that begins at `ticks`.
    Added {
        ticks: i64,
        /// The last row before it that has its keys.
        previous: Option<usize>,
        /// The first row after it that has its keys.
        next: Option<usize>,
    },
    /// The batch has no more rows. The caller must give the next one.
    BatchEnds,
}

/// The buckets that are still missing before a row.
struct Gap {
    ticks: i64,
    /// The first tick after the gap.
    end: i64,
    previous: Option<usize>,
    next: Option<usize>,
}

/// The rows of a FILL, found one after the other.
pub(super) struct Gaps {
    shape: Arc<FillShape>,
    buckets: Option<TimeBuckets>,
    /// The rows that are being read: the last row of the batch before, if there is one, and a batch.
    rows: Option<RecordBatch>,
    keys: Option<KeyRows>,
    ticks: Option<ArrayRef>,
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

    /// The rows that [`NextRow`] names.
    pub(super) fn batch(&self) -> &RecordBatch {
        self.rows.as_ref().expect("a row was read")
    }

    /// Takes the next rows of the input.
    pub(super) fn read(&mut self, batch: &RecordBatch) -> Result<()> {
        let schema = Arc::clone(&self.shape.schema);
        let batch = RecordBatch::try_new_with_options(
            Arc::clone(&schema),
            batch.columns().to_vec(),
            &arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
        );
        let batch = batch.map_err(|error| Error::internal(format!("the rows of a FILL: {error}")))?;
        let rows = match (&self.rows, self.previous) {
            (Some(rows), Some(previous)) => joined(&schema, &rows.slice(previous, 1), &batch)?,
            _ => batch,
        };
        self.next = usize::from(self.previous.is_some());
        self.previous = self.previous.map(|_| 0);
        let columns: Vec<ArrayRef> = self.shape.plan.keys.iter().map(|key| Arc::clone(rows.column(*key))).collect();
        self.keys = Some(self.shape.keys.encode(&columns)?);
        self.ticks = Some(Arc::clone(rows.column(self.shape.plan.bucket)));
        if self.buckets.is_none() {
            let origin = self.shape.plan.origin.and_then(|column| ticks_at(rows.column(column), self.shape.unit, 0));
            self.buckets = Some(self.shape.buckets(origin.unwrap_or(self.shape.plan.buckets.origin))?);
        }
        self.rows = Some(rows);
        Ok(())
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
            self.buckets = Some(buckets);
            self.rows = Some(RecordBatch::new_empty(Arc::clone(&self.shape.schema)));
        } else if let Some(previous) = self.previous {
            self.gap = self.gap_after(previous)?;
        }
        Ok(())
    }

    pub(super) fn next_row(&mut self) -> Result<NextRow> {
        loop {
            if let Some(gap) = &mut self.gap {
                if gap.ticks < gap.end {
                    let row = NextRow::Added { ticks: gap.ticks, previous: gap.previous, next: gap.next };
                    let buckets = self.buckets.as_ref().expect("the buckets are known with the first row");
                    gap.ticks = next_bucket(buckets, gap.ticks)?;
                    return Ok(row);
                }
                self.gap = None;
            }
            let Some(rows) = self.rows.as_ref().filter(|rows| self.next < rows.num_rows()) else {
                return Ok(NextRow::BatchEnds);
            };
            debug_assert!(self.next < rows.num_rows(), "the row exists");
            if self.is_reached {
                self.is_reached = false;
                self.previous = Some(self.next);
                self.next += 1;
                return Ok(NextRow::Read(self.next - 1));
            }
            self.find_gap()?;
        }
    }

    /// Finds the gap before the row `next`.
    fn find_gap(&mut self) -> Result<()> {
        let keys = self.keys.as_ref().expect("a batch was read");
        match self.previous {
            Some(previous) if keys.get(previous) == keys.get(self.next) => {
                self.is_reached = true;
                if let (Some(before), Some(end)) = (self.ticks_of(previous), self.ticks_of(self.next)) {
                    let buckets = self.buckets.as_ref().expect("the buckets are known with the first row");
                    let ticks = next_bucket(buckets, before)?;
                    self.gap = Some(Gap { ticks, end, previous: Some(previous), next: Some(self.next) });
                }
            }
            Some(previous) => {
                // The keys before end here: their last buckets come first.
                self.gap = self.gap_after(previous)?;
                self.previous = None;
            }
            None => {
                self.is_reached = true;
                self.gap = self.gap_before(self.next)?;
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
        let (Some(end), Some(before)) = (self.shape.plan.to, self.ticks_of(previous)) else { return Ok(None) };
        let buckets = self.buckets.as_ref().expect("the buckets are known with the first row");
        Ok(Some(Gap { ticks: next_bucket(buckets, before)?, end, previous: Some(previous), next: None }))
    }

    fn ticks_of(&self, row: usize) -> Option<i64> {
        self.ticks.as_ref().and_then(|ticks| ticks_at(ticks, self.shape.unit, row))
    }
}

fn next_bucket(buckets: &TimeBuckets, start: i64) -> Result<i64> {
    buckets.next(start).ok_or_else(out_of_range)
}

#[cold]
fn out_of_range() -> Error {
    Error::new(ErrorKind::NumericOutOfRange, "a bucket of time is out of the range of its type")
}

/// The ticks of a timestamp, or `None` for NULL.
pub(super) fn ticks_at(column: &ArrayRef, unit: TimeUnit, row: usize) -> Option<i64> {
    if column.is_null(row) {
        return None;
    }
    Some(match unit {
        TimeUnit::Second => column.as_primitive::<TimestampSecondType>().value(row),
        TimeUnit::Millisecond => column.as_primitive::<TimestampMillisecondType>().value(row),
        TimeUnit::Microsecond => column.as_primitive::<TimestampMicrosecondType>().value(row),
        TimeUnit::Nanosecond => column.as_primitive::<TimestampNanosecondType>().value(row),
    })
}
