//! The newest row of each key: windows that only number rows, and keep the first one of each partition.

use arrow::datatypes::DataType;
use rowmill_plan::{Latest, Node, SortKey};

use super::Lowerer;

impl Lowerer<'_> {
    /// Returns the operator for the newest rows, if a window of one `row_number` over `input` keeps the first row of
    /// each partition, newest first. Of rows with the same time the window may take any, or the one with the greatest
    /// row number.
    pub(super) fn latest_rows(&self, input: &Node, partition: &[usize], order: &[SortKey]) -> Option<Latest> {
        let Node::Scan(scan) = input else { return None };
        let table = &self.tables[scan.table];
        let (time, ties) = order.split_first()?;
        let row_number = scan.columns.len();
        let is_newest = |key: &SortKey| key.descending;
        let ties_are_known = match ties {
            [] => true,
            [tie] => scan.row_number && tie.column == row_number && is_newest(tie),
            _ => false,
        };
        // Rows by keys of a keyed table have no row numbers, and conditions may leave out the newest rows of a block.
        if table.table().keyed.is_some() || !scan.predicates.is_empty() || !is_newest(time) || !ties_are_known {
            return None;
        }
        let is_stored = |column: usize| column < row_number;
        if !is_stored(time.column) || !partition.iter().all(|key| is_stored(*key)) || partition.is_empty() {
            return None;
        }
        let column = &table.table().columns[scan.columns[time.column]];
        let is_time = matches!(column.kind.arrow(), DataType::Timestamp(..) | DataType::Date32);
        (is_time && !column.nullable).then(|| Latest {
            scan: scan.clone(),
            keys: partition.to_vec(),
            time: time.column,
        })
    }
}
