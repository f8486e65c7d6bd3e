//! `DELETE`: finds the rows that `WHERE` selects. A columnar table marks them in the delete vectors of their blocks; a
//! keyed table removes them by their keys.

use rowmill_base::Result;
use rowmill_plan::write::{ColumnValue, NewRow, RepeatedRow, WriteAction, WriteSource};
use rowmill_query::binder::target::{TargetRows, TargetValue, TargetValues};
use rowmill_storage::TableDef;
use sqlparser::ast::{Delete, FromTable, With};

use super::clause::{refuse, unsupported};
use super::target_table::TargetTable;
use super::write::BoundWrite;
use super::write::binder::WriteBinder;

const STATEMENT: &str = "DELETE";

impl WriteBinder<'_> {
    /// Binds a `DELETE`. Refuses the clauses that we do not execute.
    pub(super) fn delete<'s>(&self, with: Option<&With>, delete: &'s Delete) -> Result<BoundWrite<'s>> {
        let Delete {
            delete_token: _,
            optimizer_hints,
            tables,
            from,
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
        } = delete;
        let clauses = [
            (!optimizer_hints.is_empty(), "an optimizer hint"),
            (!tables.is_empty(), "several tables"),
            (output.is_some(), "OUTPUT"),
            (!order_by.is_empty(), "ORDER BY"),
            (limit.is_some(), "LIMIT"),
        ];
        refuse(STATEMENT, clauses)?;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
        let [table] = from.as_slice() else { return Err(unsupported(STATEMENT, "several tables")) };
        let target = TargetTable::of(self.work, STATEMENT, table)?;
        let table = self.table(&target.name)?;
        let (old, values) = match returning {
            Some(_) => old_row(&table, 0),
            None => (None, Vec::new()),
        };
        let others = using.as_deref().unwrap_or_default();
        let rows = TargetRows {
            with,
            target: target.relation,
            others,
            condition: selection.as_ref(),
            values: TargetValues::Pairs(&values),
        };
        let names = (&*table, target.alias());
        let (rows, returning) = self.target_returning(&rows, STATEMENT, names, returning.as_deref())?;
        // With USING, a row of the target can be found several times.
        let repeated = if others.is_empty() { RepeatedRow::Never } else { RepeatedRow::Once };
        let source = WriteSource::Target { rows, repeated };
        self.plan(STATEMENT, table, source, vec![WriteAction::Delete(old)], returning)
    }
}

/// Returns the row that is removed, for RETURNING, and the values that it needs. Those before them come from `first`
/// values.
pub(super) fn old_row<'q>(table: &TableDef, first: usize) -> (Option<NewRow>, Vec<TargetValue<'q>>) {
    let columns = (0..table.columns.len()).map(|place| ColumnValue::Source(first + place)).collect();
    let values = (0..table.columns.len()).map(TargetValue::Column).collect();
    (Some(NewRow { columns, assigned: Vec::new() }), values)
}
