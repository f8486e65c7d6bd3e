//! Sets of columns, as bit sets over their ids.

use rowmill_plan::{ColumnId, ExprOp, ScalarExpr};

/// A set of columns of one statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnSet {
    words: Vec<u64>,
}

impl ColumnSet {
    /// Adds a column and returns whether it was new.
    pub(crate) fn insert(&mut self, id: ColumnId) -> bool {
        let (word, bit) = (id.0 / 64, 1 << (id.0 % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Removes a column.
    pub(crate) fn remove(&mut self, id: ColumnId) {
        if let Some(word) = self.words.get_mut(id.0 / 64) {
            *word &= !(1 << (id.0 % 64));
        }
    }

    /// Whether a column is in the set.
    pub(crate) fn contains(&self, id: ColumnId) -> bool {
        self.words.get(id.0 / 64).is_some_and(|word| word & (1 << (id.0 % 64)) != 0)
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether both have a column in common.
    pub(crate) fn intersects(&self, other: &ColumnSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether all columns of this set are in `other`.
    pub(crate) fn is_subset(&self, other: &ColumnSet) -> bool {
        self.words.iter().enumerate().all(|(at, word)| word & !other.words.get(at).copied().unwrap_or(0) == 0)
    }

    /// Adds all columns of `other`.
    pub(crate) fn add_all(&mut self, other: &ColumnSet) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    /// Removes all columns of `other`.
    pub(crate) fn remove_all(&mut self, other: &ColumnSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= !b);
    }

    /// Adds every column that `expr` reads, except in its subqueries.
    pub(crate) fn add_columns_of(&mut self, expr: &ScalarExpr) {
        expr.each(&mut |part| {
            if let ExprOp::Column(id) = part.op {
                self.insert(ColumnId(id));
            }
        });
    }

    /// The columns in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ColumnId> + '_ {
        let bits = |word: u64| (0..64).filter(move |bit| word >> bit & 1 == 1);
        self.words.iter().enumerate().flat_map(move |(at, word)| bits(*word).map(move |bit| ColumnId(at * 64 + bit)))
    }
}

impl Extend<ColumnId> for ColumnSet {
    fn extend<I: IntoIterator<Item = ColumnId>>(&mut self, ids: I) {
        for id in ids {
            self.insert(id);
        }
    }
}

impl FromIterator<ColumnId> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = ColumnId>>(ids: I) -> ColumnSet {
        let mut set = ColumnSet::default();
        set.extend(ids);
        set
    }
}

/// The columns that `exprs` read.
pub(crate) fn columns_of<'e>(exprs: impl IntoIterator<Item = &'e ScalarExpr>) -> ColumnSet {
    let mut set = ColumnSet::default();
    exprs.into_iter().for_each(|expr| set.add_columns_of(expr));
    set
}
