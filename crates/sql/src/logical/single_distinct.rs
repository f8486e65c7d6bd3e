//! `sum(a), count(DISTINCT b)`: DataFusion's rule for a single DISTINCT makes two groupings of it, and of the sum a sum of
//! sums, whose type is wider by our rules. Such aggregates are left as they are.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

const NAME: &str = "single_distinct_aggregation_to_group_by";

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// DataFusion's optimizer rules, with this exception.
pub(crate) fn optimizer_rules() -> Vec<Rule> {
    let rules = Optimizer::new().rules.into_iter();
    rules.map(|rule| if rule.name() == NAME { Arc::new(WithoutSums { rule }) as Rule } else { rule }).collect()
}

#[derive(Debug)]
struct WithoutSums {
    rule: Rule,
}

impl OptimizerRule for WithoutSums {
    fn name(&self) -> &str {
        NAME
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(is_sum) => Ok(Transformed::no(plan)),
            _ => self.rule.rewrite(plan, config),
        }
    }
}

/// Whether `expr` is a sum of all rows.
fn is_sum(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_sum(&alias.expr),
        Expr::AggregateFunction(call) => call.func.name() == "sum" && !call.params.distinct,
        _ => false,
    }
}
