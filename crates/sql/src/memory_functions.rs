//! Table functions about memory and temporary files. `rowmill_memory()` shows how much of the limits is in use, and
//! which parts of the engine hold it. `rowmill_spills()` shows the spilled state of all statements that run, file by
//! file.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use rowmill_base::{HeldMemory, Result};
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

/// One row of `rowmill_memory()`.
struct MemoryUse {
    resource: &'static str,
    holder: Option<&'static str>,
    limit_bytes: Option<u64>,
    used_bytes: u64,
    peak_bytes: u64,
}

/// The whole of each resource, then the holders of memory, the largest first.
fn memory(StatementContext { broker, temp, .. }: &StatementContext) -> Result<RecordBatch> {
    let (quota, resource) = (temp.quota(), "memory");
    let mut rows = vec![
        MemoryUse {
            resource,
            holder: None,
            limit_bytes: Some(broker.limit_bytes()),
            used_bytes: broker.used_bytes(),
            peak_bytes: broker.peak_bytes(),
        },
        MemoryUse {
            resource: "temporary files",
            holder: None,
            limit_bytes: Some(quota.limit_bytes()),
            used_bytes: quota.used_bytes(),
            peak_bytes: quota.peak_bytes(),
        },
    ];
    rows.extend(broker.holders().into_iter().map(|HeldMemory { holder, used_bytes, peak_bytes }| MemoryUse {
        resource,
        holder: Some(holder),
        limit_bytes: None,
        used_bytes,
        peak_bytes,
    }));
    let numbers = |number: fn(&MemoryUse) -> Option<u64>| -> ArrayRef {
        Arc::new(rows.iter().map(number).collect::<UInt64Array>())
    };
    nullable_batch(vec![
        ("resource", Arc::new(rows.iter().map(|row| Some(row.resource)).collect::<StringArray>()) as ArrayRef),
        ("holder", Arc::new(rows.iter().map(|row| row.holder).collect::<StringArray>())),
        ("limit_bytes", numbers(|row| row.limit_bytes)),
        ("used_bytes", numbers(|row| Some(row.used_bytes))),
        ("peak_bytes", numbers(|row| Some(row.peak_bytes))),
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
