//! Expressions of DataFusion as functions of the engine.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use rowmill_base::{Error, Result};
use rowmill_exec::function::VectorFunction;

use super::regexp::prepared;
use crate::errors::{NoCandidates, from_datafusion};

/// An expression over columns of one table.
#[derive(Debug)]
pub(super) struct ExprFunction {
    expr: Arc<dyn PhysicalExpr>,
    /// The columns that it reads, as the expression knows them and as the table does.
    schema: SchemaRef,
    columns: Vec<usize>,
    kind: DataType,
}

impl ExprFunction {
    /// `expr` over the columns of `schema`, which are those at `columns` of the table, with results of type `kind`.
    pub(super) fn new(
        expr: &Expr,
        schema: &DFSchema,
        columns: Vec<usize>,
        kind: DataType,
        state: &SessionState,
    ) -> PlanResult<ExprFunction> {
        let expr = state.create_physical_expr(prepared(expr.clone())?, schema)?;
        // What the planner believes of NULLs is not relied on.
        let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(ExprFunction { expr, schema, columns, kind })
    }
}

impl VectorFunction for ExprFunction {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.to_vec(), &options)
            .map_err(|error| Error::internal(error.to_string()))?;
        let values = self
            .expr
            .evaluate(&batch)
            .and_then(|values| values.into_array(rows))
            .map_err(|error| from_datafusion(error, &NoCandidates))?;
        match *values.data_type() == self.kind {
            true => Ok(values),
            false => cast(&values, &self.kind).map_err(|error| Error::internal(error.to_string())),
        }
    }
}
