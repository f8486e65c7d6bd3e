//! The state that a group keeps for its aggregates: cells of a few words of 64 bits.
//!
//! | cell | words |
//! | --- | --- |
//! | rows, or values that are not NULL | their number |
//! | total of numbers of up to 32 bits | 64 bits |
//! | total of wider integers and decimals | 128 bits |
//! | total of floats | the total, and its rounding error |
//! | extreme of values of up to 64 bits | its number in the order of the values |
//! | extreme of values of 128 bits | its number in the order of the values |
//! | extreme of texts and blobs | the complement of a view; zero without any |
//! | bits that values have in common | the bits |
//! | variance | the number of values, their mean, the sum of the squared distances from it |
//! | pairs | the number of pairs, both means, the sums of the squared distances and of their products (pairs.rs) |
//!
//! Aggregates share cells. For example, `SUM(x)`, `AVG(x)` and `COUNT(x)` together have one total and one count. Where
//! `x` is never NULL, the count is the count of the rows, which `COUNT(*)` uses too. Every cell starts with a value
//! that changes nothing, so that the cells of two parts of a group can be joined into the cells of the whole.
//! Aggregates that need the values themselves have logs instead of cells (log.rs).

mod add;
mod finish;
mod first;
mod in_pieces;
mod log;
mod numbers;
mod rank;
mod registers;
mod sketches;
mod text;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{Aggregate, AggregateFunction, AggregateRole, Expr, GroupKey};

pub(super) use self::add::Beside;
pub(crate) use self::add::{Grouped, Groups, ValuePlaces};
pub(super) use self::finish::Finished;
use self::log::{Kept, LogReads, Logged, order_of};
pub(super) use self::log::{Log, group_of, set_group};
pub(super) use self::numbers::wide_number;
pub(crate) use self::numbers::{BitOrder, NumberForm, StateNumbers, integers, signed_array, wide_array};
pub(super) use self::rank::ranks_of;
use super::facts::{Bounds, Facts};
use super::pieces::PIECE_ROWS;
use super::rows::{PartRows, PartValues};
use super::texts::{TextStore, is_text};
use crate::aggregate::{
    AggregateState, CellFold, CellResult, Count, FoldCell, FoldState, SUM_FLOAT, SumNarrow, SumSigned, SumUnsigned,
    SumWide, extreme_fold, state_of,
};
use crate::arithmetic::IntegerSpan;
use crate::scan::block_state::selected;

/// The operation of a cell on its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Count,
    /// Exact totals, one variant for each type of the added numbers.
    SumNarrow,
    SumSigned,
    SumUnsigned,
    SumWide,
    LeastText,
    GreatestText,
    /// Any other fold of numbers.
    Fold(&'static dyn CellFold),
}

impl Operation {
    fn is_of_texts(self) -> bool {
        matches!(self, Operation::LeastText | Operation::GreatestText)
    }

    /// Whether the operation adds up integers or decimals.
    fn is_total(self) -> bool {
        matches!(self, Operation::SumNarrow | Operation::SumSigned | Operation::SumUnsigned | Operation::SumWide)
    }

    /// The fold of the operation; `None` for texts, which are no numbers.
    fn fold(self) -> Option<&'static dyn CellFold> {
        Some(match self {
            Operation::Count => &FoldCell::<Count>::NEW,
            Operation::SumNarrow => &FoldCell::<SumNarrow>::NEW,
            Operation::SumSigned => &FoldCell::<SumSigned>::NEW,
            Operation::SumUnsigned => &FoldCell::<SumUnsigned>::NEW,
            Operation::SumWide => &FoldCell::<SumWide>::NEW,
            Operation::LeastText | Operation::GreatestText => return None,
            Operation::Fold(fold) => fold,
        })
    }

    /// The words of a cell that has taken no value.
    fn initial(self) -> &'static [u64] {
        self.fold().map_or(&[0, 0], CellFold::initial)
    }

    /// The form in which the operation takes values of `kind`; `None` if it only counts them.
    fn form(self, kind: &DataType) -> Option<NumberForm> {
        self.fold().map_or(Some(NumberForm::Text), |fold| fold.form(kind))
    }
}

/// Some words of a group.
#[derive(Debug)]
struct StateCell {
    operation: Operation,
    /// The numbers that the cell takes; `None` for a count.
    operand: Option<usize>,
    /// The rows that the cell takes; `None` for all rows.
    mask: Option<usize>,
    /// The words of the cells before this one.
    offset: usize,
    /// The message of the error for a total that leaves its type.
    total_error: String,
    /// Whether the cell has the least or the greatest value.
    is_extreme: bool,
}

/// Values of an argument in the form that cells take.
#[derive(Debug, PartialEq, Eq)]
struct StateOperand {
    argument: usize,
    form: NumberForm,
}

/// An expression that aggregates read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Argument {
    expr: Expr,
    /// The argument that must be true. The expression must not be computed for other rows, because it may fail there.
    filter: Option<usize>,
}

/// Selects the rows that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mask {
    /// The argument that must not be NULL.
    valid: Option<usize>,
    /// The argument that must be true.
    filter: Option<usize>,
}

/// One aggregate of the result.
#[derive(Debug)]
enum AggregateOutput {
    Cells(Box<CellOutput>),
    /// The number of the log, and the number of the aggregate within this log.
    Log(usize, usize),
}

/// An aggregate that is read from cells.
#[derive(Debug)]
struct CellOutput {
    aggregate: Aggregate,
    /// The cell that counts the values; `None` if each group has a value.
    count: Option<usize>,
    /// The cell of the total or extreme.
    value: Option<usize>,
    /// How the result is read from the words of the cell, if the cell is a fold of its own.
    result: Option<CellResult>,
    /// The number that must be added to the total for each value.
    shift: i128,
}

/// The aggregates of a query. The cells and then the logs are its parts, numbered in this order.
#[derive(Debug)]
pub(super) struct States {
    arguments: Vec<Argument>,
    operands: Vec<StateOperand>,
    masks: Vec<Mask>,
    cells: Vec<StateCell>,
    logs: Vec<Log>,
    outputs: Vec<AggregateOutput>,
    /// The arguments that are only added up, are never NULL, and fit 64 bits although their type may be wider.
    words: Vec<usize>,
    /// The arguments whose totals over a piece of rows do not leave 64 bits.
    small_words: Vec<usize>,
    /// The words of a group without rows.
    initial: Vec<u64>,
}

/// The input of the parts from one block or batch.
pub(super) struct Inputs<'a> {
    /// By argument.
    values: Vec<Option<PartValues>>,
    /// By operand.
    numbers: Vec<Option<StateNumbers>>,
    /// By mask; `None` if all rows count.
    masks: Vec<Option<BooleanBuffer>>,
    /// By log.
    logged: Vec<Option<Logged<'a>>>,
}

impl States {
    /// Makes the parts of `aggregates`, using the known facts about the values that they read. `always_rows` says that
    /// each group has at least one row.
    pub(super) fn new(aggregates: &[Aggregate], facts: Facts<'_>, always_rows: bool) -> Result<States> {
        let mut states = States {
            arguments: Vec::new(),
            operands: Vec::new(),
            masks: Vec::new(),
            cells: Vec::new(),
            logs: Vec::new(),
            outputs: Vec::new(),
            words: Vec::new(),
            small_words: Vec::new(),
            initial: Vec::new(),
        };
        for aggregate in aggregates {
            let output = match log::kept_values(aggregate)? {
                Some(kept) => states.log_output(aggregate, kept, facts)?,
                None => AggregateOutput::Cells(Box::new(states.cell_output(aggregate, facts, always_rows)?)),
            };
            states.outputs.push(output);
        }
        states.logs.iter_mut().try_for_each(Log::prepare)?;
        // An argument may have been listed before another aggregate asked for its values. We keep only the arguments
        // that are still just added up.
        let words = std::mem::take(&mut states.words);
        states.words = words.into_iter().filter(|argument| states.is_only_added(*argument)).collect();
        let (words, mut small_words) = (&states.words, std::mem::take(&mut states.small_words));
        small_words.retain(|argument| words.contains(argument));
        states.small_words = small_words;
        Ok(states)
    }

    /// Whether no part needs the values of an argument in their own type.
    fn is_only_added(&self, argument: usize) -> bool {
        let mut operands = self.operands.iter().filter(|operand| operand.argument == argument).peekable();
        let is_in_log = |log: &Log| log.held().contains(&argument);
        let is_filter = |mask: &Mask| mask.filter == Some(argument);
        operands.peek().is_some()
            && operands.all(|operand| operand.form == NumberForm::Small)
            && !self.logs.iter().any(is_in_log)
            && !self.masks.iter().any(is_filter)
            && self.arguments[argument].filter.is_none()
    }

    /// The argument of an aggregate with its type, and the mask of the rows that count. The argument is `None` if the
    /// aggregate counts rows.
    fn argument(
        &mut self,
        aggregate: &Aggregate,
        is_nullable: impl Fn(Expr) -> bool,
    ) -> (Option<(usize, DataType)>, Option<usize>) {
        let filter = aggregate.filter.map(|expr| place_of(&mut self.arguments, Argument { expr, filter: None }));
        let argument =
            aggregate.argument.as_ref().map(|(expr, kind)| (self.argument_place(*expr, filter), kind.clone()));
        let valid = argument.as_ref().filter(|(place, _)| is_nullable(self.arguments[*place].expr));
        let mask = Mask { valid: valid.map(|(place, _)| *place), filter };
        let takes_all = mask == Mask { valid: None, filter: None };
        (argument, (!takes_all).then(|| place_of(&mut self.masks, mask)))
    }

    /// The number of an argument that is read only where `filter` is true.
    fn argument_place(&mut self, expr: Expr, filter: Option<usize>) -> usize {
        let filter = filter.filter(|_| matches!(expr, Expr::Function(_)));
        place_of(&mut self.arguments, Argument { expr, filter })
    }

    fn cell_output(&mut self, aggregate: &Aggregate, facts: Facts<'_>, always_rows: bool) -> Result<CellOutput> {
        // From here on a sum of `x + 1` is a sum of `x`; the constant is added when the result is made.
        let (aggregate, shift) = without_shift(aggregate, facts)?;
        let (argument, mask) = self.argument(&aggregate, |expr| facts.is_nullable(expr));
        let parts = aggregate.of_parts.map(|parts| self.total_of_counts(parts, &aggregate));
        let Some((argument, kind)) = argument else {
            let count = parts.or_else(|| Some(self.cell(Operation::Count, None, mask, &aggregate)));
            return Ok(CellOutput { aggregate, count, value: None, result: None, shift });
        };
        let Argument { expr, filter } = self.arguments[argument];
        let (operation, state) = operation(aggregate.function, &kind)?;
        let operation = match operation {
            operation @ (Operation::SumSigned | Operation::SumUnsigned | Operation::SumWide) => {
                let words = match filter {
                    None => facts.bounds_of_words(expr)?,
                    Some(_) => None,
                };
                let bounds = match (words, expr) {
                    (None, Expr::Column(column)) => facts.bounds(column)?,
                    (words, _) => words,
                };
                // Values that are computed in 64 bits need no value in their own type.
                if let Some(bounds) = words {
                    place_of(&mut self.words, argument);
                    if (Bounds { rows: PIECE_ROWS as u64, ..bounds }).total_fits() {
                        place_of(&mut self.small_words, argument);
                    }
                }
                match bounds {
                    Some(bounds) if bounds.total_fits() => Operation::SumNarrow,
                    _ if words.is_some() && operation == Operation::SumWide => Operation::SumSigned,
                    _ => operation,
                }
            }
            operation => operation,
        };
        let value = operation.form(&kind).map(|form| {
            let operand = place_of(&mut self.operands, StateOperand { argument, form });
            self.cell(operation, Some(operand), mask, &aggregate)
        });
        let counts = match operation {
            Operation::Count => true,
            _ if aggregate.function.role == AggregateRole::Average || shift != 0 => true,
            // These cells know by themselves whether there was a value.
            operation if operation.is_of_texts() => false,
            _ if state.is_some_and(|state| !state.needs_count) => false,
            _ => mask.is_some() || !always_rows,
        };
        let count = parts.or_else(|| counts.then(|| self.cell(Operation::Count, None, mask, &aggregate)));
        Ok(CellOutput { aggregate, count, value, result: state.map(|state| state.result), shift })
    }

    /// The cell that adds up the counts of parts.
    fn total_of_counts(&mut self, counts: Expr, aggregate: &Aggregate) -> usize {
        let argument = self.argument_place(counts, None);
        let operand = place_of(&mut self.operands, StateOperand { argument, form: NumberForm::Signed });
        self.cell(Operation::SumNarrow, Some(operand), None, aggregate)
    }

    fn log_output(&mut self, aggregate: &Aggregate, kept: Kept, facts: Facts<'_>) -> Result<AggregateOutput> {
        let aggregate = &log::in_own_order(aggregate);
        let takes_nulls = aggregate.takes_nulls();
        let (Some((argument, kind)), mask) = self.argument(aggregate, |expr| !takes_nulls && facts.is_nullable(expr))
        else {
            return Err(Error::internal("an aggregate of values without an argument"));
        };
        let order = order_of(aggregate, kept);
        let filter = mask.and_then(|mask| self.masks[mask].filter);
        let order = order.into_iter().map(|(expr, direction)| (self.argument_place(expr, filter), direction));
        let reads = LogReads { argument, order: order.collect(), mask, kept, takes_nulls };
        let log = match self.logs.iter().position(|log| *log.reads() == reads) {
            Some(log) => log,
            None => {
                let value = GroupKey { expr: self.arguments[argument].expr, kind, nullable: takes_nulls };
                let order = aggregate.order.iter().take(reads.order.len());
                let order = order.map(|order| GroupKey { expr: order.expr, kind: order.kind.clone(), nullable: true });
                self.logs.push(Log::new(reads, &[value].into_iter().chain(order).collect::<Vec<_>>())?);
                self.logs.len() - 1
            }
        };
        Ok(AggregateOutput::Log(log, self.logs[log].add_output(aggregate)?))
    }

    /// The number of the cell with this operation, operand and mask. Adds the cell if it is new.
    fn cell(
        &mut self,
        operation: Operation,
        operand: Option<usize>,
        mask: Option<usize>,
        aggregate: &Aggregate,
    ) -> usize {
        let is_it = |cell: &StateCell| (cell.operation, cell.operand, cell.mask) == (operation, operand, mask);
        if let Some(place) = self.cells.iter().position(is_it) {
            return place;
        }
        let offset = self.initial.len();
        self.initial.extend_from_slice(operation.initial());
        let is_extreme =
            operation != Operation::Count && matches!(state_of(aggregate.function), Ok(AggregateState::Extreme { .. }));
        let total_error = aggregate.total_error.clone();
        self.cells.push(StateCell { operation, operand, mask, offset, total_error, is_extreme });
        self.cells.len() - 1
    }

    /// Whether no total can leave its type, whatever the rows are.
    pub(super) fn never_fail(&self) -> bool {
        let never_fails = |cell: &StateCell| match cell.operation {
            Operation::SumUnsigned | Operation::SumWide => false,
            // The numbers that this adds to a wide total have 64 bits, and no table has enough rows to overflow 128
            // bits.
            Operation::SumSigned => {
                cell.operand.is_some_and(|operand| self.operands[operand].form == NumberForm::Small)
            }
            _ => true,
        };
        self.cells.iter().all(never_fails) && self.logs.is_empty()
    }

    /// The words of a group without rows.
    pub(super) fn initial(&self) -> &[u64] {
        &self.initial
    }

    /// The number of cells and logs.
    pub(super) fn parts(&self) -> usize {
        self.cells.len() + self.logs.len()
    }

    /// The logs.
    pub(super) fn logs(&self) -> &[Log] {
        &self.logs
    }

    /// The expressions that a part reads.
    pub(super) fn reads(&self, part: usize) -> Vec<Expr> {
        let (arguments, mask) = self.read_by(part);
        let mask = mask.map(|mask| self.masks[mask]);
        let of_mask = [mask.and_then(|mask| mask.valid), mask.and_then(|mask| mask.filter)];
        let all = arguments.iter().copied().chain(of_mask.into_iter().flatten());
        all.map(|argument| self.arguments[argument].expr).collect()
    }

    /// Whether a part is an extreme of a column, or the number of its values. The least and the greatest value are then
    /// enough, if their weights add up to the number of values.
    pub(super) fn is_of_bounds(&self, part: usize) -> bool {
        let Some(cell) = self.cells.get(part) else { return false };
        let is_column = |expr: &Expr| matches!(expr, Expr::Column(_));
        let is_filtered = cell.mask.is_some_and(|mask| self.masks[mask].filter.is_some());
        (cell.is_extreme || cell.operation == Operation::Count)
            && !is_filtered
            && self.reads(part).iter().all(is_column)
    }

    /// The arguments and the mask of a part.
    fn read_by(&self, part: usize) -> (&[usize], Option<usize>) {
        match self.cells.get(part) {
            Some(cell) => {
                let operand = cell.operand.map(|operand| &self.operands[operand].argument);
                (operand.map(std::slice::from_ref).unwrap_or_default(), cell.mask)
            }
            None => {
                let log = &self.logs[part - self.cells.len()];
                (log.held(), log.reads().mask)
            }
        }
    }

    /// All expressions that the aggregates read.
    pub(super) fn exprs(&self) -> impl Iterator<Item = Expr> {
        self.arguments.iter().map(|argument| argument.expr)
    }

    /// Reads the input of some parts from `rows`.
    pub(super) fn inputs(&self, rows: &PartRows<'_>, parts: impl Iterator<Item = usize> + Clone) -> Result<Inputs<'_>> {
        let mut inputs = Inputs {
            values: self.arguments.iter().map(|_| None).collect(),
            numbers: self.operands.iter().map(|_| None).collect(),
            masks: vec![None; self.masks.len()],
            logged: self.logs.iter().map(|_| None).collect(),
        };
        self.read_words(parts.clone(), rows, &mut inputs)?;
        for part in parts {
            let (arguments, mask) = self.read_by(part);
            let mask = mask.map(|mask| (mask, self.masks[mask]));
            let of_mask = |of: fn(&Mask) -> Option<usize>| mask.as_ref().and_then(|(_, mask)| of(mask));
            // The filter must come first: it says for which rows the other arguments are read.
            let all = of_mask(|mask| mask.filter).into_iter().chain(arguments.iter().copied());
            for argument in all.chain(of_mask(|mask| mask.valid)) {
                self.read(argument, rows, &mut inputs)?;
            }
            if let Some((number, mask)) = mask
                && inputs.masks[number].is_none()
            {
                let valid = mask.valid.and_then(|argument| inputs.values[argument].as_ref()).and_then(valid_rows);
                let filter = mask.filter.and_then(|argument| inputs.values[argument].as_ref()).map(true_rows);
                inputs.masks[number] = match (valid, filter) {
                    (Some(valid), Some(filter)) => Some(&valid & &filter),
                    (valid, filter) => valid.or(filter),
                };
            }
            let Some(values) = arguments.first().and_then(|argument| inputs.values[*argument].as_ref()) else {
                continue;
            };
            if let Some(StateCell { operand: Some(operand), .. }) = self.cells.get(part)
                && inputs.numbers[*operand].is_none()
            {
                inputs.numbers[*operand] = Some(StateNumbers::new(&values.values, self.operands[*operand].form)?);
            }
            let takes_nulls = match part.checked_sub(self.cells.len()) {
                None => mask.is_some_and(|(_, mask)| mask.valid.is_some()),
                Some(log) => {
                    inputs.logged[log] = Some(self.logs[log].values(&inputs.values, rows.len())?);
                    self.logs[log].reads().takes_nulls || mask.is_some_and(|(_, mask)| mask.valid.is_some())
                }
            };
            // The facts promised that there is no NULL. Counting one would make a wrong result, so this must fail.
            if !takes_nulls && values.values.logical_null_count() > 0 {
                return Err(Error::internal("an argument that is never NULL is NULL"));
            }
        }
        Ok(inputs)
    }

    /// Reads the arguments that parts only add up, all at once, because they often have columns in common.
    fn read_words(
        &self,
        parts: impl Iterator<Item = usize> + Clone,
        rows: &PartRows<'_>,
        inputs: &mut Inputs<'_>,
    ) -> Result<()> {
        let is_read = |argument: &usize| parts.clone().any(|part| self.read_by(part).0.contains(argument));
        let arguments: Vec<usize> = self.words.iter().copied().filter(is_read).collect();
        let exprs: Vec<Expr> = arguments.iter().map(|argument| self.arguments[*argument].expr).collect();
        for (argument, words) in arguments.into_iter().zip(rows.words(&exprs)?) {
            if let Some(words) = words {
                let values: ArrayRef = Arc::new(Int64Array::new(words.into(), None));
                inputs.values[argument] = Some(PartValues { values, codes: None, is_list: false });
            }
        }
        Ok(())
    }

    fn read(&self, argument: usize, rows: &PartRows<'_>, inputs: &mut Inputs<'_>) -> Result<()> {
        if inputs.values[argument].is_some() {
            return Ok(());
        }
        let Argument { expr, filter } = self.arguments[argument];
        inputs.values[argument] = Some(match filter.and_then(|filter| inputs.values[filter].as_ref()) {
            Some(filter) => rows.values_where(expr, &true_rows(filter))?,
            None => rows.values(expr)?,
        });
        Ok(())
    }

    /// Adds the aggregates of some rows to their groups. Each pair has the index of a row and the index of its group in
    /// `groups`. Both have `stride` words, with the words of the aggregates at `at`.
    pub(super) fn merge(
        &self,
        pairs: &[(u32, u32)],
        rows: &[u64],
        groups: &mut [u64],
        (stride, at): (usize, usize),
        texts: &TextStore,
    ) -> Result<()> {
        for cell in &self.cells {
            let at = at + cell.offset;
            match cell.operation.fold() {
                None => cell.merge_texts(pairs, rows, groups, (stride, at), texts),
                Some(fold) => {
                    if fold.merge(pairs, rows, groups, stride, at) {
                        return Err(cell.total_out_of_range());
                    }
                }
            }
        }
        Ok(())
    }
}

impl StateCell {
    fn total_out_of_range(&self) -> Error {
        Error::new(ErrorKind::NumericOutOfRange, self.total_error.clone())
    }
}

/// The operation that computes an aggregate of values of `kind`, and the state of a fold of its own.
fn operation(function: AggregateFunction, kind: &DataType) -> Result<(Operation, Option<FoldState>)> {
    use DataType::{Decimal128, Float32, Float64, Int64, UInt64};
    let own = |state: FoldState| (Operation::Fold(state.fold), Some(state));
    Ok(match state_of(function)? {
        AggregateState::Count => (Operation::Count, None),
        AggregateState::Total => match kind {
            Int64 => (Operation::SumSigned, None),
            UInt64 => (Operation::SumUnsigned, None),
            Decimal128(..) => (Operation::SumWide, None),
            Float32 | Float64 => own(SUM_FLOAT),
            kind if kind.is_integer() => (Operation::SumNarrow, None),
            _ => return Err(Error::internal(format!("values of {kind} cannot be added up"))),
        },
        AggregateState::Extreme { is_greatest: false } if is_text(kind) => (Operation::LeastText, None),
        AggregateState::Extreme { is_greatest: true } if is_text(kind) => (Operation::GreatestText, None),
        AggregateState::Extreme { is_greatest } => own(extreme_fold(*is_greatest, kind)),
        AggregateState::Fold(state) => own(*state),
        AggregateState::Values(_) | AggregateState::Sketch(_) => {
            return Err(Error::internal(format!("{} has no cell", function.name)));
        }
    })
}

/// Replaces the total of a column plus a constant by the total of the column, and returns the constant. For example,
/// the totals of `x + 1` and `x + 2` then share one cell. We do this only where no value can leave the type of the sum,
/// because that must be an error. It cannot be a rule of the optimizer: only the zone maps of a snapshot tell that no
/// value leaves the type, and a plan is kept for many snapshots.
fn without_shift(aggregate: &Aggregate, facts: Facts<'_>) -> Result<(Aggregate, i128)> {
    let is_total = matches!(aggregate.function.role, AggregateRole::Sum | AggregateRole::Average);
    if let (true, Some((expr, kind))) = (is_total, &aggregate.argument)
        && let Some((column, by)) = facts.shift(*expr)
        && let Some(of) = facts.kind(column).filter(DataType::is_integer)
        && let Some(range) = IntegerSpan::of_type(kind)
        && let Some(bounds) = facts.bounds(column)?
        && let (Some(least), Some(greatest)) = (bounds.least.checked_add(by), bounds.greatest.checked_add(by))
        && range.holds(IntegerSpan { least, greatest })
    {
        let argument = Some((Expr::Column(column), of));
        return Ok((Aggregate { argument, ..aggregate.clone() }, by));
    }
    Ok((aggregate.clone(), 0))
}

/// The index of a value in a list without duplicates. Appends the value if it is new.
fn place_of<T: PartialEq>(list: &mut Vec<T>, value: T) -> usize {
    list.iter().position(|other| *other == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

/// The rows that are not NULL; `None` if no row is NULL.
fn valid_rows(values: &PartValues) -> Option<BooleanBuffer> {
    let nulls = values.values.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
    Some(match &values.codes {
        None => nulls.into_inner(),
        Some(codes) => BooleanBuffer::collect_bool(codes.len(), |row| nulls.is_valid(codes[row] as usize)),
    })
}

/// The rows where the boolean value is true.
pub(super) fn true_rows(values: &PartValues) -> BooleanBuffer {
    let selected = selected(values.values.as_boolean());
    let Some(codes) = &values.codes else { return selected };
    // Bytes are looked up faster than bits.
    let is_true: Vec<bool> = selected.iter().collect();
    BooleanBuffer::collect_bool(codes.len(), |row| is_true[codes[row] as usize])
}
