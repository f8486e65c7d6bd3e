//! Type names in statements: those of SQL and those that `CREATE TYPE` has made.

use rowmill_base::{Result, SqlType};
use rowmill_query::binder::type_name;
use rowmill_txn::Catalog;
use sqlparser::ast::DataType;

/// The type of a type name.
pub(crate) fn sql_type(catalog: &Catalog, data_type: &DataType) -> Result<SqlType> {
    type_name::sql_type(data_type, &|name| Ok(catalog.type_named(name).map(|def| def.kind.clone())))
}
