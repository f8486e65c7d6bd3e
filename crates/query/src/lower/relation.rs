//! Relations: rows while they are lowered.
//!
//! Expressions of a [`Logical::Map`](rowmill_plan::Logical::Map) are not computed where they are written. They wait
//! next to the operator, as expressions over its columns, and are inserted into the operator that reads them. A filter,
//! a key or an argument is therefore computed over stored columns, once per distinct value if that is cheaper. A column
//! that no operator reads is never computed. Inner joins wait as well, until all relations that are joined are known
//! and we can choose their order (`join_graph.rs`).

use std::sync::Arc;

use rowmill_plan::{ColumnId, ExprOp, Node, ScalarExpr};

use super::join_graph::JoinGraph;
use crate::column_set::ColumnSet;

/// Rows whose lowering may not be finished.
#[derive(Clone, Debug)]
pub(crate) struct LoweredRelation {
    pub(super) source: RelationSource,
    /// The columns of the source, in its order.
    pub(super) ids: Vec<ColumnId>,
    /// Columns that are expressions over the columns of the source.
    pub(super) derived: Vec<(ColumnId, ScalarExpr)>,
}

/// The source of the rows.
#[derive(Clone, Debug)]
pub(super) enum RelationSource {
    Operator(Arc<Node>),
    /// Inner joins that have no order yet.
    Joins(Box<JoinGraph>),
}

impl LoweredRelation {
    /// The rows of an operator.
    pub(super) fn new(node: Node, ids: Vec<ColumnId>) -> LoweredRelation {
        debug_assert_eq!(node.schema().fields().len(), ids.len(), "every column of an operator has an id");
        LoweredRelation { source: RelationSource::Operator(Arc::new(node)), ids, derived: Vec::new() }
    }

    /// The operator of the rows.
    ///
    /// # Panics
    ///
    /// Panics if the rows are joins whose order was not chosen yet. The caller must settle them first.
    pub(super) fn node(&self) -> &Arc<Node> {
        match &self.source {
            RelationSource::Operator(node) => node,
            RelationSource::Joins(_) => unreachable!("the joins have no order yet"),
        }
    }

    /// Sets the estimated number of groups of a grouping.
    pub(super) fn set_groups(&mut self, groups: f64) {
        if let RelationSource::Operator(node) = &mut self.source
            && let Node::Group { rows, .. } = Arc::make_mut(node)
        {
            *rows = Some(groups);
        }
    }

    /// Replaces the operator by one that gives the same columns.
    #[must_use]
    pub(super) fn over(self, node: Node) -> LoweredRelation {
        LoweredRelation { source: RelationSource::Operator(Arc::new(node)), ..self }
    }

    /// The position of a column of the source.
    pub(super) fn position(&self, id: ColumnId) -> Option<usize> {
        self.ids.iter().position(|own| *own == id)
    }

    /// `expr` with derived columns replaced, so it names only columns of the source.
    pub(super) fn resolve(&self, expr: &ScalarExpr) -> ScalarExpr {
        let mut expr = expr.clone();
        if !self.derived.is_empty() {
            substitute(&mut expr, &self.derived);
        }
        expr
    }

    /// All columns, those of the source and the derived ones.
    pub(super) fn all_ids(&self) -> impl Iterator<Item = ColumnId> {
        self.ids.iter().copied().chain(self.derived.iter().map(|(id, _)| *id))
    }

    /// Whether `expr`, which must be resolved, reads a column of the source.
    pub(super) fn reads(&self, expr: &ScalarExpr) -> bool {
        expr.any(&|part| part.as_column().is_some_and(|column| self.position(ColumnId(column)).is_some()))
    }

    /// Whether `expr`, which must be resolved, reads only columns of the source.
    pub(super) fn has_all(&self, expr: &ScalarExpr) -> bool {
        !expr.any(&|part| part.as_column().is_some_and(|column| self.position(ColumnId(column)).is_none()))
    }

    /// Removes derived columns that are not needed.
    pub(super) fn keep_derived(&mut self, needed: &ColumnSet) {
        self.derived.retain(|(id, _)| needed.contains(*id));
    }
}

/// Replaces every column of `derived` in `expr` by its expression.
fn substitute(expr: &mut ScalarExpr, derived: &[(ColumnId, ScalarExpr)]) {
    if let ExprOp::Column(column) = expr.op {
        if let Some((_, of)) = derived.iter().find(|(id, _)| id.0 == column) {
            *expr = of.clone();
        }
        return;
    }
    expr.operands_mut().into_iter().for_each(|operand| substitute(operand, derived));
}
