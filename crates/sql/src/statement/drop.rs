//! `DROP TABLE`, `DROP VIEW`, `DROP MATERIALIZED VIEW`, `DROP INDEX`, `DROP SEQUENCE` and `DROP SCHEMA`.
//!
//! What remains must stay usable. So a relation that views read, or a schema that is not empty, is only dropped with
//! `CASCADE`, which drops the dependent things too. All names of one statement are dropped together or not at all.

use std::collections::BTreeSet;

use rowmill_base::{Error, ErrorKind, Result, SchemaId};
use rowmill_txn::{Catalog, ForeignKeyDef, Transaction};
use sqlparser::ast::{ObjectName, ObjectType, Statement};

use super::clause::{refuse, unsupported};
use super::dependents::Dependents;
use super::index::drop_indexes;
use super::relation::{self, RelationId, RelationKind, written};
use super::type_definition;
use crate::names::{DEFAULT_SCHEMA, QualifiedName, identifiers, qualified};
use crate::outcome::Outcome;
use crate::session::Work;

/// Runs a [`Statement::Drop`].
pub(crate) fn run(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::Drop { object_type, if_exists, names, cascade, restrict, purge, temporary, table } = statement
    else {
        return Err(Error::internal("the dispatch hands DROP statements to drop"));
    };
    let (tag, kind) = match object_type {
        ObjectType::Table => ("DROP TABLE", Some(RelationKind::Table)),
        ObjectType::View => ("DROP VIEW", Some(RelationKind::View)),
        ObjectType::MaterializedView => ("DROP MATERIALIZED VIEW", Some(RelationKind::Materialized)),
        ObjectType::Schema => ("DROP SCHEMA", None),
        ObjectType::Index => ("DROP INDEX", None),
        ObjectType::Type => return type_definition::drop_types(work, names, *if_exists, *cascade),
        ObjectType::Sequence => ("DROP SEQUENCE", Some(RelationKind::Sequence)),
        other => {
            return Err(unsupported("DROP", &other.to_string())
                .hint("DROP takes a table, view, materialized view, index, sequence, type or schema"));
        }
    };
    let clauses = [
        (*purge, "PURGE"),
        (*temporary, "TEMPORARY"),
        (table.is_some(), "ON"),
        (*cascade && *restrict, "CASCADE together with RESTRICT"),
    ];
    refuse(tag, clauses)?;
    work.write(|work, transaction| match kind {
        Some(kind) => drop_relations(work, transaction, kind, names, *if_exists, *cascade),
        None if *object_type == ObjectType::Index => drop_indexes(work, transaction, names, *if_exists),
        None => drop_schemas(work, transaction, names, *if_exists, *cascade),
    })?;
    Ok(Outcome::Done { tag })
}

fn drop_relations(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    kind: RelationKind,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let view = transaction.view()?;
    let catalog = view.catalog();
    let mut targets = BTreeSet::new();
    let mut first = None;
    for name in names {
        let name = qualified(name, work.statement.spellings())?;
        match target(catalog, &name, kind) {
            Ok(id) => {
                targets.insert(id);
                first.get_or_insert(name.spelled);
            }
            Err(error) if if_exists && is_absent(&error) => work.notice(error.message()),
            Err(error) => return Err(error),
        }
    }
    let Some(first) = first else { return Ok(()) };
    // All names are resolved by now, so an unknown name has dropped nothing.
    let dependents = Dependents::of(catalog, targets.iter().copied());
    if !cascade {
        let what = format!("{} \"{first}\" cannot be dropped", kind.name());
        dependents.refuse(&what, &format!("DROP {} ... CASCADE drops them as well", kind.name().to_uppercase()))?;
    }
    // A table cannot be dropped while a foreign key refers to it, so the keys must go first.
    drop_references(transaction, catalog, &targets, cascade)?;
    drop_all(transaction, targets.into_iter().chain(dependents.ids()))
}

/// Drops the foreign keys that refer to tables among `targets`: with `cascade` all of them, otherwise only those of
/// tables that are dropped too.
fn drop_references(
    transaction: &mut Transaction,
    catalog: &Catalog,
    targets: &BTreeSet<RelationId>,
    cascade: bool,
) -> Result<()> {
    for other in catalog.all_tables() {
        let refers = |key: &&ForeignKeyDef| key.parent != other.id && targets.contains(&RelationId::Table(key.parent));
        for key in other.keyed.iter().flat_map(|keyed| &keyed.foreign_keys).filter(refers) {
            if cascade || targets.contains(&RelationId::Table(other.id)) {
                transaction.drop_foreign_key(other.id, &key.name)?;
            }
        }
    }
    Ok(())
}

fn target(catalog: &Catalog, name: &QualifiedName, kind: RelationKind) -> Result<RelationId> {
    relation::schema(catalog, &name.schema)?;
    let Some(found) = relation::find(catalog, name) else { return Err(relation::unknown(catalog, name, &[kind])) };
    if found.kind() != kind {
        let right = format!("DROP {} {}", found.kind().name().to_uppercase(), written(name));
        return Err(relation::wrong_kind(found.name(), found.kind(), kind).hint(right));
    }
    Ok(RelationId::from(&found))
}

/// Whether the error says that the thing does not exist. `IF EXISTS` excuses nothing else.
fn is_absent(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::UndefinedTable | ErrorKind::UndefinedSchema)
}

fn drop_all(transaction: &mut Transaction, ids: impl Iterator<Item = RelationId>) -> Result<()> {
    for id in ids {
        match id {
            // A sequence that belongs to a column was already dropped with its table, and a relation may be listed
            // twice.
            RelationId::Table(id) if transaction.catalog().table_by_id(id).is_none() => {}
            RelationId::Table(id) => transaction.drop_table(id)?,
            RelationId::View(id) => transaction.drop_view(id)?,
        }
    }
    Ok(())
}

fn drop_schemas(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    for name in names {
        let name = schema_name(name)?;
        let view = transaction.view()?;
        let catalog = view.catalog();
        match relation::schema(catalog, name) {
            Err(error) if if_exists => work.notice(error.message()),
            Err(error) => return Err(error),
            Ok(schema) if schema.name == DEFAULT_SCHEMA => {
                return Err(Error::new(
                    ErrorKind::DependentObjects,
                    format!("schema \"{DEFAULT_SCHEMA}\" cannot be dropped: it holds tables named without a schema"),
                ));
            }
            Ok(schema) => drop_schema(transaction, catalog, schema.id, &schema.name, cascade)?,
        }
    }
    Ok(())
}

fn drop_schema(
    transaction: &mut Transaction,
    catalog: &Catalog,
    schema: SchemaId,
    name: &str,
    cascade: bool,
) -> Result<()> {
    let tables = catalog.tables(schema).map(|table| RelationId::Table(table.id));
    let views = catalog.views(schema).map(|view| RelationId::View(view.id));
    // A schema may be dropped only when it is empty.
    let held: BTreeSet<RelationId> = tables.chain(views).collect();
    if !cascade && !held.is_empty() {
        let mut names: Vec<&str> = catalog.tables(schema).map(|table| table.name.as_str()).collect();
        names.extend(catalog.views(schema).map(|view| view.name.as_str()));
        let shown = names.iter().take(5).copied().collect::<Vec<_>>().join(", ");
        let rest = if names.len() > 5 { ", ..." } else { "" };
        return Err(Error::new(
            ErrorKind::DependentObjects,
            format!("schema \"{name}\" cannot be dropped: it holds {shown}{rest}"),
        )
        .hint("DROP SCHEMA ... CASCADE drops what it holds as well"));
    }
    let dependents = Dependents::of(catalog, held.iter().copied());
    drop_references(transaction, catalog, &held, cascade)?;
    drop_all(transaction, held.into_iter().chain(dependents.ids()))?;
    transaction.drop_schema(schema)
}

/// Returns the one identifier that names a schema.
pub(crate) fn schema_name(name: &ObjectName) -> Result<&str> {
    match identifiers(name)?.as_slice() {
        [schema] => Ok(&schema.value),
        [catalog, schema] if catalog.value == crate::names::CATALOG => Ok(&schema.value),
        _ => Err(Error::new(ErrorKind::UndefinedSchema, format!("\"{name}\" is not the name of a schema"))),
    }
}
