//! Inner joins before they have an order.
//!
//! A chain of inner joins is a set of relations and of conditions between them: which pairs are formed first is free, and
//! decides what a query costs. Equalities are kept as classes of expressions that are all equal, so that of `a = b` and
//! `b = c` the relations of `a` and `c` can be joined as well.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable};
use rowmill_plan::join_order::{Equality, JoinTree, Relation, order};

use super::join::{JoinSpec, Kept};
use super::lowering::Lowerer;
use super::rows::{Rows, Source};

/// Relations of which all combinations are formed that fulfil the conditions.
#[derive(Clone)]
pub(super) struct JoinGraph {
    relations: Vec<Rows>,
    /// Expressions that are equal, each over one relation, and all of a class of one type.
    classes: Vec<Vec<Expr>>,
    /// Whatever else has to be true.
    conditions: Vec<Expr>,
}

impl JoinGraph {
    /// The relations behind `rows`, and what holds between them.
    fn of(rows: &Rows) -> JoinGraph {
        match &rows.source {
            Source::Joins(graph) => JoinGraph::clone(graph),
            Source::Operator(_) => {
                JoinGraph { relations: vec![rows.clone()], classes: Vec::new(), conditions: Vec::new() }
            }
        }
    }

    /// Adds that two expressions are equal.
    fn equate(&mut self, left: Expr, right: Expr) {
        let has = |expr: &Expr| self.classes.iter().position(|class| class.contains(expr));
        match (has(&left), has(&right)) {
            (Some(left), Some(right)) if left == right => {}
            (Some(left), Some(right)) => {
                let (first, second) = (left.min(right), left.max(right));
                let merged = self.classes.remove(second);
                self.classes[first].extend(merged);
            }
            (Some(class), None) => self.classes[class].push(right),
            (None, Some(class)) => self.classes[class].push(left),
            (None, None) => self.classes.push(vec![left, right]),
        }
    }

    /// The relation that `expr` is over; `None` if it is over several or none.
    fn relation_of(&self, expr: &Expr) -> Option<usize> {
        if expr.column_refs().is_empty() {
            return None;
        }
        self.relations.iter().position(|relation| relation.has(expr))
    }
}

/// An inner join of `left` and `right` on equal expressions (of the left, of the right) and other conditions, all over
/// the columns of both; `None` if it is none that can wait.
pub(super) fn inner_join(
    left: &Rows,
    right: &Rows,
    equal: &[(Expr, Expr)],
    conditions: Vec<Expr>,
    exprs: Vec<Expr>,
) -> Result<Option<Rows>> {
    let mut graph = JoinGraph::of(left);
    let JoinGraph { relations, classes, conditions: more } = JoinGraph::of(right);
    graph.relations.extend(relations);
    graph.classes.extend(classes);
    graph.conditions.extend(more);
    let schema = Arc::new(left.schema.join(&right.schema)?);
    for (left, right) in equal {
        let kind = left.get_type(&*schema)?;
        if kind != right.get_type(&*schema)? || kind.is_nested() {
            return Ok(None);
        }
        match (graph.relation_of(left), graph.relation_of(right)) {
            (Some(_), Some(_)) => graph.equate(left.clone(), right.clone()),
            _ => graph.conditions.push(left.clone().eq(right.clone())),
        }
    }
    graph.conditions.extend(conditions);
    Ok(Some(Rows { source: Source::Joins(Arc::new(graph)), schema, exprs, works: true }))
}

impl Rows {
    /// The same rows, of which only those for which `condition` is true; `None` if this is not a join that waits.
    pub(super) fn joined_where(&self, condition: &Expr) -> Option<Rows> {
        let Source::Joins(graph) = &self.source else { return None };
        let mut graph = JoinGraph::clone(graph);
        graph.conditions.push(condition.clone());
        Some(Rows { source: Source::Joins(Arc::new(graph)), ..self.clone() })
    }
}

impl Lowerer<'_> {
    /// `rows` as an operator. `more` are expressions besides those of the logical plan that will be asked for.
    pub(super) fn settled(&mut self, rows: Rows, more: &[Expr]) -> Result<Option<Rows>> {
        let Source::Joins(graph) = &rows.source else { return Ok(Some(rows)) };
        let mut graph = JoinGraph::clone(graph);
        let relations = graph.relations.iter().map(|relation| Relation { rows: self.rows_of(relation) });
        let relations: Vec<Relation> = relations.collect();
        let tree = order(&relations, &self.equalities(&graph));
        let wanted: Vec<Expr> = rows.exprs.iter().chain(more).cloned().collect();
        let Some(joined) = self.in_order(&tree, &mut graph, &wanted)? else { return Ok(None) };
        assert!(graph.conditions.is_empty(), "every condition is over the relations of the whole");
        Ok(Some(Rows { exprs: rows.exprs, ..joined }))
    }

    /// What the order of joins goes by.
    fn equalities(&self, graph: &JoinGraph) -> Vec<Equality> {
        let mut equalities = Vec::new();
        for class in &graph.classes {
            let members: Vec<(usize, f64)> = class
                .iter()
                .filter_map(|expr| {
                    let relation = graph.relation_of(expr)?;
                    Some((relation, self.distinct_count(&graph.relations[relation], expr)))
                })
                .collect();
            for (place, left) in members.iter().enumerate() {
                for right in &members[place + 1..] {
                    if left.0 != right.0 {
                        equalities.push(Equality { relations: [left.0, right.0], distinct: [left.1, right.1] });
                    }
                }
            }
        }
        equalities
    }

    /// The joins of `tree`, with what of `wanted` and of the conditions that are left their result is needed for.
    fn in_order(&mut self, tree: &JoinTree, graph: &mut JoinGraph, wanted: &[Expr]) -> Result<Option<Rows>> {
        let (build, probe) = match tree {
            JoinTree::Relation(relation) => return Ok(Some(graph.relations[*relation].clone())),
            JoinTree::Join { build, probe, .. } => (build, probe),
        };
        let Some(build) = self.in_order(build, graph, wanted)? else { return Ok(None) };
        let Some(probe) = self.in_order(probe, graph, wanted)? else { return Ok(None) };
        let mut on = Vec::new();
        for class in &graph.classes {
            let of = |rows: &Rows| class.iter().find(|expr| rows.has(expr)).cloned();
            if let (Some(left), Some(right)) = (of(&build), of(&probe)) {
                on.push((left, right));
            }
        }
        let schema: DFSchema = build.schema.join(&probe.schema)?;
        let is_known =
            |expr: &Expr| expr.column_refs().into_iter().all(|name| schema.maybe_index_of_column(name).is_some());
        let (conditions, later): (Vec<Expr>, Vec<Expr>) =
            std::mem::take(&mut graph.conditions).into_iter().partition(is_known);
        graph.conditions = later;
        let mut needed: Vec<&Expr> = wanted.iter().chain(&graph.conditions).collect();
        for class in &graph.classes {
            // One of them stands for the others once they are equal, but is asked for by any name.
            needed.extend(class);
        }
        let needed = needed.into_iter().flat_map(Expr::column_refs).map(|column| column.name.clone()).collect();
        self.join_rows(JoinSpec { on, conditions, kept: Kept::Only(needed), ..JoinSpec::inner() }, build, probe)
    }
}
