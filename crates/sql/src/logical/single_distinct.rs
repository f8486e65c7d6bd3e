//! `count(DISTINCT b)`: DataFusion's rule for a single DISTINCT makes two groupings of it. It is left out: how values are put
//! together best depends on how they lie in a table, which the engine knows when it runs; and of a sum beside them the
//! rule makes a sum of sums, whose type is wider by our rules.

use std::sync::Arc;

use datafusion::optimizer::{Optimizer, OptimizerRule};

use super::wary_rules::wary;

const NAME: &str = "single_distinct_aggregation_to_group_by";

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// DataFusion's optimizer rules, without this one, and others with bounds.
pub(crate) fn optimizer_rules() -> Vec<Rule> {
    Optimizer::new().rules.into_iter().filter(|rule| rule.name() != NAME).map(wary).collect()
}
