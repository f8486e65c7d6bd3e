//! Sets of relations.

use std::hash::{BuildHasherDefault, Hasher};

/// A set of relations, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RelationSet(u128);

/// Hashes relation sets. It must be fast, because a search for the join order looks up thousands of sets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SetHasher(u64);

/// Builds hashers for relation sets.
pub(super) type SetHash = BuildHasherDefault<SetHasher>;

impl Hasher for SetHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a set must be hashed as one u128");
    }

    fn write_u128(&mut self, set: u128) {
        // Small sets have only low bits, but hash tables also use the high bits. The multiplication carries low bits
        // there.
        let folded = (set as u64) ^ ((set >> 64) as u64).rotate_left(32);
        let product = u128::from(folded) * 0x9E37_79B9_7F4A_7C15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl RelationSet {
    pub(super) const EMPTY: RelationSet = RelationSet(0);

    pub(super) fn of(relation: usize) -> RelationSet {
        RelationSet(1 << relation)
    }

    pub(super) fn of_all<'r>(relations: impl IntoIterator<Item = &'r usize>) -> RelationSet {
        relations.into_iter().fold(RelationSet::EMPTY, |set, relation| set.with(RelationSet::of(*relation)))
    }

    /// The relations up to and including `relation`.
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

    /// The first relation. The set must not be empty.
    pub(super) fn first(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    /// The relations in ascending order.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        let rests = std::iter::successors(Some(self.0), |rest| Some(rest & rest.wrapping_sub(1)));
        rests.take_while(|rest| *rest != 0).map(|rest| rest.trailing_zeros() as usize)
    }

    /// All subsets except the empty one. A subset comes after all subsets that it contains.
    pub(super) fn subsets(self) -> impl Iterator<Item = RelationSet> {
        let all = self.0;
        let next = move |part: &u128| Some(part.wrapping_sub(all) & all).filter(|part| *part != 0);
        std::iter::successors(next(&0), next).map(RelationSet)
    }
}
