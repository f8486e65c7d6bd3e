//! The number of matching rows of two sides, from the values that must be equal.
//!
//! We assume that the values of the side with fewer values are among those of the other side, before conditions remove
//! any rows (Selinger et al., "Access Path Selection in a Relational Database Management System", 1979).

use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};

/// The share of pairs that we assume to meet a condition that we cannot estimate.
const CONDITION_SHARE: f64 = 0.3;
/// The share of pairs that we assume to be equal in values that we know nothing about.
const EQUAL_SHARE: f64 = 0.1;

/// The values of one side's keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyValues {
    /// Number of rows of the side.
    pub rows: f64,
    /// Number of distinct values in these rows.
    pub distinct: f64,
    /// Number of distinct values before any condition removed rows.
    pub whole_distinct: f64,
    /// Whether `whole_distinct` is only an upper bound, the number of rows. This is so for several columns that have
    /// more combinations than the side has rows.
    pub is_bound: bool,
}

/// The match of two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matches {
    /// The share of rows of the left side with a match.
    pub left_share: f64,
    /// The share of rows of the right side with a match.
    pub right_share: f64,
    /// Matches of a row of the left side.
    pub per_left_row: f64,
}

impl KeyValues {
    /// The values of several columns together. Each column is given by its number of distinct values in all rows, the
    /// number of rows that meet the conditions, and the number of all rows.
    pub fn of(columns: &[(f64, f64, f64)], rows: f64, is_unique: bool) -> KeyValues {
        let rows = rows.max(1.0);
        let whole = columns.iter().map(|(_, _, whole)| *whole).fold(rows, f64::max);
        let combined = together(columns.iter().map(|(distinct, ..)| *distinct).collect());
        let is_bound = !is_unique && columns.len() > 1 && combined > whole;
        let whole_distinct = if is_unique { whole } else { combined.clamp(1.0, whole) };
        KeyValues { rows, distinct: distinct_among(whole_distinct, whole, rows), whole_distinct, is_bound }
    }
}

/// The match of two sides by equal keys. Other conditions are true for a share `others` of the pairs.
pub fn matches(left: &KeyValues, right: &KeyValues, others: f64) -> Matches {
    let domain = match left.is_bound && right.is_bound {
        // One side refers to the other, so its values are among the others, and a side has at most one value per row.
        true => left.whole_distinct.min(right.whole_distinct),
        false => left.whole_distinct.max(right.whole_distinct),
    };
    let domain = domain.max(1.0);
    let share = |of: &KeyValues| {
        // The share of rows whose key occurs on the other side, times the chance that one of those pairs matches.
        let with_equal = (of.distinct / domain).min(1.0);
        let per_value = of.rows / of.distinct.max(1.0);
        with_equal * (1.0 - (1.0 - others.clamp(0.0, 1.0)).powf(per_value))
    };
    Matches { left_share: share(right), right_share: share(left), per_left_row: right.rows / domain * others }
}

/// The number of distinct values that remain if `rows` of `whole` rows are kept, where each of the `distinct` values
/// has the same number of rows. A value disappears if none of its rows is kept (Yao, "Approximating Block Accesses in
/// Database Organizations", 1977).
pub(super) fn distinct_among(distinct: f64, whole: f64, rows: f64) -> f64 {
    let (distinct, whole) = (distinct.max(1.0), whole.max(1.0));
    let share = (rows / whole).clamp(0.0, 1.0);
    (distinct * (1.0 - (1.0 - share).powf((whole / distinct).max(1.0)))).clamp(1.0, distinct)
}

/// The number of combinations of values of several columns. Columns are rarely independent, so each column counts less
/// than the one before it, starting with the column that has the most values.
fn together(mut distinct: Vec<f64>) -> f64 {
    distinct.sort_by(f64::total_cmp);
    let log = distinct.iter().fold(0.0, |rest, distinct| distinct.max(1.0).log2() + rest / 2.0);
    log.exp2()
}

/// The share of pairs for which a condition over both sides is true, if it is not a key of the join.
pub(crate) fn share_of_pairs(condition: &ScalarExpr) -> f64 {
    match &condition.op {
        ExprOp::Compare(CompareOp::Equal, _) => EQUAL_SHARE,
        ExprOp::Compare(CompareOp::NotEqual, _) => 1.0 - EQUAL_SHARE,
        _ => CONDITION_SHARE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= expected * 0.01, "{found} for {expected}");
    }

    #[test]
    fn values_disappear_with_their_rows() {
        near(distinct_among(1_000.0, 1_000.0, 100.0), 100.0);
        near(distinct_among(10.0, 1_000.0, 100.0), 10.0);
        near(distinct_among(500.0, 1_000.0, 500.0), 375.0);
        near(distinct_among(7.0, 1_000.0, 0.0), 1.0);
    }

    #[test]
    fn a_key_of_two_columns_matches_one_row() {
        let lines = KeyValues::of(&[(20_000.0, 60_000.0, 60_000.0), (100.0, 60_000.0, 60_000.0)], 60_000.0, false);
        let offers = KeyValues::of(&[(20_000.0, 8_000.0, 8_000.0), (100.0, 8_000.0, 8_000.0)], 8_000.0, false);
        near(matches(&lines, &offers, 1.0).per_left_row, 1.0);
        near(matches(&offers, &lines, 1.0).per_left_row, 7.5);
    }

    #[test]
    fn a_foreign_key_matches_one_row() {
        let lines = KeyValues::of(&[(1_500.0, 6_000.0, 6_000.0)], 6_000.0, false);
        let orders = KeyValues::of(&[(1_500.0, 150.0, 1_500.0)], 150.0, true);
        let found = matches(&lines, &orders, 1.0);
        near(found.per_left_row, 0.1);
        near(found.left_share, 0.1);
        near(found.right_share, 1.0);
        // Two thirds of the customers have orders.
        let customers = KeyValues::of(&[(150.0, 150.0, 150.0)], 150.0, true);
        let orders = KeyValues::of(&[(100.0, 1_500.0, 1_500.0)], 1_500.0, false);
        near(matches(&customers, &orders, 1.0).left_share, 2.0 / 3.0);
        near(matches(&customers, &orders, 1.0).per_left_row, 10.0);
    }
}
