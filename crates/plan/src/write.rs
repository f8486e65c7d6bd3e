//! The plan of a statement that changes rows: INSERT, COPY FROM, UPDATE, DELETE, MERGE.
//!
//! ```text
//! rows of the source -> action of each row -> defaults, assignment -> generated columns -> checks -> conflict action
//!                    -> table -> RETURNING
//! ```
//!
//! The executor of changes runs it in batches. The lowering to programs makes a program of it, if the statement has
//! one. Both read only this plan, so that they mean the same.

use arrow::datatypes::DataType;
use rowmill_base::TableId;

use crate::ScalarExpr;
use crate::program::{ConflictTarget, ProgramNames};

/// A change of the rows of one table. `Q` is a bound query, whose tables the front end knows.
///
/// The expressions of [`Write::checks`] are over the columns of the table: column `i` is the one at position `i`.
#[derive(Clone, Debug)]
pub struct Write<Q> {
    /// The table.
    pub table: TableId,
    /// Where the rows come from.
    pub source: WriteSource<Q>,
    /// What happens to a row of the source. There is one action, except for MERGE, whose rows have the numbers of their
    /// actions.
    pub actions: Vec<WriteAction>,
    /// The action if a key of a new row is taken; without it, a taken key is an error.
    pub conflict: Option<WriteConflict>,
    /// The conditions that no new row may fail.
    pub checks: Vec<WriteCheck>,
    /// `RETURNING`, over the columns of the new row, or of the deleted one, and then those of `beside`.
    pub returning: Option<Q>,
    /// The names and types of the columns of joined tables that RETURNING reads. They are the last columns of the
    /// source.
    pub beside: Vec<(String, DataType)>,
}

/// Where the rows of a change come from.
#[derive(Clone, Debug)]
pub enum WriteSource<Q> {
    /// `VALUES`: this many rows. The statement reads them from its text, because each value has a type of its own.
    Values(usize),
    /// The rows of files, which a reader decodes: `COPY FROM`.
    Files(String),
    /// The rows of a query: `INSERT ... SELECT`.
    Query(Q),
    /// Rows of the table itself. The first column of the query is the number or key of the row.
    Target {
        /// The query.
        rows: Q,
        /// What a row means that is found more than once.
        repeated: RepeatedRow,
    },
    /// Rows of the table joined to those of a source: `MERGE`. The second column is the number of the action; a row
    /// without a number is left alone.
    Merge(Q),
}

/// What it means that a query finds a row of the target more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatedRow {
    /// It cannot happen.
    Never,
    /// The row counts once: DELETE.
    Once,
    /// It is an error, because no rule says which of the new rows should win: UPDATE.
    Refused,
}

/// What happens to a row of the source.
#[derive(Clone, Debug)]
pub enum WriteAction {
    /// A new row is added.
    Insert(NewRow),
    /// A new row replaces the row that was found.
    Update(NewRow),
    /// The row that was found is removed. The columns of the source that hold it are known if RETURNING reads them.
    Delete(Option<NewRow>),
}

/// A row of the table, made of a row of the source.
#[derive(Clone, Debug, Default)]
pub struct NewRow {
    /// The value of each column of the table.
    pub columns: Vec<ColumnValue>,
    /// The columns that the statement names.
    pub assigned: Vec<usize>,
}

/// Where the value of a column comes from.
#[derive(Clone, Debug)]
pub enum ColumnValue {
    /// The column of the source at this position, after the columns that identify the row and its action.
    Source(usize),
    /// The value of the row that was found. The source does not have it; the transaction reads it. Only in columnar
    /// tables.
    Kept,
    /// The default of the column. It reads no columns.
    Default(ScalarExpr),
    /// The next value of a sequence.
    Sequence(TableId),
    /// A generated column: an expression over the columns of the new row that are not generated.
    Generated(ScalarExpr),
}

impl NewRow {
    /// The generated columns by their positions, with their expressions.
    pub fn generated(&self) -> impl Iterator<Item = (usize, &ScalarExpr)> {
        self.columns.iter().enumerate().filter_map(|(place, value)| match value {
            ColumnValue::Generated(expr) => Some((place, expr)),
            _ => None,
        })
    }
}

/// `ON CONFLICT`
#[derive(Clone, Debug)]
pub struct WriteConflict {
    /// The key that is checked. A conflict with any other key is an error.
    pub target: ConflictTarget,
    /// The change of the row that has the key; without it, the new row is left out: `DO NOTHING`.
    pub update: Option<ConflictAssignments>,
}

/// `DO UPDATE SET`. The expressions are over the columns of the existing row, followed by those of the new one.
#[derive(Clone, Debug)]
pub struct ConflictAssignments {
    /// Columns by their positions, and their new values.
    pub values: Vec<(usize, ScalarExpr)>,
    /// The row is changed only if this is true.
    pub filter: Option<ScalarExpr>,
}

/// A condition of the table, `CHECK (...)`.
#[derive(Clone, Debug)]
pub struct WriteCheck {
    /// Its name, for the error.
    pub name: String,
    /// Its text, for the error.
    pub sql: String,
    /// The condition, which must not be false.
    pub condition: ScalarExpr,
}

impl<Q> Write<Q> {
    /// The query that finds or makes the rows, if there is one.
    pub fn query(&self) -> Option<&Q> {
        match &self.source {
            WriteSource::Query(rows) | WriteSource::Target { rows, .. } | WriteSource::Merge(rows) => Some(rows),
            WriteSource::Values(_) | WriteSource::Files(_) => None,
        }
    }

    /// Passes every expression outside of the queries to `change`.
    pub fn each_expr(&mut self, change: &mut dyn FnMut(&mut ScalarExpr)) {
        let defaults = self.actions.iter_mut().flat_map(|action| match action {
            WriteAction::Insert(row) | WriteAction::Update(row) => row.columns.as_mut_slice(),
            WriteAction::Delete(_) => &mut [],
        });
        for value in defaults {
            if let ColumnValue::Default(expr) | ColumnValue::Generated(expr) = value {
                change(expr);
            }
        }
        self.checks.iter_mut().for_each(|check| change(&mut check.condition));
        if let Some(ConflictAssignments { values, filter }) = self.conflict.as_mut().and_then(|at| at.update.as_mut()) {
            values.iter_mut().map(|(_, value)| value).chain(filter).for_each(change);
        }
    }

    /// The lines of EXPLAIN, without those of the source's operators.
    pub fn lines(&self, names: &dyn ProgramNames) -> Vec<String> {
        let table = names.table(self.table);
        let list = |named: &[usize]| {
            let named: Vec<String> = named.iter().map(|column| names.column(self.table, *column)).collect();
            named.join(", ")
        };
        let mut lines = Vec::new();
        for action in &self.actions {
            lines.push(match action {
                WriteAction::Insert(row) => format!("Insert into {table} ({})", list(&row.assigned)),
                WriteAction::Update(row) => format!("Update {table}, set {}", list(&row.assigned)),
                WriteAction::Delete(_) => format!("Delete from {table}"),
            });
        }
        if let Some(WriteConflict { target, update }) = &self.conflict {
            let key = target.name(self.table, names);
            match update {
                None => lines.push(format!("On conflict of {key}: nothing")),
                Some(ConflictAssignments { values, .. }) => {
                    let named: Vec<usize> = values.iter().map(|(column, _)| *column).collect();
                    lines.push(format!("On conflict of {key}: set {}", list(&named)));
                }
            }
        }
        lines.extend(self.checks.iter().map(|check| format!("Check {}: {}", check.name, check.sql)));
        if self.returning.is_some() {
            lines.push("Return rows".to_owned());
        }
        match &self.source {
            WriteSource::Values(1) => lines.push("Source: 1 row of values".to_owned()),
            WriteSource::Values(rows) => lines.push(format!("Source: {rows} rows of values")),
            WriteSource::Files(name) => lines.push(format!("Source: files {name}")),
            WriteSource::Query(_) | WriteSource::Target { .. } | WriteSource::Merge(_) => {}
        }
        lines
    }
}
