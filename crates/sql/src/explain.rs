//! `EXPLAIN` and `EXPLAIN ANALYZE`: shows which executor runs a statement and its plan. The plan is a tree of the
//! engine's operators, or the steps of a program in the order of their execution.
//!
//! ```text
//! Executor: engine
//! Sort: by count(*) DESC, first 10 rows  (~10 rows)
//! └─ Group: by URL, count(*)  (~17 rows)
//!    └─ Scan: hits, columns [URL], where URL <> '', 20 blocks, 10000000 rows  (~5000000 rows)
//!
//! Executor: program
//! Read orders by index by_customer: customer = $1
//! Give 0.id, 0.total
//! ```
//!
//! A change of rows first shows what it writes: the table, the action of a taken key, the conditions.
//!
//! `EXPLAIN ANALYZE` always runs a query in the engine. A program measures nothing, which is a part of why it is fast.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_plan::program::Program;
use rowmill_query::optimizer::Executor;
use rowmill_query::program::DefinitionNames;
use rowmill_txn::Snapshot;
use sqlparser::ast::{DescribeAlias, Expr, Query, Statement as Sql, UtilityOption, Value};

use crate::engine_query::{EngineQuery, PlannedQuery, bind};
use crate::outcome::{Outcome, RowStream};
use crate::parse::CopyStatement;
use crate::query::kinds_of;
use crate::session::Work;
use crate::statement::copy;
use crate::statement::write::binder::WriteBinder;
use crate::statement::write::{BoundWrite, ChangeSyntax};

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
    if let (DescribeAlias::Explain, Some(change)) = (describe_alias, ChangeSyntax::of(statement)) {
        return match analyze {
            true => Err(no_query("EXPLAIN ANALYZE takes a query, because it would run a change of rows")),
            false => explain_change(work, |binder| binder.bind(change)),
        };
    }
    match (describe_alias, &**statement) {
        (DescribeAlias::Describe | DescribeAlias::Desc, Sql::Query(query)) => describe(work, query),
        (DescribeAlias::Explain, Sql::Query(query)) if analyze => explain_analyze(work, query),
        (DescribeAlias::Explain, Sql::Query(query)) => explain(work, query),
        _ => Err(no_query("EXPLAIN takes a query or a change of rows")),
    }
}

fn no_query(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, message).hint("explain the SELECT that the statement is built on")
}

/// Reads the options in parentheses. `ANALYZE` is on unless its value says otherwise.
fn wants_analyze(options: &[UtilityOption]) -> Result<bool> {
    let mut analyze = false;
    for option in options {
        // What these ask for is no part of our plans, or always one. They may only be switched.
        let is_about_text = ["costs", "verbose", "buffers", "timing", "summary"].contains(&option.name.value.as_str());
        if is_about_text {
            continue;
        }
        if option.name.value != "analyze" {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("EXPLAIN has no option {}", option.name.value.to_uppercase()),
            )
            .hint("its option is ANALYZE; COSTS, VERBOSE, BUFFERS, TIMING and SUMMARY change nothing"));
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
    // Plans and programs are as deep as the statement, so we also print and drop them on the large stack.
    let lines = work.with_planning_room(|| {
        let context = work.context(Arc::clone(&view));
        let bound = bind(&context, query, work.statement.spellings(), &kinds_of(work.params))?;
        // A query runs as a program whenever it has one, so EXPLAIN must check that first.
        if let Some(program) = work.query_program(&view, bound.clone())? {
            return Ok(program_lines(&program, &view));
        }
        let planned = PlannedQuery::of_bound(&context, bound, Executor::Engine)?;
        let query = EngineQuery::new(planned, work.params, &context)?;
        Ok(std::iter::once("Executor: engine".to_owned()).chain(query.lines(false)).collect())
    })?;
    Ok(Outcome::Rows(RowStream::ready(lines_batch(lines)?)))
}

/// Runs `EXPLAIN COPY ... FROM`.
pub(crate) fn explain_copy(work: &mut Work<'_>, statement: &CopyStatement) -> Result<Outcome> {
    if !statement.from {
        return Err(no_query("EXPLAIN takes COPY ... FROM, because COPY ... TO only runs a query"));
    }
    explain_change(work, |binder| copy::plan_of_load(binder, statement))
}

fn explain_change<'s>(
    work: &mut Work<'_>,
    bind: impl FnOnce(&WriteBinder<'_>) -> Result<BoundWrite<'s>>,
) -> Result<Outcome> {
    let view = work.view()?;
    let kinds = kinds_of(work.params);
    let lines = work.with_planning_room(|| {
        let binder = WriteBinder::new(work, &view, &kinds);
        let write = bind(&binder)?;
        match work.change_program(&view, &binder, write.clone())? {
            Some(program) => Ok(program_lines(&program, &view)),
            None => write_lines(work, &view, &write),
        }
    })?;
    Ok(Outcome::Rows(RowStream::ready(lines_batch(lines)?)))
}

/// Returns the plan of a change that the engine runs as lines: the table, the action of a taken key, the conditions,
/// and then the operators of its source.
fn write_lines(work: &Work<'_>, view: &Arc<Snapshot>, write: &BoundWrite<'_>) -> Result<Vec<String>> {
    let mut lines = vec!["Executor: engine".to_owned()];
    lines.extend(write.plan.lines(&DefinitionNames(std::slice::from_ref(&write.table))));
    if let Some(query) = write.plan.query() {
        let context = work.context(Arc::clone(view));
        let planned = PlannedQuery::of_bound(&context, query.clone(), Executor::Engine)?;
        lines.extend(EngineQuery::new(planned, work.params, &context)?.lines(false));
    }
    Ok(lines)
}

/// Returns the steps of a program as lines.
fn program_lines(program: &Program, view: &Snapshot) -> Vec<String> {
    let definitions = program.body.tables().into_iter().filter_map(|id| view.catalog().table_by_id(id).cloned());
    let text = program.body.text(&DefinitionNames(&definitions.collect::<Vec<_>>()));
    std::iter::once("Executor: program").chain(text.lines()).map(str::to_owned).collect()
}

fn explain_analyze(work: &mut Work<'_>, query: &Query) -> Result<Outcome> {
    let view = work.view()?;
    let ready = work.ready(view, query)?;
    let planned = work.started.elapsed();
    let query = Arc::clone(&ready.query);
    let mut rows = 0;
    // The rows are counted and dropped.
    for batch in ready.start(work.progress().cloned(), work.started) {
        rows += batch?.num_rows();
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (planned_ms, ran_ms) = (ms(planned), ms(work.started.elapsed() - planned));
    let mut lines = vec![format!(
        "{rows} rows, planned in {planned_ms:.1} ms, run by the engine in {ran_ms:.1} ms; the times below add up over \
         threads"
    )];
    lines.extend(query.lines(true));
    Ok(Outcome::Rows(RowStream::ready(lines_batch(lines)?)))
}

/// Returns the prefix of the line of an operator's input, and the prefix of the lines below that input. `last` says
/// whether the input is the operator's last one.
pub(crate) fn below(stem: &str, last: bool) -> (String, String) {
    let (corner, side) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
    (format!("{stem}{corner}"), format!("{stem}{side}"))
}

/// Runs `DESCRIBE query`, which shows the columns of the query.
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

/// Returns the column of every `EXPLAIN`.
pub(crate) fn plan_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(PLAN, DataType::Utf8, false)]))
}

/// The name of the column of `EXPLAIN`.
const PLAN: &str = "plan";

fn lines_batch(lines: Vec<String>) -> Result<RecordBatch> {
    text_batch(&[PLAN], vec![Arc::new(StringArray::from(lines))])
}

fn text_batch(names: &[&str], columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let fields = names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect::<Vec<_>>();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| Error::internal(error.to_string()))
}
