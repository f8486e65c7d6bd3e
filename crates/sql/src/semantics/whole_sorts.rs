//! Sorts of which only the first rows are wanted, where DataFusion finds others.
//!
//! Its operator for the first rows leaves out rows that come behind the last of those that it has. By a list it leaves out others
//! too: rows of later batches that have an equal list and come first by another key are lost. So by columns that are nested all
//! rows are sorted, and the first taken.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;

/// Makes a sort and a limit of each sort by a nested column that has a limit.
#[derive(Debug)]
pub(super) struct WholeSorts;

impl PhysicalOptimizerRule for WholeSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| Ok(whole(&plan)?.map_or(Transformed::no(plan), Transformed::yes)))
            .map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "whole_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn whole(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(sort) = plan.downcast_ref::<SortExec>() else { return Ok(None) };
    let Some(rows) = sort.fetch() else { return Ok(None) };
    let schema = sort.input().schema();
    let mut is_nested = false;
    for key in sort.expr() {
        is_nested |= key.expr.data_type(&schema)?.is_nested();
    }
    if !is_nested {
        return Ok(None);
    }
    let all = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()))
        .with_preserve_partitioning(sort.preserve_partitioning());
    Ok(Some(match sort.preserve_partitioning() {
        true => Arc::new(LocalLimitExec::new(Arc::new(all), rows)),
        false => Arc::new(GlobalLimitExec::new(Arc::new(all), 0, Some(rows))),
    }))
}
