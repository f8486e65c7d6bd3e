//! The newest row of each combination of keys of a table: `LATEST ON`, and `row_number() = 1` over an order by time.
//!
//! The rows of a block that can still be newest are few once newer blocks were read, so we read blocks from the newest
//! backwards by their zone maps. A block need not be read if each of the keys that it lists has a row that is newer
//! than its newest row. With one key, the value list of the block says so, and no row is touched: of a table in the
//! order of time usually one block is read, and the value lists of the others.
//!
//! Of rows with the same time the one with the greatest row number is newest. NULL is a key.

mod newest;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use rowmill_base::{Broker, Cancel, Error, Result};
use rowmill_storage::chunk::Chunk;
use rowmill_storage::{Block, TableSource, concat_values};

use self::newest::{NewestRows, RowPlace};
use crate::batch::{BatchSource, Batches};
use crate::row_keys::RowKeys;
use crate::share::{share, with_nulls};

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
            let times = ticks(&run.values(table, self.request.time)?)?;
            let keys = self.keys.encode(&keys)?;
            let first = run.first_row().0;
            for row in 0..run.rows() {
                if run.deleted().is_none_or(|deleted| !deleted.contains(row as u32)) {
                    let place = RowPlace { part: place as u32, row: row as u32, is_recent: true };
                    newest.add(keys.get(row), times[row], first + row as u64, place);
                }
            }
            newest.account()?;
        }
        for (place, block, newest_time) in self.blocks_newest_first()? {
            self.cancel.check()?;
            self.block(&mut newest, place, block, newest_time)?;
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
                Some(bound) => ticks(&bound.value)?[0],
                None => i64::MAX,
            };
            blocks.push((place, block, newest));
        }
        blocks.sort_by_key(|(place, _, newest)| (std::cmp::Reverse(*newest), std::cmp::Reverse(*place)));
        Ok(blocks)
    }

    /// Adds the rows of a block, unless it has no row that can be newest.
    fn block(&self, newest: &mut NewestRows, place: usize, block: &Block, newest_time: i64) -> Result<()> {
        let table = self.source.table();
        let rows = block.rows();
        let listed = match self.request.keys.as_slice() {
            [key] => self.listed_keys(block, *key)?,
            _ => None,
        };
        let is_deleted = |row: usize| block.deleted().is_some_and(|deleted| deleted.contains(row as u32));
        let at = |row: usize| RowPlace { part: place as u32, row: row as u32, is_recent: false };
        let Some((chunk, keys)) = listed else {
            let values = |column: &usize| self.values(block, *column);
            let keys = self.request.keys.iter().map(values).collect::<Result<Vec<_>>>()?;
            let keys = self.keys.encode(&keys)?;
            let (numbers, times) = (block.row_numbers(table)?, self.times(block)?);
            for row in (0..rows).filter(|row| !is_deleted(*row)) {
                newest.add(keys.get(row), times[row], numbers.at(row), at(row));
            }
            return Ok(());
        };
        let codes_open: Vec<bool> = keys.iter().map(|key| !newest.is_newer(key, newest_time)).collect();
        if codes_open.iter().all(|is_open| !is_open) {
            return Ok(());
        }
        let (numbers, times) = (block.row_numbers(table)?, self.times(block)?);
        let mut codes = Vec::with_capacity(rows);
        chunk.codes(0..rows, &mut codes)?;
        // The newest row of each code, found without hashing.
        let mut best: Vec<Option<u32>> = vec![None; keys.len()];
        for row in 0..rows {
            let code = codes[row] as usize;
            let is_better = match best[code] {
                None => true,
                Some(other) => {
                    let other = other as usize;
                    (times[row], numbers.at(row)) > (times[other], numbers.at(other))
                }
            };
            if is_better && codes_open[code] && !is_deleted(row) {
                best[code] = Some(row as u32);
            }
        }
        for (code, row) in best.into_iter().enumerate() {
            if let Some(row) = row.map(|row| row as usize) {
                newest.add(&keys[code], times[row], numbers.at(row), at(row));
            }
        }
        Ok(())
    }

    /// The keys that a block lists, by their codes, in the form of [`RowKeys`]. `None` if it has no list for the
    /// column.
    fn listed_keys(&self, block: &Block, key: usize) -> Result<Option<(Chunk, Vec<Vec<u8>>)>> {
        let Some(chunk) = block.chunk(self.source.table(), key)? else { return Ok(None) };
        let Some(values) = chunk.values()? else { return Ok(None) };
        let encoded = self.keys.encode(std::slice::from_ref(&values))?;
        let mut keys: Vec<Vec<u8>> = (0..values.len()).map(|code| encoded.get(code).to_vec()).collect();
        if chunk.null_count() > 0 {
            // The code of NULL is the number of values.
            let null = arrow::array::new_null_array(values.data_type(), 1);
            keys.push(self.keys.encode(&[null])?.get(0).to_vec());
        }
        Ok(Some((chunk, keys)))
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

    fn times(&self, block: &Block) -> Result<Vec<i64>> {
        match block.chunk(self.source.table(), self.request.time)? {
            Some(chunk) => {
                let mut times = Vec::with_capacity(block.rows());
                chunk.integers(0..block.rows(), &mut times)?;
                Ok(times)
            }
            None => ticks(&self.missing(self.request.time, block.rows())?),
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
                    true => rowmill_storage::RowNumbers::Dense(self.source.runs()[part].first_row()),
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

/// The values of a date or timestamp as integers.
fn ticks(values: &ArrayRef) -> Result<Vec<i64>> {
    let values = match values.data_type() {
        DataType::Date32 => arrow::compute::cast(values, &DataType::Int32).map_err(failed)?,
        _ => Arc::clone(values),
    };
    let values = arrow::compute::cast(&values, &DataType::Int64).map_err(failed)?;
    Ok(values.as_primitive::<Int64Type>().values().to_vec())
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("cannot read the newest rows: {error}"))
}
