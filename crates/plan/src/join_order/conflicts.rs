//! Which relations a join that is not inner needs on its left side.
//!
//! A plan may reorder two joins only where that does not change the result: `(A LEFT JOIN B) LEFT JOIN C ON b = c` is
//! `A LEFT JOIN (B LEFT JOIN C)` only if the second condition is never true of a NULL `b`. Each operator gets the set of
//! relations that it needs on the left, and rules: if relations of one set are there, so are those of another one. This
//! is the conflict detector CD-C (Moerkotte, Fender and Eich, "On the Correct and Complete Enumeration of the Core
//! Search Space", 2013), for operators with one relation on the right. Of its tables three facts remain then:
//!
//! * An inner join and any operator may exchange places, unless the inner join reads columns of the operator's right
//!   side. Such a condition needs all that the operator needs.
//! * Two operators that read the same relation on their left may exchange places.
//! * An operator that reads the right side of another one comes after that. Only an outer join that is never true of
//!   the NULLs of another outer join may come first.

use super::relation_set::RelationSet;
use super::{JoinOperator, OperatorKind};

/// The places where an operator may stand.
#[derive(Clone, Debug)]
pub(super) struct OperatorPlace {
    /// What its left side must have.
    pub(super) left: RelationSet,
    /// What its right side is.
    pub(super) right: RelationSet,
    /// If relations of the first set are on either side, all of the second must be.
    rules: Vec<(RelationSet, RelationSet)>,
}

impl OperatorPlace {
    /// Whether the operator may join these sides.
    pub(super) fn fits(&self, left: RelationSet, right: RelationSet) -> bool {
        let both = left.with(right);
        self.left.is_within(left)
            && self.right.is_within(right)
            && self.rules.iter().all(|(present, needed)| !present.meets(both) || needed.is_within(both))
    }

    /// All relations that must be there.
    pub(super) fn needed(&self) -> RelationSet {
        self.left.with(self.right)
    }
}

/// The places of all operators.
pub(super) fn places(operators: &[JoinOperator]) -> Vec<OperatorPlace> {
    let place = |(number, operator): (usize, &JoinOperator)| {
        let before = operators[..number].iter().filter(|earlier| !are_associative(earlier, operator));
        let rules: Vec<_> =
            before.map(|earlier| (RelationSet::of(earlier.right), RelationSet::of_all(&earlier.reads))).collect();
        let (mut left, right) = (RelationSet::of_all(&operator.reads), RelationSet::of(operator.right));
        loop {
            let missing = rules.iter().filter(|(present, _)| present.meets(left));
            let all = missing.fold(left, |all, (_, needed)| all.with(*needed));
            if all == left {
                return OperatorPlace { left, right, rules };
            }
            left = all;
        }
    };
    operators.iter().enumerate().map(place).collect()
}

/// Whether `(A first B) second C` is `A first (B second C)`, where `B` is what `first` has on its right.
fn are_associative(first: &JoinOperator, second: &JoinOperator) -> bool {
    let are_outer = first.kind == OperatorKind::Left && second.kind == OperatorKind::Left;
    are_outer && second.rejects_nulls_of.contains(&first.right)
}

/// All relations that must be joined before a condition on `relations` can be checked: where the right side of an
/// operator is among them, what the operator needs.
pub(super) fn closure(relations: RelationSet, places: &[OperatorPlace]) -> RelationSet {
    let needed = places.iter().filter(|place| place.right.meets(relations));
    let all = needed.fold(relations, |all, place| all.with(place.needed()));
    if all == relations { all } else { closure(all, places) }
}
