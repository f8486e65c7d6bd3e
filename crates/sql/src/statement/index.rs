//! `CREATE INDEX` and `DROP INDEX`.
//!
//! An index belongs to the schema of its table, and its name must be unique there. It is built from what the
//! transaction sees of the table, while readers go on. All transactions see it once this one commits.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, IndexId, Result, nearest};
use rowmill_storage::TableDef;
use rowmill_txn::{Catalog, IndexSpec, Transaction};
use sqlparser::ast::{CreateIndex, IndexType, ObjectName};

use super::clause::{refuse, unsupported};
use super::column_spec::check_name;
use super::key_clauses::{free_name, key_columns, key_parts};
use super::relation;
use crate::names::{QualifiedName, lower, qualified};
use crate::outcome::Outcome;
use crate::session::Work;

const CREATE: &str = "CREATE INDEX";

pub(crate) fn create(work: &mut Work<'_>, create: &CreateIndex) -> Result<Outcome> {
    let CreateIndex {
        name,
        table_name,
        using,
        columns,
        unique,
        concurrently: _,
        if_not_exists,
        include,
        nulls_distinct,
        with,
        predicate,
        index_options,
        alter_options,
    } = create;
    let clauses = [
        (using.as_ref().is_some_and(|using| *using != IndexType::BTree), "USING anything but BTREE"),
        (!include.is_empty(), "INCLUDE"),
        (*nulls_distinct == Some(false), "NULLS NOT DISTINCT"),
        (!with.is_empty(), "WITH"),
        (predicate.is_some(), "WHERE"),
        (!index_options.is_empty(), "options of an index"),
        (!alter_options.is_empty(), "options of an index"),
        (*if_not_exists && name.is_none(), "IF NOT EXISTS without a name"),
    ];
    refuse(CREATE, clauses)?;
    let columns = key_columns(CREATE, columns)?;
    let table_name = qualified(table_name, work.statement.spellings())?;
    let name = name.as_ref().map(|name| index_name(work, name, &table_name)).transpose()?;
    work.write(|work, transaction| {
        let view = transaction.view()?;
        let table = relation::table(view.catalog(), &table_name)?;
        if table.keyed.is_none() && *unique {
            return Err(unsupported(CREATE, "a table without a primary key").hint(
                "columnar tables are scanned by blocks, which their zone maps and value lists skip; an index \
                    needs a PRIMARY KEY",
            ));
        }
        let name = match &name {
            Some(name) => name.clone(),
            None => free_name(&table, &columns.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "idx"),
        };
        check_name(&name)?;
        if let Some((other, _)) = find(view.catalog(), &table_name.schema, &name) {
            let exists = format!("there is an index \"{name}\" on table \"{}\" already", other.name);
            if *if_not_exists {
                work.notice(exists);
                return Ok(());
            }
            return Err(Error::new(ErrorKind::DuplicateObject, exists).hint("CREATE INDEX IF NOT EXISTS keeps it"));
        }
        let parts = key_parts(work, &table, &columns)?;
        if table.keyed.is_none() {
            // An index is only a faster way to rows, so a program that makes one must not fail.
            work.notice(format!(
                "index \"{name}\" is only listed: table \"{}\" has no primary key, so it is stored by columns, whose \
                    zone maps and value lists skip blocks as an index would",
                table.name
            ));
            return transaction.list_index(table.id, IndexSpec { name, parts, unique: false });
        }
        // The build may take long, and a view that we no longer need should not hold back space.
        drop(view);
        transaction.create_index(table.id, IndexSpec { name, parts, unique: *unique }).map(|_| ())
    })?;
    Ok(Outcome::Done { tag: CREATE })
}

/// Returns the index's own name. It may be written with the schema of its table, but with no other.
fn index_name(work: &Work<'_>, name: &ObjectName, table: &QualifiedName) -> Result<String> {
    let written = qualified(name, work.statement.spellings())?;
    if name.0.len() > 1 && written.schema != table.schema {
        return Err(unsupported(CREATE, "another schema than the table's"));
    }
    Ok(written.spelled)
}

/// Drops the indexes with these names.
pub(super) fn drop_indexes(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    names: &[ObjectName],
    if_exists: bool,
) -> Result<()> {
    for name in names {
        let name = qualified(name, work.statement.spellings())?;
        let view = transaction.view()?;
        relation::schema(view.catalog(), &name.schema)?;
        match find(view.catalog(), &name.schema, &name.name) {
            Some((table, index)) => transaction.drop_index(table.id, index)?,
            None if if_exists => work.notice(format!("there is no index \"{}\"", name.spelled)),
            None => return Err(unknown(view.catalog(), &name)),
        }
    }
    Ok(())
}

/// Returns the index called `name` and its table.
fn find(catalog: &Catalog, schema: &str, name: &str) -> Option<(Arc<TableDef>, IndexId)> {
    let schema = catalog.schema(schema)?.id;
    catalog.tables(schema).find_map(|table| {
        let index = table.named_indexes().find(|index| lower(&index.name) == lower(name))?;
        Some((Arc::clone(table), index.id))
    })
}

fn unknown(catalog: &Catalog, name: &QualifiedName) -> Error {
    let error = Error::new(ErrorKind::UndefinedObject, format!("there is no index \"{}\"", name.spelled));
    let tables = catalog.schema(&name.schema).into_iter().flat_map(|schema| catalog.tables(schema.id));
    let known: Vec<&str> = tables.flat_map(|table| table.named_indexes().map(|index| index.name.as_str())).collect();
    let near = nearest(&name.name, known.iter().copied());
    if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) }
}
