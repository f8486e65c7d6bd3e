//! `rowmill_materialized_views()`: the materialized views, how they are refreshed, and how far they are behind.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array};
use rowmill_base::{Error, Result};
use rowmill_plan::Constant;
use rowmill_storage::TableSource;
use rowmill_txn::{Engine, MaterializedView, Snapshot, SourceLag};

use crate::catalog::StatementContext;
use crate::log_functions::takes_no_argument;
use crate::outcome::nullable_batch;
use crate::parse::rule_text;

const FUNCTION: &str = "rowmill_materialized_views";

/// One materialized view.
struct ViewLine {
    schema: Option<String>,
    name: String,
    query: String,
    refresh: String,
    method: String,
    status: &'static str,
    rows: Option<u64>,
    refreshed_us: Option<i64>,
    lag_rows: Option<u64>,
    lag_commits: Option<u64>,
    error: Option<String>,
}

/// Returns the rows of the function `name`, or `None` if this module has no such function.
pub(crate) fn rows(context: &StatementContext, name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
    if name != FUNCTION {
        return Ok(None);
    }
    if !arguments.is_empty() {
        return Err(takes_no_argument(name));
    }
    let engine = context.engine.upgrade();
    let engine = engine.ok_or_else(|| Error::internal("a statement of a database that is closed"))?;
    let snapshot = &context.snapshot;
    let lines: Vec<ViewLine> =
        snapshot.catalog().materialized_views().map(|view| line(&engine, snapshot, view)).collect();
    let texts = |text: fn(&ViewLine) -> Option<&str>| Arc::new(lines.iter().map(text).collect::<StringArray>());
    let numbers = |number: fn(&ViewLine) -> Option<u64>| Arc::new(lines.iter().map(number).collect::<UInt64Array>());
    let times = lines.iter().map(|line| line.refreshed_us).collect::<TimestampMicrosecondArray>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("schema", texts(|line| line.schema.as_deref())),
        ("name", texts(|line| Some(&line.name))),
        ("query", texts(|line| Some(&line.query))),
        ("refresh", texts(|line| Some(&line.refresh))),
        ("method", texts(|line| Some(&line.method))),
        ("status", texts(|line| Some(line.status))),
        ("rows", numbers(|line| line.rows)),
        ("last_refresh", Arc::new(times.with_timezone("UTC"))),
        ("lag_rows", numbers(|line| line.lag_rows)),
        ("lag_commits", numbers(|line| line.lag_commits)),
        ("last_error", texts(|line| line.error.as_deref())),
    ];
    nullable_batch(columns).map(Some)
}

fn line(engine: &Engine, snapshot: &Snapshot, view: &MaterializedView) -> ViewLine {
    let catalog = snapshot.catalog();
    let table = catalog.table_by_id(view.table);
    let schema = table.and_then(|table| catalog.schema_by_id(table.schema));
    let lag = view.refreshed.as_ref().map(|point| point.lag(snapshot));
    let failure = engine.refreshes().failure(view.table);
    let status = match (&failure, lag) {
        _ if engine.refreshes().is_running(view.table) => "refreshing",
        (Some(_), _) => "failed",
        (None, None) => "unknown",
        (None, Some(SourceLag::Rows(0))) => "current",
        (None, Some(_)) => "behind",
    };
    let (lag_rows, commits_are_missing) = match lag {
        Some(SourceLag::Rows(rows)) => (Some(rows), rows > 0),
        _ => (None, true),
    };
    let commits_since = |commit: u64| snapshot.commit().0.saturating_sub(commit);
    let lag_commits = view.refreshed.as_ref().map(|point| match commits_are_missing {
        true => commits_since(point.commit.0),
        false => 0,
    });
    ViewLine {
        schema: schema.map(|schema| schema.name.clone()),
        name: table.map_or_else(String::new, |table| table.name.clone()),
        query: view.sql.clone(),
        refresh: rule_text(view.refresh).trim_start_matches("REFRESH ").to_lowercase(),
        method: view.full_because.as_ref().map_or_else(|| "incremental".to_owned(), |why| format!("full: {why}")),
        status,
        rows: snapshot.table(view.table).map(|table| table.row_count()),
        refreshed_us: view.refreshed.as_ref().map(|point| point.at_us),
        lag_rows,
        lag_commits,
        error: failure.map(|error| error.message().to_owned()),
    }
}
