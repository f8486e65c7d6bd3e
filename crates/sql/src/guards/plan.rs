//! Places in a plan where it looks at the cancel flag, and the bound on rounds of a recursive query.
//!
//! DataFusion's operators give way to others after a number of batches *read from a leaf*. Operators that make many rows
//! of few (joins, unnesting, windows) can run for minutes on one batch of a leaf, so each of them gets a [`GuardExec`]
//! above it: the flag is looked at, and the scheduler gets its turn, per batch that comes *out*. A join whose condition
//! is never true puts out nothing at all, so its condition itself looks at the flag ([`guard_joins`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::StreamExt;
use rowmill_base::{Cancel, Error, ErrorKind};

use crate::errors::to_datafusion;

/// Operators that can make many batches of one.
const MULTIPLIERS: &[&str] = &[
    "HashJoinExec",
    "CrossJoinExec",
    "NestedLoopJoinExec",
    "SortMergeJoinExec",
    "SymmetricHashJoinExec",
    "PiecewiseMergeJoinExec",
    "UnnestExec",
    "WindowAggExec",
    "BoundedWindowAggExec",
];

/// `plan` with guards above the operators that can run long on little input, and bounded recursive queries.
pub fn guard_plan(plan: Arc<dyn ExecutionPlan>, cancel: &Cancel, recursion_max: u64) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if MULTIPLIERS.contains(&node.name()) {
            return Ok(Transformed::yes(GuardExec::wrap(node, cancel, None) as _));
        }
        let Some(recursive) = node.downcast_ref::<RecursiveQueryExec>() else {
            return Ok(Transformed::no(node));
        };
        let rounds = Rounds { query: recursive.name().into(), done: Arc::new(AtomicU64::new(0)), max: recursion_max };
        let term = GuardExec::wrap(recursive.recursive_term().clone(), cancel, Some(rounds));
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let children = vec![recursive.static_term().clone(), term as _];
        Ok(Transformed::yes(GuardExec::wrap(node.replace_children(children, recompute)?, cancel, None) as _))
    })
    .data()
}

/// Counts the executions of a recursive query's second term: one per round.
#[derive(Clone, Debug)]
struct Rounds {
    query: String,
    done: Arc<AtomicU64>,
    max: u64,
}

impl Rounds {
    fn begin(&self) -> rowmill_base::Result<()> {
        if self.done.fetch_add(1, Ordering::Relaxed) < self.max {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ResultTooLarge,
            format!(
                "the recursive query \"{}\" has not ended after {} rounds, the limit (recursion_max)",
                self.query, self.max
            ),
        )
        .hint("give it a condition that ends it, or raise the limit with SET recursion_max = ..."))
    }
}

/// Passes batches through and looks at the cancel flag for each.
#[derive(Clone, Debug)]
struct GuardExec {
    input: Arc<dyn ExecutionPlan>,
    cancel: Cancel,
    rounds: Option<Rounds>,
}

impl GuardExec {
    fn wrap(input: Arc<dyn ExecutionPlan>, cancel: &Cancel, rounds: Option<Rounds>) -> Arc<GuardExec> {
        Arc::new(GuardExec { input, cancel: cancel.clone(), rounds })
    }
}

impl DisplayAs for GuardExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardExec")
    }
}

impl ExecutionPlan for GuardExec {
    fn name(&self) -> &str {
        "GuardExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            // The count of rounds stays: the plan is made anew for every round.
            (Some(input), true) => {
                Ok(Arc::new(GuardExec { input, cancel: self.cancel.clone(), rounds: self.rounds.clone() }))
            }
            _ => internal_err!("a guard has one input"),
        }
    }

    // The name it had before; the trait still asks for it.
    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.cancel.check().map_err(to_datafusion)?;
        if let Some(rounds) = &self.rounds {
            rounds.begin().map_err(to_datafusion)?;
        }
        let input = make_cooperative(self.input.execute(partition, context)?);
        let schema = input.schema();
        let cancel = self.cancel.clone();
        let checked = input.map(move |batch| {
            cancel.check().map_err(to_datafusion)?;
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, checked)))
    }
}

/// `plan` with join conditions that look at the cancel flag whenever they are evaluated.
///
/// For the plan that goes to DataFusion's physical planner, after all optimiser rules: they do not see through it.
pub fn guard_joins(plan: LogicalPlan, cancel: &Cancel) -> Result<LogicalPlan> {
    let checkpoint = Arc::new(ScalarUDF::from(Checkpoint {
        signature: Signature::any(1, Volatility::Immutable),
        cancel: Identity(cancel.clone()),
    }));
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(mut join) => {
            let Some(filter) = join.filter.take() else {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            };
            join.filter = Some(checkpoint.call(vec![filter]));
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// The condition inside a checkpoint, for code that looks at join conditions.
pub fn without_checkpoint(filter: &Expr) -> &Expr {
    match filter {
        Expr::ScalarFunction(call) if call.func.inner().is::<Checkpoint>() => &call.args[0],
        other => other,
    }
}

/// Its argument, unless the statement was cancelled.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checkpoint {
    signature: Signature,
    cancel: Identity,
}

/// A cancel flag that equals every other: two checkpoints of one statement are the same function.
#[derive(Clone, Debug)]
struct Identity(Cancel);

impl PartialEq for Identity {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Identity {}

impl std::hash::Hash for Identity {
    fn hash<H: std::hash::Hasher>(&self, _state: &mut H) {}
}

impl ScalarUDFImpl for Checkpoint {
    fn name(&self) -> &str {
        "checkpoint"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments[0].to_string())
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments[0].schema_name().to_string())
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.cancel.0.check().map_err(to_datafusion)?;
        match arguments.args.pop() {
            Some(argument) => Ok(argument),
            None => internal_err!("a checkpoint has one argument"),
        }
    }
}
