//! Types that statements make: ENUM types with a name and labels.
//!
//! Types have names of their own, apart from tables and views, and belong to no schema. They take their ids from the
//! counter of views. A column holds the whole definition of its type, so that a table can be read by itself. A change
//! of a type therefore changes the definitions of all tables with a column of it. The byte table is in
//! `docs/file-format.md`, "Ordered base".

use std::sync::Arc;

use rowmill_base::{EnumLabel, EnumLabels, Error, ErrorKind, Result, SqlType, TableId, ViewId};
use rowmill_storage::{ColumnDef, TableDef, retyped};

use crate::catalog::Catalog;
use crate::codec::{RecordReader, Writer};
use crate::comments;
use crate::transaction::Transaction;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDef {
    /// Never reused.
    pub id: ViewId,
    /// The name as spelled.
    pub name: String,
    /// The type as columns have it.
    pub kind: SqlType,
    /// The comment on it.
    pub comment: Option<String>,
}

impl TypeDef {
    fn of(id: ViewId, name: String, labels: Vec<EnumLabel>) -> Result<TypeDef> {
        let kind = EnumLabels::sql_type(id.0, &name, labels)?;
        Ok(TypeDef { id, name, kind, comment: None })
    }

    /// The labels.
    pub fn labels(&self) -> &'static EnumLabels {
        match &self.kind {
            SqlType::Numbered(kind) => kind.labels().expect("every type of the catalog is an ENUM"),
            _ => unreachable!("every type of the catalog is an ENUM"),
        }
    }
}

/// Calls `take` with the id of every type of the catalog that `kind` contains.
pub(crate) fn each_type_id(kind: &SqlType, take: &mut dyn FnMut(ViewId)) {
    match kind {
        SqlType::Numbered(numbered) => {
            if let Some(labels) = numbered.labels().filter(|labels| labels.id() > 0) {
                take(ViewId(labels.id()));
            }
        }
        SqlType::List(item) => each_type_id(item, take),
        SqlType::Struct(fields) => fields.iter().for_each(|(_, kind)| each_type_id(kind, take)),
        _ => {}
    }
}

fn uses(kind: &SqlType, id: ViewId) -> bool {
    let mut found = false;
    each_type_id(kind, &mut |other| found |= other == id);
    found
}

/// Puts `new` in the place of every version of the type with this id within `kind`.
fn replace(kind: &mut SqlType, id: ViewId, new: &SqlType) {
    match kind {
        SqlType::Numbered(numbered) if numbered.labels().is_some_and(|labels| labels.id() == id.0) => {
            kind.clone_from(new);
        }
        SqlType::List(item) => replace(item, id, new),
        SqlType::Struct(fields) => fields.iter_mut().for_each(|(_, kind)| replace(kind, id, new)),
        _ => {}
    }
}

impl Transaction {
    /// Creates an ENUM type with these labels in order.
    ///
    /// Returns `DuplicateObject` if the name is taken, and `InvalidDefinition` if a label occurs twice or is too long.
    pub fn create_enum(&mut self, name: &str, labels: Vec<String>) -> Result<()> {
        // Ids count from 0, and a type with the number 0 has no place in the catalog.
        let mut id = self.next_view_id();
        if id.0 == 0 {
            id = self.next_view_id();
        }
        let def = TypeDef::of(id, name.to_owned(), EnumLabels::ranked(labels))?;
        self.catalog_mut()?.put_type(Arc::new(def))
    }

    /// Drops the type of this name. Returns whether there was one, and `DependentObjects` if a column has it.
    pub fn drop_type(&mut self, name: &str) -> Result<bool> {
        let Some(def) = self.catalog().type_named(name).cloned() else { return Ok(false) };
        for table in self.catalog().all_tables() {
            if let Some(column) = table.columns.iter().find(|column| uses(&column.kind, def.id)) {
                let message = format!(
                    "the type \"{name}\" cannot be dropped: column \"{}\" of table \"{}\" has it",
                    column.name, table.name
                );
                return Err(Error::new(ErrorKind::DependentObjects, message)
                    .hint("drop the column, or give it another type first"));
            }
        }
        self.catalog_mut()?.remove_type(def.id);
        Ok(true)
    }

    /// Gives a type another name or other labels, also in the definitions of all columns of it. A label that stays must
    /// keep its rank.
    pub fn change_type(&mut self, id: ViewId, name: &str, labels: Vec<EnumLabel>) -> Result<()> {
        let comment = self.catalog().type_by_id(id).and_then(|old| old.comment.clone());
        let def = TypeDef { comment, ..TypeDef::of(id, name.to_owned(), labels)? };
        let kind = def.kind.clone();
        self.catalog_mut()?.put_type(Arc::new(def))?;
        let is_user = |table: &TableDef| {
            table.columns.iter().any(|column| uses(&column.kind, id))
                || table.keyed.iter().flat_map(|keyed| &keyed.stored).any(|(_, kind)| uses(kind, id))
        };
        let tables: Vec<TableId> =
            self.catalog().all_tables().filter(|table| is_user(table)).map(|table| table.id).collect();
        for table in tables {
            self.alter(table, |table| {
                for column in &mut table.columns {
                    replace_in_column(column, id, &kind)?;
                }
                if let Some(keyed) = &mut table.keyed {
                    Arc::make_mut(keyed).stored.iter_mut().for_each(|(_, stored)| replace(stored, id, &kind));
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn replace_in_column(column: &mut ColumnDef, id: ViewId, new: &SqlType) -> Result<()> {
    replace(&mut column.kind, id, new);
    if let Some(missing) = &mut column.missing {
        *missing = retyped(missing, &column.kind.arrow())?;
    }
    Ok(())
}

pub(crate) fn encode(def: &TypeDef) -> Vec<u8> {
    let mut out = Writer::new();
    encode_labels(def.labels(), &mut out);
    comments::encode_last(def.comment.as_deref(), &mut out);
    out.finish()
}

/// Decodes a type and adds it to the catalog.
pub(crate) fn put(catalog: &mut Catalog, id: ViewId, bytes: &[u8]) -> Result<()> {
    let mut input = RecordReader::new(bytes, "the definition of a type");
    let (name, labels) = decode_labels(&mut input)?;
    let comment = comments::decode_last(&mut input)?;
    let def = TypeDef::of(id, name, labels).map_err(|error| Error::corrupt(error.message().to_owned()))?;
    catalog.put_type(Arc::new(TypeDef { comment, ..def }))
}

/// Appends the name and the labels of an ENUM.
pub(crate) fn encode_labels(labels: &EnumLabels, out: &mut Writer) {
    out.text(labels.name()).u32(labels.labels().len() as u32);
    for EnumLabel { rank, text } in labels.labels() {
        out.u64(*rank).text(text);
    }
}

/// Reads what [`encode_labels`] has written.
pub(crate) fn decode_labels(input: &mut RecordReader<'_>) -> Result<(String, Vec<EnumLabel>)> {
    let name = input.text()?;
    let mut labels: Vec<EnumLabel> = Vec::new();
    for _ in 0..input.count(12)? {
        let (rank, text) = (input.u64()?, input.text()?);
        if labels.last().is_some_and(|before| before.rank >= rank) {
            return Err(input.damaged("labels of an ENUM that do not ascend"));
        }
        labels.push(EnumLabel { rank, text });
    }
    Ok((name, labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_read_as_it_was_written() {
        let labels = EnumLabels::ranked(vec!["sad".into(), "ok".into()]);
        let def = TypeDef::of(ViewId(7), "Mood".into(), labels).expect("a type");
        let mut catalog = Catalog::default();
        put(&mut catalog, def.id, &encode(&def)).expect("as written");
        assert_eq!(**catalog.type_named("MOOD").expect("there"), def);
        assert!(put(&mut catalog, ViewId(8), &encode(&def)).is_err(), "the name is taken");
        let noted = TypeDef { comment: Some("a mood".into()), ..def.clone() };
        put(&mut catalog, def.id, &encode(&noted)).expect("as written");
        assert_eq!(**catalog.type_named("mood").expect("there"), noted);
        let good = encode(&def);
        assert!((0..good.len()).all(|cut| put(&mut Catalog::default(), def.id, &good[..cut]).is_err()));
    }

    #[test]
    fn another_version_takes_the_place_of_a_type_in_lists_and_structs() {
        let version = |texts: &[&str]| {
            let labels = EnumLabels::ranked(texts.iter().map(|text| (*text).to_owned()).collect());
            TypeDef::of(ViewId(9), "t".into(), labels).expect("a type").kind
        };
        let (old, new) = (version(&["a"]), version(&["a", "b"]));
        let nest = |kind: SqlType| SqlType::Struct(vec![("x".into(), SqlType::List(Box::new(kind)))]);
        let mut kind = nest(old);
        replace(&mut kind, ViewId(9), &new);
        assert_eq!(kind, nest(new));
        assert!(uses(&kind, ViewId(9)) && !uses(&kind, ViewId(8)));
    }
}
