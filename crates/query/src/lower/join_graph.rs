//! Joins before they have an order.
//!
//! A chain of inner joins is a set of relations and a set of conditions between them. We may join any pair first, and
//! that choice decides the cost of a query. Equalities are kept as classes of equal expressions. For example, from `a =
//! b` and `b = c` we know that the relations of `a` and `c` can be joined as well.
//!
//! Left, semi, anti and mark joins are operators over relations of the same set. Each of them has one relation on its
//! right. The columns of that relation must not be part of the classes, because the join may fill them with NULL or not
//! give them.

use std::collections::HashMap;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::fold::{can_fail, rejects_nulls};
use rowmill_plan::join_order::{
    self, JOINED_RELATIONS_MAX, JoinColumn, JoinEdge, JoinOperator, JoinPredicate, JoinRelation, JoinTree,
    OperatorJoin, OperatorKind, join_order,
};
use rowmill_plan::logical::LogicalJoinKind;
use rowmill_plan::{ColumnId, CompareOp, ExprOp, Node, ScalarExpr};

use super::Lowerer;
use super::join::{JoinSpec, OperatorSpec, SplitConditions, split, without_widening};
use super::relation::{LoweredRelation, RelationSource};
use crate::column_set::{ColumnSet, columns_of};
use crate::estimate;

/// Relations to join. The result has all combinations of their rows that meet the conditions.
#[derive(Clone, Debug, Default)]
pub(super) struct JoinGraph {
    relations: Vec<LoweredRelation>,
    /// Classes of equal expressions. Each expression is over one relation.
    classes: Vec<Vec<ScalarExpr>>,
    /// Other conditions that must be true.
    conditions: Vec<ScalarExpr>,
    /// Conditions on one relation that can fail. They must be evaluated only for the rows that all joins leave.
    late: Vec<ScalarExpr>,
    /// The joins that are not inner, in an order in which they can be computed.
    operators: Vec<GraphOperator>,
}

/// A join that is not inner, over relations of a graph.
#[derive(Clone, Debug)]
struct GraphOperator {
    /// The relation on its right.
    right: usize,
    spec: OperatorSpec,
}

impl JoinGraph {
    /// The graph of `relation`: a graph of one relation, unless it is itself a graph. The caller must keep its derived
    /// expressions.
    fn of(relation: LoweredRelation) -> JoinGraph {
        match relation.source {
            RelationSource::Joins(graph) => *graph,
            RelationSource::Operator(_) => {
                let relation = LoweredRelation { derived: Vec::new(), ..relation };
                let relations = vec![relation];
                JoinGraph { relations, ..JoinGraph::default() }
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

    /// Whether both are expressions over one relation each that can be keys of an inner join.
    fn joins(&self, pair: &[ScalarExpr; 2]) -> bool {
        let (Some(left), Some(right)) = (self.relation_of(&pair[0]), self.relation_of(&pair[1])) else { return false };
        left != right && !self.is_operators(left) && !self.is_operators(right) && !pair[0].kind.is_nested()
    }

    /// Whether a relation is the right side of an operator.
    fn is_operators(&self, relation: usize) -> bool {
        self.operators.iter().any(|operator| operator.right == relation)
    }

    /// Records that two expressions are equal.
    fn equate(&mut self, left: ScalarExpr, right: ScalarExpr) {
        let has = |expr: &ScalarExpr| self.classes.iter().position(|class| class.contains(expr));
        match (has(&left), has(&right)) {
            (Some(left), Some(right)) if left == right => {}
            (Some(left), Some(right)) => {
                // Both are in a class already: merge the later class into the earlier one.
                let (first, second) = (left.min(right), left.max(right));
                let merged = self.classes.remove(second);
                self.classes[first].extend(merged);
            }
            (Some(class), None) => self.classes[class].push(right),
            (None, Some(class)) => self.classes[class].push(left),
            (None, None) => self.classes.push(vec![left, right]),
        }
    }

    /// The relation that `expr` is over, or `None` if it is over several or none.
    pub(super) fn relation_of(&self, expr: &ScalarExpr) -> Option<usize> {
        self.relations.iter().position(|relation| relation.reads(expr) && relation.has_all(expr))
    }

    /// The relations that a condition reads. A mark counts as a column of the right side of its join.
    fn relations_of(&self, condition: &ScalarExpr) -> Vec<usize> {
        let mut relations: Vec<usize> =
            (0..self.relations.len()).filter(|place| self.relations[*place].reads(condition)).collect();
        for operator in &self.operators {
            let LogicalJoinKind::Mark(mark) = operator.spec.kind else { continue };
            if condition.any(&|part| part.as_column() == Some(mark.0)) {
                relations.push(operator.right);
            }
        }
        relations
    }

    /// The relations whose columns are part of the result.
    fn visible(&self) -> Vec<usize> {
        let is_given = |place: &usize| {
            let operator = self.operators.iter().find(|operator| operator.right == *place);
            operator.is_none_or(|operator| operator.spec.kind == LogicalJoinKind::Left)
        };
        (0..self.relations.len()).filter(is_given).collect()
    }

    /// The relations.
    pub(super) fn relations(&self) -> &[LoweredRelation] {
        &self.relations
    }

    /// The relations that are not the right side of an operator.
    pub(super) fn inner_relations(&self) -> impl Iterator<Item = usize> {
        (0..self.relations.len()).filter(|place| !self.is_operators(*place))
    }

    /// Replaces a relation. The new one must have the columns that joins and conditions read.
    pub(super) fn replace(&mut self, place: usize, relation: LoweredRelation) {
        self.relations[place] = relation;
    }

    /// The graph in which one relation, the first one, stands for the relations of `part` and the joins between them.
    /// `joined` must have the columns of `part` that the new graph reads.
    pub(super) fn contracted(&self, part: &JoinTree, joined: LoweredRelation) -> JoinGraph {
        let (inner, checked) = (part.relations(), part.predicates());
        let is_inner = |relation: &usize| inner.contains(relation);
        let others: Vec<usize> = (0..self.relations.len()).filter(|relation| !is_inner(relation)).collect();
        let mut relations = vec![joined];
        relations.extend(others.iter().map(|relation| self.relations[*relation].clone()));
        let classes = self.classes.iter().filter_map(|class| {
            let of: Vec<Option<usize>> = class.iter().map(|expr| self.relation_of(expr)).collect();
            if of.iter().all(|relation| relation.is_none_or(|relation| is_inner(&relation))) {
                return None;
            }
            // The joins of the part make its members equal, one of each relation. So one of them is enough.
            let mut known: Vec<usize> = Vec::new();
            let is_kept = |relation: Option<usize>| match relation {
                Some(relation) if is_inner(&relation) => {
                    let is_kept = known.is_empty() || known.contains(&relation);
                    known.push(relation);
                    is_kept
                }
                _ => true,
            };
            let kept: Vec<bool> = of.into_iter().map(is_kept).collect();
            Some(class.iter().zip(kept).filter(|(_, is_kept)| *is_kept).map(|(expr, _)| expr.clone()).collect())
        });
        let conditions = self.conditions.iter().enumerate().filter(|(place, _)| !checked.contains(place));
        let operators = self.operators.iter().filter_map(|operator| {
            let place = others.iter().position(|relation| *relation == operator.right)?;
            Some(GraphOperator { right: place + 1, spec: operator.spec.clone() })
        });
        JoinGraph {
            classes: classes.collect(),
            conditions: conditions.map(|(_, condition)| condition.clone()).collect(),
            late: self.late.clone(),
            operators: operators.collect(),
            relations,
        }
    }

    /// The columns that joins and conditions read.
    pub(super) fn read(&self) -> ColumnSet {
        let of_operators = self.operators.iter().flat_map(|operator| &operator.spec.conditions);
        columns_of(self.classes.iter().flatten().chain(&self.conditions).chain(&self.late).chain(of_operators))
    }

    /// The columns of the result.
    pub(super) fn ids(&self) -> Vec<ColumnId> {
        let own = self.visible().into_iter().flat_map(|place| self.relations[place].ids.iter().copied());
        let marks = self.operators.iter().filter_map(|operator| match operator.spec.kind {
            LogicalJoinKind::Mark(mark) => Some(mark),
            _ => None,
        });
        own.chain(marks).collect()
    }

    /// Adds the relations and conditions of another graph.
    fn add(&mut self, other: JoinGraph) {
        let before = self.relations.len();
        self.relations.extend(other.relations);
        self.classes.extend(other.classes);
        self.conditions.extend(other.conditions);
        self.late.extend(other.late);
        let moved = other.operators.into_iter();
        self.operators.extend(moved.map(|operator| GraphOperator { right: before + operator.right, ..operator }));
    }

    /// Number of relations that `relation` consists of.
    fn size_of(relation: &LoweredRelation) -> usize {
        match &relation.source {
            RelationSource::Joins(graph) => graph.relations.len(),
            RelationSource::Operator(_) => 1,
        }
    }
}

impl Lowerer<'_> {
    /// Adds an inner join. Its order is decided later.
    pub(super) fn inner_join(
        &mut self,
        mut left: LoweredRelation,
        mut right: LoweredRelation,
        conditions: &[ScalarExpr],
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        // If there are too many relations to order together, we order them in parts.
        if JoinGraph::size_of(&left) + JoinGraph::size_of(&right) > JOINED_RELATIONS_MAX {
            left = self.settled(left, needed)?;
            right = self.settled(right, needed)?;
        }
        let conditions: Vec<ScalarExpr> =
            conditions.iter().map(|condition| right.resolve(&left.resolve(condition))).collect();
        let mut derived = left.derived.clone();
        derived.extend(right.derived.iter().cloned());
        derived.retain(|(id, _)| needed.contains(*id));
        let mut graph = JoinGraph::of(left);
        graph.add(JoinGraph::of(right));
        graph.add_conditions(conditions);
        Ok(LoweredRelation { ids: graph.ids(), source: RelationSource::Joins(Box::new(graph)), derived })
    }

    /// Adds a join that is not inner. Its order is decided later. The right side must be settled and becomes one
    /// relation.
    pub(super) fn operator(
        &mut self,
        mut left: LoweredRelation,
        right: LoweredRelation,
        spec: OperatorSpec,
        needed: &ColumnSet,
    ) -> Result<LoweredRelation> {
        if JoinGraph::size_of(&left) >= JOINED_RELATIONS_MAX {
            left = self.settled(left, needed)?;
        }
        let mut derived = left.derived.clone();
        derived.retain(|(id, _)| needed.contains(*id));
        if spec.kind == LogicalJoinKind::Left {
            derived.extend(right.derived.iter().filter(|(id, _)| needed.contains(*id)).cloned());
        }
        let mut graph = JoinGraph::of(left);
        graph.operators.push(GraphOperator { right: graph.relations.len(), spec });
        graph.relations.push(LoweredRelation { derived: Vec::new(), ..right });
        Ok(LoweredRelation { ids: graph.ids(), source: RelationSource::Joins(Box::new(graph)), derived })
    }

    /// Decides the order of the joins and returns `relation` as an operator. `needed` are columns that will be read
    /// later.
    pub(super) fn settled(&mut self, relation: LoweredRelation, needed: &ColumnSet) -> Result<LoweredRelation> {
        let LoweredRelation { source, ids, mut derived } = relation;
        let mut graph = match source {
            RelationSource::Operator(_) => return Ok(LoweredRelation { source, ids, derived }),
            RelationSource::Joins(graph) => *graph,
        };
        derived.retain(|(id, _)| needed.contains(*id));
        self.apply_single(&mut graph)?;
        let shape = self.shape_of(&graph);
        let tree = join_order(&shape).ok_or_else(|| {
            Error::new(
                ErrorKind::StatementTooComplex,
                format!(
                    "a join of {} tables, but at most {} can be joined at once",
                    graph.relations.len(),
                    JOINED_RELATIONS_MAX
                ),
            )
            .hint("join parts of them in a WITH ... AS MATERIALIZED query")
        })?;
        // The joins must also give the columns that waiting expressions and late conditions read.
        let mut wanted = needed.clone();
        derived.iter().for_each(|(_, expr)| wanted.add_columns_of(expr));
        graph.late.iter().for_each(|condition| wanted.add_columns_of(condition));
        let mut joined = self.in_order(&tree, &graph, &wanted)?;
        if !graph.late.is_empty() {
            joined = self.with_filter(joined, graph.late)?;
        }
        Ok(LoweredRelation { derived, ..joined })
    }

    /// Keeps the rows that meet all of `conditions`, which must be over columns of the source.
    pub(super) fn with_filter(
        &mut self,
        relation: LoweredRelation,
        conditions: Vec<ScalarExpr>,
    ) -> Result<LoweredRelation> {
        let condition = ScalarExpr::and(conditions);
        let input = Arc::clone(relation.node());
        let rows = self.estimator.filter_count(&input, &condition, &|id| relation.position(ColumnId(id)));
        let condition = self.resolved_expr(&condition, &relation)?;
        Ok(relation.over(Node::Filter { input, condition, rows: Some(rows) }))
    }

    /// Filters every relation by the conditions that refer only to it.
    pub(super) fn apply_single(&mut self, graph: &mut JoinGraph) -> Result<()> {
        let (mut between, mut single) = (Vec::new(), Vec::new());
        for condition in std::mem::take(&mut graph.conditions) {
            match graph.relations_of(&condition)[..] {
                // The condition is on the rows that the join gives, not on the rows of its right side.
                [only] if graph.is_operators(only) => between.push(condition),
                [_, _, ..] => between.push(condition),
                // A condition that can fail must not run for rows that a join would have dropped.
                _ if can_fail(&condition) && graph.relations.len() > 1 => graph.late.push(condition),
                _ => single.push(condition),
            }
        }
        graph.conditions = between;
        for condition in single {
            // A condition on no relation is true for all rows or for none, so it may filter any relation.
            let place = graph.relations_of(&condition).first().copied().unwrap_or_default();
            let relation = graph.relations[place].clone();
            graph.relations[place] = self.with_filter(relation, vec![condition])?;
        }
        Ok(())
    }

    /// Collects the facts that decide the order of joins. An expression is identified by its number among all classes.
    pub(super) fn shape_of(&self, graph: &JoinGraph) -> join_order::JoinGraph {
        let shares = self.shares_in_common_range(graph);
        let relations = graph.relations.iter().zip(&shares);
        let mut relations: Vec<JoinRelation> =
            relations.map(|(rows, share)| within_range(self.join_relation(rows), *share)).collect();
        let mut edges = Vec::new();
        // For each relation, the numbers of its stored columns.
        let mut numbers = vec![HashMap::new(); relations.len()];
        let mut number = 0;
        for class in &graph.classes {
            let mut members: Vec<JoinColumn> = Vec::with_capacity(class.len());
            for expr in class {
                let relation = graph.relation_of(expr).expect("an expression of a class is over one relation");
                let rows = &graph.relations[relation];
                let distinct = self.distinct_of(rows, expr).0.min(relations[relation].rows_unfiltered.max(1.0));
                // A nearly unique column counts as a key only for a plain scan, because joins may repeat its rows.
                let is_unique = match stored_column(rows, expr) {
                    Some(place) => self.estimator.is_nearly_unique(rows.node(), place) && is_scan(rows.node()),
                    None => distinct >= relations[relation].rows_unfiltered,
                };
                if is_unique {
                    relations[relation].keys.push(vec![number]);
                }
                if let Some(place) = stored_column(rows, expr) {
                    numbers[relation].insert(place, number);
                    if self.estimator.is_found_by(rows.node(), place) {
                        relations[relation].found_by.push(number);
                    }
                }
                members.push(JoinColumn { relation, column: number, distinct });
                number += 1;
            }
            // Each member is joined with one earlier member of another relation.
            for (place, right) in members.iter().enumerate() {
                let left = members[..place].iter().find(|left| left.relation != right.relation);
                edges.extend(left.map(|left| JoinEdge { left: *left, right: *right }));
            }
            // The leading members may all be of one relation.
            let first = members.iter().take_while(|member| member.relation == members[0].relation).count();
            if let Some(other) = members.get(first) {
                edges.extend(members[1..first].iter().map(|left| JoinEdge { left: *left, right: *other }));
            }
        }
        for ((relation, rows), numbers) in relations.iter_mut().zip(&graph.relations).zip(&numbers) {
            let of_key = |key: Vec<usize>| key.iter().map(|place| numbers.get(place).copied()).collect::<Option<_>>();
            relation.keys.extend(self.estimator.unique_keys(rows.node()).into_iter().filter_map(of_key));
        }
        let predicates = graph.conditions.iter().map(|condition| JoinPredicate {
            relations: graph.relations_of(condition),
            selectivity: self.share_of_pairs(condition, graph),
            sides: sides_of(condition, graph),
        });
        let operators = graph.operators.iter().enumerate();
        let operators = operators.map(|(number, operator)| self.join_operator(number, operator, graph)).collect();
        join_order::JoinGraph { predicates: predicates.collect(), relations, edges, operators }
    }

    /// For each relation, the share of its rows whose keys are in the ranges that the keys of all joined relations have
    /// in common. For example, the days of a calendar of two centuries on which a shop of five years sold something.
    fn shares_in_common_range(&self, graph: &JoinGraph) -> Vec<f64> {
        let mut shares = vec![1.0; graph.relations.len()];
        for class in &graph.classes {
            let range = |expr: &ScalarExpr| {
                let relation = graph.relation_of(expr)?;
                let rows = &graph.relations[relation];
                Some((relation, self.estimator.bounds(rows.node(), stored_column(rows, expr)?)?))
            };
            let ranges: Vec<(usize, (f64, f64))> = class.iter().filter_map(range).collect();
            let least = ranges.iter().map(|(_, (least, _))| *least).fold(f64::NEG_INFINITY, f64::max);
            let greatest = ranges.iter().map(|(_, (_, greatest))| *greatest).fold(f64::INFINITY, f64::min);
            for (relation, (own_least, own_greatest)) in ranges {
                let share = (greatest - least + 1.0) / (own_greatest - own_least + 1.0);
                shares[relation] = share.clamp(0.0, shares[relation]);
            }
        }
        shares
    }

    /// The share of the pairs of rows that meet a condition.
    fn share_of_pairs(&self, condition: &ScalarExpr, graph: &JoinGraph) -> f64 {
        let values = |side: &ScalarExpr| {
            let relation = graph.relation_of(side)?;
            Some(self.distinct_of(&graph.relations[relation], side).0)
        };
        let of_same = match &condition.op {
            ExprOp::IsDistinct { operands, negated: true } => values(&operands[0]).zip(values(&operands[1])),
            _ => None,
        };
        of_same.map_or_else(|| estimate::share_of_pairs(condition), |(left, right)| 1.0 / left.max(right).max(1.0))
    }

    fn join_relation(&self, relation: &LoweredRelation) -> JoinRelation {
        let rows = self.rows_of(relation);
        let rows_unfiltered = self.estimator.whole_count(relation.node()).max(rows);
        JoinRelation { rows, rows_unfiltered, keys: Vec::new(), found_by: Vec::new() }
    }

    fn join_operator(&self, number: usize, operator: &GraphOperator, graph: &JoinGraph) -> JoinOperator {
        let spec = &operator.spec;
        let before = &graph.operators[..number];
        let right = &graph.relations[operator.right];
        let read = spec.conditions.iter().flat_map(|condition| graph.relations_of(condition));
        let mut reads: Vec<usize> = read.filter(|relation| *relation != operator.right).collect();
        reads.sort_unstable();
        reads.dedup();
        if reads.is_empty() {
            let is_before = |relation: &usize| {
                !graph.is_operators(*relation) || before.iter().any(|known| known.right == *relation)
            };
            reads = graph.visible().into_iter().filter(is_before).collect();
        }
        let rejects = |relation: &usize| {
            let is_of = |id| graph.relations[*relation].ids.contains(&ColumnId(id));
            spec.conditions.iter().any(|condition| rejects_nulls(condition, &is_of))
        };
        let rejects_nulls_of = reads.iter().copied().filter(rejects).collect();
        let mut of_left: Vec<(f64, f64, f64)> = Vec::new();
        let mut keys = Vec::new();
        let mut others = 1.0;
        for condition in &spec.conditions {
            match key_of(condition, right) {
                Some((left, of_right)) => {
                    let relation = graph.relation_of(&left).map(|place| &graph.relations[place]);
                    of_left.push(relation.map_or((1.0, 1.0, 1.0), |relation| self.distinct_of(relation, &left)));
                    keys.push(of_right);
                }
                None => others *= estimate::share_of_pairs(condition),
            }
        }
        let of_right: Vec<(f64, f64, f64)> = keys.iter().map(|key| self.distinct_of(right, key)).collect();
        let places: Option<Vec<usize>> = keys.iter().map(|key| stored_column(right, key)).collect();
        let is_unique = places.is_some_and(|places| self.estimator.is_unique(right.node(), &places));
        let left_rows = of_left.iter().map(|(_, rows, _)| *rows).fold(1.0, f64::max);
        let left = estimate::KeyValues::of(&of_left, left_rows, false);
        let of_right = estimate::KeyValues::of(&of_right, self.rows_of(right), is_unique);
        let matches = estimate::matches(&left, &of_right, others);
        // The growth of an operator is its number of result rows per left row.
        let growth = match spec.kind {
            LogicalJoinKind::Left => matches.per_left_row.max(1.0),
            LogicalJoinKind::Semi => matches.left_share,
            LogicalJoinKind::Anti => (1.0 - matches.left_share).max(estimate::LEAST_SHARE),
            _ => 1.0,
        };
        let finds_right = keys.iter().filter_map(|key| stored_column(right, key));
        let finds_right = finds_right.into_iter().any(|place| self.estimator.is_found_by(right.node(), place));
        JoinOperator {
            kind: if spec.kind == LogicalJoinKind::Left { OperatorKind::Left } else { OperatorKind::AtMostOnce },
            right: operator.right,
            reads,
            rejects_nulls_of,
            growth,
            builds_right: spec.null_aware || matches!(spec.kind, LogicalJoinKind::Mark(_)),
            finds_right,
        }
    }

    /// Number of distinct values of an expression in all rows of its relation, rows that meet the conditions, and all
    /// rows.
    pub(super) fn distinct_of(&self, relation: &LoweredRelation, expr: &ScalarExpr) -> (f64, f64, f64) {
        let distinct = match stored_column(relation, expr) {
            Some(place) => self.estimator.distinct_count(relation.node(), place),
            None => self.estimator.distinct_of_expression(relation.node()),
        };
        (distinct, self.rows_of(relation), self.estimator.whole_count(relation.node()))
    }

    pub(super) fn rows_of(&self, relation: &LoweredRelation) -> f64 {
        self.estimator.row_count(relation.node())
    }

    /// Builds the joins of `tree`, with those of the columns in `wanted` that they have.
    pub(super) fn in_order(
        &mut self,
        tree: &JoinTree,
        graph: &JoinGraph,
        wanted: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let join = match tree {
            JoinTree::Relation { relation, .. } => {
                let relation = graph.relations[*relation].clone();
                return Ok(self.narrowed(relation, wanted));
            }
            JoinTree::Join(join) => join,
            JoinTree::Operator(join) => return self.operator_in_order(join, graph, wanted),
        };
        let expr =
            |column: &JoinColumn| graph.classes.iter().flatten().nth(column.column).expect("a known column").clone();
        let (mut of_build, mut of_probe): (Vec<ScalarExpr>, Vec<ScalarExpr>) =
            join.on.iter().map(|(build, probe)| without_widening((expr(build), expr(probe)))).unzip();
        let conditions: Vec<ScalarExpr> =
            join.predicates.iter().map(|place| graph.conditions[*place].clone()).collect();
        let mut below = wanted.clone();
        below.add_all(&columns_of(of_build.iter().chain(&of_probe).chain(&conditions)));
        let build = self.in_order(&join.build, graph, &below)?;
        let probe = self.in_order(&join.probe, graph, &below)?;
        // An equality of expressions over several relations is a key of the join whose two sides each have all
        // relations of one operand. NULL-safe equalities are keys if there are no others.
        let SplitConditions { equal, nulls_equal, others: conditions } = match of_build.is_empty() {
            true => split(conditions, &build, &probe),
            false => {
                let is_plain = |condition: &ScalarExpr| matches!(condition.op, ExprOp::Compare(CompareOp::Equal, _));
                let (plain, others): (Vec<_>, Vec<_>) = conditions.into_iter().partition(is_plain);
                let mut split = split(plain, &build, &probe);
                split.others.extend(others);
                split
            }
        };
        for (build, probe) in equal {
            of_build.push(build);
            of_probe.push(probe);
        }
        let (build, of_build) = self.with_columns(build, &of_build)?;
        let (probe, of_probe) = self.with_columns(probe, &of_probe)?;
        let on: Vec<(ColumnId, ColumnId)> = of_build.into_iter().zip(of_probe).collect();
        let rows = Some(join.rows);
        let spec = JoinSpec { conditions, nulls_equal, rows, ..JoinSpec::inner(on, wanted.clone()) };
        self.join_node(spec, build, probe)
    }

    /// Builds a join that is not inner, and filters its rows by the conditions that they must meet.
    fn operator_in_order(
        &mut self,
        join: &OperatorJoin,
        graph: &JoinGraph,
        wanted: &ColumnSet,
    ) -> Result<LoweredRelation> {
        let spec = &graph.operators[join.operator].spec;
        let above: Vec<ScalarExpr> = join.predicates.iter().map(|place| graph.conditions[*place].clone()).collect();
        let mut kept = wanted.clone();
        kept.add_all(&columns_of(&above));
        let mut below = kept.clone();
        below.add_all(&columns_of(&spec.conditions));
        let left = self.in_order(&join.left, graph, &below)?;
        let right = self.in_order(&join.right, graph, &below)?;
        // Conditions above the join leave fewer rows than the join itself gives, so its estimate does not apply.
        let rows = Some(join.rows).filter(|_| above.is_empty());
        let joined = self.operator_join(spec.clone(), left, right, kept, rows)?;
        match above.is_empty() {
            true => Ok(joined),
            false => self.with_filter(joined, above),
        }
    }
}

/// The shares of rows in a range from which we take the estimate of the relation as it is: bounds of keys that come at
/// random hardly ever agree.
const SHARE_MAX: f64 = 0.5;

/// The rows of a relation that are within a range, which has `share` of them. Rows outside of it meet no row of the
/// joined relations. Queries ask for what there is, so conditions that leave fewer rows than the range has are assumed
/// to select rows within it. Other conditions are assumed to be independent of it.
fn within_range(relation: JoinRelation, share: f64) -> JoinRelation {
    if share > SHARE_MAX {
        return relation;
    }
    let rows_unfiltered = (relation.rows_unfiltered * share).max(1.0);
    let rows = match relation.rows <= rows_unfiltered {
        true => relation.rows,
        false => (relation.rows * share).max(1.0),
    };
    JoinRelation { rows, rows_unfiltered, ..relation }
}

/// The relations of each side of an equality.
fn sides_of(condition: &ScalarExpr, graph: &JoinGraph) -> Option<(Vec<usize>, Vec<usize>)> {
    let ExprOp::Compare(CompareOp::Equal, pair) = &condition.op else { return None };
    let (left, right) = (graph.relations_of(&pair[0]), graph.relations_of(&pair[1]));
    (!left.is_empty() && !right.is_empty() && !pair[0].kind.is_nested()).then_some((left, right))
}

/// Splits an equality into the side of the other relations and the side of `right`.
fn key_of(condition: &ScalarExpr, right: &LoweredRelation) -> Option<(ScalarExpr, ScalarExpr)> {
    let pair = match &condition.op {
        ExprOp::Compare(CompareOp::Equal, pair) => pair,
        ExprOp::IsDistinct { operands, negated: true } => operands,
        _ => return None,
    };
    let is_own = |expr: &ScalarExpr| right.reads(expr) && right.has_all(expr);
    match (is_own(&pair[0]), is_own(&pair[1])) {
        (false, true) if !right.reads(&pair[0]) => Some((pair[0].clone(), pair[1].clone())),
        (true, false) if !right.reads(&pair[1]) => Some((pair[1].clone(), pair[0].clone())),
        _ => None,
    }
}

/// Whether an operator gives rows of one table, each at most once.
fn is_scan(node: &Node) -> bool {
    match node {
        Node::Scan(_) => true,
        Node::Filter { input, .. } | Node::Project { input, .. } => is_scan(input),
        _ => false,
    }
}

/// The position of the column whose values `expr` has, possibly cast to another type.
fn stored_column(relation: &LoweredRelation, expr: &ScalarExpr) -> Option<usize> {
    match &expr.op {
        ExprOp::Cast { value, .. } => stored_column(relation, value),
        ExprOp::Column(column) => relation.position(ColumnId(*column)),
        _ => None,
    }
}
