//! Who runs a statement, and what they may do.
//!
//! A host program runs as [`Actor::Host`] and may do everything: it has the files of the database anyway, so a check
//! would protect nothing and cost time. A server gives each of its sessions a role.
//!
//! The checks are in few places, so that no statement can pass without one:
//!
//! - `access/statement.rs`, before a statement runs or is compiled: what all statements need that define something or
//!   concern the whole database.
//! - [`Access::check_reads`], whenever the binder has bound a query: tables, columns and views.
//! - [`Access::check_write`], whenever a change of rows has a plan.
//!
//! A plan or program is made again after each change of a definition, also of a role or right. So nothing is checked
//! when a statement runs again.

pub(crate) mod statement;

use std::collections::BTreeSet;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, RoleId};
use rowmill_plan::write::{Write, WriteAction};
use rowmill_query::binder::{ReadRelation, RelationRead};
use rowmill_storage::TableDef;
use rowmill_txn::Catalog;
use rowmill_txn::roles::{GrantedRights, ObjectId, Rights};

use crate::files::FileFolders;
use crate::names::DEFAULT_SCHEMA;

/// Who runs the statements of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Actor {
    /// The program that has opened the database. It may do everything.
    #[default]
    Host,
    /// A client of a server that knows no roles yet. It may do everything, until there is a role to log in as.
    Guest,
    /// A role.
    Role(RoleId),
}

/// Who runs the statements of a session, and the files that they may use.
#[derive(Clone, Debug, Default)]
pub struct Authority {
    /// Who it is.
    pub actor: Actor,
    /// The folders whose files roles may use that are no superusers. Does not limit others.
    pub folders: FileFolders,
}

impl Authority {
    /// The owner of the objects that the session makes.
    pub(crate) fn owner(&self) -> Option<RoleId> {
        match self.actor {
            Actor::Role(role) => Some(role),
            Actor::Host | Actor::Guest => None,
        }
    }
}

/// What an actor may do with the objects of a catalog.
pub(crate) struct Access<'c> {
    catalog: &'c Catalog,
    /// `None` if everything is allowed.
    held: Option<HeldRoles>,
}

/// The roles whose rights an actor has.
struct HeldRoles {
    /// The name of the actor's own role.
    name: String,
    ids: BTreeSet<RoleId>,
}

impl<'c> Access<'c> {
    pub(crate) fn of(catalog: &'c Catalog, actor: Actor) -> Access<'c> {
        match actor {
            Actor::Host | Actor::Guest => Access { catalog, held: None },
            Actor::Role(role) => Access::of_role(catalog, role),
        }
    }

    pub(crate) fn of_role(catalog: &'c Catalog, id: RoleId) -> Access<'c> {
        let role = catalog.role_by_id(id);
        if role.is_some_and(|role| role.is_superuser) {
            return Access { catalog, held: None };
        }
        let name = role.map_or_else(|| id.to_string(), |role| role.name.clone());
        Access { catalog, held: Some(HeldRoles { name, ids: catalog.roles_of(id) }) }
    }

    /// What the owner of an object may do. An object without an owner belongs to superusers.
    fn of_owner(catalog: &'c Catalog, object: ObjectId) -> Access<'c> {
        match catalog.access(object).and_then(|access| access.owner) {
            None => Access { catalog, held: None },
            Some(owner) => Access::of_role(catalog, owner),
        }
    }

    /// Whether everything is allowed.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.held.is_none()
    }

    /// Whether the actor has all of the rights of `role`.
    pub(crate) fn has_role(&self, role: RoleId) -> bool {
        self.held.as_ref().is_none_or(|held| held.ids.contains(&role))
    }

    /// Whether the object belongs to one of the actor's roles.
    pub(crate) fn is_owner(&self, object: ObjectId) -> bool {
        let Some(held) = &self.held else { return true };
        self.catalog.access(object).and_then(|access| access.owner).is_some_and(|owner| held.ids.contains(&owner))
    }

    /// The rights on a whole object: those on the object itself, and those on all objects of its schema.
    fn whole_rights(&self, held: &HeldRoles, object: ObjectId) -> Rights {
        let own = self.granted(held, object).map(|granted| granted.whole);
        let schema = schema_of(self.catalog, object).into_iter().flat_map(|schema| self.granted(held, schema));
        // USAGE and CREATE on a schema concern the schema itself.
        let of_schema = schema.map(|granted| granted.whole.without(Rights::USAGE.and(Rights::CREATE)));
        own.chain(of_schema).fold(Rights::NONE, Rights::and)
    }

    fn granted<'h>(&'h self, held: &'h HeldRoles, object: ObjectId) -> impl Iterator<Item = &'h GrantedRights> {
        let grants = self.catalog.access(object).into_iter().flat_map(|access| &access.grants);
        grants.filter(|(role, _)| held.ids.contains(role)).map(|(_, granted)| granted)
    }

    /// Whether the actor may name objects of the schema of this object.
    fn may_use_schema(&self, held: &HeldRoles, object: ObjectId) -> bool {
        let Some(schema @ ObjectId::Schema(id)) = schema_of(self.catalog, object) else { return true };
        let is_default = self.catalog.schema_by_id(id).is_some_and(|schema| schema.name == DEFAULT_SCHEMA);
        // Every right on a schema includes the use of its names.
        is_default || self.is_owner(schema) || self.granted(held, schema).any(|granted| !granted.whole.is_empty())
    }

    /// Whether the actor has `right` on an object, or on these columns of it. Without a column, as in `count(*)`, a
    /// right on any column is enough.
    pub(crate) fn may(&self, right: Rights, object: ObjectId, columns: Option<&[ColumnId]>) -> bool {
        let Some(held) = &self.held else { return true };
        if self.is_owner(object) {
            return true;
        }
        if !self.may_use_schema(held, object) {
            return false;
        }
        if self.whole_rights(held, object).has(right) {
            return true;
        }
        let has = |column: Option<ColumnId>| {
            self.granted(held, object).any(|granted| {
                granted
                    .columns
                    .iter()
                    .any(|(own, rights)| column.is_none_or(|column| column == *own) && rights.has(right))
            })
        };
        match columns {
            None => false,
            Some([]) => has(None),
            Some(columns) => columns.iter().all(|column| has(Some(*column))),
        }
    }

    /// Returns an error unless the actor has `right`.
    pub(crate) fn require(&self, right: Rights, object: ObjectId, columns: Option<&[ColumnId]>) -> Result<()> {
        if self.may(right, object, columns) {
            return Ok(());
        }
        let held = self.held.as_ref().expect("an actor without roles may do everything");
        if let Some(schema) = schema_of(self.catalog, object).filter(|_| !self.may_use_schema(held, object)) {
            return Err(self.lacks(Rights::USAGE, schema));
        }
        Err(self.lacks(right, object))
    }

    fn lacks(&self, right: Rights, object: ObjectId) -> Error {
        let (kind, name) = named(self.catalog, object);
        let right = right.names().collect::<Vec<_>>().join(", ");
        let role = self.name();
        denied(format!("role \"{role}\" lacks {right} on {kind} \"{name}\"")).hint(format!(
            "its owner or a superuser can GRANT {right} ON {}{name} TO {role}",
            if kind == "schema" || kind == "sequence" { format!("{} ", kind.to_uppercase()) } else { String::new() }
        ))
    }

    fn name(&self) -> &str {
        self.held.as_ref().map_or("", |held| &held.name)
    }

    /// Returns an error unless the actor owns the object.
    pub(crate) fn require_owner(&self, object: ObjectId) -> Result<()> {
        if self.is_owner(object) {
            return Ok(());
        }
        let (kind, name) = named(self.catalog, object);
        Err(denied(format!("role \"{}\" must be the owner of {kind} \"{name}\"", self.name()))
            .hint("its owner or a superuser can do it"))
    }

    /// Returns an error unless the actor is a superuser. `what` begins the message, for example `BACKUP`.
    pub(crate) fn require_superuser(&self, what: &str) -> Result<()> {
        match &self.held {
            None => Ok(()),
            Some(held) => Err(denied(format!("{what} needs a superuser, and role \"{}\" is none", held.name))),
        }
    }

    /// Checks what a bound query reads.
    pub(crate) fn check_reads(&self, reads: &[RelationRead]) -> Result<()> {
        reads.iter().try_for_each(|read| match read.through {
            None => self.check_read(&read.relation),
            Some(view) => {
                let owner = Access::of_owner(self.catalog, ObjectId::View(view));
                let name = self.catalog.view_by_id(view).map_or("", |view| &view.name);
                owner.check_read(&read.relation).map_err(|error| {
                    let message = format!("view \"{name}\" reads with the rights of its owner: {}", error.message());
                    match error.hint_text() {
                        Some(hint) => Error::new(error.kind(), message).hint(hint),
                        None => Error::new(error.kind(), message),
                    }
                })
            }
        })
    }

    fn check_read(&self, relation: &ReadRelation) -> Result<()> {
        match relation {
            ReadRelation::View(id) => self.require(Rights::SELECT, ObjectId::View(*id), None),
            ReadRelation::Table { id, columns } => {
                let table = self.catalog.table_by_id(*id);
                let columns: Vec<ColumnId> =
                    table.into_iter().flat_map(|table| columns.iter().map(|place| table.columns[*place].id)).collect();
                self.require(Rights::SELECT, ObjectId::Table(*id), Some(&columns))
            }
        }
    }

    /// Checks a change of rows. The rows that it reads were checked when its queries were bound.
    pub(crate) fn check_write<Q>(&self, table: &TableDef, write: &Write<Q>) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        let object = ObjectId::Table(table.id);
        let ids = |places: &mut dyn Iterator<Item = usize>| -> Vec<ColumnId> {
            places.map(|place| table.columns[place].id).collect()
        };
        for action in &write.actions {
            match action {
                WriteAction::Insert(row) => {
                    self.require(Rights::INSERT, object, Some(&ids(&mut row.assigned.iter().copied())))?;
                }
                WriteAction::Update(row) => {
                    self.require(Rights::UPDATE, object, Some(&ids(&mut row.assigned.iter().copied())))?;
                }
                WriteAction::Delete(_) => self.require(Rights::DELETE, object, None)?,
            }
        }
        if let Some(update) = write.conflict.as_ref().and_then(|conflict| conflict.update.as_ref()) {
            let assigned = ids(&mut update.values.iter().map(|(place, _)| *place));
            self.require(Rights::UPDATE, object, Some(&assigned))?;
            // Its expressions may read any column of the row that has the key.
            self.require(Rights::SELECT, object, None)?;
        }
        match write.returning {
            Some(_) => self.require(Rights::SELECT, object, None),
            None => Ok(()),
        }
    }
}

fn denied(message: String) -> Error {
    Error::new(ErrorKind::InsufficientPrivilege, format!("permission denied: {message}"))
}

/// The schema that an object is in.
fn schema_of(catalog: &Catalog, object: ObjectId) -> Option<ObjectId> {
    match object {
        ObjectId::Table(id) => catalog.table_by_id(id).map(|table| ObjectId::Schema(table.schema)),
        ObjectId::View(id) => catalog.view_by_id(id).map(|view| ObjectId::Schema(view.schema)),
        ObjectId::Schema(_) => None,
    }
}

/// The kind of an object and its name as a user would write it.
pub(crate) fn named(catalog: &Catalog, object: ObjectId) -> (&'static str, String) {
    let (kind, schema, name) = match object {
        ObjectId::Table(id) => match catalog.table_by_id(id) {
            Some(table) if table.is_sequence() => ("sequence", Some(table.schema), table.name.clone()),
            Some(table) => ("table", Some(table.schema), table.name.clone()),
            None => ("table", None, id.to_string()),
        },
        ObjectId::View(id) => match catalog.view_by_id(id) {
            Some(view) => ("view", Some(view.schema), view.name.clone()),
            None => ("view", None, id.to_string()),
        },
        ObjectId::Schema(id) => {
            ("schema", None, catalog.schema_by_id(id).map_or_else(|| id.to_string(), |schema| schema.name.clone()))
        }
    };
    let schema = schema.and_then(|schema| catalog.schema_by_id(schema)).filter(|schema| schema.name != DEFAULT_SCHEMA);
    match schema {
        Some(schema) => (kind, format!("{}.{name}", schema.name)),
        None => (kind, name),
    }
}
