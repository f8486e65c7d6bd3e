//! What a connection keeps of the statements that it has run, by their texts: syntax trees, and the plans of queries.
//!
//! A plan names tables by id, so it holds for every snapshot with the same catalog. What else it depends on are the
//! settings; when either has changed everything is forgotten. Plans with values of the moment in them (`now()`) are not
//! kept.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::Settings;
use rowmill_query::PhysicalQuery;

use crate::engine_query::PlannedQuery;
use crate::parse::Statement;

/// Texts that are kept at most. When there are more all are forgotten, which costs less than to keep their order.
const TEXTS_MAX: usize = 512;
/// Plans that are kept of one text at most: one for each list of types of its parameters.
const KINDS_MAX: usize = 8;
/// Bytes of a text that is kept at most.
const TEXT_BYTES_MAX: usize = 1 << 14;

/// As much of the plan of a query as holds for other runs of it.
#[derive(Clone, Debug)]
pub(crate) enum CachedPlan {
    /// The operators of a query without parameters.
    Physical(Arc<PhysicalQuery>),
    /// The optimized plan of a query with parameters. The operators depend on their values.
    Planned(Arc<PlannedQuery>),
}

/// The statements of one connection.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    /// By what was parsed, which may end with a semicolon and white space.
    statements: HashMap<String, Statement>,
    /// By the statement itself, one for each list of types that its parameters are given.
    plans: HashMap<String, Vec<(Vec<DataType>, CachedPlan)>>,
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

    /// The plan of a statement whose parameters have the types `kinds`, if it was made under the same settings for the
    /// same catalog.
    pub(crate) fn plan(
        &self,
        text: &str,
        kinds: &[DataType],
        settings: &Settings,
        catalog_version: u64,
    ) -> Option<CachedPlan> {
        if self.settings != *settings || self.catalog_version != catalog_version {
            return None;
        }
        let plans = self.plans.get(text)?;
        plans.iter().find(|(known, _)| known == kinds).map(|(_, plan)| plan.clone())
    }

    /// Keeps the plan of a statement whose parameters have the types `kinds`.
    pub(crate) fn keep_plan(
        &mut self,
        text: &str,
        kinds: &[DataType],
        plan: CachedPlan,
        settings: &Settings,
        catalog_version: u64,
    ) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        self.make_room(settings);
        if self.catalog_version != catalog_version {
            self.plans.clear();
            self.catalog_version = catalog_version;
        }
        let plans = self.plans.entry(text.to_owned()).or_default();
        if plans.len() >= KINDS_MAX {
            plans.clear();
        }
        plans.push((kinds.to_vec(), plan));
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
