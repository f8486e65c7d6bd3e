//! The relations that a join that is not inner needs on its left side.
//!
//! A plan may reorder two joins only if that does not change the result. For example, `(A LEFT JOIN B) LEFT JOIN C ON b
//! = c` equals `A LEFT JOIN (B LEFT JOIN C)` only if the second condition is never true for a NULL `b`. Each operator
//! gets a set of relations that it needs on the left, and rules: if a relation of one set is there, all relations of
//! another set must be there. This is the conflict detector CD-C (Moerkotte, Fender and Eich, "On the Correct and
//! Complete Enumeration of the Core Search Space", 2013), for operators with one relation on the right. Its tables then
//! reduce to three facts:
//!
//! * An inner join and any operator may be swapped, unless the inner join reads columns of the operator's right side.
//!   Such a condition needs everything that the operator needs.
//! * Two operators that read the same relation on their left may be swapped.
//! * An operator that reads the right side of another one must come after it. The only exception is an outer join whose
//!   condition is never true for the NULLs of another outer join; it may come first.

use super::relation_set::RelationSet;
use super::{JoinOperator, OperatorKind};

/// The places that an operator may take.
#[derive(Clone, Debug)]
pub(super) struct OperatorPlace {
    /// Relations that its left side must contain.
    pub(super) left: RelationSet,
    /// Relations that its right side must contain.
    pub(super) right: RelationSet,
    /// If a relation of the first set is on either side, all relations of the second set must be there too.
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

    /// All relations that the operator needs on either side.
    pub(super) fn needed(&self) -> RelationSet {
        self.left.with(self.right)
    }
}

/// Computes the places of all operators.
pub(super) fn places(operators: &[JoinOperator]) -> Vec<OperatorPlace> {
    let place = |(number, operator): (usize, &JoinOperator)| {
        // Only operators that were written before this one can conflict with it.
        let before = operators[..number].iter().filter(|earlier| !are_associative(earlier, operator));
        let rules: Vec<_> =
            before.map(|earlier| (RelationSet::of(earlier.right), RelationSet::of_all(&earlier.reads))).collect();
        // A needed relation can trigger further rules, so we repeat until nothing is added.
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

/// Whether `(A first B) second C` equals `A first (B second C)`, where `B` is the right side of `first`.
fn are_associative(first: &JoinOperator, second: &JoinOperator) -> bool {
    let are_outer = first.kind == OperatorKind::Left && second.kind == OperatorKind::Left;
    are_outer && second.rejects_nulls_of.contains(&first.right)
}

/// All relations that must be joined before a condition on `relations` can be checked. If the right side of an operator
/// is among them, the condition needs everything that the operator needs.
pub(super) fn closure(relations: RelationSet, places: &[OperatorPlace]) -> RelationSet {
    let needed = places.iter().filter(|place| place.right.meets(relations));
    let all = needed.fold(relations, |all, place| all.with(place.needed()));
    if all == relations { all } else { closure(all, places) }
}
