//! The functions that tools call together with the tables of `pg_catalog`.
//!
//! Arguments come as texts, whatever their types: tools write numbers of objects both as numbers and as texts.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringViewArray, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_plan::{DynamicFunction, Volatility};
use rowmill_txn::Catalog;

use super::PG_CATALOG;
use super::definition::{constraint_by_oid, index_by_oid, view_by_oid};
use super::oids::{oid_of_relation, relation_of};
use super::type_oids::{PgScalar, PgType};
use super::types::format_type;
use crate::catalog::StatementContext;
use crate::names::{CATALOG, DEFAULT_SCHEMA, lower};

/// The value of a call.
enum CallValue {
    Text(Option<String>),
    Truth(Option<bool>),
    Number(Option<i64>),
    Texts(&'static [&'static str]),
}

/// The type of the values of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    Text,
    Truth,
    Number,
    Texts,
}

impl CallKind {
    fn sql_type(self) -> SqlType {
        match self {
            CallKind::Text => SqlType::TEXT,
            CallKind::Truth => SqlType::Boolean,
            CallKind::Number => SqlType::Int64,
            CallKind::Texts => SqlType::List(Box::new(SqlType::TEXT)),
        }
    }
}

/// Computes a function for the texts of its arguments.
type Call = fn(&Catalog, &[Option<&str>]) -> CallValue;

/// A function: its name, the least and the most arguments, the type of its values, and how it is computed.
struct CatalogFunction {
    name: &'static str,
    arguments: (usize, usize),
    kind: CallKind,
    call: Call,
}

const fn text(name: &'static str, min: usize, max: usize, call: Call) -> CatalogFunction {
    CatalogFunction { name, arguments: (min, max), kind: CallKind::Text, call }
}

const fn truth(name: &'static str, min: usize, max: usize, call: Call) -> CatalogFunction {
    CatalogFunction { name, arguments: (min, max), kind: CallKind::Truth, call }
}

const fn number(name: &'static str, min: usize, max: usize, call: Call) -> CatalogFunction {
    CatalogFunction { name, arguments: (min, max), kind: CallKind::Number, call }
}

const fn texts(name: &'static str, min: usize, max: usize, call: Call) -> CatalogFunction {
    CatalogFunction { name, arguments: (min, max), kind: CallKind::Texts, call }
}

/// The version of PostgreSQL whose catalog this is, and our own.
const VERSION: &str = concat!("PostgreSQL 14.0 (Rowmill ", env!("CARGO_PKG_VERSION"), ")");

static FUNCTIONS: &[CatalogFunction] = &[
    // `pg_catalog.version()`, which drivers parse. `version()` alone tells our own version.
    text("rowmill_pg_version", 0, 0, |_, _| CallValue::Text(Some(VERSION.to_owned()))),
    text("current_database", 0, 0, |_, _| CallValue::Text(Some(CATALOG.to_owned()))),
    text("current_catalog", 0, 0, |_, _| CallValue::Text(Some(CATALOG.to_owned()))),
    text("current_schema", 0, 0, |_, _| CallValue::Text(Some(DEFAULT_SCHEMA.to_owned()))),
    texts("current_schemas", 1, 1, |_, arguments| {
        CallValue::Texts(if arguments[0] == Some("true") { &[PG_CATALOG, DEFAULT_SCHEMA] } else { &[DEFAULT_SCHEMA] })
    }),
    text("current_setting", 1, 2, |_, arguments| CallValue::Text(arguments[0].and_then(pg_setting))),
    // No setting can be changed by a call, so the call gives the value that the setting keeps.
    text("set_config", 3, 3, |_, arguments| CallValue::Text(arguments[0].and_then(pg_setting))),
    text("pg_encoding_to_char", 1, 1, |_, _| CallValue::Text(Some("UTF8".to_owned()))),
    text("pg_client_encoding", 0, 0, |_, _| CallValue::Text(Some("UTF8".to_owned()))),
    text("format_type", 2, 2, |_, arguments| {
        let modifier = arguments[1].and_then(|modifier| modifier.parse().ok());
        CallValue::Text(oid(arguments[0]).map(|oid| format_type(oid, modifier)))
    }),
    text("pg_get_expr", 2, 3, |_, arguments| CallValue::Text(arguments[0].map(str::to_owned))),
    text("pg_get_indexdef", 1, 3, |catalog, arguments| {
        let column = arguments.get(1).copied().flatten().and_then(|column| column.parse().ok()).unwrap_or(0);
        CallValue::Text(oid(arguments[0]).and_then(|oid| index_by_oid(catalog, oid, column)))
    }),
    text("pg_get_constraintdef", 1, 2, |catalog, arguments| {
        CallValue::Text(oid(arguments[0]).and_then(|oid| constraint_by_oid(catalog, oid)))
    }),
    text("pg_get_viewdef", 1, 2, |catalog, arguments| {
        CallValue::Text(oid(arguments[0]).and_then(|oid| view_by_oid(catalog, oid)))
    }),
    text("pg_get_serial_sequence", 2, 2, |_, _| CallValue::Text(None)),
    text("pg_get_function_result", 1, 1, |_, _| CallValue::Text(None)),
    text("pg_get_function_arguments", 1, 1, |_, _| CallValue::Text(None)),
    text("pg_get_function_identity_arguments", 1, 1, |_, _| CallValue::Text(None)),
    text("pg_get_partkeydef", 1, 1, |_, _| CallValue::Text(None)),
    text("pg_get_triggerdef", 1, 2, |_, _| CallValue::Text(None)),
    text("pg_get_ruledef", 1, 2, |_, _| CallValue::Text(None)),
    text("pg_get_statisticsobjdef_columns", 1, 1, |_, _| CallValue::Text(None)),
    text("obj_description", 1, 2, |_, _| CallValue::Text(None)),
    text("col_description", 2, 2, |_, _| CallValue::Text(None)),
    text("shobj_description", 2, 2, |_, _| CallValue::Text(None)),
    text("pg_size_pretty", 1, 1, |_, arguments| {
        CallValue::Text(arguments[0].and_then(|bytes| bytes.parse().ok()).map(size_text))
    }),
    // The name of a relation, as the cast of a number to `regclass` shows it.
    text("rowmill_regclass_name", 1, 1, |catalog, arguments| CallValue::Text(relation_name(catalog, arguments[0]))),
    text("rowmill_regtype_name", 1, 1, |_, arguments| {
        let name = oid(arguments[0]).map(|oid| format_type(oid, None));
        CallValue::Text(name.or_else(|| arguments[0].map(str::to_owned)))
    }),
    number("to_regclass", 1, 1, |catalog, arguments| CallValue::Number(relation_oid(catalog, arguments[0]))),
    number("to_regtype", 1, 1, |_, arguments| CallValue::Number(type_oid(arguments[0]))),
    number("pg_table_size", 1, 1, |_, _| CallValue::Number(None)),
    number("pg_relation_size", 1, 2, |_, _| CallValue::Number(None)),
    number("pg_total_relation_size", 1, 1, |_, _| CallValue::Number(None)),
    number("pg_indexes_size", 1, 1, |_, _| CallValue::Number(None)),
    number("pg_database_size", 1, 1, |_, _| CallValue::Number(None)),
    number("pg_partition_ancestors", 1, 1, |_, _| CallValue::Number(None)),
    number("pg_backend_pid", 0, 0, |_, _| CallValue::Number(Some(i64::from(std::process::id())))),
    truth("pg_table_is_visible", 1, 1, |catalog, arguments| {
        let relation = oid(arguments[0]).and_then(|oid| relation_of(catalog, oid));
        CallValue::Truth(relation.map(|relation| relation.schema.name == DEFAULT_SCHEMA))
    }),
    truth("pg_type_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_function_is_visible", 1, 1, |_, _| CallValue::Truth(Some(true))),
    truth("pg_relation_is_publishable", 1, 1, |_, _| CallValue::Truth(Some(false))),
    truth("pg_is_in_recovery", 0, 0, |_, _| CallValue::Truth(Some(false))),
    truth("has_database_privilege", 2, 3, |_, _| CallValue::Truth(Some(true))),
    truth("has_function_privilege", 2, 3, |_, _| CallValue::Truth(Some(true))),
];

/// Returns the function `name` with this number of arguments and the type of its values, or `None` if it is none of
/// these.
pub(super) fn function(
    context: &Arc<StatementContext>,
    name: &str,
    arguments: usize,
) -> Option<(Arc<dyn DynamicFunction>, SqlType)> {
    let takes = |function: &CatalogFunction| (function.arguments.0..=function.arguments.1).contains(&arguments);
    let function = FUNCTIONS.iter().find(|function| function.name == name && takes(function))?;
    Some((Arc::new(CatalogCall { function, context: Arc::clone(context) }), function.kind.sql_type()))
}

/// A call of one of the functions.
struct CatalogCall {
    function: &'static CatalogFunction,
    context: Arc<StatementContext>,
}

impl std::fmt::Debug for CatalogCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.function.name)
    }
}

impl DynamicFunction for CatalogCall {
    fn name(&self) -> &str {
        self.function.name
    }

    fn volatility(&self) -> Volatility {
        // The snapshot of the statement gives the values.
        Volatility::Stable
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let texts = arguments.iter().map(|values| cast(values, &DataType::Utf8)).collect::<Result<Vec<_>, _>>();
        let texts = texts
            .map_err(|error| Error::new(ErrorKind::UndefinedFunction, format!("{}: {error}", self.function.name)))?;
        let catalog = self.context.snapshot.catalog();
        let values = (0..rows).map(|row| {
            let row: Vec<Option<&str>> =
                texts.iter().map(|texts| texts.is_valid(row).then(|| texts.as_string::<i32>().value(row))).collect();
            (self.function.call)(catalog, &row)
        });
        Ok(match self.function.kind {
            CallKind::Truth => Arc::new(values.map(CallValue::truth).collect::<BooleanArray>()),
            CallKind::Number => Arc::new(values.map(CallValue::number).collect::<Int64Array>()),
            CallKind::Text => Arc::new(values.map(CallValue::text).collect::<StringViewArray>()),
            CallKind::Texts => {
                let item = Field::new("item", DataType::Utf8View, true);
                let mut lists = ListBuilder::new(StringViewBuilder::new()).with_field(Arc::new(item));
                values.for_each(|value| lists.append_value(value.texts().iter().map(|text| Some(*text))));
                Arc::new(lists.finish())
            }
        })
    }
}

impl CallValue {
    fn text(self) -> Option<String> {
        if let CallValue::Text(text) = self { text } else { None }
    }

    fn texts(self) -> &'static [&'static str] {
        if let CallValue::Texts(texts) = self { texts } else { &[] }
    }

    fn truth(self) -> Option<bool> {
        if let CallValue::Truth(truth) = self { truth } else { None }
    }

    fn number(self) -> Option<i64> {
        if let CallValue::Number(number) = self { number } else { None }
    }
}

/// The value of a setting of PostgreSQL that drivers ask for in queries. NULL for all others.
fn pg_setting(name: &str) -> Option<String> {
    let value = match name.to_ascii_lowercase().as_str() {
        "jit" => "off",
        "server_version" => "14.0",
        "server_version_num" => "140000",
        "server_encoding" | "client_encoding" => "UTF8",
        "search_path" => DEFAULT_SCHEMA,
        "standard_conforming_strings" | "integer_datetimes" => "on",
        "max_index_keys" => "32",
        "max_identifier_length" => "63",
        _ => return None,
    };
    Some(value.to_owned())
}

fn oid(text: Option<&str>) -> Option<u32> {
    text?.trim().parse().ok()
}

/// The name of the relation with this number, with its schema unless that is the default one.
fn relation_name(catalog: &Catalog, text: Option<&str>) -> Option<String> {
    let text = text?;
    let Some(oid) = oid(Some(text)) else { return Some(text.to_owned()) };
    Some(match relation_of(catalog, oid) {
        Some(relation) if relation.schema.name == DEFAULT_SCHEMA => relation.name,
        Some(relation) => format!("{}.{}", relation.schema.name, relation.name),
        None if oid == 0 => "-".to_owned(),
        None => oid.to_string(),
    })
}

/// The number of the relation with this name or number.
pub(super) fn relation_oid(catalog: &Catalog, text: Option<&str>) -> Option<i64> {
    let text = text?;
    if let Some(oid) = oid(Some(text)) {
        return Some(oid.into());
    }
    let name = lower(&text.replace('"', ""));
    let (schema, name) = name.split_once('.').unwrap_or((DEFAULT_SCHEMA, &name));
    // Tools name the tables of the catalog only to say which kind of object they mean, so any number serves.
    let computed = schema == PG_CATALOG || name.starts_with("pg_");
    let found = oid_of_relation(catalog, schema, name).map(i64::from);
    found.or_else(|| computed.then_some(0))
}

/// The number of the type with this name or number.
fn type_oid(text: Option<&str>) -> Option<i64> {
    let text = text?;
    if let Some(oid) = oid(Some(text)) {
        return Some(oid.into());
    }
    let (name, is_array) = match text.trim().strip_suffix("[]") {
        Some(item) => (item, true),
        None => (text.trim(), false),
    };
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name).to_ascii_lowercase();
    let scalar = PgScalar::all().find(|scalar| scalar.name() == name || scalar.sql_name() == name)?;
    Some(PgType { scalar, is_array }.oid().into())
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
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size_text(10_239), "10239 bytes");
        assert_eq!(size_text(10 << 19), "5120 kB");
        assert_eq!(size_text(20 << 20), "20 MB");
    }

    #[test]
    fn types_are_found_by_all_their_names() {
        assert_eq!(type_oid(Some("integer")), Some(23));
        assert_eq!(type_oid(Some("pg_catalog.int4[]")), Some(1007));
        assert_eq!(type_oid(Some("nonsense")), None);
        assert_eq!(format_type(1700, Some(655_366)), "numeric(10,2)");
        assert_eq!(format_type(1231, None), "numeric[]");
    }

    #[test]
    fn every_function_has_one_entry() {
        for (place, function) in FUNCTIONS.iter().enumerate() {
            let twice = FUNCTIONS[..place].iter().any(|other| other.name == function.name);
            assert!(!twice && rowmill_expr::functions::find(function.name).is_none(), "{}", function.name);
        }
    }
}
