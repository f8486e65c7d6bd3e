//! What a part of a logical plan gives, while it is lowered.
//!
//! Projections are not lowered where they stand: what they compute is kept as expressions over the operator below, and
//! put into whatever reads them. So a filter, key or argument is worked out over stored columns, once per distinct value
//! where that is cheaper, and columns that nobody reads are never made.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::Expr;
use rowmill_plan::{Node, Scan};

/// Rows of an operator of the engine, and what the logical plan makes of them.
pub(super) struct Rows {
    pub(super) node: Node,
    /// The columns of `node`, under names that no other operator's have.
    pub(super) schema: DFSchemaRef,
    /// The columns of the logical plan, over `schema`.
    pub(super) exprs: Vec<Expr>,
    /// Whether there is more in `node` than DataFusion's plans can take out of a scan themselves.
    pub(super) works: bool,
}

impl Rows {
    /// An operator whose columns are those of the logical plan.
    pub(super) fn new(node: Node, schema: DFSchemaRef, works: bool) -> Rows {
        let exprs = schema.columns().into_iter().map(Expr::Column).collect();
        Rows { node, schema, exprs, works }
    }

    /// Stands in for rows that are being changed.
    pub(super) fn nothing() -> Rows {
        let schema = Arc::new(arrow::datatypes::Schema::empty());
        let node = Node::Scan(Scan { table: 0, columns: Vec::new(), predicates: Vec::new(), schema });
        Rows { node, schema: Arc::new(DFSchema::empty()), exprs: Vec::new(), works: false }
    }

    /// `expr`, which is over the columns of the logical plan `schema`, over those of the operator.
    pub(super) fn resolve(&self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        expr.transform_up(|expr| match &expr {
            Expr::Column(column) => Ok(Transformed::yes(self.exprs[schema.index_of_column(column)?].clone())),
            _ => Ok(Transformed::no(expr)),
        })
        .data()
        .map(Expr::unalias)
    }

    /// The operator's column that `expr` is.
    pub(super) fn place(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Column(column) => self.schema.maybe_index_of_column(column),
            _ => None,
        }
    }

    /// Whether the columns of the logical plan are those of the operator.
    pub(super) fn is_plain(&self) -> bool {
        self.exprs.len() == self.schema.fields().len()
            && self.exprs.iter().enumerate().all(|(place, expr)| self.place(expr) == Some(place))
    }

    /// What another operator with the same columns gives.
    pub(super) fn map(self, over: impl FnOnce(Node) -> Node) -> Rows {
        Rows { node: over(self.node), ..self }
    }
}
