//! Views: planned from their text wherever they are used.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::metadata::FieldMetadata;
use datafusion::datasource::ViewTable;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use rowmill_base::{Error, ErrorKind, Result, Settings};
use rowmill_txn::ViewDef;

use crate::errors::{NoCandidates, from_datafusion};
use crate::names::{SPELLING_KEY, lower};
use crate::parse::{self, Body};
use crate::query;

/// `view` as a table whose columns carry their spelling.
pub(crate) async fn plan(view: &ViewDef, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    let plan = plan_query(view, state).await.map_err(|error| {
        let kind = error.kind();
        let hinted = Error::new(kind, format!("the view \"{}\" cannot be planned: {}", view.name, error.message()));
        match error.hint_text() {
            Some(hint) => hinted.hint(hint),
            None => hinted,
        }
    })?;
    Ok(Arc::new(ViewTable::new(plan, Some(view.sql.clone()))))
}

async fn plan_query(view: &ViewDef, state: &SessionState) -> Result<LogicalPlan> {
    let mut statements = parse::parse(&view.sql, &Settings::default())?;
    let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
        return Err(Error::corrupt(format!("the text of the view \"{}\" is not one statement", view.name)));
    };
    let Body::Sql(sql) = statement.body() else {
        return Err(Error::corrupt(format!("the text of the view \"{}\" is not a query", view.name)));
    };
    let (plan, mut names) = query::plan_named(state, (**sql).clone(), statement.spellings())
        .await
        .map_err(|error| from_datafusion(error, &NoCandidates))?;
    if view.column_names.len() > names.len() {
        return Err(Error::new(
            ErrorKind::CardinalityViolation,
            format!("it names {} columns, but its query has {}", view.column_names.len(), names.len()),
        ));
    }
    names.splice(..view.column_names.len(), view.column_names.iter().cloned());
    rename(plan, &names).map_err(|error| from_datafusion(error, &NoCandidates))
}

/// `plan` with its columns called `names`.
fn rename(plan: LogicalPlan, names: &[String]) -> datafusion::common::Result<LogicalPlan> {
    let columns = plan.schema().columns();
    let renamed = columns.into_iter().zip(names).map(|(column, name)| {
        let spelling = FieldMetadata::from(BTreeMap::from([(SPELLING_KEY.to_string(), name.clone())]));
        Expr::Column(column).alias_with_metadata(lower(name), Some(spelling))
    });
    LogicalPlanBuilder::from(plan).project(renamed)?.build()
}
