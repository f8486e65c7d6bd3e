//! Expressions over one row of a table, for example the conditions of CHECK and the values of DEFAULT. They are
//! evaluated for a batch of rows without a plan.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use rowmill_base::Result;
use rowmill_expr::evaluator::Evaluator;
use rowmill_expr::functions;
use rowmill_plan::{ScalarExpr, Volatility};
use rowmill_query::binder::{self, ExprColumn};
use rowmill_storage::TableDef;
use rowmill_txn::Snapshot;
use sqlparser::ast;

use crate::names::lower;
use crate::query_catalog::ContextCatalog;
use crate::session::Work;

/// An expression over the columns of a table, or over no columns.
#[derive(Debug)]
pub(super) struct RowExpr {
    expr: ScalarExpr,
    evaluator: Evaluator,
}

impl RowExpr {
    /// Binds `expr` over the columns of `table`, if given, and casts it to the type `wanted`, if given. `clause` names
    /// the place of the expression in errors.
    pub(super) fn bind(
        work: &Work<'_>,
        snapshot: Arc<Snapshot>,
        expr: &ast::Expr,
        wanted: Option<&DataType>,
        table: Option<&TableDef>,
        clause: &'static str,
    ) -> Result<RowExpr> {
        let scope = table.map(columns).unwrap_or_default();
        let catalog = ContextCatalog::new(work.context(snapshot));
        let spelling = |ident: &ast::Ident| ident.value.clone();
        let bound = work
            .with_planning_room(|| binder::bind_exprs(&[(expr, wanted)], &scope, clause, &catalog, &spelling, &[]))?;
        let expr = bound.exprs.into_iter().next().expect("one expression was bound");
        RowExpr::new(work, expr)
    }

    /// Prepares a bound expression.
    pub(super) fn new(work: &Work<'_>, expr: ScalarExpr) -> Result<RowExpr> {
        let evaluator = evaluator(work, &expr)?;
        Ok(RowExpr { expr, evaluator })
    }

    /// Returns the type of the values.
    pub(super) fn kind(&self) -> &DataType {
        &self.expr.kind
    }

    /// Whether each evaluation may give another value.
    pub(super) fn is_volatile(&self) -> bool {
        self.expr.volatility() == Volatility::Volatile
    }

    /// Returns the values for `rows` rows, whose columns must be those of the table.
    pub(super) fn values(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.evaluator.evaluate(columns, rows)
    }
}

/// Prepares a bound expression over the columns of a table.
pub(super) fn evaluator(work: &Work<'_>, expr: &ScalarExpr) -> Result<Evaluator> {
    let result_bytes_max = work.settings().number("result_value_max_bytes");
    functions::with_result_limit(result_bytes_max, || work.with_planning_room(|| Evaluator::new(expr)))
}

fn columns(table: &TableDef) -> Vec<ExprColumn> {
    let columns = table.columns.iter().map(|column| ExprColumn {
        schema: None,
        table: Some(lower(&table.name)),
        name: column.name.clone(),
        kind: column.kind.arrow(),
    });
    columns.collect()
}
