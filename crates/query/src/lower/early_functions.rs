//! Functions of texts of a small relation are computed before its joins.
//!
//! ```text
//!   group by upper(i.name)                   ->        group by n
//!   └─ join s.item = i.id                              └─ join s.item = i.id
//!      ├─ items i                                         ├─ upper(i.name) AS n of items i
//!      └─ sales s                                         └─ sales s
//! ```
//!
//! A grouping computes its keys and arguments for each joined row. If the joins repeat the rows of a relation, a
//! function that reads only this relation would be computed again and again. We compute it first if the joined rows are
//! several times as many, unless it can fail: it might fail for a row that the joins drop. Arithmetic costs less than
//! one more column of the join.

use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_expr::fold::can_fail;
use rowmill_plan::join_order::join_order;
use rowmill_plan::logical::LogicalGroup;
use rowmill_plan::{ColumnId, ExprOp, Node, ScalarExpr, Volatility};

use super::Lowerer;
use super::group::read_by;
use super::join_graph::JoinGraph;
use super::relation::{LoweredRelation, RelationSource};

/// Joined rows for each row of a relation from which its functions are computed before the joins.
const JOINED_ROWS_MIN: f64 = 4.0;

impl Lowerer<'_> {
    /// Computes functions that the keys and aggregates of `group` read before the joins of `input`, where that is
    /// cheaper. The expressions of `group` then read their results.
    pub(super) fn early_functions(
        &mut self,
        group: &mut LogicalGroup,
        input: LoweredRelation,
    ) -> Result<LoweredRelation> {
        let LoweredRelation { source: RelationSource::Joins(graph), derived, .. } = &input else { return Ok(input) };
        let (mut graph, derived) = (graph.clone(), derived.clone());
        let mut resolved = group.clone();
        for expr in exprs_mut(&mut resolved) {
            *expr = input.resolve(expr);
        }
        let mut found: Vec<(usize, ScalarExpr)> = Vec::new();
        exprs_mut(&mut resolved).for_each(|expr| {
            each_function(expr, &graph, &mut |place, part| {
                if !found.iter().any(|(_, known)| known == part) {
                    found.push((place, part.clone()));
                }
            })
        });
        if found.is_empty() {
            return Ok(input);
        }
        // Conditions on one relation must be its own before the joins are looked at.
        self.apply_single(&mut graph)?;
        let rows = join_order(&self.shape_of(&graph)).map_or(0.0, |tree| tree.rows());
        found.retain(|(place, _)| self.rows_of(&graph.relations()[*place]) * JOINED_ROWS_MIN <= rows);
        if found.is_empty() {
            return Ok(input);
        }
        let mut made: Vec<(ScalarExpr, ColumnId)> = Vec::new();
        for place in 0..graph.relations().len() {
            let exprs: Vec<ScalarExpr> =
                found.iter().filter(|(of, _)| *of == place).map(|(_, expr)| expr.clone()).collect();
            if !exprs.is_empty() {
                let (relation, ids) = self.with_columns(graph.relations()[place].clone(), &exprs)?;
                made.extend(exprs.into_iter().zip(ids));
                graph.replace(place, relation);
            }
        }
        for expr in exprs_mut(&mut resolved) {
            replace(expr, &made);
        }
        // The columns that only the functions read need not be joined.
        let mut read = graph.read();
        read.add_all(&read_by(&resolved));
        for place in 0..graph.relations().len() {
            if found.iter().any(|(of, _)| *of == place) {
                let relation = graph.relations()[place].clone();
                graph.replace(place, self.projected(relation, |id| read.contains(id)));
            }
        }
        *group = resolved;
        Ok(LoweredRelation { ids: graph.ids(), source: RelationSource::Joins(graph), derived })
    }

    /// The columns of a projection for which `is_kept` is true.
    fn projected(&mut self, relation: LoweredRelation, is_kept: impl Fn(ColumnId) -> bool) -> LoweredRelation {
        let Node::Project { input, exprs, .. } = &**relation.node() else { return relation };
        let kept: Vec<usize> = (0..exprs.len()).filter(|place| is_kept(relation.ids[*place])).collect();
        let ids: Vec<ColumnId> = kept.iter().map(|place| relation.ids[*place]).collect();
        let exprs = kept.iter().map(|place| exprs[*place]).collect();
        LoweredRelation::new(Node::Project { input: input.clone(), exprs, schema: self.schema(&ids) }, ids)
    }
}

/// All expressions that a grouping reads.
fn exprs_mut(group: &mut LogicalGroup) -> impl Iterator<Item = &mut ScalarExpr> {
    let keys = group.keys.iter_mut().map(|(_, key)| key);
    let calls = group.aggregates.iter_mut().flat_map(|(_, call)| {
        let order = call.order.iter_mut().map(|key| &mut key.expr);
        call.arguments.iter_mut().chain(order).chain(&mut call.filter)
    });
    keys.chain(calls)
}

/// Calls `each` with the largest parts of `expr` that compute something of texts of one relation, and its position.
fn each_function(expr: &ScalarExpr, graph: &JoinGraph, each: &mut dyn FnMut(usize, &ScalarExpr)) {
    let is_movable = |expr: &ScalarExpr| expr.volatility() < Volatility::Volatile && !can_fail(expr);
    if expr.any(&reads_text)
        && is_movable(expr)
        && let Some(place) = graph.relation_of(expr)
        && graph.inner_relations().any(|relation| relation == place)
    {
        return each(place, expr);
    }
    expr.operands().into_iter().for_each(|operand| each_function(operand, graph, each));
}

/// Whether an operator computes something of a text.
fn reads_text(expr: &ScalarExpr) -> bool {
    let is_text = |operand: &&ScalarExpr| operand.kind == DataType::Utf8View && operand.as_constant().is_none();
    match &expr.op {
        ExprOp::Call(..) | ExprOp::Like { .. } => expr.operands().iter().any(is_text),
        _ => false,
    }
}

/// Replaces the parts of `expr` that are made already by their columns.
fn replace(expr: &mut ScalarExpr, made: &[(ScalarExpr, ColumnId)]) {
    match made.iter().find(|(known, _)| known == expr) {
        Some((_, id)) => *expr = ScalarExpr::id(*id, expr.kind.clone()),
        None => expr.operands_mut().into_iter().for_each(|operand| replace(operand, made)),
    }
}
