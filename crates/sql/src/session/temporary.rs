//! Temporary tables: tables that only one connection sees by their bare names, and that end with it.
//!
//! They are ordinary tables in a schema of the connection's own, `pg_temp_1` for example. Before a statement runs, each
//! bare name in it that means a temporary table gets that schema, so a temporary table hides another one of its name:
//!
//! ```text
//! SELECT * FROM t JOIN u ...   ->   SELECT * FROM pg_temp_1.t JOIN u ...
//! ```
//!
//! The catalog alone decides which tables are temporary, so that a rollback undoes their creation, too. The schema is
//! dropped when the connection closes. After a crash, its schemas are dropped
//! when the database is opened again.

use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rowmill_base::{Error, ErrorKind, Result, SchemaId};
use rowmill_exec::workers::Workers;
use rowmill_txn::{Catalog, Engine, Transaction};
use sqlparser::ast::{
    AlterTableOperation, ColumnOption, Ident, ObjectName, ObjectNamePart, ObjectType, Query, Statement as Sql,
    TableConstraint, VisitorMut, With,
};

use super::Session;
use crate::access::Authority;
use crate::deep::with_room;
use crate::parse::{CopySource, Statement, StatementBody};
use crate::statement::sql_text::quoted;
use crate::walk::walk_mut;

/// The beginning of the names of the schemas of temporary tables.
const PREFIX: &str = "pg_temp_";

/// The name by which a statement can mean the schema of its own connection.
const OWN: &str = "pg_temp";

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

    /// Returns `statement` with the names of temporary tables qualified, or `None` if the connection has none.
    pub(super) fn with_temporary_names(&self, statement: &Statement) -> Result<Option<Statement>> {
        let Some(name) = &self.temporary else { return Ok(None) };
        self.with_catalog(|catalog| {
            let Some(schema) = catalog.schema(name) else { return Ok(None) };
            with_room(statement.room_bytes(), || {
                let (with, left_out, found) = Default::default();
                let mut names = TemporaryNames { catalog, schema: schema.id, name, with, left_out, found };
                let mut body = statement.body().clone();
                names.rename(&mut body)?;
                Ok(names.found.is_some().then(|| statement.with_body(body)))
            })
        })
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
pub fn drop_left_temporary_tables(engine: &Arc<Engine>, workers: &Arc<Workers>) -> Result<()> {
    let snapshot = engine.snapshot()?;
    let left = snapshot.catalog().schemas().filter(|schema| is_temporary(&schema.name));
    let left: Vec<String> = left.map(|schema| drop_schema(&schema.name)).collect();
    if left.is_empty() || engine.is_read_only() {
        return Ok(());
    }
    let mut session = Session::new(Arc::clone(engine), Arc::clone(workers))?;
    left.iter().try_for_each(|statement| session.run_text(statement, &[]).map(drop))
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

/// Qualifies the bare names of temporary tables.
struct TemporaryNames<'c> {
    catalog: &'c Catalog,
    schema: SchemaId,
    name: &'c str,
    /// The `WITH` names that hide tables at the visitor's place.
    with: Vec<String>,
    /// For each query that the visitor is in: its `WITH` clause, which was visited before the query, and how many names
    /// hid tables before it.
    left_out: Vec<(Option<With>, usize)>,
    /// A temporary table that the statement names.
    found: Option<String>,
}

impl TemporaryNames<'_> {
    fn rename(&mut self, body: &mut StatementBody) -> Result<()> {
        match body {
            StatementBody::Sql(sql) => self.rename_in(sql),
            StatementBody::Copy(copy) | StatementBody::ExplainCopy(copy) => {
                match &mut copy.source {
                    CopySource::Table { name, .. } => self.qualify(name),
                    CopySource::Query(query) => drop(walk_mut(&mut **query, self)),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn rename_in(&mut self, sql: &mut Sql) -> Result<()> {
        // The name of a new table is not looked up, so no table may hide it.
        if let Sql::CreateTable(create) = sql {
            let name = mem::replace(&mut create.name, ObjectName::from(Vec::<Ident>::new()));
            let _ = walk_mut(&mut *create, self);
            create.name = name;
            // The visitor does not come to the tables that foreign keys name.
            let options = create.columns.iter_mut().flat_map(|column| &mut column.options);
            for option in options {
                if let ColumnOption::ForeignKey(key) = &mut option.option {
                    self.qualify(&mut key.foreign_table);
                }
            }
            create.constraints.iter_mut().for_each(|constraint| self.qualify_parent(constraint));
            return Ok(());
        }
        match sql {
            Sql::CreateView(create) => {
                let _ = walk_mut(&mut create.query, self);
                if let Some(table) = &self.found {
                    let what =
                        format!("a view cannot read the temporary table \"{table}\", which ends with its connection");
                    return Err(Error::new(ErrorKind::InvalidDefinition, what)
                        .hint("copy the rows into a table: CREATE TABLE ... AS SELECT * FROM ..."));
                }
            }
            Sql::Drop { object_type: ObjectType::Table, names, .. } => {
                names.iter_mut().for_each(|name| self.qualify(name));
            }
            Sql::Drop { object_type: ObjectType::Index, names, .. } => {
                names.iter_mut().for_each(|name| self.qualify_index(name));
            }
            Sql::AlterTable(alter) => {
                let _ = walk_mut(&mut *alter, self);
                for operation in &mut alter.operations {
                    if let AlterTableOperation::AddConstraint { constraint, .. } = operation {
                        self.qualify_parent(constraint);
                    }
                }
            }
            other => drop(walk_mut(other, self)),
        }
        Ok(())
    }

    /// Qualifies the name of a table if it means a temporary one.
    fn qualify(&mut self, name: &mut ObjectName) {
        match name.0.as_mut_slice() {
            [ObjectNamePart::Identifier(table)] => {
                let is_hidden = self.with.contains(&table.value);
                if !is_hidden && self.catalog.table(self.schema, &table.value).is_some() {
                    self.found = Some(table.value.clone());
                    name.0.insert(0, ObjectNamePart::Identifier(Ident::new(self.name)));
                }
            }
            [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(table)] if schema.value == OWN => {
                self.found = Some(table.value.clone());
                schema.value = self.name.to_owned();
            }
            _ => {}
        }
    }

    /// Qualifies the name of the table that a foreign key refers to.
    fn qualify_parent(&mut self, constraint: &mut TableConstraint) {
        if let TableConstraint::ForeignKey(key) = constraint {
            self.qualify(&mut key.foreign_table);
        }
    }

    /// Qualifies the name of an index if a temporary table has it.
    fn qualify_index(&mut self, name: &mut ObjectName) {
        let [ObjectNamePart::Identifier(index)] = name.0.as_slice() else { return };
        let is_it = |other: &rowmill_storage::IndexDef| other.name.to_lowercase() == index.value;
        let table = self
            .catalog
            .tables(self.schema)
            .find(|table| table.keyed.iter().flat_map(|keyed| &keyed.indexes).any(is_it));
        if let Some(table) = table {
            self.found = Some(table.name.clone());
            name.0.insert(0, ObjectNamePart::Identifier(Ident::new(self.name)));
        }
    }
}

impl VisitorMut for TemporaryNames<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let before = self.with.len();
        let mut with = query.with.take();
        if let Some(With { recursive, cte_tables, .. }) = &mut with {
            if *recursive {
                self.with.extend(cte_tables.iter().map(|part| part.alias.name.value.clone()));
            }
            for part in cte_tables {
                // Without RECURSIVE, a query of the clause sees only the names before its own.
                walk_mut(&mut *part.query, self)?;
                self.with.push(part.alias.name.value.clone());
            }
        }
        // The clause is taken out, so that the visitor does not come to it again under the names that it declares.
        self.left_out.push((with, before));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some((with, before)) = self.left_out.pop() {
            query.with = with;
            self.with.truncate(before);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        self.qualify(relation);
        ControlFlow::Continue(())
    }
}
