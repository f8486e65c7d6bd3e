//! The newest row of each combination of keys of a table: `LATEST ON`, and `row_number() = 1` over an order by time.
//!
//! The rows of a block that can still be newest are few once newer blocks were read, so we read blocks from the newest
//! backwards by their zone maps. A block need not be read if each of the keys that it lists has a row that is newer
//! than its newest row. With one key, the value list of the block says so, and no row is touched: of a table in the
//! order of time usually one block is read, and the value lists of the others. A list that equals the one before is not
//! even searched for its keys.
//!
//! Of rows with the same time the one with the greatest row number is newest. NULL is a key.

mod newest;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Broker, Cancel, Error, Result};
use rowmill_storage::chunk::Chunk;
use rowmill_storage::{Block, RowNumbers, TableSource, concat_values, times_of};

use self::newest::{NewestRows, RowPlace};
use crate::batch::{BatchSource, Batches};
use crate::row_keys::{KeyRows, RowKeys};
use crate::share::{share, with_nulls};

/// The rows of a sorted block that are read at once. A few thousand rows usually have all keys, and steps much larger
/// than a page of packed values cost nothing more for each row.
const STEP_ROWS: usize = 1 << 14;

/// What a [`LatestRows`] gives. Columns are positions in the definition of the table.
#[derive(Clone, Debug)]
pub(crate) struct LatestRequest {
    /// The columns whose combinations have one row each.
    pub(crate) keys: Vec<usize>,
    /// The column of the time: a date or timestamp without NULLs.
    pub(crate) time: usize,
    /// The columns of the result. The result has a last column (UInt64) with the numbers of the rows if `row_numbers`.
    pub(crate) columns: Vec<usize>,
    pub(crate) row_numbers: bool,
    pub(crate) batch_rows: usize,
}

/// Gives the newest row of each combination of keys.
pub(crate) struct LatestRows {
    source: Arc<dyn TableSource>,
    request: LatestRequest,
    keys: RowKeys,
    schema: SchemaRef,
    broker: Broker,
    cancel: Cancel,
    is_taken: AtomicBool,
}

impl fmt::Debug for LatestRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LatestRows").field("request", &self.request).finish()
    }
}

impl LatestRows {
    /// Makes the operator over a columnar table.
    pub(crate) fn new(
        source: Arc<dyn TableSource>,
        request: LatestRequest,
        schema: &SchemaRef,
        broker: Broker,
        cancel: Cancel,
    ) -> Result<Arc<LatestRows>> {
        let kinds = request.keys.iter().map(|key| source.table().columns[*key].kind.arrow());
        let keys = RowKeys::new(kinds)?;
        let is_taken = AtomicBool::new(false);
        Ok(Arc::new(LatestRows { source, request, keys, schema: with_nulls(schema), broker, cancel, is_taken }))
    }

    /// Finds the newest rows.
    fn newest(&self) -> Result<NewestRows> {
        let mut newest = NewestRows::new(self.broker.reservation("LATEST ON"));
        let table = self.source.table();
        for (place, run) in self.source.runs().iter().enumerate() {
            self.cancel.check()?;
            let values = |column: &usize| run.values(table, *column);
            let keys = self.request.keys.iter().map(values).collect::<Result<Vec<_>>>()?;
            let times = times_of(&run.values(table, self.request.time)?)?;
            let keys = self.keys.encode(&keys)?;
            let first = run.first_row().0;
            for (row, time) in times.into_iter().enumerate() {
                if run.deleted().is_none_or(|deleted| !deleted.contains(row as u32)) {
                    let place = RowPlace { part: place as u32, row: row as u32, is_recent: true };
                    newest.add(keys.get(row), time, first + row as u64, place);
                }
            }
            newest.account()?;
        }
        let mut covered = None;
        for (place, block, newest_time) in self.blocks_newest_first()? {
            self.cancel.check()?;
            self.block(&mut newest, &mut covered, place, block, newest_time)?;
            newest.account()?;
        }
        Ok(newest)
    }

    /// The blocks with their places and their newest times, the newest first.
    fn blocks_newest_first(&self) -> Result<Vec<(usize, &Arc<Block>, i64)>> {
        let mut blocks = Vec::with_capacity(self.source.blocks().len());
        for (place, block) in self.source.blocks().iter().enumerate() {
            let head = block.chunk_head(self.source.table(), self.request.time)?;
            let zone = head.as_ref().and_then(Chunk::zone);
            let newest = match zone.and_then(|zone| zone.max) {
                Some(bound) => times_of(&bound.value)?[0],
                None => i64::MAX,
            };
            blocks.push((place, block, newest));
        }
        blocks.sort_by_key(|(place, _, newest)| (std::cmp::Reverse(*newest), std::cmp::Reverse(*place)));
        Ok(blocks)
    }

    /// Adds the rows of a block, unless it has no row that can be newest. `covered` is the list of an earlier block.
    fn block(
        &self,
        newest: &mut NewestRows,
        covered: &mut Option<CoveredList>,
        place: usize,
        block: &Block,
        newest_time: i64,
    ) -> Result<()> {
        let table = self.source.table();
        let rows = block.rows();
        let is_deleted = |row: usize| block.deleted().is_some_and(|deleted| deleted.contains(row as u32));
        let at = |row: usize| RowPlace { part: place as u32, row: row as u32, is_recent: false };
        let chunk = match self.request.keys.as_slice() {
            [key] => block.chunk(table, *key)?.filter(Chunk::has_values),
            _ => None,
        };
        // Blocks of a table often list the same keys, and comparing two lists is cheaper than seeking each key.
        // Comparing stored bytes is cheaper still, because no list is decoded.
        if let (Some(chunk), Some(covered)) = (&chunk, &*covered)
            && newest_time < covered.oldest
            && chunk.has_list_of(&covered.chunk)?
            && covered.has_null == (chunk.null_count() > 0)
        {
            return Ok(());
        }
        let listed = match chunk {
            Some(chunk) => chunk.values()?.map(|values| (chunk, values)),
            None => None,
        };
        let Some((chunk, values)) = listed else {
            let values = |column: &usize| self.values(block, *column);
            let keys = self.request.keys.iter().map(values).collect::<Result<Vec<_>>>()?;
            let keys = self.keys.encode(&keys)?;
            let (numbers, times) = (block.row_numbers(table)?, self.times(block, 0..rows)?);
            for row in (0..rows).filter(|row| !is_deleted(*row)) {
                newest.add(keys.get(row), times[row], numbers.at(row), at(row));
            }
            return Ok(());
        };
        let has_null = chunk.null_count() > 0;
        if covered.as_ref().is_some_and(|list| newest_time < list.oldest && list.is_equal(&values, has_null)) {
            return Ok(());
        }
        let keys = ListedKeys::new(&self.keys, &values, has_null)?;
        let codes_open: Vec<bool> = keys.iter().map(|key| !newest.is_newer(key, newest_time)).collect();
        if codes_open.contains(&true) {
            let numbers = block.row_numbers(table)?;
            let best = self.newest_of_codes(block, &chunk, &numbers, &codes_open)?;
            for (best, key) in best.into_iter().zip(keys.iter()) {
                if let Some((time, row)) = best {
                    newest.add(key, time, numbers.at(row as usize), at(row as usize));
                }
            }
        }
        if let Some(oldest) = newest.oldest_of(keys.iter()) {
            *covered = Some(CoveredList { chunk, values, has_null, oldest });
        }
        Ok(())
    }

    /// The time and the position of the newest row of each code of a block, for codes that are open.
    fn newest_of_codes(
        &self,
        block: &Block,
        chunk: &Chunk,
        numbers: &RowNumbers,
        codes_open: &[bool],
    ) -> Result<Vec<Option<(i64, u32)>>> {
        let is_deleted = |row: usize| block.deleted().is_some_and(|deleted| deleted.contains(row as u32));
        let mut best: Vec<Option<(i64, u32)>> = vec![None; codes_open.len()];
        let mut missing = codes_open.iter().filter(|is_open| **is_open).count();
        let is_sorted = self.source.time_column() == Some(self.request.time);
        let (mut end, mut codes) = (block.rows(), Vec::new());
        while end > 0 {
            // The last rows of a sorted block are its newest ones.
            let start = if is_sorted { end.saturating_sub(STEP_ROWS) } else { 0 };
            codes.clear();
            chunk.codes(start..end, &mut codes)?;
            let times = self.times(block, start..end)?;
            debug_assert!(!is_sorted || times.is_sorted(), "blocks of a time table are in the order of time");
            for (row, (code, time)) in (start..end).zip(codes.iter().zip(&times)) {
                let code = *code as usize;
                let is_better = match best[code] {
                    None => true,
                    Some((other, at)) => (*time, numbers.at(row)) > (other, numbers.at(at as usize)),
                };
                if is_better && codes_open[code] && !is_deleted(row) {
                    missing -= usize::from(best[code].is_none());
                    best[code] = Some((*time, row as u32));
                }
            }
            // Rows before these can have the same time as the first one, and a greater number.
            if missing == 0 && best.iter().flatten().all(|(time, _)| *time > times[0]) {
                break;
            }
            end = start;
        }
        Ok(best)
    }

    fn values(&self, block: &Block, column: usize) -> Result<ArrayRef> {
        match block.chunk(self.source.table(), column)? {
            Some(chunk) => chunk.read(0..block.rows()),
            None => self.missing(column, block.rows()),
        }
    }

    fn missing(&self, column: usize, rows: usize) -> Result<ArrayRef> {
        let column = &self.source.table().columns[column];
        rowmill_storage::repeat_missing(column.missing.as_ref(), &column.kind.arrow(), rows)
    }

    fn times(&self, block: &Block, rows: Range<usize>) -> Result<Vec<i64>> {
        match block.chunk(self.source.table(), self.request.time)? {
            Some(chunk) => {
                let mut times = Vec::with_capacity(rows.len());
                chunk.integers(rows, &mut times)?;
                Ok(times)
            }
            None => times_of(&self.missing(self.request.time, rows.len())?),
        }
    }

    /// The rows of the result in one batch.
    fn batch(&self, newest: NewestRows) -> Result<RecordBatch> {
        let places = newest.into_places();
        let table = self.source.table();
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); self.schema.fields().len()];
        let rows = places.len();
        for same_part in places.chunk_by(|one, other| (one.is_recent, one.part) == (other.is_recent, other.part)) {
            let part = same_part[0].part as usize;
            let rows: Vec<u32> = same_part.iter().map(|place| place.row).collect();
            for (at, column) in self.request.columns.iter().enumerate() {
                let values = if same_part[0].is_recent {
                    let all = self.source.runs()[part].values(table, *column)?;
                    take(&all, &UInt32Array::from(rows.clone()), None).map_err(failed)?
                } else {
                    match self.source.blocks()[part].chunk(table, *column)? {
                        Some(chunk) => chunk.take(&rows)?,
                        None => self.missing(*column, rows.len())?,
                    }
                };
                columns[at].push(values);
            }
            if self.request.row_numbers {
                let numbers = match same_part[0].is_recent {
                    true => RowNumbers::Dense(self.source.runs()[part].first_row()),
                    false => self.source.blocks()[part].row_numbers(table)?,
                };
                let numbers = rows.iter().map(|row| numbers.at(*row as usize));
                let last = columns.last_mut().expect("the result has a column of row numbers");
                last.push(Arc::new(arrow::array::UInt64Array::from_iter_values(numbers)));
            }
        }
        let empty = |place: usize| arrow::array::new_empty_array(self.schema.field(place).data_type());
        let columns = columns.iter().enumerate().map(|(place, parts)| match parts.is_empty() {
            true => Ok(empty(place)),
            false => concat_values(parts),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(failed)
    }
}

impl BatchSource for LatestRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn worker(self: Arc<Self>) -> Batches {
        let is_first = !self.is_taken.swap(true, Ordering::SeqCst);
        let mut rest: Option<RecordBatch> = None;
        let mut is_done = !is_first;
        share(move || {
            if !std::mem::replace(&mut is_done, true) {
                rest = Some(self.batch(self.newest()?)?);
            }
            let Some(batch) = rest.take().filter(|batch| batch.num_rows() > 0) else { return Ok(None) };
            let rows = batch.num_rows().min(self.request.batch_rows);
            rest = Some(batch.slice(rows, batch.num_rows() - rows));
            Ok(Some(batch.slice(0, rows)))
        })
    }
}

/// The list of a block whose keys all have a newest row.
struct CoveredList {
    chunk: Chunk,
    values: ArrayRef,
    has_null: bool,
    /// The time of the oldest of these rows.
    oldest: i64,
}

impl CoveredList {
    fn is_equal(&self, values: &ArrayRef, has_null: bool) -> bool {
        self.has_null == has_null && self.values.len() == values.len() && *self.values == **values
    }
}

/// The keys that a block lists, by their codes, in the form of [`RowKeys`].
struct ListedKeys {
    keys: KeyRows,
    values: usize,
    /// The key of NULL, whose code is the number of values.
    null: Option<KeyRows>,
}

impl ListedKeys {
    fn new(keys: &RowKeys, values: &ArrayRef, has_null: bool) -> Result<ListedKeys> {
        let null = || keys.encode(&[arrow::array::new_null_array(values.data_type(), 1)]);
        Ok(ListedKeys {
            keys: keys.encode(std::slice::from_ref(values))?,
            values: values.len(),
            null: has_null.then(null).transpose()?,
        })
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.values).map(|code| self.keys.get(code)).chain(self.null.iter().map(|null| null.get(0)))
    }
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot read the newest rows: {error}"))
}
