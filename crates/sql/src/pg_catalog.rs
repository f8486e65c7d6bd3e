//! `pg_catalog`: the contents of the database as the tables that PostgreSQL's tools read.
//!
//! Tools ask for them to show tables, columns, keys and indexes. Each table is computed from the statement's snapshot
//! when a query reads it, as those of `information_schema` are. The numbers of objects (`oids`) follow from our own
//! ids, which are never used again, so an object keeps its number for life.
//!
//! - `shapes`: the columns of all tables. `rows`: tables that are built row by row.
//! - `oids`, `type_oids`: numbers of objects and of types.
//! - `namespaces`: schemas, databases, roles, settings, access methods.
//! - `relations`: tables, views, sequences, indexes and their columns. `constraints`: keys and conditions.
//! - `types`: types. `functions`: functions that can be called.
//! - `sequences`: sequences, and the columns that own them. `descriptions`: comments. `activity`: rows of tables as the
//!   statistics of PostgreSQL show them. `connections`: open connections, and the rows for which they wait.
//! - `definition`: definitions of objects as SQL. `calls`, `call_list`: the functions that tools call with these
//!   tables. `privileges`: those about roles and rights. `names`: numbers of objects as names, and back. `sleep`:
//!   `pg_sleep`. `connection_signal`: `pg_cancel_backend` and `pg_terminate_backend`. `keywords`: `pg_get_keywords`.
//!   `format`: `format`.
//!
//! A table that none of them fills has no rows, because it is about things that we do not have.

mod activity;
mod call_list;
mod calls;
mod connection_signal;
mod connections;
mod constraints;
mod definition;
mod descriptions;
mod format;
mod functions;
mod keywords;
mod names;
mod namespaces;
mod oids;
mod privileges;
mod relations;
mod rows;
mod sequences;
mod shapes;
mod sleep;
pub mod type_oids;
mod types;

use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::{Result, SqlType};
use rowmill_plan::DynamicFunction;

pub(crate) use self::definition::key_columns;
pub(crate) use self::keywords::rows as keywords;
pub(crate) use self::oids::{ROLE as CATALOG_OWNER, TableIndex, indexes as table_indexes, owner_name, table_oid};
pub(crate) use self::relations::view_columns;
pub(crate) use self::rows::{PgCell, PgRows};
pub(crate) use self::shapes::information_schema as information_schema_shapes;
pub(crate) use self::types::type_name;

use crate::catalog::StatementContext;

/// Returns the function `name` with this number of arguments and the type of its values, or `None` if it is none that
/// tools call with this catalog.
pub(crate) fn function(
    context: &Arc<StatementContext>,
    name: &str,
    arguments: usize,
) -> Option<(Arc<dyn DynamicFunction>, SqlType)> {
    privileges::function(context, name, arguments).or_else(|| calls::function(context, name, arguments))
}

/// The name of the schema.
pub(crate) const PG_CATALOG: &str = "pg_catalog";

/// Returns the table `name` of `pg_catalog` as rows, or `None` if no such table exists.
pub(crate) fn rows(context: &Arc<StatementContext>, name: &str) -> Result<Option<RecordBatch>> {
    let found = match name {
        "pg_class" => relations::pg_class(context),
        "pg_attribute" => relations::pg_attribute(context),
        "pg_attrdef" => relations::pg_attrdef(context),
        "pg_index" => relations::pg_index(context),
        "pg_tables" => relations::pg_tables(context),
        "pg_views" => relations::pg_views(context),
        "pg_indexes" => relations::pg_indexes(context),
        "pg_constraint" => constraints::pg_constraint(context),
        "pg_namespace" => namespaces::pg_namespace(context),
        "pg_database" => namespaces::pg_database(context),
        "pg_roles" | "pg_authid" => namespaces::pg_roles(context, name),
        "pg_user" => namespaces::pg_user(context),
        "pg_auth_members" => namespaces::pg_auth_members(context),
        "pg_collation" => namespaces::pg_collation(),
        "pg_settings" => namespaces::pg_settings(context),
        "pg_am" => namespaces::pg_am(),
        "pg_tablespace" => namespaces::pg_tablespace(),
        "pg_type" => types::pg_type(context),
        "pg_enum" => types::pg_enum(context),
        "pg_proc" => functions::pg_proc(context),
        "pg_sequence" => sequences::pg_sequence(context),
        "pg_sequences" => sequences::pg_sequences(context),
        "pg_depend" => sequences::pg_depend(context),
        "pg_description" => descriptions::pg_description(context),
        "pg_matviews" => relations::pg_matviews(context),
        "pg_stat_user_tables" | "pg_stat_all_tables" => activity::pg_stat_user_tables(context, name),
        "pg_stat_activity" => connections::pg_stat_activity(context),
        "pg_stat_database" => connections::pg_stat_database(context),
        "pg_locks" => connections::pg_locks(context)?,
        name => match shapes::pg_catalog().get(name) {
            Some(columns) => PgRows::new(columns),
            None => return Ok(None),
        },
    };
    found.into_batch().map(Some)
}
