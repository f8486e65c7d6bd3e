//! `GRANT`, `REVOKE` and `ALTER ... OWNER TO`.
//!
//! Rights on a schema that are not about the schema itself, for example SELECT, hold for all of its tables, also for
//! tables that are made later. `ALL TABLES IN SCHEMA` means the tables of this moment, as in PostgreSQL.

use rowmill_base::{ColumnId, Error, ErrorKind, Result, RoleId};
use rowmill_storage::TableDef;
use rowmill_txn::roles::{ObjectAccess, ObjectId, PUBLIC, Rights};
use rowmill_txn::{Catalog, Transaction};
use sqlparser::ast::{Ident, ObjectName};

use super::drop::schema_name;
use super::relation::{self, NamedRelation, RelationKind};
use super::role::{add_membership, role_named};
use crate::access::Access;
use crate::names::qualified;
use crate::outcome::Outcome;
use crate::parse::{AccessStatement, GrantObject, GrantedList, RightsStatement};
use crate::session::Work;

/// Runs a statement about rights, memberships or owners.
pub(crate) fn run(work: &mut Work<'_>, statement: &AccessStatement) -> Result<Outcome> {
    work.write(|work, transaction| match statement {
        AccessStatement::Grant(statement) => change_rights(work, transaction, statement),
        AccessStatement::GrantRole { is_revoke, roles, members } => {
            change_members(transaction, *is_revoke, roles, members)
        }
        AccessStatement::SetOwner { is_schema, name, role } => set_owner(work, transaction, *is_schema, name, role),
        _ => Err(Error::internal("statements about roles are not statements about rights")),
    })?;
    Ok(Outcome::Done { tag: statement.tag() })
}

/// An object that rights are given on.
struct GrantTarget {
    object: ObjectId,
    /// The rights that `ALL` means.
    all: Rights,
    /// The table, if columns may be named.
    table: Option<std::sync::Arc<TableDef>>,
}

impl GrantTarget {
    fn of(found: &NamedRelation) -> GrantTarget {
        let (all, table) = match found {
            NamedRelation::Sequence(_) => (Rights::OF_SEQUENCE, None),
            NamedRelation::Table(table) | NamedRelation::Materialized(table) => (Rights::OF_TABLE, Some(table.clone())),
            NamedRelation::View(_) => (Rights::OF_TABLE, None),
        };
        GrantTarget { object: found.object(), all, table }
    }
}

fn change_rights(work: &mut Work<'_>, transaction: &mut Transaction, statement: &RightsStatement) -> Result<()> {
    let RightsStatement { is_revoke, rights, object, grantees } = statement;
    let targets = targets(work, transaction.catalog(), object)?;
    let grantees = grantees.iter().map(|name| grantee(transaction.catalog(), name)).collect::<Result<Vec<_>>>()?;
    for target in targets {
        let access = Access::of(transaction.catalog(), work.actor());
        access.require_owner(target.object)?;
        let known = transaction.catalog().access(target.object);
        let mut changed = known.map_or_else(|| ObjectAccess::none(target.object), |access| (**access).clone());
        let list = match rights {
            GrantedList::All => vec![(target.all, Vec::new())],
            GrantedList::Some(list) => {
                let checked = list.iter().map(|(right, columns)| {
                    let columns = columns_of(work, &target, *right, columns)?;
                    Ok((*right, columns))
                });
                checked.collect::<Result<Vec<(Rights, Vec<ColumnId>)>>>()?
            }
        };
        for role in &grantees {
            for (rights, columns) in &list {
                match is_revoke {
                    true => changed.revoke(*role, *rights, columns),
                    false => changed.grant(*role, *rights, columns),
                }
            }
        }
        transaction.set_access(changed)?;
    }
    Ok(())
}

fn columns_of(work: &Work<'_>, target: &GrantTarget, right: Rights, columns: &[Ident]) -> Result<Vec<ColumnId>> {
    let names = || right.names().collect::<Vec<_>>().join(", ");
    if !target.all.has(right) {
        return Err(Error::new(ErrorKind::InvalidParameter, format!("{} is no right on such an object", names())));
    }
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    if !Rights::OF_COLUMN.has(right) {
        return Err(Error::new(ErrorKind::InvalidParameter, format!("{} is no right on columns", names())));
    }
    let Some(table) = &target.table else {
        return Err(Error::new(ErrorKind::Unsupported, "only tables have rights on columns")
            .hint("a view with fewer columns gives fewer columns"));
    };
    let id = |column: &Ident| Ok(table.columns[relation::column(table, work.statement.spell(column))?].id);
    columns.iter().map(id).collect()
}

fn targets(work: &Work<'_>, catalog: &Catalog, object: &GrantObject) -> Result<Vec<GrantTarget>> {
    let relation = |name: &ObjectName, kinds: &[RelationKind]| {
        let name = qualified(name, work.statement.spellings())?;
        relation::schema(catalog, &name.schema)?;
        let found = relation::find(catalog, &name).ok_or_else(|| relation::unknown(catalog, &name, kinds))?;
        Ok(GrantTarget::of(&found))
    };
    let schemas = |names: &[ObjectName]| {
        names.iter().map(|name| Ok(relation::schema(catalog, schema_name(name)?)?.id)).collect::<Result<Vec<_>>>()
    };
    let tables_in = |names: &[ObjectName], is_sequence: bool| -> Result<Vec<GrantTarget>> {
        let mut found = Vec::new();
        for schema in schemas(names)? {
            let tables = catalog.tables(schema).filter(|table| table.is_sequence() == is_sequence);
            found.extend(tables.map(|table| GrantTarget {
                object: ObjectId::Table(table.id),
                all: if is_sequence { Rights::OF_SEQUENCE } else { Rights::OF_TABLE },
                table: (!is_sequence).then(|| table.clone()),
            }));
            if !is_sequence {
                let view = |id| GrantTarget { object: ObjectId::View(id), all: Rights::OF_TABLE, table: None };
                found.extend(catalog.views(schema).map(|def| view(def.id)));
            }
        }
        Ok(found)
    };
    match object {
        GrantObject::Tables(names) => {
            let kinds = [RelationKind::Table, RelationKind::View, RelationKind::Materialized];
            names.iter().map(|name| relation(name, &kinds)).collect()
        }
        GrantObject::Sequences(names) => names.iter().map(|name| relation(name, &[RelationKind::Sequence])).collect(),
        GrantObject::Schemas(names) => {
            let target = |id| GrantTarget { object: ObjectId::Schema(id), all: Rights::OF_SCHEMA, table: None };
            Ok(schemas(names)?.into_iter().map(target).collect())
        }
        GrantObject::AllTablesIn(names) => tables_in(names, false),
        GrantObject::AllSequencesIn(names) => tables_in(names, true),
    }
}

fn grantee(catalog: &Catalog, name: &Ident) -> Result<RoleId> {
    match name.value.as_str() {
        "public" => Ok(PUBLIC),
        name => Ok(role_named(catalog, name)?.id),
    }
}

fn change_members(transaction: &mut Transaction, is_revoke: bool, roles: &[Ident], members: &[Ident]) -> Result<()> {
    for name in members {
        let mut member = role_named(transaction.catalog(), &name.value)?;
        for role in roles {
            let role = role_named(transaction.catalog(), &role.value)?;
            match is_revoke {
                true => {
                    member.member_of.remove(&role.id);
                }
                false => add_membership(transaction.catalog(), &mut member, role.id)?,
            }
        }
        transaction.put_role(member)?;
    }
    Ok(())
}

fn set_owner(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    is_schema: bool,
    name: &ObjectName,
    role: &Ident,
) -> Result<()> {
    let catalog = transaction.catalog();
    let object = match is_schema {
        true => ObjectId::Schema(relation::schema(catalog, schema_name(name)?)?.id),
        false => {
            let name = qualified(name, work.statement.spellings())?;
            relation::schema(catalog, &name.schema)?;
            let kinds = [RelationKind::Table, RelationKind::View, RelationKind::Materialized, RelationKind::Sequence];
            relation::find(catalog, &name).ok_or_else(|| relation::unknown(catalog, &name, &kinds))?.object()
        }
    };
    let role = role_named(catalog, &role.value)?;
    let access = Access::of(catalog, work.actor());
    access.require_owner(object)?;
    if !access.has_role(role.id) {
        // Otherwise a role could make a view read with the rights of another role.
        access.require_superuser("giving an object to a role that one is no member of")?;
    }
    let known = catalog.access(object);
    let mut changed = known.map_or_else(|| ObjectAccess::none(object), |access| (**access).clone());
    changed.owner = Some(role.id);
    transaction.set_access(changed)
}
