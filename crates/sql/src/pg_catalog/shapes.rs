//! The columns of the tables of `pg_catalog` and `information_schema`, with their types.
//!
//! They are those of PostgreSQL 15. `tables.txt` lists them: the name of a table, and below it, indented, its columns
//! as `name:type`. A table that nothing else in this crate fills has no rows.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::rows::PgColumn;

/// The columns of a table in order, each with its name and its type.
pub(crate) type PgColumns = &'static [(&'static str, PgColumn)];

/// The tables of a schema, by name.
pub(crate) type PgShapes = BTreeMap<&'static str, Vec<(&'static str, PgColumn)>>;

/// The tables of `pg_catalog`.
pub(crate) fn pg_catalog() -> &'static PgShapes {
    static SHAPES: OnceLock<PgShapes> = OnceLock::new();
    SHAPES.get_or_init(|| read(include_str!("tables.txt")))
}

/// The tables of `information_schema`.
pub(crate) fn information_schema() -> &'static PgShapes {
    static SHAPES: OnceLock<PgShapes> = OnceLock::new();
    SHAPES.get_or_init(|| read(include_str!("../information_schema/tables.txt")))
}

fn read(list: &'static str) -> PgShapes {
    let mut shapes = PgShapes::new();
    let mut table = "";
    for line in list.lines() {
        let Some(columns) = line.strip_prefix("    ") else {
            table = line;
            continue;
        };
        let columns = columns.split(' ').map(|column| {
            let (name, kind) = column.split_once(':').expect("a column has a type");
            (name, PgColumn::of(kind).unwrap_or_else(|| panic!("{table}.{name} has an unknown type {kind}")))
        });
        shapes.entry(table).or_default().extend(columns);
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tables_are_read() {
        let class = &pg_catalog()["pg_class"];
        assert_eq!(class[..2], [("oid", PgColumn::Oid), ("relname", PgColumn::Name)]);
        assert!(information_schema()["tables"].iter().any(|(name, _)| *name == "table_type"));
    }
}
