//! Rows of grouping sets have no order and lie in no particular partition, whatever DataFusion believes.
//!
//! Its operator groups a batch by one set behind the other, and puts NULL for keys that a set leaves out. What it says of
//! its rows is what was true of its input, though: that they are in the order of a key, or parted by one. Operators above rely
//! on that, and a grouping that believes its input in order gives a group twice. So an operator that says nothing stands
//! between.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr,
    PlanProperties, ReplaceChildrenOptions,
};

/// Puts an operator without claims above each grouping by several sets. To run before the rules that go by claims.
#[derive(Debug)]
pub(super) struct UnorderedSets;

impl PhysicalOptimizerRule for UnorderedSets {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let has_sets = |node: &Arc<dyn ExecutionPlan>| {
            node.downcast_ref::<AggregateExec>().is_some_and(|grouping| !grouping.group_expr().is_single())
        };
        plan.transform_up(|node| match has_sets(&node) {
            true => Ok(Transformed::yes(UnorderedExec::over(node) as _)),
            false => Ok(Transformed::no(node)),
        })
        .map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "unordered_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes batches through, of which nothing is said.
#[derive(Debug)]
struct UnorderedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    fn over(input: Arc<dyn ExecutionPlan>) -> Arc<UnorderedExec> {
        let partitioning = Partitioning::UnknownPartitioning(input.output_partitioning().partition_count());
        let equivalences = EquivalenceProperties::new(input.schema());
        let (emission, bound) = (input.pipeline_behavior(), input.boundedness());
        let properties = Arc::new(PlanProperties::new(equivalences, partitioning, emission, bound));
        Arc::new(UnorderedExec { input, properties })
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnorderedExec")
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &str {
        "UnorderedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(UnorderedExec::over(input)),
            _ => internal_err!("rows without an order come from one input"),
        }
    }

    // The name it had before; the trait still asks for it.
    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
