//! The rows of one side in a slice of time, in the order of time.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, UInt32Array, new_empty_array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use rowmill_base::{Cancel, Error, ErrorKind, Result};
use rowmill_plan::Predicate;
use rowmill_storage::chunk::{Chunk, Verdict};
use rowmill_storage::{Block, OpenRun, TableDef, times_of};

use super::join_slices::SliceSide;
use super::key_numbers::{KeyNumbers, NO_NUMBER, SharedNumbers};
use crate::scan::block_state::{BlockState, verdict};
use crate::scan::filter::Filter;
use crate::scan::{FRAME_ROWS_MAX, cut, live_rows, positions_of, rows_of_run};

/// The keys of a block are numbered by its value list if it has at most one value for this number of rows.
const ROWS_PER_VALUE: usize = 4;

/// Rows of one side, in the order of time. Rows with equal times are in the order in which they were added to the
/// table. By default there are no rows and no columns, and other rows can be added after them.
#[derive(Default)]
pub(super) struct SliceRows {
    /// The columns that the join needs.
    pub(super) columns: Vec<ArrayRef>,
    /// The number of the key of each row.
    pub(super) keys: Vec<u32>,
    /// The time of each row.
    pub(super) times: Vec<i64>,
}

/// Rows of one side in the order of time, whose columns are still in parts.
pub(super) struct SliceParts {
    /// The parts of each column.
    parts: Vec<Vec<ArrayRef>>,
    kinds: Vec<DataType>,
    keys: Vec<u32>,
    times: Vec<i64>,
}

/// Rows while they are read.
struct RowsRead<'a> {
    side: &'a SliceSide,
    filter: Filter,
    numbers: &'a mut KeyNumbers,
    shared: &'a SharedNumbers,
    cancel: &'a Cancel,
    /// The parts of each column.
    parts: Vec<Vec<ArrayRef>>,
    keys: Vec<u32>,
    times: Vec<i64>,
    /// The codes of a frame.
    codes: Vec<u32>,
}

impl SliceSide {
    /// Reads the rows that meet `predicates` besides the conditions of the scan.
    pub(super) fn read(
        &self,
        predicates: Vec<Predicate>,
        numbers: &mut KeyNumbers,
        shared: &SharedNumbers,
        cancel: &Cancel,
    ) -> Result<SliceParts> {
        let table = self.source.table();
        let all = self.scan.predicates.iter().cloned().chain(predicates).collect();
        let mut read = RowsRead {
            side: self,
            filter: Filter::new(&*self.source, all)?,
            numbers,
            shared,
            cancel,
            parts: vec![Vec::new(); self.kept.len()],
            keys: Vec::new(),
            times: Vec::new(),
            codes: Vec::new(),
        };
        // Blocks and runs come in the order of their row numbers.
        let mut blocks = Vec::new();
        for block in self.source.blocks() {
            let is_read = block.live_rows() > 0 && verdict(block, table, &read.filter)? != Verdict::Nothing;
            let metrics = self.metrics();
            let counter = if is_read { &metrics.blocks_read } else { &metrics.blocks_skipped };
            counter.fetch_add(1, Ordering::Relaxed);
            if is_read {
                blocks.push(block);
            }
        }
        // The keys and times of all rows of these blocks. Memory that is not used is never touched.
        let rows = blocks.iter().map(|block| block.live_rows()).sum();
        read.keys.reserve_exact(rows);
        read.times.reserve_exact(rows);
        for block in blocks {
            read.block(table, block)?;
        }
        for run in self.source.runs() {
            read.run(table, run)?;
        }
        read.finish()
    }
}

impl RowsRead<'_> {
    fn block(&mut self, table: &TableDef, block: &Arc<Block>) -> Result<()> {
        let side = self.side;
        let state = BlockState::new(block, table, &self.filter, &side.metrics().reads);
        let time = side.time_column();
        let listed = match side.keys.as_slice() {
            [key] => match state.chunk(table, side.scan.columns[*key])? {
                Some(chunk) => self.numbers_of_list(chunk)?.map(|numbers| (chunk, numbers)),
                None => None,
            },
            _ => None,
        };
        for rows in cut(0..block.rows(), FRAME_ROWS_MAX) {
            self.cancel.check()?;
            let mut mask = live_rows(&rows, block.deleted());
            state.filter(table, &self.filter, &mut mask)?;
            let selected = self.count(&rows, mask.count());
            if selected == 0 {
                continue;
            }
            let positions = positions_of(&mask);
            let values = |column: usize| match &positions {
                None => state.read(table, column, rows.clone()),
                Some(positions) => state.take(table, column, positions),
            };
            match (state.chunk(table, time)?, &positions) {
                (Some(chunk), None) => chunk.integers(rows.clone(), &mut self.times)?,
                (Some(chunk), Some(positions)) => chunk.take_integers(positions, &mut self.times)?,
                (None, _) => self.times.extend(times_of(&values(time)?)?),
            }
            match &listed {
                Some((chunk, numbers)) => {
                    self.codes.clear();
                    match &positions {
                        None => chunk.codes(rows.clone(), &mut self.codes)?,
                        Some(positions) => chunk.take_codes(positions, &mut self.codes)?,
                    }
                    self.keys.extend(self.codes.iter().map(|code| numbers[*code as usize]));
                }
                None => self.add_keys(selected, values)?,
            }
            self.add_columns(values)?;
        }
        Ok(())
    }

    /// The number of the key of each code of a block. `None` if it costs less to look at the rows.
    fn numbers_of_list(&mut self, chunk: &Chunk) -> Result<Option<Vec<u32>>> {
        let is_short = chunk.distinct().is_some_and(|values| values * ROWS_PER_VALUE <= chunk.rows());
        if !is_short || !chunk.has_values() {
            return Ok(None);
        }
        let Some(values) = chunk.values()? else { return Ok(None) };
        let mut numbers = Vec::with_capacity(values.len() + 1);
        self.numbers.add(std::slice::from_ref(&values), values.len(), self.shared, &mut numbers)?;
        // The code of NULL is the number of values.
        numbers.push(NO_NUMBER);
        Ok(Some(numbers))
    }

    fn run(&mut self, table: &TableDef, run: &OpenRun) -> Result<()> {
        for rows in cut(0..run.rows(), FRAME_ROWS_MAX) {
            self.cancel.check()?;
            let mask = rows_of_run(table, run, &self.filter, &rows)?;
            let selected = self.count(&rows, mask.count());
            if selected == 0 {
                continue;
            }
            let positions = positions_of(&mask).map(UInt32Array::from);
            let values = |column: usize| {
                let values = run.values(table, column)?;
                match &positions {
                    None => Ok(values.slice(rows.start, rows.len())),
                    Some(positions) => take(&values, positions, None).map_err(failed),
                }
            };
            self.times.extend(times_of(&values(self.side.time_column())?)?);
            self.add_keys(selected, values)?;
            self.add_columns(values)?;
        }
        Ok(())
    }

    fn count(&self, rows: &Range<usize>, selected: usize) -> usize {
        self.side.metrics().rows_read.fetch_add(rows.len() as u64, Ordering::Relaxed);
        self.side.metrics().rows_selected.fetch_add(selected as u64, Ordering::Relaxed);
        selected
    }

    fn add_keys(&mut self, rows: usize, values: impl Fn(usize) -> Result<ArrayRef>) -> Result<()> {
        let columns = self.side.keys.iter().map(|key| values(self.side.scan.columns[*key]));
        self.numbers.add(&columns.collect::<Result<Vec<_>>>()?, rows, self.shared, &mut self.keys)
    }

    fn add_columns(&mut self, values: impl Fn(usize) -> Result<ArrayRef>) -> Result<()> {
        for (parts, column) in self.parts.iter_mut().zip(&self.side.kept) {
            parts.push(values(self.side.scan.columns[*column])?);
        }
        Ok(())
    }

    fn finish(self) -> Result<SliceParts> {
        let kinds = self.side.kept.iter().map(|column| self.side.kind(*column)).collect();
        let parts = SliceParts { parts: self.parts, kinds, keys: self.keys, times: self.times };
        if parts.times.is_sorted() {
            return Ok(parts);
        }
        let rows = parts.after(&SliceRows::default())?;
        let mut order: Vec<u32> = (0..rows.times.len() as u32).collect();
        // The sort is stable, so rows with equal times stay in the order of their numbers.
        order.sort_by_key(|row| rows.times[*row as usize]);
        let SliceRows { columns, keys, times } = rows.at(order)?;
        let kinds = columns.iter().map(|column| column.data_type().clone()).collect();
        let parts = columns.into_iter().map(|column| vec![column]).collect();
        Ok(SliceParts { parts, kinds, keys, times })
    }
}

impl SliceParts {
    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// The bytes of the rows.
    pub(super) fn bytes(&self) -> u64 {
        let parts = self.parts.iter().flatten();
        parts.map(|part| part.get_array_memory_size() as u64).sum::<u64>() + bytes_of_order(self.len())
    }

    /// These rows after others of earlier times. The columns of `before` are those of these rows, or it has no rows.
    pub(super) fn after(self, before: &SliceRows) -> Result<SliceRows> {
        let SliceParts { parts, kinds, mut keys, mut times } = self;
        let columns = parts.into_iter().zip(kinds).enumerate().map(|(place, (mut parts, kind))| {
            let before = before.columns.get(place).filter(|column| !column.is_empty());
            parts.splice(0..0, before.cloned());
            joined(&parts, &kind)
        });
        let columns = columns.collect::<Result<_>>()?;
        keys.splice(0..0, before.keys.iter().copied());
        times.splice(0..0, before.times.iter().copied());
        if times.len() >= NO_NUMBER as usize {
            let message = format!("a slice of time of a join has {} rows, more than {NO_NUMBER}", times.len());
            return Err(Error::new(ErrorKind::ResultTooLarge, message));
        }
        Ok(SliceRows { columns, keys, times })
    }
}

/// The bytes of the keys and times of rows.
fn bytes_of_order(rows: usize) -> u64 {
    (rows * (size_of::<u32>() + size_of::<i64>())) as u64
}

impl SliceRows {
    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// The bytes of the rows.
    pub(super) fn bytes(&self) -> u64 {
        let columns = self.columns.iter().map(|column| column.get_array_memory_size() as u64);
        columns.sum::<u64>() + bytes_of_order(self.len())
    }

    /// The rows at some places, in their order.
    pub(super) fn at(&self, places: Vec<u32>) -> Result<SliceRows> {
        let keys = places.iter().map(|row| self.keys[*row as usize]).collect();
        let times = places.iter().map(|row| self.times[*row as usize]).collect();
        let places = UInt32Array::from(places);
        let columns = self.columns.iter().map(|column| take(column, &places, None).map_err(failed));
        Ok(SliceRows { columns: columns.collect::<Result<_>>()?, keys, times })
    }
}

fn joined(parts: &[ArrayRef], kind: &DataType) -> Result<ArrayRef> {
    match parts {
        [] => Ok(new_empty_array(kind)),
        [part] => Ok(Arc::clone(part)),
        parts => {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            concat(&parts).map_err(failed)
        }
    }
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot read a slice of time: {error}"))
}
