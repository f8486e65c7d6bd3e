//! Roles, and what they may do with objects.
//!
//! A role is a user, a group of users, or both. Its definition holds how it logs in, and the roles that it is a member
//! of. The owner and the rights of an object are a definition of their own ([`ObjectAccess`]), so that two transactions
//! that make tables for the same role do not conflict.
//!
//! This crate stores roles and rights. `rowmill-sql` checks them.

use std::collections::{BTreeMap, BTreeSet};

use rowmill_base::{ColumnId, Error, ErrorKind, Result, RoleId, SchemaId, TableId, ViewId};

use crate::catalog::Catalog;

/// The grantee `PUBLIC`: every role.
pub const PUBLIC: RoleId = RoleId(u32::MAX);

/// The tokens of a role at most.
pub const TOKENS_MAX: usize = 1_000;

/// The SHA-256 of a token.
pub type TokenHash = [u8; 32];

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDef {
    /// Never reused.
    pub id: RoleId,
    /// The name as spelled.
    pub name: String,
    /// Whether clients may log in as the role.
    pub can_login: bool,
    /// Whether the role may do everything.
    pub is_superuser: bool,
    /// What proves the password, in PostgreSQL's form: `SCRAM-SHA-256$iterations:salt$stored key:server key`.
    pub verifier: Option<String>,
    /// When logins end, in microseconds since 1970-01-01 UTC.
    pub valid_until_us: Option<i64>,
    /// The roles whose rights it has.
    pub member_of: BTreeSet<RoleId>,
    /// The tokens by which programs log in, by name.
    pub tokens: BTreeMap<String, TokenDef>,
}

/// A token of a role. The token itself is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenDef {
    /// The hash of the token.
    pub hash: TokenHash,
    /// When the token ends, in microseconds since 1970-01-01 UTC.
    pub valid_until_us: Option<i64>,
}

/// An object that has an owner and rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// A table, a sequence or a materialized view.
    Table(TableId),
    /// A view.
    View(ViewId),
    /// A schema.
    Schema(SchemaId),
}

/// The bits of the kind in the number of an object.
const KIND_BITS: u32 = 2;

impl ObjectId {
    /// The id of the object's definition of rights: the id of the object and its kind. `None` if the id is too large.
    pub(crate) fn number(self) -> Option<u32> {
        let (kind, id) = match self {
            ObjectId::Table(id) => (0, id.0),
            ObjectId::View(id) => (1, id.0),
            ObjectId::Schema(id) => (2, id.0),
        };
        (id < 1 << (u32::BITS - KIND_BITS)).then_some(id << KIND_BITS | kind)
    }

    pub(crate) fn of_number(number: u32) -> Option<ObjectId> {
        let id = number >> KIND_BITS;
        match number & ((1 << KIND_BITS) - 1) {
            0 => Some(ObjectId::Table(TableId(id))),
            1 => Some(ObjectId::View(ViewId(id))),
            2 => Some(ObjectId::Schema(SchemaId(id))),
            _ => None,
        }
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u16);

impl Rights {
    /// No right.
    pub const NONE: Rights = Rights(0);
    /// Reading rows.
    pub const SELECT: Rights = Rights(1);
    /// Adding rows.
    pub const INSERT: Rights = Rights(1 << 1);
    /// Changing rows.
    pub const UPDATE: Rights = Rights(1 << 2);
    /// Removing rows.
    pub const DELETE: Rights = Rights(1 << 3);
    /// Removing all rows.
    pub const TRUNCATE: Rights = Rights(1 << 4);
    /// Referring to the table by a foreign key.
    pub const REFERENCES: Rights = Rights(1 << 5);
    /// Taking numbers of a sequence; naming objects of a schema.
    pub const USAGE: Rights = Rights(1 << 6);
    /// Making objects in a schema.
    pub const CREATE: Rights = Rights(1 << 7);

    /// All rights with their names in SQL.
    pub const NAMES: [(Rights, &str); 8] = [
        (Rights::SELECT, "SELECT"),
        (Rights::INSERT, "INSERT"),
        (Rights::UPDATE, "UPDATE"),
        (Rights::DELETE, "DELETE"),
        (Rights::TRUNCATE, "TRUNCATE"),
        (Rights::REFERENCES, "REFERENCES"),
        (Rights::USAGE, "USAGE"),
        (Rights::CREATE, "CREATE"),
    ];

    /// The rights of `ALL ON TABLE`.
    pub const OF_TABLE: Rights = Rights(0x3f);
    /// The rights of `ALL ON SCHEMA`. Those of tables hold for all tables of the schema, also for later ones.
    pub const OF_SCHEMA: Rights = Rights(0xff);
    /// The rights of `ALL ON SEQUENCE`.
    pub const OF_SEQUENCE: Rights = Rights(Rights::SELECT.0 | Rights::UPDATE.0 | Rights::USAGE.0);
    /// The rights that a column can have.
    pub const OF_COLUMN: Rights = Rights(Rights::SELECT.0 | Rights::INSERT.0 | Rights::UPDATE.0 | Rights::REFERENCES.0);

    /// The rights in either set.
    #[must_use]
    pub const fn and(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// The rights that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Rights) -> Rights {
        Rights(self.0 & !other.0)
    }

    /// Whether all rights of `other` are in the set.
    pub const fn has(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is no right.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of the rights, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Rights::NAMES.into_iter().filter(move |(right, _)| self.has(*right)).map(|(_, name)| name)
    }

    /// The right with this name in SQL.
    pub fn of_name(name: &str) -> Option<Rights> {
        Rights::NAMES.into_iter().find(|(_, own)| own.eq_ignore_ascii_case(name)).map(|(right, _)| right)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0.into()
    }

    /// The rights with these bits; `None` if a bit means none.
    pub(crate) fn of_bits(bits: u32) -> Option<Rights> {
        u16::try_from(bits).ok().map(Rights).filter(|rights| Rights::OF_SCHEMA.has(*rights))
    }
}

/// What a role was granted on an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantedRights {
    /// The rights on the whole object.
    pub whole: Rights,
    /// The rights on columns of a table.
    pub columns: BTreeMap<ColumnId, Rights>,
}

impl GrantedRights {
    fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.columns.is_empty()
    }
}

/// The owner of an object, and the rights that roles have on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectAccess {
    /// The object.
    pub object: ObjectId,
    /// The owner. `None` for an object that was made without a role, which belongs to superusers.
    pub owner: Option<RoleId>,
    /// The rights by grantee.
    pub grants: BTreeMap<RoleId, GrantedRights>,
}

impl ObjectAccess {
    /// The access to an object that has neither an owner nor rights.
    pub fn none(object: ObjectId) -> ObjectAccess {
        ObjectAccess { object, owner: None, grants: BTreeMap::new() }
    }

    /// Whether the definition says nothing.
    pub fn is_empty(&self) -> bool {
        self.owner.is_none() && self.grants.is_empty()
    }

    /// Gives a role rights: on the columns, or on the whole object if there are no columns.
    pub fn grant(&mut self, role: RoleId, rights: Rights, columns: &[ColumnId]) {
        let granted = self.grants.entry(role).or_default();
        if columns.is_empty() {
            granted.whole = granted.whole.and(rights);
        }
        for column in columns {
            let own = granted.columns.entry(*column).or_default();
            *own = own.and(rights);
        }
    }

    /// Takes rights from a role. Without columns, the rights on columns go too, as in PostgreSQL.
    pub fn revoke(&mut self, role: RoleId, rights: Rights, columns: &[ColumnId]) {
        let Some(granted) = self.grants.get_mut(&role) else { return };
        if columns.is_empty() {
            granted.whole = granted.whole.without(rights);
        }
        for (column, own) in &mut granted.columns {
            if columns.is_empty() || columns.contains(column) {
                *own = own.without(rights);
            }
        }
        granted.columns.retain(|_, rights| !rights.is_empty());
        if granted.is_empty() {
            self.grants.remove(&role);
        }
    }

    /// The roles that the definition names, without `PUBLIC`.
    pub fn roles(&self) -> impl Iterator<Item = RoleId> + '_ {
        self.owner.into_iter().chain(self.grants.keys().copied()).filter(|role| *role != PUBLIC)
    }
}

impl Catalog {
    /// The role and all roles that it is a member of, directly or through others, and `PUBLIC`.
    pub fn roles_of(&self, role: RoleId) -> BTreeSet<RoleId> {
        let mut found = BTreeSet::from([role, PUBLIC]);
        let mut open = vec![role];
        while let Some(role) = open.pop() {
            // A set, because two transactions may have made a cycle of members.
            let member_of = self.role_by_id(role).into_iter().flat_map(|def| &def.member_of);
            open.extend(member_of.filter(|of| found.insert(**of)));
        }
        found
    }

    /// Whether clients must log in: whether a role exists as which they can.
    pub fn requires_login(&self) -> bool {
        self.roles().any(|role| role.can_login && (role.verifier.is_some() || !role.tokens.is_empty()))
    }

    /// The role that has the token with this hash, and the token.
    pub fn role_of_token(&self, hash: &TokenHash) -> Option<(&RoleDef, &TokenDef)> {
        self.roles().find_map(|role| Some((&**role, role.tokens.values().find(|token| token.hash == *hash)?)))
    }

    /// Whether an object that rights were given on exists.
    pub(crate) fn has_object(&self, object: ObjectId) -> bool {
        match object {
            ObjectId::Table(id) => self.table_by_id(id).is_some(),
            ObjectId::View(id) => self.view_by_id(id).is_some(),
            ObjectId::Schema(id) => self.schema_by_id(id).is_some(),
        }
    }

    /// Returns an error if a role or the rights of an object name a role that does not exist.
    pub(crate) fn check_roles(&self) -> Result<()> {
        let named = self.roles().flat_map(|role| role.member_of.iter().copied());
        let mut named = named.chain(self.all_access().flat_map(|access| access.roles()));
        match named.find(|role| self.role_by_id(*role).is_none()) {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::UndefinedObject, "a role that a definition names does not exist")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_distinct_numbers() {
        for object in [ObjectId::Table(TableId(7)), ObjectId::View(ViewId(7)), ObjectId::Schema(SchemaId(0))] {
            let number = object.number().expect("a small id");
            assert_eq!(ObjectId::of_number(number), Some(object));
        }
        assert_eq!(ObjectId::Table(TableId(1 << 30)).number(), None);
        assert_eq!(ObjectId::of_number(3), None);
    }

    #[test]
    fn revoking_from_the_object_also_revokes_from_its_columns() {
        let mut access = ObjectAccess::none(ObjectId::Table(TableId(1)));
        let (role, column) = (RoleId(4), ColumnId(2));
        access.grant(role, Rights::SELECT.and(Rights::UPDATE), &[column]);
        access.grant(role, Rights::DELETE, &[]);
        access.revoke(role, Rights::SELECT, &[]);
        assert_eq!(access.grants[&role].columns[&column], Rights::UPDATE);
        access.revoke(role, Rights::OF_TABLE, &[]);
        assert!(access.is_empty());
    }

    #[test]
    fn a_cycle_of_members_ends() {
        let mut catalog = Catalog::default();
        for (id, of) in [(1, 2), (2, 1)] {
            let role = RoleDef {
                id: RoleId(id),
                name: format!("role{id}"),
                can_login: false,
                is_superuser: false,
                verifier: None,
                valid_until_us: None,
                member_of: BTreeSet::from([RoleId(of)]),
                tokens: BTreeMap::new(),
            };
            catalog.put_role(std::sync::Arc::new(role)).expect("a new role");
        }
        assert_eq!(catalog.roles_of(RoleId(1)).len(), 3);
        assert!(catalog.check_roles().is_ok());
        catalog.remove_role(RoleId(2));
        assert!(catalog.check_roles().is_err());
    }
}
