//! ANALYZE: a keyed table is looked through, and what is known of its values then goes to the catalog.
//!
//! Plans depend on it, and no result does. So others may write meanwhile, whatever the level of the transaction is: rows that are read
//! for it are not validated. Of columnar tables zone maps and value lists know as much at any time.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, TableId};
use rowmill_storage::keyed::KeyRange;
use rowmill_storage::{ColumnDef, StatisticsCollector, TableStatistics};

use crate::keyed::{IndexOrder, RowBatch};
use crate::keyed_rows::{cursor, next_rows};
use crate::transaction::Transaction;

/// Rows that are read at a time.
const ROWS_AT_ONCE: usize = 1024;

impl Transaction {
    /// Looks through the rows of `table` that the transaction sees, and has everybody know of the values of `columns`, or of all
    /// columns if there are none, when it commits. Of a columnar table there is nothing to do, and of an empty one nothing to know.
    ///
    /// `UndefinedTable`, `UndefinedColumn`, `MemoryLimit` if the sample is not granted, `Cancelled`; `ReadOnly` as other writes.
    pub fn analyze(&mut self, table: TableId, columns: &[ColumnId]) -> Result<()> {
        let def = self.table_def(table)?;
        let Some(keyed) = &def.keyed else { return Ok(()) };
        if let Some(unknown) = columns.iter().find(|id| def.column_by_id(**id).is_none()) {
            let what = format!("table {} has no column {unknown}", def.name);
            return Err(Error::new(ErrorKind::UndefinedColumn, what));
        }
        self.start_change()?;
        let is_asked_for = |column: &ColumnDef| columns.is_empty() || columns.contains(&column.id);
        let places: Vec<usize> = (0..def.columns.len()).filter(|at| is_asked_for(&def.columns[*at])).collect();
        let found = self.statistics_of(table, &places)?;
        let older = self.catalog().statistics(table).filter(|older| older.index == keyed.index);
        let found = match older {
            Some(older) if !columns.is_empty() => with_older(found, older),
            _ => found,
        };
        let found = (found.rows > 0).then(|| Arc::new(found));
        self.catalog_mut()?.set_statistics(table, found.as_ref());
        Ok(())
    }

    /// What the columns at `places` have.
    fn statistics_of(&self, table: TableId, places: &[usize]) -> Result<TableStatistics> {
        let codec = self.keyed_codec(table)?;
        let mut collector = StatisticsCollector::new(places.iter().map(|at| &codec.def().columns[*at]));
        let mut memory = self.engine.broker().reservation("ANALYZE");
        let mut place = cursor(&codec, None, KeyRange::default(), false, IndexOrder::Kept)?;
        let (mut rows, mut scratch) = (RowBatch::default(), Vec::new());
        let reader = self.unnoted_reader();
        loop {
            self.cancel.check()?;
            memory.grow(collector.bytes().saturating_sub(memory.bytes()))?;
            next_rows(&codec, &reader, &mut place, ROWS_AT_ONCE, &mut rows)?;
            if rows.is_empty() {
                return Ok(collector.finish(codec.row_index()));
            }
            for (key, row) in rows.keys().iter().zip(rows.rows().iter()) {
                let values = codec.values(key, row, &mut scratch)?;
                collector.push(places.iter().map(|at| values[*at]));
            }
        }
    }
}

/// `found` of some columns, with what was known of the others.
fn with_older(mut found: TableStatistics, older: &TableStatistics) -> TableStatistics {
    let others = older.columns.iter().filter(|column| found.column(column.column).is_none());
    let others: Vec<_> = others.cloned().collect();
    found.columns.extend(others);
    found.columns.sort_by_key(|column| column.column);
    found
}
