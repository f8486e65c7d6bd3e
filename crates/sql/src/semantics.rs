//! The rules by which statements are answered, where they are not DataFusion's own.
//!
//! docs/sql-semantics.md states them; the files under tests/slt/semantics hold one test for each. They come in at five
//! places of a statement's life:
//!
//! 1. the parsed statement ([`prepare`]): number literals, clauses that would otherwise be ignored;
//! 2. names of types ([`SqlTypes`]);
//! 3. operators as they are bound ([`typing`]): which types go together and what they make;
//! 4. the analysed plan ([`rules`]): operators and casts that need a check become functions that check;
//! 5. functions and aggregates of the same name as DataFusion's ([`functions`], [`aggregates`]).
//!
//! [`install`] puts 2 to 5 into a session; 1 is called between the parser and the planner.

mod aggregates;
mod alike;
mod arithmetic;
mod functions;
mod pieces;
mod precedence;
mod rules;
mod statement;
mod typing;
mod unordered_sets;
mod whole_sorts;

use std::sync::Arc;

use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::Analyzer;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;

pub(crate) use aggregates::total_error;
pub use arithmetic::arithmetic_operator;
pub use statement::prepare;

use crate::guards::{bound_aggregates, bound_scalars, bounded_rules};
use crate::logical;
use crate::types::SqlTypes;

/// How deep the parser may recurse: deeper than any statement that passes the limits, which are checked before.
const PARSER_DEPTH_MAX: usize = 1_000_000;

/// Sets the options of DataFusion that our rules stand on.
pub fn configure(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = true;
    options.sql_parser.collect_spans = true;
    options.sql_parser.recursion_limit =
        ConfigNonZeroUsize::try_new(PARSER_DEPTH_MAX).expect("a constant other than zero");
    options.execution.time_zone = Some("UTC".into());
    // Simplified expressions differ from written ones in nullability and in the spelling that a column carries.
    options.execution.skip_physical_aggregate_schema_check = true;
    config
}

/// A session with our rules, for a builder that has DataFusion's default features and a [`configure`]d config.
pub fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut passes = vec![rules::typing()];
    passes.extend(Analyzer::new().rules);
    passes.push(rules::checking());
    let mut rules = logical::first();
    rules.push(pieces::in_pieces(passes));
    rules.extend(logical::last());
    let planners = builder.expr_planners().get_or_insert_default();
    planners.insert(0, Arc::new(typing::Operators));
    planners.insert(1, Arc::new(logical::CastNames));
    let scalars = builder.scalar_functions().get_or_insert_default();
    functions::register(scalars);
    bound_scalars(scalars);
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    aggregates.retain(|function| !["sum", "avg", "approx_distinct"].contains(&function.name()));
    aggregates.extend(aggregates::functions());
    bound_aggregates(aggregates);
    let builder = builder.with_analyzer_rules(rules).with_optimizer_rules(bounded_rules(logical::optimizer_rules()));
    let builder = builder.with_physical_optimizer_rules(physical_rules());
    builder.with_type_planner(Arc::new(SqlTypes))
}

/// DataFusion's rules over operators, without those that push conditions down: they tell the columns of a join apart by
/// name, so that a condition on one side may land on the other. Our scans get their conditions before, from the
/// rule over the logical plan. Two of ours stand around them.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
    // Before those that rely on orders, and behind those that give limits to sorts.
    rules.insert(0, Arc::new(unordered_sets::UnorderedSets));
    rules.push(Arc::new(whole_sorts::WholeSorts));
    rules
}
