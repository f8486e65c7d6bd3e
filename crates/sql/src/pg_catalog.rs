//! `pg_catalog`: the contents of the database as the tables that PostgreSQL's tools read.
//!
//! Tools ask for them to show tables, columns, keys and indexes. Each table is computed from the statement's snapshot
//! when a query reads it, as those of `information_schema` are. The numbers of objects (`oids`) follow from our own ids,
//! which are never used again, so an object keeps its number for life.
//!
//! - `rows`: tables that are built row by row.
//! - `oids`, `type_oids`: numbers of objects and of types.
//! - `namespaces`: schemas, databases, roles, settings, access methods.
//! - `relations`: tables, views, sequences, indexes and their columns. `constraints`: keys and conditions.
//! - `types`: types. `functions`: functions that can be called.
//! - `empty`: tables about things that we do not have.
//! - `definition`: definitions of objects as SQL. `calls`: the functions that tools call with these tables.
//!   `privileges`: those about roles and rights.

mod calls;
mod constraints;
mod definition;
mod empty;
mod functions;
mod namespaces;
mod oids;
mod privileges;
mod relations;
mod rows;
pub mod type_oids;
mod types;

use std::sync::Arc;

use arrow::array::RecordBatch;
use rowmill_base::{Result, SqlType};
use rowmill_plan::DynamicFunction;

pub(crate) use self::definition::key_columns;
pub(crate) use self::oids::indexes;

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
        "pg_database" => namespaces::pg_database(),
        "pg_roles" | "pg_user" | "pg_authid" => namespaces::pg_roles(context),
        "pg_auth_members" => namespaces::pg_auth_members(context),
        "pg_settings" => namespaces::pg_settings(context),
        "pg_am" => namespaces::pg_am(),
        "pg_tablespace" => namespaces::pg_tablespace(),
        "pg_type" => types::pg_type(context),
        "pg_proc" => functions::pg_proc(),
        name => match empty::table(name) {
            Some(rows) => rows,
            None => return Ok(None),
        },
    };
    found.into_batch().map(Some)
}
