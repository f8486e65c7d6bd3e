//! CASE expressions of DataFusion as those of the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable};
use rowmill_exec::case::{Branch, Case};
use rowmill_exec::function::VectorFunction;

use super::function::{ExprFunction, never_fails};

/// What `expr` over the columns of `schema` chooses of, if it chooses among texts of columns and constants.
pub(super) fn case(expr: &Expr, schema: &DFSchema, state: &SessionState) -> PlanResult<Option<Case>> {
    let Expr::Case(case) = expr else { return Ok(None) };
    if case.expr.is_some() || expr.get_type(schema)? != DataType::Utf8View {
        return Ok(None);
    }
    let Some(otherwise) = branch(case.else_expr.as_deref(), schema)? else { return Ok(None) };
    let mut arms = Vec::with_capacity(case.when_then_expr.len());
    for (when, then) in &case.when_then_expr {
        let Some(branch) = branch(Some(then), schema)?.filter(|_| never_fails(when, schema)) else { return Ok(None) };
        arms.push((condition(when, schema, state)?, branch));
    }
    Ok(Some(Case { arms, otherwise }))
}

fn branch(expr: Option<&Expr>, schema: &DFSchema) -> PlanResult<Option<Branch>> {
    let constant = match expr {
        Some(Expr::Column(column)) => {
            let place = schema.index_of_column(column)?;
            let is_text = *schema.field(place).data_type() == DataType::Utf8View;
            return Ok(is_text.then_some(Branch::Column(place)));
        }
        Some(Expr::Literal(constant, _)) if constant.data_type() == DataType::Utf8View => constant.clone(),
        Some(_) => return Ok(None),
        None => ScalarValue::Utf8View(None),
    };
    Ok(Some(Branch::Constant(constant.to_array()?)))
}

/// A condition, which reads columns by their places in `schema`.
fn condition(when: &Expr, schema: &DFSchema, state: &SessionState) -> PlanResult<Arc<dyn VectorFunction>> {
    let places = when.column_refs().into_iter().map(|column| schema.index_of_column(column));
    let places = places.collect::<PlanResult<BTreeSet<usize>>>()?;
    let fields = places.iter().map(|place| (None, Arc::clone(schema.field(*place)))).collect();
    let own = DFSchema::new_with_metadata(fields, Default::default())?;
    let function = ExprFunction::new(when, &own, places.into_iter().collect(), DataType::Boolean, state)?;
    Ok(Arc::new(function))
}
