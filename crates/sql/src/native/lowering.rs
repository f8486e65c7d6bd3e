//! From DataFusion's optimised logical plan to the engine's.
//!
//! A plan is taken from its leaves up, as far as the engine runs it. What it does not run stays a node of the logical plan
//! over leaves that are native.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::{AggregateFunction as AggregateCall, Sort as SortExpr};
use datafusion::logical_expr::logical_plan::{
    Aggregate as AggregateNode, FetchType, Filter, Limit, Projection, SkipType, Sort, TableScan,
};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use rowmill_exec::function::VectorFunction;
use rowmill_plan as plan;
use rowmill_plan::{AggregateFunction, Names, Node, Predicate, SortKey, is_aggregated, is_key_kind};
use rowmill_storage::TableSource;

use super::function::ExprFunction;
use super::join::narrowed;
use super::rows::Rows;
use super::table::leaf;
use super::{NativePlan, PlanShape};
use crate::catalog::StatementContext;
use crate::errors::plain;
use crate::predicate::translate;
use crate::semantics::total_error;
use crate::table_scan::SnapshotTable;

/// A part of a logical plan after lowering.
pub(super) enum Lowered {
    /// All of it is native.
    Native(Box<Rows>),
    /// Some of what is below it may be, as leaves.
    Foreign(LogicalPlan),
}

/// Lowers one logical plan.
pub(super) struct Lowerer<'a> {
    state: &'a SessionState,
    /// Of the statement, once a table has been met.
    context: Option<Arc<StatementContext>>,
    tables: Vec<Arc<dyn TableSource>>,
    functions: Vec<Arc<dyn VectorFunction>>,
    /// The functions as EXPLAIN shows them.
    texts: Vec<String>,
    /// Columns of operators that were named.
    named: usize,
}

impl<'a> Lowerer<'a> {
    pub(super) fn new(state: &'a SessionState) -> Lowerer<'a> {
        Lowerer { state, context: None, tables: Vec::new(), functions: Vec::new(), texts: Vec::new(), named: 0 }
    }

    /// Lowers what can be of `plan`.
    pub(super) fn lower(&mut self, plan: LogicalPlan) -> Result<Lowered> {
        let inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
        let mut lowered = Vec::with_capacity(inputs.len());
        for input in inputs {
            lowered.push(self.lower(input)?);
        }
        if lowered.iter().all(|input| matches!(input, Lowered::Native(_))) {
            let natives = lowered.into_iter().map(|input| match input {
                Lowered::Native(rows) => *rows,
                Lowered::Foreign(_) => unreachable!("all inputs are native"),
            });
            return self.node(plan, natives.collect());
        }
        self.foreign(plan, lowered)
    }

    /// `plan` as a node of DataFusion's over its inputs.
    fn foreign(&mut self, plan: LogicalPlan, inputs: Vec<Lowered>) -> Result<Lowered> {
        let mut inputs = inputs.into_iter();
        let plan = plan.map_children(|original| match inputs.next() {
            Some(Lowered::Native(rows)) if rows.works => {
                Ok(Transformed::yes(self.leaf(*rows, &original)?.unwrap_or(original)))
            }
            Some(Lowered::Foreign(input)) => Ok(Transformed::yes(input)),
            _ => Ok(Transformed::no(original)),
        });
        plan.data().map(Lowered::Foreign)
    }

    /// `plan`, all of whose inputs are native.
    fn node(&mut self, plan: LogicalPlan, inputs: Vec<Rows>) -> Result<Lowered> {
        // What is lowered is given back if the node cannot be.
        let marks = (self.functions.len(), self.tables.len());
        let mut rows = inputs.into_iter();
        let lowered = match (&plan, rows.next()) {
            (LogicalPlan::TableScan(scan), None) => self.scan(scan)?,
            (LogicalPlan::SubqueryAlias(_), Some(input)) => Ok(input),
            (LogicalPlan::Projection(projection), Some(input)) => self.projection(projection, input)?,
            (LogicalPlan::Filter(filter), Some(input)) => self.filter(filter, input)?,
            (LogicalPlan::Aggregate(aggregate), Some(input)) if matches!(input.node, Node::Scan(_)) => self.group(aggregate, input)?,
            (LogicalPlan::Sort(sort), Some(input)) if false => self.sort(sort, input)?,
            (LogicalPlan::Limit(limit), Some(input)) => self.limit(limit, input)?,
            (LogicalPlan::Join(join), Some(left)) if false => {
                let right = rows.next().expect("a join has two inputs");
                self.join(join, left, right)?
            }
            (_, first) => Err(first.into_iter().chain(rows).collect()),
        };
        match lowered {
            Ok(rows) => Ok(Lowered::Native(Box::new(rows))),
            Err(inputs) => {
                self.functions.truncate(marks.0);
                self.texts.truncate(marks.0);
                self.tables.truncate(marks.1);
                let inputs = inputs.into_iter().map(|rows| Lowered::Native(Box::new(rows))).collect();
                self.foreign(plan, inputs)
            }
        }
    }

    /// `rows` as a leaf of DataFusion's plans that gives the columns of `original`, which they were lowered from.
    fn leaf(&mut self, rows: Rows, original: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        match self.whole(rows, original)? {
            Some(native) => leaf(native, original.schema()).map(Some),
            None => Ok(None),
        }
    }

    /// `rows` as a plan that gives the columns of `original`, which they were lowered from.
    pub(super) fn whole(&mut self, rows: Rows, original: &LogicalPlan) -> Result<Option<NativePlan>> {
        let Some(root) = self.projected(rows, original)? else { return Ok(None) };
        let Some(context) = &self.context else { return Ok(None) };
        // Every leaf has lists of its own, with what other leaves need in them too: they are short.
        let shape = PlanShape {
            root,
            tables: self.tables.iter().map(|table| table.table().id).collect(),
            functions: self.functions.clone(),
            texts: self.texts.clone(),
        };
        let (shape, context) = (Arc::new(shape), Arc::clone(context));
        Ok(Some(NativePlan { shape, tables: self.tables.clone(), context }))
    }

    /// `rows` with exactly the columns of `original`, which they were lowered from.
    fn projected(&mut self, rows: Rows, original: &LogicalPlan) -> Result<Option<Node>> {
        let schema = original.schema().inner();
        if rows.is_plain() && rows.node.schema().fields() == schema.fields() {
            return Ok(Some(rows.node));
        }
        let mut exprs = Vec::with_capacity(schema.fields().len());
        for (expr, field) in rows.exprs.clone().into_iter().zip(schema.fields()) {
            let Some(expr) = self.expr(expr, field.data_type(), &rows)? else { return Ok(None) };
            exprs.push(expr);
        }
        Ok(Some(Node::Project { input: Box::new(rows.node), exprs, schema: Arc::clone(schema) }))
    }

    fn scan(&mut self, scan: &TableScan) -> Result<Result<Rows, Vec<Rows>>> {
        let provider = source_as_provider(&scan.source)?;
        let Some(table) = (&*provider as &dyn std::any::Any).downcast_ref::<SnapshotTable>() else {
            return Ok(Err(Vec::new()));
        };
        let source = table.source();
        let stored = source.table();
        let predicates = scan.filters.iter().map(|filter| translate(filter, stored));
        let fields = scan.projected_schema.fields();
        let columns = fields.iter().map(|field| {
            let column = stored.column_index(field.name())?;
            (stored.columns[column].kind.arrow() == *field.data_type()).then_some(column)
        });
        let (Some(predicates), Some(columns)) =
            (predicates.collect::<Option<Vec<Predicate>>>(), columns.collect::<Option<Vec<usize>>>())
        else {
            return Ok(Err(Vec::new()));
        };
        self.context = Some(Arc::clone(table.context()));
        self.tables.push(Arc::clone(source));
        let schema = Arc::clone(scan.projected_schema.inner());
        let node = Node::Scan(plan::Scan { table: self.tables.len() - 1, columns, predicates, schema });
        let rows = Rows::new(node, self.named(fields)?, false);
        Ok(Ok(match scan.fetch {
            None => rows,
            Some(fetch) => rows.map(|node| Node::Limit { input: Box::new(node), skip: 0, rows: Some(fetch) }),
        }))
    }

    fn projection(&mut self, projection: &Projection, input: Rows) -> Result<Result<Rows, Vec<Rows>>> {
        let mut exprs = Vec::with_capacity(projection.expr.len());
        for expr in &projection.expr {
            let expr = input.resolve(expr.clone().unalias_nested().data, projection.input.schema())?;
            if !is_taken(&expr)? {
                return Ok(Err(vec![input]));
            }
            exprs.push(expr);
        }
        narrowed(Rows { exprs, ..input }).map(Ok)
    }

    fn filter(&mut self, filter: &Filter, input: Rows) -> Result<Result<Rows, Vec<Rows>>> {
        let condition = input.resolve(filter.predicate.clone(), filter.input.schema())?;
        match self.expr(condition, &DataType::Boolean, &input)? {
            Some(condition) => Ok(Ok(input.map(|node| Node::Filter { input: Box::new(node), condition }))),
            None => Ok(Err(vec![input])),
        }
    }

    fn sort(&mut self, sort: &Sort, input: Rows) -> Result<Result<Rows, Vec<Rows>>> {
        let mut keys = Vec::with_capacity(sort.expr.len());
        for SortExpr { expr, asc, nulls_first } in &sort.expr {
            let expr = input.resolve(expr.clone(), sort.input.schema())?;
            let kind = expr.get_type(&*input.schema)?;
            if kind.is_nested() {
                return Ok(Err(vec![input]));
            }
            keys.push((expr, SortKey { column: 0, descending: !asc, nulls_first: *nulls_first }));
        }
        let is_column = keys.iter().all(|(expr, _)| input.place(expr).is_some());
        let mut rows = match is_column {
            true => input,
            false => match self.with_columns(input, keys.iter_mut().map(|(expr, _)| expr))? {
                Ok(rows) => rows,
                Err(input) => return Ok(Err(vec![input])),
            },
        };
        let keys = keys.into_iter().map(|(expr, key)| Some(SortKey { column: rows.place(&expr)?, ..key }));
        let Some(keys) = keys.collect::<Option<Vec<SortKey>>>() else { return Ok(Err(vec![rows])) };
        rows.works = true;
        Ok(Ok(rows.map(|node| Node::Sort { input: Box::new(node), keys, skip: 0, rows: sort.fetch })))
    }

    /// `rows` with everything that it gives and `more` as columns; `more` becomes the names of those.
    pub(super) fn with_columns<'e>(
        &mut self,
        rows: Rows,
        more: impl Iterator<Item = &'e mut Expr>,
    ) -> Result<Result<Rows, Rows>> {
        let mut all = rows.exprs.clone();
        let mut places = Vec::new();
        let more: Vec<&mut Expr> = more.collect();
        for expr in &more {
            places.push(all.iter().position(|known| *known == **expr).unwrap_or_else(|| {
                all.push(Expr::clone(expr));
                all.len() - 1
            }));
        }
        let (mut exprs, mut fields) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
        for expr in all {
            let (kind, nullable) = (expr.get_type(&*rows.schema)?, expr.nullable(&*rows.schema)?);
            let Some(expr) = self.expr(expr, &kind, &rows)? else { return Ok(Err(rows)) };
            exprs.push(expr);
            fields.push(Arc::new(Field::new("", kind, nullable)));
        }
        let names = self.named(&fields)?;
        let node = Node::Project { input: Box::new(rows.node), exprs, schema: Arc::clone(names.inner()) };
        let mut columns = Rows::new(node, names, true);
        more.into_iter().zip(places).for_each(|(expr, place)| *expr = columns.exprs[place].clone());
        columns.exprs.truncate(rows.exprs.len());
        Ok(Ok(columns))
    }

    /// Names for the columns of an operator.
    pub(super) fn named(&mut self, fields: &[FieldRef]) -> Result<DFSchemaRef> {
        let fields = fields.iter().map(|field| {
            self.named += 1;
            (None, Arc::new(Field::new(format!("#{}", self.named), field.data_type().clone(), field.is_nullable())))
        });
        DFSchema::new_with_metadata(fields.collect(), Default::default()).map(Arc::new)
    }

    fn limit(&mut self, limit: &Limit, input: Rows) -> Result<Result<Rows, Vec<Rows>>> {
        let (SkipType::Literal(skip), FetchType::Literal(rows)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Ok(Err(vec![input]));
        };
        Ok(Ok(input.map(|node| match node {
            // The sort has been told of all rows up to the end of the limit.
            Node::Sort { input, keys, skip: 0, rows: Some(fetch) } if rows.is_some_and(|rows| rows + skip <= fetch) => {
                Node::Sort { input, keys, skip, rows }
            }
            node => Node::Limit { input: Box::new(node), skip, rows },
        })))
    }

    fn group(&mut self, aggregate: &AggregateNode, input: Rows) -> Result<Result<Rows, Vec<Rows>>> {
        let schema = aggregate.schema.inner();
        match self.keys_and_aggregates(aggregate, &input)? {
            Some(group) => {
                let node = Node::Group { input: Box::new(input.node), group, schema: Arc::clone(schema) };
                Ok(Ok(Rows::new(node, self.named(schema.fields())?, true)))
            }
            None => Ok(Err(vec![input])),
        }
    }

    fn keys_and_aggregates(&mut self, aggregate: &AggregateNode, input: &Rows) -> Result<Option<plan::Group>> {
        let (schema, keys) = (aggregate.schema.inner(), aggregate.group_expr.len());
        if schema.fields().len() != keys + aggregate.aggr_expr.len() {
            return Ok(None);
        }
        let below = aggregate.input.schema();
        let mut group = plan::Group { predicates: Vec::new(), keys: Vec::new(), aggregates: Vec::new() };
        for (expr, field) in aggregate.group_expr.iter().zip(schema.fields()) {
            let kind = field.data_type().clone();
            if !is_key_kind(&kind) || matches!(expr, Expr::GroupingSet(_)) {
                return Ok(None);
            }
            let expr = input.resolve(expr.clone(), below)?;
            if expr.column_refs().is_empty() {
                return Ok(None);
            }
            // What the planner believes of an expression is not relied on.
            let nullable = match input.place(&expr) {
                Some(place) => input.node.is_nullable(place),
                None => true,
            };
            let Some(expr) = self.expr(expr, &kind, input)? else { return Ok(None) };
            group.keys.push(plan::Key { expr, kind, nullable });
        }
        for (expr, field) in aggregate.aggr_expr.iter().zip(&schema.fields()[keys..]) {
            let Expr::AggregateFunction(call) = expr.clone().unalias() else { return Ok(None) };
            let Some(aggregate) = self.aggregate(&call, field.data_type(), below, input)? else { return Ok(None) };
            group.aggregates.push(aggregate);
        }
        Ok(Some(group))
    }

    fn aggregate(
        &mut self,
        call: &AggregateCall,
        kind: &DataType,
        below: &DFSchema,
        input: &Rows,
    ) -> Result<Option<plan::Aggregate>> {
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
            let total_error = String::new();
            return Ok(Some(plan::Aggregate { function, argument: None, kind: kind.clone(), total_error }));
        }
        let of = argument.get_type(below)?;
        if !is_aggregated(function, &of) {
            return Ok(None);
        }
        let argument = input.resolve(argument.clone(), below)?;
        if argument.column_refs().is_empty() {
            return Ok(None);
        }
        let Some(expr) = self.expr(argument, &of, input)? else { return Ok(None) };
        let total_error = total_error(call.func.name(), &of);
        Ok(Some(plan::Aggregate { function, argument: Some((expr, of)), kind: kind.clone(), total_error }))
    }

    /// An expression over the columns of an operator, with results of type `kind`.
    fn expr(&mut self, expr: Expr, kind: &DataType, rows: &Rows) -> Result<Option<plan::Expr>> {
        self.expr_over(expr, kind, &rows.schema, &[rows])
    }

    /// An expression over `schema`, the columns of operators, with results of type `kind`.
    pub(super) fn expr_over(
        &mut self,
        expr: Expr,
        kind: &DataType,
        schema: &DFSchema,
        rows: &[&Rows],
    ) -> Result<Option<plan::Expr>> {
        if let Expr::Column(column) = &expr
            && let Some(place) = schema.maybe_index_of_column(column)
            && schema.field(place).data_type() == kind
        {
            return Ok(Some(plan::Expr::Column(place)));
        }
        if !is_taken(&expr)? {
            return Ok(None);
        }
        let mut places = BTreeSet::new();
        for column in expr.column_refs() {
            places.insert(schema.index_of_column(column)?);
        }
        let fields = places.iter().map(|place| (None, Arc::clone(schema.field(*place))));
        let schema = DFSchema::new_with_metadata(fields.collect(), Default::default())?;
        let columns = places.into_iter().collect();
        let function = ExprFunction::new(&expr, &schema, columns, kind.clone(), self.state)?;
        let text = self.shown(expr, rows)?;
        self.functions.push(Arc::new(function));
        self.texts.push(text);
        Ok(Some(plan::Expr::Function(self.functions.len() - 1)))
    }

    /// An expression over the columns of operators as EXPLAIN shows it.
    fn shown(&self, expr: Expr, rows: &[&Rows]) -> Result<String> {
        let name = |expr: &Expr| {
            rows.iter().find_map(|rows| Some(rows.node.column_names(self)[rows.place(expr)?].clone().into_owned()))
        };
        let expr = expr.transform(|expr| match name(&expr) {
            Some(name) => Ok(Transformed::yes(Expr::Column(Column::from_name(name)))),
            None => Ok(Transformed::no(expr)),
        });
        Ok(plain(&expr.data()?.to_string()))
    }

    pub(super) fn tables(&self) -> &[Arc<dyn TableSource>] {
        &self.tables
    }
}

impl Names for Lowerer<'_> {
    fn table(&self, table: usize) -> &str {
        &self.tables[table].table().name
    }

    fn column(&self, table: usize, column: usize) -> &str {
        &self.tables[table].table().columns[column].name
    }

    fn size(&self, table: usize) -> (usize, u64) {
        (self.tables[table].blocks().len(), self.tables[table].row_count())
    }

    fn function(&self, function: usize) -> &str {
        &self.texts[function]
    }
}

/// Whether an expression gives the same for the same values, and needs no plan of its own.
fn is_taken(expr: &Expr) -> Result<bool> {
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
    Ok(!expr.is_volatile() && !expr.exists(|part| Ok(!is_taken(part)))?)
}
