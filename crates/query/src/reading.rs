//! Changes of what a bound query reads, before it is optimized.

use std::sync::Arc;

use rowmill_plan::logical::LogicalScan;
use rowmill_plan::{ColumnId, Logical};
use rowmill_storage::TableSource;

use crate::binder::BoundQuery;
use crate::binder::target::kind_of_row;

impl BoundQuery {
    /// Lets the items of [`bind_items`](crate::binder::bind_items) read their columns from the rows of `table`, in
    /// order.
    pub fn read_rows_of(&mut self, table: Arc<dyn TableSource>) {
        let Logical::Map { input, .. } = &mut self.query.root else { return };
        let Logical::Values { columns, .. } = &**input else { return };
        let columns = columns.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        self.tables.push(table);
        let table = self.tables.len() - 1;
        **input = Logical::Scan(LogicalScan { table, columns, conditions: Vec::new(), row_number: None });
    }

    /// Adds the key of the row as the last column of the result, if each row of the result is one of a table.
    #[must_use]
    pub fn add_row_key(&mut self) -> bool {
        let Some(scan) = only_scan(&mut self.query.root) else { return false };
        let kind = kind_of_row(self.tables[scan.table].table());
        let id: ColumnId = self.query.columns.add("row number", kind);
        scan.row_number = Some(id);
        self.query.output.push((id, "row number".to_owned()));
        true
    }
}

/// Returns the scan that gives all rows of a plan, if the plan only filters, orders and extends them.
fn only_scan(plan: &mut Logical) -> Option<&mut LogicalScan> {
    match plan {
        Logical::Scan(scan) => Some(scan),
        Logical::Filter { input, .. }
        | Logical::Map { input, .. }
        | Logical::Sort { input, .. }
        | Logical::Limit { input, .. } => only_scan(input),
        Logical::Window(window) => only_scan(&mut window.input),
        _ => None,
    }
}
