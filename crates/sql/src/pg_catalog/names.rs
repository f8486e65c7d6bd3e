//! Numbers of objects as names, and names as numbers: what casts to `regclass`, `regtype` and the like do.

use rowmill_txn::Catalog;

use super::PG_CATALOG;
use super::functions::{function_of_oid, oid_of_function};
use super::namespaces::namespaces;
use super::oids::{
    self, PG_CLASS_OID, PG_PROC_OID, PG_TYPE_OID, ROLE, ROLE_OID, oid_of_relation, relation_of, role_oid,
    type_array_oid,
};
use super::type_oids::{PgScalar, PgType};
use crate::catalog::StatementContext;
use crate::names::{DEFAULT_SCHEMA, lower};

pub(super) fn oid(text: Option<&str>) -> Option<u32> {
    text?.trim().parse().ok()
}

/// Tables of the catalog with the numbers that PostgreSQL gives them, by which other tables say what kind an object
/// has.
const CATALOG_TABLES: [(&str, u32); 11] = [
    ("pg_attrdef", 2604),
    ("pg_attribute", 1249),
    ("pg_authid", 1260),
    ("pg_class", PG_CLASS_OID),
    ("pg_constraint", 2606),
    ("pg_database", 1262),
    ("pg_namespace", 2615),
    ("pg_proc", PG_PROC_OID),
    ("pg_rewrite", 2618),
    ("pg_trigger", 2620),
    ("pg_type", PG_TYPE_OID),
];

/// The name of the relation with this number, with its schema unless that is the default one.
pub(super) fn relation_name(catalog: &Catalog, text: Option<&str>) -> Option<String> {
    let text = text?;
    let Some(oid) = oid(Some(text)) else { return Some(text.to_owned()) };
    if let Some((table, _)) = CATALOG_TABLES.iter().find(|(_, own)| *own == oid) {
        return Some((*table).to_owned());
    }
    Some(match relation_of(catalog, oid) {
        Some(relation) if relation.schema.name == DEFAULT_SCHEMA => relation.name,
        Some(relation) => format!("{}.{}", relation.schema.name, relation.name),
        None if oid == 0 => "-".to_owned(),
        None => oid.to_string(),
    })
}

/// The number of the relation with this name or number.
pub(super) fn relation_oid(context: &StatementContext, text: Option<&str>) -> Option<i64> {
    let text = text?;
    if let Some(oid) = oid(Some(text)) {
        return Some(oid.into());
    }
    let (schema, name) = context.relation_named(text);
    let (schema, name) = (schema.as_str(), name.as_str());
    // Tools name the tables of the catalog only to say which kind of object they mean.
    let is_computed = schema == PG_CATALOG || name.starts_with("pg_");
    let found = oid_of_relation(context.snapshot.catalog(), schema, name).map(i64::from);
    let known = || CATALOG_TABLES.iter().find(|(table, _)| *table == name).map_or(0, |(_, oid)| *oid);
    found.or_else(|| is_computed.then(|| known().into()))
}

/// The number of the type with this name or number.
pub(super) fn type_oid(catalog: &Catalog, text: Option<&str>) -> Option<i64> {
    let text = text?;
    if let Some(oid) = oid(Some(text)) {
        return Some(oid.into());
    }
    let (name, is_array) = match text.trim().strip_suffix("[]") {
        Some(item) => (item, true),
        None => (text.trim(), false),
    };
    if let Some(def) = catalog.type_named(&name.replace('"', "")) {
        return Some(if is_array { type_array_oid(def.id) } else { oids::type_oid(def.id) }.into());
    }
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name).to_ascii_lowercase();
    let scalar = PgScalar::all().find(|scalar| scalar.name() == name || scalar.sql_name() == name)?;
    Some(PgType { scalar, is_array }.oid().into())
}

/// The name of the function with this number. A name stays as it is.
pub(super) fn function_name(text: Option<&str>) -> Option<String> {
    match oid(text) {
        Some(0) => Some("-".to_owned()),
        Some(oid) => Some(function_of_oid(oid).map_or_else(|| oid.to_string(), str::to_owned)),
        None => text.map(str::to_owned),
    }
}

/// The number of the function with this name or number.
pub(super) fn function_oid(text: Option<&str>) -> Option<i64> {
    let name = text?.trim();
    let by_name = || oid_of_function(name.strip_prefix("pg_catalog.").unwrap_or(name));
    oid(text).or_else(by_name).map(i64::from)
}

/// The name of the schema with this number. A name stays as it is.
pub(super) fn schema_name(catalog: &Catalog, text: Option<&str>) -> Option<String> {
    let Some(oid) = oid(text) else { return text.map(str::to_owned) };
    let found = namespaces(catalog).find(|(number, _)| *number == oid);
    Some(found.map_or_else(|| oid.to_string(), |(_, name)| name.to_owned()))
}

/// The number of the schema with this name or number.
pub(super) fn schema_oid_of(catalog: &Catalog, text: Option<&str>) -> Option<i64> {
    let name = lower(&text?.replace('"', ""));
    let by_name = || namespaces(catalog).find(|(_, own)| own.to_lowercase() == name).map(|(oid, _)| oid);
    oid(text).or_else(by_name).map(i64::from)
}

/// The name of the role with this number. A name stays as it is.
pub(super) fn role_name(catalog: &Catalog, text: Option<&str>) -> Option<String> {
    let Some(oid) = oid(text) else { return text.map(str::to_owned) };
    let role = catalog.roles().find(|role| role_oid(role.id) == oid);
    Some(match role {
        Some(role) => role.name.clone(),
        None if oid == ROLE_OID => ROLE.to_owned(),
        None if oid == 0 => "-".to_owned(),
        None => oid.to_string(),
    })
}

/// The number of the role with this name or number.
pub(super) fn role_number(catalog: &Catalog, text: Option<&str>) -> Option<i64> {
    let role = || catalog.role(text?).map(|role| role_oid(role.id));
    oid(text).or_else(role).or_else(|| (text == Some(ROLE)).then_some(ROLE_OID)).map(i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_all_their_names() {
        let catalog = Catalog::default();
        assert_eq!(type_oid(&catalog, Some("integer")), Some(23));
        assert_eq!(type_oid(&catalog, Some("pg_catalog.int4[]")), Some(1007));
        assert_eq!(type_oid(&catalog, Some("nonsense")), None);
    }

    #[test]
    fn functions_are_found_by_name_and_by_number() {
        let array_in = function_oid(Some("pg_catalog.array_in"));
        let number = array_in.map(|oid| oid.to_string());
        assert_eq!(function_name(number.as_deref()).as_deref(), Some("array_in"));
        assert_eq!(function_oid(Some("nonsense")), None);
    }
}
