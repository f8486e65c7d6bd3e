//! Small facts about expressions and small expressions that several rules need.

use arrow::datatypes::DataType;
use rowmill_exec::aggregate;
use rowmill_plan::function::Volatility;
use rowmill_plan::logical::AggregateCall;
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{AggregateOrdering, ColumnId, ColumnNames, CompareOp, ExprOp, ScalarExpr};

use crate::column_set::ColumnSet;

/// Whether an expression is volatile, so a rewrite must neither move nor copy it.
pub(crate) fn is_volatile(expr: &ScalarExpr) -> bool {
    expr.volatility() == Volatility::Volatile
}

/// The signed integer that an expression casts to a wider type, if it does nothing else.
pub(crate) fn widened_integer(expr: &ScalarExpr) -> Option<&ScalarExpr> {
    let ExprOp::Cast { value, or_null: false } = &expr.op else { return None };
    let width = |kind: &DataType| kind.is_signed_integer().then(|| kind.primitive_width()).flatten();
    (width(&value.kind)? < width(&expr.kind)? && value.as_constant().is_none()).then_some(value)
}

/// Whether the evaluation of an expression can fail.
pub(crate) fn can_fail(expr: &ScalarExpr) -> bool {
    rowmill_expr::fold::can_fail(expr)
}

/// Whether a condition may be evaluated earlier than written, and for more rows. A value of the statement that does not
/// fit its type is an error anyway, so a cast of a parameter may move.
pub(crate) fn is_movable(expr: &ScalarExpr) -> bool {
    let is_of_parameter =
        |part: &ScalarExpr| matches!(&part.op, ExprOp::Cast { value, .. } if matches!(value.op, ExprOp::Parameter(_)));
    let can_fail = |part: &ScalarExpr| rowmill_expr::fold::operator_can_fail(part) && !is_of_parameter(part);
    !is_volatile(expr) && !expr.any(&can_fail)
}

/// Whether the evaluation can fail only because a sum, a difference or a product does not fit its type. For example,
/// `t + INTERVAL '1 hour'` can, and `1 / x` fails for other reasons. No condition is written to guard against it, so it
/// may be evaluated for rows that other conditions would leave out.
pub(crate) fn can_only_overflow(expr: &ScalarExpr) -> bool {
    let overflows = |part: &ScalarExpr| match &part.op {
        ExprOp::Arithmetic(op, _) => !matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder),
        ExprOp::Negate(_) => true,
        ExprOp::Call(function, _) => function.only_overflows,
        ExprOp::Cast { value, .. } => value.kind.is_temporal() && part.kind.is_temporal(),
        _ => false,
    };
    !expr.any(&|part: &ScalarExpr| rowmill_expr::fold::operator_can_fail(part) && !overflows(part))
}

/// Splits conditions at their top-level ANDs.
pub(crate) fn split_and(conditions: Vec<ScalarExpr>) -> Vec<ScalarExpr> {
    let is_flat = |condition: &ScalarExpr| !matches!(condition.op, ExprOp::And(_)) && !is_true(condition);
    if conditions.iter().all(is_flat) {
        return conditions;
    }
    let mut parts = Vec::new();
    conditions.into_iter().for_each(|condition| split_one(condition, &mut parts));
    parts
}

fn split_one(condition: ScalarExpr, parts: &mut Vec<ScalarExpr>) {
    match condition.op {
        ExprOp::And(all) => all.into_iter().for_each(|part| split_one(part, parts)),
        _ if is_true(&condition) => {}
        _ => parts.push(condition),
    }
}

/// Whether an expression is the literal TRUE.
pub(crate) fn is_true(expr: &ScalarExpr) -> bool {
    expr.as_constant().and_then(|value| value.as_bool()) == Some(true)
}

/// Whether a condition is a literal that is FALSE or NULL.
pub(crate) fn is_never_true(expr: &ScalarExpr) -> bool {
    expr.as_constant().is_some_and(|value| value.as_bool() != Some(true))
}

/// `condition IS TRUE`: false if the condition is NULL.
pub(crate) fn is_true_of(condition: ScalarExpr) -> ScalarExpr {
    ScalarExpr::new(DataType::Boolean, ExprOp::Coalesce(vec![condition, ScalarExpr::literal(false)]))
}

/// `CASE WHEN condition THEN value END`
pub(crate) fn value_if(condition: ScalarExpr, value: ScalarExpr) -> ScalarExpr {
    let kind = value.kind.clone();
    ScalarExpr::new(kind, ExprOp::Case { whens: vec![(condition, value)], otherwise: None })
}

/// `left IS NOT DISTINCT FROM right` of two columns.
pub(crate) fn same(columns: &ColumnNames, left: ColumnId, right: ColumnId) -> ScalarExpr {
    let operands = Box::new([columns.expr(left), columns.expr(right)]);
    ScalarExpr::new(DataType::Boolean, ExprOp::IsDistinct { operands, negated: true })
}

/// The comparison that is true where `op` is false.
pub(crate) fn opposite(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Equal => CompareOp::NotEqual,
        CompareOp::NotEqual => CompareOp::Equal,
        CompareOp::Less => CompareOp::GreaterOrEqual,
        CompareOp::LessOrEqual => CompareOp::Greater,
        CompareOp::Greater => CompareOp::LessOrEqual,
        CompareOp::GreaterOrEqual => CompareOp::Less,
    }
}

/// The two sides of an equality, and whether NULL equals NULL in it.
pub(crate) fn equality(condition: &ScalarExpr) -> Option<(&ScalarExpr, &ScalarExpr, bool)> {
    match &condition.op {
        ExprOp::Compare(CompareOp::Equal, pair) => Some((&pair[0], &pair[1], false)),
        ExprOp::IsDistinct { operands, negated: true } => Some((&operands[0], &operands[1], true)),
        _ => None,
    }
}

/// Whether a filter with this condition drops every row in which all of `columns` are NULL.
pub(crate) fn rejects_nulls(condition: &ScalarExpr, columns: &ColumnSet) -> bool {
    rowmill_expr::fold::rejects_nulls(condition, &|id| columns.contains(ColumnId(id)))
}

/// Adds the columns that cannot be NULL if all conditions are true.
pub(crate) fn add_required(conditions: &[ScalarExpr], full: &mut ColumnSet) {
    for condition in conditions {
        // A statement may have very many columns, but a condition names few. A bit set would be mostly empty, so we use
        // a list.
        let mut columns = Vec::new();
        condition.each(&mut |part| columns.extend(part.as_column()));
        columns.sort_unstable();
        columns.dedup();
        for column in columns {
            if !full.contains(ColumnId(column)) && rowmill_expr::fold::rejects_nulls(condition, &|id| id == column) {
                full.insert(ColumnId(column));
            }
        }
    }
}

/// Number of nodes of an expression.
pub(crate) fn size(expr: &ScalarExpr) -> usize {
    1 + expr.operands().into_iter().map(size).sum::<usize>()
}

/// The literal 0 of an integer type.
pub(crate) fn zero(kind: &DataType) -> ScalarExpr {
    let zero = ScalarExpr::literal(0i64);
    let cast = arrow::compute::cast(zero.as_constant().expect("a literal is a constant").array(), kind);
    match cast {
        Ok(array) => ScalarExpr::literal(rowmill_plan::Constant::new(array)),
        Err(_) => zero.cast(kind.clone()),
    }
}

/// Whether the result of an aggregate depends on the order of its input.
pub(crate) fn reads_order(call: &AggregateCall) -> bool {
    call.order.is_empty() && call.function.ordering == AggregateOrdering::OfRows
}

/// The call of an aggregate without DISTINCT, an order or a filter.
pub(crate) fn plain_call(name: &'static str, arguments: Vec<ScalarExpr>, kind: DataType) -> AggregateCall {
    AggregateCall {
        function: aggregate::named(name),
        arguments,
        parameter: None,
        distinct: false,
        order: Vec::new(),
        skips_nulls: false,
        filter: None,
        kind,
    }
}
