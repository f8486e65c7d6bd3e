//! Recursive queries whose two terms describe their columns differently.
//!
//! A column that is taken from a table carries the table's spelling of its name, a computed one carries nothing, and
//! DataFusion's operator takes only terms whose columns carry the same. Both get what either has; of two it is the
//! first term's, which names the columns.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::Result;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::logical_plan::RecursiveQuery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

/// Gives the terms of a recursive query the same metadata; what stands above takes it over.
pub(super) fn agree(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut is_recursive = false;
    plan.apply_with_subqueries(|node| {
        is_recursive |= matches!(node, LogicalPlan::RecursiveQuery(_));
        Ok(if is_recursive { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if is_recursive { plan.transform_up_with_subqueries(agree_at).data() } else { Ok(plan) }
}

fn agree_at(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::RecursiveQuery(query) => {
            let fields: Vec<Field> = query
                .static_term
                .schema()
                .fields()
                .iter()
                .zip(query.recursive_term.schema().fields())
                .map(|(first, second)| {
                    let mut metadata = second.metadata().clone();
                    metadata.extend(first.metadata().clone());
                    first.as_ref().clone().with_metadata(metadata)
                })
                .collect();
            let first = with_metadata(query.static_term, &fields)?;
            let second = with_metadata(query.recursive_term, &fields)?;
            let query = RecursiveQuery::try_new(query.name, first, second, query.is_distinct)?;
            Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
        }
        // The schema of what it reads may have changed.
        other => other.recompute_schema().map(Transformed::yes),
    }
}

/// `term` with the metadata of `fields`, if its own is another.
fn with_metadata(term: Arc<LogicalPlan>, fields: &[Field]) -> Result<Arc<LogicalPlan>> {
    let schema = Arc::clone(term.schema());
    if schema.fields().iter().zip(fields).all(|(own, wanted)| own.metadata() == wanted.metadata()) {
        return Ok(term);
    }
    let columns = schema.columns().into_iter().zip(fields).map(|(column, wanted)| {
        let alias = Alias::new(Expr::Column(column.clone()), column.relation, column.name);
        Expr::Alias(alias.with_metadata(Some(FieldMetadata::from(wanted))))
    });
    LogicalPlanBuilder::from(term).project(columns)?.build().map(Arc::new)
}
