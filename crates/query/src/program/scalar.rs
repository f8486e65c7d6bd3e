//! Turns expressions of a plan into scalars of a program.
//!
//! Operators that programs can compute themselves, value by value, become steps of a scalar. Any other expression is
//! kept and evaluated as a batch of one row ([`ScalarOp::Evaluate`]). Its operands are computed in steps as far as
//! possible.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Physical, SqlType};
use rowmill_plan::program::{ArithmeticOp, Scalar, ScalarOp, ScalarValue, TextFunction};
use rowmill_plan::{CompareOp, Constant, ExprOp, ScalarExpr};
use rowmill_storage::keyed::{ColumnValues, ValueRef};

use crate::optimizer::facts::is_true_of;

/// Values of a list up to which we compare them one by one.
const LIST_MAX: usize = 64;

/// The places of the plan's columns in a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    places: HashMap<usize, Scalar>,
}

impl Scope {
    /// Adds a column, by its id in the plan.
    pub(super) fn add(&mut self, id: usize, kind: SqlType, row: usize, column: usize) {
        self.places.insert(id, Scalar::column(kind, row, column));
    }

    /// The columns of the rows before `row`.
    pub(super) fn before(&self, row: usize) -> Scope {
        let is_before = |place: &Scalar| matches!(place.op, ScalarOp::Column(column) if column.row < row);
        let places = self.places.iter().filter(|(_, place)| is_before(place));
        Scope { places: places.map(|(id, place)| (*id, place.clone())).collect() }
    }

    /// Whether a column is known.
    pub(super) fn has(&self, id: usize) -> bool {
        self.places.contains_key(&id)
    }

    /// `expr` as a scalar. Returns `None` if a column is unknown or a program cannot have such values.
    pub(super) fn scalar(&self, expr: &ScalarExpr) -> Option<Scalar> {
        // We check this first, once for the whole tree. Otherwise both attempts below would descend and fail at every
        // level.
        let is_missing = |part: &ScalarExpr| match &part.op {
            ExprOp::Column(id) => !self.has(*id),
            ExprOp::Parameter(_) => sql_type(&part.kind).is_none(),
            ExprOp::Dynamic(..) | ExprOp::Subquery(_) => true,
            _ => false,
        };
        match expr.any(&is_missing) {
            true => None,
            false => self.lowered(expr),
        }
    }

    fn lowered(&self, expr: &ScalarExpr) -> Option<Scalar> {
        // Steps are faster than the evaluator, so we try them first.
        if let Some(scalar) = self.steps(expr) {
            return Some(scalar);
        }
        let mut operands = Vec::new();
        let kept = self.kept(expr, false, &mut operands)?;
        Some(Scalar::new(sql_type(&expr.kind)?, ScalarOp::Evaluate(Arc::new(kept), operands)))
    }

    /// The scalars of several expressions.
    pub(super) fn scalars<'e>(&self, exprs: impl IntoIterator<Item = &'e ScalarExpr>) -> Option<Vec<Scalar>> {
        exprs.into_iter().map(|expr| self.scalar(expr)).collect()
    }

    /// `expr` as one of the steps of a program.
    fn steps(&self, expr: &ScalarExpr) -> Option<Scalar> {
        let of = |expr: &ScalarExpr| self.lowered(expr);
        let boxed = |expr: &ScalarExpr| self.lowered(expr).map(Box::new);
        let all = |exprs: &[ScalarExpr]| exprs.iter().map(|expr| self.lowered(expr)).collect::<Option<Vec<_>>>();
        if let ExprOp::Column(id) = expr.op {
            return self.places.get(&id).cloned();
        }
        let kind = sql_type(&expr.kind)?;
        let op = match &expr.op {
            ExprOp::Parameter(number) => ScalarOp::Parameter(*number),
            ExprOp::Literal(value) => return literal(value),
            ExprOp::Arithmetic(op, pair) if is_stepwise(*op, [&pair[0].kind, &pair[1].kind], &expr.kind) => {
                ScalarOp::Arithmetic(*op, Box::new([of(&pair[0])?, of(&pair[1])?]))
            }
            ExprOp::Negate(value) if value.kind == expr.kind && is_number(&kind) => ScalarOp::Negate(boxed(value)?),
            ExprOp::Compare(op, pair) if is_ordered(&pair[0].kind) => {
                ScalarOp::Compare(*op, Box::new([of(&pair[0])?, of(&pair[1])?]))
            }
            ExprOp::CompareRows(op, left, right) if left.iter().all(|value| is_ordered(&value.kind)) => {
                return of(&compared_rows(*op, left, right));
            }
            ExprOp::And(parts) => ScalarOp::And(all(parts)?),
            ExprOp::Or(parts) => ScalarOp::Or(all(parts)?),
            ExprOp::Not(value) => ScalarOp::Not(boxed(value)?),
            ExprOp::IsDistinct { operands, negated } if is_ordered(&operands[0].kind) => {
                return of(&compared_with_null(operands, *negated));
            }
            ExprOp::IsNull { value, negated } => ScalarOp::IsNull { value: boxed(value)?, negated: *negated },
            ExprOp::Case { whens, otherwise } => {
                let whens = whens.iter().map(|(when, then)| Some((of(when)?, of(then)?))).collect::<Option<_>>()?;
                let otherwise = match otherwise {
                    Some(otherwise) => Some(boxed(otherwise)?),
                    None => None,
                };
                ScalarOp::Case { whens, otherwise }
            }
            ExprOp::Cast { value, or_null: false } if is_cast_in_steps(&sql_type(&value.kind)?, &kind) => {
                ScalarOp::Cast(boxed(value)?)
            }
            ExprOp::InList { value, list, negated } if list.len() <= LIST_MAX && is_ordered(&value.kind) => {
                return of(&compared_one_by_one(value, list, *negated));
            }
            ExprOp::Like { value, pattern, escape, negated, ignore_case } => ScalarOp::Like {
                operands: Box::new([of(value)?, of(pattern)?]),
                escape: *escape,
                negated: *negated,
                ignore_case: *ignore_case,
            },
            ExprOp::Coalesce(parts) => ScalarOp::Coalesce(all(parts)?),
            ExprOp::Call(function, arguments) => {
                ScalarOp::Text(text_function(function.name, arguments)?, all(arguments)?)
            }
            _ => return None,
        };
        Some(Scalar::new(kind, op))
    }

    /// `expr` over operands, for evaluation as a batch. An operand that SQL evaluates only for some rows must be a
    /// plain column or parameter, so we compute nothing in advance that could fail.
    fn kept(&self, expr: &ScalarExpr, is_lazy: bool, operands: &mut Vec<Scalar>) -> Option<ScalarExpr> {
        let as_operand = match &expr.op {
            ExprOp::Literal(_) => return Some(expr.clone()),
            ExprOp::Column(_) | ExprOp::Parameter(_) => Some(self.steps(expr)?),
            ExprOp::Dynamic(..) | ExprOp::Subquery(_) => return None,
            _ if is_lazy => None,
            _ => self.steps(expr),
        };
        if let Some(operand) = as_operand {
            let position = operands.iter().position(|known| *known == operand).unwrap_or_else(|| {
                operands.push(operand);
                operands.len() - 1
            });
            // A column of a table may be a VARCHAR while the expression says TEXT.
            return (operands[position].kind.arrow() == expr.kind)
                .then(|| ScalarExpr::column(position, expr.kind.clone()));
        }
        let is_lazy =
            is_lazy || matches!(expr.op, ExprOp::And(_) | ExprOp::Or(_) | ExprOp::Case { .. } | ExprOp::Coalesce(_));
        let mut kept = expr.clone();
        for operand in kept.operands_mut() {
            *operand = self.kept(operand, is_lazy, operands)?;
        }
        Some(kept)
    }
}

/// The SQL type of an Arrow type, if it is the only type with these values.
pub(crate) fn sql_type(kind: &DataType) -> Option<SqlType> {
    SqlType::from_arrow(kind).filter(|sql| sql.arrow() == *kind)
}

/// A literal with its type. Returns `None` for a type that SQL does not have.
pub fn literal(value: &Constant) -> Option<Scalar> {
    let kind = sql_type(value.kind())?;
    if value.is_null() {
        return Some(Scalar::literal(kind, ScalarValue::Null));
    }
    let values = ColumnValues::new(value.array(), &kind).ok()?;
    let value = match values.get(0) {
        ValueRef::Null => ScalarValue::Null,
        ValueRef::Bool(value) => ScalarValue::Bool(value),
        ValueRef::Int(value) => ScalarValue::Int(value),
        ValueRef::UInt(value) => ScalarValue::UInt(value),
        ValueRef::Float(value) => ScalarValue::Float(value),
        ValueRef::Decimal(value) => ScalarValue::Decimal(value),
        ValueRef::Interval(value) => ScalarValue::Interval(value),
        ValueRef::Text(value) => ScalarValue::Text(value.to_owned()),
        ValueRef::Bytes(value) => ScalarValue::Bytes(value.to_owned()),
    };
    Some(Scalar::literal(kind, value))
}

fn is_ordered(kind: &DataType) -> bool {
    sql_type(kind).is_some_and(|kind| kind.is_ordered())
}

fn is_integer(kind: &DataType) -> bool {
    kind.is_integer()
}

fn is_number(kind: &SqlType) -> bool {
    rowmill_expr::kinds::is_number(&kind.arrow())
}

fn is_exact(kind: &DataType) -> bool {
    kind.is_integer() || rowmill_expr::kinds::is_decimal(kind)
}

/// Whether programs have an operator on numbers of these types.
fn is_stepwise(op: ArithmeticOp, kinds: [&DataType; 2], kind: &DataType) -> bool {
    let scale = |kind: &DataType| match kind {
        DataType::Decimal128(_, scale) => i16::from(*scale),
        _ => 0,
    };
    let scales = kinds.map(scale);
    match kind {
        DataType::Float32 | DataType::Float64 if kinds == [kind, kind] => true,
        kind if is_integer(kind) => kinds == [kind, kind],
        DataType::Decimal128(..) if kinds.iter().all(|kind| is_exact(kind)) => {
            let made = if op == ArithmeticOp::Times { scales[0] + scales[1] } else { scales[0].max(scales[1]) };
            op != ArithmeticOp::Divide && made == scale(kind)
        }
        _ => false,
    }
}

/// Whether programs can cast between these types value by value.
fn is_cast_in_steps(from: &SqlType, to: &SqlType) -> bool {
    let is_of_time = |kind: &SqlType| matches!(kind, SqlType::Date | SqlType::Timestamp { zoned: false, .. });
    let is_narrow = |kind: &SqlType| Physical::of(kind) != Physical::Wide;
    if !is_narrow(from) || !is_narrow(to) {
        return false;
    }
    let are_numbers = is_number(from) && is_number(to);
    are_numbers
        || is_of_time(from) && is_of_time(to)
        || matches!((from, to), (SqlType::Text { .. }, SqlType::Text { .. } | SqlType::Numbered(_)))
}

/// The text function of programs for a name of the registry.
fn text_function(name: &str, arguments: &[ScalarExpr]) -> Option<TextFunction> {
    let is_of_text = arguments.first().is_some_and(|first| matches!(sql_type(&first.kind), Some(SqlType::Text { .. })));
    Some(match name {
        "text_concat" => TextFunction::Concat,
        "lower" => TextFunction::Lower,
        "upper" => TextFunction::Upper,
        "substring" => TextFunction::Substring,
        // It also takes BLOBs and lists.
        "length" if is_of_text => TextFunction::Length,
        _ => return None,
    })
}

/// Rewrites `value IN (list)` to comparisons.
fn compared_one_by_one(value: &ScalarExpr, list: &[ScalarExpr], negated: bool) -> ScalarExpr {
    let equal = |item: &ScalarExpr| ScalarExpr::compare(value.clone(), CompareOp::Equal, item.clone());
    let any = ScalarExpr::or(list.iter().map(equal).collect());
    if negated { any.negated() } else { any }
}

/// Rewrites `left IS [NOT] DISTINCT FROM right` to comparisons: NULL equals only NULL.
fn compared_with_null(operands: &[ScalarExpr; 2], negated: bool) -> ScalarExpr {
    let [left, right] = operands;
    let is_null = |value: &ScalarExpr| {
        ScalarExpr::new(DataType::Boolean, ExprOp::IsNull { value: Box::new(value.clone()), negated: false })
    };
    let equal = ScalarExpr::compare(left.clone(), CompareOp::Equal, right.clone());
    let both_null = ScalarExpr::and(vec![is_null(left), is_null(right)]);
    // The comparison is NULL if an operand is NULL, and only then do we need the second test.
    let is_value = |expr: &ScalarExpr| expr.as_constant().is_some_and(|value| !value.is_null());
    let same = match is_value(left) || is_value(right) {
        true => is_true_of(equal),
        false => ScalarExpr::new(DataType::Boolean, ExprOp::Coalesce(vec![equal, both_null])),
    };
    if negated { same } else { same.negated() }
}

/// Rewrites a comparison of rows to comparisons of their parts. For example, `(a, b) < (x, y)` becomes `a < x OR (a = x
/// AND b < y)`.
pub(super) fn compared_rows(op: CompareOp, left: &[ScalarExpr], right: &[ScalarExpr]) -> ScalarExpr {
    let part = |at: usize, op| ScalarExpr::compare(left[at].clone(), op, right[at].clone());
    let strict = match op {
        CompareOp::Equal => return ScalarExpr::and((0..left.len()).map(|at| part(at, op)).collect()),
        CompareOp::NotEqual => return ScalarExpr::or((0..left.len()).map(|at| part(at, op)).collect()),
        CompareOp::Less | CompareOp::LessOrEqual => CompareOp::Less,
        CompareOp::Greater | CompareOp::GreaterOrEqual => CompareOp::Greater,
    };
    let decided_at = |at: usize| {
        let mut all: Vec<ScalarExpr> = (0..at).map(|before| part(before, CompareOp::Equal)).collect();
        all.push(part(at, if at + 1 == left.len() { op } else { strict }));
        ScalarExpr::and(all)
    };
    ScalarExpr::or((0..left.len()).map(decided_at).collect())
}
