//! `rowmill_table_order('table')`: shows how well the blocks of a time table follow each other in time.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, UInt64Array};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Constant;
use rowmill_storage::TableSource;

use crate::catalog::StatementContext;
use crate::outcome::nullable_batch;
use crate::storage_function::named_table;

const NAME: &str = "rowmill_table_order";

/// Returns the row of `rowmill_table_order('table')`, or `None` if `name` is another function.
pub(crate) fn rows(context: &Arc<StatementContext>, name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
    if name != NAME {
        return Ok(None);
    }
    let table = named_table(context, NAME, arguments)?;
    let order = table.time_order()?.ok_or_else(|| {
        Error::new(ErrorKind::WrongObject, format!("table \"{}\" has no time column", table.table().name))
            .hint("CREATE TABLE ... (columns) TIMESTAMP(column) makes a table with one")
    })?;
    let number = |value: u64| Arc::new(UInt64Array::from(vec![value])) as ArrayRef;
    let share = (order.rows > 0).then(|| order.overlapping_rows as f64 / order.rows as f64);
    let columns = vec![
        ("blocks", number(order.blocks)),
        ("overlapping_blocks", number(order.overlapping_blocks)),
        ("overlap_depth", number(order.depth)),
        ("rows", number(order.rows)),
        ("overlapping_rows", number(order.overlapping_rows)),
        ("overlapping_share", Arc::new(Float64Array::from(vec![share])) as ArrayRef),
        ("open_rows", number(order.open_rows)),
    ];
    nullable_batch(columns).map(Some)
}
