//! Rows of a columnar table that get new values in some columns and keep those of the others.
//!
//! The new values wait by the block or run that has the old rows. When all rows of a block have new values, the chunks
//! of the other columns are copied as they are stored:
//!
//! ```text
//! old block     a  b  c        all its rows get a new b
//!               |     |
//! new block     a  b' c        a and c are neither decoded nor encoded
//! ```
//!
//! The rows of other blocks, and of runs, are put together when all are known. A new block then reads their columns one
//! by one while it encodes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use rowmill_base::{Error, Reservation, Result, RowNumber, TableId};
use rowmill_storage::{BlockSource, TableDef, concat_values, value_bytes};

use super::Transaction;
use super::columnar_rows::{PENDING_SHARE, check_column};
use crate::deletes::{Holder, RowFinder, each_holder};

/// New values of some columns, which wait for the other columns of their rows.
pub struct ReplacedRows {
    table: Arc<TableDef>,
    /// The positions of the columns that have new values.
    columns: Vec<usize>,
    /// By the first row number of the holder of the old rows, and its rows: a run that was joined with the next ones
    /// has the same first row.
    waiting: BTreeMap<(RowNumber, usize), WaitingRows>,
    memory: Reservation,
}

/// Rows of one block or run, with new values in the order in which they came.
struct WaitingRows {
    holder: Holder,
    rows: usize,
    parts: Vec<ReplacedPart>,
}

/// Rows of one block or run.
#[derive(Clone)]
struct ReplacedPart {
    /// The positions of the old rows.
    positions: Vec<u32>,
    /// The values of the columns that have new ones.
    values: Vec<ArrayRef>,
}

impl WaitingRows {
    /// The rows as one part, in the order of their positions.
    fn into_part(self) -> Result<(Holder, ReplacedPart)> {
        let WaitingRows { holder, mut parts, .. } = self;
        let mut part = match parts.len() {
            1 => parts.remove(0),
            _ => ReplacedPart {
                positions: parts.iter().flat_map(|part| part.positions.iter().copied()).collect(),
                values: (0..parts[0].values.len())
                    .map(|column| {
                        let values: Vec<_> = parts.iter().map(|part| Arc::clone(&part.values[column])).collect();
                        concat_values(&values)
                    })
                    .collect::<Result<_>>()?,
            },
        };
        // Workers deliver their batches in turns, and a join delivers rows in any order.
        if !part.positions.is_sorted() {
            let mut order: Vec<u32> = (0..part.positions.len() as u32).collect();
            order.sort_unstable_by_key(|at| part.positions[*at as usize]);
            let order = UInt32Array::from(order);
            for values in &mut part.values {
                *values = take(values, &order, None).map_err(|error| Error::internal(error.to_string()))?;
            }
            part.positions.sort_unstable();
        }
        Ok((holder, part))
    }
}

impl ReplacedPart {
    fn slice(&self, first: usize, rows: usize) -> ReplacedPart {
        ReplacedPart {
            positions: self.positions[first..first + rows].to_vec(),
            values: self.values.iter().map(|values| values.slice(first, rows)).collect(),
        }
    }
}

impl Transaction {
    /// Prepares new values of the columns of `table` at the positions `columns`, for [`replace`](Self::replace).
    pub fn replaced_rows(&self, table: TableId, columns: Vec<usize>) -> Result<ReplacedRows> {
        let table = self.columnar_def(table)?;
        let memory = self.engine.broker().reservation("new values of an open transaction");
        Ok(ReplacedRows { table, columns, waiting: BTreeMap::new(), memory })
    }

    /// Deletes the rows numbered `rows` and adds them again with `values` in the columns of `replaced`. Returns how
    /// many were live before the call. If a row was passed before, the statement must fail.
    ///
    /// No reader sees the new rows before [`finish_replaced`](Self::finish_replaced). Without that call they are lost,
    /// so that a failed statement must be undone to its savepoint.
    pub fn replace(&mut self, replaced: &mut ReplacedRows, rows: &[u64], values: &[ArrayRef]) -> Result<u64> {
        assert_eq!(values.len(), replaced.columns.len(), "each column has its new values");
        let deleted = self.delete(replaced.table.id, rows)?;
        let bytes = values.iter().map(value_bytes).sum::<u64>() + size_of_val(rows) as u64;
        let limit = self.engine.broker().limit_bytes();
        if replaced.memory.bytes() + bytes > limit / PENDING_SHARE || replaced.memory.grow(bytes).is_err() {
            self.finish_replaced(replaced)?;
            replaced.memory.grow(bytes)?;
        }
        let table = Arc::clone(&replaced.table);
        let mut finder = RowFinder::over(&table, self.holders(table.id));
        let (mut first, mut complete) = (0, Vec::new());
        each_holder(&mut finder, rows, |holder, positions| {
            let count = positions.len();
            let values = values.iter().map(|values| values.slice(first, count)).collect();
            first += count;
            let new = || WaitingRows { holder: holder.clone(), rows: 0, parts: Vec::new() };
            let key = (holder.first_row(), holder.rows());
            let waiting = replaced.waiting.entry(key).or_insert_with(new);
            waiting.rows += count;
            waiting.parts.push(ReplacedPart { positions, values });
            // A row that was passed before must not complete a block. The caller finds it by the result.
            let is_new = deleted == rows.len() as u64;
            if is_new && waiting.rows == holder.rows() && matches!(holder, Holder::Block(_)) {
                complete.push(key);
            }
            Ok(())
        })?;
        let is_any_complete = !complete.is_empty();
        for holder in complete {
            // A small block is better joined with its neighbours.
            let is_large = |waiting: &WaitingRows| waiting.rows > self.engine.small_block_rows();
            if replaced.waiting.get(&holder).is_some_and(is_large)
                && let Some(waiting) = replaced.waiting.remove(&holder)
            {
                self.insert_block(table.id, &replaced.source(vec![waiting.into_part()?]))?;
            }
        }
        if is_any_complete {
            replaced.recount();
        }
        Ok(deleted)
    }

    /// Adds the rows that still wait.
    ///
    /// Makes blocks of them, and pending rows of the last ones if they are few.
    pub fn finish_replaced(&mut self, replaced: &mut ReplacedRows) -> Result<()> {
        let block_rows = self.engine.rows_per_block();
        let (mut parts, mut rows): (Vec<(Holder, ReplacedPart)>, usize) = (Vec::new(), 0);
        for waiting in std::mem::take(&mut replaced.waiting).into_values() {
            let (holder, part) = waiting.into_part()?;
            let mut first = 0;
            while first < part.positions.len() {
                let taken = (part.positions.len() - first).min(block_rows - rows);
                parts.push((holder.clone(), part.slice(first, taken)));
                (first, rows) = (first + taken, rows + taken);
                if rows == block_rows {
                    self.insert_block(replaced.table.id, &replaced.source(std::mem::take(&mut parts)))?;
                    rows = 0;
                }
            }
        }
        if rows > self.engine.small_block_rows() {
            self.insert_block(replaced.table.id, &replaced.source(parts))?;
        } else if rows > 0 {
            let source = replaced.source(parts);
            let columns = (0..replaced.table.columns.len()).map(|index| {
                let values = source.column(index)?;
                check_column(&replaced.table, index, &values)?;
                Ok(values)
            });
            let batch = RecordBatch::try_new(replaced.table.arrow_schema(), columns.collect::<Result<_>>()?);
            self.insert(replaced.table.id, &batch.map_err(|error| Error::internal(error.to_string()))?)?;
        }
        replaced.recount();
        Ok(())
    }

    /// All blocks and runs of a table, committed ones and those of the transaction.
    fn holders(&self, table: TableId) -> Vec<Holder> {
        let changes = self.changes.tables.get(&table);
        let base = self.base.tables.get(&table).filter(|_| changes.is_none_or(|changes| !changes.truncated));
        // The transaction's own rows have greater numbers than all committed ones.
        let committed = base.map(|base| Holder::all(&base.blocks, &base.runs));
        let own = changes.map(|changes| Holder::all(&changes.blocks, &changes.runs));
        committed.into_iter().chain(own).flatten().collect()
    }
}

impl ReplacedRows {
    fn source(&self, parts: Vec<(Holder, ReplacedPart)>) -> ReplacedSource<'_> {
        ReplacedSource { table: &self.table, columns: &self.columns, parts }
    }

    fn recount(&mut self) {
        let bytes = |part: &ReplacedPart| {
            part.values.iter().map(value_bytes).sum::<u64>() + (part.positions.len() * size_of::<u64>()) as u64
        };
        self.memory.recount(self.waiting.values().flat_map(|waiting| &waiting.parts).map(bytes).sum());
    }
}

/// Rows of blocks and runs, with new values in some columns.
struct ReplacedSource<'r> {
    table: &'r TableDef,
    columns: &'r [usize],
    parts: Vec<(Holder, ReplacedPart)>,
}

impl ReplacedSource<'_> {
    fn new_values(&self, index: usize) -> Option<usize> {
        self.columns.iter().position(|column| *column == index)
    }
}

impl BlockSource for ReplacedSource<'_> {
    fn rows(&self) -> usize {
        self.parts.iter().map(|(_, part)| part.positions.len()).sum()
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        let new = self.new_values(index);
        let parts = self.parts.iter().map(|(holder, part)| match new {
            Some(at) => Ok(Arc::clone(&part.values[at])),
            None => holder.values_at(self.table, index, &part.positions),
        });
        concat_values(&parts.collect::<Result<Vec<_>>>()?)
    }

    fn encoded(&self, index: usize) -> Result<Option<Vec<u8>>> {
        match self.parts.as_slice() {
            [(Holder::Block(block), part)]
                if part.positions.len() == block.rows() && self.new_values(index).is_none() =>
            {
                block.encoded(self.table, index)
            }
            _ => Ok(None),
        }
    }
}
