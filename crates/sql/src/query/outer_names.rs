//! Names in subqueries that several of the subquery's own tables have.
//!
//! The planner takes such a name, when it is written without a table, for a column of a query around the subquery. It is
//! ambiguous. What is meant from outside is written with its table; in subqueries over several tables that is marked, so
//! that what is left can be told:
//!
//! ```text
//! before planning   o.id in (SELECT ... FROM a, b ...)  -> as_written(o.id)
//! behind planning   a column from outside without the mark, of a name that two of the inputs have: refused
//! ```

use std::ops::ControlFlow;

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, VisitorMut,
};
use rowmill_base::{Error, ErrorKind};

use super::merged_columns::{AS_WRITTEN, as_written, qualifier};
use crate::errors::to_datafusion;
use crate::walk::{any_expr, walk_mut};

/// Marks what is written with a table of a query around, in subqueries over several tables. Whether there are such
/// subqueries: then [`refuse_ambiguous`] has to follow, and the marks have to be taken away.
pub(super) fn mark(statement: &mut Statement) -> bool {
    let mut marker = Marker::default();
    let _ = walk_mut(statement, &mut marker);
    marker.found
}

#[derive(Default)]
struct Marker {
    /// Of each query and SELECT around, its tables, if it is a subquery over several.
    scopes: Vec<Option<Vec<String>>>,
    queries: usize,
    found: bool,
}

impl Marker {
    fn scope(&mut self, select: &Select) -> Option<Vec<String>> {
        let mut tables = Vec::new();
        let all_named = select.from.iter().all(|from| add_tables(from, &mut tables));
        let is_meant = self.queries > 1 && all_named && tables.len() > 1;
        self.found |= is_meant;
        is_meant.then_some(tables)
    }

    fn is_outside(&self, expr: &Expr) -> bool {
        let (Some(Some(tables)), Expr::CompoundIdentifier(parts)) = (self.scopes.last(), expr) else { return false };
        let table = parts.len().checked_sub(2).and_then(|place| parts.get(place));
        table.is_some_and(|table| !tables.contains(&table.value))
    }
}

/// The names of the tables of `from`; false if one has none.
fn add_tables(from: &TableWithJoins, tables: &mut Vec<String>) -> bool {
    let relations = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    relations.into_iter().all(|relation| match (relation, qualifier(relation)) {
        (TableFactor::NestedJoin { table_with_joins, alias: None }, _) => add_tables(table_with_joins, tables),
        (_, Some(name)) => {
            tables.push(name);
            true
        }
        _ => false,
    })
}

impl VisitorMut for Marker {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        let scope = match query.body.as_ref() {
            SetExpr::Select(select) => self.scope(select),
            _ => None,
        };
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let scope = self.scope(select);
        self.scopes.push(scope);
        for item in &mut select.projection {
            // The item keeps the name that it has without the mark.
            if let SelectItem::UnnamedExpr(expr) = item
                && any_expr(expr, |part| self.is_outside(part))
            {
                let name = match &*expr {
                    Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, |part| part.value.clone()),
                    other => other.to_string(),
                };
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.is_outside(expr) {
            *expr = as_written(expr.clone());
        }
        ControlFlow::Continue(())
    }
}

/// An error for a name that was taken from a query around although several of the subquery's own tables have it.
pub(super) fn refuse_ambiguous(plan: &LogicalPlan) -> PlanResult<()> {
    plan.apply_with_subqueries(|node| {
        let own = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                match part {
                    PlanExpr::ScalarFunction(call) if call.func.name() == AS_WRITTEN => {
                        return Ok(TreeNodeRecursion::Jump);
                    }
                    PlanExpr::OuterReferenceColumn(_, column)
                        if own.fields_with_unqualified_name(&column.name).len() > 1 =>
                    {
                        let message = format!("\"{}\" is in more than one table of the subquery", column.name);
                        let error = Error::new(ErrorKind::AmbiguousColumn, message);
                        return Err(to_datafusion(error.hint("write the name of its table in front of it")));
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}
