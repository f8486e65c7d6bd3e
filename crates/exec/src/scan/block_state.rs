//! What the frames of one block share while it is scanned: open chunks with what they decoded, and for every conjunct
//! that a value list can answer, its truth per code.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array};
use arrow::buffer::BooleanBuffer;
use rowmill_base::Result;
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::chunk::Chunk;
use rowmill_storage::{Block, RowNumbers, TableDef, repeat_missing};

use super::Selection;
use super::verdict::{ColumnFacts, Verdict, verdict};
use crate::predicate::evaluate;

/// A column of a block while it is scanned.
enum Column {
    Stored(Box<Chunk>),
    /// The block is older than the column.
    Missing,
}

/// A conjunct, as far as it is settled for a block.
enum Conjunct {
    /// By the truth of each code of one column; the last is NULL's.
    Codes { column: usize, truth: Vec<bool> },
    /// By rows.
    Rows,
}

/// One block of one scan.
pub(crate) struct BlockState {
    block: Arc<Block>,
    columns: Vec<OnceLock<Column>>,
    row_numbers: OnceLock<RowNumbers>,
    /// One per predicate of the scan.
    conjuncts: Vec<OnceLock<Conjunct>>,
}

impl BlockState {
    pub(crate) fn new(block: &Arc<Block>, table: &TableDef, predicates: usize) -> Self {
        BlockState {
            block: Arc::clone(block),
            columns: table.columns.iter().map(|_| OnceLock::new()).collect(),
            row_numbers: OnceLock::new(),
            conjuncts: (0..predicates).map(|_| OnceLock::new()).collect(),
        }
    }

    /// What the zone maps say about all predicates together.
    pub(crate) fn verdict(block: &Block, table: &TableDef, predicates: &[Predicate]) -> Result<Verdict> {
        let facts = |index: usize| -> Result<Option<ColumnFacts>> {
            let Some(chunk) = block.chunk_head(table, index)? else { return Ok(None) };
            Ok(Some(ColumnFacts { rows: chunk.rows(), null_count: chunk.null_count(), zone: chunk.zone() }))
        };
        let mut all = Verdict::Everything;
        for predicate in predicates {
            match verdict(predicate, &facts)? {
                Verdict::Nothing => return Ok(Verdict::Nothing),
                Verdict::Everything => {}
                Verdict::Unknown => all = Verdict::Unknown,
            }
        }
        Ok(all)
    }

    fn column(&self, table: &TableDef, index: usize) -> Result<&Column> {
        if let Some(column) = self.columns[index].get() {
            return Ok(column);
        }
        let column = match self.block.chunk(table, index)? {
            Some(chunk) => Column::Stored(Box::new(chunk)),
            None => Column::Missing,
        };
        Ok(self.columns[index].get_or_init(|| column))
    }

    /// The stored chunk of a column; `None` if the block is older than it.
    pub(crate) fn chunk(&self, table: &TableDef, index: usize) -> Result<Option<&Chunk>> {
        Ok(match self.column(table, index)? {
            Column::Stored(chunk) => Some(chunk),
            Column::Missing => None,
        })
    }

    /// The values of all rows of `rows`.
    pub(crate) fn read(&self, table: &TableDef, index: usize, rows: std::ops::Range<usize>) -> Result<ArrayRef> {
        match self.column(table, index)? {
            Column::Stored(chunk) => chunk.read(rows),
            Column::Missing => missing(table, index, rows.len()),
        }
    }

    /// The values of the rows at `positions`, ascending.
    pub(crate) fn take(&self, table: &TableDef, index: usize, positions: &[u32]) -> Result<ArrayRef> {
        match self.column(table, index)? {
            Column::Stored(chunk) => chunk.take(positions),
            Column::Missing => missing(table, index, positions.len()),
        }
    }

    /// The numbers of the block's rows.
    pub(crate) fn row_numbers(&self, table: &TableDef) -> Result<&RowNumbers> {
        if let Some(numbers) = self.row_numbers.get() {
            return Ok(numbers);
        }
        let numbers = self.block.row_numbers(table)?;
        Ok(self.row_numbers.get_or_init(|| numbers))
    }

    /// Leaves of `selection`, which are some of `rows`, those that pass all of `predicates`, the scan's.
    pub(crate) fn filter(
        &self,
        table: &TableDef,
        predicates: &[Predicate],
        rows: std::ops::Range<usize>,
        selection: &mut Selection,
    ) -> Result<()> {
        for (index, predicate) in predicates.iter().enumerate() {
            let left = selection.count();
            if left == 0 {
                break;
            }
            match selection.positions(rows.start) {
                Some(positions) if self.is_looked_up(table, index, predicate, left as f64 / rows.len() as f64)? => {
                    let column = &mut |column| self.take(table, column, &positions);
                    selection.keep(&selected(&evaluate(predicate, left, column)?));
                }
                _ => selection.and(self.select(table, index, predicate, rows.clone())?),
            }
        }
        Ok(())
    }

    /// Whether looking at this share of the rows, one by one, costs less than deciding for all values of the block.
    fn is_looked_up(&self, table: &TableDef, index: usize, predicate: &Predicate, share: f64) -> Result<bool> {
        if self.conjuncts[index].get().is_some() {
            return Ok(false);
        }
        let Some(column) = predicate.single_column() else { return Ok(false) };
        let Column::Stored(chunk) = self.column(table, column)? else { return Ok(false) };
        Ok(place(chunk, predicate)?.is_none() && is_cheaper_by_rows(chunk, (share * self.block.rows() as f64) as usize))
    }

    /// Which of `rows` pass the predicate at `index` of the scan.
    fn select(
        &self,
        table: &TableDef,
        index: usize,
        predicate: &Predicate,
        rows: std::ops::Range<usize>,
    ) -> Result<BooleanBuffer> {
        let conjunct = match self.conjuncts[index].get() {
            Some(conjunct) => conjunct,
            None => {
                let conjunct = self.settle(table, predicate)?;
                self.conjuncts[index].get_or_init(|| conjunct)
            }
        };
        match conjunct {
            Conjunct::Codes { truth, .. } if truth.iter().all(|truth| !truth) => {
                Ok(BooleanBuffer::new_unset(rows.len()))
            }
            Conjunct::Codes { truth, .. } if truth.iter().all(|truth| *truth) => Ok(BooleanBuffer::new_set(rows.len())),
            Conjunct::Codes { column, truth } => {
                let Column::Stored(chunk) = self.column(table, *column)? else {
                    unreachable!("only stored columns have codes")
                };
                chunk.select(rows, truth)
            }
            Conjunct::Rows => {
                let count = rows.len();
                let truth = evaluate(predicate, count, &mut |column| self.read(table, column, rows.clone()))?;
                Ok(selected(&truth))
            }
        }
    }

    /// Evaluates the predicate once per distinct value if one value list can answer it.
    fn settle(&self, table: &TableDef, predicate: &Predicate) -> Result<Conjunct> {
        let Some(index) = predicate.single_column() else { return Ok(Conjunct::Rows) };
        let Column::Stored(chunk) = self.column(table, index)? else { return Ok(Conjunct::Rows) };
        if let Some(truth) = truth_of_places(chunk, predicate)? {
            return Ok(Conjunct::Codes { column: index, truth });
        }
        let Some(values) = chunk.values()? else { return Ok(Conjunct::Rows) };
        let truth = evaluate(predicate, values.len(), &mut |_| Ok(Arc::clone(&values)))?;
        let null = new_null_array(values.data_type(), 1);
        let null_truth = evaluate(predicate, 1, &mut |_| Ok(Arc::clone(&null)))?;
        let mut truth: Vec<bool> = selected(&truth).iter().collect();
        // Without NULLs their code does not occur, and must not keep a block from being passed over as a whole.
        let null_truth = selected(&null_truth).value(0);
        let settled_otherwise = truth.first().copied().filter(|first| truth.iter().all(|other| other == first));
        truth.push(match chunk.null_count() {
            0 => settled_otherwise.unwrap_or(null_truth),
            _ => null_truth,
        });
        Ok(Conjunct::Codes { column: index, truth })
    }
}

/// Where among a chunk's strings the one is that `predicate` compares with.
fn place(chunk: &Chunk, predicate: &Predicate) -> Result<Option<(usize, bool)>> {
    let Predicate::Compare { value, .. } = predicate else { return Ok(None) };
    match value.as_string_view_opt() {
        Some(text) => chunk.place_of_string(text.value(0).as_bytes()),
        None => Ok(None),
    }
}

/// The truth per code of a comparison with a string: values are in order, so that its place decides for all of them.
fn truth_of_places(chunk: &Chunk, predicate: &Predicate) -> Result<Option<Vec<bool>>> {
    let Predicate::Compare { op, .. } = predicate else { return Ok(None) };
    let Some((below, found)) = place(chunk, predicate)? else { return Ok(None) };
    let (values, above) = (chunk.distinct().unwrap_or_default(), below + usize::from(found));
    let (is_in, range) = match op {
        CompareOp::Equal => (true, below..above),
        CompareOp::NotEqual => (false, below..above),
        CompareOp::Less => (true, 0..below),
        CompareOp::LessOrEqual => (true, 0..above),
        CompareOp::Greater => (true, above..values),
        CompareOp::GreaterOrEqual => (true, below..values),
    };
    let mut truth = vec![!is_in; values + 1];
    truth[range].fill(is_in);
    // NULL compares to nothing; where no row is NULL its code must not keep a block from being settled as a whole.
    truth[values] = chunk.null_count() == 0 && truth[..values].iter().all(|truth| *truth);
    Ok(Some(truth))
}

/// Whether reading so many single rows of a chunk costs less than decoding its value list.
pub(crate) fn is_cheaper_by_rows(chunk: &Chunk, rows: usize) -> bool {
    /// Values of a list that are decoded in the time in which one is looked up.
    const VALUES_PER_LOOKUP: usize = 8;
    rows * VALUES_PER_LOOKUP < chunk.distinct().unwrap_or_default()
}

fn missing(table: &TableDef, index: usize, rows: usize) -> Result<ArrayRef> {
    let column = &table.columns[index];
    repeat_missing(column.missing.as_ref(), &column.kind.arrow(), rows)
}

/// The rows for which the truth is known to be true.
pub(crate) fn selected(truth: &BooleanArray) -> BooleanBuffer {
    match truth.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => truth.values() & nulls.inner(),
        None => truth.values().clone(),
    }
}
