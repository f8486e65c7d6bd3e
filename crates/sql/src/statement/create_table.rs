//! `CREATE TABLE`, with columns or `AS` a query.
//!
//! A table with a primary key is a keyed table. A table without one is a columnar table. We refuse every other clause
//! by its name, because silently ignoring a clause would break a promise to the user.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, SchemaId, SqlType};
use rowmill_plan::write::{WriteAction, WriteSource};
use rowmill_storage::TableDef;
use rowmill_txn::{Catalog, ColumnSpec, GeneratedDef, Transaction};
use sqlparser::ast::{
    ColumnDef, CreateTable, CreateTableOptions, DataType, HiveDistributionStyle, OnCommit, Query, SqlOption,
};

use super::clause::{refuse, unsupported};
use super::column_spec::{check_distinct, check_name, column_spec, spec_with_options};
use super::dependents::Dependents;
use super::generated_column::{self, NewGenerated};
use super::key_clauses::{KeyClauses, def_of};
use super::relation::{self, NamedRelation, RelationId, RelationKind, written};
use super::sequence::add_identities;
use super::time_clause;
use super::write::binder::WriteBinder;
use super::write::executor::WriteExecutor;
use crate::names::{QualifiedName, qualified};
use crate::outcome::{Outcome, RowStream};
use crate::query::kinds_of;
use crate::session::{Work, temporary};

pub(super) const STATEMENT: &str = "CREATE TABLE";

/// The parts of the syntax tree that we execute. All others were refused.
struct TableDefinition<'a> {
    name: QualifiedName,
    is_temporary: bool,
    or_replace: bool,
    if_not_exists: bool,
    columns: &'a [ColumnDef],
    keys: KeyClauses<'a>,
    query: Option<&'a Query>,
}

pub(crate) fn run(work: &mut Work<'_>, create: &CreateTable) -> Result<Outcome> {
    let definition = definition(work, create)?;
    work.write(|work, transaction| {
        if definition.is_temporary {
            temporary::make_schema(transaction, &definition.name.schema)?;
        }
        match definition.query {
            None => create_empty(work, transaction, &definition),
            Some(query) => create_from(work, transaction, &definition, query),
        }
    })
}

fn create_empty(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    definition: &TableDefinition<'_>,
) -> Result<Outcome> {
    let Some(place) = TargetSchema::find(work, transaction, definition)? else {
        return Ok(Outcome::Done { tag: STATEMENT });
    };
    if definition.columns.is_empty() {
        return Err(no_columns(&definition.name));
    }
    let mut columns = definition
        .columns
        .iter()
        .map(|column| column_spec(work, transaction.catalog(), STATEMENT, column))
        .collect::<Result<Vec<_>>>()?;
    let new = NewGenerated::of(definition.columns);
    let view = transaction.view()?;
    let generated = generated_column::check(work, &view, &definition.name.spelled, &mut columns, &new, &[])?;
    place.create(work, transaction, columns, &generated, definition)?;
    Ok(Outcome::Done { tag: STATEMENT })
}

fn create_from(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    definition: &TableDefinition<'_>,
    query: &Query,
) -> Result<Outcome> {
    let Some(place) = TargetSchema::find(work, transaction, definition)? else {
        return Ok(Outcome::Done { tag: STATEMENT });
    };
    // The query may read the table that OR REPLACE drops, so we must plan it before the drop.
    let view = transaction.view()?;
    let kinds = kinds_of(work.params);
    let bound = work.with_planning_room(|| WriteBinder::new(work, &view, &kinds).query(query))?;
    let rows = work.rows_of(view, bound.clone())?;
    let columns = columns_of_query(work, transaction.catalog(), definition, &rows)?;
    let all: Vec<usize> = (0..columns.len()).collect();
    let table = place.create(work, transaction, columns, &[], definition)?;
    // The rows are pulled only now, after the table exists.
    let view = transaction.view()?;
    let binder = WriteBinder::new(work, &view, &kinds);
    let action = WriteAction::Insert(binder.row_of(&table, &all)?);
    let write = binder.plan(STATEMENT, table, WriteSource::Query(bound), vec![action], None)?;
    let mut executor = WriteExecutor::new(work, write.tag, write.table, &write.plan)?;
    executor.insert_all(work, transaction, rows)?;
    executor.finish(work, transaction, None)
}

/// The place of the new table.
struct TargetSchema<'a> {
    name: &'a QualifiedName,
    schema: SchemaId,
    /// The table that `OR REPLACE` replaces.
    replaced: Option<Arc<TableDef>>,
    /// The views that read the replaced table.
    dependents: Dependents,
}

impl<'a> TargetSchema<'a> {
    /// Finds the place for `definition`. Returns `None` if the table exists and `IF NOT EXISTS` accepts that.
    fn find(
        work: &mut Work<'_>,
        transaction: &mut Transaction,
        definition: &'a TableDefinition<'_>,
    ) -> Result<Option<Self>> {
        let TableDefinition { name, or_replace, if_not_exists, .. } = definition;
        let view = transaction.view()?;
        let catalog = view.catalog();
        let schema = relation::schema(catalog, &name.schema)?.id;
        let mut place = TargetSchema { name, schema, replaced: None, dependents: Dependents::default() };
        let Some(found) = relation::find(catalog, name) else { return Ok(Some(place)) };
        let exists = format!("there is a {} \"{}\" already", found.kind().name(), found.name());
        match &found {
            NamedRelation::Table(table) if *or_replace => {
                place.dependents = Dependents::of(catalog, [RelationId::Table(table.id)]);
                place.replaced = Some(Arc::clone(table));
                Ok(Some(place))
            }
            NamedRelation::View(_) | NamedRelation::Materialized(_) if *or_replace => {
                let drop = format!("DROP {} {}", found.kind().name().to_uppercase(), written(name));
                Err(relation::wrong_kind(found.name(), found.kind(), RelationKind::Table)
                    .hint(format!("{drop} makes room for the table")))
            }
            _ if *if_not_exists => {
                work.notice(exists);
                Ok(None)
            }
            _ => Err(Error::new(ErrorKind::DuplicateTable, exists)
                .hint("CREATE TABLE IF NOT EXISTS keeps it, CREATE OR REPLACE TABLE replaces it")),
        }
    }

    /// Creates the table. `generated` has the places and expressions of its generated columns. Views that read the
    /// replaced table must still make sense over the new one.
    fn create(
        &self,
        work: &Work<'_>,
        transaction: &mut Transaction,
        mut columns: Vec<ColumnSpec>,
        generated: &[(usize, String)],
        definition: &TableDefinition<'_>,
    ) -> Result<Arc<TableDef>> {
        check_name(&self.name.spelled)?;
        check_distinct(&columns)?;
        time_clause::forbid_null(work, &mut columns);
        if let Some(replaced) = &self.replaced {
            // The old table must go first, because both have the same name.
            transaction.drop_table(replaced.id)?;
        }
        let id = match definition.keys.primary_key(work, &columns)? {
            Some(key) => transaction.create_keyed_table(self.schema, &self.name.spelled, columns, &key)?,
            None => transaction.create_table(self.schema, &self.name.spelled, columns)?,
        };
        for (place, sql) in generated {
            let generated = GeneratedDef { column: ColumnId(*place as u32), sql: sql.clone() };
            transaction.set_generated(id, generated)?;
        }
        definition.keys.apply(work, transaction, id)?;
        let made = def_of(transaction, id)?;
        add_identities(transaction, STATEMENT, self.name, &made, definition.columns)?;
        time_clause::apply(work, transaction, &made)?;
        // The views are planned over the new table before the statement ends; a failure undoes all of it.
        self.dependents.check(work, &transaction.view()?)?;
        def_of(transaction, id)
    }
}

/// Returns the columns of `CREATE TABLE name [(columns)] AS query`. The list of columns decides names and types if it
/// exists, otherwise the query does.
fn columns_of_query(
    work: &Work<'_>,
    catalog: &Catalog,
    definition: &TableDefinition<'_>,
    rows: &RowStream,
) -> Result<Vec<ColumnSpec>> {
    let schema = rows.schema();
    let listed = definition.columns;
    if !listed.is_empty() && listed.len() != schema.fields().len() {
        return Err(Error::new(
            ErrorKind::CardinalityViolation,
            format!(
                "table \"{}\" is given {} columns, but the query has {}",
                definition.name.spelled,
                listed.len(),
                schema.fields().len()
            ),
        ));
    }
    let mut columns = Vec::with_capacity(schema.fields().len());
    if let Some(generated) = listed.iter().find(|column| generated_column::expression(column).is_some()) {
        let what = format!("the generated column \"{}\" together with a query", generated.name.value);
        return Err(
            unsupported(STATEMENT, &what).hint("ALTER TABLE ... ADD COLUMN adds a generated column to the table")
        );
    }
    for (index, field) in schema.fields().iter().enumerate() {
        let spec = match listed.get(index) {
            Some(column) if column.data_type != DataType::Unspecified => column_spec(work, catalog, STATEMENT, column)?,
            Some(column) => {
                let kind = type_of_field(field.name(), field.data_type())?;
                spec_with_options(work, STATEMENT, work.statement.spell(&column.name), kind, &column.options)?
            }
            None => {
                check_name(field.name())?;
                ColumnSpec::new(field.name(), type_of_field(field.name(), field.data_type())?)
            }
        };
        columns.push(spec);
    }
    if columns.is_empty() {
        return Err(no_columns(&definition.name));
    }
    Ok(columns)
}

pub(super) fn type_of_field(name: &str, kind: &arrow::datatypes::DataType) -> Result<SqlType> {
    SqlType::from_arrow(kind).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            format!("column \"{name}\" of the query has the type {kind}, which no column of a table can have"),
        )
        .hint(format!("convert it: CAST(\"{name}\" AS TEXT)"))
    })
}

fn no_columns(name: &QualifiedName) -> Error {
    Error::new(ErrorKind::InvalidDefinition, format!("table \"{}\" has no columns", name.spelled))
        .hint("a table needs at least one: CREATE TABLE t (a BIGINT)")
}

/// Accepts `WITH (fillfactor = n)`, which PostgreSQL's tools write, and refuses all other options.
fn accept_options(work: &mut Work<'_>, options: &CreateTableOptions) -> Result<()> {
    let options = match options {
        CreateTableOptions::None => return Ok(()),
        CreateTableOptions::With(options) => options,
        _ => return Err(unsupported(STATEMENT, "a list of options")),
    };
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(unsupported(STATEMENT, &format!("WITH ({option})")));
        };
        if key.value != "fillfactor" {
            return Err(unsupported(STATEMENT, &format!("WITH ({key})")).hint("the only option is fillfactor"));
        }
        let is_percentage = value.to_string().parse().is_ok_and(|percent: u8| (10..=100).contains(&percent));
        if !is_percentage {
            let what = format!("fillfactor = {value} is not a whole number from 10 to 100");
            return Err(Error::new(ErrorKind::InvalidParameter, what));
        }
        work.notice("fillfactor has no effect: pages are always filled as far as their rows allow");
    }
    Ok(())
}

/// Destructures the syntax tree and refuses the clauses that we do not execute.
fn definition<'a>(work: &mut Work<'_>, create: &'a CreateTable) -> Result<TableDefinition<'a>> {
    let CreateTable {
        or_replace,
        temporary,
        external,
        dynamic,
        global,
        if_not_exists,
        transient,
        volatile,
        iceberg,
        snapshot,
        name,
        columns,
        constraints,
        hive_distribution,
        hive_formats,
        table_options,
        file_format,
        location,
        query,
        without_rowid,
        like,
        clone,
        version,
        comment,
        on_commit,
        on_cluster,
        primary_key,
        order_by,
        partition_by,
        cluster_by,
        clustered_by,
        inherits,
        partition_of,
        for_values,
        strict,
        copy_grants,
        enable_schema_evolution,
        change_tracking,
        data_retention_time_in_days,
        max_data_extension_time_in_days,
        default_ddl_collation,
        with_aggregation_policy,
        with_row_access_policy,
        with_storage_lifecycle_policy,
        with_tags,
        external_volume,
        base_location,
        catalog,
        catalog_sync,
        storage_serialization_policy,
        target_lag,
        warehouse,
        refresh_mode,
        initialize,
        require_user,
        diststyle,
        distkey,
        sortkey,
        backup,
    } = create;
    if *external {
        return Err(unsupported(STATEMENT, "EXTERNAL")
            .hint("SELECT ... FROM 'file.parquet' reads a file in place, COPY table FROM 'file' loads it"));
    }
    let hive_format = hive_formats.as_ref().is_some_and(|format| *format != Default::default());
    // A temporary table keeps its rows until the connection closes.
    let keeps_rows = on_commit.is_none() || *temporary && *on_commit == Some(OnCommit::PreserveRows);
    refuse(
        STATEMENT,
        [
            (*dynamic, "DYNAMIC"),
            (*global == Some(true), "GLOBAL"),
            (*global == Some(false), "LOCAL"),
            (*transient, "TRANSIENT"),
            (*volatile, "VOLATILE"),
            (*iceberg, "ICEBERG"),
            (*snapshot, "SNAPSHOT"),
            (*hive_distribution != HiveDistributionStyle::NONE, "PARTITIONED BY"),
            (hive_format, "ROW FORMAT or STORED AS"),
            (file_format.is_some(), "STORED AS"),
            (location.is_some(), "LOCATION"),
            (*without_rowid, "WITHOUT ROWID"),
            (like.is_some(), "LIKE"),
            (clone.is_some(), "CLONE"),
            (version.is_some(), "a table version"),
            (comment.is_some(), "COMMENT"),
            (!keeps_rows, "ON COMMIT DROP or DELETE ROWS"),
            (on_cluster.is_some(), "ON CLUSTER"),
            (primary_key.is_some(), "PRIMARY KEY after the list of columns"),
            (order_by.is_some(), "ORDER BY"),
            (partition_by.is_some(), "PARTITION BY"),
            (cluster_by.is_some(), "CLUSTER BY"),
            (clustered_by.is_some(), "CLUSTERED BY"),
            (inherits.is_some(), "INHERITS"),
            (partition_of.is_some(), "PARTITION OF"),
            (for_values.is_some(), "FOR VALUES"),
            (*strict, "STRICT"),
            (*copy_grants, "COPY GRANTS"),
            (enable_schema_evolution.is_some(), "ENABLE_SCHEMA_EVOLUTION"),
            (change_tracking.is_some(), "CHANGE_TRACKING"),
            (data_retention_time_in_days.is_some(), "DATA_RETENTION_TIME_IN_DAYS"),
            (max_data_extension_time_in_days.is_some(), "MAX_DATA_EXTENSION_TIME_IN_DAYS"),
            (default_ddl_collation.is_some(), "DEFAULT_DDL_COLLATION"),
            (with_aggregation_policy.is_some(), "WITH AGGREGATION POLICY"),
            (with_row_access_policy.is_some(), "WITH ROW ACCESS POLICY"),
            (with_storage_lifecycle_policy.is_some(), "WITH STORAGE LIFECYCLE POLICY"),
            (with_tags.is_some(), "WITH TAG"),
            (external_volume.is_some(), "EXTERNAL_VOLUME"),
            (base_location.is_some(), "BASE_LOCATION"),
            (catalog.is_some(), "CATALOG"),
            (catalog_sync.is_some(), "CATALOG_SYNC"),
            (storage_serialization_policy.is_some(), "STORAGE_SERIALIZATION_POLICY"),
            (target_lag.is_some(), "TARGET_LAG"),
            (warehouse.is_some(), "WAREHOUSE"),
            (refresh_mode.is_some(), "REFRESH_MODE"),
            (initialize.is_some(), "INITIALIZE"),
            (*require_user, "REQUIRE USER"),
            (diststyle.is_some(), "DISTSTYLE"),
            (distkey.is_some(), "DISTKEY"),
            (sortkey.is_some(), "SORTKEY"),
            (backup.is_some(), "BACKUP"),
            (*or_replace && *if_not_exists, "OR REPLACE together with IF NOT EXISTS"),
        ],
    )?;
    accept_options(work, table_options)?;
    let name = match *temporary {
        true => temporary::new_name(work, name, "table")?,
        false => qualified(name, work.statement.spellings())?,
    };
    Ok(TableDefinition {
        name,
        is_temporary: *temporary,
        or_replace: *or_replace,
        if_not_exists: *if_not_exists,
        columns,
        keys: KeyClauses::of(STATEMENT, columns, constraints)?,
        query: query.as_deref(),
    })
}
