//! Changes of roles, owners and rights.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, RoleId};

use super::{Transaction, gone};
use crate::TakenNumbers;
use crate::roles::{ObjectAccess, ObjectId, RoleDef};

impl Transaction {
    /// Makes `owner` the owner of all objects that the transaction makes from now on. Without an owner they belong to
    /// superusers.
    pub fn set_owner(&mut self, owner: Option<RoleId>) {
        self.owner = owner;
    }

    /// Notes the numbers that the transaction takes from sequences in `taken`.
    pub fn note_numbers_in(&mut self, taken: &Arc<TakenNumbers>) {
        self.taken_numbers = Some(Arc::clone(taken));
    }

    /// Returns the id of a new role. It comes from the counter of tables, so that it is never given out twice.
    pub fn new_role_id(&self) -> RoleId {
        RoleId(self.engine.ids().table().0)
    }

    /// Adds a role, or replaces the role with this id.
    ///
    /// Returns `DuplicateObject` if another role has its name.
    pub fn put_role(&mut self, role: RoleDef) -> Result<()> {
        if self.changes.catalog.role(&role.name).is_some_and(|other| other.id != role.id) {
            let what = format!("there is a role \"{}\" already", role.name);
            return Err(Error::new(ErrorKind::DuplicateObject, what));
        }
        self.catalog_mut()?.put_role(Arc::new(role))
    }

    /// Drops a role.
    ///
    /// Returns `DependentObjects` if the role owns objects, has rights on them, or has members.
    pub fn drop_role(&mut self, id: RoleId) -> Result<()> {
        let catalog = &self.changes.catalog;
        let role = catalog.role_by_id(id).ok_or_else(|| gone("role"))?;
        let dependent = |what: &str, hint: &str| {
            let message = format!("role \"{}\" cannot be dropped: {what}", role.name);
            Err(Error::new(ErrorKind::DependentObjects, message).hint(hint))
        };
        if catalog.all_access().any(|access| access.owner == Some(id)) {
            return dependent("it owns objects", "DROP OWNED and REASSIGN OWNED do not exist: ALTER ... OWNER TO");
        }
        if catalog.all_access().any(|access| access.grants.contains_key(&id)) {
            return dependent("it has rights on objects", "REVOKE ALL ON ... FROM takes them away");
        }
        if let Some(member) = catalog.roles().find(|other| other.member_of.contains(&id)) {
            let what = format!("\"{}\" is a member of it", member.name);
            return dependent(&what, "REVOKE role FROM member ends the membership");
        }
        self.catalog_mut()?.remove_role(id);
        Ok(())
    }

    /// Sets the owner and the rights of an object.
    pub fn set_access(&mut self, access: ObjectAccess) -> Result<()> {
        if access.object.number().is_none() {
            return Err(Error::new(ErrorKind::Unsupported, "the object has too large an id to have rights"));
        }
        let catalog = self.catalog_mut()?;
        match access.is_empty() {
            true => catalog.remove_access(access.object),
            false => catalog.put_access(access),
        }
        Ok(())
    }

    /// Notes who owns a new object.
    pub(crate) fn claim(&mut self, object: ObjectId) -> Result<()> {
        match self.owner {
            None => Ok(()),
            owner => self.set_access(ObjectAccess { owner, ..ObjectAccess::none(object) }),
        }
    }
}
