//! `pg_proc`: the functions and aggregates that queries may call, and the macros of the database.

use std::sync::OnceLock;

use rowmill_exec::aggregate;

use super::oids::{MAIN_OID, PG_CATALOG_OID, ROLE_OID, macro_oid};
use super::rows::PgRows;
use super::type_oids::{PgScalar, PgType};
use super::types::io_function;
use crate::catalog::StatementContext;

/// The first number of a function. Numbers follow the order of names, so they may change with a version.
const FIRST_OID: u32 = 20_000;

/// All functions in order, each with its name and the letter of its kind: those that queries may call, and those by
/// which PostgreSQL converts the values of its types, which only `pg_type` names.
fn names() -> &'static [(String, &'static str)] {
    static NAMES: OnceLock<Vec<(String, &'static str)>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let scalar = rowmill_expr::functions::all().map(|function| (function.name.to_owned(), "f"));
        let aggregates = aggregate::all().map(|aggregate| (aggregate.name.to_owned(), "a"));
        let array = PgType { scalar: PgScalar::Text, is_array: true };
        let kinds = PgScalar::all().map(PgType::scalar).chain([array]);
        let conversions = kinds.flat_map(|kind| ["in", "out", "recv", "send"].map(|suffix| io_function(kind, suffix)));
        let mut names: Vec<_> = scalar.chain(aggregates).chain(conversions.map(|name| (name, "f"))).collect();
        names.sort_unstable();
        names
    })
}

/// The number of the function with this name.
pub(super) fn oid_of_function(name: &str) -> Option<u32> {
    let place = names().iter().position(|(own, _)| own == name)?;
    Some(FIRST_OID + place as u32)
}

/// The name of the function with this number.
pub(super) fn function_of_oid(oid: u32) -> Option<&'static str> {
    let place = oid.checked_sub(FIRST_OID)? as usize;
    names().get(place).map(|(name, _)| name.as_str())
}

/// A function of `pg_proc`.
struct ProcRow<'a> {
    oid: u32,
    name: &'a str,
    schema: u32,
    kind: &'static str,
    arguments: usize,
    defaults: usize,
    is_table: bool,
    source: &'a str,
}

pub(super) fn pg_proc(context: &StatementContext) -> PgRows {
    let mut rows = PgRows::of("pg_proc");
    for (place, (name, kind)) in names().iter().enumerate() {
        let oid = FIRST_OID + place as u32;
        let row = ProcRow {
            oid,
            name,
            schema: PG_CATALOG_OID,
            kind,
            arguments: 0,
            defaults: 0,
            is_table: false,
            source: name,
        };
        push(&mut rows, &row);
    }
    for def in context.snapshot.catalog().macros() {
        let row = ProcRow {
            oid: macro_oid(def.id),
            name: &def.name,
            schema: MAIN_OID,
            kind: "f",
            arguments: def.parameters.len(),
            defaults: def.parameters.iter().filter(|parameter| parameter.default.is_some()).count(),
            is_table: def.is_table,
            source: &def.sql,
        };
        push(&mut rows, &row);
    }
    rows
}

fn push(rows: &mut PgRows, row: &ProcRow<'_>) {
    rows.push([
        ("oid", row.oid.into()),
        ("proname", row.name.into()),
        ("pronamespace", row.schema.into()),
        ("proowner", ROLE_OID.into()),
        ("prolang", 12_i64.into()),
        ("procost", 1_i64.into()),
        ("prorows", 0_i64.into()),
        ("provariadic", 0_i64.into()),
        ("prokind", row.kind.into()),
        ("prosecdef", false.into()),
        ("proleakproof", false.into()),
        ("proisstrict", false.into()),
        ("proretset", row.is_table.into()),
        ("provolatile", "v".into()),
        ("proparallel", "s".into()),
        ("pronargs", (row.arguments as i64).into()),
        ("pronargdefaults", (row.defaults as i64).into()),
        ("proargtypes", Vec::new().into()),
        ("prorettype", 0_i64.into()),
        ("prosrc", row.source.into()),
    ]);
}
