//! Table functions about memory and temporary files. `rowmill_memory()` shows how much of the limits is in use.
//! `rowmill_spills()` shows the spilled state of all statements that run, file by file.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use rowmill_base::Result;
use rowmill_plan::Constant;

use crate::catalog::StatementContext;
use crate::log_functions::takes_no_argument;
use crate::outcome::nullable_batch;

/// Returns the rows of the function `name`, or `None` if this module has no such function.
pub(crate) fn rows(context: &StatementContext, name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
    let rows = match name {
        "rowmill_memory" => memory,
        "rowmill_spills" => spills,
        _ => return Ok(None),
    };
    if !arguments.is_empty() {
        return Err(takes_no_argument(name));
    }
    rows(context).map(Some)
}

fn memory(StatementContext { broker, temp, .. }: &StatementContext) -> Result<RecordBatch> {
    let quota = temp.quota();
    let rows = [
        ("memory", broker.limit_bytes(), broker.used_bytes(), broker.peak_bytes()),
        ("temporary files", quota.limit_bytes(), quota.used_bytes(), quota.peak_bytes()),
    ];
    let numbers = |number: fn(&(&str, u64, u64, u64)) -> u64| -> ArrayRef {
        Arc::new(rows.iter().map(number).collect::<UInt64Array>())
    };
    nullable_batch(vec![
        ("resource", Arc::new(rows.iter().map(|row| Some(row.0)).collect::<StringArray>()) as ArrayRef),
        ("limit_bytes", numbers(|row| row.1)),
        ("used_bytes", numbers(|row| row.2)),
        ("peak_bytes", numbers(|row| row.3)),
    ])
}

fn spills(context: &StatementContext) -> Result<RecordBatch> {
    let files = context.temp.files();
    nullable_batch(vec![
        ("operator", Arc::new(files.iter().map(|file| Some(file.owner)).collect::<StringArray>()) as ArrayRef),
        ("bytes", Arc::new(files.iter().map(|file| file.bytes).collect::<UInt64Array>())),
        ("on_disk", Arc::new(files.iter().map(|file| Some(file.is_on_disk)).collect::<BooleanArray>())),
    ])
}
