//! The conditions of one query on one table, prepared for its blocks.

use rowmill_base::Result;
use rowmill_plan::Predicate;
use rowmill_storage::TableSource;

use super::condition::{Condition, conjuncts};
use crate::column_bounds::column_bounds;

/// The conditions that rows must meet.
///
/// A condition that can fail is tested after all others, and only for rows that meet these: SQL promises that
/// `b <> 0 AND a / b > 1` does not fail.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// The conditions as they were given, for rows that are not in blocks. Those that can fail come last.
    predicates: Vec<Predicate>,
    /// The conditions that cannot fail, prepared for blocks. All of them must be true.
    conjuncts: Vec<Condition>,
    /// The number of conditions on single columns among `conjuncts`.
    tests: usize,
    /// The number of conditions that cannot fail among `predicates`.
    safe: usize,
}

impl Filter {
    /// The filter for rows of a table for which all of `predicates` are true.
    pub(crate) fn new(source: &dyn TableSource, predicates: Vec<Predicate>) -> Result<Filter> {
        let table = source.table();
        let (mut predicates, mut fallible) = (predicates, Vec::new());
        if predicates.iter().any(|predicate| predicate.can_fail(&|_| None)) {
            // The values in the table may prove that no row fails, for example that no product is too large.
            let mut columns = Vec::new();
            predicates.iter().for_each(|predicate| predicate.collect_columns(&mut columns));
            let bounds = columns.iter().map(|column| column_bounds(source, *column)).collect::<Result<Vec<_>>>()?;
            let of_column = |wanted: usize| {
                let place = columns.iter().position(|column| *column == wanted)?;
                bounds[place]
            };
            (fallible, predicates) = predicates.into_iter().partition(|predicate| predicate.can_fail(&of_column));
        }
        let mut conjuncts = conjuncts(&predicates, &|column| &table.columns[column].kind);
        let mut tests = 0;
        conjuncts.iter_mut().for_each(|conjunct| conjunct.number(&mut tests));
        let safe = predicates.len();
        predicates.append(&mut fallible);
        Ok(Filter { predicates, conjuncts, tests, safe })
    }

    /// Whether every row passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.predicates.is_empty()
    }

    /// Whether testing a row can fail. The caller must then not leave out rows for other reasons, or an error would be
    /// lost.
    pub(crate) fn can_fail(&self) -> bool {
        self.safe < self.predicates.len()
    }

    /// The columns that the conditions read, each once.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        self.predicates.iter().for_each(|predicate| predicate.collect_columns(&mut columns));
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Whether the column's value list alone says which rows pass. A condition that can fail must be tested by rows.
    pub(crate) fn reads_only(&self, column: usize) -> bool {
        !self.can_fail() && self.columns().iter().all(|read| *read == column)
    }

    /// The conditions that cannot fail, as they were given.
    pub(crate) fn safe_predicates(&self) -> &[Predicate] {
        &self.predicates[..self.safe]
    }

    /// The conditions that can fail, in the order in which they must be tested.
    pub(crate) fn fallible_predicates(&self) -> &[Predicate] {
        &self.predicates[self.safe..]
    }

    pub(super) fn conjuncts(&self) -> &[Condition] {
        &self.conjuncts
    }

    /// The number of conditions on single columns. They are numbered from 0.
    pub(super) fn tests(&self) -> usize {
        self.tests
    }
}
