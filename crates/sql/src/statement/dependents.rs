//! Which views read a relation.
//!
//! A view is kept as the text of its query, so what it reads is found by parsing it: every relation that it names and
//! that is not one of its own `WITH` names. The rule for statements that change what views stand on: nothing may leave
//! a view behind that can no longer be planned. `DROP` refuses, or with `CASCADE` drops the views as well; everything
//! else makes its change and then plans the views again over the result.
//!
//! The text form has one more consequence: a view over `SELECT *` follows its table's columns.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, Settings, ViewId};
use rowmill_txn::{Catalog, Snapshot, ViewDef};
use sqlparser::ast::{ObjectName, Query, Visitor};

use super::relation::{self, RelationId};
use crate::names::{Spellings, qualified};
use crate::parse::{self, Body};
use crate::session::Work;
use crate::walk::walk;

/// The views that read some relations, directly or through other views.
#[derive(Debug, Default)]
pub(super) struct Dependents(Vec<Arc<ViewDef>>);

impl Dependents {
    /// The views that read one of `relations`, themselves excluded. Nearest first.
    pub(super) fn of(catalog: &Catalog, relations: impl IntoIterator<Item = RelationId>) -> Dependents {
        let reads: Vec<(Arc<ViewDef>, BTreeSet<RelationId>)> = catalog
            .schemas()
            .flat_map(|schema| catalog.views(schema.id))
            .map(|view| (Arc::clone(view), read_by(catalog, &view.sql)))
            .collect();
        let mut reached: BTreeSet<RelationId> = relations.into_iter().collect();
        let mut found: Vec<Arc<ViewDef>> = Vec::new();
        loop {
            let next: Vec<Arc<ViewDef>> = reads
                .iter()
                .filter(|(view, read)| !reached.contains(&RelationId::View(view.id)) && !read.is_disjoint(&reached))
                .map(|(view, _)| Arc::clone(view))
                .collect();
            if next.is_empty() {
                return Dependents(found);
            }
            reached.extend(next.iter().map(|view| RelationId::View(view.id)));
            found.extend(next);
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ViewId> + '_ {
        self.0.iter().map(|view| view.id)
    }

    /// An error if there are any: `what` cannot be done as long as they read it.
    pub(super) fn refuse(&self, what: &str, hint: &str) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::DependentObjects, format!("{what}: {} it", self.readers())).hint(hint))
    }

    /// An error if one of them cannot be planned over `after`, the state that a change would leave behind.
    pub(super) fn check(&self, work: &Work<'_>, after: &Arc<Snapshot>) -> Result<()> {
        for view in &self.0 {
            if let Err(error) = work.plan_view(view, after) {
                let message = format!("view \"{}\" would no longer work: {}", view.name, error.message());
                return Err(Error::new(ErrorKind::DependentObjects, message)
                    .hint(format!("drop or replace the view first: DROP VIEW {}", view.name)));
            }
        }
        Ok(())
    }

    /// `view "a" reads` or `views "a" and "b" read`
    fn readers(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|view| format!("\"{}\"", view.name)).collect();
        match names.as_slice() {
            [only] => format!("view {only} reads"),
            several => format!("views {} read", several.join(", ")),
        }
    }
}

/// The relations that the query of a view names. Text that no longer parses reads nothing: it was written by another
/// version, and the statement that uses the view will say so.
pub(super) fn read_by(catalog: &Catalog, sql: &str) -> BTreeSet<RelationId> {
    let Ok(statements) = parse::parse(sql, &Settings::default()) else { return BTreeSet::new() };
    let mut names = RelationNames::default();
    for statement in &statements {
        if let Body::Sql(body) = statement.body() {
            let _ = walk(body.as_ref(), &mut names);
        }
    }
    names
        .found
        .iter()
        .filter_map(|name| qualified(name, &Spellings::default()).ok())
        .filter_map(|name| relation::find(catalog, &name))
        .map(|relation| RelationId::from(&relation))
        .collect()
}

/// Collects the names of relations that are not names of a `WITH` around them.
#[derive(Default)]
struct RelationNames {
    found: Vec<ObjectName>,
    /// The `WITH` names of the queries that the visitor is inside of.
    with: Vec<Vec<String>>,
}

impl Visitor for RelationNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let names = query.with.iter().flat_map(|with| &with.cte_tables);
        self.with.push(names.map(|table| table.alias.name.value.clone()).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.with.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let is_with = match relation.0.as_slice() {
            [only] => only.as_ident().is_some_and(|name| self.with.iter().flatten().any(|with| *with == name.value)),
            _ => false,
        };
        if !is_with {
            self.found.push(relation.clone());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn relations(sql: &str) -> Vec<String> {
        let statements = parse::parse(sql, &Settings::default()).unwrap();
        let mut names = RelationNames::default();
        for statement in &statements {
            let Body::Sql(body) = statement.body() else { panic!("a query") };
            let _ = walk(body.as_ref(), &mut names);
        }
        names.found.iter().map(ObjectName::to_string).collect()
    }

    #[test]
    fn relations_are_found_wherever_they_stand() {
        assert_eq!(
            relations(
                "SELECT (SELECT max(x) FROM A) FROM s.b JOIN c ON true WHERE y IN (SELECT z FROM d) UNION TABLE e"
            ),
            ["a", "s.b", "c", "d"]
        );
    }

    #[test]
    fn names_of_a_with_are_not_relations() {
        assert_eq!(relations("WITH a AS (SELECT 1 FROM b) SELECT * FROM a, main.a"), ["b", "main.a"]);
    }
}
