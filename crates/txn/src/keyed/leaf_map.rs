//! A map from lower bounds of keys to leaves: a tree of branches.
//!
//! A branch stores the prefix that its bounds share, and for each bound the eight bytes after that prefix as an
//! integer, its head. So a search in a branch runs over adjacent integers, and compares complete bounds only if heads
//! are equal.
//!
//! The first bound of a branch is never compared. The search above has already chosen this branch, and a key before all
//! bounds belongs to the first leaf. So the empty bound of the first leaf does not shorten the prefix of the others.

use crate::key_bytes::{common_bytes, head_of, is_before, search_heads};

/// The most children of a branch. The heads of a full branch take a kilobyte.
const CHILDREN_MAX: usize = 128;

/// Leaves of type `L` by their bounds. No bound may be in the map twice.
#[derive(Clone, Debug)]
pub(super) struct LeafMap<L> {
    root: LeafBranch<L>,
    len: usize,
}

#[derive(Clone, Debug)]
struct LeafBranch<L> {
    /// The prefix of all bounds but the first.
    prefix: Vec<u8>,
    /// The bytes after the prefix of each bound. The first one has no meaning.
    heads: Vec<u64>,
    /// The bounds of leaves, or the least bounds of branches. In the first branch the stored bound may be greater than
    /// that.
    bounds: Vec<Box<[u8]>>,
    children: Children<L>,
}

#[derive(Clone, Debug)]
enum Children<L> {
    Leaves(Vec<L>),
    Branches(Vec<LeafBranch<L>>),
}

/// The right part of a split branch, and its bound.
type Right<L> = (Box<[u8]>, LeafBranch<L>);

impl<L> LeafBranch<L> {
    fn new(children: Children<L>) -> LeafBranch<L> {
        LeafBranch { prefix: Vec::new(), heads: Vec::new(), bounds: Vec::new(), children }
    }

    /// The child to which `key` belongs: the last one whose bound is not greater than `key`, or the first one.
    #[inline]
    fn child_of(&self, key: &[u8]) -> usize {
        let heads = self.heads.get(1..).unwrap_or_default();
        search_heads(&self.prefix, heads, key, |at| *self.bounds[at + 1] <= *key)
    }

    fn get(&self, at: usize) -> Option<(&[u8], &L)> {
        match &self.children {
            Children::Leaves(leaves) => Some((self.bounds.get(at)?, leaves.get(at)?)),
            Children::Branches(branches) => branches.get(at)?.get(0),
        }
    }

    fn last(&self) -> Option<(&[u8], &L)> {
        match &self.children {
            Children::Leaves(leaves) => Some((self.bounds.last()?, leaves.last()?)),
            Children::Branches(branches) => branches.last()?.last(),
        }
    }

    /// The first leaf whose bound is greater than `bound`.
    fn after(&self, bound: &[u8]) -> Option<(&[u8], &L)> {
        let at = self.child_of(bound);
        match &self.children {
            Children::Leaves(_) => self.get(if at == 0 && is_before(bound, self.bounds.first()?) { 0 } else { at + 1 }),
            Children::Branches(branches) => branches[at].after(bound).or_else(|| self.get(at + 1)),
        }
    }

    /// The last leaf whose bound is less than `bound`.
    fn before(&self, bound: &[u8]) -> Option<(&[u8], &L)> {
        let at = self.child_of(bound);
        match &self.children {
            Children::Leaves(_) if is_before(self.bounds.get(at)?, bound) => self.get(at),
            Children::Leaves(_) => self.get(at.checked_sub(1)?),
            Children::Branches(branches) => branches[at].before(bound).or_else(|| branches[at.checked_sub(1)?].last()),
        }
    }

    /// Adds a child at position `at`. If the branch is too full then, splits it and returns the right part.
    fn add(&mut self, at: usize, bound: Box<[u8]>, add_child: impl FnOnce(&mut Children<L>)) -> Option<Right<L>> {
        assert!(self.bounds.get(at) != Some(&bound), "the bound must not be in the map yet");
        let is_last = at == self.bounds.len();
        self.bounds.insert(at, bound);
        add_child(&mut self.children);
        // A bound with the shared prefix only needs a head of its own. Otherwise the prefix changes, and with it all
        // heads.
        match at.checked_sub(1).map(|_| self.bounds[at].strip_prefix(&self.prefix[..])) {
            Some(Some(rest)) if at > 1 || !is_last => self.heads.insert(at, head_of(rest)),
            _ => self.set_heads(),
        }
        if self.bounds.len() <= CHILDREN_MAX {
            return None;
        }
        // Split at the end if the bound was added at the end, because bounds that come in order should leave full
        // branches.
        let cut = if is_last { CHILDREN_MAX } else { CHILDREN_MAX / 2 };
        let mut right = LeafBranch::new(match &mut self.children {
            Children::Leaves(leaves) => Children::Leaves(leaves.split_off(cut)),
            Children::Branches(branches) => Children::Branches(branches.split_off(cut)),
        });
        right.bounds = self.bounds.split_off(cut);
        right.set_heads();
        self.set_heads();
        Some((right.bounds[0].clone(), right))
    }

    /// Sets the prefix that the bounds share, and all heads.
    fn set_heads(&mut self) {
        self.prefix.clear();
        if let [_, second, .., last] = &self.bounds[..] {
            self.prefix.extend_from_slice(&second[..common_bytes(second, last)]);
        } else if let [_, only] = &self.bounds[..] {
            // The next bound will probably differ near the end of this one, so exclude its last eight bytes.
            self.prefix.extend_from_slice(&only[..only.len().saturating_sub(size_of::<u64>())]);
        }
        self.heads.clear();
        self.heads.extend(self.bounds.iter().take(1).map(|_| 0));
        self.heads.extend(self.bounds.iter().skip(1).map(|bound| head_of(&bound[self.prefix.len()..])));
    }

    fn insert(&mut self, bound: Box<[u8]>, leaf: L) -> Option<Right<L>> {
        let at = self.child_of(&bound);
        if let Children::Branches(branches) = &mut self.children {
            // If the child was split, its right part becomes a child of this branch too.
            let (bound, right) = branches[at].insert(bound, leaf)?;
            return self.add(at + 1, bound, |children| match children {
                Children::Branches(branches) => branches.insert(at + 1, right),
                Children::Leaves(_) => unreachable!("children are of one kind"),
            });
        }
        let at = if self.bounds.first().is_none_or(|first| is_before(&bound, first)) { 0 } else { at + 1 };
        self.add(at, bound, |children| match children {
            Children::Leaves(leaves) => leaves.insert(at, leaf),
            Children::Branches(_) => unreachable!("children are of one kind"),
        })
    }

    fn remove(&mut self, bound: &[u8]) -> Option<L> {
        let at = self.child_of(bound);
        let removed = match &mut self.children {
            Children::Leaves(leaves) if self.bounds.get(at).is_some_and(|found| **found == *bound) => leaves.remove(at),
            Children::Leaves(_) => return None,
            Children::Branches(branches) => {
                let removed = branches[at].remove(bound)?;
                if let Some(first) = branches[at].bounds.first() {
                    // The bound of a branch must be the least one in it. Keys below the first bound that is left belong
                    // to the child before.
                    if at > 0 && self.bounds[at] != *first {
                        self.bounds[at].clone_from(first);
                        self.set_heads();
                    }
                    return Some(removed);
                }
                // The branch is empty, so remove it from its parent too.
                branches.remove(at);
                removed
            }
        };
        self.bounds.remove(at);
        self.heads.remove(at);
        Some(removed)
    }

    fn into_leaves(self, leaves: &mut Vec<(Box<[u8]>, L)>) {
        match self.children {
            Children::Leaves(own) => leaves.extend(self.bounds.into_iter().zip(own)),
            Children::Branches(branches) => branches.into_iter().for_each(|branch| branch.into_leaves(leaves)),
        }
    }

    fn for_each_mut(&mut self, each: &mut impl FnMut(&mut L)) {
        match &mut self.children {
            Children::Leaves(leaves) => leaves.iter_mut().for_each(each),
            Children::Branches(branches) => branches.iter_mut().for_each(|branch| branch.for_each_mut(each)),
        }
    }
}

impl<L> LeafMap<L> {
    /// A map with one leaf, under the empty bound.
    pub(super) fn of_first(leaf: L) -> LeafMap<L> {
        let mut map = LeafMap { root: LeafBranch::new(Children::Leaves(Vec::new())), len: 0 };
        map.insert(Box::default(), leaf);
        map
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Approximate bytes of the map without leaves and bounds. We assume that branches are two thirds full.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.len * (size_of::<u64>() + size_of::<Box<[u8]>>() + size_of::<L>()) * 3 / 2
    }

    /// The leaf to which `key` belongs, and its bound: the last bound that is not greater than `key`.
    #[inline]
    pub(super) fn of_key(&self, key: &[u8]) -> Option<(&[u8], &L)> {
        let mut branch = &self.root;
        loop {
            let at = branch.child_of(key);
            match &branch.children {
                Children::Leaves(leaves) => return Some((branch.bounds.get(at)?, leaves.get(at)?)),
                Children::Branches(branches) => branch = &branches[at],
            }
        }
    }

    /// The leaf to which `key` belongs, mutable.
    #[inline]
    pub(super) fn of_key_mut(&mut self, key: &[u8]) -> Option<&mut L> {
        let mut branch = &mut self.root;
        loop {
            let at = branch.child_of(key);
            match &mut branch.children {
                Children::Leaves(leaves) => return leaves.get_mut(at),
                Children::Branches(branches) => branch = &mut branches[at],
            }
        }
    }

    pub(super) fn first(&self) -> Option<(&[u8], &L)> {
        self.root.get(0)
    }

    pub(super) fn last(&self) -> Option<(&[u8], &L)> {
        self.root.last()
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut L> {
        let mut branch = &mut self.root;
        loop {
            match &mut branch.children {
                Children::Leaves(leaves) => return leaves.last_mut(),
                Children::Branches(branches) => branch = branches.last_mut()?,
            }
        }
    }

    /// The first leaf whose bound is greater than `bound`, with its bound.
    pub(super) fn after(&self, bound: &[u8]) -> Option<(&[u8], &L)> {
        self.root.after(bound)
    }

    /// The last leaf whose bound is less than `bound`, with its bound.
    pub(super) fn before(&self, bound: &[u8]) -> Option<(&[u8], &L)> {
        self.root.before(bound)
    }

    /// All leaves in order, with their bounds.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &L)> {
        std::iter::successors(self.first(), |(bound, _)| self.after(bound))
    }

    /// All leaves with their bounds, last one first.
    pub(super) fn iter_from_end(&self) -> impl Iterator<Item = (&[u8], &L)> {
        std::iter::successors(self.last(), |(bound, _)| self.before(bound))
    }

    pub(super) fn for_each_mut(&mut self, mut each: impl FnMut(&mut L)) {
        self.root.for_each_mut(&mut each);
    }

    /// Converts the map to its leaves in order, with their bounds.
    pub(super) fn into_leaves(self) -> Vec<(Box<[u8]>, L)> {
        let mut leaves = Vec::with_capacity(self.len);
        self.root.into_leaves(&mut leaves);
        leaves
    }

    /// Adds a leaf. Its bound must not be in the map yet.
    pub(super) fn insert(&mut self, bound: Box<[u8]>, leaf: L) {
        self.len += 1;
        if let Some((bound, right)) = self.root.insert(bound, leaf) {
            // The root was split: a new root gets the two parts, and the tree is one level deeper.
            let left = std::mem::replace(&mut self.root, LeafBranch::new(Children::Leaves(Vec::new())));
            self.root.bounds = vec![Box::default(), bound];
            self.root.children = Children::Branches(vec![left, right]);
            self.root.set_heads();
        }
    }

    /// Removes the leaf of `bound` and returns it; `None` if there is none.
    pub(super) fn remove(&mut self, bound: &[u8]) -> Option<L> {
        let removed = self.root.remove(bound)?;
        self.len -= 1;
        // A root with a single child is of no use, so the child becomes the root.
        while let Children::Branches(branches) = &mut self.root.children
            && branches.len() <= 1
        {
            self.root = branches.pop().unwrap_or_else(|| LeafBranch::new(Children::Leaves(Vec::new())));
        }
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound::{Excluded, Included, Unbounded};

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Makes bounds of several lengths that share a long or a short prefix.
    fn bound(random: &mut SmallRng, kind: u64) -> Vec<u8> {
        let number = random.random_range(0..3_000_u64).to_be_bytes();
        match kind {
            0 => number.to_vec(),
            1 => [&b"a long beginning of all keys "[..], &number].concat(),
            2 => [&number[7..], &[0; 12], &number[6..7]].concat(),
            _ => number[5..].iter().copied().filter(|byte| byte % 3 != 0).collect(),
        }
    }

    #[test]
    fn leaf_map_behaves_like_the_standard_map() {
        for kind in 0..5 {
            let random = &mut SmallRng::seed_from_u64(kind);
            let mut map = LeafMap::of_first(0);
            let mut model = BTreeMap::from([(Box::<[u8]>::default(), 0)]);
            for step in 1..20_000_u64 {
                let kind = if kind == 4 { random.random_range(0..4) } else { kind };
                let key = bound(random, kind);
                let is_shrinking = step % 8_000 > 5_000;
                match model.contains_key(&key[..]) {
                    true if is_shrinking || random.random_ratio(1, 8) => {
                        assert_eq!(map.remove(&key), model.remove(&key[..]));
                    }
                    false if !is_shrinking => {
                        map.insert(key.clone().into(), step);
                        model.insert(key.into(), step);
                    }
                    _ => {}
                }
                let key = &bound(random, kind)[..];
                let own = |found: Option<(&[u8], &u64)>| found.map(|(bound, leaf)| (Box::from(bound), *leaf));
                let other = |found: Option<(&Box<[u8]>, &u64)>| found.map(|(bound, leaf)| (bound.clone(), *leaf));
                if let Some(of_key) = other(model.range::<[u8], _>((Unbounded, Included(key))).next_back()) {
                    assert_eq!(own(map.of_key(key)), Some(of_key.clone()));
                    assert_eq!(map.of_key_mut(key).copied(), Some(of_key.1));
                }
                assert_eq!(own(map.after(key)), other(model.range::<[u8], _>((Excluded(key), Unbounded)).next()));
                assert_eq!(own(map.before(key)), other(model.range::<[u8], _>((Unbounded, Excluded(key))).next_back()));
                assert_eq!(own(map.last()), other(model.last_key_value()));
                assert_eq!(map.len(), model.len());
                if step % 1_000 == 0 {
                    assert!(map.iter().eq(model.iter().map(|(bound, leaf)| (&**bound, leaf))));
                    assert!(map.iter_from_end().eq(model.iter().rev().map(|(bound, leaf)| (&**bound, leaf))));
                    assert!(map.clone().into_leaves().into_iter().eq(model.clone()));
                }
            }
        }
    }
}
