//! `CREATE TYPE ... AS ENUM`, `ALTER TYPE` and `DROP TYPE`.

use std::sync::Arc;

use rowmill_base::{EnumLabel, EnumLabels, Error, ErrorKind, Result, SqlType, ViewId, nearest};
use rowmill_txn::{Catalog, Transaction, TypeDef};
use sqlparser::ast::{
    AlterType, AlterTypeAddValue, AlterTypeAddValuePosition, AlterTypeOperation, Ident, ObjectName, ObjectNamePart,
    UserDefinedTypeRepresentation,
};

use super::clause::unsupported;
use super::column_spec::check_name;
use crate::names::DEFAULT_SCHEMA;
use crate::outcome::Outcome;
use crate::session::Work;

/// Runs `CREATE TYPE`.
pub(crate) fn create(
    work: &mut Work<'_>,
    name: &ObjectName,
    representation: Option<&UserDefinedTypeRepresentation>,
) -> Result<Outcome> {
    let Some(UserDefinedTypeRepresentation::Enum { labels }) = representation else {
        return Err(unsupported("CREATE TYPE", "another type than ENUM").hint(
            "write CREATE TYPE name AS ENUM ('first', 'second'); a STRUCT needs no name: \
             column STRUCT(a INTEGER, b TEXT)",
        ));
    };
    let name = work.statement.spell(type_name(name)?).to_owned();
    check_name(&name)?;
    if SqlType::of_name(&name).is_some() {
        return Err(Error::new(ErrorKind::DuplicateObject, format!("{name} is a type of SQL"))
            .hint("give the type another name"));
    }
    let labels = labels.iter().map(label).collect::<Result<Vec<_>>>()?;
    work.write(|_, transaction| transaction.create_enum(&name, labels))?;
    Ok(Outcome::Done { tag: "CREATE TYPE" })
}

/// Runs `DROP TYPE`.
pub(crate) fn drop_types(work: &mut Work<'_>, names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<Outcome> {
    if cascade {
        return Err(unsupported("DROP TYPE", "CASCADE").hint("drop the columns of the type first"));
    }
    work.write(|work, transaction| {
        for name in names {
            let name = work.statement.spell(type_name(name)?);
            if transaction.drop_type(name)? {
                continue;
            }
            let error = unknown(transaction.catalog(), name);
            if !if_exists {
                return Err(error);
            }
            work.notice(error.message());
        }
        Ok(())
    })?;
    Ok(Outcome::Done { tag: "DROP TYPE" })
}

/// Runs `ALTER TYPE`.
pub(crate) fn alter(work: &mut Work<'_>, alter: &AlterType) -> Result<Outcome> {
    work.write(|work, transaction| {
        let def = find(transaction.catalog(), work.statement.spell(type_name(&alter.name)?))?;
        let old = def.labels();
        let (name, labels) = match &alter.operation {
            AlterTypeOperation::Rename(rename) => {
                let name = work.statement.spell(&rename.new_name);
                check_name(name)?;
                (name, old.labels().to_vec())
            }
            AlterTypeOperation::AddValue(add) => match with_added(work, &def, add)? {
                Some(labels) => (def.name.as_str(), labels),
                None => return Ok(()),
            },
            AlterTypeOperation::RenameValue(rename) => {
                let (from, to) = (label(&rename.from)?, label(&rename.to)?);
                let place = place_of(&def, &from)?;
                let mut labels = old.labels().to_vec();
                labels[place].text = to;
                (def.name.as_str(), labels)
            }
        };
        transaction.change_type(def.id, name, labels)?;
        match &alter.operation {
            AlterTypeOperation::RenameValue(rename) => {
                rename_in_defaults(transaction, def.id, &label(&rename.from)?, &label(&rename.to)?)
            }
            _ => Ok(()),
        }
    })?;
    Ok(Outcome::Done { tag: "ALTER TYPE" })
}

/// Puts the new name of a label into the defaults of columns that are the old one.
fn rename_in_defaults(transaction: &mut Transaction, id: ViewId, from: &str, to: &str) -> Result<()> {
    let text = |label: &str| format!("'{}'", label.replace('\'', "''"));
    let is_of_type = |kind: &SqlType| match kind {
        SqlType::Numbered(kind) => kind.labels().is_some_and(|labels| labels.id() == id.0),
        _ => false,
    };
    let mut found = Vec::new();
    for table in transaction.catalog().all_tables() {
        let old = text(from);
        let columns = table.columns.iter().filter(|column| is_of_type(&column.kind));
        let columns = columns.filter(|column| column.default.as_deref() == Some(old.as_str()));
        found.extend(columns.map(|column| (table.id, column.id)));
    }
    found.into_iter().try_for_each(|(table, column)| transaction.set_default(table, column, Some(text(to))))
}

/// Returns the labels of a type with one more, or `None` if the type has it already and `IF NOT EXISTS` allows that.
fn with_added(work: &mut Work<'_>, def: &TypeDef, add: &AlterTypeAddValue) -> Result<Option<Vec<EnumLabel>>> {
    let labels = def.labels();
    let text = label(&add.value)?;
    if labels.place(&text).is_some() {
        let message = format!("the type \"{}\" has a label '{text}' already", def.name);
        if add.if_not_exists {
            work.notice(message);
            return Ok(None);
        }
        return Err(Error::new(ErrorKind::DuplicateObject, message));
    }
    let place = match &add.position {
        Some(AlterTypeAddValuePosition::Before(other)) => place_of(def, &label(other)?)?,
        Some(AlterTypeAddValuePosition::After(other)) => place_of(def, &label(other)?)? + 1,
        None => labels.labels().len(),
    };
    labels.with_label(place, &text).map(Some)
}

fn place_of(def: &TypeDef, text: &str) -> Result<usize> {
    let labels: &EnumLabels = def.labels();
    labels.place(text).ok_or_else(|| {
        let message = format!("the type \"{}\" has no label '{text}'", def.name);
        let error = Error::new(ErrorKind::InvalidParameter, message);
        let known = labels.labels().iter().map(|label| format!("'{}'", label.text)).collect::<Vec<_>>();
        error.hint(format!("its labels are {}", known.join(", ")))
    })
}

fn find(catalog: &Catalog, name: &str) -> Result<Arc<TypeDef>> {
    catalog.type_named(name).cloned().ok_or_else(|| unknown(catalog, name))
}

pub(super) fn unknown(catalog: &Catalog, name: &str) -> Error {
    let error =
        Error::new(ErrorKind::UndefinedObject, format!("there is no type \"{name}\" that a statement has made"));
    let near = nearest(name, catalog.types().map(|known| known.name.as_str()));
    if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) }
}

/// Reads a label, which is written as a text.
fn label(label: &Ident) -> Result<String> {
    match label.quote_style {
        Some('\'') => Ok(label.value.clone()),
        _ => Err(Error::new(ErrorKind::Syntax, format!("{label} is not a label of an ENUM"))
            .hint("a label is written as a text: 'first'")),
    }
}

/// Returns the name of a type. Types belong to no schema, so only the one of names without a schema may be in front.
pub(super) fn type_name(name: &ObjectName) -> Result<&Ident> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Ok(name),
        [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(name)]
            if schema.value == DEFAULT_SCHEMA || schema.value == "public" =>
        {
            Ok(name)
        }
        _ => Err(Error::new(ErrorKind::InvalidDefinition, format!("{name} cannot be the name of a type"))
            .hint("types belong to no schema: write the name alone")),
    }
}
