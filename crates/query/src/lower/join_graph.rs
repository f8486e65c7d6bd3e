//! Inner joins before they have an order.
//!
//! A chain of inner joins is a set of relations and of conditions between them. We may join any pair first, and that
//! choice decides the cost of a query. Equalities are kept as classes of equal expressions. For example, from `a = b`
//! and `b = c` we know that the relations of `a` and `c` can be joined as well.

use std::collections::HashMap;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::join_order::{self, JoinColumn, JoinEdge, JoinPredicate, JoinRelation, JoinTree, join_order};
use rowmill_plan::{ColumnId, CompareOp, ExprOp, Node, ScalarExpr};

use super::Lowerer;
use super::join::JoinSpec;
use super::relation::{Relation, RelationSource};
use crate::column_set::{ColumnSet, columns_of};
use crate::estimate;

/// Values are unique in a relation if at least this share of its rows has one of its own, as far as is known.
const UNIQUE_SHARE: f64 = 0.95;
/// The assumed share of pairs for which a condition that we cannot estimate is true.
const CONDITION_SHARE: f64 = 0.3;

/// Relations to join: the result has all combinations of their rows that fulfil the conditions.
#[derive(Clone, Debug)]
pub(super) struct JoinGraph {
    relations: Vec<Relation>,
    /// Expressions that are equal, each over one relation.
    classes: Vec<Vec<ScalarExpr>>,
    /// Further conditions that must be true.
    conditions: Vec<ScalarExpr>,
}

impl JoinGraph {
    /// The relations that `relation` consists of, and what holds between them. Waiting expressions stay with the
    /// caller.
    fn of(relation: Relation) -> JoinGraph {
        match relation.source {
            RelationSource::Joins(graph) => *graph,
            RelationSource::Operator(_) => {
                let relation = Relation { derived: Vec::new(), ..relation };
                JoinGraph { relations: vec![relation], classes: Vec::new(), conditions: Vec::new() }
            }
        }
    }

    /// Adds conditions over the columns of all relations.
    pub(super) fn add_conditions(&mut self, conditions: Vec<ScalarExpr>) {
        for condition in conditions {
            match condition.op {
                ExprOp::And(parts) => self.add_conditions(parts),
                ExprOp::Compare(CompareOp::Equal, pair) if self.joins(&pair) => {
                    let [left, right] = *pair;
                    self.equate(left, right);
                }
                op => self.conditions.push(ScalarExpr { op, ..condition }),
            }
        }
    }

    /// Whether the two are expressions over one relation each, and can be keys of a join.
    fn joins(&self, pair: &[ScalarExpr; 2]) -> bool {
        let (left, right) = (self.relation_of(&pair[0]), self.relation_of(&pair[1]));
        left.is_some() && right.is_some() && left != right && !pair[0].kind.is_nested()
    }

    /// Adds that two expressions are equal.
    fn equate(&mut self, left: ScalarExpr, right: ScalarExpr) {
        let has = |expr: &ScalarExpr| self.classes.iter().position(|class| class.contains(expr));
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
    fn relation_of(&self, expr: &ScalarExpr) -> Option<usize> {
        self.relations.iter().position(|relation| relation.reads(expr) && relation.has_all(expr))
    }

    /// The relations that a condition reads.
    fn relations_of(&self, condition: &ScalarExpr) -> Vec<usize> {
        (0..self.relations.len()).filter(|place| self.relations[*place].reads(condition)).collect()
    }
}

impl Lowerer<'_> {
    /// An inner join, whose order waits.
    pub(super) fn inner_join(
        &mut self,
        left: Relation,
        right: Relation,
        conditions: &[ScalarExpr],
        needed: &ColumnSet,
    ) -> Relation {
        let conditions: Vec<ScalarExpr> =
            conditions.iter().map(|condition| right.resolve(&left.resolve(condition))).collect();
        let mut derived = left.derived.clone();
        derived.extend(right.derived.iter().cloned());
        derived.retain(|(id, _)| needed.contains(*id));
        let mut graph = JoinGraph::of(left);
        let JoinGraph { relations, classes, conditions: more } = JoinGraph::of(right);
        graph.relations.extend(relations);
        graph.classes.extend(classes);
        graph.conditions.extend(more);
        graph.add_conditions(conditions);
        let ids = graph.relations.iter().flat_map(|relation| relation.ids.iter().copied()).collect();
        Relation { source: RelationSource::Joins(Box::new(graph)), ids, derived }
    }

    /// `relation` as an operator. `needed` are columns that will be asked for.
    pub(super) fn settled(&mut self, relation: Relation, needed: &ColumnSet) -> Result<Relation> {
        let Relation { source, ids, mut derived } = relation;
        let mut graph = match source {
            RelationSource::Operator(_) => return Ok(Relation { source, ids, derived }),
            RelationSource::Joins(graph) => *graph,
        };
        derived.retain(|(id, _)| needed.contains(*id));
        self.apply_single(&mut graph)?;
        let shape = self.shape_of(&graph);
        let tree = join_order(&shape).ok_or_else(|| {
            Error::new(
                ErrorKind::StatementTooComplex,
                format!(
                    "a join of {} tables, where at most {} can be ordered",
                    graph.relations.len(),
                    join_order::JOINED_RELATIONS_MAX
                ),
            )
            .hint("join parts of them in a WITH ... AS MATERIALIZED query")
        })?;
        let mut wanted = needed.clone();
        derived.iter().for_each(|(_, expr)| wanted.insert_all(expr));
        let joined = self.in_order(&tree, &graph, &wanted)?;
        Ok(Relation { derived, ..joined })
    }

    /// Has every relation meet the conditions that are on it alone.
    fn apply_single(&mut self, graph: &mut JoinGraph) -> Result<()> {
        let (between, single): (Vec<ScalarExpr>, Vec<ScalarExpr>) = std::mem::take(&mut graph.conditions)
            .into_iter()
            .partition(|condition| graph.relations_of(condition).len() > 1);
        graph.conditions = between;
        for condition in single {
            // A condition on no relation is true of all rows or of none.
            let place = graph.relations_of(&condition).first().copied().unwrap_or_default();
            let relation = graph.relations[place].clone();
            let condition = self.resolved_expr(&condition, &relation)?;
            let input = Arc::clone(relation.node());
            graph.relations[place] = relation.over(Node::Filter { input, condition });
        }
        Ok(())
    }

    /// The facts that decide the order of joins. The column of an expression is its number among all of the classes.
    fn shape_of(&self, graph: &JoinGraph) -> join_order::JoinGraph {
        let mut relations: Vec<JoinRelation> = graph.relations.iter().map(|rows| self.join_relation(rows)).collect();
        let mut edges = Vec::new();
        // By relation, the number of each column of its source.
        let mut numbers = vec![HashMap::new(); relations.len()];
        let mut number = 0;
        for class in &graph.classes {
            let mut members: Vec<JoinColumn> = Vec::with_capacity(class.len());
            for expr in class {
                let relation = graph.relation_of(expr).expect("what is equal is over one relation each");
                let rows = &graph.relations[relation];
                let distinct = match stored_column(rows, expr) {
                    Some(place) => estimate::distinct_count(rows.node(), place, self.tables),
                    None => estimate::distinct_of_expression(rows.node(), self.tables),
                };
                if distinct >= relations[relation].rows_unfiltered * UNIQUE_SHARE {
                    relations[relation].keys.push(vec![number]);
                }
                if let Some(place) = stored_column(rows, expr) {
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
            relation.keys.extend(estimate::unique_keys(rows.node(), self.tables).into_iter().filter_map(of_key));
        }
        let predicates = graph
            .conditions
            .iter()
            .map(|condition| JoinPredicate { relations: graph.relations_of(condition), selectivity: CONDITION_SHARE });
        join_order::JoinGraph { predicates: predicates.collect(), relations, edges }
    }

    fn join_relation(&self, relation: &Relation) -> JoinRelation {
        let rows = self.rows_of(relation);
        let rows_unfiltered = estimate::whole_count(relation.node(), self.tables).max(rows);
        JoinRelation { rows, rows_unfiltered, keys: Vec::new() }
    }

    pub(super) fn rows_of(&self, relation: &Relation) -> f64 {
        estimate::row_count(relation.node(), self.tables)
    }

    /// The joins of `tree`, with the columns of `wanted` that they have.
    fn in_order(&mut self, tree: &JoinTree, graph: &JoinGraph, wanted: &ColumnSet) -> Result<Relation> {
        let join = match tree {
            JoinTree::Relation { relation, .. } => {
                let relation = graph.relations[*relation].clone();
                return Ok(self.narrowed(relation, wanted));
            }
            JoinTree::Join(join) => join,
        };
        let expr =
            |column: &JoinColumn| graph.classes.iter().flatten().nth(column.column).expect("a number of ours").clone();
        let (of_build, of_probe): (Vec<ScalarExpr>, Vec<ScalarExpr>) =
            join.on.iter().map(|(build, probe)| (expr(build), expr(probe))).unzip();
        let conditions: Vec<ScalarExpr> =
            join.predicates.iter().map(|place| graph.conditions[*place].clone()).collect();
        let mut below = wanted.clone();
        below.extend(&columns_of(of_build.iter().chain(&of_probe).chain(&conditions)));
        let build = self.in_order(&join.build, graph, &below)?;
        let probe = self.in_order(&join.probe, graph, &below)?;
        let (build, of_build) = self.with_columns(build, &of_build)?;
        let (probe, of_probe) = self.with_columns(probe, &of_probe)?;
        let on: Vec<(ColumnId, ColumnId)> = of_build.into_iter().zip(of_probe).collect();
        let spec = JoinSpec { conditions, rows: Some(join.rows), ..JoinSpec::inner(on, wanted.clone()) };
        self.join_node(spec, build, probe)
    }
}

/// The position of the column whose values `expr` has, be it as another type.
fn stored_column(relation: &Relation, expr: &ScalarExpr) -> Option<usize> {
    match &expr.op {
        ExprOp::Cast { value, .. } => stored_column(relation, value),
        ExprOp::Column(column) => relation.position(ColumnId(*column)),
        _ => None,
    }
}
