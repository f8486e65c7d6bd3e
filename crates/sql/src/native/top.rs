//! ORDER BY with a LIMIT over a stored table: the scan is told, and reads no rows that cannot be among the first.
//!
//! The sort stays where it is, over a scan that gives few rows.

use std::sync::Arc;

use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::logical_plan::{Sort, TableScan};
use datafusion::logical_expr::{Expr, LogicalPlan};
use rowmill_exec::scan::{TopKey, TopRequest};

use super::relation::{relation, replace_columns};
use crate::table_scan::SnapshotTable;

/// Above so many rows their keys are no small thing to keep.
const ROWS_MAX: usize = 10_000;

/// A sort of which only the first rows are wanted, over a scan that knows it; `None` for any other plan.
pub(super) fn with_bound(node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Sort(Sort { expr: keys, input, fetch: Some(rows) }) = node else { return Ok(None) };
    let Some(relation) = relation(input)? else { return Ok(None) };
    let provider = source_as_provider(&relation.scan.source)?;
    let Some(table) = (&*provider as &dyn std::any::Any).downcast_ref::<SnapshotTable>() else { return Ok(None) };
    if *rows == 0 || *rows > ROWS_MAX || keys.is_empty() {
        return Ok(None);
    }
    let stored = table.source().table();
    let mut top = TopRequest { keys: Vec::with_capacity(keys.len()), rows: *rows };
    for key in keys {
        let expr = match &relation.exprs {
            Some(exprs) => replace_columns(key.expr.clone(), input.schema(), exprs)?.unalias(),
            None => key.expr.clone(),
        };
        let Expr::Column(column) = expr else { return Ok(None) };
        let kind = relation.scan.projected_schema.as_ref().field_from_column(&column)?.data_type().clone();
        let Some(place) = stored.column_index(&column.name) else { return Ok(None) };
        if stored.columns[place].kind.arrow() != kind || kind.is_nested() {
            return Ok(None);
        }
        top.keys.push(TopKey { column: place, descending: !key.asc, nulls_first: key.nulls_first });
    }
    let source = provider_as_source(Arc::new(table.with_top(top)));
    let input = LogicalPlan::clone(input).transform_down(|node| match node {
        LogicalPlan::TableScan(scan) => {
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source: Arc::clone(&source), ..scan })))
        }
        other => Ok(Transformed::no(other)),
    });
    let input = Arc::new(input.data()?);
    Ok(Some(LogicalPlan::Sort(Sort { expr: keys.clone(), input, fetch: Some(*rows) })))
}
