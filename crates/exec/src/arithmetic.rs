//! Sums, differences and products of integers, computed in 64 bits where no intermediate result can overflow.
//!
//! Decimals are integers here, without their decimal point. The code that builds an expression must scale the operands
//! so that both have the same number of digits after the point. Bounds of the columns tell before the computation
//! which results are possible, so the loops need no overflow checks. If some result might not fit, we compute nothing
//! here, and the general implementation of the function runs and reports errors.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
};

use crate::cache::L1_BYTES;

/// An arithmetic expression over integer columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// A column, by its place among the columns of the function.
    Column(usize),
    /// A number.
    Number(i128),
    /// An operator applied to two expressions.
    Step(Box<ArithmeticStep>),
}

/// An operator and its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArithmeticStep {
    /// The operator.
    pub operator: Operator,
    /// The left operand.
    pub left: Arithmetic,
    /// The right operand.
    pub right: Arithmetic,
    /// The values that the type of the result can hold.
    pub range: IntegerSpan,
}

/// An operator on two integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
}

/// All integers from a least to a greatest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerSpan {
    /// The least.
    pub least: i128,
    /// The greatest, which must not be below `least`.
    pub greatest: i128,
}

impl IntegerSpan {
    /// The values that 64 bits can hold.
    pub(crate) const WORD: IntegerSpan = IntegerSpan { least: i64::MIN as i128, greatest: i64::MAX as i128 };

    /// The values that a type of integers or decimals can hold. Decimals are taken without their point.
    pub(crate) fn of_type(kind: &DataType) -> Option<IntegerSpan> {
        if let DataType::Decimal128(digits, 0..) = kind {
            let end = 10_i128.checked_pow((*digits).into())?;
            return Some(IntegerSpan { least: 1 - end, greatest: end - 1 });
        }
        let bits = kind.primitive_width().filter(|_| kind.is_integer())? * 8;
        Some(match kind.is_unsigned_integer() {
            true => IntegerSpan { least: 0, greatest: (1 << bits) - 1 },
            false => IntegerSpan { least: -(1 << (bits - 1)), greatest: (1 << (bits - 1)) - 1 },
        })
    }

    /// Whether all of `other` is in this span.
    pub(crate) fn holds(self, other: IntegerSpan) -> bool {
        self.least <= other.least && other.greatest <= self.greatest
    }

    /// The span from the least to the greatest of four integers.
    fn around(integers: [i128; 4]) -> IntegerSpan {
        let [first, rest @ ..] = integers;
        rest.into_iter().fold(IntegerSpan { least: first, greatest: first }, |span, integer| IntegerSpan {
            least: span.least.min(integer),
            greatest: span.greatest.max(integer),
        })
    }
}

impl Operator {
    /// The span of the results for operands of 64 bits. It always fits 128 bits.
    fn span(self, left: IntegerSpan, right: IntegerSpan) -> IntegerSpan {
        let of: fn(i128, i128) -> i128 = match self {
            Operator::Plus => |left, right| left + right,
            Operator::Minus => |left, right| left - right,
            Operator::Times => |left, right| left * right,
        };
        // Each operator is monotonic in each operand, so its extremes are at the ends of the spans.
        IntegerSpan::around([
            of(left.least, right.least),
            of(left.least, right.greatest),
            of(left.greatest, right.least),
            of(left.greatest, right.greatest),
        ])
    }
}

impl Operator {
    /// Appends the results for operands of 64 bits. The caller must know that the results fit 64 bits.
    fn apply(self, left: &StepOperand<'_>, right: &StepOperand<'_>, rows: usize, out: &mut Vec<i64>) {
        match self {
            Operator::Plus => combine(left, right, rows, out, i64::wrapping_add),
            Operator::Minus => combine(left, right, rows, out, i64::wrapping_sub),
            Operator::Times => multiply(left, right, rows, out),
        }
    }
}

/// The values of an operand for some rows.
enum StepOperand<'a> {
    Column(&'a [i64]),
    Computed(Vec<i64>),
    Number(i64),
}

impl Arithmetic {
    /// The rows that are computed at once. One intermediate result should fit half of the first-level cache.
    pub const ROWS_AT_ONCE: usize = L1_BYTES / 2 / size_of::<i64>();

    /// The span of the results, from the spans of the columns. `None` if the span of a column is unknown, or if some
    /// intermediate result might not fit 64 bits or its type.
    pub fn span(&self, of_column: &mut impl FnMut(usize) -> Option<IntegerSpan>) -> Option<IntegerSpan> {
        let span = match self {
            Arithmetic::Column(column) => of_column(*column)?,
            Arithmetic::Number(number) => IntegerSpan { least: *number, greatest: *number },
            Arithmetic::Step(step) => {
                let span = step.operator.span(step.left.span(of_column)?, step.right.span(of_column)?);
                Some(span).filter(|span| step.range.holds(*span))?
            }
        };
        IntegerSpan::WORD.holds(span).then_some(span)
    }

    /// The column and the number if the expression is a column plus or minus a number. For example, `x - 5` gives `x`
    /// and -5.
    pub(crate) fn shift(&self) -> Option<(usize, i128)> {
        let Arithmetic::Step(step) = self else { return None };
        match (&step.left, step.operator, &step.right) {
            (Arithmetic::Column(column), Operator::Plus, Arithmetic::Number(by))
            | (Arithmetic::Number(by), Operator::Plus, Arithmetic::Column(column)) => Some((*column, *by)),
            (Arithmetic::Column(column), Operator::Minus, Arithmetic::Number(by)) => Some((*column, by.checked_neg()?)),
            _ => None,
        }
    }

    /// Appends the results for `rows` rows of `columns`. [`Arithmetic::span`] must have shown that they fit.
    pub fn evaluate(&self, columns: &[&[i64]], rows: usize, out: &mut Vec<i64>) {
        let mut spare = Vec::new();
        for start in (0..rows).step_by(Arithmetic::ROWS_AT_ONCE) {
            let rows = start..(start + Arithmetic::ROWS_AT_ONCE).min(rows);
            match self.operand(columns, &rows, &mut spare) {
                StepOperand::Column(values) => out.extend_from_slice(values),
                StepOperand::Computed(values) => {
                    out.extend_from_slice(&values);
                    spare.push(values);
                }
                StepOperand::Number(number) => out.resize(out.len() + rows.len(), number),
            }
        }
    }

    fn operand<'c>(&self, columns: &[&'c [i64]], rows: &Range<usize>, spare: &mut Vec<Vec<i64>>) -> StepOperand<'c> {
        let step = match self {
            Arithmetic::Column(column) => return StepOperand::Column(&columns[*column][rows.clone()]),
            Arithmetic::Number(number) => return StepOperand::Number(*number as i64),
            Arithmetic::Step(step) => step,
        };
        let left = step.left.operand(columns, rows, spare);
        let right = step.right.operand(columns, rows, spare);
        let mut out = spare.pop().unwrap_or_default();
        out.clear();
        step.operator.apply(&left, &right, rows.len(), &mut out);
        for operand in [left, right] {
            if let StepOperand::Computed(values) = operand {
                spare.push(values);
            }
        }
        StepOperand::Computed(out)
    }

    /// The results for rows of arrays, as an array of type `kind`. A row is NULL if one of its columns is NULL. `None`
    /// if some result might not fit, or if the type of an array or of the result is not supported.
    pub(crate) fn of_arrays(&self, arrays: &[ArrayRef], rows: usize, kind: &DataType) -> Option<ArrayRef> {
        let (mut columns, mut spans) = (Vec::with_capacity(arrays.len()), Vec::with_capacity(arrays.len()));
        let mut nulls: Option<NullBuffer> = None;
        for array in arrays {
            let (column, span) = integers_of(array)?;
            columns.push(column);
            spans.push(span);
            nulls = NullBuffer::union(nulls.as_ref(), array.nulls());
        }
        self.span(&mut |column| spans.get(column).copied())?;
        let mut integers = Vec::with_capacity(rows);
        let columns: Vec<&[i64]> = columns.iter().map(Vec::as_slice).collect();
        self.evaluate(&columns, rows, &mut integers);
        Some(match kind {
            DataType::Decimal128(digits, point) => {
                let values = integers.iter().map(|integer| i128::from(*integer)).collect::<Vec<_>>();
                let array = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls);
                Arc::new(array.with_precision_and_scale(*digits, *point).ok()?)
            }
            DataType::Int64 => Arc::new(PrimitiveArray::<Int64Type>::new(integers.into(), nulls)),
            _ => return None,
        })
    }
}

/// Several expressions of the same columns. A step that some of them have in common is computed once.
#[derive(Debug, Default)]
pub(crate) struct SharedSteps {
    /// Each step reads only earlier steps.
    steps: Vec<SharedStep>,
    /// The source of each expression's result.
    results: Vec<OperandSource>,
}

#[derive(Debug, PartialEq, Eq)]
struct SharedStep {
    operator: Operator,
    left: OperandSource,
    right: OperandSource,
}

/// Where an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperandSource {
    Column(usize),
    Number(i64),
    Step(usize),
}

impl SharedSteps {
    /// Adds an expression and returns the number of its result. `columns` maps the columns of the expression to the
    /// columns of `evaluate`. [`Arithmetic::span`] must have shown that the results fit.
    pub(crate) fn add(&mut self, expr: &Arithmetic, columns: &[usize]) -> usize {
        let result = match self.source(expr, columns) {
            number @ OperandSource::Number(_) => {
                // A constant needs a step that writes it to every row, because `result` returns a slice.
                self.step(SharedStep { operator: Operator::Plus, left: number, right: OperandSource::Number(0) })
            }
            source => source,
        };
        self.results.push(result);
        self.results.len() - 1
    }

    fn source(&mut self, expr: &Arithmetic, columns: &[usize]) -> OperandSource {
        match expr {
            Arithmetic::Column(column) => OperandSource::Column(columns[*column]),
            Arithmetic::Number(number) => OperandSource::Number(*number as i64),
            Arithmetic::Step(step) => {
                let (left, right) = (self.source(&step.left, columns), self.source(&step.right, columns));
                self.step(SharedStep { operator: step.operator, left, right })
            }
        }
    }

    fn step(&mut self, step: SharedStep) -> OperandSource {
        let known = self.steps.iter().position(|other| *other == step);
        OperandSource::Step(known.unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        }))
    }

    /// Computes all steps for the `rows` rows of `columns` into `computed`.
    pub(crate) fn evaluate(&self, columns: &[Vec<i64>], rows: usize, computed: &mut Vec<Vec<i64>>) {
        computed.resize_with(self.steps.len(), Vec::new);
        for (place, step) in self.steps.iter().enumerate() {
            // Steps before this one are complete. Splitting lets us read them while we write this one.
            let (before, behind) = computed.split_at_mut(place);
            let operand = |source: OperandSource| match source {
                OperandSource::Column(column) => StepOperand::Column(&columns[column][..rows]),
                OperandSource::Number(number) => StepOperand::Number(number),
                OperandSource::Step(step) => StepOperand::Column(&before[step][..rows]),
            };
            let out = &mut behind[0];
            out.clear();
            step.operator.apply(&operand(step.left), &operand(step.right), rows, out);
        }
    }

    /// The results that [`SharedSteps::evaluate`] computed for the expression that was added as number `number`.
    pub(crate) fn result<'v>(&self, number: usize, columns: &'v [Vec<i64>], computed: &'v [Vec<i64>]) -> &'v [i64] {
        match self.results[number] {
            OperandSource::Column(column) => &columns[column],
            OperandSource::Step(step) => &computed[step],
            OperandSource::Number(_) => unreachable!("a constant expression is stored as a step"),
        }
    }
}

impl StepOperand<'_> {
    fn values(&self) -> Result<&[i64], i64> {
        match self {
            StepOperand::Column(values) => Ok(values),
            StepOperand::Computed(values) => Ok(values),
            StepOperand::Number(number) => Err(*number),
        }
    }
}

/// Appends products. Processors multiply several numbers of 32 bits at once, but numbers of 64 bits only in several
/// steps. So we take all operands for numbers of 32 bits, and multiply again if a bit of some operand was lost.
fn multiply(left: &StepOperand<'_>, right: &StepOperand<'_>, rows: usize, out: &mut Vec<i64>) {
    let (before, mut bits) = (out.len(), 0);
    combine(left, right, rows, out, |left, right| {
        bits |= left | right;
        (u64::from(left as u32) * u64::from(right as u32)) as i64
    });
    if u32::try_from(bits).is_err() {
        out.truncate(before);
        combine(left, right, rows, out, i64::wrapping_mul);
    }
}

#[inline]
fn combine(
    left: &StepOperand<'_>,
    right: &StepOperand<'_>,
    rows: usize,
    out: &mut Vec<i64>,
    mut of: impl FnMut(i64, i64) -> i64,
) {
    match (left.values(), right.values()) {
        (Ok(left), Ok(right)) => out.extend(left.iter().zip(right).map(|(left, right)| of(*left, *right))),
        (Ok(left), Err(right)) => out.extend(left.iter().map(|left| of(*left, right))),
        (Err(left), Ok(right)) => out.extend(right.iter().map(|right| of(left, *right))),
        (Err(left), Err(right)) => out.resize(rows, of(left, right)),
    }
}

/// The integers of an array and a span that contains them, including the values in NULL slots. `None` if the type is
/// not supported or a value needs more than 64 bits.
fn integers_of(array: &ArrayRef) -> Option<(Vec<i64>, IntegerSpan)> {
    fn narrow<T: ArrowPrimitiveType<Native: Copy + Into<i64>>>(array: &ArrayRef) -> Vec<i64> {
        array.as_primitive::<T>().values().iter().map(|value| (*value).into()).collect()
    }
    let integers = match array.data_type() {
        DataType::Int8 => narrow::<Int8Type>(array),
        DataType::Int16 => narrow::<Int16Type>(array),
        DataType::Int32 => narrow::<Int32Type>(array),
        DataType::Int64 => narrow::<Int64Type>(array),
        DataType::UInt8 => narrow::<UInt8Type>(array),
        DataType::UInt16 => narrow::<UInt16Type>(array),
        DataType::UInt32 => narrow::<UInt32Type>(array),
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            // A decimal fits 64 bits if its upper half only repeats the sign of its lower half. One pass over all
            // values checks this without a branch per value.
            let lost = values.iter().fold(0, |lost, value| lost | (*value as i64 >> 63) ^ (*value >> 64) as i64);
            if lost != 0 {
                return None;
            }
            values.iter().map(|value| *value as i64).collect()
        }
        _ => return None,
    };
    // We use as many bits as the longest value has, because that is faster to find than the least and the greatest
    // value.
    let bits = integers.iter().fold(0, |bits, integer| bits | integer ^ (integer >> 63));
    let end = 1_i128 << (i64::BITS - bits.leading_zeros());
    Some((integers, IntegerSpan { least: -end, greatest: end - 1 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Int32Array};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn step(operator: Operator, left: Arithmetic, right: Arithmetic) -> Arithmetic {
        let range = IntegerSpan { least: -(10_i128.pow(20)), greatest: 10_i128.pow(20) };
        Arithmetic::Step(Box::new(ArithmeticStep { operator, left, right, range }))
    }

    fn exact(arithmetic: &Arithmetic, columns: &[i64]) -> i128 {
        match arithmetic {
            Arithmetic::Column(column) => columns[*column].into(),
            Arithmetic::Number(number) => *number,
            Arithmetic::Step(step) => {
                let (left, right) = (exact(&step.left, columns), exact(&step.right, columns));
                match step.operator {
                    Operator::Plus => left.saturating_add(right),
                    Operator::Minus => left.saturating_sub(right),
                    Operator::Times => left.saturating_mul(right),
                }
            }
        }
    }

    fn random(rng: &mut StdRng, depth: usize) -> Arithmetic {
        match rng.random_range(0..if depth == 0 { 3 } else { 8 }) {
            0 => Arithmetic::Column(rng.random_range(0..2)),
            1 => Arithmetic::Number(rng.random_range(-200..200)),
            2 => Arithmetic::Number(rng.random::<i64>().into()),
            _ => {
                let operator = [Operator::Plus, Operator::Minus, Operator::Times][rng.random_range(0..3)];
                step(operator, random(rng, depth - 1), random(rng, depth - 1))
            }
        }
    }

    #[test]
    fn results_within_the_span_are_computed_correctly() {
        let mut rng = StdRng::seed_from_u64(5);
        let (mut fitting, mut fitting_arrays) = (0, 0);
        for _ in 0..500 {
            let arithmetic = random(&mut rng, 3);
            let rows: Vec<(i32, i64)> =
                (0..rng.random_range(1..5000)).map(|_| (rng.random(), rng.random_range(-300..300))).collect();
            let columns =
                [rows.iter().map(|row| row.0.into()).collect::<Vec<i64>>(), rows.iter().map(|row| row.1).collect()];
            let spans = columns.each_ref().map(|column| IntegerSpan {
                least: i128::from(*column.iter().min().expect("a row")),
                greatest: i128::from(*column.iter().max().expect("a row")),
            });
            let expected: Vec<i128> = rows.iter().map(|row| exact(&arithmetic, &[row.0.into(), row.1])).collect();
            if let Some(span) = arithmetic.span(&mut |column| Some(spans[column])) {
                let mut found = Vec::new();
                arithmetic.evaluate(&columns.each_ref().map(Vec::as_slice), rows.len(), &mut found);
                assert!(found.iter().map(|value| i128::from(*value)).eq(expected.iter().copied()), "{arithmetic:?}");
                assert!(expected.iter().all(|value| span.least <= *value && *value <= span.greatest));
                fitting += 1;
            }
            let arrays: [ArrayRef; 2] = [
                Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.0))),
                Arc::new(Decimal128Array::from_iter(rows.iter().map(|row| (row.1 % 7 != 0).then_some(row.1.into())))),
            ];
            if let Some(found) = arithmetic.of_arrays(&arrays, rows.len(), &DataType::Decimal128(38, 0)) {
                let found = found.as_primitive::<Decimal128Type>();
                for (row, expected) in expected.iter().enumerate() {
                    assert_eq!(found.is_valid(row), rows[row].1 % 7 != 0);
                    assert!(found.is_null(row) || found.value(row) == *expected, "{arithmetic:?}");
                }
                fitting_arrays += 1;
            }
        }
        assert!(fitting > 100 && fitting_arrays > 100, "{fitting} and {fitting_arrays} of 500");
    }

    #[test]
    fn shared_steps_are_computed_once_and_correctly() {
        let (column, number) = (Arithmetic::Column, Arithmetic::Number);
        let discounted = || step(Operator::Times, column(0), step(Operator::Minus, number(100), column(1)));
        let charge = step(Operator::Times, discounted(), step(Operator::Plus, number(100), column(2)));
        let mut steps = SharedSteps::default();
        steps.add(&discounted(), &[1, 0]);
        steps.add(&charge, &[1, 0, 2]);
        steps.add(&number(7), &[]);
        steps.add(&column(0), &[2]);
        assert_eq!(steps.steps.len(), 5);
        let columns = [vec![5, 0, 10], vec![1_000, -3, 4], vec![8, 0, 1]];
        let mut computed = Vec::new();
        for rows in [3, 2] {
            steps.evaluate(&columns, rows, &mut computed);
            let result = |number: usize| &steps.result(number, &columns, &computed)[..rows];
            assert_eq!(result(0), &[95_000, -300, 360][..rows]);
            assert_eq!(result(1), &[10_260_000, -30_000, 36_360][..rows]);
            assert_eq!((result(2), result(3)), (&[7, 7, 7][..rows], &[8, 0, 1][..rows]));
        }
    }

    #[test]
    fn an_expression_that_may_overflow_has_no_span() {
        let (column, number) = (|| Arithmetic::Column(0), Arithmetic::Number);
        let span = |arithmetic: &Arithmetic, greatest: i128| {
            arithmetic.span(&mut |_| Some(IntegerSpan { least: 0, greatest })).map(|span| span.greatest)
        };
        let tripled = step(Operator::Times, column(), number(3));
        assert_eq!(span(&tripled, 7), Some(21));
        assert_eq!(span(&tripled, i64::MAX.into()), None);
        let range = IntegerSpan { least: -99, greatest: 99 };
        let digits = Arithmetic::Step(Box::new(ArithmeticStep {
            operator: Operator::Plus,
            left: column(),
            right: number(90),
            range,
        }));
        assert_eq!((span(&digits, 9), span(&digits, 10)), (Some(99), None));
        assert_eq!(digits.shift(), Some((0, 90)));
        assert_eq!(number(1 << 70).span(&mut |_| None), None);
    }
}
