//! ANALYZE: reads a keyed table and stores statistics of its values in the catalog.
//!
//! Only plans depend on statistics, never results. So reads of ANALYZE are not validated, whatever the isolation level,
//! and other transactions may write at the same time. Columnar tables need no ANALYZE, because their zone maps and
//! value lists always hold as much.

use std::sync::Arc;

use rowmill_base::{ColumnId, Error, ErrorKind, Result, TableId};
use rowmill_storage::keyed::KeyRange;
use rowmill_storage::{ColumnDef, StatisticsCollector, TableStatistics};

use crate::background_pace::rest_if_due;
use crate::keyed::{IndexOrder, RowBatch};
use crate::keyed_rows::{cursor, next_rows};
use crate::transaction::Transaction;

/// Rows read at a time. A column of numbers then takes 8 KiB, so that a hundred columns fit the second-level cache, and
/// the cost of a call is shared by a thousand rows.
const ROWS_AT_ONCE: usize = 1024;

impl Transaction {
    /// Reads the rows of `table` that the transaction sees and computes statistics of `columns`, or of all columns if
    /// `columns` is empty. Other transactions see the statistics after commit. A columnar table is left alone, and an
    /// empty table gets no statistics.
    ///
    /// Returns `UndefinedTable`, `UndefinedColumn`, `MemoryLimit` if there is no memory for the sample, `Cancelled`, or
    /// `ReadOnly`.
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

    /// Computes the statistics of the columns at `places`.
    fn statistics_of(&self, table: TableId, places: &[usize]) -> Result<TableStatistics> {
        let codec = self.keyed_codec(table)?;
        let mut collector = StatisticsCollector::new(places.iter().map(|at| &codec.def().columns[*at]));
        let mut memory = self.engine.broker().reservation("ANALYZE");
        let mut place = cursor(&codec, None, KeyRange::default(), false, IndexOrder::Kept)?;
        let (mut rows, mut scratch) = (RowBatch::default(), Vec::new());
        let reader = self.unnoted_reader();
        loop {
            self.cancel.check()?;
            rest_if_due();
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

/// Adds to `found` the older statistics of columns that it does not have.
fn with_older(mut found: TableStatistics, older: &TableStatistics) -> TableStatistics {
    let others = older.columns.iter().filter(|column| found.column(column.column).is_none());
    let others: Vec<_> = others.cloned().collect();
    found.columns.extend(others);
    found.columns.sort_by_key(|column| column.column);
    found
}
