//! The conditions of one query on one table, made ready for its blocks.

use rowmill_plan::Predicate;
use rowmill_storage::TableDef;

use super::condition::{Condition, conjuncts};

/// What rows have to meet.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// As they were given, for rows that no block holds.
    predicates: Vec<Predicate>,
    /// The same, for blocks. All of them have to be true.
    conjuncts: Vec<Condition>,
    /// Conditions on single columns among them.
    tests: usize,
}

impl Filter {
    /// The rows of `table` for which all of `predicates` are true.
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

    /// The columns that decide which rows pass, each once.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        self.predicates.iter().for_each(|predicate| predicate.collect_columns(&mut columns));
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Whether no other column decides which rows pass.
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

    /// Conditions on single columns, which are numbered up to here.
    pub(super) fn tests(&self) -> usize {
        self.tests
    }
}
