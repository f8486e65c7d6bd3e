//! The kinds of definitions that the catalog holds. Log and base store a definition alike: under the letter of its kind
//! and its id, with one value. So each kind has one encoder and one decoder, and this file lists them.

use std::sync::Arc;

use rowmill_base::{Result, RoleId, SchemaId, TableId, ViewId};

use crate::catalog::Catalog;
use crate::roles::ObjectId;
use crate::{comments, macros, manifest, materialized_codec, roles_codec, statistics_codec, types};

/// A kind of definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefinitionKind {
    Schema,
    Table,
    /// The statistics of a keyed table.
    Statistics,
    /// The query of a materialized view, whose rows are a table's.
    Materialized,
    /// The comments on a table and its columns.
    Comments,
    View,
    Macro,
    /// A type that a statement has made.
    Type,
    Role,
    /// The owner and the rights of an object.
    Access,
}

impl DefinitionKind {
    /// All kinds, in the order in which definitions are added: a schema comes before its tables. They are removed in
    /// the opposite order.
    pub(crate) const ALL: [DefinitionKind; 10] = [
        DefinitionKind::Schema,
        DefinitionKind::Table,
        DefinitionKind::Statistics,
        DefinitionKind::Materialized,
        DefinitionKind::Comments,
        DefinitionKind::View,
        DefinitionKind::Macro,
        DefinitionKind::Type,
        DefinitionKind::Role,
        DefinitionKind::Access,
    ];

    /// The first byte of the definition's key in the base, which also names the kind in the log.
    pub(crate) fn letter(self) -> u8 {
        match self {
            DefinitionKind::Schema => b'S',
            DefinitionKind::Table => b'T',
            DefinitionKind::Statistics => b'A',
            DefinitionKind::Materialized => b'M',
            DefinitionKind::Comments => b'C',
            DefinitionKind::View => b'V',
            DefinitionKind::Macro => b'F',
            DefinitionKind::Type => b'E',
            DefinitionKind::Role => b'U',
            DefinitionKind::Access => b'G',
        }
    }

    pub(crate) fn of_letter(letter: u8) -> Option<DefinitionKind> {
        DefinitionKind::ALL.into_iter().find(|kind| kind.letter() == letter)
    }

    /// The name of the kind in messages, before an id.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DefinitionKind::Schema => "schema",
            DefinitionKind::Table => "table",
            DefinitionKind::Statistics => "the statistics of table",
            DefinitionKind::Materialized => "materialized view",
            DefinitionKind::Comments => "the comments on table",
            DefinitionKind::View => "view",
            DefinitionKind::Macro => "macro",
            DefinitionKind::Type => "type",
            DefinitionKind::Role => "role",
            DefinitionKind::Access => "the rights of object",
        }
    }

    /// Lists the definitions of this kind in `catalog`: their ids and values.
    pub(crate) fn encode_all(self, catalog: &Catalog) -> Result<Vec<(u32, Vec<u8>)>> {
        match self {
            DefinitionKind::Schema => {
                Ok(catalog.schemas().map(|def| (def.id.0, manifest::encode_schema(def))).collect())
            }
            DefinitionKind::Table => {
                catalog.all_tables().map(|def| Ok((def.id.0, manifest::encode_table(def)?))).collect()
            }
            DefinitionKind::Statistics => {
                Ok(catalog.all_statistics().map(|(table, of)| (table.0, statistics_codec::encode(of))).collect())
            }
            DefinitionKind::Materialized => {
                Ok(catalog.materialized_views().map(|view| (view.table.0, materialized_codec::encode(view))).collect())
            }
            DefinitionKind::Comments => {
                Ok(catalog.all_comments().map(|(table, of)| (table.0, comments::encode(of))).collect())
            }
            DefinitionKind::View => Ok(catalog.all_views().map(|def| (def.id.0, manifest::encode_view(def))).collect()),
            DefinitionKind::Macro => Ok(catalog.macros().map(|def| (def.id.0, macros::encode(def))).collect()),
            DefinitionKind::Type => Ok(catalog.types().map(|def| (def.id.0, types::encode(def))).collect()),
            DefinitionKind::Role => Ok(catalog.roles().map(|def| (def.id.0, roles_codec::encode_role(def))).collect()),
            DefinitionKind::Access => {
                Ok(catalog.numbered_access().map(|(number, def)| (number, roles_codec::encode_access(def))).collect())
            }
        }
    }

    /// Decodes a value and adds the definition. A definition with the same id is replaced.
    pub(crate) fn put(self, catalog: &mut Catalog, id: u32, value: &[u8]) -> Result<()> {
        match self {
            DefinitionKind::Schema => catalog.put_schema(Arc::new(manifest::decode_schema(SchemaId(id), value)?)),
            DefinitionKind::Table => catalog.put_table(Arc::new(manifest::decode_table(TableId(id), value)?)),
            DefinitionKind::Statistics => statistics_codec::put(catalog, TableId(id), value),
            DefinitionKind::Materialized => materialized_codec::put(catalog, TableId(id), value),
            DefinitionKind::Comments => comments::put(catalog, TableId(id), value),
            DefinitionKind::View => catalog.put_view(Arc::new(manifest::decode_view(ViewId(id), value)?)),
            DefinitionKind::Macro => macros::put(catalog, ViewId(id), value),
            DefinitionKind::Type => types::put(catalog, ViewId(id), value),
            DefinitionKind::Role => catalog.put_role(Arc::new(roles_codec::decode_role(RoleId(id), value)?)),
            DefinitionKind::Access => {
                catalog.put_access(roles_codec::decode_access(id, value)?);
                Ok(())
            }
        }
    }

    /// Takes a definition out that [`DefinitionKind::put`] is about to replace, so that its name is free.
    pub(crate) fn withdraw(self, catalog: &mut Catalog, id: u32) {
        match self {
            // Removing a schema would remove its tables. Its name can only go to the schema itself.
            DefinitionKind::Schema => {}
            // The statistics of the table and its query as a materialized view stay.
            DefinitionKind::Table => catalog.withdraw_table(TableId(id)),
            // They have no names of their own, and putting them replaces them.
            DefinitionKind::Materialized | DefinitionKind::Comments | DefinitionKind::Access => {}
            DefinitionKind::Statistics
            | DefinitionKind::View
            | DefinitionKind::Macro
            | DefinitionKind::Type
            | DefinitionKind::Role => self.remove(catalog, id),
        }
    }

    /// Removes a definition.
    pub(crate) fn remove(self, catalog: &mut Catalog, id: u32) {
        match self {
            DefinitionKind::Schema => catalog.remove_schema(SchemaId(id)),
            DefinitionKind::Table => catalog.remove_table(TableId(id)),
            DefinitionKind::Statistics => catalog.set_statistics(TableId(id), None),
            DefinitionKind::Materialized => catalog.remove_materialized(TableId(id)),
            DefinitionKind::Comments => catalog.set_comments(TableId(id), None),
            DefinitionKind::View => catalog.remove_view(ViewId(id)),
            DefinitionKind::Macro => catalog.remove_macro(ViewId(id)),
            DefinitionKind::Type => catalog.remove_type(ViewId(id)),
            DefinitionKind::Role => catalog.remove_role(RoleId(id)),
            DefinitionKind::Access => {
                ObjectId::of_number(id).into_iter().for_each(|object| catalog.remove_access(object));
            }
        }
    }
}

/// A definition that was made, changed or removed.
pub(crate) struct Definition {
    pub(crate) kind: DefinitionKind,
    pub(crate) id: u32,
    /// The value in the base. `None` if the definition was removed.
    pub(crate) value: Option<Vec<u8>>,
}

/// The definitions that differ between two catalogs. Removals come first, and a schema comes before its tables, so that
/// the list can be applied from start to end.
pub(crate) fn definitions(before: &Arc<Catalog>, after: &Arc<Catalog>) -> Result<Vec<Definition>> {
    if Arc::ptr_eq(before, after) {
        return Ok(Vec::new());
    }
    let mut changed = Vec::new();
    let mut put = |kind, id, value| changed.push(Definition { kind, id, value });
    for (number, _) in before.numbered_access().filter(|(_, access)| after.access(access.object).is_none()) {
        put(DefinitionKind::Access, number, None);
    }
    for role in before.roles().filter(|role| after.role_by_id(role.id).is_none()) {
        put(DefinitionKind::Role, role.id.0, None);
    }
    for def in before.types().filter(|def| after.type_by_id(def.id).is_none()) {
        put(DefinitionKind::Type, def.id.0, None);
    }
    for def in before.macros().filter(|def| after.macro_by_id(def.id).is_none()) {
        put(DefinitionKind::Macro, def.id.0, None);
    }
    for view in before.all_views().filter(|view| after.view_by_id(view.id).is_none()) {
        put(DefinitionKind::View, view.id.0, None);
    }
    for view in before.materialized_views().filter(|view| after.materialized(view.table).is_none()) {
        put(DefinitionKind::Materialized, view.table.0, None);
    }
    for (table, _) in before.all_comments().filter(|(table, _)| after.comments(*table).is_none()) {
        put(DefinitionKind::Comments, table.0, None);
    }
    for (table, _) in before.all_statistics().filter(|(table, _)| after.statistics(*table).is_none()) {
        put(DefinitionKind::Statistics, table.0, None);
    }
    for table in before.all_tables().filter(|table| after.table_by_id(table.id).is_none()) {
        put(DefinitionKind::Table, table.id.0, None);
    }
    for schema in before.schemas().filter(|schema| after.schema_by_id(schema.id).is_none()) {
        put(DefinitionKind::Schema, schema.id.0, None);
    }
    for schema in after.schemas() {
        if !before.schema_by_id(schema.id).is_some_and(|old| Arc::ptr_eq(old, schema)) {
            put(DefinitionKind::Schema, schema.id.0, Some(manifest::encode_schema(schema)));
        }
    }
    for table in after.all_tables() {
        if !before.table_by_id(table.id).is_some_and(|old| Arc::ptr_eq(old, table)) {
            put(DefinitionKind::Table, table.id.0, Some(manifest::encode_table(table)?));
        }
    }
    for (table, statistics) in after.all_statistics() {
        if !before.statistics(table).is_some_and(|old| Arc::ptr_eq(old, statistics)) {
            put(DefinitionKind::Statistics, table.0, Some(statistics_codec::encode(statistics)));
        }
    }
    for view in after.materialized_views() {
        if !before.materialized(view.table).is_some_and(|old| Arc::ptr_eq(old, view)) {
            put(DefinitionKind::Materialized, view.table.0, Some(materialized_codec::encode(view)));
        }
    }
    for (table, of) in after.all_comments() {
        if !before.comments(table).is_some_and(|old| Arc::ptr_eq(old, of)) {
            put(DefinitionKind::Comments, table.0, Some(comments::encode(of)));
        }
    }
    for view in after.all_views() {
        if !before.view_by_id(view.id).is_some_and(|old| Arc::ptr_eq(old, view)) {
            put(DefinitionKind::View, view.id.0, Some(manifest::encode_view(view)));
        }
    }
    for def in after.macros() {
        if !before.macro_by_id(def.id).is_some_and(|old| Arc::ptr_eq(old, def)) {
            put(DefinitionKind::Macro, def.id.0, Some(macros::encode(def)));
        }
    }
    for def in after.types() {
        if !before.type_by_id(def.id).is_some_and(|old| Arc::ptr_eq(old, def)) {
            put(DefinitionKind::Type, def.id.0, Some(types::encode(def)));
        }
    }
    for role in after.roles() {
        if !before.role_by_id(role.id).is_some_and(|old| Arc::ptr_eq(old, role)) {
            put(DefinitionKind::Role, role.id.0, Some(roles_codec::encode_role(role)));
        }
    }
    for (number, access) in after.numbered_access() {
        if !before.access(access.object).is_some_and(|old| Arc::ptr_eq(old, access)) {
            put(DefinitionKind::Access, number, Some(roles_codec::encode_access(access)));
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_letter_of_its_own_and_a_place_in_the_byte_tables() {
        let format = include_str!("../../../docs/file-format.md");
        let (base, log) = format.split_once("## Log").expect("a section about the log");
        for kind in DefinitionKind::ALL {
            let letter = char::from(kind.letter());
            assert_eq!(DefinitionKind::of_letter(kind.letter()), Some(kind));
            assert!(base.contains(&format!("| `{letter}`")), "the base's table of keys lacks `{letter}`: {kind:?}");
            assert!(log.contains(&format!("`{letter}`")), "the table of a record lacks `{letter}`: {kind:?}");
        }
    }

    #[test]
    fn every_kind_refuses_damaged_values() {
        for kind in DefinitionKind::ALL {
            for bytes in [&b""[..], &[0xff; 3], &[0xff; 64]] {
                assert!(kind.put(&mut Catalog::default(), 1, bytes).is_err(), "{kind:?} read {bytes:?}");
            }
        }
    }
}
