//! `CREATE MATERIALIZED VIEW`.
//!
//! The statement makes a columnar table with the columns of the query, fills it, and keeps the text of the query beside
//! it. Only refreshes change the rows; every other statement that changes a table refuses a materialized view. If one
//! of the columns has the buckets of the time column of the base table, it is the time column of the view.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_query::binder::BoundQuery;
use rowmill_query::changed_groups::GroupedQuery;
use rowmill_storage::{TableDef, TimeTableDef};
use rowmill_txn::{ColumnSpec, MaterializedView, RefreshRule, Snapshot, Transaction};
use sqlparser::ast::{CreateTableOptions, CreateView, ViewColumnDef};

use super::clause::refuse;
use super::column_spec::{check_name, check_names_distinct};
use super::create_table::type_of_field;
use super::key_clauses::def_of;
use super::refresh::{bind_view, compute_all};
use super::relation;
use crate::names::{QualifiedName, qualified};
use crate::outcome::Outcome;
use crate::session::Work;

pub(super) const STATEMENT: &str = "CREATE MATERIALIZED VIEW";

/// The parts of the syntax tree that we execute. All others were refused.
struct Definition {
    name: QualifiedName,
    if_not_exists: bool,
    column_names: Vec<String>,
    sql: String,
    rule: RefreshRule,
}

pub(crate) fn run(work: &mut Work<'_>, create: &CreateView) -> Result<Outcome> {
    let definition = definition(work, create)?;
    // Rows that the open transaction has written have no final numbers yet, so no refresh point can name them.
    let has_point = !work.session.in_transaction();
    work.write(|work, transaction| create_filled(work, transaction, definition, has_point))?;
    Ok(Outcome::Done { tag: STATEMENT })
}

fn create_filled(
    work: &mut Work<'_>,
    transaction: &mut Transaction,
    definition: Definition,
    has_point: bool,
) -> Result<()> {
    let Definition { name, if_not_exists, column_names, sql, rule } = definition;
    let before = transaction.view()?;
    let schema = relation::schema(before.catalog(), &name.schema)?.id;
    if let Some(found) = relation::find(before.catalog(), &name) {
        let exists = format!("there is a {} \"{}\" already", found.kind().name(), found.name());
        if if_not_exists {
            work.notice(exists);
            return Ok(());
        }
        return Err(
            Error::new(ErrorKind::DuplicateTable, exists).hint("CREATE MATERIALIZED VIEW IF NOT EXISTS keeps it")
        );
    }
    let bound = bind_view(work, &before, &sql)?;
    let columns = columns_of(&name, &column_names, &bound)?;
    let id = transaction.create_table(schema, &name.spelled, columns)?;
    let grouped = GroupedQuery::of(bound.clone()).ok();
    if let Some(place) = grouped.and_then(|grouped| grouped.time_output()) {
        // Queries of the view can then be sampled by longer buckets.
        let column = def_of(transaction, id)?.columns[place].id;
        transaction.set_time_table(id, TimeTableDef::new(column))?;
    }
    let table = def_of(transaction, id)?;
    let filled = compute_all(work, transaction, &table, &before, bound)?;
    transaction.set_materialized(MaterializedView {
        table: id,
        sql,
        refresh: rule,
        full_because: filled.full_because,
        refreshed: has_point.then_some(filled.point),
    })
}

/// Returns the columns of the table. The statement may name them, and the query gives their types.
fn columns_of(name: &QualifiedName, names: &[String], bound: &BoundQuery) -> Result<Vec<ColumnSpec>> {
    let output = &bound.query.output;
    if !names.is_empty() && names.len() != output.len() {
        let message = format!(
            "materialized view \"{}\" is given {} column names, but its query has {} columns",
            name.spelled,
            names.len(),
            output.len()
        );
        return Err(Error::new(ErrorKind::CardinalityViolation, message));
    }
    if output.is_empty() {
        let message = format!("the query of materialized view \"{}\" has no columns", name.spelled);
        return Err(Error::new(ErrorKind::InvalidDefinition, message));
    }
    let mut columns = Vec::with_capacity(output.len());
    for (place, (id, spelled)) in output.iter().enumerate() {
        let spelled = names.get(place).unwrap_or(spelled);
        check_name(spelled)?;
        columns.push(ColumnSpec::new(spelled, type_of_field(spelled, &bound.query.columns.get(*id).kind)?));
    }
    check_names_distinct(columns.iter().map(|column| column.name.as_str())).map_err(|error| {
        let message = format!("two columns of the result have the same name: {}", error.message());
        Error::new(error.kind(), message).hint("give one of them another name")
    })?;
    Ok(columns)
}

/// Returns an error unless the query of a materialized view still gives the columns of its table over `after`.
pub(super) fn check_columns(
    work: &Work<'_>,
    after: &Arc<Snapshot>,
    table: &TableDef,
    view: &MaterializedView,
) -> Result<()> {
    same_columns(table, &bind_view(work, after, &view.sql)?)
}

/// Returns an error unless the query gives the columns of the table.
pub(super) fn same_columns(table: &TableDef, bound: &BoundQuery) -> Result<()> {
    let found = bound.query.output.iter().map(|(id, _)| &bound.query.columns.get(*id).kind);
    let wanted: Vec<_> = table.columns.iter().map(|column| column.kind.arrow()).collect();
    match found.eq(wanted.iter()) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::InvalidDefinition,
            format!("the query of materialized view \"{}\" no longer gives the columns that it has", table.name),
        )
        .hint("drop the materialized view and create it again")),
    }
}

/// Destructures the syntax tree and refuses the clauses that we do not execute.
fn definition(work: &Work<'_>, create: &CreateView) -> Result<Definition> {
    let CreateView {
        or_alter,
        or_replace,
        materialized: _,
        secure,
        name,
        name_before_not_exists: _,
        columns,
        query: _,
        options,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists,
        temporary,
        copy_grants,
        to,
        params,
    } = create;
    if *or_replace {
        return Err(super::clause::unsupported(STATEMENT, "OR REPLACE")
            .hint("DROP MATERIALIZED VIEW IF EXISTS name makes room for the new one"));
    }
    refuse(
        STATEMENT,
        [
            (*or_alter, "OR ALTER"),
            (*secure, "SECURE"),
            (*options != CreateTableOptions::None, "WITH or another list of options"),
            (!cluster_by.is_empty(), "CLUSTER BY"),
            (comment.is_some(), "COMMENT"),
            (*with_no_schema_binding, "WITH NO SCHEMA BINDING"),
            (*temporary, "TEMPORARY"),
            (*copy_grants, "COPY GRANTS"),
            (to.is_some(), "TO"),
            (params.is_some(), "ALGORITHM, DEFINER or SQL SECURITY"),
            (work.statement.parameter_count() > 0, "a parameter in its query"),
        ],
    )?;
    let name = qualified(name, work.statement.spellings())?;
    check_name(&name.spelled)?;
    let mut column_names = Vec::with_capacity(columns.len());
    for ViewColumnDef { name, data_type, options } in columns {
        refuse(
            STATEMENT,
            [(data_type.is_some(), "the type of a column"), (options.is_some(), "the options of a column")],
        )?;
        column_names.push(work.statement.spell(name).to_string());
    }
    let sql = work.statement.query_text().ok_or_else(|| Error::internal("a materialized view has a query after AS"))?;
    let rule = work.statement.refresh_rule().unwrap_or(RefreshRule::Immediate);
    Ok(Definition { name, if_not_exists: *if_not_exists, column_names, sql: sql.to_string(), rule })
}
