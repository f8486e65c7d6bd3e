//! What a connection keeps of the statements that it has run, by their texts: syntax trees, and the plans of queries that
//! the engine runs as a whole.
//!
//! A plan names tables by id, so it holds for every snapshot with the same catalog. What else it depends on are the
//! settings; when either has changed everything is forgotten. Plans with values of the moment in them (`now()`) or with
//! parameters are not kept.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use rowmill_base::Settings;
use rowmill_query::PhysicalQuery;

use crate::native::PlanShape;
use crate::parse::Statement;

/// Texts that are kept at most. When there are more all are forgotten, which costs less than to keep their order.
const TEXTS_MAX: usize = 512;
/// Bytes of a text that is kept at most.
const TEXT_BYTES_MAX: usize = 1 << 14;

/// The plan of a query, and what its result looks like.
#[derive(Clone, Debug)]
pub(crate) enum CachedPlan {
    /// Our own front end planned it.
    Engine(Arc<PhysicalQuery>),
    /// DataFusion planned it, and all of it is the engine's.
    Native {
        shape: Arc<PlanShape>,
        /// The names of the result as spelled, and the types that the operators give.
        schema: SchemaRef,
    },
}

/// The statements of one connection.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    /// By what was parsed, which may end with a semicolon and white space.
    statements: HashMap<String, Statement>,
    /// By the statement itself.
    plans: HashMap<String, CachedPlan>,
    /// Under which all of them were parsed and planned.
    settings: Settings,
    /// Of the catalog that all plans were made for.
    catalog_version: u64,
}

impl PlanCache {
    /// The syntax tree of `text`, if it was parsed under the same settings.
    pub(crate) fn statement(&self, text: &str, settings: &Settings) -> Option<Statement> {
        if self.settings == *settings { self.statements.get(text).cloned() } else { None }
    }

    /// Keeps `statement`, which is all of `text`.
    pub(crate) fn keep_statement(&mut self, text: &str, statement: &Statement, settings: &Settings) {
        if text.len() <= TEXT_BYTES_MAX {
            self.make_room(settings);
            self.statements.insert(text.to_owned(), statement.clone());
        }
    }

    /// The plan of a statement, if it was made under the same settings for the same catalog.
    pub(crate) fn plan(&self, text: &str, settings: &Settings, catalog_version: u64) -> Option<CachedPlan> {
        let is_valid = self.settings == *settings && self.catalog_version == catalog_version;
        if is_valid { self.plans.get(text).cloned() } else { None }
    }

    /// Keeps the plan of a statement.
    pub(crate) fn keep_plan(&mut self, text: &str, plan: CachedPlan, settings: &Settings, catalog_version: u64) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        self.make_room(settings);
        if self.catalog_version != catalog_version {
            self.plans.clear();
            self.catalog_version = catalog_version;
        }
        self.plans.insert(text.to_owned(), plan);
    }

    fn make_room(&mut self, settings: &Settings) {
        if self.settings != *settings {
            self.settings = settings.clone();
            self.statements.clear();
            self.plans.clear();
        }
        if self.statements.len() >= TEXTS_MAX {
            self.statements.clear();
        }
        if self.plans.len() >= TEXTS_MAX {
            self.plans.clear();
        }
    }
}

/// Whether a plan, before it is optimised, means the same at any other time.
pub(crate) fn is_timeless(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut timeless = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr {
                    timeless &= call.func.signature().volatility == Volatility::Immutable;
                }
                Ok(if timeless { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    })?;
    Ok(timeless)
}
