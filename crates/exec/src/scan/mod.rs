//! Scans of one table: page frames, filters that skip data, and columns that are read only for the rows that pass.
//!
//! A scan cuts the table into page frames, slices of a block's rows or of an open run. Any number of cursors share them
//! (part.rs). Each frame goes through the same steps in this order: zone maps settle the whole block, value lists
//! settle a conjunct once per distinct value, codes or rows select positions, and only then the wanted columns are
//! read, for the selected positions alone.

pub(crate) mod block_state;
pub mod condition;
mod decoded_rows;
pub(crate) mod filter;
mod key_access;
mod key_limits;
mod keyed;
#[cfg(test)]
mod keyed_tests;
pub(crate) mod offered;
pub(crate) mod part;
mod place;
#[cfg(test)]
mod tests;
mod top;

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use roaring::RoaringBitmap;
use rowmill_base::{Cancel, Error, Result};
use rowmill_plan::Predicate;
use rowmill_storage::chunk::{ReadMeter, Verdict};
use rowmill_storage::{Block, OpenRun, RowMask, RowNumbers, TableDef, TableSource};

use self::block_state::{BlockState, selected, verdict};
use self::filter::Filter;
pub use self::keyed::access_text;
use self::keyed::{KeyedScan, can_be_narrowed};
pub(crate) use self::keyed::{columns_read, reads_most_rows};
use self::offered::{OfferedFilters, RowValues};
use self::part::{PartOrigin, Parts, ScanPart, SharedBlock};
pub(crate) use self::place::{PartOfTable, TablePart, TablePlace};
use self::top::TopOfScan;
pub use self::top::{TopKey, TopRequest};
use crate::batch::{BatchSource, Batches};
use crate::cache::L1_BYTES;
use crate::group::take;
use crate::key_filter::KeyFilter;
use crate::predicate::evaluate;

/// Most rows of a page frame. A row mask of it takes a quarter of the first-level cache.
pub(crate) const FRAME_ROWS_MAX: usize = L1_BYTES / 4 * u8::BITS as usize;

/// Positions of a bitmap that are taken at once.
const POSITIONS_AT_ONCE: usize = 256;

/// The name of the column of row numbers. No column of a table can have it.
pub(crate) const ROW_NUMBER_COLUMN: &str = "\u{0}row";

/// The name of the column of places. No column of a table can have it.
const PLACE_COLUMN: &str = "\u{0}place";

/// The output of a scan.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// Columns by their positions in the table's definition, in the order of the output.
    pub columns: Vec<usize>,
    /// Conditions that must all be true. The scan applies them exactly.
    pub predicates: Vec<Predicate>,
    /// Rows after which the scan may stop.
    pub limit: Option<usize>,
    /// An order whose first rows alone are needed. The scan may leave out all other rows.
    pub top: Option<TopRequest>,
    /// Most rows of a batch.
    pub batch_rows: usize,
    /// Whether a last column has the number of each row (UInt64), or for a keyed table its key (Binary).
    pub row_numbers: bool,
    /// Ends the scan early. Checked once per frame.
    pub cancel: Cancel,
}

/// Counts of what a scan did.
#[derive(Debug, Default)]
pub struct ScanMetrics {
    /// Blocks that were read.
    pub blocks_read: AtomicU64,
    /// Blocks that zone maps skipped.
    pub blocks_skipped: AtomicU64,
    /// Rows of the frames that were read.
    pub rows_read: AtomicU64,
    /// Rows that passed.
    pub rows_selected: AtomicU64,
    /// Workers that read at least one frame or block.
    pub workers: AtomicU64,
    /// The access to the rows of a keyed table, in words.
    pub access: OnceLock<String>,
    /// The reads of blocks, and the memory of their value lists.
    pub reads: Arc<ReadMeter>,
}

/// A scan of a table, columnar or keyed, that is ready to be read.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The source of the batches.
    pub source: Arc<dyn BatchSource>,
    /// Counts of the work done so far.
    pub metrics: Arc<ScanMetrics>,
}

impl Scan {
    /// Prepares a scan; reads no rows.
    pub fn new(source: Arc<dyn TableSource>, request: ScanRequest) -> Result<Scan> {
        Ok(match source.keyed() {
            Some(_) => {
                let scan = KeyedScan::new(source, None, request)?;
                Scan { metrics: Arc::clone(scan.metrics()), source: scan }
            }
            None => {
                let scan = TableScan::new(source, request)?;
                Scan { metrics: Arc::clone(scan.metrics()), source: scan }
            }
        })
    }

    /// Prepares a scan of a keyed table that has the column copy `copy`; reads no rows.
    pub(crate) fn with_copy(
        source: Arc<dyn TableSource>,
        copy: Arc<dyn TableSource>,
        request: ScanRequest,
    ) -> Result<Scan> {
        if !can_be_narrowed(&*source, &request) {
            return Scan::new(copy, request);
        }
        let scan = KeyedScan::new(source, Some(copy), request)?;
        Ok(Scan { metrics: Arc::clone(scan.metrics()), source: scan })
    }
}

/// One scan of one columnar table, shared by its cursors.
pub struct TableScan {
    source: Arc<dyn TableSource>,
    request: ScanRequest,
    /// Whether a last column has the place of each row.
    has_places: bool,
    filter: Filter,
    top: Option<TopOfScan>,
    offered: OfferedFilters,
    schema: SchemaRef,
    parts: Parts,
    /// Rows that may still be produced.
    rows_left: AtomicUsize,
    metrics: Arc<ScanMetrics>,
}

impl fmt::Debug for TableScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableScan").field("request", &self.request).field("frames", &self.frames()).finish()
    }
}

impl TableScan {
    /// Prepares the scan. Reads zone maps, but no rows.
    pub fn new(source: Arc<dyn TableSource>, request: ScanRequest) -> Result<Arc<Self>> {
        TableScan::measured(source, request, false, Arc::default())
    }

    /// Prepares a scan whose last column has the [`TablePlace`] of each row (UInt64). All rows of a batch are of one
    /// part of the table, and ascend.
    pub(crate) fn with_places(source: Arc<dyn TableSource>, request: ScanRequest) -> Result<Arc<Self>> {
        TableScan::measured(source, request, true, Arc::default())
    }

    /// Prepares the scan, which adds to `metrics`.
    fn measured(
        source: Arc<dyn TableSource>,
        request: ScanRequest,
        has_places: bool,
        metrics: Arc<ScanMetrics>,
    ) -> Result<Arc<Self>> {
        let table = Arc::clone(source.table());
        let filter = Filter::new(&*source, request.predicates.clone())?;
        let mut parts = Vec::new();
        let mut blocks: Vec<(usize, &Block)> = source.blocks().iter().map(|block| &**block).enumerate().collect();
        let top = request.top.clone().map(|top| TopOfScan::new(top, &table)).transpose()?;
        if let Some(top) = &top {
            // A tight bound early lets later blocks be skipped.
            top.best_first(&table, &mut blocks)?;
        }
        for (index, block) in blocks {
            request.cancel.check()?;
            if block.live_rows() > 0 && verdict(block, &table, &filter)? != Verdict::Nothing {
                parts.push(ScanPart::new(PartOrigin::Block(index), cut(0..block.rows(), FRAME_ROWS_MAX)));
            }
        }
        add(&metrics.blocks_read, parts.len() as u64);
        add(&metrics.blocks_skipped, (source.blocks().len() - parts.len()) as u64);
        for (index, run) in source.runs().iter().enumerate() {
            parts.push(ScanPart::new(PartOrigin::Run(index), cut(0..run.rows(), FRAME_ROWS_MAX)));
        }
        let schema = output_schema(&table, &request, has_places);
        let rows_left = AtomicUsize::new(request.limit.unwrap_or(usize::MAX));
        Ok(Arc::new(TableScan {
            source,
            request,
            has_places,
            filter,
            top,
            offered: OfferedFilters::default(),
            schema,
            parts: Parts::new(parts),
            rows_left,
            metrics,
        }))
    }

    /// The schema of the batches, with the names as spelled in the table.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Counts of the work done so far.
    pub fn metrics(&self) -> &Arc<ScanMetrics> {
        &self.metrics
    }

    /// The number of frames. More cursors than frames have nothing to do.
    pub fn frames(&self) -> usize {
        self.parts.frames()
    }

    /// Makes a cursor for one worker. Every batch goes to exactly one cursor.
    pub fn cursor(self: &Arc<Self>) -> ScanCursor {
        ScanCursor { scan: Arc::clone(self), part: None, batch: None, offset: 0, has_read: false }
    }

    fn table(&self) -> &TableDef {
        self.source.table()
    }

    fn read_frame(&self, part: &ScanPart, rows: Range<usize>) -> Result<Option<RecordBatch>> {
        self.request.cancel.check()?;
        match part.origin {
            PartOrigin::Block(block) => {
                let shared = part.enter(|| SharedBlock { state: self.begin(block), filters: self.offered.of_block() });
                match self.may_hold(block, &shared, rows.len())? {
                    true => self.read_block((block, &self.source.blocks()[block]), &shared, rows),
                    false => Ok(None),
                }
            }
            PartOrigin::Run(run) => self.read_run((run, &self.source.runs()[run]), rows),
        }
    }

    /// The state of a block before anything of it is read. Rows after the bound of the order are removed together with
    /// those that fail the filter.
    fn begin(&self, block: usize) -> BlockState {
        let block = &self.source.blocks()[block];
        let state = BlockState::new(block, self.table(), &self.filter, &self.metrics.reads);
        match self.top.as_ref().and_then(|top| top.bound(self.table())) {
            Some((column, values)) => state.with_bound(column, values),
            None => state,
        }
    }

    /// Whether a block may have rows that are still needed.
    fn may_hold(&self, block: usize, shared: &SharedBlock, rows: usize) -> Result<bool> {
        match &self.top {
            Some(top) => top.may_hold(&self.source.blocks()[block], self.table()),
            None => shared.filters.may_hold(self.table(), &shared.state, rows),
        }
    }

    fn read_block(
        &self,
        (number, block): (usize, &Block),
        shared: &SharedBlock,
        rows: Range<usize>,
    ) -> Result<Option<RecordBatch>> {
        let (table, state) = (self.table(), &shared.state);
        let mut mask = live_rows(&rows, block.deleted());
        state.filter(table, &self.filter, &mut mask)?;
        shared.filters.keep(table, state, &mut mask)?;
        let mut selected = self.count(&mask);
        if selected == 0 {
            return Ok(None);
        }
        let mut positions = positions_of(&mask);
        if let Some(top) = &self.top {
            let mut all = positions.unwrap_or_else(|| (rows.start as u32..rows.end as u32).collect());
            // Codes can rule out most rows before any value is decoded.
            if let Some(chunk) = state.chunk(table, top.first_column())?
                && let Some(few) = top.by_codes(chunk, &all)?
            {
                all = few;
            }
            let kept = top.keep(all, &mut |column, positions| state.take(table, column, positions))?;
            if kept.is_empty() {
                return Ok(None);
            }
            selected = kept.len();
            positions = Some(kept);
        }
        let columns = self.request.columns.iter().map(|&column| match &positions {
            None => state.read(table, column, rows.clone()),
            Some(positions) => state.take(table, column, positions),
        });
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        if self.request.row_numbers {
            columns.push(number_column(state.row_numbers(table)?, rows.clone(), positions.as_deref()));
        }
        if self.has_places {
            columns.push(place_column(TablePart::block(number), rows, positions.as_deref()));
        }
        self.batch(columns, selected).map(Some)
    }

    fn read_run(&self, (number, run): (usize, &OpenRun), rows: Range<usize>) -> Result<Option<RecordBatch>> {
        let table = self.table();
        let mut mask = rows_of_run(table, run, &self.filter, &rows)?;
        self.offered.keep_rows(&mut mask, &mut values_of_run(table, run))?;
        let selected = self.count(&mask);
        if selected == 0 {
            return Ok(None);
        }
        let positions = positions_of(&mask);
        // Positions count from the start of the run, but the slice starts at the frame.
        let places = positions.as_ref().map(|positions| {
            UInt32Array::from_iter_values(positions.iter().map(|position| position - rows.start as u32))
        });
        let mut columns = Vec::with_capacity(self.request.columns.len() + 1);
        for &column in &self.request.columns {
            let values = run.values(table, column)?.slice(rows.start, rows.len());
            columns.push(match &places {
                None => values,
                Some(places) => {
                    arrow::compute::take(&values, places, None).map_err(|error| Error::internal(error.to_string()))?
                }
            });
        }
        if self.request.row_numbers {
            columns.push(number_column(&RowNumbers::Dense(run.first_row()), rows.clone(), positions.as_deref()));
        }
        if self.has_places {
            columns.push(place_column(TablePart::run(&*self.source, number), rows, positions.as_deref()));
        }
        self.batch(columns, selected).map(Some)
    }

    fn count(&self, mask: &RowMask) -> usize {
        let selected = mask.count();
        add(&self.metrics.rows_read, mask.rows().len() as u64);
        add(&self.metrics.rows_selected, selected as u64);
        selected
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::internal(format!("scan of table {}: {error}", self.table().name)))
    }

    /// How many of `rows` rows may still be produced under the limit.
    fn grant(&self, rows: usize) -> usize {
        if self.request.limit.is_none() {
            return rows;
        }
        let taken =
            self.rows_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(rows)));
        taken.map_or(0, |left| left.min(rows))
    }
}

impl BatchSource for TableScan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.frames()
    }

    fn worker(self: Arc<Self>) -> Batches {
        Box::new(self.cursor())
    }

    fn accepts(&self, column: usize) -> bool {
        // A filter must not be used here: rows that it removes would neither count for the limit nor push others out of
        // the first rows.
        let is_partial = self.request.limit.is_some() || self.request.top.is_some();
        let column = self.request.columns.get(column).map(|column| self.table().columns[*column].kind.arrow());
        // It must not hide an error of a condition either.
        !is_partial && !self.filter.can_fail() && column.is_some_and(|kind| KeyFilter::is_for(&kind))
    }

    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        if self.accepts(column) {
            self.offered.add(self.request.columns[column], filter);
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Cuts rows into frames of similar size, with at most `rows_max` rows each. `rows_max` should be a multiple of the
/// 1,024 values that are packed together, or less.
pub(crate) fn cut(rows: Range<usize>, rows_max: usize) -> impl Iterator<Item = Range<usize>> {
    let frames = rows.len().div_ceil(rows_max).max(1);
    let frame_rows = rows.len().div_ceil(frames).next_multiple_of(rows_max.min(1024)).max(1);
    let end = rows.end;
    rows.step_by(frame_rows).map(move |start| start..(start + frame_rows).min(end))
}

fn output_schema(table: &TableDef, request: &ScanRequest, has_places: bool) -> SchemaRef {
    let columns = request.columns.iter().map(|&index| {
        let column = &table.columns[index];
        Field::new(&column.name, column.kind.arrow(), column.nullable)
    });
    let of_row = if table.keyed.is_some() { DataType::Binary } else { DataType::UInt64 };
    let numbers = request.row_numbers.then(|| Field::new(ROW_NUMBER_COLUMN, of_row, false));
    let places = has_places.then(|| Field::new(PLACE_COLUMN, DataType::UInt64, false));
    Arc::new(Schema::new(columns.chain(numbers).chain(places).collect::<Vec<_>>()))
}

fn number_column(numbers: &RowNumbers, rows: Range<usize>, positions: Option<&[u32]>) -> ArrayRef {
    let at = |position: usize| numbers.at(position);
    Arc::new(match positions {
        None => UInt64Array::from_iter_values(rows.map(at)),
        Some(positions) => UInt64Array::from_iter_values(positions.iter().map(|position| at(*position as usize))),
    })
}

fn place_column(part: TablePart, rows: Range<usize>, positions: Option<&[u32]>) -> ArrayRef {
    let at = |row: usize| TablePlace { part, row: row as u32 }.to_bits();
    Arc::new(match positions {
        None => UInt64Array::from_iter_values(rows.map(at)),
        Some(positions) => UInt64Array::from_iter_values(positions.iter().map(|position| at(*position as usize))),
    })
}

/// The rows of a frame that are not deleted.
pub(crate) fn live_rows(rows: &Range<usize>, deleted: Option<&RoaringBitmap>) -> RowMask {
    let mut mask = RowMask::all(rows.clone());
    if let Some(deleted) = deleted {
        each_position(deleted, rows.clone(), |position| mask.remove(position as usize));
    }
    mask
}

/// Calls `each` with the positions of a bitmap in a range. Taking many at a time is several times faster than one by
/// one.
pub(crate) fn each_position(bitmap: &RoaringBitmap, rows: Range<usize>, mut each: impl FnMut(u32)) {
    let mut positions = bitmap.range(rows.start as u32..rows.end as u32);
    let mut taken = [0; POSITIONS_AT_ONCE];
    loop {
        let taken = positions.next_many(&mut taken);
        if taken.is_empty() {
            return;
        }
        taken.iter().copied().for_each(&mut each);
    }
}

/// The rows of a frame of an open run that are not deleted and pass the filter.
pub(crate) fn rows_of_run(table: &TableDef, run: &OpenRun, filter: &Filter, rows: &Range<usize>) -> Result<RowMask> {
    let mut mask = live_rows(rows, run.deleted());
    keep_matching(filter, &mut mask, rows, &mut values_of_run(table, run))?;
    Ok(mask)
}

/// Removes the rows of a frame that do not pass the filter, by their values.
fn keep_matching(filter: &Filter, mask: &mut RowMask, rows: &Range<usize>, values: &mut RowValues<'_>) -> Result<()> {
    let mut values = |column: usize| values(column, rows.clone());
    for predicate in filter.safe_predicates() {
        if mask.is_empty() {
            return Ok(());
        }
        mask.and_bits(rows.clone(), &selected(&evaluate(predicate, rows.len(), &mut values)?));
    }
    for predicate in filter.fallible_predicates() {
        if mask.is_empty() {
            return Ok(());
        }
        let positions = mask.positions();
        let mut values = |column: usize| {
            // Positions count from the first row of the table's part, values from the first row of the frame.
            let places: Vec<u32> = positions.iter().map(|position| position - rows.start as u32).collect();
            take(&values(column)?, &places)
        };
        mask.keep(&selected(&evaluate(predicate, positions.len(), &mut values)?));
    }
    Ok(())
}

/// Returns the values of an open run.
pub(crate) fn values_of_run(table: &TableDef, run: &OpenRun) -> impl FnMut(usize, Range<usize>) -> Result<ArrayRef> {
    |column, rows| Ok(run.values(table, column)?.slice(rows.start, rows.len()))
}

/// The positions in a mask; `None` if it has its whole range.
pub(crate) fn positions_of(mask: &RowMask) -> Option<Vec<u32>> {
    (!mask.is_full()).then(|| mask.positions())
}

/// Takes frames from its scan and returns their rows in batches.
#[derive(Debug)]
pub struct ScanCursor {
    scan: Arc<TableScan>,
    /// The part that frames are taken from.
    part: Option<usize>,
    /// The rows of a frame that do not fit one batch.
    batch: Option<RecordBatch>,
    offset: usize,
    /// Whether the cursor has taken a frame.
    has_read: bool,
}

impl ScanCursor {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = &self.batch {
                let rows = (batch.num_rows() - self.offset).min(self.scan.request.batch_rows.max(1));
                if rows > 0 {
                    let part = batch.slice(self.offset, rows);
                    self.offset += rows;
                    return Ok(Some(part));
                }
                self.batch = None;
            }
            // Other cursors may have used up the limit.
            if self.scan.rows_left.load(Ordering::Relaxed) == 0 {
                return Ok(None);
            }
            let Some((part, rows)) = self.scan.parts.next(&mut self.part) else { return Ok(None) };
            // A worker counts once, with its first frame.
            if !std::mem::replace(&mut self.has_read, true) {
                add(&self.scan.metrics.workers, 1);
            }
            if let Some(batch) = self.scan.read_frame(part, rows)? {
                // The limit is shared: this cursor gets only the rows that no other cursor has taken.
                let granted = self.scan.grant(batch.num_rows());
                self.batch = (granted > 0).then(|| batch.slice(0, granted));
                self.offset = 0;
            }
        }
    }
}

impl Iterator for ScanCursor {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}
