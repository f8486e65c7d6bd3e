//! The rows that meet, by the definition of the join: each left row looks at all right rows.

use rowmill_plan::OrderedChoice;

use super::case::{LeftRow, OrderedCase, RightRow};

impl OrderedCase {
    /// The right rows that a left row meets, in order.
    pub(super) fn met<'r>(&self, left: &LeftRow, right: &'r [RightRow]) -> Vec<&'r RightRow> {
        let mut same: Vec<&RightRow> =
            right.iter().filter(|row| row.position.is_some() && self.is_same(&left.keys, &row.keys)).collect();
        same.sort_by_key(|row| (row.position, row.tie));
        let needs = |bound: Option<bool>, value: Option<i64>| bound.is_some() && value.is_none();
        if needs(self.lower, left.lower) || needs(self.upper, left.upper) {
            return Vec::new();
        }
        let is_above = |row: &RightRow| match (self.lower, left.lower) {
            (Some(true), lower) => row.position >= lower,
            (Some(false), lower) => row.position > lower,
            (None, _) => true,
        };
        let is_below = |row: &RightRow| match (self.upper, left.upper) {
            (Some(true), upper) => row.position <= upper,
            (Some(false), upper) => row.position < upper,
            (None, _) => true,
        };
        let mut met: Vec<&RightRow> = same.iter().copied().filter(|row| is_above(row) && is_below(row)).collect();
        match self.choice {
            OrderedChoice::All => {}
            OrderedChoice::Last => met = met.pop().into_iter().collect(),
            OrderedChoice::First => met.truncate(1),
            OrderedChoice::Nearest { .. } => {
                let Some(to) = left.to else { return Vec::new() };
                let at = |row: &RightRow| row.position.expect("rows without a position meet nothing");
                let before = met.iter().rev().find(|row| at(row) <= to).copied();
                let after = met.iter().find(|row| at(row) > to).copied();
                met = match (before, after) {
                    (Some(before), Some(after)) => {
                        let distance = |row: &RightRow| self.position.distance(at(row), to);
                        vec![if distance(after) < distance(before) { after } else { before }]
                    }
                    (one, None) | (None, one) => one.into_iter().collect(),
                };
            }
            OrderedChoice::AllWithPrevailing => {
                let has_equal = same.iter().any(|row| row.position == left.lower);
                let before = same.iter().rev().find(|row| row.position < left.lower);
                if let (Some(before), false, true) = (before, has_equal, self.lower.is_some()) {
                    met.insert(0, before);
                }
            }
        }
        met
    }

    fn is_same(&self, left: &[Option<i64>], right: &[Option<i64>]) -> bool {
        left.iter().zip(right).all(|(left, right)| left == right && (self.nulls_equal || left.is_some()))
    }
}
