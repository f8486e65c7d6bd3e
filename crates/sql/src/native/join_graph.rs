//! Inner joins before they have an order.
//!
//! A chain of inner joins is a set of relations and of conditions between them: which pairs are formed first is free, and
//! decides what a query costs. Equalities are kept as classes of expressions that are all equal, so that of `a = b` and
//! `b = c` the relations of `a` and `c` can be joined as well.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ExprSchemable};
use rowmill_plan::Node;
use rowmill_plan::join_order::{self, JoinColumn, JoinEdge, JoinPredicate, JoinRelation, JoinTree, join_order};

use super::join::{JoinSpec, Kept, stored_column};
use super::lowering::Lowerer;
use super::rows::{Rows, Source};

/// Values are unique in a relation if at least this share of its rows has one of its own, as far as is known.
const UNIQUE_SHARE: f64 = 0.95;
/// The share of pairs for which a condition is true of which nothing is known.
const CONDITION_SHARE: f64 = 0.3;

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

    /// The relations that a condition reads.
    fn relations_of(&self, condition: &Expr) -> Vec<usize> {
        let names = condition.column_refs();
        let reads = |relation: &Rows| names.iter().any(|name| relation.schema.maybe_index_of_column(name).is_some());
        let relations = self.relations.iter().enumerate().filter(|(_, relation)| reads(relation));
        relations.map(|(place, _)| place).collect()
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
        if !self.apply_single(&mut graph)? {
            return Ok(None);
        }
        let Some(tree) = join_order(&self.shape_of(&graph)) else { return Ok(None) };
        let mut wanted: Vec<Expr> = rows.exprs.iter().chain(more).cloned().collect();
        wanted.retain(|expr| !expr.column_refs().is_empty());
        let joined = self.in_order(&tree, &graph, &wanted)?;
        Ok(joined.map(|joined| Rows { exprs: rows.exprs, ..joined }))
    }

    /// Has every relation meet the conditions that are on it alone; whether it can.
    fn apply_single(&mut self, graph: &mut JoinGraph) -> Result<bool> {
        let (between, single): (Vec<Expr>, Vec<Expr>) = std::mem::take(&mut graph.conditions)
            .into_iter()
            .partition(|condition| graph.relations_of(condition).len() > 1);
        graph.conditions = between;
        for condition in single {
            // One that is on no relation is true of all or none.
            let relation = graph.relations_of(&condition).first().copied().unwrap_or_default();
            let rows = graph.relations[relation].clone();
            let Some(condition) = self.expr(condition, &DataType::Boolean, &rows)? else { return Ok(false) };
            let input = Arc::clone(rows.node());
            graph.relations[relation] = rows.over(Node::Filter { input, condition });
        }
        Ok(true)
    }

    /// What the order of joins goes by. The column of an expression is its number among all of the classes.
    fn shape_of(&self, graph: &JoinGraph) -> join_order::JoinGraph {
        let mut relations: Vec<JoinRelation> = graph.relations.iter().map(|rows| self.relation(rows)).collect();
        let mut edges = Vec::new();
        // By relation, which of its stored columns has which number.
        let mut numbers = vec![HashMap::new(); relations.len()];
        let mut number = 0;
        for class in &graph.classes {
            let mut members: Vec<JoinColumn> = Vec::with_capacity(class.len());
            for expr in class {
                let relation = graph.relation_of(expr).expect("what is equal is over one relation each");
                let distinct = self.distinct_count(&graph.relations[relation], expr);
                if distinct >= relations[relation].rows_unfiltered * UNIQUE_SHARE {
                    relations[relation].keys.push(vec![number]);
                }
                if let Some(place) = stored_column(&graph.relations[relation], expr) {
                    numbers[relation].insert(place, number);
                }
                members.push(JoinColumn { relation, column: number, distinct });
                number += 1;
            }
            // Each is joined to one of another relation before it.
            for (place, right) in members.iter().enumerate() {
                let left = members[..place].iter().find(|left| left.relation != right.relation);
                edges.extend(left.map(|left| JoinEdge { left: *left, right: *right }));
            }
            // The first ones may all be of one relation.
            let first = members.iter().take_while(|member| member.relation == members[0].relation).count();
            if let Some(other) = members.get(first) {
                edges.extend(members[1..first].iter().map(|left| JoinEdge { left: *left, right: *other }));
            }
        }
        for ((relation, rows), numbers) in relations.iter_mut().zip(&graph.relations).zip(&numbers) {
            let of_key = |key: Vec<usize>| key.iter().map(|place| numbers.get(place).copied()).collect::<Option<_>>();
            relation.keys.extend(self.unique_keys(rows).into_iter().filter_map(of_key));
        }
        let predicates = graph
            .conditions
            .iter()
            .map(|condition| JoinPredicate { relations: graph.relations_of(condition), selectivity: CONDITION_SHARE });
        join_order::JoinGraph { predicates: predicates.collect(), relations, edges }
    }

    fn relation(&self, rows: &Rows) -> JoinRelation {
        let (rows, rows_unfiltered) = (self.rows_of(rows), self.rows_unfiltered(rows));
        JoinRelation { rows, rows_unfiltered: rows_unfiltered.max(rows), keys: Vec::new() }
    }

    /// The joins of `tree`, with what of `wanted` and of the conditions behind them their result is needed for.
    fn in_order(&mut self, tree: &JoinTree, graph: &JoinGraph, wanted: &[Expr]) -> Result<Option<Rows>> {
        let join = match tree {
            JoinTree::Relation { relation, .. } => return Ok(Some(graph.relations[*relation].clone())),
            JoinTree::Join(join) => join,
        };
        let expr =
            |column: &JoinColumn| graph.classes.iter().flatten().nth(column.column).expect("a number of ours").clone();
        let on: Vec<(Expr, Expr)> = join.on.iter().map(|(build, probe)| (expr(build), expr(probe))).collect();
        let conditions: Vec<Expr> = join.predicates.iter().map(|place| graph.conditions[*place].clone()).collect();
        let kept = wanted.iter().flat_map(Expr::column_refs).map(|column| column.name.clone()).collect();
        let below: Vec<Expr> = wanted
            .iter()
            .chain(on.iter().flat_map(|(build, probe)| [build, probe]))
            .chain(&conditions)
            .cloned()
            .collect();
        let Some(build) = self.in_order(&join.build, graph, &below)? else { return Ok(None) };
        let Some(probe) = self.in_order(&join.probe, graph, &below)? else { return Ok(None) };
        let (kept, rows) = (Kept::Only(kept), Some(join.rows));
        self.join_rows(JoinSpec { on, conditions, kept, rows, ..JoinSpec::inner() }, build, probe)
    }
}
