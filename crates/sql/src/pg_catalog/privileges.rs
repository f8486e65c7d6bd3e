//! The functions about roles and rights: `current_user`, `has_table_privilege` and the like.
//!
//! A function takes the role to ask about as its first argument, or leaves it out to ask about the current one. Roles
//! and objects are given by name or by number.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use rowmill_base::{ColumnId, Error, ErrorKind, Result, RoleId, SqlType};
use rowmill_plan::{DynamicFunction, Volatility};
use rowmill_txn::Catalog;
use rowmill_txn::roles::{ObjectId, Rights};

use super::names::relation_oid;
use super::oids::{ROLE, ROLE_OID, role_oid, schema_oid, table_oid, view_oid};
use crate::access::{Access, Actor};
use crate::catalog::StatementContext;

/// What a function answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// The name of the role that runs the statement.
    CurrentRole,
    /// The name of the role with a number.
    RoleName,
    /// Whether a role has rights on a table, view or sequence.
    Table,
    /// Whether a role has rights on a column.
    Column,
    /// Whether a role has rights on a table or on any of its columns.
    AnyColumn,
    /// Whether a role has rights on a schema.
    Schema,
    /// Whether a role is a member of another one.
    Member,
}

/// The texts of arguments.
type Texts<'a> = [Option<&'a str>];

/// The functions, with the least and the most arguments.
const FUNCTIONS: &[(&str, usize, usize, Question)] = &[
    ("current_user", 0, 0, Question::CurrentRole),
    ("current_role", 0, 0, Question::CurrentRole),
    ("session_user", 0, 0, Question::CurrentRole),
    ("user", 0, 0, Question::CurrentRole),
    ("pg_get_userbyid", 1, 1, Question::RoleName),
    ("has_table_privilege", 2, 3, Question::Table),
    ("has_sequence_privilege", 2, 3, Question::Table),
    ("has_column_privilege", 3, 4, Question::Column),
    ("has_any_column_privilege", 2, 3, Question::AnyColumn),
    ("has_schema_privilege", 2, 3, Question::Schema),
    ("pg_has_role", 2, 3, Question::Member),
];

/// Returns the function `name` with this number of arguments and the type of its values, or `None` if it is none of
/// these.
pub(super) fn function(
    context: &Arc<StatementContext>,
    name: &str,
    arguments: usize,
) -> Option<(Arc<dyn DynamicFunction>, SqlType)> {
    let takes =
        |(own, min, max, _): &&(&str, usize, usize, Question)| *own == name && (*min..=*max).contains(&arguments);
    let (name, _, most, question) = *FUNCTIONS.iter().find(takes)?;
    let kind = match question {
        Question::CurrentRole | Question::RoleName => SqlType::TEXT,
        _ => SqlType::Boolean,
    };
    let names_role = arguments == most;
    Some((Arc::new(PrivilegeCall { name, question, names_role, context: Arc::clone(context) }), kind))
}

struct PrivilegeCall {
    name: &'static str,
    question: Question,
    /// Whether the first argument is the role to ask about.
    names_role: bool,
    context: Arc<StatementContext>,
}

impl std::fmt::Debug for PrivilegeCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl DynamicFunction for PrivilegeCall {
    fn name(&self) -> &str {
        self.name
    }

    fn volatility(&self) -> Volatility {
        // The snapshot of the statement gives the values.
        Volatility::Stable
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let texts = arguments.iter().map(|values| cast(values, &DataType::Utf8)).collect::<Result<Vec<_>, _>>();
        let texts =
            texts.map_err(|error| Error::new(ErrorKind::UndefinedFunction, format!("{}: {error}", self.name)))?;
        let row = |row: usize| -> Vec<Option<&str>> {
            texts.iter().map(|texts| texts.is_valid(row).then(|| texts.as_string::<i32>().value(row))).collect()
        };
        Ok(match self.question {
            Question::CurrentRole | Question::RoleName => {
                let names = (0..rows).map(|at| self.role_name(&row(at)));
                Arc::new(names.collect::<StringViewArray>())
            }
            _ => Arc::new((0..rows).map(|at| self.truth(&row(at))).collect::<Result<BooleanArray>>()?),
        })
    }
}

impl PrivilegeCall {
    fn catalog(&self) -> &Catalog {
        self.context.snapshot.catalog()
    }

    fn role_name(&self, arguments: &[Option<&str>]) -> Option<String> {
        match (self.question, self.context.authority.actor) {
            (Question::CurrentRole, Actor::Role(role)) => Some(self.catalog().role_by_id(role)?.name.clone()),
            (Question::CurrentRole, _) => Some(ROLE.to_owned()),
            (_, _) => {
                let wanted: u32 = arguments[0]?.trim().parse().ok()?;
                let role = self.catalog().roles().find(|role| role_oid(role.id) == wanted);
                Some(match role {
                    Some(role) => role.name.clone(),
                    None if wanted == ROLE_OID => ROLE.to_owned(),
                    None => format!("unknown (OID={wanted})"),
                })
            }
        }
    }

    /// The access of the role that the call asks about, and the arguments after it.
    fn asked<'t, 'a>(&self, arguments: &'t Texts<'a>) -> Result<Option<(Access<'_>, &'t Texts<'a>)>> {
        if !self.names_role {
            return Ok(Some((self.context.access(), arguments)));
        }
        let Some((Some(role), rest)) = arguments.split_first() else { return Ok(None) };
        Ok(Some(match self.role(role)? {
            Some(role) => (Access::of_role(self.catalog(), role), rest),
            None => (Access::of(self.catalog(), Actor::Host), rest),
        }))
    }

    /// The role with a name or number; `None` for the one that always exists.
    fn role(&self, text: &str) -> Result<Option<RoleId>> {
        let catalog = self.catalog();
        let numbered = || {
            let wanted: u32 = text.trim().parse().ok()?;
            catalog.roles().find(|role| role_oid(role.id) == wanted)
        };
        match catalog.role(text).or_else(numbered) {
            Some(role) => Ok(Some(role.id)),
            None if text == ROLE || text == "10" => Ok(None),
            None => Err(Error::new(ErrorKind::UndefinedObject, format!("role \"{text}\" does not exist"))),
        }
    }

    /// Answers a question. NULL for an argument that is NULL and for an object that does not exist.
    fn truth(&self, arguments: &[Option<&str>]) -> Result<Option<bool>> {
        let Some((access, rest)) = self.asked(arguments)? else { return Ok(None) };
        let (Some(Some(named)), Some(Some(rights))) = (rest.first(), rest.last()) else { return Ok(None) };
        if self.question == Question::Member && named.starts_with("pg_") {
            // The roles that PostgreSQL predefines have rights that only superusers have here.
            return Ok(Some(access.is_unlimited()));
        }
        if self.question == Question::Member {
            return Ok(Some(self.role(named)?.map_or(access.is_unlimited(), |role| access.has_role(role))));
        }
        let object = match self.question {
            Question::Schema => self.schema(named),
            _ => self.relation(named),
        };
        let Some(object) = object else {
            // Tables that are computed can be read by everybody.
            let is_computed = relation_oid(&self.context, Some(named)).is_some();
            return Ok(is_computed.then_some(true));
        };
        let column = match (self.question, rest) {
            (Question::Column, [_, Some(column), _]) => match self.column(object, column) {
                Some(column) => Some(column),
                None => return Ok(None),
            },
            _ => None,
        };
        let any_column: &[ColumnId] = &[];
        let columns = match self.question {
            Question::Column => column.as_ref().map(std::slice::from_ref),
            Question::AnyColumn => Some(any_column),
            _ => None,
        };
        let mut has = false;
        for right in rights.split(',').map(str::trim) {
            let name = right.to_ascii_uppercase();
            let name = name.strip_suffix(" WITH GRANT OPTION").unwrap_or(&name);
            // There are no triggers, so no role needs a right on them.
            let right = match Rights::of_name(name) {
                Some(right) => right,
                None if matches!(name, "TRIGGER" | "MAINTAIN") => continue,
                None => {
                    let what = format!("unrecognized privilege type: \"{right}\"");
                    return Err(Error::new(ErrorKind::InvalidParameter, what));
                }
            };
            has |= access.may(right, object, columns);
        }
        Ok(Some(has))
    }

    fn schema(&self, text: &str) -> Option<ObjectId> {
        let catalog = self.catalog();
        let numbered =
            || text.trim().parse().ok().and_then(|oid: u32| catalog.schemas().find(|def| schema_oid(def) == oid));
        catalog.schema(text).or_else(numbered).map(|schema| ObjectId::Schema(schema.id))
    }

    fn relation(&self, text: &str) -> Option<ObjectId> {
        let catalog = self.catalog();
        let wanted = u32::try_from(relation_oid(&self.context, Some(text))?).ok()?;
        let table = catalog.all_tables().find(|table| table_oid(table.id) == wanted);
        let table = table.map(|table| ObjectId::Table(table.id));
        table.or_else(|| {
            let mut views = catalog.schemas().flat_map(|schema| catalog.views(schema.id));
            views.find(|view| view_oid(view) == wanted).map(|view| ObjectId::View(view.id))
        })
    }

    /// The column with a name, or with a number that counts from 1.
    fn column(&self, object: ObjectId, text: &str) -> Option<ColumnId> {
        let ObjectId::Table(id) = object else { return Some(ColumnId(0)) };
        let table = self.catalog().table_by_id(id)?;
        let numbered = || text.trim().parse::<usize>().ok()?.checked_sub(1);
        let place = table.column_index(text).or_else(numbered)?;
        table.columns.get(place).map(|column| column.id)
    }
}
