//! From DataFusion's logical plan to the engine's.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::AggregateFunction as AggregateCall;
use datafusion::logical_expr::logical_plan::{Aggregate as AggregateNode, TableScan};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use rowmill_exec::group::{GroupRequest, VectorFunction};
use rowmill_plan as plan;
use rowmill_plan::{AggregateFunction, Predicate, is_aggregated, is_key_kind};

use super::function::ExprFunction;
use super::group_table::GroupTable;
use super::relation::{Relation, relation, replace_columns};
use crate::errors::plain;
use crate::predicate::translate;
use crate::semantics::total_error;
use crate::table_scan::{SnapshotTable, where_clause};

/// A GROUP BY over a stored table as a leaf that the engine runs; `None` if it does not.
pub(super) fn group(node: &LogicalPlan, state: &SessionState) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = node else { return Ok(None) };
    let Some(relation) = relation(&aggregate.input)? else { return Ok(None) };
    let provider = source_as_provider(&relation.scan.source)?;
    let Some(table) = (&*provider as &dyn std::any::Any).downcast_ref::<SnapshotTable>() else { return Ok(None) };
    let input = aggregate.input.schema();
    let mut lowering = Lowering { table, relation, input, state, functions: Vec::new(), texts: Vec::new() };
    let Some(group) = lowering.group(aggregate)? else { return Ok(None) };
    let context = Arc::clone(table.context());
    let leaf = GroupTable {
        text: lowering.text_of(&group),
        request: GroupRequest {
            group,
            functions: lowering.functions,
            schema: Arc::clone(aggregate.schema.inner()),
            top: None,
            limit: None,
            batch_rows: context.settings.number("batch_rows") as usize,
            cancel: context.cancel.clone(),
            broker: context.broker.clone(),
        },
        source: Arc::clone(table.source()),
        context,
    };
    Ok(Some(LogicalPlan::TableScan(TableScan {
        projected_schema: Arc::clone(&aggregate.schema),
        source: provider_as_source(Arc::new(leaf)),
        projection: None,
        filters: Vec::new(),
        fetch: None,
        ..lowering.relation.scan.clone()
    })))
}

struct Lowering<'a> {
    table: &'a SnapshotTable,
    relation: Relation<'a>,
    input: &'a DFSchema,
    state: &'a SessionState,
    functions: Vec<Arc<dyn VectorFunction>>,
    /// The functions as EXPLAIN shows them.
    texts: Vec<String>,
}

impl Lowering<'_> {
    fn group(&mut self, aggregate: &AggregateNode) -> Result<Option<plan::Group>> {
        let (schema, keys) = (aggregate.schema.inner(), aggregate.group_expr.len());
        if schema.fields().len() != keys + aggregate.aggr_expr.len() {
            return Ok(None);
        }
        let table = self.table.source().table();
        let predicates = self.relation.scan.filters.iter().map(|filter| translate(filter, table));
        let Some(predicates) = predicates.collect::<Option<Vec<Predicate>>>() else { return Ok(None) };
        let mut group = plan::Group { predicates, keys: Vec::new(), aggregates: Vec::new() };
        for (expr, field) in aggregate.group_expr.iter().zip(schema.fields()) {
            let kind = field.data_type().clone();
            if !is_key_kind(&kind) || matches!(expr, Expr::GroupingSet(_)) {
                return Ok(None);
            }
            let Some(expr) = self.expr(expr.clone().unalias(), &kind)? else { return Ok(None) };
            // What the planner believes of an expression is not relied on.
            let nullable = match expr {
                plan::Expr::Column(column) => table.columns[column].nullable,
                plan::Expr::Function(_) => true,
            };
            group.keys.push(plan::Key { expr, kind, nullable });
        }
        for (expr, field) in aggregate.aggr_expr.iter().zip(&schema.fields()[keys..]) {
            let Expr::AggregateFunction(call) = expr.clone().unalias() else { return Ok(None) };
            let Some(aggregate) = self.aggregate(&call, field.data_type())? else { return Ok(None) };
            group.aggregates.push(aggregate);
        }
        Ok(Some(group))
    }

    fn aggregate(&mut self, call: &AggregateCall, kind: &DataType) -> Result<Option<plan::Aggregate>> {
        let params = &call.params;
        let function = match call.func.name() {
            "count" => AggregateFunction::Count,
            "sum" => AggregateFunction::Sum,
            "avg" => AggregateFunction::Average,
            "min" => AggregateFunction::Min,
            "max" => AggregateFunction::Max,
            _ => return Ok(None),
        };
        let is_plain = !params.distinct
            && params.filter.is_none()
            && params.order_by.is_empty()
            && params.null_treatment.is_none();
        let ([argument], true) = (params.args.as_slice(), is_plain) else { return Ok(None) };
        if function == AggregateFunction::Count
            && let Expr::Literal(value, _) = argument
            && !value.is_null()
        {
            return Ok(Some(plan::Aggregate::new(function, None, kind.clone())));
        }
        let of = argument.get_type(self.input)?;
        if !is_aggregated(function, &of) {
            return Ok(None);
        }
        let Some(expr) = self.expr(argument.clone(), &of)? else { return Ok(None) };
        let total_error = total_error(call.func.name(), &of);
        Ok(Some(plan::Aggregate { total_error, ..plan::Aggregate::new(function, Some((expr, of)), kind.clone()) }))
    }

    /// An expression over the columns of the part as one over those of the table.
    fn expr(&mut self, expr: Expr, kind: &DataType) -> Result<Option<plan::Expr>> {
        let expr = match &self.relation.exprs {
            Some(exprs) => replace_columns(expr, self.input, exprs)?.unalias(),
            None => expr,
        };
        let is_taken = |part: &Expr| {
            !matches!(
                part,
                Expr::ScalarSubquery(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::SetComparison(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::Placeholder(_)
                    | Expr::ScalarVariable(..)
            )
        };
        if expr.is_volatile() || expr.exists(|part| Ok(!is_taken(part)))? {
            return Ok(None);
        }
        let scanned = &self.relation.scan.projected_schema;
        let stored = self.table.source().table();
        let mut places = BTreeSet::new();
        for column in expr.column_refs() {
            places.insert(scanned.index_of_column(column)?);
        }
        let names = places.iter().map(|place| scanned.qualified_field(*place));
        let columns: Option<Vec<usize>> = names.clone().map(|(_, field)| stored.column_index(field.name())).collect();
        let Some(columns) = columns else { return Ok(None) };
        if let (Expr::Column(_), [column]) = (&expr, columns.as_slice())
            && stored.columns[*column].kind.arrow() == *kind
        {
            return Ok(Some(plan::Expr::Column(*column)));
        }
        if columns.is_empty() {
            return Ok(None);
        }
        let fields: Vec<(Option<TableReference>, _)> =
            names.map(|(table, field)| (table.cloned(), Arc::clone(field))).collect();
        let schema = DFSchema::new_with_metadata(fields, Default::default())?;
        let function = ExprFunction::new(&expr, &schema, columns, kind.clone(), self.state)?;
        self.functions.push(Arc::new(function));
        self.texts.push(self.shown(expr)?);
        Ok(Some(plan::Expr::Function(self.functions.len() - 1)))
    }

    /// An expression with the columns as they are spelled.
    fn shown(&self, expr: Expr) -> Result<String> {
        let stored = self.table.source().table();
        let spelled = |column: &Column| {
            let place = stored.column_index(&column.name)?;
            Some(Expr::Column(Column::from_name(&stored.columns[place].name)))
        };
        let expr = expr.transform(|expr| match &expr {
            Expr::Column(column) => Ok(spelled(column).map_or(Transformed::no(expr), Transformed::yes)),
            _ => Ok(Transformed::no(expr)),
        });
        Ok(plain(&expr.data()?.to_string()))
    }

    /// What EXPLAIN says of a grouping.
    fn text_of(&self, group: &plan::Group) -> String {
        let table = self.table.source().table();
        let name = |column: usize| table.columns[column].name.clone();
        let shown = |expr: plan::Expr| match expr {
            plan::Expr::Column(column) => name(column),
            plan::Expr::Function(function) => self.texts[function].clone(),
        };
        let mut text = table.name.clone();
        text += &where_clause(&group.predicates, table);
        if !group.keys.is_empty() {
            let keys: Vec<String> = group.keys.iter().map(|key| shown(key.expr)).collect();
            text += &format!(", by [{}]", keys.join(", "));
        }
        for aggregate in &group.aggregates {
            let argument = aggregate.argument.as_ref().map_or_else(|| "*".to_owned(), |(expr, _)| shown(*expr));
            text += &format!(", {}({argument})", aggregate.function.name());
        }
        text
    }
}
