//! Translates row numbers to the positions that a delete vector marks, and back.
//!
//! A transaction keeps its deletes by the block or run of its own snapshot that holds the row. Before it commits, the
//! background merge may rewrite those blocks. Then the commit must find the rows again by their numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::RoaringBitmap;
use rowmill_base::{Error, Result, RowNumber};
use rowmill_storage::{Block, OpenRun, RowNumbers, TableDef};

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

/// Finds rows of one table by number. Ascending numbers are fast, but any order is correct.
pub(crate) struct RowFinder<'a> {
    table: &'a TableDef,
    holders: Vec<Holder>,
    /// The holder of the last row that was found, with its row numbers.
    current: Option<(usize, RowNumbers)>,
}

impl<'a> RowFinder<'a> {
    pub(crate) fn new(table: &'a TableDef, blocks: &[Arc<Block>], runs: &[Arc<OpenRun>]) -> Self {
        RowFinder { table, holders: Holder::all(blocks, runs), current: None }
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

/// Marks the rows numbered `rows` in `deletes` and returns how many were live before.
pub(crate) fn mark(finder: &mut RowFinder<'_>, deletes: &mut DeletesByHolder, rows: &[u64]) -> Result<u64> {
    let mut marked = 0;
    // The rows of a statement usually ascend, so a holder's rows follow one another. They are marked at once, because
    // a search in the bitmap for each row costs more than sorting them.
    let mut positions = Vec::new();
    let mut rows = rows.iter().copied().peekable();
    while let Some(&row) = rows.peek() {
        let numbered = finder.holder_of(row)?.ok_or_else(|| unknown_row(row))?;
        positions.clear();
        while let Some(row) = rows.next_if(|row| numbered.holder.spans(*row)) {
            positions.push(numbered.position(row).ok_or_else(|| unknown_row(row))?);
        }
        positions.sort_unstable();
        positions.dedup();
        let mut live = RoaringBitmap::from_sorted_iter(positions.iter().copied())
            .map_err(|error| Error::internal(format!("sorted positions of rows: {error}")))?;
        if let Some(deleted) = numbered.holder.deleted() {
            live -= deleted;
        }
        if live.is_empty() {
            continue;
        }
        let of_holder = deletes.entry(numbered.holder.first_row()).or_default();
        let before = of_holder.len();
        *of_holder |= live;
        marked += of_holder.len() - before;
    }
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
