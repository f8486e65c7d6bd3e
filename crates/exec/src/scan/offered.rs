//! Filters that joins offer to a scan: rows whose key has no match are removed before other columns are read.
//!
//! Like a predicate, a filter is tested once per distinct value if a block lists the values, and otherwise for the
//! remaining rows. A block whose zone map excludes a match is skipped. For example, if only keys below 1,000 have a
//! match, blocks with greater keys are not read. A filter that keeps more than half of the rows is not worth its time.
//! It rests, but we try it again now and then, because tables are often stored in some order of the key.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::buffer::BooleanBuffer;
use parking_lot::RwLock;
use rowmill_base::Result;
use rowmill_storage::chunk::{Chunk, CodeSet};
use rowmill_storage::{RowMask, TableDef};

use super::block_state::{BlockState, is_cheaper_by_rows};
use crate::key_filter::KeyFilter;

/// A filter rests if it keeps more than one row in this many. The join looks up the rows that it keeps a second time.
/// With 1, 2 and 8, TPC-H's Q9 takes 35, 33 and 38 ms, and Q21 35, 35 and 49 ms.
const REST_ABOVE_ONE_OF: usize = 2;
/// Frames for which a filter rests. After that, one frame tells whether the data have changed. A filter without use
/// must therefore be asked for only one in this number of frames. With 2, 16 and 128, Q17 of TPC-H takes 11.3, 10.6 and
/// 10.6 ms, and Q19 7.0, 6.0 and 6.0 ms.
const FRAMES_OF_REST: usize = 16;

/// Returns the values of a column for some rows.
pub(crate) type RowValues<'a> = dyn FnMut(usize, Range<usize>) -> Result<ArrayRef> + 'a;

/// All filters that were offered to a reader of a table.
#[derive(Debug, Default)]
pub(crate) struct OfferedFilters(RwLock<Vec<Arc<Offered>>>);

impl OfferedFilters {
    pub(crate) fn add(&self, column: usize, filter: &Arc<KeyFilter>) {
        self.0.write().push(Arc::new(Offered::new(column, Arc::clone(filter))));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    /// The filters for a block that is still to be read.
    pub(crate) fn of_block(&self) -> BlockFilters {
        BlockFilters::new(&self.0.read())
    }

    /// Removes the rows without a match, for tables that are read by rows. `values` returns the values of a column for
    /// some rows of the mask.
    pub(crate) fn keep_rows(&self, mask: &mut RowMask, values: &mut RowValues<'_>) -> Result<()> {
        self.0.read().iter().try_for_each(|offered| offered.keep_rows(mask, values))
    }
}

/// A filter on a column of the table.
#[derive(Debug)]
struct Offered {
    column: usize,
    filter: Arc<KeyFilter>,
    /// The number of frames for which the filter still rests.
    resting: AtomicUsize,
}

impl Offered {
    fn new(column: usize, filter: Arc<KeyFilter>) -> Offered {
        Offered { column, filter, resting: AtomicUsize::new(0) }
    }

    /// Whether the next frame should be filtered. Counts down the rest.
    fn is_awake(&self) -> bool {
        let rested = |frames: usize| frames.checked_sub(1);
        self.resting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rested).is_err()
    }

    fn count(&self, seen: usize, kept: usize) {
        self.filter.count(seen, kept);
        // Too many rows passed, so the next frames are read without this filter.
        if kept * REST_ABOVE_ONE_OF > seen {
            self.resting.store(FRAMES_OF_REST, Ordering::Relaxed);
        }
    }

    fn keep_rows(&self, mask: &mut RowMask, values: &mut RowValues<'_>) -> Result<()> {
        let (seen, rows) = (mask.count(), mask.extent());
        if seen == 0 || !self.is_awake() {
            return Ok(());
        }
        let kept = self.filter.keep(&values(self.column, rows.clone())?)?;
        mask.and_bits(rows, &kept);
        self.count(seen, mask.count());
        Ok(())
    }
}

/// The filters on one block.
#[derive(Debug, Default)]
pub(crate) struct BlockFilters {
    /// One for each filter that was offered before the block was begun.
    filters: Vec<BlockFilter>,
}

#[derive(Debug)]
struct BlockFilter {
    offered: Arc<Offered>,
    /// Whether the block may have a match.
    may_hold: OnceLock<bool>,
    /// The codes of values that may have a match.
    codes: OnceLock<CodeSet>,
}

impl BlockFilters {
    fn new(offered: &[Arc<Offered>]) -> BlockFilters {
        let filter = |offered: &Arc<Offered>| BlockFilter {
            offered: Arc::clone(offered),
            may_hold: OnceLock::new(),
            codes: OnceLock::new(),
        };
        BlockFilters { filters: offered.iter().map(filter).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Whether some of `rows` rows of the block may pass every filter.
    pub(crate) fn may_hold(&self, table: &TableDef, state: &BlockState, rows: usize) -> Result<bool> {
        for filter in &self.filters {
            if !filter.may_hold(table, state)? {
                // All rows of a skipped block count as removed.
                filter.offered.filter.count(rows, 0);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the rows of a frame without a match.
    pub(crate) fn keep(&self, table: &TableDef, state: &BlockState, mask: &mut RowMask) -> Result<()> {
        for filter in &self.filters {
            let seen = mask.count();
            if seen == 0 {
                break;
            }
            if filter.offered.is_awake() {
                filter.keep(table, state, seen, mask)?;
                filter.offered.count(seen, mask.count());
            }
        }
        Ok(())
    }
}

impl BlockFilter {
    fn may_hold(&self, table: &TableDef, state: &BlockState) -> Result<bool> {
        if let Some(may_hold) = self.may_hold.get() {
            return Ok(*may_hold);
        }
        let may_hold = match state.chunk(table, self.offered.column)? {
            Some(chunk) => self.offered.filter.may_hold(chunk.zone().as_ref(), chunk.null_count())?,
            None => true,
        };
        Ok(*self.may_hold.get_or_init(|| may_hold))
    }

    fn keep(&self, table: &TableDef, state: &BlockState, seen: usize, mask: &mut RowMask) -> Result<()> {
        let column = self.offered.column;
        if let Some(chunk) = state.chunk(table, column)?
            && let Some(codes) = self.codes(chunk, seen as f64 / mask.rows().len() as f64)?
        {
            return chunk.retain_codes(codes, mask);
        }
        if mask.is_full() {
            let rows = mask.rows();
            let kept = self.offered.filter.keep(&state.read(table, column, rows.clone())?)?;
            mask.and_bits(rows, &kept);
        } else {
            let kept = self.offered.filter.keep(&state.take(table, column, &mask.positions())?)?;
            mask.keep(&kept);
        }
        Ok(())
    }

    /// The codes of the values that may have a match. `None` if there are no codes, or if testing single rows takes
    /// less time than testing all values.
    fn codes(&self, chunk: &Chunk, share: f64) -> Result<Option<&CodeSet>> {
        if let Some(codes) = self.codes.get() {
            return Ok(Some(codes));
        }
        // For few remaining rows, testing each is cheaper than decoding the value list.
        if is_cheaper_by_rows(chunk, (share * chunk.rows() as f64) as usize) {
            return Ok(None);
        }
        let filter = &self.offered.filter;
        // A filter with few values is searched in the sorted list, which needs no decoding of the whole list.
        if let Some(set) = filter.searched(chunk.kind(), chunk.distinct().unwrap_or_default())
            && let Some(codes) = chunk.codes_of(set)?
        {
            return Ok(Some(self.codes.get_or_init(|| codes)));
        }
        let Some(values) = chunk.values()? else { return Ok(None) };
        let mut truth = bools(&filter.keep(&values)?);
        if chunk.null_count() > 0 {
            let null: ArrayRef = new_null_array(values.data_type(), 1);
            truth.extend(self.offered.filter.keep(&null)?.iter());
        }
        Ok(Some(self.codes.get_or_init(|| CodeSet::of_truth(truth))))
    }
}

/// Expands a bit buffer to one bool per bit.
fn bools(bits: &BooleanBuffer) -> Vec<bool> {
    let mut bools = Vec::with_capacity(bits.len() + 64);
    let chunks = bits.bit_chunks();
    for word in chunks.iter_padded() {
        bools.extend((0..64).map(|bit| word >> bit & 1 == 1));
    }
    bools.truncate(bits.len());
    bools
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::AtomicU64;

    use arrow::array::{AsArray, Int64Array, RecordBatch, StringViewArray};
    use arrow::compute::{concat_batches, filter_record_batch};
    use arrow::datatypes::Int64Type;
    use roaring::RoaringBitmap;
    use rowmill_base::{BlockId, Broker, Cancel, ColumnId, RowNumber, SchemaId, SqlType, TableId};
    use rowmill_io::MemoryDisk;
    use rowmill_storage::{
        Block, BlockOwner, BlockSource, ColumnDef, ColumnFile, ColumnTarget, FreedExtents, OpenRun, TableSource,
        write_block,
    };

    use super::*;
    use crate::batch::BatchSource;
    use crate::key_filter::FilterCounts;
    use crate::scan::{ScanRequest, TableScan};

    /// A table in memory: blocks and a run.
    #[derive(Debug)]
    struct OfferedTable {
        table: Arc<TableDef>,
        blocks: Vec<Arc<Block>>,
        runs: Vec<Arc<OpenRun>>,
    }

    impl TableSource for OfferedTable {
        fn table(&self) -> &Arc<TableDef> {
            &self.table
        }

        fn blocks(&self) -> &[Arc<Block>] {
            &self.blocks
        }

        fn runs(&self) -> &[Arc<OpenRun>] {
            &self.runs
        }
    }

    struct OfferedColumns<'a>(&'a RecordBatch);

    impl BlockSource for OfferedColumns<'_> {
        fn rows(&self) -> usize {
            self.0.num_rows()
        }

        fn column(&self, index: usize) -> Result<ArrayRef> {
            Ok(Arc::clone(self.0.column(index)))
        }
    }

    fn definition() -> TableDef {
        let column = |id: u32, name: &str, kind: SqlType| ColumnDef {
            id: ColumnId(id),
            name: name.into(),
            kind,
            nullable: true,
            default: None,
            missing: None,
            part: None,
        };
        let text = SqlType::Text { chars_max: None };
        TableDef {
            id: TableId(1),
            schema: SchemaId(1),
            name: "t".into(),
            version: 1,
            columns: vec![column(0, "few", SqlType::Int64), column(1, "many", SqlType::Int64), column(2, "text", text)],
            next_column: ColumnId(3),
            keyed: None,
            time: None,
            rules: Default::default(),
        }
    }

    /// Rows with a column of few numbers, one of many, and one of texts. Each has NULLs.
    fn rows(table: &TableDef, rows: Range<i64>) -> RecordBatch {
        let some = |row: i64, nulls: i64| (row % nulls != 0).then_some(row);
        let few = rows.clone().map(|row| some(row, 5).map(|row| row / 1_000));
        let many = rows.clone().map(|row| some(row, 7).map(|row| row * 1_000_003));
        let text = rows.map(|row| some(row, 11).map(|row| format!("text {} of the table", row % 100)));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(few.collect::<Int64Array>()),
            Arc::new(many.collect::<Int64Array>()),
            Arc::new(text.collect::<StringViewArray>()),
        ];
        RecordBatch::try_new(table.arrow_schema(), columns).expect("columns of the table")
    }

    const ROWS_PER_BLOCK: i64 = 10_000;

    fn table() -> OfferedTable {
        let (definition, disk, memory) = (definition(), Arc::new(MemoryDisk::new()), Broker::new(1 << 30));
        let freed = Arc::new(FreedExtents::default());
        let file = |column: &ColumnDef| ColumnTarget {
            id: column.id,
            kind: column.kind.clone(),
            file: Arc::new(
                ColumnFile::new(disk.clone(), memory.clone(), column.name.clone(), Vec::new()).expect("a new file"),
            ),
        };
        let targets: Vec<ColumnTarget> = definition.columns.iter().map(file).collect();
        let block = |number: i64| {
            let batch = rows(&definition, number * ROWS_PER_BLOCK..(number + 1) * ROWS_PER_BLOCK);
            let owner = BlockOwner { table: definition.id, block: BlockId(number as u64) };
            let chunks =
                write_block(owner, &OfferedColumns(&batch), &targets, &freed, 1, &Cancel::new(), &|_, _| Ok(()));
            let numbers =
                RowNumber((number * ROWS_PER_BLOCK) as u64)..RowNumber(((number + 1) * ROWS_PER_BLOCK) as u64);
            let block = Block::new(owner.block, numbers, batch.num_rows(), chunks.expect("written"), None);
            Arc::new(if number == 1 { block.with_deleted(&(0..100).collect::<RoaringBitmap>()) } else { block })
        };
        let blocks = (0..3).map(block).collect();
        let run = OpenRun::new(RowNumber(30_000), &definition, &rows(&definition, 30_000..31_000));
        OfferedTable { table: Arc::new(definition), blocks, runs: vec![Arc::new(run)] }
    }

    fn scan(table: OfferedTable) -> Arc<TableScan> {
        let request = ScanRequest {
            columns: vec![2, 1, 0],
            predicates: Vec::new(),
            limit: None,
            top: None,
            batch_rows: 1_000,
            row_numbers: false,
            cancel: Cancel::new(),
        };
        TableScan::new(Arc::new(table), request).expect("a scan")
    }

    fn filter(kind: &SqlType, values: ArrayRef, nulls_equal: bool) -> (Arc<KeyFilter>, Arc<FilterCounts>) {
        let mut memory = Broker::new(1 << 30).reservation("test");
        let counts: Arc<FilterCounts> = Arc::default();
        let filter = KeyFilter::new(&kind.arrow(), &[&values], nulls_equal, Arc::clone(&counts), &mut memory);
        (Arc::new(filter.expect("memory")), counts)
    }

    fn read(scan: &Arc<TableScan>) -> RecordBatch {
        let batches: Vec<RecordBatch> = Arc::clone(scan).worker().map(|batch| batch.expect("no error")).collect();
        concat_batches(BatchSource::schema(&**scan), &batches).expect("one schema")
    }

    fn load(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    #[test]
    fn a_scan_returns_exactly_the_rows_that_the_filter_keeps() {
        let all = read(&scan(table()));
        assert_eq!(all.num_rows(), 30_900);
        let ints = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let texts: ArrayRef =
            Arc::new(StringViewArray::from(vec!["text 17 of the table", "text 99 of the table", "?"]));
        let few = [
            (2, SqlType::Int64, ints(vec![Some(3), Some(17), Some(30), None])),
            (1, SqlType::Int64, ints((0..500).map(|row| Some(row * 61 * 1_000_003)).collect())),
            (0, SqlType::Text { chars_max: None }, texts),
        ];
        for (column, kind, values) in few {
            for nulls_equal in [false, true] {
                let (filter, counts) = filter(&kind, Arc::clone(&values), nulls_equal);
                let scan = scan(table());
                scan.offer(column, &filter);
                let kept = filter.keep(all.column(column)).expect("one type");
                assert_eq!(read(&scan), filter_record_batch(&all, &kept.into()).expect("one length"), "{values:?}");
                assert!((load(&counts.kept)) < load(&counts.seen) && load(&counts.seen) <= 31_000);
            }
        }
    }

    #[test]
    fn filters_skip_blocks_and_rest_if_they_keep_most_rows() {
        let near: ArrayRef = Arc::new(Int64Array::from_iter_values((10_500..10_600).map(|row| row * 1_000_003)));
        let (filter, counts) = filter(&SqlType::Int64, near, false);
        let scan_of_few = scan(table());
        scan_of_few.offer(1, &filter);
        let rows = read(&scan_of_few);
        assert_eq!(rows.num_rows(), (10_500..10_600).filter(|row| row % 7 != 0).count());
        assert!(rows.column(1).as_primitive::<Int64Type>().iter().all(|value| value.is_some()));
        // The first and the third block have no match, so no column of theirs is read.
        assert_eq!((load(&counts.seen), load(&counts.kept)), (30_900, rows.num_rows() as u64));

        for (step, looked_at) in [(2, 30_900), (1, 10_000)] {
            let some: ArrayRef = Arc::new(Int64Array::from_iter_values((0..40).step_by(step)));
            let (filter, counts) = self::filter(&SqlType::Int64, some, false);
            let scan = scan(table());
            scan.offer(2, &filter);
            read(&scan);
            assert_eq!(load(&counts.seen), looked_at, "one of {step}");
        }
    }

    #[test]
    fn scans_with_a_limit_accept_no_filters() {
        let accepts = |change: &dyn Fn(&mut ScanRequest)| {
            let mut request = scan(table()).request.clone();
            change(&mut request);
            TableScan::new(Arc::new(table()), request).expect("a scan").accepts(0)
        };
        assert!(accepts(&|_| {}));
        assert!(!accepts(&|request| request.limit = Some(5)));
        assert!(!accepts(&|request| request.columns = Vec::new()));
    }
}
