//! `UPDATE`: a columnar table deletes the old row and appends the new one; a keyed table replaces the row at its key.

use rowmill_base::Result;
use rowmill_plan::write::{RepeatedRow, WriteAction, WriteSource};
use rowmill_query::binder::target::{TargetRows, TargetValues};
use sqlparser::ast::{Update, UpdateTableFromKind, With};

use super::assignments::{Assignments, keeps_columns, kinds_of_columns};
use super::clause::refuse;
use super::target_table::TargetTable;
use super::write::BoundWrite;
use super::write::binder::WriteBinder;

const STATEMENT: &str = "UPDATE";

impl WriteBinder<'_> {
    /// Binds an `UPDATE`. Refuses the clauses that we do not execute.
    pub(super) fn update<'s>(&self, with: Option<&With>, update: &'s Update) -> Result<BoundWrite<'s>> {
        let Update {
            update_token: _,
            optimizer_hints,
            table,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
        } = update;
        let clauses = [
            (!optimizer_hints.is_empty(), "an optimizer hint"),
            (output.is_some(), "OUTPUT"),
            (or.is_some(), "OR"),
            (!order_by.is_empty(), "ORDER BY"),
            (limit.is_some(), "LIMIT"),
        ];
        refuse(STATEMENT, clauses)?;
        let others = match from {
            None => &[],
            Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) => tables.as_slice(),
        };
        let target = TargetTable::of(self.work, STATEMENT, table)?;
        let table = self.table(&target.name)?;
        let assignments = Assignments::of(self, STATEMENT, &table, target.alias(), assignments)?;
        let kinds = kinds_of_columns(&table);
        let keeps = keeps_columns(&table, returning.is_some());
        let (row, values) = assignments.new_row(self, &table, &kinds, 0, keeps)?;
        let rows = TargetRows {
            with,
            target: target.relation,
            others,
            condition: selection.as_ref(),
            values: TargetValues::Pairs(&values),
        };
        let names = (&*table, target.alias());
        let (rows, returning) = self.target_returning(&rows, "SET", names, returning.as_deref())?;
        // With FROM, a row of the target can meet several rows of the other tables.
        let repeated = if others.is_empty() { RepeatedRow::Never } else { RepeatedRow::Refused };
        let source = WriteSource::Target { rows, repeated };
        self.plan(STATEMENT, table, source, vec![WriteAction::Update(row)], returning)
    }
}
