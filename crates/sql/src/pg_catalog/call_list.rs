//! The list of the functions that tools call together with the tables of `pg_catalog`.

use super::PG_CATALOG;
use super::calls::{CallValue, CatalogFunction, instant, number, text, texts, truth};
use super::definition::{constraint_by_oid, index_by_oid, view_by_oid};
use super::descriptions::description;
use super::keywords::pg_name;
use super::names::{
    function_name, function_oid, oid, relation_name, relation_oid, role_name, role_number, schema_name, schema_oid_of,
    type_oid,
};
use super::namespaces::UTF8;
use super::oids::{relation_of, schema_oid, table_oid};
use super::types::format_type;
use crate::catalog::StatementContext;
use crate::names::{DEFAULT_SCHEMA, lower};
use crate::open_transaction::PROCESS_BEGAN_US;
use crate::session::temporary::is_temporary;

/// The version of PostgreSQL whose catalog this is, and our own.
const VERSION: &str = concat!("PostgreSQL 14.0 (Rowmill ", env!("CARGO_PKG_VERSION"), ")");

pub(super) static FUNCTIONS: &[CatalogFunction] = &[
    // `pg_catalog.version()`, which drivers parse. `version()` alone tells our own version.
    text("rowmill_pg_version", 0, 0, |_, _| CallValue::Text(Some(VERSION.to_owned()))),
    text("current_database", 0, 0, |context, _| CallValue::Text(Some(context.databases.current.clone()))),
    text("current_catalog", 0, 0, |context, _| CallValue::Text(Some(context.databases.current.clone()))),
    text("current_schema", 0, 0, |context, _| CallValue::Text(schemas_of_path(context).into_iter().next())),
    texts("current_schemas", 1, 1, |context, arguments| {
        let implicit = (arguments[0] == Some("true")).then(|| PG_CATALOG.to_owned());
        CallValue::Texts(implicit.into_iter().chain(schemas_of_path(context)).collect())
    }),
    text("current_setting", 1, 2, |context, arguments| {
        CallValue::Text(arguments[0].and_then(|name| pg_setting(context, name)))
    }),
    // No setting can be changed by a call, so the call gives the value that the setting keeps.
    text("set_config", 3, 3, |context, arguments| {
        CallValue::Text(arguments[0].and_then(|name| pg_setting(context, name)))
    }),
    text("pg_encoding_to_char", 1, 1, |_, _| CallValue::Text(Some("UTF8".to_owned()))),
    text("pg_client_encoding", 0, 0, |_, _| CallValue::Text(Some("UTF8".to_owned()))),
    text("format_type", 2, 2, |context, arguments| {
        let catalog = context.snapshot.catalog();
        let modifier = arguments[1].and_then(|modifier| modifier.parse().ok());
        CallValue::Text(oid(arguments[0]).map(|oid| format_type(catalog, oid, modifier)))
    }),
    text("pg_get_expr", 2, 3, |_, arguments| CallValue::Text(arguments[0].map(str::to_owned))),
    text("pg_get_indexdef", 1, 3, |context, arguments| {
        let catalog = context.snapshot.catalog();
        let column = arguments.get(1).copied().flatten().and_then(|column| column.parse().ok()).unwrap_or(0);
        CallValue::Text(oid(arguments[0]).and_then(|oid| index_by_oid(catalog, oid, column)))
    }),
    text("pg_get_constraintdef", 1, 2, |context, arguments| {
        let catalog = context.snapshot.catalog();
        CallValue::Text(oid(arguments[0]).and_then(|oid| constraint_by_oid(catalog, oid)))
    }),
    text("pg_get_viewdef", 1, 2, |context, arguments| {
        let catalog = context.snapshot.catalog();
        CallValue::Text(oid(arguments[0]).and_then(|oid| view_by_oid(catalog, oid)))
    }),
    text("pg_get_serial_sequence", 2, 2, |context, arguments| {
        CallValue::Text(sequence_of_column(context, arguments[0], arguments[1]))
    }),
    text("pg_get_function_result", 1, 1, |_, _| CallValue::Text(None)),
    text("pg_get_function_arguments", 1, 1, |_, _| CallValue::Text(None)),
    text("pg_get_function_identity_arguments", 1, 1, |_, _| CallValue::Text(None)),
    text("pg_get_partkeydef", 1, 1, |_, _| CallValue::Text(None)),
    text("pg_get_triggerdef", 1, 2, |_, _| CallValue::Text(None)),
    text("pg_get_ruledef", 1, 2, |_, _| CallValue::Text(None)),
    text("pg_get_statisticsobjdef_columns", 1, 1, |_, _| CallValue::Text(None)),
    text("obj_description", 1, 2, |context, arguments| {
        CallValue::Text(description(context.snapshot.catalog(), oid(arguments[0]), None))
    }),
    text("col_description", 2, 2, |context, arguments| {
        let column = arguments[1].and_then(|column| column.parse().ok());
        CallValue::Text(
            column.and_then(|column| description(context.snapshot.catalog(), oid(arguments[0]), Some(column))),
        )
    }),
    text("shobj_description", 2, 2, |_, _| CallValue::Text(None)),
    text("pg_size_pretty", 1, 1, |_, arguments| {
        CallValue::Text(arguments[0].and_then(|bytes| bytes.parse().ok()).map(size_text))
    }),
    // The name of a relation, as the cast of a number to `regclass` shows it.
    text("rowmill_regclass_name", 1, 1, |context, arguments| {
        CallValue::Text(relation_name(context.snapshot.catalog(), arguments[0]))
    }),
    text("rowmill_regtype_name", 1, 1, |context, arguments| {
        let catalog = context.snapshot.catalog();
        let name = oid(arguments[0]).map(|oid| format_type(catalog, oid, None));
        CallValue::Text(name.or_else(|| arguments[0].map(str::to_owned)))
    }),
    text("rowmill_regproc_name", 1, 1, |_, arguments| CallValue::Text(function_name(arguments[0]))),
    text("rowmill_regnamespace_name", 1, 1, |context, arguments| {
        CallValue::Text(schema_name(context.snapshot.catalog(), arguments[0]))
    }),
    text("rowmill_regrole_name", 1, 1, |context, arguments| {
        CallValue::Text(role_name(context.snapshot.catalog(), arguments[0]))
    }),
    number("to_regproc", 1, 1, |_, arguments| CallValue::Number(function_oid(arguments[0]))),
    number("to_regnamespace", 1, 1, |context, arguments| {
        CallValue::Number(schema_oid_of(context.snapshot.catalog(), arguments[0]))
    }),
    number("to_regrole", 1, 1, |context, arguments| {
        CallValue::Number(role_number(context.snapshot.catalog(), arguments[0]))
    }),
    text("quote_ident", 1, 1, |_, arguments| CallValue::Text(arguments[0].map(pg_name))),
    text("quote_literal", 1, 1, |_, arguments| CallValue::Text(arguments[0].map(quoted_text))),
    text("quote_nullable", 1, 1, |_, arguments| {
        CallValue::Text(Some(arguments[0].map_or_else(|| "NULL".to_owned(), quoted_text)))
    }),
    text("pg_get_functiondef", 1, 1, |_, _| CallValue::Text(None)),
    text("pg_tablespace_location", 1, 1, |_, _| CallValue::Text(Some(String::new()))),
    text("getdatabaseencoding", 0, 0, |_, _| CallValue::Text(Some("UTF8".to_owned()))),
    text("current_query", 0, 0, |_, _| CallValue::Text(None)),
    text("inet_server_addr", 0, 0, |_, _| CallValue::Text(None)),
    text("inet_client_addr", 0, 0, |_, _| CallValue::Text(None)),
    text("pg_advisory_unlock_all", 0, 0, |_, _| CallValue::Text(Some(String::new()))),
    number("inet_server_port", 0, 0, |_, _| CallValue::Number(None)),
    number("inet_client_port", 0, 0, |_, _| CallValue::Number(None)),
    // There are no triggers in whose calls a statement could be.
    number("pg_trigger_depth", 0, 0, |_, _| CallValue::Number(Some(0))),
    number("txid_current", 0, 0, |context, _| CallValue::Number(Some(context.transaction_number))),
    number("pg_current_xact_id", 0, 0, |context, _| CallValue::Number(Some(context.transaction_number))),
    number("current_transaction_id", 0, 0, |context, _| CallValue::Number(Some(context.transaction_number))),
    instant("pg_postmaster_start_time", 0, 0, |_, _| CallValue::Instant(Some(*PROCESS_BEGAN_US))),
    instant("pg_conf_load_time", 0, 0, |_, _| CallValue::Instant(Some(*PROCESS_BEGAN_US))),
    number("pg_char_to_encoding", 1, 1, |_, arguments| {
        let is_utf8 = arguments[0].is_some_and(|name| ["utf8", "utf-8"].contains(&&*name.to_ascii_lowercase()));
        CallValue::Number(Some(if is_utf8 { UTF8 } else { -1 }))
    }),
    number("pg_tablespace_size", 1, 1, |_, _| CallValue::Number(None)),
    number("pg_my_temp_schema", 0, 0, |context, _| {
        CallValue::Number(Some(context.temporary_schema().map_or(0, |schema| schema_oid(schema).into())))
    }),
    number("pg_stat_get_numscans", 1, 1, |_, _| CallValue::Number(Some(0))),
    number("to_regclass", 1, 1, |context, arguments| CallValue::Number(relation_oid(context, arguments[0]))),
    number("to_regtype", 1, 1, |context, arguments| {
        CallValue::Number(type_oid(context.snapshot.catalog(), arguments[0]))
    }),
    number("pg_table_size", 1, 1, |_, _| CallValue::Number(None)),
    number("pg_relation_size", 1, 2, |_, _| CallValue::Number(None)),
    number("pg_total_relation_size", 1, 1, |_, _| CallValue::Number(None)),
    number("pg_indexes_size", 1, 1, |_, _| CallValue::Number(None)),
    number("pg_database_size", 1, 1, |_, _| CallValue::Number(None)),
    number("pg_partition_ancestors", 1, 1, |_, _| CallValue::Number(None)),
    // The number by which a connection is cancelled. A program that uses the library has only that of its process.
    number("pg_backend_pid", 0, 0, |context, _| {
        let own = context.connection.and_then(|number| i64::try_from(number).ok());
        CallValue::Number(Some(own.unwrap_or(i64::from(std::process::id()))))
    }),
    truth("pg_table_is_visible", 1, 1, |context, arguments| {
        let catalog = context.snapshot.catalog();
        let relation = oid(arguments[0]).and_then(|oid| relation_of(catalog, oid));
        CallValue::Truth(
            relation.map(|relation| context.schema_of(&lower(&relation.name)) == lower(&relation.schema.name)),
        )
    }),
    truth("pg_type_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_function_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_relation_is_publishable", 1, 1, |_, _| CallValue::Truth(Some(false))),
    truth("pg_is_in_recovery", 0, 0, |_, _| CallValue::Truth(Some(false))),
    truth("has_database_privilege", 2, 3, |_, _| CallValue::Truth(Some(true))),
    truth("has_function_privilege", 2, 3, |_, _| CallValue::Truth(Some(true))),
    truth("pg_collation_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_statistics_obj_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_operator_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_opclass_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_ts_config_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_conversion_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_opfamily_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_ts_dict_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_ts_parser_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_ts_template_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("has_parameter_privilege", 2, 3, |_, _| CallValue::Truth(Some(true))),
    truth("pg_is_other_temp_schema", 1, 1, |context, arguments| {
        let own = context.temporary_schema().map(|schema| schema.id);
        let mut others = context.snapshot.catalog().schemas().filter(|schema| Some(schema.id) != own);
        let is_other = |oid| others.any(|schema| is_temporary(&schema.name) && schema_oid(schema) == oid);
        CallValue::Truth(oid(arguments[0]).map(is_other))
    }),
    truth("has_type_privilege", 2, 3, |_, _| CallValue::Truth(Some(true))),
    truth("has_language_privilege", 2, 3, |_, _| CallValue::Truth(Some(true))),
    truth("has_tablespace_privilege", 2, 3, |_, _| CallValue::Truth(Some(true))),
    truth("has_server_privilege", 2, 3, |_, _| CallValue::Truth(Some(true))),
    truth("has_foreign_data_wrapper_privilege", 2, 3, |_, _| CallValue::Truth(Some(true))),
    truth("pg_is_wal_replay_paused", 0, 0, |_, _| CallValue::Truth(Some(false))),
    truth("row_security_active", 1, 1, |_, _| CallValue::Truth(Some(false))),
];

/// Settings of PostgreSQL that drivers ask for in queries, with the values that the server keeps.
pub(super) const PG_SETTINGS: [(&str, &str); 14] = [
    ("block_size", "8192"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("integer_datetimes", "on"),
    ("IntervalStyle", "postgres"),
    ("jit", "off"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("search_path", DEFAULT_SCHEMA),
    ("server_encoding", "UTF8"),
    ("server_version", "14.0"),
    ("server_version_num", "140000"),
    ("standard_conforming_strings", "on"),
    ("TimeZone", "UTC"),
];

/// The schemas of the search path that exist.
fn schemas_of_path(context: &StatementContext) -> Vec<String> {
    context.path.schemas(context.snapshot.catalog()).into_iter().map(|schema| schema.name.clone()).collect()
}

/// The value of a setting of PostgreSQL. NULL for all others.
fn pg_setting(context: &StatementContext, name: &str) -> Option<String> {
    if name.eq_ignore_ascii_case("search_path") {
        return Some(context.path.to_string());
    }
    if name.eq_ignore_ascii_case("timezone") {
        return context.settings.show("timezone").ok();
    }
    let found = PG_SETTINGS.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
    found.map(|(_, value)| (*value).to_owned())
}

/// A text as a literal of SQL.
pub(super) fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The sequence of an identity column, as its whole name.
fn sequence_of_column(context: &StatementContext, table: Option<&str>, column: Option<&str>) -> Option<String> {
    let catalog = context.snapshot.catalog();
    let oid = relation_oid(context, table)?;
    let table = catalog.all_tables().find(|table| i64::from(table_oid(table.id)) == oid)?;
    let column = &table.columns[table.column_index(column?)?];
    let owned = table.rules.identities.iter().find(|identity| identity.column == column.id)?;
    let sequence = catalog.table_by_id(owned.sequence)?;
    let schema = catalog.schema_by_id(sequence.schema)?;
    Some(format!("{}.{}", pg_name(&schema.name), pg_name(&sequence.name)))
}

/// A number of bytes with a unit, as PostgreSQL rounds it.
fn size_text(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let (mut size, mut unit) = (bytes, 0);
    while size.abs() >= 10 * 1024 && unit + 1 < UNITS.len() {
        (size, unit) = ((size + 512) / 1024, unit + 1);
    }
    format!("{size} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use rowmill_txn::Catalog;

    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size_text(10_239), "10239 bytes");
        assert_eq!(size_text(10 << 19), "5120 kB");
        assert_eq!(size_text(20 << 20), "20 MB");
    }

    #[test]
    fn types_are_shown_with_their_digits() {
        assert_eq!(format_type(&Catalog::default(), 1700, Some(655_366)), "numeric(10,2)");
        assert_eq!(format_type(&Catalog::default(), 1231, None), "numeric[]");
    }

    #[test]
    fn every_function_has_one_entry() {
        for (place, function) in FUNCTIONS.iter().enumerate() {
            let twice = FUNCTIONS[..place].iter().any(|other| other.name == function.name);
            assert!(!twice && rowmill_expr::functions::find(function.name).is_none(), "{}", function.name);
        }
    }
}
