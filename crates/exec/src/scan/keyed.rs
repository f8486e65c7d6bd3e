//! Scans of keyed tables.
//!
//! The ranges of the primary key or of indexes that are read follow from the conditions (`key_access.rs`). They are
//! chosen again if a join offers a few keys before the first row is read. The rows of a whole table are split into
//! parts by the pages of the base, and each worker reads a part at a time. Otherwise workers take turns to read the
//! next rows as bytes, in one merge of memory and base. Making arrays and checking conditions each worker does on its
//! own. If the key has the rows in the wanted order, a turn lasts until the conditions are checked, so that reading
//! stops as soon as enough rows are found.
//!
//! If the table has a column copy, the first worker decides whether to read the copy instead: the filters that joins
//! have offered by then may leave so few keys that looking these up is cheaper.

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
use rowmill_storage::{KeyColumn, KeyRanges, KeyedDef, KeyedRows, KeyedSource, RowMask, TableSource};

use super::decoded_rows::DecodedRows;
use super::filter::Filter;
use super::key_access::{KeyAccess, Wanted};
use super::key_limits::{ColumnLimit, ValueSet};
use super::offered::OfferedFilters;
use super::{
    ScanCursor, ScanMetrics, ScanRequest, TableScan, TopRequest, add, keep_matching, output_schema, positions_of,
};
use crate::batch::{BatchSource, Batches};
use crate::key_filter::KeyFilter;

/// Rows of a part of a table that one worker reads by itself; one worker reads fewer rows alone. More parts than
/// workers share the work evenly. With parts of 8,192, 16,384, 32,768 and 65,536 rows, 75,000 rows take 5.4, 5.0, 8.9
/// and 8.5 ms with two workers. With 4,096, 16,384 and 65,536 as the least number of rows for two, they take 4.3, 5.3
/// and 8.3 ms.
const ROWS_OF_PART: f64 = 16_384.0;

/// Rows that are decoded together where they are stored. Their columns should stay in the second-level cache.
const ROWS_IN_PLACE: usize = 1 << 12;

/// Up to this number of rows, the caller should read them itself, because starting a worker takes longer: 24 rows take
/// 9 µs instead of 12. Any other limit from 16 to 4,096 is as good for 150 rows.
const ROWS_OF_NO_WORKER: f64 = 64.0;

/// The cost of a row of a column copy, counted in rows that are read in order: a sum over 1.5 million rows takes 2 ns a
/// row instead of 62, and question 1 of TPC-H, with eight aggregates, 18 instead of 173.
const COPIED_ROW: f64 = 1.0 / 16.0;

/// One scan of one keyed table, shared by its workers.
pub(crate) struct KeyedScan {
    source: Arc<dyn TableSource>,
    request: ScanRequest,
    filter: Filter,
    /// The columns that are read, each once, by their positions in the table.
    read: Vec<usize>,
    /// The columns that conditions read, each once.
    tested: Vec<usize>,
    offered: OfferedFilters,
    /// Limits that were offered before the first row was read.
    offered_limits: Mutex<Vec<ColumnLimit>>,
    schema: SchemaRef,
    access: KeyAccess,
    rows: Mutex<Reading>,
    /// Held from reading rows until they are returned, if their order matters.
    turn: Mutex<()>,
    metrics: Arc<ScanMetrics>,
    /// The scan of the column copy, if the table has one that may be read instead.
    copy: Option<Arc<TableScan>>,
}

/// The state of reading, which all workers share.
#[derive(Default)]
struct Reading {
    is_begun: bool,
    /// Whether each worker takes ranges from `left` and reads them by itself.
    is_split: bool,
    /// The ranges that are being read.
    rows: Option<Box<dyn KeyedRows>>,
    /// The ranges that follow, in reverse: the next is the last.
    left: Vec<KeyRanges>,
    /// The keys of rows that were read; only if a row may be found again.
    seen: Option<HashSet<Box<[u8]>>>,
    /// Rows of the next turn.
    rows_at_once: usize,
    /// Rows that may still be returned before the scan ends.
    rows_left: usize,
    is_done: bool,
    /// Whether the workers read the column copy.
    is_of_copy: bool,
}

/// One turn of a worker.
#[derive(Default)]
struct ScanStep {
    /// The rows that passed, if any.
    batch: Option<RecordBatch>,
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
    /// Prepares the scan. Reads no rows. If there is a column copy, the scan may read that instead.
    pub(crate) fn new(
        source: Arc<dyn TableSource>,
        copy: Option<Arc<dyn TableSource>>,
        request: ScanRequest,
    ) -> Result<Arc<KeyedScan>> {
        let table = Arc::clone(source.table());
        let access = choose(&*source, &request, &[])?;
        let metrics = Arc::<ScanMetrics>::default();
        let _ = metrics.access.set(access.text(&table));
        let of_copy = |copy| TableScan::measured(copy, request.clone(), false, Arc::clone(&metrics));
        let copy = copy.map(of_copy).transpose()?;
        let few = match access.backward {
            Some(_) => request.top.as_ref().map(|top| top.rows),
            None => request.limit,
        };
        let mut tested = Vec::new();
        request.predicates.iter().for_each(|predicate| predicate.collect_columns(&mut tested));
        Ok(Arc::new(KeyedScan {
            filter: Filter::new(&*source, request.predicates.clone())?,
            schema: output_schema(&table, &request, false),
            read: columns_read(&request.columns, &request.predicates),
            tested,
            offered: OfferedFilters::default(),
            offered_limits: Mutex::default(),
            access,
            rows: Mutex::new(Reading {
                rows_at_once: few.unwrap_or(usize::MAX).max(1),
                rows_left: few.unwrap_or(usize::MAX),
                is_done: few == Some(0),
                ..Reading::default()
            }),
            turn: Mutex::default(),
            metrics,
            copy,
            source,
            request,
        }))
    }

    pub(crate) fn metrics(&self) -> &Arc<ScanMetrics> {
        &self.metrics
    }

    /// Reads the next rows, and returns those that pass as a batch. The batch is absent if no row passes, and the step
    /// if there are no more rows. `own` are the ranges that the worker reads by itself.
    fn step(&self, taken: &mut Taken, own: &mut Option<Box<dyn KeyedRows>>) -> Result<Option<ScanStep>> {
        self.request.cancel.check()?;
        if own.is_some() {
            return self.step_within(own);
        }
        let mut reading = self.rows.lock();
        if reading.is_done {
            return Ok(None);
        }
        if !std::mem::replace(&mut reading.is_begun, true) {
            // After an error no worker should read on, so the scan is done.
            self.begin(&mut reading).inspect_err(|_| reading.is_done = true)?;
        }
        if reading.is_split {
            drop(reading);
            return self.step_within(own);
        }
        // In key order, only this worker reads, so it need not copy the rows.
        if self.access.backward.is_some() && reading.seen.is_none() {
            drop(reading);
            let step = self.step_in_order();
            self.rows.lock().is_done |= step.is_err();
            return step;
        }
        let read = self.read(&mut reading, taken);
        // After an error no worker should read on, so the scan is done.
        reading.is_done |= read.is_err();
        read?;
        // The other workers read on while this one decodes its copy of the rows.
        drop(reading);
        if taken.keys.is_empty() {
            return Ok(None);
        }
        let (keys, rows): (Vec<_>, Vec<_>) = (taken.keys.iter().collect(), taken.rows.iter().collect());
        Ok(Some(ScanStep { batch: self.batch(&keys, &rows)? }))
    }

    /// Reads the next rows in the order of their keys, and decodes them where they are stored. The caller must hold the
    /// turn.
    fn step_in_order(&self) -> Result<Option<ScanStep>> {
        let mut reading = self.rows.lock();
        let rows_max = self.next_turn(&mut reading).clamp(1, ROWS_IN_PLACE);
        let mut rows = match reading.rows.take() {
            Some(rows) => rows,
            None => match reading.left.pop() {
                Some(ranges) => keyed(&*self.source).read_ranges(ranges)?,
                None => {
                    reading.is_done = true;
                    return Ok(None);
                }
            },
        };
        drop(reading);
        let step = self.next_in_place(&mut *rows, rows_max)?;
        if step.is_some() {
            self.rows.lock().rows = Some(rows);
        }
        // Other ranges may follow.
        Ok(Some(step.unwrap_or_default()))
    }

    /// Decodes the next rows of some ranges where they are stored. Returns `None` if there are no more.
    fn next_in_place(&self, rows: &mut dyn KeyedRows, rows_max: usize) -> Result<Option<ScanStep>> {
        let mut step = ScanStep::default();
        let read = rows.next_in_place(rows_max, &mut |keys, rows| {
            step.batch = self.batch(keys, rows)?;
            Ok(())
        })?;
        Ok((read > 0).then_some(step))
    }

    /// The number of rows of the next turn.
    fn next_turn(&self, reading: &mut Reading) -> usize {
        // Without conditions every row counts, so more than the limit need not be read.
        let few = if self.filter.is_empty() { reading.rows_left } else { usize::MAX };
        let rows_max = self.request.batch_rows.max(1).min(reading.rows_at_once).min(few);
        // Turns grow: the first rows come soon, and later turns cost less per row.
        reading.rows_at_once = reading.rows_at_once.saturating_mul(4);
        rows_max
    }

    /// Reads the next rows of the worker's own ranges, or of the next ranges that no worker has taken. The rows are
    /// decoded where they are stored.
    fn step_within(&self, own: &mut Option<Box<dyn KeyedRows>>) -> Result<Option<ScanStep>> {
        let rows_max = self.request.batch_rows.clamp(1, ROWS_IN_PLACE);
        loop {
            let rows = match own {
                Some(rows) => rows,
                None => {
                    let Some(ranges) = self.rows.lock().left.pop() else { return Ok(None) };
                    own.insert(keyed(&*self.source).read_ranges(ranges)?)
                }
            };
            if let Some(step) = self.next_in_place(&mut **rows, rows_max)? {
                return Ok(Some(step));
            }
            *own = None;
        }
    }

    fn read(&self, reading: &mut Reading, taken: &mut Taken) -> Result<()> {
        let rows_max = self.next_turn(reading);
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
            // Fewer rows than asked for: these ranges are done.
            if taken.keys.len() < rows_max {
                reading.rows = None;
                reading.is_done = reading.left.is_empty();
            }
            // Two keys may find the same row, which must be returned once.
            if let Some(seen) = &mut reading.seen {
                taken.leave_new(seen);
            }
            if !taken.keys.is_empty() || reading.is_done {
                return Ok(());
            }
        }
    }

    /// A cursor of the column copy, if that is read.
    fn cursor_of_copy(&self) -> Result<Option<ScanCursor>> {
        let Some(copy) = &self.copy else { return Ok(None) };
        let mut reading = self.rows.lock();
        if !std::mem::replace(&mut reading.is_begun, true) {
            self.begin(&mut reading).inspect_err(|_| reading.is_done = true)?;
        }
        Ok(reading.is_of_copy.then(|| copy.cursor()))
    }

    /// Decides which ranges are read. Limits that joins have offered until now count; later ones only filter rows.
    fn begin(&self, reading: &mut Reading) -> Result<()> {
        let table = self.source.table();
        let Some(def) = &table.keyed else { return Ok(()) };
        let offered = self.offered_limits.lock();
        // Joins have offered a few values by now, which may make another key cheaper.
        let chosen = if offered.is_empty() { None } else { Some(choose(&*self.source, &self.request, &offered)?) };
        let access = chosen.as_ref().unwrap_or(&self.access);
        let source = keyed(&*self.source);
        if self.copy.is_some() && is_dearer_than_copy(access, source) {
            reading.is_of_copy = true;
            return Ok(());
        }
        reading.left = access.ranges(source, def)?;
        // Workers can read parts of the ranges at the same time if neither the order nor the number of rows matters.
        let is_partial = access.backward.is_some() || self.request.limit.is_some();
        if !is_partial && !access.finds_twice() && access.rows >= ROWS_OF_PART {
            let parts = ((access.rows / ROWS_OF_PART) as usize).max(2);
            let split: Result<Vec<Vec<KeyRanges>>> =
                std::mem::take(&mut reading.left).into_iter().map(|ranges| source.split(ranges, parts)).collect();
            reading.left = split?.into_iter().flatten().collect();
            reading.is_split = reading.left.len() > 1;
        }
        // One worker reads a small table alone, so it need not copy the rows for others.
        reading.is_split |= !is_partial && access.rows < ROWS_OF_PART && access.reads_table();
        // Ranges are popped from the end.
        reading.left.reverse();
        reading.seen = access.finds_twice().then(HashSet::new);
        Ok(())
    }

    /// How many of `rows` rows may still be returned under the limit.
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

    /// The rows that pass, as a batch; `None` if no row passes.
    fn batch(&self, keys: &[&[u8]], stored: &[&[u8]]) -> Result<Option<RecordBatch>> {
        let rows = 0..keys.len();
        let mut decoded = DecodedRows::new(keyed(&*self.source), [keys, stored], &self.read);
        decoded.decode(&self.tested)?;
        let mut mask = RowMask::all(rows.clone());
        let mut values = |column: usize, rows: Range<usize>| decoded.values(column, rows);
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
            // The limit ends within this batch.
            all.truncate(granted);
        }
        let places = positions.map(UInt32Array::from);
        let mut output = decoded.pick(&self.request.columns, places.as_ref())?;
        if self.request.row_numbers {
            let keys: ArrayRef = match &places {
                None => Arc::new(BinaryArray::from_iter_values(keys)),
                Some(places) => {
                    let keys = places.values().iter().map(|at| keys[*at as usize]);
                    Arc::new(BinaryArray::from_iter_values(keys))
                }
            };
            output.push(keys);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(granted));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), output, &options);
        batch.map(Some).map_err(|error| Error::internal(format!("scan of {}: {error}", self.source.table().name)))
    }
}

impl Taken {
    /// Removes rows that were seen before.
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

/// The cheapest access for a request.
fn choose(source: &dyn TableSource, request: &ScanRequest, offered: &[ColumnLimit]) -> Result<KeyAccess> {
    let wanted = Wanted { predicates: &request.predicates, offered, top: request.top.as_ref(), limit: request.limit };
    KeyAccess::choose(source.table(), source.statistics(), &|| keyed(source).rows_about(), wanted)
}

/// Whether reading a column copy of the whole table costs less than an access to the rows.
fn is_dearer_than_copy(access: &KeyAccess, source: &dyn KeyedSource) -> bool {
    access.cost > source.rows_about() as f64 * COPIED_ROW
}

/// Whether a scan of a keyed table should read a column copy, if there is one, because it reads most rows. Joins may
/// still offer filters that leave only a few.
pub(crate) fn reads_most_rows(source: &dyn TableSource, request: &ScanRequest) -> bool {
    let Some(keyed) = source.keyed() else { return false };
    choose(source, request, &[]).is_ok_and(|access| is_dearer_than_copy(&access, keyed))
}

/// The columns that a scan with the output `columns` reads, each once.
pub(crate) fn columns_read(columns: &[usize], predicates: &[Predicate]) -> Vec<usize> {
    let mut tested = Vec::new();
    predicates.iter().for_each(|predicate| predicate.collect_columns(&mut tested));
    let mut read = Vec::with_capacity(columns.len() + tested.len());
    for column in columns.iter().chain(&tested) {
        if !read.contains(column) {
            read.push(*column);
        }
    }
    read
}

/// Whether filters that joins offer for the columns of a scan can become ranges of a key of a keyed table.
pub(crate) fn can_be_narrowed(source: &dyn TableSource, request: &ScanRequest) -> bool {
    let table = source.table();
    let Some(def) = &table.keyed else { return false };
    let begins_with = |column: &usize| first_parts(def).any(|part| part.column == table.columns[*column].id);
    request.limit.is_none() && request.top.is_none() && request.columns.iter().any(begins_with)
}

/// The first part of each key of a table.
fn first_parts(def: &KeyedDef) -> impl Iterator<Item = &KeyColumn> {
    std::iter::once(&def.key).chain(def.indexes.iter().map(|index| &index.parts)).filter_map(|parts| parts.first())
}

/// Says in words how a scan of a keyed table finds the rows for which all of `predicates` are true, or of these only
/// the first rows if `top` is given. `columns` are the columns of its output. `None` if the table is not keyed.
pub fn access_text(
    source: &dyn TableSource,
    (columns, predicates): (&[usize], &[Predicate]),
    top: Option<&TopRequest>,
) -> Option<String> {
    let rows = source.keyed()?;
    let wanted = Wanted { predicates, offered: &[], top, limit: None };
    let access = KeyAccess::choose(source.table(), source.statistics(), &|| rows.rows_about(), wanted).ok()?;
    // A join may still make the scan look up a few keys.
    match is_dearer_than_copy(&access, rows) && rows.has_column_copy(&columns_read(columns, predicates)) {
        true => Some("all rows of the column copy".to_owned()),
        false => Some(access.text(source.table())),
    }
}

/// The table's rows. The caller must know that the table is keyed.
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
            rows if rows < ROWS_OF_PART || self.access.backward.is_some() => 1,
            _ => usize::MAX,
        }
    }

    fn worker(self: Arc<Self>) -> Batches {
        let (mut taken, mut own, mut has_read) = (Taken::default(), None, false);
        let (mut of_copy, mut is_decided) = (None, self.copy.is_none());
        let mut next = move || -> Result<Option<RecordBatch>> {
            if !std::mem::replace(&mut is_decided, true) {
                of_copy = self.cursor_of_copy()?;
            }
            if let Some(cursor) = &mut of_copy {
                return cursor.next().transpose();
            }
            // In key order only one worker may read and check at a time, or a later row could be returned first.
            let _turn = self.access.backward.map(|_| self.turn.lock());
            while let Some(ScanStep { batch }) = self.step(&mut taken, &mut own)? {
                if !std::mem::replace(&mut has_read, true) {
                    self.metrics.workers.fetch_add(1, Ordering::Relaxed);
                }
                if batch.is_some() {
                    return Ok(batch);
                }
            }
            Ok(None)
        };
        Box::new(std::iter::from_fn(move || next().transpose()))
    }

    fn accepts(&self, column: usize) -> bool {
        let column = self.request.columns.get(column).map(|column| self.source.table().columns[*column].kind.arrow());
        let is_partial = self.request.limit.is_some() || self.request.top.is_some();
        let is_refused = is_partial || self.filter.can_fail();
        !is_refused && column.is_some_and(|kind| KeyFilter::is_for(&kind))
    }

    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        if !self.accepts(column) {
            return;
        }
        if let Some(copy) = &self.copy {
            copy.offer(column, filter);
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
        first_parts(def).any(|part| part.column == table.columns[*column].id) && self.access.rows > ROWS_OF_NO_WORKER
    }
}
