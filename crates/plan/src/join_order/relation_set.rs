//! Sets of relations.

/// Some relations, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RelationSet(u128);

impl RelationSet {
    pub(super) const EMPTY: RelationSet = RelationSet(0);

    pub(super) fn of(relation: usize) -> RelationSet {
        RelationSet(1 << relation)
    }

    pub(super) fn of_all<'r>(relations: impl IntoIterator<Item = &'r usize>) -> RelationSet {
        relations.into_iter().fold(RelationSet::EMPTY, |set, relation| set.with(RelationSet::of(*relation)))
    }

    /// The relations up to `relation`, with it.
    pub(super) fn up_to(relation: usize) -> RelationSet {
        RelationSet(u128::MAX >> (127 - relation))
    }

    pub(super) fn has(self, relation: usize) -> bool {
        self.0 >> relation & 1 == 1
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(super) fn with(self, other: RelationSet) -> RelationSet {
        RelationSet(self.0 | other.0)
    }

    pub(super) fn common(self, other: RelationSet) -> RelationSet {
        RelationSet(self.0 & other.0)
    }

    pub(super) fn without(self, other: RelationSet) -> RelationSet {
        RelationSet(self.0 & !other.0)
    }

    pub(super) fn meets(self, other: RelationSet) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_within(self, other: RelationSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// The first relation; the set must not be empty.
    pub(super) fn first(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    /// The relations in ascending order.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        let rests = std::iter::successors(Some(self.0), |rest| Some(rest & rest.wrapping_sub(1)));
        rests.take_while(|rest| *rest != 0).map(|rest| rest.trailing_zeros() as usize)
    }

    /// All subsets but the empty one. A subset comes after those that it contains.
    pub(super) fn subsets(self) -> impl Iterator<Item = RelationSet> {
        let all = self.0;
        let next = move |part: &u128| Some(part.wrapping_sub(all) & all).filter(|part| *part != 0);
        std::iter::successors(next(&0), next).map(RelationSet)
    }
}
