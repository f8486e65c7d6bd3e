//! `rowmill_statements()`: the statements that run at the moment, over all connections of the database.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array};
use rowmill_base::Result;
use rowmill_plan::Constant;

use crate::catalog::StatementContext;
use crate::log_functions::takes_no_argument;
use crate::outcome::{Progress, nullable_batch};
use crate::running_statements::RunningStatement;

/// Returns the rows of `rowmill_statements()`, or `None` if `name` is another function.
pub(crate) fn rows(context: &StatementContext, name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
    if name != "rowmill_statements" {
        return Ok(None);
    }
    if !arguments.is_empty() {
        return Err(takes_no_argument(name));
    }
    batch(&context.running.list()).map(Some)
}

fn batch(statements: &[RunningStatement]) -> Result<RecordBatch> {
    let texts = |text: fn(&RunningStatement) -> Option<&str>| -> ArrayRef {
        Arc::new(statements.iter().map(text).collect::<StringArray>())
    };
    let numbers = |number: &dyn Fn(&RunningStatement) -> Option<u64>| -> ArrayRef {
        Arc::new(statements.iter().map(number).collect::<UInt64Array>())
    };
    let progress =
        |number: fn(&Progress) -> Option<u64>| numbers(&|statement| statement.progress.as_ref().and_then(number));
    let started: TimestampMicrosecondArray = statements.iter().map(|statement| Some(statement.started_us)).collect();
    let seconds = statements.iter().map(|statement| Some(statement.elapsed.as_secs_f64()));
    nullable_batch(vec![
        ("id", numbers(&|statement| Some(statement.id))),
        ("connection", numbers(&|statement| statement.client.connection)),
        ("user_name", texts(|statement| statement.client.user.as_deref())),
        ("client", texts(|statement| statement.client.address.as_deref())),
        ("protocol", texts(|statement| statement.client.protocol)),
        ("statement", texts(|statement| Some(&statement.text))),
        ("started", Arc::new(started.with_timezone("UTC"))),
        ("seconds", Arc::new(seconds.collect::<Float64Array>())),
        ("rows_done", progress(|progress| Some(progress.rows_done))),
        ("rows_total", progress(|progress| progress.rows_total)),
        ("spilled_bytes", progress(|progress| Some(progress.spilled_bytes))),
    ])
}
