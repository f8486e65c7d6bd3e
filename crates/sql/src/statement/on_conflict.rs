//! `ON CONFLICT`: the key that is checked, and the change of the row that has it.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::ScalarExpr;
use rowmill_plan::program::ConflictTarget;
use rowmill_plan::write::{ConflictAssignments, WriteConflict};
use rowmill_storage::{ColumnDef, KeyColumn, TableDef};
use sqlparser::ast::{self, Expr, Ident, OnConflictAction, OnInsert, SqliteOnConflict};

use super::assignments::{AssignedValue, Assignments};
use super::clause::unsupported;
use super::write::binder::WriteBinder;
use crate::names::lower;

const STATEMENT: &str = "ON CONFLICT";

/// The name of the row that should be inserted.
const NEW_ROW: &str = "excluded";

impl WriteBinder<'_> {
    /// Binds an ON CONFLICT clause of an INSERT that calls its table `alias`.
    pub(super) fn on_conflict(&self, table: &TableDef, alias: &str, on: &OnInsert) -> Result<WriteConflict> {
        let OnInsert::OnConflict(ast::OnConflict { conflict_target, action }) = on else {
            return Err(unsupported("INSERT", "ON DUPLICATE KEY UPDATE"));
        };
        let target = self.conflict_target(table, conflict_target.as_ref())?;
        let update = match action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(update) => Some(self.conflict_update(table, alias, update)?),
        };
        Ok(WriteConflict { target, update })
    }

    /// Binds `INSERT OR REPLACE` and `INSERT OR IGNORE`. `targets` are the columns that the statement gives values for.
    pub(super) fn or_clause(
        &self,
        table: &TableDef,
        alias: &str,
        or: SqliteOnConflict,
        targets: &[usize],
    ) -> Result<Option<WriteConflict>> {
        match or {
            // Without a clause, an INSERT that meets a row with its key undoes its changes, too.
            SqliteOnConflict::Abort => Ok(None),
            SqliteOnConflict::Ignore => {
                Ok(Some(WriteConflict { target: self.conflict_target(table, None)?, update: None }))
            }
            SqliteOnConflict::Replace => self.replacement(table, alias, targets).map(Some),
            SqliteOnConflict::Fail | SqliteOnConflict::Rollback => {
                Err(unsupported("INSERT", &or.to_string()).hint("there are OR REPLACE, OR IGNORE and OR ABORT"))
            }
        }
    }

    /// Returns the change of `INSERT OR REPLACE`: the row that has the key gets all values that the statement gives.
    fn replacement(&self, table: &TableDef, alias: &str, targets: &[usize]) -> Result<WriteConflict> {
        let target = self.conflict_target(table, None)?;
        let keyed = table.keyed.as_ref().ok_or_else(|| Error::internal("a table without keys has no conflicts"))?;
        if keyed.indexes.iter().any(|index| index.unique) {
            let what = format!("INSERT OR REPLACE into table \"{}\", which has several unique keys", table.name);
            return Err(Error::new(ErrorKind::Unsupported, what)
                .hint("INSERT ... ON CONFLICT (columns) DO UPDATE SET names the key that is meant"));
        }
        let is_key = |column: &ColumnDef| keyed.key.iter().any(|part| part.column == column.id);
        let is_given = |place: &usize| {
            let column = &table.columns[*place];
            !is_key(column) && table.generated(column.id).is_none()
        };
        let mut values = Vec::new();
        for place in targets.iter().copied().filter(is_given) {
            let column = &table.columns[place];
            let name = Ident::with_quote('"', lower(&column.name));
            let new = Expr::CompoundIdentifier(vec![Ident::new(NEW_ROW), name]);
            let mut bound = self.exprs(&[(&new, None)], &[(alias, table), (NEW_ROW, table)], "INSERT OR REPLACE")?;
            values.extend(bound.exprs.pop().map(|value| (place, value)));
        }
        let update = (!values.is_empty()).then_some(ConflictAssignments { values, filter: None });
        let target = if update.is_some() { ConflictTarget::PrimaryKey } else { target };
        Ok(WriteConflict { target, update })
    }

    fn conflict_update(&self, table: &TableDef, alias: &str, update: &ast::DoUpdate) -> Result<ConflictAssignments> {
        let ast::DoUpdate { assignments, selection } = update;
        let assignments = Assignments::of(self, STATEMENT, table, alias, assignments)?;
        let rows = [(alias, table), (NEW_ROW, table)];
        let bind = |expr: &Expr, wanted| {
            let mut bound = self.exprs(&[(expr, wanted)], &rows, STATEMENT)?;
            bound.exprs.pop().ok_or_else(|| Error::internal("one expression was bound"))
        };
        let mut values = Vec::new();
        for (place, value) in assignments.values() {
            let column = &table.columns[place];
            let mut value = match value {
                AssignedValue::Expr(expr) => bind(expr, None)?,
                AssignedValue::Default => self.default(column)?,
                AssignedValue::Subquery { .. } => {
                    return Err(unsupported(STATEMENT, "SET (...) = (SELECT ...)").hint("MERGE can compute it"));
                }
            };
            give_type(&mut value, &column.kind.arrow());
            values.push((place, value));
        }
        let filter = selection.as_ref().map(|condition| bind(condition, Some(&DataType::Boolean))).transpose()?;
        Ok(ConflictAssignments { values, filter })
    }

    fn conflict_target(&self, table: &TableDef, target: Option<&ast::ConflictTarget>) -> Result<ConflictTarget> {
        let Some(keyed) = &table.keyed else { return Err(no_key(table)) };
        let places = |parts: &[KeyColumn]| {
            let mut places: Vec<Option<usize>> = parts.iter().map(|part| table.column_by_id(part.column)).collect();
            // The order of the columns does not matter, so we compare sorted lists.
            places.sort_unstable();
            places
        };
        let mut unique = keyed.indexes.iter().filter(|index| index.unique);
        match target {
            None => Ok(ConflictTarget::Any),
            Some(ast::ConflictTarget::Columns(names)) => {
                let wanted = names.iter().map(|name| self.column(table, name).map(Some));
                let mut wanted = wanted.collect::<Result<Vec<_>>>()?;
                wanted.sort_unstable();
                if places(&keyed.key) == wanted {
                    return Ok(ConflictTarget::PrimaryKey);
                }
                let index = unique.find(|index| places(&index.parts) == wanted);
                index.map(|index| ConflictTarget::Index(index.id)).ok_or_else(|| {
                    let columns: Vec<&str> = names.iter().map(|name| name.value.as_str()).collect();
                    let what = format!("table \"{}\" has no unique key of ({})", table.name, columns.join(", "));
                    Error::new(ErrorKind::InvalidDefinition, what)
                        .hint("ON CONFLICT names the columns of the primary key or of a unique index")
                })
            }
            Some(ast::ConflictTarget::OnConstraint(name)) => {
                let name = name.to_string().replace('"', "");
                if table.primary_key_name().is_some_and(|key| lower(&key) == lower(&name)) {
                    return Ok(ConflictTarget::PrimaryKey);
                }
                let index = unique.find(|index| lower(&index.name) == lower(&name));
                index.map(|index| ConflictTarget::Index(index.id)).ok_or_else(|| {
                    let what = format!("table \"{}\" has no unique constraint \"{name}\"", table.name);
                    Error::new(ErrorKind::UndefinedObject, what)
                })
            }
        }
    }
}

/// Returns the error for a table whose rows have no keys that could be taken.
fn no_key(table: &TableDef) -> Error {
    let what = format!("table \"{}\" has no primary key, so no row of it can conflict with a new row", table.name);
    Error::new(ErrorKind::InvalidDefinition, what)
        .hint("ON CONFLICT, OR REPLACE and OR IGNORE need a table with a PRIMARY KEY; MERGE works without one")
}

/// Gives an expression without a type (which is NULL) the type of its column, because programs hold only values with
/// SQL types.
pub(crate) fn give_type(expr: &mut ScalarExpr, kind: &DataType) {
    if expr.kind == DataType::Null {
        let value = std::mem::replace(expr, ScalarExpr::null(kind.clone()));
        if value.as_constant().is_none() {
            *expr = value.cast(kind.clone());
        }
    }
}
