//! Sets of columns, as bit sets over their ids.

use rowmill_plan::{ColumnId, ExprOp, ScalarExpr};

/// A set of columns of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnSet {
    words: Vec<u64>,
}

impl ColumnSet {
    /// Adds a column.
    pub(crate) fn insert(&mut self, id: ColumnId) {
        let (word, bit) = (id.0 / 64, id.0 % 64);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << bit;
    }

    /// Whether a column is in the set.
    pub(crate) fn contains(&self, id: ColumnId) -> bool {
        self.words.get(id.0 / 64).is_some_and(|word| word >> (id.0 % 64) & 1 == 1)
    }

    /// Adds every column that `expr` reads, except in its subqueries.
    pub(crate) fn insert_all(&mut self, expr: &ScalarExpr) {
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

    /// Adds every column of another set.
    pub(crate) fn extend(&mut self, other: &ColumnSet) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }
}

impl FromIterator<ColumnId> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = ColumnId>>(ids: I) -> ColumnSet {
        let mut set = ColumnSet::default();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

/// The columns that `exprs` read.
pub(crate) fn columns_of<'e>(exprs: impl IntoIterator<Item = &'e ScalarExpr>) -> ColumnSet {
    let mut set = ColumnSet::default();
    exprs.into_iter().for_each(|expr| set.insert_all(expr));
    set
}
