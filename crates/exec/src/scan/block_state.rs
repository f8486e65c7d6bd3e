//! The state that the frames of one block share while it is scanned: the open chunks with their decoded parts, and for
//! each condition on a column the part of it that is settled for the whole block.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use parking_lot::Mutex;
use rowmill_base::{Error, Result};
use rowmill_plan::{ConditionInput, Predicate};
use rowmill_storage::chunk::{Chunk, CodeSet, ReadMeter, ValueSet, Verdict, Zone};
use rowmill_storage::strings::StringWindow;
use rowmill_storage::{Block, RowMask, RowNumbers, TableDef, repeat_missing};

use super::condition::{ColumnCondition, Condition, Test};
use super::filter::Filter;
use crate::column_bounds::block_bounds;
use crate::group::concat;
use crate::like::{self, LikePattern};
use crate::predicate::{evaluate, evaluate_for};

/// A column of a block while it is scanned.
enum BlockColumn {
    Stored(Box<Chunk>),
    /// The block is older than the column.
    Missing,
}

/// The result of settling a condition on one column for a whole block.
enum Settled {
    /// Every row passes, or no row does.
    All(bool),
    /// The rows with these codes pass.
    Codes(CodeSet),
    /// The condition must be evaluated for each row.
    Rows,
}

/// An estimate for evaluating a condition on the rows of a block.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// Approximate cost per row in nanoseconds.
    cost: f64,
    /// The share of the rows that pass.
    share: f64,
}

// These numbers only order conditions. With a quarter and four times each of them, queries of three and four conditions
// on ClickBench's columns take equally long; a fourth of the share costs up to a sixth.
/// The assumed share of rows that pass a condition that we know nothing about.
const UNKNOWN_SHARE: f64 = 0.3;
/// Nanoseconds for evaluating a predicate on one value of a column.
const VALUE_COST: f64 = 20.0;

impl Estimate {
    /// The cost of removing one row. Evaluating conditions in ascending order of this rank is cheapest in total.
    fn rank(&self) -> f64 {
        self.cost / (1.0 - self.share).max(1e-9)
    }
}

/// One block of one scan.
pub(crate) struct BlockState {
    block: Arc<Block>,
    columns: Vec<OnceLock<BlockColumn>>,
    row_numbers: OnceLock<RowNumbers>,
    /// One entry for each condition on a column of the filter.
    settled: Vec<OnceLock<Settled>>,
    /// Held while a condition is settled. Other workers that need it should wait, because that is cheaper than doing
    /// the same work twice.
    settling: Mutex<()>,
    /// One more condition, whose number follows those of the filter.
    bound: Option<Condition>,
    /// The indexes of the conjuncts in the order of evaluation. The bound's index follows those of the filter.
    order: OnceLock<Vec<usize>>,
    reads: Arc<ReadMeter>,
}

impl BlockState {
    /// Makes the state of a block without reading anything. All later calls must pass the same filter. `reads` counts
    /// the bytes that they read.
    pub(crate) fn new(block: &Arc<Block>, table: &TableDef, filter: &Filter, reads: &Arc<ReadMeter>) -> Self {
        BlockState {
            block: Arc::clone(block),
            reads: Arc::clone(reads),
            columns: table.columns.iter().map(|_| OnceLock::new()).collect(),
            row_numbers: OnceLock::new(),
            settled: (0..filter.tests()).map(|_| OnceLock::new()).collect(),
            settling: Mutex::new(()),
            bound: None,
            order: OnceLock::new(),
        }
    }

    /// Adds a condition: only rows whose value in `column` is one of `values` pass.
    pub(crate) fn with_bound(mut self, column: usize, values: ValueSet) -> Self {
        let id = self.settled.len();
        self.settled.push(OnceLock::new());
        self.bound = Some(Condition::Column(ColumnCondition { id, column, test: Test::Values(values) }));
        self
    }

    /// The block.
    pub(crate) fn block(&self) -> &Block {
        &self.block
    }

    fn column(&self, table: &TableDef, index: usize) -> Result<&BlockColumn> {
        if let Some(column) = self.columns[index].get() {
            return Ok(column);
        }
        // Two workers may open the chunk at the same time; the first one to finish wins.
        let column = match self.block.chunk(table, index)? {
            Some(chunk) => BlockColumn::Stored(Box::new(chunk.metered(&self.reads))),
            None => BlockColumn::Missing,
        };
        Ok(self.columns[index].get_or_init(|| column))
    }

    /// The stored chunk of a column; `None` if the block is older than the column.
    pub(crate) fn chunk(&self, table: &TableDef, index: usize) -> Result<Option<&Chunk>> {
        Ok(match self.column(table, index)? {
            BlockColumn::Stored(chunk) => Some(chunk),
            BlockColumn::Missing => None,
        })
    }

    /// The stored chunk of a column, opened once more for a reader that keeps it. `None` if it has no value list.
    pub(crate) fn listed_chunk(&self, table: &TableDef, index: usize) -> Result<Option<Chunk>> {
        let chunk = self.block.chunk(table, index)?.filter(Chunk::has_values);
        Ok(chunk.map(|chunk| chunk.metered(&self.reads)))
    }

    /// The values of all rows in `rows`.
    pub(crate) fn read(&self, table: &TableDef, index: usize, rows: Range<usize>) -> Result<ArrayRef> {
        match self.column(table, index)? {
            BlockColumn::Stored(chunk) => chunk.read(rows),
            BlockColumn::Missing => missing(table, index, rows.len()),
        }
    }

    /// The values of the rows at `positions`, which must ascend.
    pub(crate) fn take(&self, table: &TableDef, index: usize, positions: &[u32]) -> Result<ArrayRef> {
        match self.column(table, index)? {
            BlockColumn::Stored(chunk) => chunk.take(positions),
            BlockColumn::Missing => missing(table, index, positions.len()),
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

    /// Removes the rows from `mask` that do not pass the filter.
    pub(crate) fn filter(&self, table: &TableDef, filter: &Filter, mask: &mut RowMask) -> Result<()> {
        let order = self.order(table, filter)?;
        for (step, place) in order.iter().enumerate() {
            if mask.is_empty() {
                break;
            }
            let conjunct = self.conjunct(filter, *place);
            if let Condition::Column(column) = conjunct {
                self.settle_for_few(table, filter, &order[..step], column, mask)?;
            }
            self.apply(table, conjunct, mask)?;
        }
        for predicate in filter.fallible_predicates() {
            if mask.is_empty() {
                break;
            }
            self.apply_fallible(table, predicate, mask)?;
        }
        Ok(())
    }

    fn conjunct<'c>(&'c self, filter: &'c Filter, place: usize) -> &'c Condition {
        match filter.conjuncts().get(place) {
            Some(conjunct) => conjunct,
            None => self.bound.as_ref().expect("an index after those of the filter is that of the bound"),
        }
    }

    /// Settles a LIKE for only the texts of rows that pass the earlier conjuncts, if `mask`, a frame that was filtered
    /// by these, suggests that such rows are few. We filter the whole block here, because a text that several frames
    /// share is then decoded only once.
    fn settle_for_few(
        &self,
        table: &TableDef,
        filter: &Filter,
        before: &[usize],
        condition: &ColumnCondition,
        mask: &RowMask,
    ) -> Result<()> {
        let Test::Like { pattern, negated } = &condition.test else { return Ok(()) };
        let (slot, BlockColumn::Stored(chunk)) = (&self.settled[condition.id], self.column(table, condition.column)?)
        else {
            return Ok(());
        };
        let rows = self.about_rows(mask);
        if slot.get().is_some() || rows * VALUES_PER_PICK > chunk.distinct().unwrap_or_default() {
            return Ok(());
        }
        let mut left = RowMask::all(0..self.block.rows());
        before.iter().try_for_each(|place| self.apply(table, self.conjunct(filter, *place), &mut left))?;
        let mut test = |window: StringWindow<'_>, truth: &mut [bool]| like::find(pattern, window, truth);
        if let Some(codes) = chunk.codes_where_of(pattern.needle(), *negated, &mut test, &left)? {
            slot.get_or_init(|| settled_by(codes));
        }
        Ok(())
    }

    /// Extrapolates the rows in `mask` to the whole block.
    fn about_rows(&self, mask: &RowMask) -> usize {
        let share = mask.count() as f64 / mask.rows().len() as f64;
        (share * self.block.rows() as f64) as usize
    }

    fn apply(&self, table: &TableDef, condition: &Condition, mask: &mut RowMask) -> Result<()> {
        match condition {
            Condition::Column(column) => self.apply_to_column(table, column, mask),
            Condition::Columns(predicate) => self.apply_to_rows(table, predicate, mask),
            Condition::All(parts) => parts.iter().try_for_each(|part| self.apply(table, part, mask)),
            Condition::Any(parts) => {
                // Each part is tested only on rows that no part before it has let through.
                let mut left = mask.clone();
                for part in parts {
                    let mut passed = left.clone();
                    self.apply(table, part, &mut passed)?;
                    left.and_not(&passed);
                }
                mask.and_not(&left);
                Ok(())
            }
        }
    }

    fn apply_to_column(&self, table: &TableDef, condition: &ColumnCondition, mask: &mut RowMask) -> Result<()> {
        if self.settled[condition.id].get().is_none() && self.is_looked_up(table, condition, mask)? {
            // The list would cost more than these rows, so nothing is settled for later frames.
            return self.look_up(table, condition, mask);
        }
        match (self.settled(table, condition)?, self.column(table, condition.column)?, &condition.test) {
            (Settled::All(true), ..) => {}
            (Settled::All(false), ..) => mask.clear(),
            (Settled::Codes(codes), BlockColumn::Stored(chunk), _) => chunk.retain_codes(codes, mask)?,
            (Settled::Rows, BlockColumn::Stored(chunk), Test::Values(values)) => chunk.retain_values(values, mask)?,
            (Settled::Rows, BlockColumn::Stored(chunk), Test::Like { pattern, negated }) => {
                retain_like(chunk, pattern, *negated, mask)?;
            }
            (Settled::Rows, BlockColumn::Stored(_), Test::Predicate(predicate)) => {
                self.apply_to_rows(table, predicate, mask)?;
            }
            (Settled::Codes(_) | Settled::Rows, BlockColumn::Missing, _) => {
                unreachable!("a missing column is settled for the whole block")
            }
        }
        Ok(())
    }

    /// Evaluates a condition on several columns for the rows of `mask`.
    fn apply_to_rows(&self, table: &TableDef, predicate: &Predicate, mask: &mut RowMask) -> Result<()> {
        let rows = mask.extent();
        if mask.count() * ROWS_PER_PICK < rows.len() {
            return self.pick_rows(table, predicate, mask);
        }
        mask.and_bits(rows.clone(), &self.truth_of_frame(table, predicate, rows)?);
        Ok(())
    }

    /// Evaluates a condition that can fail, so that it fails only for rows of `mask`.
    fn apply_fallible(&self, table: &TableDef, predicate: &Predicate, mask: &mut RowMask) -> Result<()> {
        let rows = mask.extent();
        if mask.count() * ROWS_PER_PICK < rows.len() {
            return self.pick_rows(table, predicate, mask);
        }
        // The evaluation of all rows is fast, and an error is rare. If there is one, it may be that of a row that is
        // not in the mask, so we repeat the evaluation for the rows of the mask alone.
        match self.truth_of_frame(table, predicate, rows.clone()) {
            Ok(truth) => mask.and_bits(rows, &truth),
            Err(_) => self.pick_rows(table, predicate, mask)?,
        }
        Ok(())
    }

    /// The rows of a frame for which a condition is true.
    fn truth_of_frame(&self, table: &TableDef, predicate: &Predicate, rows: Range<usize>) -> Result<BooleanBuffer> {
        let count = rows.len();
        Ok(selected(&evaluate_for(predicate, count, &mut FrameInput { state: self, table, rows })?))
    }

    /// Evaluates a condition for single rows.
    fn pick_rows(&self, table: &TableDef, predicate: &Predicate, mask: &mut RowMask) -> Result<()> {
        let positions = mask.positions();
        let truth = evaluate(predicate, positions.len(), &mut |column| self.take(table, column, &positions))?;
        mask.keep(&selected(&truth));
        Ok(())
    }

    /// Whether evaluating the condition for the rows of `mask` alone costs less than for all values of the block.
    fn is_looked_up(&self, table: &TableDef, condition: &ColumnCondition, mask: &RowMask) -> Result<bool> {
        let (BlockColumn::Stored(chunk), Test::Predicate(_)) = (self.column(table, condition.column)?, &condition.test)
        else {
            return Ok(false);
        };
        Ok(is_cheaper_by_rows(chunk, self.about_rows(mask)))
    }

    fn look_up(&self, table: &TableDef, condition: &ColumnCondition, mask: &mut RowMask) -> Result<()> {
        match (&condition.test, self.column(table, condition.column)?) {
            (Test::Predicate(predicate), BlockColumn::Stored(_)) => self.pick_rows(table, predicate, mask),
            (Test::Values(_) | Test::Like { .. }, _) | (_, BlockColumn::Missing) => {
                unreachable!("only predicates on stored columns are looked up by row")
            }
        }
    }

    fn settled(&self, table: &TableDef, condition: &ColumnCondition) -> Result<&Settled> {
        let slot = &self.settled[condition.id];
        if let Some(settled) = slot.get() {
            return Ok(settled);
        }
        let _settling = self.settling.lock();
        // Another worker may have settled the condition while this one waited for the lock.
        if let Some(settled) = slot.get() {
            return Ok(settled);
        }
        let settled = match self.column(table, condition.column)? {
            BlockColumn::Missing => Settled::All(is_true_of_missing(table, condition)?),
            BlockColumn::Stored(chunk) => settle(chunk, condition)?,
        };
        Ok(slot.get_or_init(|| settled))
    }

    /// The order of the conjuncts that costs least.
    fn order(&self, table: &TableDef, filter: &Filter) -> Result<&[usize]> {
        if let Some(order) = self.order.get() {
            return Ok(order);
        }
        let conjuncts = filter.conjuncts().len() + usize::from(self.bound.is_some());
        let mut ranked = Vec::with_capacity(conjuncts);
        for place in 0..conjuncts {
            ranked.push((self.estimate(table, self.conjunct(filter, place))?.rank(), place));
        }
        // Cheap conditions that remove many rows come first.
        ranked.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        Ok(self.order.get_or_init(|| ranked.into_iter().map(|(_, place)| place).collect()))
    }

    fn estimate(&self, table: &TableDef, condition: &Condition) -> Result<Estimate> {
        let parts = |parts: &[Condition]| -> Result<Vec<Estimate>> {
            parts.iter().map(|part| self.estimate(table, part)).collect()
        };
        let cost = |parts: &[Estimate]| parts.iter().map(|part| part.cost).sum();
        match condition {
            Condition::Column(column) => self.estimate_column(table, column),
            Condition::Columns(predicate) => {
                let mut columns = Vec::new();
                predicate.collect_columns(&mut columns);
                Ok(Estimate { cost: VALUE_COST * columns.len() as f64, share: share_of(predicate) })
            }
            Condition::All(all) => {
                let all = parts(all)?;
                Ok(Estimate { cost: cost(&all), share: all.iter().map(|part| part.share).product() })
            }
            Condition::Any(any) => {
                let any = parts(any)?;
                Ok(Estimate { cost: cost(&any), share: any.iter().map(|part| part.share).sum::<f64>().min(1.0) })
            }
        }
    }

    fn estimate_column(&self, table: &TableDef, condition: &ColumnCondition) -> Result<Estimate> {
        /// Nanoseconds for testing the code of a row.
        const CODE_COST: f64 = 0.3;
        // Without this cost, codes of other columns are tested before runs: the queries 41 and 42 of ClickBench then
        // take 2.3 and 2.6 ms instead of 1.5 and 1.6.
        const RUN_COST: f64 = 0.1;

        let rows = self.block.rows().max(1) as f64;
        let BlockColumn::Stored(chunk) = self.column(table, condition.column)? else {
            return Ok(Estimate { cost: 0.0, share: f64::from(is_true_of_missing(table, condition)?) });
        };
        if !matches!(condition.test, Test::Values(_)) {
            let values = chunk.distinct().unwrap_or(chunk.rows()) as f64;
            let share =
                if let Test::Predicate(predicate) = &condition.test { share_of(predicate) } else { UNKNOWN_SHARE };
            return Ok(Estimate { cost: VALUE_COST * values / rows + CODE_COST, share });
        }
        Ok(match self.settled(table, condition)? {
            Settled::All(all) => Estimate { cost: 0.0, share: f64::from(*all) },
            Settled::Codes(codes) => Estimate {
                cost: if chunk.has_code_per_row() { CODE_COST } else { RUN_COST },
                share: chunk.about_rows_of(codes)? as f64 / rows,
            },
            Settled::Rows => Estimate { cost: 2.0 * CODE_COST, share: UNKNOWN_SHARE },
        })
    }
}

/// The rows of a frame of a block, for a condition.
struct FrameInput<'a> {
    state: &'a BlockState,
    table: &'a TableDef,
    rows: Range<usize>,
}

impl ConditionInput for FrameInput<'_> {
    fn values(&mut self, column: usize) -> Result<ArrayRef> {
        self.state.read(self.table, column, self.rows.clone())
    }

    fn listed(&mut self, column: usize, for_costly: bool) -> Result<Option<(ArrayRef, Vec<u32>)>> {
        let Some(chunk) = self.state.chunk(self.table, column)? else { return Ok(None) };
        let values_max = self.rows.len() / ROWS_PER_VALUE_MIN;
        if !chunk.has_values() {
            let span = if for_costly { IntegerSpanList::of(chunk, values_max)? } else { None };
            let rows = self.rows.clone();
            return span.map(|span| span.with_codes(|out| chunk.integers(rows, out))).transpose();
        }
        if chunk.distinct().unwrap_or_default() > values_max {
            return Ok(None);
        }
        let Some(values) = listed(chunk)? else { return Ok(None) };
        let mut codes = Vec::with_capacity(self.rows.len());
        chunk.codes(self.rows.clone(), &mut codes)?;
        Ok(Some((values, codes)))
    }
}

/// All integers or dates from the least to the greatest of a chunk, in the place of a value list. The code of a value
/// is its distance from the least one.
pub(crate) struct IntegerSpanList {
    least: i64,
    values: ArrayRef,
}

impl IntegerSpanList {
    /// The list of a chunk. `None` if the chunk has NULLs or other types, or if there are more than `values_max`
    /// values.
    pub(crate) fn of(chunk: &Chunk, values_max: usize) -> Result<Option<IntegerSpanList>> {
        if chunk.null_count() > 0 {
            return Ok(None);
        }
        let Some(Zone { min, max: Some(max) }) = chunk.zone() else { return Ok(None) };
        let kind = min.value.data_type();
        let is_narrow = kind.is_integer() && *kind != DataType::UInt64 || *kind == DataType::Date32;
        if !is_narrow {
            return Ok(None);
        }
        let number = |bound: &ArrayRef| -> Result<i64, ArrowError> {
            // Arrow casts a date to the number of its day, which is an INTEGER.
            let whole =
                if *bound.data_type() == DataType::Date32 { cast(bound, &DataType::Int32)? } else { bound.clone() };
            Ok(cast(&whole, &DataType::Int64)?.as_primitive::<Int64Type>().value(0))
        };
        let of_span = || -> Result<Option<IntegerSpanList>, ArrowError> {
            let (least, greatest) = (number(&min.value)?, number(&max.value)?);
            if greatest.saturating_sub(least) >= values_max as i64 {
                return Ok(None);
            }
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(least..=greatest));
            let values = match kind {
                DataType::Date32 => cast(&cast(&numbers, &DataType::Int32)?, kind)?,
                _ => cast(&numbers, kind)?,
            };
            Ok(Some(IntegerSpanList { least, values }))
        };
        of_span().map_err(|error| Error::internal(format!("the values of a narrow column: {error}")))
    }

    /// The values, and the codes of rows. `read` appends the integers of the rows.
    pub(crate) fn with_codes(self, read: impl FnOnce(&mut Vec<i64>) -> Result<()>) -> Result<(ArrayRef, Vec<u32>)> {
        let mut integers = Vec::new();
        read(&mut integers)?;
        let mut greatest = 0;
        let codes = integers.into_iter().map(|integer| {
            let code = integer.wrapping_sub(self.least) as u64;
            greatest = greatest.max(code);
            code as u32
        });
        let codes: Vec<u32> = codes.collect();
        if greatest >= self.values.len() as u64 {
            return Err(Error::corrupt("a value is not within the bounds of its chunk"));
        }
        Ok((self.values, codes))
    }
}

/// The value list of a chunk. If the chunk has NULLs, NULL follows the last value, so that every code has a value.
pub(crate) fn listed(chunk: &Chunk) -> Result<Option<ArrayRef>> {
    let Some(values) = chunk.values()? else { return Ok(None) };
    if chunk.null_count() == 0 {
        return Ok(Some(values));
    }
    let null = new_null_array(values.data_type(), 1);
    concat(&[values, null]).map(Some)
}

/// The verdict of the zone maps on all conditions together.
pub(crate) fn verdict(block: &Block, table: &TableDef, filter: &Filter) -> Result<Verdict> {
    let verdict = all_of(filter.conjuncts(), &mut |condition| verdict_on(block, table, condition))?;
    // A condition that can fail must be tested by rows.
    Ok(if filter.can_fail() && verdict == Verdict::Everything { Verdict::Unknown } else { verdict })
}

fn verdict_on(block: &Block, table: &TableDef, condition: &Condition) -> Result<Verdict> {
    match condition {
        Condition::All(parts) => all_of(parts, &mut |part| verdict_on(block, table, part)),
        Condition::Any(parts) => any_of(parts, &mut |part| verdict_on(block, table, part)),
        Condition::Column(ColumnCondition { column, test: Test::Values(values), .. }) => {
            Ok(block.chunk_head(table, *column)?.map_or(Verdict::Unknown, |chunk| chunk.verdict(values)))
        }
        Condition::Column(ColumnCondition { test: Test::Predicate(Predicate::Computed(condition)), .. })
        | Condition::Columns(Predicate::Computed(condition)) => {
            let bounds = condition.columns().iter().map(|column| Ok((*column, block_bounds(block, table, *column)?)));
            let bounds = bounds.collect::<Result<Vec<_>>>()?;
            let of_column = |wanted: usize| bounds.iter().find(|(column, _)| *column == wanted)?.1;
            Ok(if condition.is_never_true(&of_column) { Verdict::Nothing } else { Verdict::Unknown })
        }
        Condition::Column(_) | Condition::Columns(_) => Ok(Verdict::Unknown),
    }
}

fn all_of(parts: &[Condition], verdict: &mut dyn FnMut(&Condition) -> Result<Verdict>) -> Result<Verdict> {
    let mut all = Verdict::Everything;
    for part in parts {
        match verdict(part)? {
            Verdict::Nothing => return Ok(Verdict::Nothing),
            Verdict::Everything => {}
            Verdict::Unknown => all = Verdict::Unknown,
        }
    }
    Ok(all)
}

fn any_of(parts: &[Condition], verdict: &mut dyn FnMut(&Condition) -> Result<Verdict>) -> Result<Verdict> {
    let mut any = Verdict::Nothing;
    for part in parts {
        match verdict(part)? {
            Verdict::Everything => return Ok(Verdict::Everything),
            Verdict::Nothing => {}
            Verdict::Unknown => any = Verdict::Unknown,
        }
    }
    Ok(any)
}

/// The codes of a chunk's values that pass the filter, which must read this column alone. `None` if the chunk has no
/// list.
pub(crate) fn codes_that_pass(chunk: &Chunk, filter: &Filter) -> Result<Option<CodeSet>> {
    let mut all = None;
    for conjunct in filter.conjuncts() {
        let Some(codes) = codes_of(chunk, conjunct)? else { return Ok(None) };
        all = Some(match all {
            Some(before) => codes.and(&before),
            None => codes,
        });
    }
    Ok(all)
}

fn codes_of(chunk: &Chunk, condition: &Condition) -> Result<Option<CodeSet>> {
    let (parts, combine): (_, fn(&CodeSet, &CodeSet) -> CodeSet) = match condition {
        Condition::Column(column) => return codes_of_column(chunk, column),
        Condition::Columns(_) => return Ok(None),
        Condition::All(parts) => (parts, CodeSet::and),
        Condition::Any(parts) => (parts, CodeSet::or),
    };
    let mut combined: Option<CodeSet> = None;
    for part in parts {
        let Some(codes) = codes_of(chunk, part)? else { return Ok(None) };
        combined = Some(match combined {
            Some(before) => combine(&before, &codes),
            None => codes,
        });
    }
    Ok(combined)
}

fn codes_of_column(chunk: &Chunk, condition: &ColumnCondition) -> Result<Option<CodeSet>> {
    match &condition.test {
        Test::Values(values) => chunk.codes_of(values),
        Test::Like { pattern, negated } => match pattern.text() {
            Some(text) => chunk.codes_containing(text, *negated),
            None => {
                chunk.codes_where(pattern.needle(), *negated, &mut |window, truth| like::find(pattern, window, truth))
            }
        },
        Test::Predicate(predicate) => {
            let Some(values) = chunk.values()? else { return Ok(None) };
            let truth = evaluate(predicate, values.len(), &mut |_| Ok(Arc::clone(&values)))?;
            let mut truth: Vec<bool> = selected(&truth).iter().collect();
            // The code after the last value means NULL.
            if chunk.null_count() > 0 {
                let null = new_null_array(values.data_type(), 1);
                truth.extend(selected(&evaluate(predicate, 1, &mut |_| Ok(Arc::clone(&null)))?).iter());
            }
            Ok(Some(CodeSet::of_truth(truth)))
        }
    }
}

/// The assumed share of rows for which a predicate on the values of columns is true.
fn share_of(predicate: &Predicate) -> f64 {
    match predicate {
        Predicate::Computed(condition) => condition.share(),
        _ => UNKNOWN_SHARE,
    }
}

fn settle(chunk: &Chunk, condition: &ColumnCondition) -> Result<Settled> {
    // The zone map may settle the condition without reading the chunk.
    if let Test::Values(values) = &condition.test {
        match chunk.verdict(values) {
            Verdict::Nothing => return Ok(Settled::All(false)),
            Verdict::Everything => return Ok(Settled::All(true)),
            Verdict::Unknown => {}
        }
    }
    // All workers wait while one evaluates the values. If there are nearly as many values as rows, they should rather
    // share the rows.
    let is_by_rows = matches!(condition.test, Test::Predicate(Predicate::Computed(_)))
        && chunk.distinct().is_some_and(|values| values * ROWS_PER_VALUE_MIN > chunk.rows());
    Ok(match if is_by_rows { None } else { codes_of_column(chunk, condition)? } {
        Some(codes) => settled_by(codes),
        None => Settled::Rows,
    })
}

fn settled_by(codes: CodeSet) -> Settled {
    match (codes.is_empty(), codes.is_full()) {
        (true, _) => Settled::All(false),
        (_, true) => Settled::All(true),
        _ => Settled::Codes(codes),
    }
}

/// Removes the rows whose text does not match (with `negated`: does match), by decoding the texts of these rows alone.
fn retain_like(chunk: &Chunk, pattern: &LikePattern, negated: bool, mask: &mut RowMask) -> Result<()> {
    chunk.retain_where(pattern.needle(), negated, &mut |window, truth| like::find(pattern, window, truth), mask)
}

/// Whether a condition is true for the rows of a block that is older than the column.
fn is_true_of_missing(table: &TableDef, condition: &ColumnCondition) -> Result<bool> {
    let value = missing(table, condition.column, 1)?;
    match &condition.test {
        Test::Values(values) => Ok(values.contains(&table.columns[condition.column].kind, &value)),
        Test::Like { pattern, negated } => {
            let texts = value.as_string_view();
            Ok(texts.is_valid(0) && pattern.matches(texts.value(0).as_bytes()) != *negated)
        }
        Test::Predicate(predicate) => Ok(selected(&evaluate(predicate, 1, &mut |_| Ok(Arc::clone(&value)))?).value(0)),
    }
}

/// The neighbouring values of a list that can be decoded in the time in which a single one is picked. Lists of 100,000
/// and 1,000 texts of 40 bytes: a text takes 16 and 19 ns in order, 56 and 167 ns picked, and 90 to 160 and 31 to 105
/// ns by its row. A list of 100,000 counts: one in 4, 8 and 16 takes as long as 5, 8 and 13 in order. A LIKE on few
/// rows takes equally long with 4 to 64, and up to 1.6 times as long with 1.
pub(crate) const VALUES_PER_PICK: usize = 8;

/// A condition on several columns is evaluated for single rows if fewer than one in this many is left: picking a row
/// takes a few times as long as reading the next one.
const ROWS_PER_PICK: usize = 4;

/// The rows per value from which a computed condition is evaluated for each value of a block.
const ROWS_PER_VALUE_MIN: usize = 4;

/// Whether reading `rows` single rows of a chunk costs less than decoding its value list.
pub(crate) fn is_cheaper_by_rows(chunk: &Chunk, rows: usize) -> bool {
    rows * VALUES_PER_PICK < chunk.distinct().unwrap_or_default()
}

fn missing(table: &TableDef, index: usize, rows: usize) -> Result<ArrayRef> {
    let column = &table.columns[index];
    repeat_missing(column.missing.as_ref(), &column.kind.arrow(), rows)
}

/// The rows whose truth is true, neither false nor NULL.
pub(crate) fn selected(truth: &BooleanArray) -> BooleanBuffer {
    match truth.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => truth.values() & nulls.inner(),
        None => truth.values().clone(),
    }
}
