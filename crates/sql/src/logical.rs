//! Bound plans brought into a form that says what SQL means, where DataFusion's own says less.
//!
//! Each file is one rewrite. They run as rules of the analyzer: those of [`first`] before types are brought together,
//! so that what they build gets its types like everything that was written; those of [`last`] after.

mod all_rows;
mod cast_names;
mod in_lists;
mod nullable_values;
mod recursion;
mod single_distinct;
mod subqueries;
mod wary_rules;

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;

pub(crate) use cast_names::CastNames;
pub(crate) use single_distinct::optimizer_rules;
pub(crate) use subqueries::subquery_of;

type AnyRule = Arc<dyn AnalyzerRule + Send + Sync>;

/// The rewrites of plans whose types are not settled.
pub(crate) fn first() -> Vec<AnyRule> {
    vec![
        rule("rowmill_recursion", recursion::agree),
        rule("rowmill_subqueries", subqueries::unnest),
        rule("rowmill_nullable_values", nullable_values::allow_null),
    ]
}

/// The rewrites of plans whose types are settled.
pub(crate) fn last() -> Vec<AnyRule> {
    vec![rule("rowmill_all_rows", all_rows::number_rows), rule("rowmill_in_lists", in_lists::spell_out)]
}

/// A rewrite of a whole plan as a rule of the analyzer.
pub(crate) fn rule(name: &'static str, rewrite: fn(LogicalPlan) -> Result<LogicalPlan>) -> AnyRule {
    Arc::new(Rule { name, rewrite })
}

struct Rule {
    name: &'static str,
    rewrite: fn(LogicalPlan) -> Result<LogicalPlan>,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl AnalyzerRule for Rule {
    fn name(&self) -> &str {
        self.name
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        (self.rewrite)(plan)
    }
}
