//! `pg_type`: the types by which values go over the wire, and their arrays.

use std::sync::Arc;

use rowmill_base::{EnumLabels, SqlType, ViewId};
use rowmill_txn::Catalog;

use super::functions::oid_of_function;
use super::oids::{MAIN_OID, PG_CATALOG_OID, ROLE_OID, label_oid, type_array_oid, type_oid};
use super::rows::{PgCell, PgRows};
use super::type_oids::{PgScalar, PgType, type_modifier};
use crate::catalog::StatementContext;
use crate::statement::sql_text::name_text;

/// The number of `varchar`, which only the definition of a column names: its values are texts.
pub(super) const VARCHAR_OID: u32 = 1043;
const VARCHAR_ARRAY_OID: u32 = 1015;

/// The number and the modifier of a column's type.
pub(super) fn column_type(kind: &SqlType) -> (u32, i64) {
    /// PostgreSQL counts four bytes of a header to every modifier.
    const HEADER: i64 = 4;
    match kind {
        SqlType::Text { chars_max: Some(chars) } => (VARCHAR_OID, i64::from(*chars) + HEADER),
        kind => match own_type(kind) {
            Some(oid) => (oid, -1),
            None => (PgType::of(kind).oid(), type_modifier(kind).into()),
        },
    }
}

/// The number of a type that a statement has made, or of its arrays.
fn own_type(kind: &SqlType) -> Option<u32> {
    let id_of = |kind: &SqlType| match kind {
        SqlType::Numbered(kind) => kind.labels().map(EnumLabels::id).filter(|id| *id > 0).map(ViewId),
        _ => None,
    };
    match kind {
        SqlType::List(item) => id_of(item).map(type_array_oid),
        kind => id_of(kind).map(type_oid),
    }
}

/// The letter of the category that PostgreSQL puts a type into.
fn category(scalar: PgScalar) -> &'static str {
    match scalar {
        PgScalar::Bool => "B",
        PgScalar::Int2 | PgScalar::Int4 | PgScalar::Int8 | PgScalar::Float4 | PgScalar::Float8 | PgScalar::Numeric => {
            "N"
        }
        PgScalar::Oid => "N",
        PgScalar::Text | PgScalar::Name => "S",
        PgScalar::Char => "Z",
        PgScalar::Int2vector | PgScalar::Oidvector => "A",
        PgScalar::Date | PgScalar::Time | PgScalar::Timestamp | PgScalar::Timestamptz => "D",
        PgScalar::Interval => "T",
        PgScalar::Bytea | PgScalar::Json | PgScalar::Jsonb | PgScalar::Uuid => "U",
    }
}

pub(super) fn pg_type(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_type");
    for scalar in PgScalar::all() {
        let (kind, array) = (PgType::scalar(scalar), PgType { scalar, is_array: true });
        let (oid, of_array) = (kind.oid(), array.oid());
        let item = match scalar {
            PgScalar::Int2vector => PgType::scalar(PgScalar::Int2).oid(),
            PgScalar::Oidvector => PgType::scalar(PgScalar::Oid).oid(),
            PgScalar::Name => PgType::scalar(PgScalar::Char).oid(),
            _ => 0,
        };
        push(&mut rows, oid, scalar.name().to_owned(), kind, category(scalar), [item, of_array]);
        push(&mut rows, of_array, format!("_{}", scalar.name()), array, "A", [oid, 0]);
    }
    push(&mut rows, VARCHAR_OID, "varchar".to_owned(), PgType::TEXT, "S", [0, VARCHAR_ARRAY_OID]);
    for def in context.snapshot.catalog().types() {
        let (oid, array) = (type_oid(def.id), type_array_oid(def.id));
        let own = [("typnamespace", MAIN_OID.into()), ("typtype", "e".into()), ("typcategory", "E".into())];
        rows.push_all(type_row(oid, def.name.clone(), PgType::TEXT, "E", [0, array]).into_iter().chain(own));
        let of_array = PgType { scalar: PgScalar::Text, is_array: true };
        let row = type_row(array, format!("_{}", def.name), of_array, "A", [oid, 0]);
        rows.push_all(row.into_iter().chain([("typnamespace", MAIN_OID.into())]));
    }
    rows
}

/// `pg_enum`: the labels of types.
pub(super) fn pg_enum(context: &Arc<StatementContext>) -> PgRows {
    let mut rows = PgRows::of("pg_enum");
    for def in context.snapshot.catalog().types() {
        for (place, label) in def.labels().labels().iter().enumerate() {
            rows.push([
                ("oid", label_oid(def.id, place).into()),
                ("enumtypid", type_oid(def.id).into()),
                ("enumsortorder", (place as i64 + 1).into()),
                ("enumlabel", label.text.as_str().into()),
            ]);
        }
    }
    rows
}

/// The name of the function that converts values of a type. `suffix` is `in`, `out`, `recv` or `send`.
pub(super) fn io_function(kind: PgType, suffix: &str) -> String {
    match (kind.is_array, kind.scalar) {
        (true, _) => format!("array_{suffix}"),
        (
            false,
            scalar @ (PgScalar::Date
            | PgScalar::Time
            | PgScalar::Timestamp
            | PgScalar::Timestamptz
            | PgScalar::Interval
            | PgScalar::Numeric
            | PgScalar::Uuid
            | PgScalar::Json
            | PgScalar::Jsonb),
        ) => format!("{}_{suffix}", scalar.name()),
        (false, scalar) => format!("{}{suffix}", scalar.name()),
    }
}

/// The name by which `pg_type` knows the type of a column.
pub(crate) fn type_name(kind: &SqlType) -> String {
    let own = PgType::of(kind);
    match (kind, own.is_array) {
        (SqlType::Numbered(kind), _) if let Some(labels) = kind.labels() => labels.name().to_owned(),
        (SqlType::Text { chars_max: Some(_) }, _) => "varchar".to_owned(),
        (_, true) => format!("_{}", own.scalar.name()),
        (_, false) => own.scalar.name().to_owned(),
    }
}

fn push(rows: &mut PgRows, oid: u32, name: String, kind: PgType, category: &'static str, others: [u32; 2]) {
    rows.push_all(type_row(oid, name, kind, category, others));
}

/// The values of a row. `item` is the type of the items of an array, `array` the type of arrays of this type.
fn type_row(
    oid: u32,
    name: String,
    kind: PgType,
    category: &'static str,
    [item, array]: [u32; 2],
) -> [(&'static str, PgCell); 25] {
    let function = |suffix: &str| PgCell::from(oid_of_function(&io_function(kind, suffix)));
    [
        ("oid", oid.into()),
        ("typnamespace", PG_CATALOG_OID.into()),
        ("typowner", ROLE_OID.into()),
        ("typlen", i64::from(kind.size()).into()),
        ("typbyval", false.into()),
        ("typtype", "b".into()),
        ("typcategory", category.into()),
        ("typispreferred", false.into()),
        ("typisdefined", true.into()),
        ("typdelim", ",".into()),
        ("typrelid", 0_i64.into()),
        ("typelem", item.into()),
        ("typarray", array.into()),
        ("typinput", function("in")),
        ("typoutput", function("out")),
        ("typreceive", function("recv")),
        ("typsend", function("send")),
        ("typalign", "i".into()),
        ("typstorage", "p".into()),
        ("typnotnull", false.into()),
        ("typbasetype", 0_i64.into()),
        ("typtypmod", (-1_i64).into()),
        ("typndims", 0_i64.into()),
        ("typcollation", 0_i64.into()),
        ("typname", name.into()),
    ]
}

/// The name of a type in SQL, with its modifier, as PostgreSQL's `format_type` gives it.
pub(super) fn format_type(catalog: &Catalog, oid: u32, modifier: Option<i32>) -> String {
    if oid == VARCHAR_OID {
        let chars = modifier.filter(|modifier| *modifier >= 4).map(|modifier| format!("({})", modifier - 4));
        return format!("character varying{}", chars.unwrap_or_default());
    }
    for def in catalog.types() {
        match oid {
            own if own == type_oid(def.id) => return name_text(&def.name),
            array if array == type_array_oid(def.id) => return format!("{}[]", name_text(&def.name)),
            _ => {}
        }
    }
    let Some(kind) = PgType::of_oid(oid) else { return if oid == 0 { "-" } else { "???" }.to_owned() };
    let name = match (kind.scalar, modifier) {
        (PgScalar::Numeric, Some(modifier)) if modifier >= 4 => {
            let (precision, scale) = ((modifier - 4) >> 16, (modifier - 4) & 0xffff);
            format!("numeric({precision},{scale})")
        }
        (scalar, _) => scalar.sql_name().to_owned(),
    };
    if kind.is_array { format!("{name}[]") } else { name }
}
