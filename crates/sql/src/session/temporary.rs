//! Temporary tables and views: those that only one connection sees by their bare names, and that end with it.
//!
//! They are ordinary tables and views in a schema of the connection's own, `pg_temp_1` for example. Before a statement
//! runs, each bare name in it that means one of them gets that schema (`name_resolution`), so a temporary table hides
//! another one of its name. The stored query of a temporary view has the schema before the names of temporary tables.
//!
//! The catalog alone decides which names are temporary, so that a rollback undoes its creation, too. The schema is
//! dropped when the connection closes. After a crash, its schemas are dropped
//! when the database is opened again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_exec::workers::Workers;
use rowmill_txn::{Engine, Transaction};
use sqlparser::ast::ObjectName;

use super::{Session, Work};
use crate::access::Authority;
use crate::names::{QualifiedName, identifiers, qualified};
use crate::statement::sql_text::quoted;

/// The beginning of the names of the schemas of temporary tables.
const PREFIX: &str = "pg_temp_";

/// The name by which a statement can mean the schema of its own connection.
pub(crate) const OWN: &str = "pg_temp";

/// The number of the next schema. One process writes to a database, so its numbers are enough to tell schemas apart.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Whether the schema with this name is one of temporary tables.
pub(crate) fn is_temporary(schema: &str) -> bool {
    schema.starts_with(PREFIX)
}

/// Whether only connections may make a schema with this name.
pub(crate) fn is_reserved(schema: &str) -> bool {
    schema == OWN || is_temporary(schema)
}

impl Session {
    /// Returns the name of the schema for the connection's temporary tables.
    pub(crate) fn temporary_schema(&mut self) -> &str {
        if self.temporary.is_none() {
            // What statements of this connection have made of their texts must not reach another one.
            self.settings_version += 1;
            self.idle = None;
        }
        self.temporary.get_or_insert_with(|| format!("{PREFIX}{}", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns the name of that schema, once the connection has made one.
    pub(crate) fn known_temporary_schema(&self) -> Option<&str> {
        self.temporary.as_deref()
    }

    /// Drops the connection's temporary tables, in the open transaction if there is one.
    pub fn drop_temporary_tables(&mut self) -> Result<()> {
        let Some(schema) = self.temporary.clone() else { return Ok(()) };
        match self.with_catalog(|catalog| Ok(catalog.schema(&schema).is_some()))? {
            true => self.run_text(&drop_schema(&schema), &[]).map(drop),
            false => Ok(()),
        }
    }

    /// Drops the temporary tables of a connection that closes.
    pub(super) fn close_temporary(&mut self) {
        let Some(schema) = self.temporary.take() else { return };
        // The open transaction ends with the connection; its locks must not keep the tables.
        self.transaction = None;
        self.authority = Authority::default();
        // If this fails, the next opening of the database drops them.
        let _ = self.run_text(&drop_schema(&schema), &[]);
    }
}

/// Drops the temporary tables of connections whose process has crashed.
pub(crate) fn drop_left_temporary_tables(engine: &Arc<Engine>, workers: &Arc<Workers>) -> Result<()> {
    let snapshot = engine.snapshot()?;
    let left = snapshot.catalog().schemas().filter(|schema| is_temporary(&schema.name));
    let left: Vec<String> = left.map(|schema| drop_schema(&schema.name)).collect();
    if left.is_empty() || engine.is_read_only() {
        return Ok(());
    }
    let mut session = Session::new(Arc::clone(engine), Arc::clone(workers))?;
    left.iter().try_for_each(|statement| session.run_text(statement, &[]).map(drop))
}

/// Returns the name of a new temporary table or view, which is in the connection's own schema. `kind` says which.
pub(crate) fn new_name(work: &mut Work<'_>, name: &ObjectName, kind: &str) -> Result<QualifiedName> {
    let schema = work.session.temporary_schema().to_owned();
    let parts = identifiers(name)?;
    if let [of, _] = parts.as_slice()
        && of.value != OWN
    {
        let what = format!("a temporary {kind} belongs to its connection, so it cannot be in the schema \"{of}\"");
        return Err(Error::new(ErrorKind::InvalidDefinition, what));
    }
    Ok(QualifiedName { schema, ..qualified(name, work.statement.spellings())? })
}

/// Makes the schema `name` of temporary tables, unless it exists.
pub(crate) fn make_schema(transaction: &mut Transaction, name: &str) -> Result<()> {
    if transaction.view()?.catalog().schema(name).is_none() {
        transaction.create_schema(name)?;
    }
    Ok(())
}

fn drop_schema(name: &str) -> String {
    format!("DROP SCHEMA IF EXISTS {} CASCADE", quoted(name))
}
