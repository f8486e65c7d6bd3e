//! Scans of keyed tables.
//!
//! The keys that conditions leave over are ranges of the primary key or of indexes (`key_access.rs`), chosen anew if a join
//! offers few keys before the first row is read. Workers take turns at reading the next rows as bytes, which is one merge of
//! what memory and the base have; what costs more, making arrays of them and checking conditions, each does for itself. Where
//! the order of a key is that which was asked for, the turn lasts until conditions are checked, so that reading ends with the
//! first rows that are enough.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use rowmill_base::{Error, Result};
use rowmill_plan::Predicate;
use rowmill_storage::keyed::ByteRows;
use rowmill_storage::{KeyRanges, KeyedRows, KeyedSource, RowMask, TableSource};

use super::filter::Filter;
use super::key_access::{KeyAccess, Wanted};
use super::key_limits::{ColumnLimit, ValueSet};
use super::offered::OfferedFilters;
use super::{ScanMetrics, ScanRequest, TopRequest, add, keep_matching, output_schema, positions_of};
use crate::batch::{BatchSource, Batches};
use crate::key_filter::KeyFilter;

/// Rows that a worker reads at a turn.
const ROWS_AT_ONCE: usize = 1 << 13;

/// Rows of the first turn where few may be enough.
const ROWS_AT_FIRST: usize = 1 << 5;

/// Fewer rows are read by one worker.
const ROWS_OF_ONE_WORKER: f64 = 16_384.0;

/// So few rows are read by whoever wants them: calling a worker takes longer.
const ROWS_OF_NO_WORKER: f64 = 64.0;

/// One scan of one keyed table, shared by its workers.
pub(crate) struct KeyedScan {
    source: Arc<dyn TableSource>,
    request: ScanRequest,
    filter: Filter,
    /// The columns that are read, each once, and where among them each column of the table is.
    read: Vec<usize>,
    offered: OfferedFilters,
    /// Limits that were offered before the first row was read.
    offered_limits: Mutex<Vec<ColumnLimit>>,
    schema: SchemaRef,
    access: KeyAccess,
    rows: Mutex<Reading>,
    /// Held from reading rows to giving them where their order matters.
    turn: Mutex<()>,
    metrics: Arc<ScanMetrics>,
}

/// The place up to which rows were given to workers.
#[derive(Default)]
struct Reading {
    is_begun: bool,
    /// What is read now.
    rows: Option<Box<dyn KeyedRows>>,
    /// What is read after that, the next at the end.
    left: Vec<KeyRanges>,
    /// The keys of rows that were read, where a row may come again.
    seen: Option<HashSet<Box<[u8]>>>,
    /// Rows of the next turn.
    rows_at_once: usize,
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
        let access = choose(&*source, &request, &[])?;
        let metrics = Arc::<ScanMetrics>::default();
        let _ = metrics.access.set(access.text(&table));
        let few = match access.backward {
            Some(_) => request.top.as_ref().map(|top| top.rows),
            None => request.limit,
        };
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
            offered_limits: Mutex::default(),
            access,
            rows: Mutex::new(Reading {
                rows_at_once: few.map_or(ROWS_AT_ONCE, |few| few.clamp(ROWS_AT_FIRST, ROWS_AT_ONCE)),
                rows_left: few.unwrap_or(usize::MAX),
                is_done: few == Some(0),
                ..Reading::default()
            }),
            turn: Mutex::default(),
            metrics,
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
        let read = self.read(&mut reading, taken);
        reading.is_done |= read.is_err();
        read?;
        Ok(!taken.keys.is_empty())
    }

    fn read(&self, reading: &mut Reading, taken: &mut Taken) -> Result<()> {
        if !std::mem::replace(&mut reading.is_begun, true) {
            self.begin(reading)?;
        }
        let few = if self.filter.is_empty() { reading.rows_left } else { usize::MAX };
        let rows_max = self.request.batch_rows.clamp(1, ROWS_AT_ONCE).min(reading.rows_at_once).min(few);
        reading.rows_at_once = (reading.rows_at_once * 4).min(ROWS_AT_ONCE);
        loop {
            if reading.rows.is_none() {
                let Some(ranges) = reading.left.pop() else {
                    reading.is_done = true;
                    taken.keys.clear();
                    taken.rows.clear();
                    return Ok(());
                };
                reading.rows = Some(keyed(&*self.source).read_ranges(ranges)?);
            }
            let Some(rows) = &mut reading.rows else { continue };
            rows.next(rows_max, &mut taken.keys, &mut taken.rows)?;
            if taken.keys.len() < rows_max {
                reading.rows = None;
                reading.is_done = reading.left.is_empty();
            }
            if let Some(seen) = &mut reading.seen {
                taken.leave_new(seen);
            }
            if !taken.keys.is_empty() || reading.is_done {
                return Ok(());
            }
        }
    }

    /// Settles which ranges are read.
    fn begin(&self, reading: &mut Reading) -> Result<()> {
        let table = self.source.table();
        let Some(def) = &table.keyed else { return Ok(()) };
        let offered = self.offered_limits.lock();
        let chosen = if offered.is_empty() { None } else { Some(choose(&*self.source, &self.request, &offered)?) };
        let access = chosen.as_ref().unwrap_or(&self.access);
        reading.left = access.ranges(keyed(&*self.source), def)?;
        reading.left.reverse();
        reading.seen = access.finds_twice().then(HashSet::new);
        Ok(())
    }

    /// How many of `rows` may still be given under the limit.
    fn grant(&self, rows: usize) -> usize {
        if self.request.limit.is_none() && self.access.backward.is_none() {
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

impl Taken {
    /// Leaves out rows that were seen before.
    fn leave_new(&mut self, seen: &mut HashSet<Box<[u8]>>) {
        let is_new: Vec<bool> = self.keys.iter().map(|key| seen.insert(key.into())).collect();
        if is_new.iter().all(|is_new| *is_new) {
            return;
        }
        for bytes in [&mut self.keys, &mut self.rows] {
            let mut left = ByteRows::new();
            bytes.iter().zip(&is_new).filter(|(_, is_new)| **is_new).for_each(|(bytes, _)| left.push(bytes));
            *bytes = left;
        }
    }
}

/// The access that costs the least for a request.
fn choose(source: &dyn TableSource, request: &ScanRequest, offered: &[ColumnLimit]) -> Result<KeyAccess> {
    let wanted = Wanted { predicates: &request.predicates, offered, top: request.top.as_ref(), limit: request.limit };
    KeyAccess::choose(source.table(), source.statistics(), &|| keyed(source).rows_about(), wanted)
}

/// In words how a scan of a keyed table finds the rows for which all of `predicates` are true, those of `top` if only those
/// are asked for; `None` if the table is not keyed.
pub fn access_text(source: &dyn TableSource, predicates: &[Predicate], top: Option<&TopRequest>) -> Option<String> {
    let rows = source.keyed()?;
    let wanted = Wanted { predicates, offered: &[], top, limit: None };
    let access = KeyAccess::choose(source.table(), source.statistics(), &|| rows.rows_about(), wanted).ok()?;
    Some(access.text(source.table()))
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
        match self.access.rows {
            rows if rows <= ROWS_OF_NO_WORKER => 0,
            rows if rows < ROWS_OF_ONE_WORKER || self.access.backward.is_some() => 1,
            _ => usize::MAX,
        }
    }

    fn worker(self: Arc<Self>) -> Batches {
        let (mut taken, mut has_read) = (Taken::default(), false);
        let mut next = move || -> Result<Option<RecordBatch>> {
            let _turn = self.access.backward.map(|_| self.turn.lock());
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
        let is_partial = self.request.limit.is_some() || self.request.top.is_some();
        !is_partial && column.is_some_and(|kind| KeyFilter::is_for(&kind))
    }

    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        if !self.accepts(column) {
            return;
        }
        let column = self.request.columns[column];
        self.offered.add(column, filter);
        let def = &self.source.table().columns[column];
        if let Some((values, has_null)) = filter.few_values()
            && let Ok(set) = ValueSet::new(&values, &def.kind, has_null && def.nullable)
        {
            self.offered_limits.lock().push(ColumnLimit::of_set(column, set));
        }
    }

    fn narrows(&self, column: usize) -> bool {
        let table = self.source.table();
        let (Some(column), Some(def)) = (self.request.columns.get(column), &table.keyed) else { return false };
        let keys = std::iter::once(&def.key).chain(def.indexes.iter().map(|index| &index.parts));
        let starts = keys.filter_map(|parts| parts.first()).any(|part| part.column == table.columns[*column].id);
        starts && self.access.rows > ROWS_OF_NO_WORKER
    }
}
