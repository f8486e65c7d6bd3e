//! Sets of columns as bit sets.

use rowmill_plan::ColumnId;

/// A set of columns of one statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnSet(Vec<u64>);

impl ColumnSet {
    /// Adds a column and returns whether it was new.
    pub(crate) fn insert(&mut self, id: ColumnId) -> bool {
        let (word, bit) = (id.0 / 64, 1 << (id.0 % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Removes a column.
    pub(crate) fn remove(&mut self, id: ColumnId) {
        if let Some(word) = self.0.get_mut(id.0 / 64) {
            *word &= !(1 << (id.0 % 64));
        }
    }

    /// Whether a column is in the set.
    pub(crate) fn contains(&self, id: ColumnId) -> bool {
        self.0.get(id.0 / 64).is_some_and(|word| word & (1 << (id.0 % 64)) != 0)
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Whether both have a column in common.
    pub(crate) fn intersects(&self, other: &ColumnSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Whether all columns of this set are in `other`.
    pub(crate) fn is_subset(&self, other: &ColumnSet) -> bool {
        self.0.iter().enumerate().all(|(at, word)| word & !other.0.get(at).copied().unwrap_or(0) == 0)
    }

    /// Adds all columns of `other`.
    pub(crate) fn add_all(&mut self, other: &ColumnSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    /// Removes all columns of `other`.
    pub(crate) fn remove_all(&mut self, other: &ColumnSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= !b);
    }

    /// The columns in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ColumnId> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let word = *word;
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| ColumnId(at * 64 + bit))
        })
    }
}

impl FromIterator<ColumnId> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = ColumnId>>(ids: I) -> ColumnSet {
        let mut set = ColumnSet::default();
        ids.into_iter().for_each(|id| {
            set.insert(id);
        });
        set
    }
}
