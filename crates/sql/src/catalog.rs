//! The database as one statement sees it: DataFusion's catalog traits over one snapshot.
//!
//! A fresh catalog is made per statement, so that every table of the statement comes from the same commit and carries
//! the statement's cancel flag. Nothing is copied: a table is looked up in the snapshot when the planner asks for it.
//!
//! A view is planned from its text when it is used. The catalog that plans it knows the views that are being planned
//! around it, so a view that leads back to itself is an error rather than an endless loop.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider};
use datafusion::common::{DataFusionError, Result as PlanResult};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::SessionState;
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Error, ErrorKind, Result, SchemaId, Settings, ViewId};
use rowmill_exec::scan::ScanMetrics;
use rowmill_storage::TableSource;
use rowmill_txn::{Engine, Snapshot, ViewDef};

use crate::errors::to_datafusion;
use crate::files::provider::provider_of;
use crate::files::{FileSet, ReadOptions};
use crate::guards::Patience;
use crate::information_schema::{self, INFORMATION_SCHEMA};
use crate::names::{CATALOG, lower};
use crate::planner::Planner;
use crate::table_scan::{ScanProgress, SnapshotTable};
use crate::view;

/// Views inside views beyond which a statement is refused.
const VIEW_DEPTH_MAX: usize = 64;

/// Behind the name of a table: the same table with the numbers of its rows as one more column. No statement can write
/// this character in a name that it looks up, so the twin is only reached by our own `UPDATE` and `DELETE`.
pub(crate) const ROW_NUMBER_SUFFIX: &str = "\u{1}rows";

/// The name under which `table`, in lower case, has the column [`ROW_NUMBER_COLUMN`].
pub(crate) fn row_number_twin(table: &str) -> String {
    format!("{table}{ROW_NUMBER_SUFFIX}")
}

/// The column of row numbers (`BIGINT UNSIGNED`), last in the twin of a table.
pub(crate) const ROW_NUMBER_COLUMN: &str = "\u{1}row_number";

/// Behind the name of a table: rows that are about to be written to it, for conditions on them.
pub(crate) const NEW_ROWS_SUFFIX: &str = "\u{1}new";

/// The name under which `table`, in lower case, has the rows of [`StatementContext::new_rows`].
pub(crate) fn new_rows_twin(table: &str) -> String {
    format!("{table}{NEW_ROWS_SUFFIX}")
}

/// What one statement works with.
#[derive(Debug)]
pub(crate) struct StatementContext {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) cancel: Cancel,
    pub(crate) settings: Settings,
    /// The database, for what is told of it beside its rows. A plan that outlives its statement must not keep it open.
    pub(crate) engine: Weak<Engine>,
    /// Grants the memory of the engine's operators.
    pub(crate) broker: Broker,
    /// What planning has to say beside the result.
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
    /// The scans of the statement, for its progress.
    pub(crate) scans: Mutex<Vec<Arc<ScanProgress>>>,
    /// What `now()` gives: microseconds since 1970-01-01 UTC.
    pub(crate) now_us: i64,
    /// Rows that are about to be written.
    pub(crate) new_rows: Option<Arc<dyn TableSource>>,
}

impl StatementContext {
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        cancel: Cancel,
        settings: Settings,
        engine: &Arc<Engine>,
        notices: Arc<Mutex<Vec<String>>>,
        now_us: i64,
    ) -> Arc<Self> {
        let (broker, engine) = (engine.broker().clone(), Arc::downgrade(engine));
        let scans = Mutex::default();
        Arc::new(StatementContext {
            snapshot,
            cancel,
            settings,
            engine,
            broker,
            notices,
            scans,
            now_us,
            new_rows: None,
        })
    }

    /// The same with rows that are about to be written.
    pub(crate) fn with_new_rows(self: Arc<Self>, rows: Arc<dyn TableSource>) -> Arc<Self> {
        let mut this = Arc::into_inner(self).expect("nobody has seen it yet");
        this.new_rows = Some(rows);
        Arc::new(this)
    }

    /// Has `progress` count by `metrics`, and the statement's progress by `progress`.
    pub(crate) fn follow(&self, progress: &Arc<ScanProgress>, metrics: &Arc<ScanMetrics>) {
        if progress.follow(Arc::clone(metrics)) {
            self.scans.lock().push(Arc::clone(progress));
        }
    }

    /// How long the statement's planning may take.
    pub(crate) fn patience(&self) -> Patience {
        Patience::new(&self.cancel, &self.settings)
    }
}

/// The one catalog of a statement, as DataFusion wants to list it.
#[derive(Clone, Debug)]
pub(crate) struct StatementCatalog {
    context: Arc<StatementContext>,
    /// Plans the views.
    planner: Arc<Planner>,
    /// The views that are being planned, outermost first.
    views: Vec<ViewId>,
}

impl StatementCatalog {
    pub(crate) fn new(context: Arc<StatementContext>, planner: Arc<Planner>) -> Self {
        StatementCatalog { context, planner, views: Vec::new() }
    }

    /// A session state whose tables are those of this catalog.
    pub(crate) fn state(&self) -> SessionState {
        let mut state = self.planner.configured(&self.context);
        state.register_catalog_list(Arc::new(self.clone()));
        state
    }

    /// The catalog in which the query of `view` is planned.
    fn inside(&self, view: &ViewDef) -> Result<StatementCatalog> {
        if self.views.contains(&view.id) {
            return Err(Error::new(
                ErrorKind::InvalidDefinition,
                format!("the view \"{}\" refers to itself through other views", view.name),
            )
            .hint("drop one of them and create it anew"));
        }
        if self.views.len() == VIEW_DEPTH_MAX {
            return Err(Error::new(
                ErrorKind::StatementTooComplex,
                format!("views are nested deeper than {VIEW_DEPTH_MAX}, at \"{}\"", view.name),
            ));
        }
        let mut inner = self.clone();
        inner.views.push(view.id);
        Ok(inner)
    }
}

impl CatalogProviderList for StatementCatalog {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.into()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::new(self.clone()) as Arc<dyn CatalogProvider>)
    }
}

impl CatalogProvider for StatementCatalog {
    fn schema_names(&self) -> Vec<String> {
        let names = self.context.snapshot.catalog().schemas().map(|schema| lower(&schema.name));
        names.chain([INFORMATION_SCHEMA.into()]).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == INFORMATION_SCHEMA {
            return Some(information_schema::provider(Arc::clone(&self.context)));
        }
        let schema = self.context.snapshot.catalog().schema(name)?.id;
        Some(Arc::new(SnapshotSchema { catalog: self.clone(), schema }))
    }
}

/// One schema of the snapshot.
#[derive(Debug)]
struct SnapshotSchema {
    catalog: StatementCatalog,
    schema: SchemaId,
}

impl SnapshotSchema {
    fn snapshot(&self) -> &Snapshot {
        &self.catalog.context.snapshot
    }

    fn stored_table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        if name.ends_with(NEW_ROWS_SUFFIX) {
            let rows = self.catalog.context.new_rows.clone()?;
            return Some(Arc::new(SnapshotTable::new(rows, Arc::clone(&self.catalog.context), false)));
        }
        let (name, row_numbers) = match name.strip_suffix(ROW_NUMBER_SUFFIX) {
            Some(name) => (name, true),
            None => (name, false),
        };
        let id = self.snapshot().catalog().table(self.schema, name)?.id;
        let table = self.snapshot().table(id).expect("a snapshot holds every table of its catalog");
        Some(Arc::new(SnapshotTable::new(table, Arc::clone(&self.catalog.context), row_numbers)))
    }
}

impl SnapshotSchema {
    /// `SELECT ... FROM 'file'`: a name that is no table's but looks like a path is a file's.
    fn file_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !name.contains(['.', '/', '*', '?', '[']) {
            return Ok(None);
        }
        let files = FileSet::open(name, &ReadOptions::default())?;
        self.catalog.context.notices.lock().extend(files.notices().iter().cloned());
        provider_of(files).map(Some)
    }
}

#[async_trait]
impl SchemaProvider for SnapshotSchema {
    fn table_names(&self) -> Vec<String> {
        let catalog = self.snapshot().catalog();
        let tables = catalog.tables(self.schema).map(|table| lower(&table.name));
        tables.chain(catalog.views(self.schema).map(|view| lower(&view.name))).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if let Some(table) = self.stored_table(name) {
            return Ok(Some(table));
        }
        let Some(view) = self.snapshot().catalog().view(self.schema, name) else {
            return self.file_table(name).map_err(to_datafusion);
        };
        let inside = self.catalog.inside(view).map_err(to_datafusion)?;
        view::plan(view, &inside.state()).await.map(Some).map_err(to_datafusion)
    }

    async fn table_type(&self, name: &str) -> PlanResult<Option<TableType>> {
        let catalog = self.snapshot().catalog();
        Ok(match (catalog.table(self.schema, name), catalog.view(self.schema, name)) {
            (Some(_), _) => Some(TableType::Base),
            (_, Some(_)) => Some(TableType::View),
            _ => None,
        })
    }

    fn table_exist(&self, name: &str) -> bool {
        let catalog = self.snapshot().catalog();
        catalog.table(self.schema, name).is_some() || catalog.view(self.schema, name).is_some()
    }
}
