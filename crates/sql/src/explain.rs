//! `EXPLAIN` and `EXPLAIN ANALYZE`: the plan of a query as a tree, one row per operator.
//!
//! ```text
//! Sort: by count(*) DESC, first 10 rows  (~10 rows)
//! └─ Group: by URL, count(*)  (~17 rows)
//!    └─ Scan: hits, columns [URL], where URL <> '', 20 blocks, 10000000 rows  (~5000000 rows)
//! ```

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use sqlparser::ast::{DescribeAlias, Expr, Query, Statement as Sql, UtilityOption, Value};

use crate::outcome::{Outcome, RowStream};
use crate::session::Work;

/// Runs an `EXPLAIN`, or a `DESCRIBE` of a query.
pub(crate) fn run(work: &mut Work<'_>, statement: &Sql) -> Result<Outcome> {
    let Sql::Explain { describe_alias, analyze, verbose, query_plan, estimate, statement, format, options } = statement
    else {
        return Err(Error::internal("EXPLAIN is dispatched by its kind"));
    };
    let refused =
        [(*verbose, "VERBOSE"), (*query_plan, "QUERY PLAN"), (*estimate, "ESTIMATE"), (format.is_some(), "FORMAT")];
    if let Some((_, clause)) = refused.iter().find(|(present, _)| *present) {
        return Err(Error::new(ErrorKind::Unsupported, format!("EXPLAIN {clause} is not supported"))
            .hint("EXPLAIN shows the plan, EXPLAIN ANALYZE runs it and shows rows and times"));
    }
    let analyze = *analyze || wants_analyze(options.as_deref().unwrap_or(&[]))?;
    let Sql::Query(query) = &**statement else {
        return Err(Error::new(ErrorKind::Unsupported, "EXPLAIN takes a query")
            .hint("explain the SELECT that the statement is built on"));
    };
    match describe_alias {
        DescribeAlias::Describe | DescribeAlias::Desc => describe(work, query),
        DescribeAlias::Explain if analyze => explain_analyze(work, query),
        DescribeAlias::Explain => explain(work, query),
    }
}

/// The options in parentheses: `ANALYZE`, on unless a value says otherwise.
fn wants_analyze(options: &[UtilityOption]) -> Result<bool> {
    let mut analyze = false;
    for option in options {
        if option.name.value != "analyze" {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("EXPLAIN has no option {}", option.name.value.to_uppercase()),
            )
            .hint("its one option is ANALYZE"));
        }
        analyze = match &option.arg {
            None => true,
            Some(Expr::Value(value)) if matches!(value.value, Value::Boolean(false)) => false,
            Some(value) => !matches!(value.to_string().as_str(), "off" | "0"),
        };
    }
    Ok(analyze)
}

fn explain(work: &mut Work<'_>, query: &Query) -> Result<Outcome> {
    let view = work.view()?;
    let ready = work.ready(view, query)?;
    Ok(Outcome::Rows(RowStream::ready(lines_batch(ready.query.lines(false))?)))
}

fn explain_analyze(work: &mut Work<'_>, query: &Query) -> Result<Outcome> {
    let view = work.view()?;
    let ready = work.ready(view, query)?;
    let planned = work.started.elapsed();
    let query = Arc::clone(&ready.query);
    let mut rows = 0;
    for batch in ready.start(work.progress().cloned(), work.started) {
        rows += batch?.num_rows();
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (planned_ms, ran_ms) = (ms(planned), ms(work.started.elapsed() - planned));
    let mut lines = vec![format!(
        "{rows} rows, planned in {planned_ms:.1} ms, run in {ran_ms:.1} ms; the times below add up over threads"
    )];
    lines.extend(query.lines(true));
    Ok(Outcome::Rows(RowStream::ready(lines_batch(lines)?)))
}

/// How the line of an operator's input begins, the last of them or another, and those of what is below that.
pub(crate) fn below(stem: &str, last: bool) -> (String, String) {
    let (corner, side) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
    (format!("{stem}{corner}"), format!("{stem}{side}"))
}

/// `DESCRIBE query`: its columns.
fn describe(work: &mut Work<'_>, query: &Query) -> Result<Outcome> {
    let view = work.view()?;
    let ready = work.ready(view, query)?;
    let schema = ready.schema();
    let text = |values: Vec<String>| Arc::new(StringArray::from(values)) as ArrayRef;
    let kind = |field: &Arc<Field>| match SqlType::from_arrow(field.data_type()) {
        Some(kind) => kind.to_string(),
        None => field.data_type().to_string(),
    };
    let nullable = |field: &Arc<Field>| if field.is_nullable() { "YES" } else { "NO" }.to_string();
    let columns = vec![
        text(schema.fields().iter().map(|field| field.name().clone()).collect()),
        text(schema.fields().iter().map(kind).collect()),
        text(schema.fields().iter().map(nullable).collect()),
    ];
    Ok(Outcome::Rows(RowStream::ready(text_batch(&["column_name", "column_type", "null"], columns)?)))
}

fn lines_batch(lines: Vec<String>) -> Result<RecordBatch> {
    text_batch(&["plan"], vec![Arc::new(StringArray::from(lines))])
}

fn text_batch(names: &[&str], columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let fields = names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect::<Vec<_>>();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| Error::internal(error.to_string()))
}
