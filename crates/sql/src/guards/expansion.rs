//! The limit on queries of WITH that multiply where they are used.
//!
//! The planner replaces each use of a WITH name by a copy of its query. So forty names that each use the previous one
//! twice are a short and shallow text, but a plan of a trillion nodes. We therefore compute the size that a statement
//! grows to before we plan it.

use std::ops::ControlFlow;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_query::syntax_walk::SyntaxTree;
use sqlparser::ast::{Expr, Ident, ObjectName, Query, Visitor};

use super::statement::StatementLimits;

/// The number of expression terms that cost as much as one table in a plan.
const TERMS_PER_TABLE: u64 = 100;

/// Refuses a statement or query that exceeds the limit of terms once each name of a WITH clause is replaced by its
/// query.
///
/// Names are compared byte by byte: the caller must have brought them into one case.
pub(crate) fn check_expansion(tree: &impl SyntaxTree, limits: &StatementLimits) -> Result<()> {
    let mut counter = ExpansionCounter { levels: vec![QueryLevel::default()] };
    let _ = tree.walk(&mut counter);
    let terms = counter.levels[0].terms;
    if terms <= limits.terms {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::StatementTooComplex,
        format!(
            "the statement grows to {terms} terms when the queries of its WITH clauses take the place of their names, \
             the limit is {} (expression_terms_max)",
            limits.terms
        ),
    )
    .hint("keep an intermediate result with CREATE TABLE name AS SELECT ..."))
}

/// A query that the walk is in.
#[derive(Default)]
struct QueryLevel {
    terms: u64,
    /// The finished names of its WITH clause, each with the terms of its query.
    known: Vec<(String, u64)>,
    /// The names whose queries the walk has not visited yet, in reverse order.
    coming: Vec<String>,
}

struct ExpansionCounter {
    levels: Vec<QueryLevel>,
}

impl ExpansionCounter {
    fn level(&mut self) -> &mut QueryLevel {
        self.levels.last_mut().expect("the statement itself is the outermost level")
    }

    fn terms_of(&self, name: &ObjectName) -> u64 {
        // A qualified name is never a WITH name.
        let [part] = name.0.as_slice() else { return TERMS_PER_TABLE };
        let Some(Ident { value, .. }) = part.as_ident() else { return TERMS_PER_TABLE };
        // Inner levels come first, because an inner name hides an outer one.
        let known = self.levels.iter().rev().flat_map(|level| level.known.iter().rev());
        known.filter(|(known, _)| known == value).map(|(_, terms)| *terms).next().unwrap_or(TERMS_PER_TABLE)
    }
}

impl Visitor for ExpansionCounter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let names = query.with.iter().flat_map(|with| &with.cte_tables).map(|table| table.alias.name.value.clone());
        let mut coming: Vec<String> = names.collect();
        // `pop` takes from the end, so the first name must be last.
        coming.reverse();
        self.levels.push(QueryLevel { coming, ..QueryLevel::default() });
        ControlFlow::Continue(())
    }

    /// Adds up a query that ends. The walk visits the queries of a WITH clause first and in order, so each of them
    /// belongs to the next name of the clause.
    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        let ended = self.levels.pop().expect("pushed before");
        let terms = ended.terms.saturating_add(1);
        // A query without a pending name is a subquery or the main query: its terms count where it is used.
        let level = self.level();
        match level.coming.pop() {
            Some(name) => level.known.push((name, terms)),
            None => level.terms = level.terms.saturating_add(terms),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        let terms = self.terms_of(name);
        let level = self.level();
        level.terms = level.terms.saturating_add(terms);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _expr: &Expr) -> ControlFlow<()> {
        let level = self.level();
        level.terms = level.terms.saturating_add(1);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    use super::*;

    fn terms(sql: &str) -> u64 {
        let statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        let mut counter = ExpansionCounter { levels: vec![QueryLevel::default()] };
        let _ = statements[0].walk(&mut counter);
        counter.levels[0].terms
    }

    #[test]
    fn a_name_of_with_counts_as_many_terms_as_its_query() {
        assert_eq!(terms("SELECT 1"), 2);
        assert_eq!(terms("SELECT 1 FROM t"), 102);
        assert_eq!(terms("WITH a AS (SELECT 1) SELECT 1 FROM a, a b"), 2 + 2 * 2);
        assert_eq!(terms("WITH a AS (SELECT 1), b AS (SELECT 2 FROM a, a c) SELECT 1 FROM b, b d"), 2 + 2 * 6);
        // A subquery in between is not the next name's query, and an inner name hides an outer one.
        assert_eq!(terms("WITH a AS (SELECT (SELECT 1)) SELECT 1 FROM a"), 2 + 4);
        assert_eq!(terms("WITH a AS (SELECT 1 FROM t) SELECT 1 FROM (WITH a AS (SELECT 1) SELECT 1 FROM a) s"), 2 + 4);
        let doubling: Vec<String> = (0..64).map(|i| format!("c{} AS (SELECT 1 FROM c{i}, c{i} b)", i + 1)).collect();
        assert_eq!(terms(&format!("WITH c0 AS (SELECT 1), {} SELECT 1 FROM c64", doubling.join(","))), u64::MAX);
    }
}
