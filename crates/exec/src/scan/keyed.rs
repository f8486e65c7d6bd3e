//! Scans of keyed tables.
//!
//! The keys that conditions leave over are one range of the primary key or of an index (`key_bounds.rs`). Workers take turns at
//! reading its next rows as bytes, which is one merge of what memory and the base have; what costs more, making arrays of them
//! and checking conditions, each does for itself.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Error, Result};
use rowmill_storage::keyed::ByteRows;
use rowmill_storage::{KeyedRows, KeyedSource, RowMask, TableSource};

use super::filter::Filter;
use super::key_bounds::ChosenKey;
use super::offered::OfferedFilters;
use super::{ScanMetrics, ScanRequest, add, keep_matching, output_schema, positions_of};
use crate::batch::{BatchSource, Batches};
use crate::key_filter::KeyFilter;

/// Rows that a worker reads at a turn.
const ROWS_AT_ONCE: usize = 1 << 13;

/// A table of fewer rows is read by one worker.
const ROWS_OF_ONE_WORKER: u64 = 1 << 14;

/// One scan of one keyed table, shared by its workers.
pub(crate) struct KeyedScan {
    source: Arc<dyn TableSource>,
    request: ScanRequest,
    filter: Filter,
    /// The columns that are read, each once, and where among them each column of the table is.
    read: Vec<usize>,
    offered: OfferedFilters,
    schema: SchemaRef,
    rows: Mutex<Reading>,
    metrics: Arc<ScanMetrics>,
}

/// The place up to which rows were given to workers.
struct Reading {
    rows: Box<dyn KeyedRows>,
    /// Rows that may still be given where nothing but their number ends the scan.
    rows_left: usize,
    is_done: bool,
}

/// Rows as bytes.
#[derive(Default)]
struct Taken {
    keys: ByteRows,
    rows: ByteRows,
}

impl fmt::Debug for KeyedScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedScan").field("request", &self.request).finish_non_exhaustive()
    }
}

impl KeyedScan {
    pub(crate) fn new(source: Arc<dyn TableSource>, request: ScanRequest) -> Result<Arc<KeyedScan>> {
        let table = Arc::clone(source.table());
        let chosen = ChosenKey::of(&table, source.statistics(), &request.predicates)?;
        let rows = keyed(&*source).read(&chosen.bounds())?;
        let mut read = Vec::new();
        for column in &request.columns {
            if !read.contains(column) {
                read.push(*column);
            }
        }
        request.predicates.iter().for_each(|predicate| predicate.collect_columns(&mut read));
        Ok(Arc::new(KeyedScan {
            filter: Filter::new(&table, request.predicates.clone()),
            schema: output_schema(&table, &request),
            read,
            offered: OfferedFilters::default(),
            rows: Mutex::new(Reading {
                rows,
                rows_left: request.limit.unwrap_or(usize::MAX),
                is_done: request.limit == Some(0),
            }),
            metrics: Arc::default(),
            source,
            request,
        }))
    }

    pub(crate) fn metrics(&self) -> &Arc<ScanMetrics> {
        &self.metrics
    }

    /// The next rows; whether there were any.
    fn take(&self, taken: &mut Taken) -> Result<bool> {
        self.request.cancel.check()?;
        let mut reading = self.rows.lock();
        if reading.is_done {
            return Ok(false);
        }
        let few = if self.filter.is_empty() { reading.rows_left } else { usize::MAX };
        let rows_max = self.request.batch_rows.clamp(1, ROWS_AT_ONCE).min(few);
        let read = reading.rows.next(rows_max, &mut taken.keys, &mut taken.rows);
        reading.is_done = read.is_err() || taken.keys.len() < rows_max;
        read?;
        Ok(!taken.keys.is_empty())
    }

    /// How many of `rows` may still be given under the limit.
    fn grant(&self, rows: usize) -> usize {
        if self.request.limit.is_none() {
            return rows;
        }
        let mut reading = self.rows.lock();
        let granted = rows.min(reading.rows_left);
        reading.rows_left -= granted;
        reading.is_done |= reading.rows_left == 0;
        granted
    }

    /// Those of the rows that are asked for, if there are any.
    fn batch(&self, taken: &Taken) -> Result<Option<RecordBatch>> {
        let rows = 0..taken.keys.len();
        let columns = keyed(&*self.source).decode(&taken.keys, &taken.rows, &self.read)?;
        let of = |column: usize| {
            let at = self.read.iter().position(|read| *read == column);
            columns[at.expect("columns of conditions and filters are read")].clone()
        };
        let mut mask = RowMask::all(rows.clone());
        let mut values = |column: usize, rows: Range<usize>| Ok(of(column).slice(rows.start, rows.len()));
        keep_matching(&self.filter, &mut mask, &rows, &mut values)?;
        self.offered.keep_rows(&mut mask, &mut values)?;
        add(&self.metrics.rows_read, rows.len() as u64);
        let granted = self.grant(mask.count());
        add(&self.metrics.rows_selected, granted as u64);
        if granted == 0 {
            return Ok(None);
        }
        let mut positions = positions_of(&mask);
        if granted < mask.count() {
            let all = positions.get_or_insert_with(|| (0..rows.len() as u32).collect());
            all.truncate(granted);
        }
        let places = positions.map(UInt32Array::from);
        let wanted = |values: ArrayRef| match &places {
            None => Ok(values),
            Some(places) => arrow::compute::take(&values, places, None).map_err(|e| Error::internal(e.to_string())),
        };
        let mut output =
            self.request.columns.iter().map(|column| wanted(of(*column))).collect::<Result<Vec<ArrayRef>>>()?;
        if self.request.row_numbers {
            output.push(wanted(Arc::new(BinaryArray::from_iter_values(taken.keys.iter())))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(granted));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), output, &options);
        batch.map(Some).map_err(|error| Error::internal(format!("scan of {}: {error}", self.source.table().name)))
    }
}

/// The table's rows: who makes a scan of it has looked that it is keyed.
fn keyed(source: &dyn TableSource) -> &dyn KeyedSource {
    source.keyed().expect("a keyed table")
}

impl BatchSource for KeyedScan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        if keyed(&*self.source).rows_about() < ROWS_OF_ONE_WORKER { 1 } else { usize::MAX }
    }

    fn worker(self: Arc<Self>) -> Batches {
        let (mut taken, mut has_read) = (Taken::default(), false);
        let mut next = move || -> Result<Option<RecordBatch>> {
            while self.take(&mut taken)? {
                if !std::mem::replace(&mut has_read, true) {
                    self.metrics.workers.fetch_add(1, Ordering::Relaxed);
                }
                if let Some(batch) = self.batch(&taken)? {
                    return Ok(Some(batch));
                }
            }
            Ok(None)
        };
        Box::new(std::iter::from_fn(move || next().transpose()))
    }

    fn accepts(&self, column: usize) -> bool {
        let column = self.request.columns.get(column).map(|column| self.source.table().columns[*column].kind.arrow());
        self.request.limit.is_none() && column.is_some_and(|kind| KeyFilter::is_for(&kind))
    }

    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        if self.accepts(column) {
            self.offered.add(self.request.columns[column], filter);
        }
    }
}
