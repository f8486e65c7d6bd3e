//! The catalog that the binder of queries asks for tables, views and functions.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result, Settings, SqlType};
use rowmill_expr::kernels::cast::cast;
use rowmill_plan::{Constant, DynamicFunction};
use rowmill_query::binder::RelationRead;
use rowmill_query::catalog::{
    CatalogMacro, CatalogRelation, CatalogView, FileCall, QueryCatalog, RelationName, RowSource, ViewSpelling,
};
use rowmill_query::memory_rows::MemoryRows;
use rowmill_storage::TableSource;
use rowmill_txn::ViewDef;
use sqlparser::ast;

use crate::catalog::StatementContext;
use crate::engine_query::{EngineQuery, PlannedQuery};
use crate::files::{FileSet, rows::FileRows};
use crate::information_schema::{self, INFORMATION_SCHEMA};
use crate::names::{DEFAULT_SCHEMA, Spellings};
use crate::parse::{self, StatementBody};
use crate::pg_catalog::{self, PG_CATALOG};
use crate::query::ReadyQuery;
use crate::session::temporary::is_temporary;
use crate::session_objects::VARIABLE_FUNCTION;
use crate::statement::macro_definition;
use crate::{
    advisory_lock_functions, file_functions, function_list, log_functions, materialized_list, memory_functions,
    pragma_functions, random_functions, sequence_functions, snapshot_function, statement_functions, storage_function,
    table_order_function,
};

/// The catalog as one statement sees it.
pub(crate) struct ContextCatalog {
    context: Arc<StatementContext>,
}

impl ContextCatalog {
    pub(crate) fn new(context: Arc<StatementContext>) -> ContextCatalog {
        ContextCatalog { context }
    }

    /// Returns the table of `pg_catalog` with this name.
    fn pg_catalog(&self, name: &str) -> Result<Option<CatalogRelation>> {
        // All of them have this prefix, so other names need no search.
        if !name.starts_with("pg_") {
            return Ok(None);
        }
        let rows = pg_catalog::rows(&self.context, name)?;
        Ok(rows.map(|batch| CatalogRelation::Source(MemoryRows::new(name, batch))))
    }

    /// Returns the file that a name means: a name that is no table's but looks like a path.
    fn file(&self, name: &str) -> Result<Option<CatalogRelation>> {
        if !name.contains(['.', '/', '*', '?', '[']) {
            return Ok(None);
        }
        let files = FileSet::open(name, &self.context.read_options())?;
        self.context.notices.lock().extend(files.notices().iter().cloned());
        Ok(Some(CatalogRelation::Source(FileRows::new(files)?)))
    }
}

impl ContextCatalog {
    /// Returns the rows of a function about the whole database, which only superusers may call.
    fn database_function(&self, name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
        let mut batch = log_functions::rows(&self.context, name, arguments)?;
        if batch.is_none() {
            batch = memory_functions::rows(&self.context, name, arguments)?;
        }
        if batch.is_none() {
            batch = statement_functions::rows(&self.context, name, arguments)?;
        }
        if batch.is_none() {
            batch = snapshot_function::rows(&self.context, name, arguments)?;
        }
        if batch.is_none() {
            batch = materialized_list::rows(&self.context, name, arguments)?;
        }
        if batch.is_some() {
            self.context.access().require_superuser(&format!("{name}()"))?;
        }
        Ok(batch)
    }
}

impl QueryCatalog for ContextCatalog {
    fn relation(&self, name: &RelationName) -> Result<Option<CatalogRelation>> {
        if let Some(database) = &name.database {
            return self.context.databases.relation(database, name);
        }
        let catalog = self.context.snapshot.catalog();
        if name.schema.is_none()
            && let Some(rows) = self.context.objects.table(&name.name)?
        {
            return Ok(Some(CatalogRelation::Source(rows)));
        }
        let schema_name = name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        // This schema is computed, so the catalog does not know it.
        if schema_name == INFORMATION_SCHEMA {
            let rows = information_schema::rows(&self.context, &name.name)?;
            return Ok(rows.map(|batch| CatalogRelation::Source(MemoryRows::new(&name.name, batch))));
        }
        if schema_name == PG_CATALOG {
            return self.pg_catalog(&name.name);
        }
        let Some(schema) = catalog.schema(schema_name) else {
            return Ok(None);
        };
        if let Some(table) = catalog.table(schema.id, &name.name) {
            let table = self.context.snapshot.table(table.id).expect("a snapshot holds every table of its catalog");
            return Ok(Some(CatalogRelation::Table(table as Arc<dyn TableSource>)));
        }
        match catalog.view(schema.id, &name.name) {
            Some(view) => parsed_view(view).map(|view| Some(CatalogRelation::View(view))),
            // Only a name that nothing else has may be a file, so that a file cannot hide a table.
            None if name.schema.is_none() => match self.pg_catalog(&name.name)? {
                Some(found) => Ok(Some(found)),
                None => self.file(&name.name),
            },
            None => Ok(None),
        }
    }

    fn database_name(&self) -> &str {
        &self.context.databases.current
    }

    fn relation_names(&self) -> Vec<String> {
        let catalog = self.context.snapshot.catalog();
        catalog
            .schemas()
            .filter(|schema| !is_temporary(&schema.name))
            .flat_map(|schema| {
                let prefix = if schema.name == DEFAULT_SCHEMA { String::new() } else { format!("{}.", schema.name) };
                let tables = catalog.tables(schema.id).map(|table| &table.name);
                let names = tables.chain(catalog.views(schema.id).map(|view| &view.name));
                names.map(|name| format!("{prefix}{name}")).collect::<Vec<_>>()
            })
            .collect()
    }

    fn table_function(&self, name: &str, arguments: &[Constant]) -> Result<Option<Arc<dyn RowSource>>> {
        if let Some(rows) = self.context.objects.call_table_function(name, arguments)? {
            return Ok(Some(rows));
        }
        #[cfg(feature = "sqlite")]
        if let Some(rows) = crate::sqlite_function::rows(&self.context, name, arguments)? {
            return Ok(Some(rows));
        }
        let mut batch = storage_function::rows(&self.context, name, arguments)?;
        if batch.is_none() {
            batch = table_order_function::rows(&self.context, name, arguments)?;
        }
        if batch.is_none() {
            batch = self.database_function(name, arguments)?;
        }
        if batch.is_none() {
            batch = pragma_functions::rows(&self.context, name, arguments)?;
        }
        if batch.is_none() {
            batch = function_list::rows(name, arguments)?;
        }
        if batch.is_none() {
            batch = pg_catalog::keywords(name, arguments.len())?;
        }
        Ok(batch.map(|batch| MemoryRows::new(format!("{name}()"), batch) as Arc<dyn RowSource>))
    }

    fn macro_named(&self, name: &str) -> Result<Option<CatalogMacro>> {
        let found = self.context.snapshot.catalog().macro_named(name);
        found.map(|def| macro_definition::parsed(def, &self.context.settings)).transpose()
    }

    fn type_named(&self, name: &str) -> Result<Option<SqlType>> {
        Ok(self.context.snapshot.catalog().type_named(name).map(|def| def.kind.clone()))
    }

    fn reads_files(&self, function: &str) -> bool {
        file_functions::format_of(function).is_some()
    }

    fn file_rows(&self, call: &FileCall) -> Result<Arc<dyn RowSource>> {
        file_functions::rows(&self.context, call)
    }

    fn texts_now(&self, query: &ast::Query) -> Result<Vec<String>> {
        let planned = PlannedQuery::new(&self.context, query, &Spellings::default(), &[])?;
        let query = Arc::new(EngineQuery::new(planned, &[], &self.context)?);
        let ready = ReadyQuery { context: Arc::clone(&self.context), query };
        let mut texts = Vec::new();
        for batch in ready.start(None, Instant::now()) {
            let column = cast(batch?.column(0), &DataType::Utf8View, false)?;
            texts.extend(column.as_string_view().iter().flatten().map(str::to_owned));
        }
        Ok(texts)
    }

    fn dynamic_function(
        &self,
        name: &str,
        arguments: &[Option<Constant>],
    ) -> Result<Option<(Arc<dyn DynamicFunction>, SqlType)>> {
        if let Some(found) = self.context.objects.scalar_function(name, arguments.len())? {
            return Ok(Some(found));
        }
        if name == VARIABLE_FUNCTION {
            return self.context.objects.variable(arguments).map(Some);
        }
        let own = sequence_functions::function(&self.context, name, arguments.len())
            .or_else(|| random_functions::function(&self.context, name, arguments.len()))
            .or_else(|| advisory_lock_functions::function(&self.context, name, arguments.len()));
        Ok(own.or_else(|| pg_catalog::function(&self.context, name, arguments.len())))
    }

    fn checks_reads(&self) -> bool {
        !self.context.access().is_unlimited()
    }

    fn check_reads(&self, reads: &[RelationRead]) -> Result<()> {
        self.context.access().check_reads(reads)
    }

    fn expression_depth_max(&self) -> usize {
        self.context.settings.number("expression_depth_max") as usize
    }

    fn now_us(&self) -> i64 {
        self.context.now_us
    }

    fn clock_parameter(&self) -> Option<usize> {
        self.context.clock.as_ref().map(|clock| clock.read())
    }
}

/// Parses the query of a view.
pub(crate) fn parsed_view(view: &ViewDef) -> Result<CatalogView> {
    let corrupt = |what: &str| Error::corrupt(format!("the text of the view \"{}\" is not {what}", view.name));
    let mut statements = parse::parse(&view.sql, &Settings::default())?;
    let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
        return Err(corrupt("one statement"));
    };
    let StatementBody::Sql(sql) = statement.body() else { return Err(corrupt("a query")) };
    let ast::Statement::Query(query) = &**sql else { return Err(corrupt("a query")) };
    let spellings = statement.spellings().clone();
    Ok(CatalogView {
        id: view.id,
        name: view.name.clone(),
        query: query.clone(),
        columns: view.column_names.clone(),
        spelling: ViewSpelling::new(move |ident| spellings.of(ident).to_owned()),
    })
}
