//! `CREATE VIEW`.
//!
//! A view is kept as the text of its query and planned again at each use. `CREATE VIEW` plans it once, so that a view
//! that cannot work is refused.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};
use rowmill_txn::{Transaction, ViewDef};
use sqlparser::ast::{CreateTableOptions, CreateView, ViewColumnDef};

use super::clause::refuse;
use super::column_spec::{check_name, check_names_distinct};
use super::dependents::Dependents;
use super::relation::{self, NamedRelation, RelationId, RelationKind, written};
use crate::names::{QualifiedName, qualified};
use crate::outcome::Outcome;
use crate::session::{Work, temporary};

const STATEMENT: &str = "CREATE VIEW";

/// The parts of the syntax tree that we execute. All others were refused.
struct ViewDefinition {
    name: QualifiedName,
    is_temporary: bool,
    or_replace: bool,
    if_not_exists: bool,
    column_names: Vec<String>,
    sql: String,
}

pub(crate) fn run(work: &mut Work<'_>, create: &CreateView) -> Result<Outcome> {
    let definition = definition(work, create)?;
    work.write(|work, transaction| create_view(work, transaction, definition))?;
    Ok(Outcome::Done { tag: STATEMENT })
}

fn create_view(work: &mut Work<'_>, transaction: &mut Transaction, definition: ViewDefinition) -> Result<()> {
    let ViewDefinition { name, is_temporary, or_replace, if_not_exists, column_names, sql } = definition;
    if is_temporary {
        temporary::make_schema(transaction, &name.schema)?;
    }
    let before = transaction.view()?;
    let schema = relation::schema(before.catalog(), &name.schema)?.id;
    let found = relation::find(before.catalog(), &name);
    if let Some(found) = &found {
        let exists = format!("there is a {} \"{}\" already", found.kind().name(), found.name());
        match found {
            NamedRelation::View(_) if or_replace => {}
            NamedRelation::Table(_) | NamedRelation::Materialized(_) if or_replace => {
                let drop = format!("DROP {} {}", found.kind().name().to_uppercase(), written(&name));
                return Err(relation::wrong_kind(found.name(), found.kind(), RelationKind::View)
                    .hint(format!("{drop} makes room for the view")));
            }
            _ if if_not_exists => {
                work.notice(exists);
                return Ok(());
            }
            _ => {
                return Err(Error::new(ErrorKind::DuplicateTable, exists)
                    .hint("CREATE VIEW IF NOT EXISTS keeps it, CREATE OR REPLACE VIEW replaces a view"));
            }
        }
    }
    // The views over a replaced view must still work over the new one.
    let dependents = match &found {
        Some(found) => Dependents::of(before.catalog(), [RelationId::from(found)]),
        None => Dependents::default(),
    };
    let id = transaction.create_view(schema, &name.spelled, &sql, column_names, or_replace)?;
    // The view must exist before we plan it, because it may name itself, which planning refuses.
    let after = transaction.view()?;
    let view = after.catalog().view_by_id(id).expect("the view was created in this transaction");
    check_planned(work, &after, view)?;
    dependents.check(work, &after)?;
    // The query of a materialized view may mean something else now.
    dependents.forget_refresh_points(transaction)
}

/// Plans the view as its readers will, and checks that the names of its columns differ.
fn check_planned(work: &Work<'_>, after: &Arc<rowmill_txn::Snapshot>, view: &Arc<ViewDef>) -> Result<()> {
    let names = work.plan_view(view, after)?;
    if !view.column_names.is_empty() && view.column_names.len() != names.len() {
        return Err(Error::new(
            ErrorKind::CardinalityViolation,
            format!(
                "view \"{}\" is given {} column names, but its query has {} columns",
                view.name,
                view.column_names.len(),
                names.len()
            ),
        ));
    }
    check_names_distinct(names.iter().map(String::as_str)).map_err(|error| {
        let message = format!("two columns of the result have the same name: {}", error.message());
        Error::new(error.kind(), message).hint("give one of them another name")
    })
}

/// Destructures the syntax tree and refuses the clauses that we do not execute.
fn definition(work: &mut Work<'_>, create: &CreateView) -> Result<ViewDefinition> {
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
    refuse(
        STATEMENT,
        [
            (*or_alter, "OR ALTER"),
            (*secure, "SECURE"),
            (*options != CreateTableOptions::None, "WITH or another list of options"),
            (!cluster_by.is_empty(), "CLUSTER BY"),
            (comment.is_some(), "COMMENT"),
            (*with_no_schema_binding, "WITH NO SCHEMA BINDING"),
            (*copy_grants, "COPY GRANTS"),
            (to.is_some(), "TO"),
            (params.is_some(), "ALGORITHM, DEFINER or SQL SECURITY"),
            (*or_replace && *if_not_exists, "OR REPLACE together with IF NOT EXISTS"),
            (work.statement.parameter_count() > 0, "a parameter in its query"),
        ],
    )?;
    let name = match *temporary {
        true => temporary::new_name(work, name, "view")?,
        false => qualified(name, work.statement.spellings())?,
    };
    check_name(&name.spelled)?;
    let mut column_names = Vec::with_capacity(columns.len());
    for ViewColumnDef { name, data_type, options } in columns {
        refuse(
            STATEMENT,
            [(data_type.is_some(), "the type of a column"), (options.is_some(), "the options of a column")],
        )?;
        let name = work.statement.spell(name);
        check_name(name)?;
        column_names.push(name.to_string());
    }
    let sql = work.statement.query_text().ok_or_else(|| Error::internal("a CREATE VIEW has a query after AS"))?;
    Ok(ViewDefinition {
        name,
        is_temporary: *temporary,
        or_replace: *or_replace,
        if_not_exists: *if_not_exists,
        column_names,
        sql: sql.to_string(),
    })
}
