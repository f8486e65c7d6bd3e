//! What is kept of a group for the aggregates: cells of one or two words of 64 bits.
//!
//! | cell | words |
//! | --- | --- |
//! | rows, or values that are not NULL | their number |
//! | total of numbers of up to 32 bits | 64 bits |
//! | total of wider integers and decimals | 128 bits |
//! | total of floats | the total, and what its rounding lost |
//! | extreme of what fits 64 bits | its number in the order of the values |
//! | extreme of what takes 128 bits | the same |
//! | extreme of texts and blobs | the complement of a view; zero without any |
//!
//! Aggregates share cells: `SUM(x)`, `AVG(x)` and `COUNT(x)` together have one total and one count, and where `x` is never
//! NULL the count is that of the rows, which `COUNT(*)` has too. The cells of two parts of a group make those of the
//! whole, and every cell starts with a value that changes nothing.

mod add;
mod finish;
mod fold;
mod numbers;
mod rank;
mod text;

use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{Aggregate, AggregateFunction, Expr};

pub(super) use self::add::{Grouped, Groups};
pub(super) use self::finish::Finished;
use self::fold::{Fold, with_fold};
pub(super) use self::numbers::{BitOrder, wide_number};
use self::numbers::{Form, Numbers};
pub(super) use self::text::Scratch;
use super::rows::{Rows, Values};
use super::texts::{TextStore, is_text};

/// What a cell does with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Count,
    /// Totals by what is added.
    SumNarrow,
    SumSigned,
    SumUnsigned,
    SumWide,
    SumFloat,
    Least,
    Greatest,
    LeastWide,
    GreatestWide,
    LeastText,
    GreatestText,
}

impl Operation {
    fn is_of_texts(self) -> bool {
        matches!(self, Operation::LeastText | Operation::GreatestText)
    }

    /// The words of a cell that has taken nothing.
    fn initial(self) -> &'static [u64] {
        match self.is_of_texts() {
            true => &[0, 0],
            false => with_fold!(self, F => F::INITIAL),
        }
    }
}

/// Some words of a group.
#[derive(Debug)]
struct Cell {
    operation: Operation,
    /// The numbers that it takes; none for a count.
    operand: Option<usize>,
    /// The rows that it takes; all without.
    mask: Option<usize>,
    /// Words of the cells before.
    offset: usize,
    /// What the error says of a total that leaves its type.
    total_error: String,
}

/// Values of an argument in the form in which cells take them.
#[derive(Debug, PartialEq, Eq)]
struct Operand {
    argument: usize,
    form: Form,
}

/// One aggregate of the result.
#[derive(Debug)]
struct Output {
    aggregate: Aggregate,
    /// The cell that counts the values; if there is none, there is always a value.
    count: Option<usize>,
    /// The cell of the total or extreme.
    value: Option<usize>,
}

/// The aggregates of a query.
#[derive(Debug)]
pub(super) struct States {
    /// What the aggregates read.
    arguments: Vec<Expr>,
    operands: Vec<Operand>,
    /// The arguments that have to be not NULL.
    masks: Vec<usize>,
    cells: Vec<Cell>,
    outputs: Vec<Output>,
    /// The words of a group without rows.
    initial: Vec<u64>,
}

/// What the cells read of a block or batch.
pub(super) struct Inputs {
    /// By argument.
    values: Vec<Option<Values>>,
    /// By operand.
    numbers: Vec<Option<Numbers>>,
    /// By mask; none where all rows are in.
    masks: Vec<Option<BooleanBuffer>>,
}

impl States {
    /// The cells of `aggregates`. `is_nullable` says of what they read whether it can be NULL, `always_rows` whether
    /// no group is without rows.
    pub(super) fn new(
        aggregates: &[Aggregate],
        is_nullable: impl Fn(Expr) -> bool,
        always_rows: bool,
    ) -> Result<States> {
        let mut states = States {
            arguments: Vec::new(),
            operands: Vec::new(),
            masks: Vec::new(),
            cells: Vec::new(),
            outputs: Vec::new(),
            initial: Vec::new(),
        };
        for aggregate in aggregates {
            let output = states.output(aggregate, &is_nullable, always_rows)?;
            states.outputs.push(output);
        }
        Ok(states)
    }

    fn output(
        &mut self,
        aggregate: &Aggregate,
        is_nullable: impl Fn(Expr) -> bool,
        always_rows: bool,
    ) -> Result<Output> {
        let aggregate = aggregate.clone();
        let Some((expr, kind)) = &aggregate.argument else {
            let count = Some(self.cell(Operation::Count, None, None, &aggregate));
            return Ok(Output { aggregate, count, value: None });
        };
        let argument = place_of(&mut self.arguments, *expr);
        let mask = is_nullable(*expr).then(|| place_of(&mut self.masks, argument));
        let operation = operation(aggregate.function, kind)?;
        let value = match Form::of(operation, kind) {
            None => None,
            Some(form) => {
                let operand = place_of(&mut self.operands, Operand { argument, form });
                Some(self.cell(operation, Some(operand), mask, &aggregate))
            }
        };
        let counts = match aggregate.function {
            AggregateFunction::Count | AggregateFunction::Average => true,
            // The extreme of no texts is known by itself.
            _ if is_text(kind) => false,
            _ => mask.is_some() || !always_rows,
        };
        let count = counts.then(|| self.cell(Operation::Count, None, mask, &aggregate));
        Ok(Output { aggregate, count, value })
    }

    /// The number of such a cell; the cell is new if there is none.
    fn cell(
        &mut self,
        operation: Operation,
        operand: Option<usize>,
        mask: Option<usize>,
        aggregate: &Aggregate,
    ) -> usize {
        let is_it = |cell: &Cell| (cell.operation, cell.operand, cell.mask) == (operation, operand, mask);
        if let Some(place) = self.cells.iter().position(is_it) {
            return place;
        }
        let offset = self.initial.len();
        self.initial.extend_from_slice(operation.initial());
        self.cells.push(Cell { operation, operand, mask, offset, total_error: aggregate.total_error.clone() });
        self.cells.len() - 1
    }

    /// The words of a group without rows.
    pub(super) fn initial(&self) -> &[u64] {
        &self.initial
    }

    /// Cells of all aggregates.
    pub(super) fn cells(&self) -> usize {
        self.cells.len()
    }

    /// What a cell reads.
    pub(super) fn reads(&self, cell: usize) -> Option<Expr> {
        let cell = &self.cells[cell];
        let operand = cell.operand.map(|operand| self.operands[operand].argument);
        operand.or(cell.mask.map(|mask| self.masks[mask])).map(|argument| self.arguments[argument])
    }

    /// All that the aggregates read.
    pub(super) fn exprs(&self) -> &[Expr] {
        &self.arguments
    }

    /// What some cells read of rows.
    pub(super) fn inputs(&self, rows: &Rows<'_>, cells: std::ops::Range<usize>) -> Result<Inputs> {
        let mut inputs = Inputs {
            values: self.arguments.iter().map(|_| None).collect(),
            numbers: self.operands.iter().map(|_| None).collect(),
            masks: vec![None; self.masks.len()],
        };
        for cell in &self.cells[cells] {
            let arguments =
                [cell.operand.map(|operand| self.operands[operand].argument), cell.mask.map(|mask| self.masks[mask])];
            for argument in arguments.into_iter().flatten() {
                if inputs.values[argument].is_none() {
                    inputs.values[argument] = Some(rows.values(self.arguments[argument])?);
                }
            }
            if let Some(operand) = cell.operand
                && inputs.numbers[operand].is_none()
                && let Operand { argument, form } = self.operands[operand]
                && let Some(values) = &inputs.values[argument]
            {
                inputs.numbers[operand] = Some(Numbers::new(&values.values, form)?);
                if cell.mask.is_none() && values.values.logical_null_count() > 0 {
                    return Err(Error::internal("an argument that is never NULL is NULL"));
                }
            }
            if let Some(mask) = cell.mask
                && inputs.masks[mask].is_none()
                && let Some(values) = &inputs.values[self.masks[mask]]
            {
                inputs.masks[mask] = valid_rows(values);
            }
        }
        Ok(inputs)
    }

    /// Adds the words of rows to those of the groups that they belong to: `pairs` has the place of a row and that of
    /// its group among `groups`, both of `stride` words with those of the aggregates at `at`.
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
            if cell.operation.is_of_texts() {
                cell.merge_texts(pairs, rows, groups, (stride, at), texts);
            } else if with_fold!(cell.operation, F => fold::merge::<F>(pairs, rows, groups, stride, at)) {
                return Err(cell.total_out_of_range());
            }
        }
        Ok(())
    }
}

impl Cell {
    fn total_out_of_range(&self) -> Error {
        Error::new(ErrorKind::NumericOutOfRange, self.total_error.clone())
    }
}

/// What is done with the values of an argument.
fn operation(function: AggregateFunction, kind: &DataType) -> Result<Operation> {
    use DataType::{Decimal128, FixedSizeBinary, Float32, Float64, Int64, Interval, UInt64};
    Ok(match (function, kind) {
        (AggregateFunction::Count, _) => Operation::Count,
        (AggregateFunction::Sum | AggregateFunction::Average, kind) => match kind {
            Int64 => Operation::SumSigned,
            UInt64 => Operation::SumUnsigned,
            Decimal128(..) => Operation::SumWide,
            Float32 | Float64 => Operation::SumFloat,
            kind if kind.is_integer() => Operation::SumNarrow,
            _ => return Err(Error::internal(format!("a total of {kind}"))),
        },
        (AggregateFunction::Min, kind) if is_text(kind) => Operation::LeastText,
        (AggregateFunction::Max, kind) if is_text(kind) => Operation::GreatestText,
        (AggregateFunction::Min, Decimal128(..) | FixedSizeBinary(16) | Interval(_)) => Operation::LeastWide,
        (AggregateFunction::Max, Decimal128(..) | FixedSizeBinary(16) | Interval(_)) => Operation::GreatestWide,
        (AggregateFunction::Min, _) => Operation::Least,
        (AggregateFunction::Max, _) => Operation::Greatest,
    })
}

/// The place of a value in a list without repetitions, to which it is added if it is new.
fn place_of<T: PartialEq>(list: &mut Vec<T>, value: T) -> usize {
    list.iter().position(|other| *other == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

/// The rows that are not NULL, unless all are.
fn valid_rows(values: &Values) -> Option<BooleanBuffer> {
    let nulls = values.values.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
    Some(match &values.codes {
        None => nulls.into_inner(),
        Some(codes) => BooleanBuffer::collect_bool(codes.len(), |row| nulls.is_valid(codes[row] as usize)),
    })
}
