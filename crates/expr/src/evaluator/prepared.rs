//! Prepared expressions, and the evaluation of each operator.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, Constant, DynamicFunction, ExprOp, FunctionSpec, Operand, ScalarExpr, Volatility};

use super::branches::{case, coalesce};
use super::constant_set::ConstantSet;
use super::each_item::PreparedItems;
use super::junction::junction;
use super::narrowed::InputRows;
use super::spread;
use crate::fold::operator_can_fail;
use crate::kernels::arithmetic::{arithmetic, negate};
use crate::kernels::cast::cast;
use crate::kernels::compare::{compare, is_distinct};
use crate::kernels::like::LikeMatcher;
use crate::kernels::truth;

/// IN lists of at most this length are compared value by value, because comparisons vectorise and lookups do not.
const COMPARED_MAX: usize = 3;

/// An expression that is ready for evaluation.
#[derive(Debug)]
pub(super) struct PreparedExpr {
    pub(super) kind: DataType,
    step: PreparedStep,
    /// The columns that the expression reads, ascending.
    pub(super) columns: Vec<usize>,
    /// Whether the evaluation can fail for some rows.
    pub(super) can_fail: bool,
    /// Whether the evaluation costs more than narrowing the input.
    pub(super) is_costly: bool,
}

type PreparedPair = Box<[PreparedExpr; 2]>;

#[derive(Debug)]
enum PreparedStep {
    Column(usize),
    Constant(ArrayRef),
    Arithmetic(ArithmeticOp, PreparedPair),
    Negate(Box<PreparedExpr>),
    Compare(CompareOp, PreparedPair),
    IsDistinct(PreparedPair, bool),
    CompareRows(CompareOp, Vec<[PreparedExpr; 2]>),
    Junction { parts: Vec<PreparedExpr>, is_and: bool },
    Not(Box<PreparedExpr>),
    IsNull(Box<PreparedExpr>, bool),
    Case { whens: Vec<(PreparedExpr, PreparedExpr)>, otherwise: Option<Box<PreparedExpr>> },
    Cast(Box<PreparedExpr>, bool),
    InSet(Box<PreparedExpr>, ConstantSet, bool),
    InList(Box<PreparedExpr>, Vec<PreparedExpr>, bool),
    Like { value: Box<PreparedExpr>, pattern: PreparedPattern, negated: bool },
    Coalesce(Vec<PreparedExpr>),
    Call(&'static FunctionSpec, Vec<PreparedExpr>),
    Dynamic(Arc<dyn DynamicFunction>, Vec<PreparedExpr>),
    EachItem(Box<PreparedExpr>, Box<PreparedItems>),
}

#[derive(Debug)]
enum PreparedPattern {
    /// One pattern for all rows.
    Constant(Box<LikeMatcher>),
    /// A pattern per row, or one that does not compile. Its error must appear only if a row is evaluated.
    Rows { pattern: Box<PreparedExpr>, escape: Option<char>, ignore_case: bool },
}

/// The stack that one level of an expression may need, and the size of a new stack where less is left.
const STACK_PER_LEVEL: usize = 64 << 10;
const STACK_GROWTH: usize = 1 << 20;

impl PreparedExpr {
    pub(super) fn new(expr: &ScalarExpr) -> Result<PreparedExpr> {
        stacker::maybe_grow(STACK_PER_LEVEL, STACK_GROWTH, || PreparedExpr::of(expr))
    }

    fn of(expr: &ScalarExpr) -> Result<PreparedExpr> {
        let mut columns = Vec::new();
        let mut can_fail = operator_can_fail(expr);
        let mut is_costly = match &expr.op {
            ExprOp::Call(..) | ExprOp::Dynamic(..) | ExprOp::Like { .. } | ExprOp::EachItem { .. } => true,
            ExprOp::Cast { value, .. } => {
                // Casts between numbers are cheaper than narrowing the input; casts of texts and nested values are not.
                let is_heavy = |kind: &DataType| kind.is_nested() || *kind == DataType::Utf8View;
                is_heavy(&value.kind) || is_heavy(&expr.kind)
            }
            _ => false,
        };
        let mut prepare = |operand: &ScalarExpr| -> Result<PreparedExpr> {
            let operand = PreparedExpr::new(operand)?;
            columns.extend_from_slice(&operand.columns);
            can_fail |= operand.can_fail;
            is_costly |= operand.is_costly;
            Ok(operand)
        };
        let step = PreparedStep::new(expr, &mut prepare)?;
        match &step {
            PreparedStep::Column(column) => columns.push(*column),
            PreparedStep::EachItem(_, items) => {
                columns.extend_from_slice(items.columns());
                can_fail |= items.can_fail();
            }
            _ => {}
        }
        columns.sort_unstable();
        columns.dedup();
        Ok(PreparedExpr { kind: expr.kind.clone(), step, columns, can_fail, is_costly })
    }

    /// Evaluates the expression for the rows of `input`, which must have at least one.
    pub(super) fn evaluate(&self, input: InputRows<'_>) -> Result<Operand> {
        match &self.step {
            PreparedStep::Column(column) => Ok(Operand::rows(Arc::clone(input.column(*column)?))),
            PreparedStep::Constant(value) => Ok(Operand::constant(Arc::clone(value))),
            _ => stacker::maybe_grow(STACK_PER_LEVEL, STACK_GROWTH, || self.evaluate_operator(input)),
        }
    }

    fn evaluate_operator(&self, input: InputRows<'_>) -> Result<Operand> {
        let rows = input.rows;
        match &self.step {
            PreparedStep::Column(_) | PreparedStep::Constant(_) => self.evaluate(input),
            PreparedStep::Arithmetic(op, pair) => {
                pairwise(pair, input, |left, right, rows| arithmetic(*op, left, right, &self.kind, rows))
            }
            PreparedStep::Compare(op, pair) => {
                pairwise(pair, input, |left, right, rows| Ok(Arc::new(compare(*op, left, right, rows)?)))
            }
            PreparedStep::IsDistinct(pair, negated) => {
                pairwise(pair, input, |left, right, rows| Ok(Arc::new(is_distinct(left, right, *negated, rows)?)))
            }
            PreparedStep::CompareRows(op, pairs) => compare_rows(*op, pairs, input),
            PreparedStep::Negate(value) => value.each(input, negate),
            PreparedStep::Not(value) => value.each(input, |values| match values.data_type() {
                DataType::Null => Ok(Arc::new(BooleanArray::new_null(values.len()))),
                _ => Ok(Arc::new(truth::not(values.as_boolean()))),
            }),
            PreparedStep::IsNull(value, true) => value.each(input, |values| Ok(Arc::new(truth::is_not_null(values)))),
            PreparedStep::IsNull(value, false) => value.each(input, |values| Ok(Arc::new(truth::is_null(values)))),
            PreparedStep::Cast(value, or_null) => value.each(input, |values| cast(values, &self.kind, *or_null)),
            PreparedStep::InSet(value, set, negated) => {
                value.each(input, |values| Ok(Arc::new(set.contains(values, *negated)?)))
            }
            PreparedStep::InList(value, list, negated) => in_list(value, list, *negated, input),
            PreparedStep::Like { value, pattern, negated } => like(value, pattern, *negated, input),
            PreparedStep::Junction { parts, is_and } => junction(parts, *is_and, input),
            PreparedStep::Case { whens, otherwise } => case(whens, otherwise.as_deref(), &self.kind, input),
            PreparedStep::Coalesce(values) => coalesce(values, &self.kind, input),
            PreparedStep::Call(function, arguments) => {
                let arguments =
                    arguments.iter().map(|argument| argument.evaluate(input)).collect::<Result<Vec<_>>>()?;
                // A call with constant arguments gives one value, unless the function is volatile.
                let is_constant = function.volatility != Volatility::Volatile
                    && arguments.iter().all(|argument| argument.is_constant);
                let values = (function.kernel)(&arguments, &self.kind, if is_constant { 1 } else { rows })?;
                Ok(Operand { values, is_constant })
            }
            PreparedStep::Dynamic(function, arguments) => {
                let spread_out = |argument: &PreparedExpr| spread(argument.evaluate(input)?, rows);
                let arguments = arguments.iter().map(spread_out).collect::<Result<Vec<_>>>()?;
                function.evaluate(&arguments, rows).map(Operand::rows)
            }
            PreparedStep::EachItem(list, items) => {
                let lists = spread(list.evaluate(input)?, rows)?;
                items.evaluate(&lists, &self.kind, input).map(Operand::rows)
            }
        }
    }

    /// Applies `of` to the values. A single value gives a single result.
    fn each(&self, input: InputRows<'_>, of: impl FnOnce(&ArrayRef) -> Result<ArrayRef>) -> Result<Operand> {
        let operand = self.evaluate(input)?;
        Ok(Operand { values: of(&operand.values)?, is_constant: operand.is_constant })
    }
}

impl PreparedStep {
    fn new(expr: &ScalarExpr, prepare: &mut dyn FnMut(&ScalarExpr) -> Result<PreparedExpr>) -> Result<PreparedStep> {
        let mut pair = |operands: &[ScalarExpr; 2]| -> Result<PreparedPair> {
            Ok(Box::new([prepare(&operands[0])?, prepare(&operands[1])?]))
        };
        Ok(match &expr.op {
            ExprOp::Column(position) => PreparedStep::Column(*position),
            ExprOp::Literal(value) => PreparedStep::Constant(Arc::clone(value.array())),
            ExprOp::Arithmetic(op, operands) => PreparedStep::Arithmetic(*op, pair(operands)?),
            ExprOp::Compare(op, operands) => PreparedStep::Compare(*op, pair(operands)?),
            ExprOp::IsDistinct { operands, negated } => PreparedStep::IsDistinct(pair(operands)?, *negated),
            ExprOp::Negate(value) => PreparedStep::Negate(Box::new(prepare(value)?)),
            ExprOp::CompareRows(op, left, right) => {
                let pairs = left.iter().zip(right).map(|(left, right)| Ok([prepare(left)?, prepare(right)?]));
                PreparedStep::CompareRows(*op, pairs.collect::<Result<_>>()?)
            }
            ExprOp::And(parts) => PreparedStep::Junction { parts: all(parts, prepare)?, is_and: true },
            ExprOp::Or(parts) => PreparedStep::Junction { parts: all(parts, prepare)?, is_and: false },
            ExprOp::Not(value) => PreparedStep::Not(Box::new(prepare(value)?)),
            ExprOp::IsNull { value, negated } => PreparedStep::IsNull(Box::new(prepare(value)?), *negated),
            ExprOp::Case { whens, otherwise } => PreparedStep::Case {
                whens: whens.iter().map(|(when, then)| Ok((prepare(when)?, prepare(then)?))).collect::<Result<_>>()?,
                otherwise: otherwise.as_deref().map(|value| prepare(value).map(Box::new)).transpose()?,
            },
            ExprOp::Cast { value, or_null } => PreparedStep::Cast(Box::new(prepare(value)?), *or_null),
            ExprOp::InList { value, list, negated } => {
                let constants: Option<Vec<&Constant>> = list.iter().map(ScalarExpr::as_constant).collect();
                let set = constants
                    .filter(|constants| constants.len() > COMPARED_MAX)
                    .and_then(|constants| ConstantSet::new(&constants, &value.kind));
                let value = Box::new(prepare(value)?);
                match set {
                    Some(set) => PreparedStep::InSet(value, set, *negated),
                    None => PreparedStep::InList(value, all(list, prepare)?, *negated),
                }
            }
            ExprOp::Like { value, pattern, escape, negated, ignore_case } => {
                let constant = pattern.as_constant().and_then(Constant::as_text);
                // A constant pattern is compiled only once.
                let prepared = match constant.map(|text| LikeMatcher::new(text, *escape, *ignore_case)) {
                    Some(Ok(matcher)) => PreparedPattern::Constant(Box::new(matcher)),
                    _ => PreparedPattern::Rows {
                        pattern: Box::new(prepare(pattern)?),
                        escape: *escape,
                        ignore_case: *ignore_case,
                    },
                };
                PreparedStep::Like { value: Box::new(prepare(value)?), pattern: prepared, negated: *negated }
            }
            ExprOp::Coalesce(values) => PreparedStep::Coalesce(all(values, prepare)?),
            ExprOp::Call(function, arguments) => PreparedStep::Call(function, all(arguments, prepare)?),
            ExprOp::Dynamic(function, arguments) => {
                PreparedStep::Dynamic(Arc::clone(function), all(arguments, prepare)?)
            }
            ExprOp::Parameter(number) => {
                return Err(Error::internal(format!("parameter {} has no value", number + 1)));
            }
            ExprOp::EachItem { function, list, parameters, body } => {
                let items = PreparedItems::new(*function, parameters, body)?;
                PreparedStep::EachItem(Box::new(prepare(list)?), Box::new(items))
            }
            ExprOp::ItemParameter(_) => return Err(Error::internal("the item of a list outside of its expression")),
            ExprOp::Subquery(_) => return Err(Error::internal("a subquery was not unnested")),
        })
    }
}

fn all(
    exprs: &[ScalarExpr],
    prepare: &mut dyn FnMut(&ScalarExpr) -> Result<PreparedExpr>,
) -> Result<Vec<PreparedExpr>> {
    exprs.iter().map(prepare).collect()
}

/// Applies `of` to two operands. Two constants give a single result.
fn pairwise(
    pair: &[PreparedExpr; 2],
    input: InputRows<'_>,
    of: impl FnOnce(&Operand, &Operand, usize) -> Result<ArrayRef>,
) -> Result<Operand> {
    let (left, right) = (pair[0].evaluate(input)?, pair[1].evaluate(input)?);
    let is_constant = left.is_constant && right.is_constant;
    let rows = if is_constant { 1 } else { input.rows };
    Ok(Operand { values: of(&left, &right, rows)?, is_constant })
}

/// Compares rows lexicographically: the first pair that differs decides, unless a NULL comes before it.
fn compare_rows(op: CompareOp, pairs: &[[PreparedExpr; 2]], input: InputRows<'_>) -> Result<Operand> {
    let rows = input.rows;
    let operands = pairs
        .iter()
        .map(|[left, right]| Ok((left.evaluate(input)?, right.evaluate(input)?)))
        .collect::<Result<Vec<_>>>()?;
    let Some(((last_left, last_right), before)) = operands.split_last() else {
        return Err(Error::internal("rows without values are compared"));
    };
    // A pair before the last one decides only if it is strictly less or greater.
    let strict = match op {
        CompareOp::Less | CompareOp::LessOrEqual => CompareOp::Less,
        CompareOp::Greater | CompareOp::GreaterOrEqual => CompareOp::Greater,
        same => same,
    };
    // We go from the last pair to the first: `result` is the comparison of all pairs after the current one.
    let mut result = compare(op, last_left, last_right, rows)?;
    for (left, right) in before.iter().rev() {
        let first = compare(strict, left, right, rows)?;
        result = match op {
            CompareOp::Equal => truth::and(&first, &result),
            CompareOp::NotEqual => truth::or(&first, &result),
            _ => {
                let equal = compare(CompareOp::Equal, left, right, rows)?;
                truth::or(&first, &truth::and(&equal, &result))
            }
        };
    }
    Ok(Operand::rows(Arc::new(result)))
}

fn in_list(value: &PreparedExpr, list: &[PreparedExpr], negated: bool, input: InputRows<'_>) -> Result<Operand> {
    let value = value.evaluate(input)?;
    let mut found: Option<BooleanArray> = None;
    for item in list {
        let equal = compare(CompareOp::Equal, &value, &item.evaluate(input)?, input.rows)?;
        found = Some(match found {
            Some(found) => truth::or(&found, &equal),
            None => equal,
        });
    }
    let found = found.ok_or_else(|| Error::internal("an IN list is empty"))?;
    let result = if negated { truth::not(&found) } else { found };
    Ok(Operand::rows(Arc::new(result)))
}

fn like(value: &PreparedExpr, pattern: &PreparedPattern, negated: bool, input: InputRows<'_>) -> Result<Operand> {
    let mut scratch = String::new();
    match pattern {
        PreparedPattern::Constant(matcher) => value.each(input, |values| {
            let Some(texts) = values.as_string_view_opt() else {
                return Ok(Arc::new(BooleanArray::new_null(values.len())));
            };
            let bits = BooleanBuffer::collect_bool(texts.len(), |row| {
                matcher.matches(texts.value(row), &mut scratch) != negated
            });
            Ok(Arc::new(BooleanArray::new(bits, texts.nulls().cloned())))
        }),
        PreparedPattern::Rows { pattern, escape, ignore_case } => {
            let (texts, patterns) = (value.evaluate(input)?, pattern.evaluate(input)?);
            let (Some(text_values), Some(pattern_values)) =
                (texts.values.as_string_view_opt(), patterns.values.as_string_view_opt())
            else {
                return Ok(Operand::rows(Arc::new(BooleanArray::new_null(input.rows))));
            };
            // Consecutive rows often have the same pattern, so we keep the last compiled one.
            let mut last: Option<(&str, LikeMatcher)> = None;
            let mut results = Vec::with_capacity(input.rows);
            for row in 0..input.rows {
                let (text_row, pattern_row) = (texts.at(row), patterns.at(row));
                if text_values.is_null(text_row) || pattern_values.is_null(pattern_row) {
                    results.push(None);
                    continue;
                }
                let pattern = pattern_values.value(pattern_row);
                let matcher = match last.take() {
                    Some((text, matcher)) if text == pattern => matcher,
                    _ => LikeMatcher::new(pattern, *escape, *ignore_case)?,
                };
                results.push(Some(matcher.matches(text_values.value(text_row), &mut scratch) != negated));
                last = Some((pattern, matcher));
            }
            Ok(Operand::rows(Arc::new(BooleanArray::from(results))))
        }
    }
}
