//! Dependents: the views and materialized views that read a relation.
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

use rowmill_base::{Error, ErrorKind, Result, Settings};
use rowmill_query::syntax_walk::SyntaxTree as _;
use rowmill_storage::TableDef;
use rowmill_txn::{Catalog, MaterializedView, Snapshot, Transaction, ViewDef};
use sqlparser::ast::{ObjectName, Query, Visitor};

use super::materialized_view::check_columns;
use super::relation::{self, RelationId, RelationKind};
use crate::names::{Spellings, qualified};
use crate::parse::{self, StatementBody};
use crate::session::Work;

/// The views that read some relations, directly or through other views.
#[derive(Debug, Default)]
pub(super) struct Dependents(Vec<Dependent>);

/// A view that reads a relation.
#[derive(Clone, Debug)]
enum Dependent {
    View(Arc<ViewDef>),
    Materialized(Arc<TableDef>, Arc<MaterializedView>),
}

impl Dependent {
    /// Returns all views and materialized views.
    fn all(catalog: &Catalog) -> Vec<Dependent> {
        let views = catalog.schemas().flat_map(|schema| catalog.views(schema.id));
        let materialized = catalog.materialized_views().filter_map(|view| {
            let table = catalog.table_by_id(view.table)?;
            Some(Dependent::Materialized(Arc::clone(table), Arc::clone(view)))
        });
        views.map(|view| Dependent::View(Arc::clone(view))).chain(materialized).collect()
    }

    fn id(&self) -> RelationId {
        match self {
            Dependent::View(view) => RelationId::View(view.id),
            Dependent::Materialized(table, _) => RelationId::Table(table.id),
        }
    }

    fn kind(&self) -> RelationKind {
        match self {
            Dependent::View(_) => RelationKind::View,
            Dependent::Materialized(..) => RelationKind::Materialized,
        }
    }

    fn name(&self) -> &str {
        match self {
            Dependent::View(view) => &view.name,
            Dependent::Materialized(table, _) => &table.name,
        }
    }

    fn sql(&self) -> &str {
        match self {
            Dependent::View(view) => &view.sql,
            Dependent::Materialized(_, view) => &view.sql,
        }
    }

    /// Returns an error if the view can no longer be planned over `after`.
    fn check(&self, work: &Work<'_>, after: &Arc<Snapshot>) -> Result<()> {
        match self {
            Dependent::View(view) => work.plan_view(view, after).map(|_| ()),
            Dependent::Materialized(table, view) => {
                let own = RelationId::Table(table.id);
                let readers = Dependents::of(after.catalog(), [own]);
                let read = read_by(after.catalog(), &view.sql);
                if read.contains(&own) || readers.ids().any(|reader| read.contains(&reader)) {
                    return Err(Error::new(ErrorKind::InvalidDefinition, "it would read itself"));
                }
                check_columns(work, after, table, view)
            }
        }
    }
}

impl Dependents {
    /// Returns the views that read one of `relations`, without these themselves. The nearest come first.
    pub(super) fn of(catalog: &Catalog, relations: impl IntoIterator<Item = RelationId>) -> Dependents {
        let reads = Dependent::all(catalog).into_iter().map(|view| {
            let read = read_by(catalog, view.sql());
            (view, read)
        });
        let reads: Vec<(Dependent, BTreeSet<RelationId>)> = reads.collect();
        let mut reached: BTreeSet<RelationId> = relations.into_iter().collect();
        let mut found: Vec<Dependent> = Vec::new();
        // Each round adds the views that read a view of the round before, until no new one is found.
        loop {
            let next: Vec<Dependent> = reads
                .iter()
                .filter(|(view, read)| !reached.contains(&view.id()) && !read.is_disjoint(&reached))
                .map(|(view, _)| view.clone())
                .collect();
            // Each view is found once, so this ends even if stored views read each other in a circle.
            if next.is_empty() {
                return Dependents(found);
            }
            reached.extend(next.iter().map(Dependent::id));
            found.extend(next);
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = RelationId> + '_ {
        self.0.iter().map(Dependent::id)
    }

    /// Lets the next refreshes of the materialized views compute all rows.
    pub(super) fn forget_refresh_points(&self, transaction: &mut Transaction) -> Result<()> {
        for dependent in &self.0 {
            if let Dependent::Materialized(_, view) = dependent {
                transaction.set_materialized(MaterializedView { refreshed: None, ..(**view).clone() })?;
            }
        }
        Ok(())
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
            if let Err(error) = view.check(work, after) {
                let (kind, name) = (view.kind().name(), view.name());
                let message = format!("{kind} \"{name}\" would no longer work: {}", error.message());
                return Err(Error::new(ErrorKind::DependentObjects, message)
                    .hint(format!("drop or replace the view first: DROP {} {name}", kind.to_uppercase())));
            }
        }
        Ok(())
    }

    /// Formats the views: `view "a" reads` or `views "a", "b" read`.
    fn readers(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|view| format!("\"{}\"", view.name())).collect();
        match names.as_slice() {
            [only] => format!("{} {only} reads", self.0[0].kind().name()),
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
            let _ = body.walk(&mut names);
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
            let _ = body.walk(&mut names);
        }
        names.found.iter().map(ObjectName::to_string).collect()
    }

    #[test]
    fn relations_are_found_in_every_part_of_a_query() {
        assert_eq!(
            relations(
                "SELECT (SELECT max(x) FROM A) FROM s.b JOIN c ON true WHERE y IN (SELECT z FROM d) UNION TABLE e"
            ),
            ["a", "s.b", "c", "d", "e"]
        );
    }

    #[test]
    fn names_of_a_with_are_not_relations() {
        assert_eq!(relations("WITH a AS (SELECT 1 FROM b) SELECT * FROM a, main.a"), ["b", "main.a"]);
    }
}
