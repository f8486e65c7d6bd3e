//! `SET`: the values that `UPDATE`, `MERGE` and `ON CONFLICT DO UPDATE` assign to columns.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::write::{ColumnValue, NewRow};
use rowmill_query::binder::target::TargetValue;
use rowmill_storage::{RowRules, TableDef};
use sqlparser::ast::{Assignment, AssignmentTarget, Expr, Ident, ObjectName, Query};

use super::clause::unsupported;
use super::generated_column::reads;
use super::row_sink::{generated, is_generated};
use super::write::binder::WriteBinder;
use crate::names::identifiers;

/// A value that `SET` assigns.
#[derive(Clone, Copy)]
pub(super) enum AssignedValue<'s> {
    Expr(&'s Expr),
    Default,
    /// The column of a subquery: `(a, b) = (SELECT ...)`.
    Subquery {
        query: &'s Query,
        column: usize,
        of: usize,
    },
}

/// The values that `SET` assigns, by the places of their columns in the table.
pub(super) struct Assignments<'s>(Vec<(usize, AssignedValue<'s>)>);

impl<'s> Assignments<'s> {
    /// Reads the assignments to columns of `table`, which the statement calls `alias`.
    pub(super) fn of(
        binder: &WriteBinder<'_>,
        statement: &str,
        table: &TableDef,
        alias: &str,
        assignments: &'s [Assignment],
    ) -> Result<Assignments<'s>> {
        let mut assigned: Vec<(usize, AssignedValue<'s>)> = Vec::with_capacity(assignments.len());
        for Assignment { target, value } in assignments {
            for (name, value) in pairs(statement, target, value)? {
                let place = binder.column(table, column_name(statement, alias, name)?)?;
                let column = &table.columns[place];
                let is_default = matches!(value, AssignedValue::Default);
                if is_default && table.generated(column.id).is_some() {
                    continue;
                }
                if is_generated(table, column) || table.generated(column.id).is_some() {
                    return Err(generated(table, column));
                }
                if is_default && table.identity(column.id).is_some() {
                    return Err(unsupported(statement, "DEFAULT for a column that takes its values from a sequence"));
                }
                if assigned.iter().any(|(other, _)| *other == place) {
                    let what = format!("column \"{}\" is set twice", column.name);
                    return Err(Error::new(ErrorKind::DuplicateColumn, what));
                }
                assigned.push((place, value));
            }
        }
        Ok(Assignments(assigned))
    }

    /// Returns the values by the places of their columns, in the order of the statement.
    pub(super) fn values(&self) -> impl Iterator<Item = (usize, AssignedValue<'s>)> {
        self.0.iter().copied()
    }

    /// Returns the new row and the values that it needs. Its columns without an assignment are kept if `keeps`, and
    /// otherwise pass through. The values of the row come after `first` others.
    pub(super) fn new_row<'k>(
        &self,
        binder: &WriteBinder<'_>,
        table: &TableDef,
        kinds: &'k [DataType],
        first: usize,
        keeps: bool,
    ) -> Result<(NewRow, Vec<TargetValue<'k>>)>
    where
        's: 'k,
    {
        let mut row = NewRow { columns: Vec::new(), assigned: self.values().map(|(place, _)| place).collect() };
        let mut values = Vec::new();
        let generated = binder.generated(table)?;
        for (place, column) in table.columns.iter().enumerate() {
            // A generated column keeps its value if the statement assigns none of the columns that it reads.
            if let Some(expr) = generated.at(place).filter(|expr| row.assigned.iter().any(|of| reads(expr, *of))) {
                row.columns.push(ColumnValue::Generated(expr.clone()));
                continue;
            }
            let assigned = self.values().find(|(other, _)| *other == place).map(|(_, value)| value);
            let value = match assigned {
                Some(AssignedValue::Default) => {
                    row.columns.push(ColumnValue::Default(binder.default(column)?));
                    continue;
                }
                Some(AssignedValue::Expr(expr)) => TargetValue::Expr { expr, kind: &kinds[place] },
                Some(AssignedValue::Subquery { query, column, of }) => TargetValue::Subquery { query, column, of },
                None if keeps => {
                    row.columns.push(ColumnValue::Kept);
                    continue;
                }
                None => TargetValue::Column(place),
            };
            row.columns.push(ColumnValue::Source(first + values.len()));
            values.push(value);
        }
        Ok((row, values))
    }
}

/// Whether a new row needs only the columns that `SET` assigns, because the transaction keeps the others. Checks,
/// generated columns and RETURNING read whole rows.
pub(super) fn keeps_columns(table: &TableDef, returns: bool) -> bool {
    let RowRules { checks, generated, .. } = &table.rules;
    table.keyed.is_none() && checks.is_empty() && generated.is_empty() && !returns
}

/// Returns the types of the columns of a table.
pub(super) fn kinds_of_columns(table: &TableDef) -> Vec<DataType> {
    table.columns.iter().map(|column| column.kind.arrow()).collect()
}

/// Splits `a = 1`, `(a, b) = (1, 2)` or `(a, b) = (SELECT ...)` into pairs.
fn pairs<'s>(
    statement: &str,
    target: &'s AssignmentTarget,
    value: &'s Expr,
) -> Result<Vec<(&'s ObjectName, AssignedValue<'s>)>> {
    let names = match target {
        AssignmentTarget::ColumnName(name) => return Ok(vec![(name, assigned(value))]),
        AssignmentTarget::Tuple(names) => names,
    };
    let values: Vec<AssignedValue<'s>> = match value {
        Expr::Tuple(values) => values.iter().map(assigned).collect(),
        // `(a) = (1)`
        Expr::Nested(value) => vec![assigned(value)],
        Expr::Subquery(query) => {
            let of = names.len();
            (0..of).map(|column| AssignedValue::Subquery { query, column, of }).collect()
        }
        _ => return Err(unsupported(statement, "SET (...) = anything but a list of values or a subquery")),
    };
    if names.len() != values.len() {
        let what = format!("SET has {} columns, but {} values", names.len(), values.len());
        return Err(Error::new(ErrorKind::CardinalityViolation, what));
    }
    Ok(names.iter().zip(values).collect())
}

fn assigned(value: &Expr) -> AssignedValue<'_> {
    match value {
        Expr::Identifier(name) if name.quote_style.is_none() && name.value == "default" => AssignedValue::Default,
        value => AssignedValue::Expr(value),
    }
}

/// Reads `column`, or `table.column` with the name or alias of the target.
fn column_name<'s>(statement: &str, alias: &str, name: &'s ObjectName) -> Result<&'s Ident> {
    match identifiers(name)?.as_slice() {
        [column] => Ok(column),
        [table, column] if table.value == alias => Ok(column),
        _ => Err(unsupported(statement, &format!("SET {name}, which is not a column of the table,"))),
    }
}
