//! Conditions that a scan checks itself, on the stored form of a column.
//!
//! A condition is translated completely or not at all, because the scan must evaluate a translated one exactly. Others
//! are computed by the scan from the values of their columns. Neither kind can fail, so the scan may evaluate them in
//! any order.

use arrow::array::ArrayRef;
use arrow::compute::concat;
use arrow::datatypes::DataType;
use rowmill_base::SqlType;
use rowmill_plan::{CompareOp, Constant, ExprOp, Predicate, ScalarExpr, Volatility};

/// Translates `condition` to a predicate. `column` gives the position in the source, and the type, of a column that it
/// reads.
pub(crate) fn translate(
    condition: &ScalarExpr,
    column: &dyn Fn(usize) -> Option<(usize, SqlType)>,
) -> Option<Predicate> {
    let each = |parts: &[ScalarExpr]| parts.iter().map(|part| translate(part, column)).collect::<Option<Vec<_>>>();
    match &condition.op {
        ExprOp::And(parts) => each(parts).map(Predicate::And),
        ExprOp::Or(parts) => each(parts).map(Predicate::Or),
        ExprOp::Not(part) => Some(Predicate::Not(Box::new(translate(part, column)?))),
        ExprOp::Compare(op, pair) => {
            let [left, right] = &**pair;
            compare(left, *op, right, column).or_else(|| compare(right, op.flipped(), left, column))
        }
        ExprOp::CompareRows(op, left, right) => {
            compare_rows(left, *op, right, column).or_else(|| compare_rows(right, op.flipped(), left, column))
        }
        ExprOp::IsNull { value, negated } => {
            Some(Predicate::IsNull { column: column(value.as_column()?)?.0, negated: *negated })
        }
        ExprOp::InList { value, list, negated } => {
            let (column, kind) = column(value.as_column()?)?;
            if !kind.is_ordered() {
                return None;
            }
            let values = list.iter().map(|item| stored(item, &kind)).collect::<Option<Vec<_>>>()?;
            let values = concat(&values.iter().map(AsRef::as_ref).collect::<Vec<_>>()).ok()?;
            Some(Predicate::In { column, values, negated: *negated })
        }
        ExprOp::Like { value, pattern, escape: Some('\\'), negated, ignore_case } => {
            let (column, kind) = column(value.as_column()?)?;
            let pattern = pattern.as_constant()?.as_text()?.to_owned();
            (kind.arrow() == DataType::Utf8View).then_some(Predicate::Like {
                column,
                pattern,
                negated: *negated,
                ignore_case: *ignore_case,
            })
        }
        ExprOp::Column(id) if condition.kind == DataType::Boolean => {
            let (column, kind) = column(*id)?;
            let value = std::sync::Arc::clone(Constant::from(true).array());
            (kind == SqlType::Boolean).then_some(Predicate::Compare { column, op: CompareOp::Equal, value })
        }
        _ => None,
    }
}

/// Whether a scan can compute a condition that no predicate expresses. It may do that any number of times for the same
/// values, so the condition must not change. `is_stored` tells which columns the table stores.
pub(super) fn is_computable(condition: &ScalarExpr, is_stored: &dyn Fn(usize) -> bool) -> bool {
    let is_other = |part: &ScalarExpr| match &part.op {
        ExprOp::Column(id) => !is_stored(*id),
        ExprOp::Parameter(_) | ExprOp::Subquery(_) | ExprOp::Dynamic(..) => true,
        _ => false,
    };
    condition.any(&|part| part.as_column().is_some())
        && !condition.any(&is_other)
        && condition.volatility() == Volatility::Immutable
}

fn compare(
    side: &ScalarExpr,
    op: CompareOp,
    other: &ScalarExpr,
    column: &dyn Fn(usize) -> Option<(usize, SqlType)>,
) -> Option<Predicate> {
    let (column, kind) = column(side.as_column()?)?;
    if !kind.is_ordered() {
        return None;
    }
    Some(Predicate::Compare { column, op, value: stored(other, &kind)? })
}

/// Rewrites a comparison of rows to comparisons of their parts. For example, `(a, b) < (x, y)` becomes `a < x OR (a = x
/// AND b < y)`.
fn compare_rows(
    side: &[ScalarExpr],
    op: CompareOp,
    other: &[ScalarExpr],
    column: &dyn Fn(usize) -> Option<(usize, SqlType)>,
) -> Option<Predicate> {
    let parts = |op: CompareOp, places: std::ops::Range<usize>| {
        places.map(|place| compare(&side[place], op, &other[place], column)).collect::<Option<Vec<_>>>()
    };
    let strict = match op {
        CompareOp::Equal => return parts(op, 0..side.len()).map(Predicate::And),
        CompareOp::NotEqual => return parts(op, 0..side.len()).map(Predicate::Or),
        CompareOp::Less | CompareOp::LessOrEqual => CompareOp::Less,
        CompareOp::Greater | CompareOp::GreaterOrEqual => CompareOp::Greater,
    };
    let decided_at = |place: usize| {
        let mut all = parts(CompareOp::Equal, 0..place)?;
        all.extend(parts(if place + 1 == side.len() { op } else { strict }, place..place + 1)?);
        Some(Predicate::And(all))
    };
    (0..side.len()).map(decided_at).collect::<Option<Vec<_>>>().map(Predicate::Or)
}

/// The value of a literal, if it has the type of the column. A comparison with NULL is left to a filter.
fn stored(expr: &ScalarExpr, kind: &SqlType) -> Option<ArrayRef> {
    let value = expr.as_constant()?;
    (!value.is_null() && *value.kind() == kind.arrow()).then(|| std::sync::Arc::clone(value.array()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_part_by_part() {
        let row =
            |places: &[usize]| places.iter().map(|at| ScalarExpr::column(*at, DataType::Int64)).collect::<Vec<_>>();
        let values = |values: &[i64]| values.iter().map(|value| ScalarExpr::literal(*value)).collect::<Vec<_>>();
        let column = |at: usize| Some((at, SqlType::Int64));
        let text = |op, left, right| {
            let condition = ScalarExpr::new(DataType::Boolean, ExprOp::CompareRows(op, left, right));
            let name = |column: usize| ["a", "b", "c"][column].to_owned();
            translate(&condition, &column).map(|predicate| predicate.display(&name).to_string())
        };
        let of = |text: &str| Some(text.to_owned());
        let (pair, constants) = (row(&[0, 1]), values(&[5, 7]));
        assert_eq!(text(CompareOp::Less, pair.clone(), constants.clone()), of("((a < 5) OR (a = 5 AND b < 7))"));
        assert_eq!(
            text(CompareOp::LessOrEqual, constants.clone(), pair.clone()),
            of("((a > 5) OR (a = 5 AND b >= 7))")
        );
        assert_eq!(text(CompareOp::Equal, pair.clone(), constants.clone()), of("(a = 5 AND b = 7)"));
        assert_eq!(text(CompareOp::NotEqual, pair.clone(), constants), of("(a <> 5 OR b <> 7)"));
        assert_eq!(text(CompareOp::Less, pair.clone(), pair), None);
        assert_eq!(
            text(CompareOp::GreaterOrEqual, row(&[0, 1, 2]), values(&[1, 2, 3])),
            of("((a > 1) OR (a = 1 AND b > 2) OR (a = 1 AND b = 2 AND c >= 3))")
        );
    }
}
