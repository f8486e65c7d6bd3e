//! Typed expressions as functions of the engine.
//!
//! Operators ask a function for more than its values: whether it can fail, and whether it is a function of lengths,
//! exact arithmetic or a CASE. Scans and groupings can compute these from the stored form of a column. We find all of
//! that out here, once, when the plan is built.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type};
use rowmill_base::{LengthUnit, Result};
use rowmill_expr::evaluator::Evaluator;
use rowmill_expr::fold::{ascending_operand, can_fail};
use rowmill_expr::functions::{result_bytes_max, with_result_limit};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{Constant, ExprOp, ScalarExpr};

use crate::arithmetic::{Arithmetic, ArithmeticStep, IntegerSpan, Operator};
use crate::case::{CaseBranch, CaseFunction};
use crate::column_parts::ColumnParts;
use crate::function::VectorFunction;

/// An expression over some columns of an operator's input.
#[derive(Debug)]
pub struct ExpressionFunction {
    evaluator: Evaluator,
    /// The limit on the text that one function makes for a batch, at the time when the expression was made.
    result_bytes_max: u64,
    columns: Vec<usize>,
    kind: DataType,
    never_fails: bool,
    is_costly: bool,
    of_lengths: Option<(LengthUnit, Box<ExpressionFunction>)>,
    arithmetic: Option<Arithmetic>,
    case: Option<CaseFunction>,
    column_parts: Option<ColumnParts>,
    is_ascending: bool,
}

impl ExpressionFunction {
    /// Makes a function from `expr`, whose columns are positions in the operator's input. All evaluations use the limit
    /// of [`with_result_limit`] that is in force now.
    pub fn new(expr: &ScalarExpr) -> Result<ExpressionFunction> {
        let (expr, columns) = compact(expr);
        Ok(ExpressionFunction {
            evaluator: Evaluator::new(&expr)?,
            result_bytes_max: result_bytes_max(),
            never_fails: !can_fail(&expr),
            is_costly: is_costly(&expr),
            of_lengths: of_lengths(&expr)?,
            arithmetic: arithmetic(&expr).filter(|arithmetic| matches!(arithmetic, Arithmetic::Step(_))),
            case: case(&expr)?,
            column_parts: ColumnParts::new(&expr, columns.len())?,
            is_ascending: columns.len() == 1 && is_ascending(&expr),
            kind: expr.kind,
            columns,
        })
    }
}

impl VectorFunction for ExpressionFunction {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if let Some(arithmetic) = &self.arithmetic
            && let Some(values) = arithmetic.of_arrays(columns, rows, &self.kind)
        {
            return Ok(values);
        }
        // Worker threads do not know the settings of the session, so we set the limit for the call.
        with_result_limit(self.result_bytes_max, || self.evaluator.evaluate(columns, rows))
    }

    fn never_fails(&self) -> bool {
        self.never_fails
    }

    fn is_costly(&self) -> bool {
        self.is_costly
    }

    fn of_lengths(&self) -> Option<(LengthUnit, &dyn VectorFunction)> {
        self.of_lengths.as_ref().map(|(unit, function)| (*unit, &**function as &dyn VectorFunction))
    }

    fn arithmetic(&self) -> Option<&Arithmetic> {
        self.arithmetic.as_ref()
    }

    fn is_ascending(&self) -> bool {
        self.is_ascending
    }

    fn case(&self) -> Option<&CaseFunction> {
        self.case.as_ref()
    }

    fn column_parts(&self) -> Option<&ColumnParts> {
        self.column_parts.as_ref()
    }
}

/// Whether an expression takes more than one fast step: a cast between numbers, or `+`, `-`, `*` or a comparison of
/// integers or floats. With `x` of five values, `y - x` and `y - x * 2` of 10 million rows take 21 and 30 ms, and 22
/// and 22 ms by a table.
fn is_costly(expr: &ScalarExpr) -> bool {
    let is_fast_number = |kind: &DataType| kind.is_integer() || kind.is_floating();
    let mut steps = 0;
    expr.each(&mut |part| {
        steps += match &part.op {
            ExprOp::Column(_) | ExprOp::Literal(_) => 0,
            ExprOp::Cast { value, .. } if is_fast_number(&value.kind) && is_fast_number(&part.kind) => 1,
            ExprOp::Compare(_, pair) if is_fast_number(&pair[0].kind) => 1,
            ExprOp::Arithmetic(ArithmeticOp::Plus | ArithmeticOp::Minus | ArithmeticOp::Times, _)
                if is_fast_number(&part.kind) =>
            {
                1
            }
            _ => 2,
        };
    });
    steps > 1
}

/// Whether an expression over one column never falls while the column, a timestamp or a date, rises.
fn is_ascending(expr: &ScalarExpr) -> bool {
    let is_time = |kind: &DataType| matches!(kind, DataType::Timestamp(..) | DataType::Date32);
    let is_operand_ascending = || ascending_operand(expr).is_some_and(|place| is_ascending(expr.operands()[place]));
    is_time(&expr.kind) && (expr.as_column().is_some() || is_operand_ascending())
}

/// Renumbers the columns of an expression from 0. Returns it together with the positions of these columns in the
/// input.
fn compact(expr: &ScalarExpr) -> (ScalarExpr, Vec<usize>) {
    let mut columns = Vec::new();
    expr.each(&mut |part| columns.extend(part.as_column()));
    columns.sort_unstable();
    columns.dedup();
    let mut expr = expr.clone();
    expr.rewrite(&mut |part| {
        if let ExprOp::Column(column) = &mut part.op {
            *column = columns.binary_search(column).expect("every column must have been collected");
        }
    });
    (expr, columns)
}

/// The expression as a function of lengths, if it reads a single column and that only for the lengths of its texts.
fn of_lengths(expr: &ScalarExpr) -> Result<Option<(LengthUnit, Box<ExpressionFunction>)>> {
    let (mut units, mut of_lengths) = (Vec::new(), expr.clone());
    of_lengths.rewrite(&mut |part| {
        if let Some(unit) = length_unit(part) {
            units.push(unit);
            *part = ScalarExpr::column(0, part.kind.clone());
        }
    });
    let reads_texts = |part: &ScalarExpr| part.as_column().is_some() && part.kind != DataType::Int32;
    match units.as_slice() {
        [unit, others @ ..] if others.iter().all(|other| other == unit) && !of_lengths.any(&reads_texts) => {
            Ok(Some((*unit, Box::new(ExpressionFunction::new(&of_lengths)?))))
        }
        _ => Ok(None),
    }
}

/// The unit, if the expression is the length of column 0 as an INTEGER.
fn length_unit(expr: &ScalarExpr) -> Option<LengthUnit> {
    let ExprOp::Call(function, arguments) = &expr.op else { return None };
    let [text] = &**arguments else { return None };
    let is_length = text.as_column() == Some(0) && expr.kind == DataType::Int32;
    let unit = function.length_unit.filter(|_| is_length)?;
    // A BLOB has no characters.
    Some(if text.kind == DataType::BinaryView { LengthUnit::Bytes } else { unit })
}

/// The expression as exact arithmetic, if it consists only of sums, differences and products of integers and decimals.
fn arithmetic(expr: &ScalarExpr) -> Option<Arithmetic> {
    match &expr.op {
        ExprOp::Column(column) if is_exact(&expr.kind) => Some(Arithmetic::Column(*column)),
        ExprOp::Literal(value) => Some(Arithmetic::Number(unscaled(value)?)),
        ExprOp::Cast { value, or_null: false } => rescaled(arithmetic(value)?, &value.kind, &expr.kind),
        ExprOp::Arithmetic(op, pair) => {
            let [left, right] = &**pair;
            let operator = match op {
                ArithmeticOp::Plus => Operator::Plus,
                ArithmeticOp::Minus => Operator::Minus,
                ArithmeticOp::Times => Operator::Times,
                ArithmeticOp::Divide | ArithmeticOp::Remainder => return None,
            };
            let (of_left, of_right) = (arithmetic(left)?, arithmetic(right)?);
            let (of_left, of_right) = match operator {
                // The factors need no scaling, because a product has as many digits after the point as both factors
                // together.
                Operator::Times if scale(&left.kind) + scale(&right.kind) == scale(&expr.kind) => (of_left, of_right),
                // Another scale of the result would need rounding, which exact arithmetic does not do.
                Operator::Times => return None,
                Operator::Plus | Operator::Minus => {
                    (rescaled(of_left, &left.kind, &expr.kind)?, rescaled(of_right, &right.kind, &expr.kind)?)
                }
            };
            let range = IntegerSpan::of_type(&expr.kind)?;
            Some(Arithmetic::Step(Box::new(ArithmeticStep { operator, left: of_left, right: of_right, range })))
        }
        _ => None,
    }
}

/// Converts values of one exact type to another one with at least as many digits after the point. `None` if that is
/// not possible.
fn rescaled(of: Arithmetic, from: &DataType, to: &DataType) -> Option<Arithmetic> {
    if !is_exact(from) || !is_exact(to) {
        return None;
    }
    // Fewer digits after the point would need rounding, so we give up.
    let more = u32::try_from(scale(to) - scale(from)).ok()?;
    let range = IntegerSpan::of_type(to)?;
    // The value is unchanged and always fits, so no step is needed.
    if more == 0 && IntegerSpan::of_type(from).is_some_and(|from| range.holds(from)) {
        return Some(of);
    }
    let factor = 10_i128.checked_pow(more)?;
    Some(match of {
        Arithmetic::Number(number) => {
            let number = number.checked_mul(factor)?;
            range.holds(IntegerSpan { least: number, greatest: number }).then_some(Arithmetic::Number(number))?
        }
        left => {
            let right = Arithmetic::Number(factor);
            Arithmetic::Step(Box::new(ArithmeticStep { operator: Operator::Times, left, right, range }))
        }
    })
}

/// The number of digits after the point.
fn scale(kind: &DataType) -> i32 {
    if let DataType::Decimal128(_, scale) = kind { i32::from(*scale) } else { 0 }
}

fn is_exact(kind: &DataType) -> bool {
    kind.is_integer() || matches!(kind, DataType::Decimal128(_, 0..))
}

/// The value of an integer, or of a decimal without its point.
fn unscaled(value: &Constant) -> Option<i128> {
    if value.is_null() || !is_exact(value.kind()) {
        return None;
    }
    let array = match value.kind() {
        DataType::Decimal128(..) => Arc::clone(value.array()),
        _ => cast(value.array(), &DataType::Decimal128(38, 0)).ok()?,
    };
    let array = array.as_primitive::<Decimal128Type>();
    array.is_valid(0).then(|| array.value(0))
}

/// The branches of the expression, if it is a CASE.
fn case(expr: &ScalarExpr) -> Result<Option<CaseFunction>> {
    let ExprOp::Case { whens, otherwise } = &expr.op else { return Ok(None) };
    let arm = |(when, then): &(ScalarExpr, ScalarExpr)| {
        Ok((Arc::new(ExpressionFunction::new(when)?) as Arc<dyn VectorFunction>, branch(then)?))
    };
    let otherwise = match otherwise {
        Some(otherwise) => branch(otherwise)?,
        None => CaseBranch::Constant(Arc::clone(Constant::null(&expr.kind).array())),
    };
    Ok(Some(CaseFunction { arms: whens.iter().map(arm).collect::<Result<_>>()?, otherwise }))
}

fn branch(expr: &ScalarExpr) -> Result<CaseBranch> {
    Ok(match &expr.op {
        ExprOp::Column(column) => CaseBranch::Column(*column),
        ExprOp::Literal(value) => CaseBranch::Constant(Arc::clone(value.array())),
        _ => CaseBranch::Computed(Arc::new(ExpressionFunction::new(expr)?)),
    })
}
