//! DataFusion's optimiser with two bounds: it ends when nobody waits for the plan, and it does not merge unions without
//! end.
//!
//! A union asks all its inputs for their columns whenever it is looked at, so that ten thousand queries merged into one
//! union take minutes to plan. As a tree of unions of a few dozen inputs each they take no longer than as many queries.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Distinct, LogicalPlan};
use datafusion::optimizer::optimize_unions::OptimizeUnions;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use rowmill_base::{Error, ErrorKind};

use super::stack::is_left_alone;
use crate::errors::to_datafusion;

/// Inputs of one union, beyond which unions stay nested.
const UNION_INPUTS_MAX: usize = 64;

/// The optimizer's rules, bounded.
pub fn bounded_rules(rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    rules.into_iter().map(|inner| Arc::new(Bounded { inner }) as _).collect()
}

#[derive(Debug)]
struct Bounded {
    inner: Arc<dyn OptimizerRule + Send + Sync>,
}

impl OptimizerRule for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if is_left_alone() {
            let error = Error::new(ErrorKind::Cancelled, "the statement was given up while it was planned");
            return Err(to_datafusion(error));
        }
        let merges_unions = self.name() == OptimizeUnions::new().name();
        if merges_unions && merged_inputs(&plan) > UNION_INPUTS_MAX {
            return Ok(Transformed::no(plan));
        }
        self.inner.rewrite(plan, config)
    }
}

/// The inputs that a union has once the unions right below are part of it.
fn merged_inputs(plan: &LogicalPlan) -> usize {
    match plan {
        LogicalPlan::Distinct(Distinct::All(union)) => merged_inputs(union),
        LogicalPlan::Union(union) => union.inputs.iter().map(|input| inputs_of(input)).sum(),
        _ => 0,
    }
}

fn inputs_of(plan: &LogicalPlan) -> usize {
    match plan {
        LogicalPlan::Union(union) => union.inputs.len(),
        LogicalPlan::Distinct(Distinct::All(inner)) => inputs_of(inner),
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Union(union) => union.inputs.len(),
            _ => 1,
        },
        _ => 1,
    }
}
