//! DataFusion, set up once per connection: functions, rules, memory, and the options that each statement adjusts.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::prelude::SessionConfig;
use rowmill_base::{Error, Result};
use rowmill_txn::Engine;

use crate::catalog::{StatementCatalog, StatementContext};
use crate::errors::{NameCandidates, from_datafusion};
use crate::guards::{BrokerPool, GuardOptions};
use crate::names::{CATALOG, DEFAULT_SCHEMA};
use crate::{log_functions, semantics, sequence_functions, storage_function};

/// Makes session states for statements.
#[derive(Debug)]
pub(crate) struct Planner {
    base: SessionState,
    task: Arc<TaskContext>,
}

impl Planner {
    pub(crate) fn new(engine: &Engine) -> Result<Self> {
        let builder = SessionStateBuilder::new()
            .with_config(semantics::configure(config()))
            .with_runtime_env(runtime_env(engine)?)
            .with_default_features();
        let base = semantics::install(builder).build();
        Ok(Planner { task: base.task_ctx(), base })
    }

    /// The state in which a statement is planned and run.
    pub(crate) fn state(self: &Arc<Self>, context: &Arc<StatementContext>) -> SessionState {
        StatementCatalog::new(Arc::clone(context), Arc::clone(self)).state()
    }

    /// The state of a statement, still without its catalog.
    pub(crate) fn configured(&self, context: &Arc<StatementContext>) -> SessionState {
        let mut state = self.base.clone();
        let settings = &context.settings;
        let config = std::mem::take(state.config_mut());
        *state.config_mut() =
            config.with_target_partitions(settings.threads()).with_batch_size(settings.number("batch_rows") as usize);
        GuardOptions::from(settings).install(state.config_mut().options_mut());
        storage_function::register(&mut state, context);
        log_functions::register(&mut state, context);
        sequence_functions::register(&mut state, context);
        // What now() and current_date answer during the statement.
        state.mark_start_execution();
        state
    }

    /// What operators run with that need nothing of their statement.
    pub(crate) fn task(&self) -> Arc<TaskContext> {
        Arc::clone(&self.task)
    }

    /// DataFusion's error in our words, with the names that the statement could have meant.
    pub(crate) fn translate(&self, error: DataFusionError, context: &StatementContext) -> Error {
        from_datafusion(error, &Candidates { planner: self, context })
    }
}

fn config() -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
        .with_create_default_catalog_and_schema(false)
        // Ours lists the names as spelled and the types as SQL.
        .with_information_schema(false);
    let options = config.options_mut();
    // Names are in lower case already; what is left is a name of a file.
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.collect_spans = true;
    config
}

fn runtime_env(engine: &Engine) -> Result<Arc<RuntimeEnv>> {
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(BrokerPool::new(engine.broker().clone())))
        .build_arc()
        .map_err(|error| Error::internal(format!("the folder for temporary files: {error}")))
}

/// The names that exist.
struct Candidates<'a> {
    planner: &'a Planner,
    context: &'a StatementContext,
}

impl NameCandidates for Candidates<'_> {
    fn tables(&self) -> Vec<String> {
        let catalog = self.context.snapshot.catalog();
        let schemas = catalog.schemas();
        schemas
            .flat_map(|schema| {
                let prefix = if schema.name == DEFAULT_SCHEMA { String::new() } else { format!("{}.", schema.name) };
                let tables = catalog.tables(schema.id).map(|table| &table.name);
                let names = tables.chain(catalog.views(schema.id).map(|view| &view.name));
                names.map(|name| format!("{prefix}{name}")).collect::<Vec<_>>()
            })
            .collect()
    }

    fn functions(&self) -> Vec<String> {
        let state = &self.planner.base;
        let scalar = state.scalar_functions().keys();
        scalar.chain(state.aggregate_functions().keys()).chain(state.window_functions().keys()).cloned().collect()
    }

    fn column(&self, relation: Option<&str>, name: &str) -> String {
        let catalog = self.context.snapshot.catalog();
        let tables = catalog.schemas().flat_map(|schema| catalog.tables(schema.id));
        tables
            .filter(|table| relation.is_none_or(|relation| table.name.to_lowercase() == relation))
            .find_map(|table| table.column_index(name).map(|index| table.columns[index].name.clone()))
            .unwrap_or_else(|| name.to_string())
    }

    fn default_schema(&self) -> (String, String) {
        (CATALOG.into(), DEFAULT_SCHEMA.into())
    }
}
