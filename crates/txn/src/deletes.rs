//! Translates row numbers to the positions that a delete vector marks, and back.
//!
//! A transaction keeps its deletes by the block or run of its own snapshot that holds the row. Before it commits, the
//! background merge may rewrite those blocks. Then the commit must find the rows again by their numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use roaring::RoaringBitmap;
use rowmill_base::{Error, Result, RowNumber};
use rowmill_storage::{Block, OpenRun, RowNumbers, TableDef, repeat_missing};

/// Positions of deleted rows, by the first row number of the block or run that holds them.
pub(crate) type DeletesByHolder = BTreeMap<RowNumber, RoaringBitmap>;

/// A block or a run, which holds rows within a range of row numbers.
#[derive(Clone, Debug)]
pub(crate) enum Holder {
    Block(Arc<Block>),
    Run(Arc<OpenRun>),
}

impl Holder {
    /// All blocks and runs of a table, in the order of their rows.
    pub(crate) fn all(blocks: &[Arc<Block>], runs: &[Arc<OpenRun>]) -> Vec<Holder> {
        let blocks = blocks.iter().cloned().map(Holder::Block);
        let mut holders: Vec<Holder> = blocks.chain(runs.iter().cloned().map(Holder::Run)).collect();
        holders.sort_by_key(Holder::first_row);
        holders
    }

    pub(crate) fn first_row(&self) -> RowNumber {
        match self {
            Holder::Block(block) => block.first_row(),
            Holder::Run(run) => run.first_row(),
        }
    }

    pub(crate) fn end_row(&self) -> RowNumber {
        match self {
            Holder::Block(block) => block.end_row(),
            Holder::Run(run) => RowNumber(run.first_row().0 + run.rows() as u64),
        }
    }

    /// Whether the range of row numbers has `row`.
    fn spans(&self, row: u64) -> bool {
        (self.first_row().0..self.end_row().0).contains(&row)
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Holder::Block(block) => block.rows(),
            Holder::Run(run) => run.rows(),
        }
    }

    pub(crate) fn deleted(&self) -> Option<&RoaringBitmap> {
        match self {
            Holder::Block(block) => block.deleted(),
            Holder::Run(run) => run.deleted(),
        }
    }

    pub(crate) fn row_numbers(&self, table: &TableDef) -> Result<RowNumbers> {
        match self {
            Holder::Block(block) => block.row_numbers(table),
            Holder::Run(run) => Ok(RowNumbers::Dense(run.first_row())),
        }
    }

    /// The values of `table`'s column at `index` of the rows at `positions`, which ascend.
    pub(crate) fn values_at(&self, table: &TableDef, index: usize, positions: &[u32]) -> Result<ArrayRef> {
        match self {
            Holder::Block(block) => values_of_block(block, table, index, positions),
            Holder::Run(run) => {
                let values = run.values(table, index)?;
                if positions.len() == run.rows() {
                    return Ok(values);
                }
                take(&values, &UInt32Array::from(positions.to_vec()), None)
                    .map_err(|error| Error::internal(format!("rows of a run: {error}")))
            }
        }
    }

    /// The values of several columns, as [`Holder::values_at`] gives those of one.
    pub(crate) fn columns_at(&self, table: &TableDef, columns: &[usize], positions: &[u32]) -> Result<Vec<ArrayRef>> {
        columns.iter().map(|column| self.values_at(table, *column, positions)).collect()
    }

    /// Returns how many positions hold rows with numbers below `row`. The numbers ascend, so they are the first ones.
    pub(crate) fn positions_below(&self, table: &TableDef, row: u64) -> Result<u32> {
        let numbers = self.row_numbers(table)?;
        let below = match &numbers {
            RowNumbers::Dense(first) => row.saturating_sub(first.0).min(self.rows() as u64) as usize,
            RowNumbers::Listed(numbers) => numbers.partition_point(|number| *number < row),
        };
        Ok(below as u32)
    }

    /// Whether both hold the same rows at the same positions.
    pub(crate) fn same_rows(&self, other: &Holder) -> bool {
        match (self, other) {
            (Holder::Block(a), Holder::Block(b)) => a.id() == b.id(),
            (Holder::Run(a), Holder::Run(b)) => a.same_rows(b),
            _ => false,
        }
    }
}

/// The values of `table`'s column at `index` of the rows of a block at `positions`, which ascend.
pub(crate) fn values_of_block(block: &Block, table: &TableDef, index: usize, positions: &[u32]) -> Result<ArrayRef> {
    let column = &table.columns[index];
    match block.chunk(table, index)? {
        Some(chunk) if positions.len() == block.rows() => chunk.read(0..block.rows()),
        Some(chunk) => chunk.take(positions),
        None => repeat_missing(column.missing.as_ref(), &column.kind.arrow(), positions.len()),
    }
}

/// Finds rows of one table by number. Ascending numbers are fast, but any order is correct.
pub(crate) struct RowFinder<'a> {
    table: &'a TableDef,
    holders: Vec<Holder>,
    /// The holder of the last row that was found, with its row numbers.
    current: Option<(usize, RowNumbers)>,
}

impl<'a> RowFinder<'a> {
    pub(crate) fn new(table: &'a TableDef, blocks: &[Arc<Block>], runs: &[Arc<OpenRun>]) -> Self {
        Self::over(table, Holder::all(blocks, runs))
    }

    /// Finds rows in `holders`, which must be in the order of their rows.
    pub(crate) fn over(table: &'a TableDef, holders: Vec<Holder>) -> Self {
        RowFinder { table, holders, current: None }
    }

    /// The holder that starts at `first_row`.
    pub(crate) fn holder_at(&self, first_row: RowNumber) -> Option<&Holder> {
        let index = self.holders.binary_search_by_key(&first_row, Holder::first_row).ok()?;
        Some(&self.holders[index])
    }

    /// Returns the holder and the position of the row if it exists, whether it is deleted or not.
    pub(crate) fn find(&mut self, row: u64) -> Result<Option<(&Holder, u32)>> {
        let found = self.holder_of(row)?;
        Ok(found.and_then(|numbered| numbered.position(row).map(|position| (numbered.holder, position))))
    }

    /// Returns the holder in whose range of row numbers `row` is.
    fn holder_of(&mut self, row: u64) -> Result<Option<NumberedHolder<'_>>> {
        if !self.current.as_ref().is_some_and(|(index, _)| self.holders[*index].spans(row)) {
            // Decoding the row numbers of a block costs time, so we keep them for the next row of the same holder.
            let after = self.holders.partition_point(|holder| holder.first_row().0 <= row);
            let Some(index) = after.checked_sub(1).filter(|index| self.holders[*index].spans(row)) else {
                return Ok(None);
            };
            let numbers = self.holders[index].row_numbers(self.table)?;
            self.current = Some((index, numbers));
        }
        let (index, numbers) = self.current.as_ref().expect("the holder was just looked up");
        Ok(Some(NumberedHolder { holder: &self.holders[*index], numbers }))
    }
}

/// A holder with the numbers of its rows.
struct NumberedHolder<'f> {
    holder: &'f Holder,
    numbers: &'f RowNumbers,
}

impl NumberedHolder<'_> {
    /// The position of the row if it exists.
    fn position(&self, row: u64) -> Option<u32> {
        self.numbers.position(row, self.holder.rows())
    }
}

/// Calls `each` with every holder of the rows numbered `rows`, in their order, and the positions of its rows there.
///
/// The rows of a statement usually ascend, so the rows of a holder follow one another and come in one call.
pub(crate) fn each_holder(
    finder: &mut RowFinder<'_>,
    rows: &[u64],
    mut each: impl FnMut(&Holder, Vec<u32>) -> Result<()>,
) -> Result<()> {
    let mut rows = rows.iter().copied().peekable();
    while let Some(&row) = rows.peek() {
        let numbered = finder.holder_of(row)?.ok_or_else(|| unknown_row(row))?;
        let mut positions = Vec::new();
        while let Some(row) = rows.next_if(|row| numbered.holder.spans(*row)) {
            positions.push(numbered.position(row).ok_or_else(|| unknown_row(row))?);
        }
        each(numbered.holder, positions)?;
    }
    Ok(())
}

/// Marks the rows numbered `rows` in `deletes` and returns how many were live before.
pub(crate) fn mark(finder: &mut RowFinder<'_>, deletes: &mut DeletesByHolder, rows: &[u64]) -> Result<u64> {
    let mut marked = 0;
    each_holder(finder, rows, |holder, mut positions| {
        // The rows of a holder are marked at once, because a search in the bitmap for each row costs more than sorting.
        if !positions.is_sorted() {
            positions.sort_unstable();
        }
        positions.dedup();
        let (first, last) = (positions[0], positions[positions.len() - 1]);
        let mut live = RoaringBitmap::new();
        if (last - first) as usize + 1 == positions.len() {
            live.insert_range(first..=last);
        } else {
            live.append(positions).map_err(|error| Error::internal(format!("sorted positions of rows: {error}")))?;
        }
        if let Some(deleted) = holder.deleted() {
            live -= deleted;
        }
        if live.is_empty() {
            return Ok(());
        }
        let of_holder = deletes.entry(holder.first_row()).or_default();
        let before = of_holder.len();
        *of_holder |= live;
        marked += of_holder.len() - before;
        Ok(())
    })?;
    Ok(marked)
}

fn unknown_row(row: u64) -> Error {
    Error::internal(format!("row {row} should be deleted but does not exist"))
}

/// Returns the blocks and runs with `deletes` applied.
pub(crate) fn apply(
    blocks: &[Arc<Block>],
    runs: &[Arc<OpenRun>],
    deletes: &DeletesByHolder,
) -> (Vec<Arc<Block>>, Vec<Arc<OpenRun>>) {
    let blocks = blocks.iter().map(|block| match deletes.get(&block.first_row()) {
        Some(positions) => Arc::new(block.with_deleted(positions)),
        None => Arc::clone(block),
    });
    let runs = runs.iter().map(|run| match deletes.get(&run.first_row()) {
        Some(positions) => Arc::new(run.with_deleted(positions)),
        None => Arc::clone(run),
    });
    (blocks.collect(), runs.collect())
}
