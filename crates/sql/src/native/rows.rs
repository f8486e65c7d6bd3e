//! What a part of a logical plan gives, while it is lowered.
//!
//! Projections are not lowered where they stand: what they compute is kept as expressions over the operator below, and
//! put into whatever reads them. So a filter, key or argument is worked out over stored columns, once per distinct value
//! where that is cheaper, and columns that nobody reads are never made. Inner joins wait too, until all that are joined
//! to each other are known and their order can be chosen ([`super::join_graph`]).

use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::Expr;
use rowmill_plan::Node;

use super::join_graph::JoinGraph;
use crate::substitution::substitute;

/// Rows, and what the logical plan makes of them.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) source: Source,
    /// The columns of the source, under names that no other source's have.
    pub(super) schema: DFSchemaRef,
    /// The columns of the logical plan, over `schema`.
    pub(super) exprs: Vec<Expr>,
    /// Whether there is more in the source than DataFusion's plans can take out of a scan themselves.
    pub(super) works: bool,
}

/// Where rows come from.
#[derive(Clone)]
pub(super) enum Source {
    Operator(Arc<Node>),
    /// Inner joins that have no order yet.
    Joins(Arc<JoinGraph>),
}

impl Rows {
    /// An operator whose columns are those of the logical plan.
    pub(super) fn new(node: Node, schema: DFSchemaRef, works: bool) -> Rows {
        let exprs = schema.columns().into_iter().map(Expr::Column).collect();
        Rows { source: Source::Operator(Arc::new(node)), schema, exprs, works }
    }

    /// The operator; inner joins have been put in order.
    pub(super) fn node(&self) -> &Arc<Node> {
        match &self.source {
            Source::Operator(node) => node,
            Source::Joins(_) => unreachable!("the joins have no order yet"),
        }
    }

    /// `expr`, which is over the columns of the logical plan `schema`, over those of the source.
    pub(super) fn resolve(&self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        substitute(expr, schema, &self.exprs)
    }

    /// The source's column that `expr` is.
    pub(super) fn place(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Column(column) => self.schema.maybe_index_of_column(column),
            _ => None,
        }
    }

    /// Whether all columns that `expr` reads are the source's.
    pub(super) fn has(&self, expr: &Expr) -> bool {
        expr.column_refs().into_iter().all(|column| self.schema.maybe_index_of_column(column).is_some())
    }

    /// Whether the columns of the logical plan are those of the source.
    pub(super) fn is_plain(&self) -> bool {
        self.exprs.len() == self.schema.fields().len()
            && self.exprs.iter().enumerate().all(|(place, expr)| self.place(expr) == Some(place))
    }

    /// What another operator with the same columns gives.
    pub(super) fn over(self, node: Node) -> Rows {
        Rows { source: Source::Operator(Arc::new(node)), ..self }
    }
}
