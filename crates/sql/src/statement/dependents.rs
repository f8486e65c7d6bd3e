//! Dependents: the views that read a relation.
//!
//! A view is kept as the text of its query. To find what it reads, we parse the text: it reads every relation that it
//! names, except its own `WITH` names. No statement may leave a view that can no longer be planned. So `DROP` refuses,
//! or with `CASCADE` drops the views too. Every other statement makes its change and then plans the views again over
//! the result.
//!
//! Because we keep the text, a view over `SELECT *` follows changes of its table's columns.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, Settings, ViewId};
use rowmill_txn::{Catalog, Snapshot, ViewDef};
use sqlparser::ast::{ObjectName, Query, Visitor};

use super::relation::{self, RelationId};
use crate::names::{Spellings, qualified};
use crate::parse::{self, StatementBody};
use crate::session::Work;
use crate::walk::walk;

/// The views that read some relations, directly or through other views.
#[derive(Debug, Default)]
pub(super) struct Dependents(Vec<Arc<ViewDef>>);

impl Dependents {
    /// Returns the views that read one of `relations`, without these themselves. The nearest come first.
    pub(super) fn of(catalog: &Catalog, relations: impl IntoIterator<Item = RelationId>) -> Dependents {
        let reads: Vec<(Arc<ViewDef>, BTreeSet<RelationId>)> = catalog
            .schemas()
            .flat_map(|schema| catalog.views(schema.id))
            .map(|view| (Arc::clone(view), read_by(catalog, &view.sql)))
            .collect();
        let mut reached: BTreeSet<RelationId> = relations.into_iter().collect();
        let mut found: Vec<Arc<ViewDef>> = Vec::new();
        // Each round adds the views that read a view of the round before, until no new one is found.
        loop {
            let next: Vec<Arc<ViewDef>> = reads
                .iter()
                .filter(|(view, read)| !reached.contains(&RelationId::View(view.id)) && !read.is_disjoint(&reached))
                .map(|(view, _)| Arc::clone(view))
                .collect();
            // Each view is found once, so this ends even if stored views read each other in a circle.
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

    /// Returns an error if any view exists: `what` cannot be done while views read the relation.
    pub(super) fn refuse(&self, what: &str, hint: &str) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::DependentObjects, format!("{what}: {} it", self.readers())).hint(hint))
    }

    /// Returns an error if a view can no longer be planned over `after`, the state after a change.
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

    /// Formats the views: `view "a" reads` or `views "a", "b" read`.
    fn readers(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|view| format!("\"{}\"", view.name)).collect();
        match names.as_slice() {
            [only] => format!("view {only} reads"),
            several => format!("views {} read", several.join(", ")),
        }
    }
}

/// Returns the relations that the query of a view names. A text that no longer parses reads nothing: another version
/// wrote it, and a statement that uses the view reports the error.
pub(super) fn read_by(catalog: &Catalog, sql: &str) -> BTreeSet<RelationId> {
    let Ok(statements) = parse::parse(sql, &Settings::default()) else { return BTreeSet::new() };
    let mut names = RelationNames::default();
    for statement in &statements {
        if let StatementBody::Sql(body) = statement.body() {
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

/// Collects the names of relations, without the names of an enclosing `WITH`.
#[derive(Default)]
struct RelationNames {
    found: Vec<ObjectName>,
    /// The `WITH` names of the queries that the visitor is in.
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
            let StatementBody::Sql(body) = statement.body() else { panic!("a query") };
            let _ = walk(body.as_ref(), &mut names);
        }
        names.found.iter().map(ObjectName::to_string).collect()
    }

    #[test]
    fn relations_are_found_in_every_part_of_a_query() {
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
