//! NATURAL joins, as the USING that they mean.
//!
//! What the rewrites before planning know about merged columns they read from USING. Where the columns of a table are
//! not known before planning, NATURAL stays.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, Visitor, VisitorMut,
};

use crate::walk::{walk, walk_mut};

/// Replaces NATURAL where the columns of both sides are known.
pub(super) async fn spell_out(statement: &mut Statement, state: &SessionState) {
    let mut tables = Tables::default();
    let _ = walk(statement, &mut tables);
    if tables.natural.is_empty() {
        return;
    }
    let mut columns = HashMap::new();
    for name in tables.natural {
        let Some(reference) = reference(&name) else { continue };
        if tables.with.contains(reference.table()) {
            continue;
        }
        let Ok(schema) = state.schema_for_ref(reference.clone()) else { continue };
        if let Ok(Some(table)) = schema.table(reference.table()).await {
            let names = table.schema().fields().iter().map(|field| field.name().clone()).collect();
            columns.insert(name.to_string(), names);
        }
    }
    let _ = walk_mut(statement, &mut SpellOut { columns });
}

fn reference(name: &ObjectName) -> Option<TableReference> {
    let parts = name.0.iter().map(|part| Some(part.as_ident()?.value.clone())).collect::<Option<Vec<String>>>()?;
    match parts.as_slice() {
        [table] => Some(TableReference::bare(table.as_str())),
        [schema, table] => Some(TableReference::partial(schema.as_str(), table.as_str())),
        _ => None,
    }
}

/// The constraint of a join that gives the columns of both sides.
pub(super) fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint) => Some(constraint),
        _ => None,
    }
}

/// The tables that NATURAL joins read, and the names that WITH gives.
#[derive(Default)]
struct Tables {
    natural: Vec<ObjectName>,
    with: HashSet<String>,
}

impl Visitor for Tables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.with.extend(tables.map(|table| table.alias.name.value.clone()));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for from in &select.from {
            let is_natural = from
                .joins
                .iter()
                .any(|join| matches!(constraint(&mut join.join_operator.clone()), Some(JoinConstraint::Natural)));
            if is_natural {
                let relations = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
                self.natural.extend(relations.filter_map(|relation| match relation {
                    TableFactor::Table { name, args: None, .. } => Some(name.clone()),
                    _ => None,
                }));
            }
        }
        ControlFlow::Continue(())
    }
}

struct SpellOut {
    columns: HashMap<String, Vec<String>>,
}

impl VisitorMut for SpellOut {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for from in &mut select.from {
            self.spell_out(from);
        }
        ControlFlow::Continue(())
    }
}

impl SpellOut {
    fn spell_out(&self, from: &mut TableWithJoins) {
        let mut left = self.columns_of(&from.relation);
        for join in &mut from.joins {
            let right = self.columns_of(&join.relation);
            let Some(constraint) = constraint(&mut join.join_operator) else { return };
            let (Some(own), Some(right)) = (&mut left, right) else {
                left = None;
                continue;
            };
            if let JoinConstraint::Natural = constraint {
                let shared: Vec<&String> = own.iter().filter(|name| right.contains(name)).collect();
                let is_clear = shared.iter().all(|name| own.iter().filter(|other| other == name).count() == 1);
                if shared.is_empty() || !is_clear {
                    left = None;
                    continue;
                }
                let name = |name: &&String| ObjectName::from(vec![Ident::with_quote('"', name.as_str())]);
                *constraint = JoinConstraint::Using(shared.iter().map(name).collect());
            }
            let merged: Vec<String> = match constraint {
                JoinConstraint::Using(names) => {
                    let names = names.iter().filter_map(|name| name.0.last()?.as_ident());
                    names.map(|name| name.value.clone()).collect()
                }
                _ => Vec::new(),
            };
            own.extend(right.into_iter().filter(|name| !merged.contains(name)));
        }
    }

    fn columns_of(&self, relation: &TableFactor) -> Option<Vec<String>> {
        match relation {
            TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. }
                if !alias.columns.is_empty() =>
            {
                Some(alias.columns.iter().map(|column| column.name.value.clone()).collect())
            }
            TableFactor::Table { name, args: None, .. } => self.columns.get(&name.to_string()).cloned(),
            TableFactor::Derived { subquery, .. } => {
                let SetExpr::Select(select) = subquery.body.as_ref() else { return None };
                let name = |item: &SelectItem| match item {
                    SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
                    SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.value.clone()),
                    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => Some(parts.last()?.value.clone()),
                    _ => None,
                };
                select.projection.iter().map(name).collect()
            }
            _ => None,
        }
    }
}
