//! The conditions of one query on one table, prepared for its blocks.

use rowmill_plan::Predicate;
use rowmill_storage::TableDef;

use super::condition::{Condition, conjuncts};

/// The conditions that rows must meet.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// The conditions as they were given, for rows that are not in blocks.
    predicates: Vec<Predicate>,
    /// The conditions prepared for blocks. All of them must be true.
    conjuncts: Vec<Condition>,
    /// The number of conditions on single columns among them.
    tests: usize,
}

impl Filter {
    /// The filter for rows of `table` for which all of `predicates` are true.
    pub(crate) fn new(table: &TableDef, predicates: Vec<Predicate>) -> Filter {
        let mut conjuncts = conjuncts(&predicates, &|column| &table.columns[column].kind);
        let mut tests = 0;
        conjuncts.iter_mut().for_each(|conjunct| conjunct.number(&mut tests));
        Filter { predicates, conjuncts, tests }
    }

    /// Whether every row passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.conjuncts.is_empty()
    }

    /// The columns that the conditions read, each once.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        self.predicates.iter().for_each(|predicate| predicate.collect_columns(&mut columns));
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Whether the conditions read no other column.
    pub(crate) fn reads_only(&self, column: usize) -> bool {
        self.columns().iter().all(|read| *read == column)
    }

    /// The conditions as they were given.
    pub(crate) fn predicates(&self) -> &[Predicate] {
        &self.predicates
    }

    pub(super) fn conjuncts(&self) -> &[Condition] {
        &self.conjuncts
    }

    /// The number of conditions on single columns. They are numbered from 0.
    pub(super) fn tests(&self) -> usize {
        self.tests
    }
}
