//! From DataFusion's optimised logical plan to the engine's.
//!
//! A plan is taken from its leaves up, as far as the engine runs it. What it does not run stays a node of the logical plan
//! over leaves that are native.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::logical_plan::{FetchType, Filter, Limit, Projection, SkipType, Sort, TableScan, Union};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use rowmill_exec::function::VectorFunction;
use rowmill_plan as plan;
use rowmill_plan::{Names, Node, Predicate, SortKey};
use rowmill_storage::TableSource;

use super::foreign::is_worth_a_border;
use super::function::ExprFunction;
use super::join::narrowed;
use super::rows::Rows;
use super::table::leaf;
use super::{NativePlan, PlanShape};
use crate::catalog::StatementContext;
use crate::errors::plain;
use crate::predicate::{is_settled, translate};
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
    context: &'a Arc<StatementContext>,
    tables: Vec<Arc<dyn TableSource>>,
    functions: Vec<Arc<dyn VectorFunction>>,
    /// The functions as EXPLAIN shows them.
    texts: Vec<String>,
    /// What DataFusion runs below.
    pub(super) foreign: Vec<LogicalPlan>,
    /// Recursive queries around what is lowered: it runs once a round.
    rounds: usize,
    /// Columns of operators that were named.
    named: usize,
}

impl<'a> Lowerer<'a> {
    pub(super) fn new(state: &'a SessionState, context: &'a Arc<StatementContext>) -> Lowerer<'a> {
        Lowerer {
            state,
            context,
            tables: Vec::new(),
            functions: Vec::new(),
            texts: Vec::new(),
            foreign: Vec::new(),
            rounds: 0,
            named: 0,
        }
    }

    /// Lowers what can be of `plan`.
    pub(super) fn lower(&mut self, plan: LogicalPlan) -> Result<Lowered> {
        let is_recursive = usize::from(matches!(plan, LogicalPlan::RecursiveQuery(_)));
        self.rounds += is_recursive;
        let inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
        let inputs = inputs.into_iter().map(|input| self.lower(input)).collect::<Result<Vec<_>>>()?;
        self.rounds -= is_recursive;
        // What is lowered in vain is forgotten.
        let marks = (self.functions.len(), self.tables.len(), self.foreign.len());
        let lowered = match self.operands(&plan, &inputs)? {
            Some(operands) => self.node(&plan, &operands)?,
            None => None,
        };
        match lowered {
            Some(rows) => Ok(Lowered::Native(Box::new(rows))),
            None => {
                self.functions.truncate(marks.0);
                self.texts.truncate(marks.0);
                self.tables.truncate(marks.1);
                self.foreign.truncate(marks.2);
                self.foreign(plan, inputs)
            }
        }
    }

    /// The inputs of `plan`, if the engine should run it over them.
    fn operands(&mut self, plan: &LogicalPlan, inputs: &[Lowered]) -> Result<Option<Vec<Rows>>> {
        let all_native = inputs.iter().all(|input| matches!(input, Lowered::Native(_)));
        if !all_native && (self.rounds > 0 || !is_worth_a_border(plan, inputs)) {
            return Ok(None);
        }
        let mut operands = Vec::with_capacity(inputs.len());
        for input in inputs {
            match input {
                Lowered::Native(rows) => operands.push(Rows::clone(rows)),
                Lowered::Foreign(plan) => match self.over_border(plan)? {
                    Some(rows) => operands.push(rows),
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(operands))
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

    /// `plan` as an operator of the engine's, if it has one.
    fn node(&mut self, plan: &LogicalPlan, inputs: &[Rows]) -> Result<Option<Rows>> {
        match (plan, inputs) {
            (LogicalPlan::TableScan(scan), []) => self.scan(scan),
            (LogicalPlan::SubqueryAlias(_), [input]) => Ok(Some(input.clone())),
            (LogicalPlan::Projection(projection), [input]) => projected(projection, input),
            (LogicalPlan::Filter(filter), [input]) => self.filter(filter, input),
            (LogicalPlan::Aggregate(aggregate), [input]) => self.group(aggregate, input),
            (LogicalPlan::Sort(sort), [input]) => self.sort(sort, input),
            (LogicalPlan::Limit(limit), [input]) => self.limit(limit, input),
            (LogicalPlan::Join(join), [left, right]) => self.join(join, left.clone(), right.clone()),
            (LogicalPlan::Union(union), inputs) => self.union(union, inputs),
            _ => Ok(None),
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
        let Some(root) = self.root(rows, original.schema().inner())? else { return Ok(None) };
        // Every leaf has lists of its own, with what other leaves need in them too: they are short.
        let shape = PlanShape {
            root,
            tables: self.tables.iter().map(|table| table.table().id).collect(),
            functions: self.functions.clone(),
            texts: self.texts.clone(),
        };
        let mut foreign = BTreeMap::new();
        shape.root.each(&mut |node| {
            if let Node::Foreign(of) = node {
                foreign.insert(of.plan, self.foreign[of.plan].clone());
            }
        });
        let tables = self.tables.clone();
        Ok(Some(NativePlan { shape: Arc::new(shape), tables, foreign, context: Arc::clone(self.context) }))
    }

    /// `rows` with exactly the columns of `schema`.
    fn root(&mut self, rows: Rows, schema: &SchemaRef) -> Result<Option<Arc<Node>>> {
        let Some(rows) = self.settled(rows, &[])? else { return Ok(None) };
        if rows.is_plain() && rows.node().schema().fields() == schema.fields() {
            return Ok(Some(Arc::clone(rows.node())));
        }
        let mut exprs = Vec::with_capacity(schema.fields().len());
        for (expr, field) in rows.exprs.iter().zip(schema.fields()) {
            let Some(expr) = self.expr(expr.clone(), field.data_type(), &rows)? else { return Ok(None) };
            exprs.push(expr);
        }
        let node = Node::Project { input: Arc::clone(rows.node()), exprs, schema: Arc::clone(schema) };
        Ok(Some(Arc::new(node)))
    }

    fn scan(&mut self, scan: &TableScan) -> Result<Option<Rows>> {
        let provider = source_as_provider(&scan.source)?;
        let Some(table) = (&*provider as &dyn std::any::Any).downcast_ref::<SnapshotTable>() else { return Ok(None) };
        let source = table.source();
        let stored = source.table();
        let filters = scan.filters.iter().filter(|filter| !is_settled(filter));
        let predicates = filters.map(|filter| translate(filter, stored));
        let Some(predicates) = predicates.collect::<Option<Vec<Predicate>>>() else { return Ok(None) };
        let fields = scan.projected_schema.fields();
        let columns = fields.iter().map(|field| {
            let column = stored.column_index(field.name())?;
            (stored.columns[column].kind.arrow() == *field.data_type()).then_some(column)
        });
        let Some(columns) = columns.collect::<Option<Vec<usize>>>() else { return Ok(None) };
        self.tables.push(Arc::clone(source));
        let schema = Arc::clone(scan.projected_schema.inner());
        let node =
            Node::Scan(plan::Scan { table: self.tables.len() - 1, columns, predicates, row_number: false, schema });
        let rows = Rows::new(node, self.named(fields)?, false);
        Ok(Some(match scan.fetch {
            None => rows,
            Some(fetch) => {
                let input = Arc::clone(rows.node());
                rows.over(Node::Limit { input, skip: 0, rows: Some(fetch) })
            }
        }))
    }

    fn filter(&mut self, filter: &Filter, input: &Rows) -> Result<Option<Rows>> {
        let condition = input.resolve(filter.predicate.clone(), filter.input.schema())?;
        if !is_taken(&condition)? {
            return Ok(None);
        }
        if let Some(rows) = input.joined_where(&condition) {
            return Ok(Some(rows));
        }
        let condition = self.expr(condition, &DataType::Boolean, input)?;
        let input = input.clone();
        Ok(condition.map(|condition| {
            let below = Arc::clone(input.node());
            input.over(Node::Filter { input: below, condition })
        }))
    }

    fn sort(&mut self, sort: &Sort, input: &Rows) -> Result<Option<Rows>> {
        let (mut exprs, mut keys) = (Vec::with_capacity(sort.expr.len()), Vec::with_capacity(sort.expr.len()));
        for SortExpr { expr, asc, nulls_first } in &sort.expr {
            exprs.push(input.resolve(expr.clone(), sort.input.schema())?);
            keys.push(SortKey { column: 0, descending: !asc, nulls_first: *nulls_first });
        }
        let Some(rows) = self.settled(input.clone(), &exprs)? else { return Ok(None) };
        let Some(rows) = self.with_columns(rows, &mut exprs)? else { return Ok(None) };
        for (key, expr) in keys.iter_mut().zip(&exprs) {
            let Some(place) = rows.place(expr) else { return Ok(None) };
            if rows.schema.field(place).data_type().is_nested() {
                return Ok(None);
            }
            key.column = place;
        }
        let input = Arc::clone(rows.node());
        let rows = Rows { works: true, ..rows };
        Ok(Some(rows.over(Node::Sort { input, keys, skip: 0, rows: sort.fetch })))
    }

    /// `rows` with columns for `exprs`, which become the names of those.
    pub(super) fn with_columns(&mut self, mut rows: Rows, exprs: &mut [Expr]) -> Result<Option<Rows>> {
        if exprs.iter().all(|expr| rows.place(expr).is_some()) {
            return Ok(Some(rows));
        }
        let mut columns: Vec<plan::Expr> = (0..rows.schema.fields().len()).map(plan::Expr::Column).collect();
        let mut fields: Vec<FieldRef> = rows.schema.fields().to_vec();
        let mut names: Vec<Expr> = Vec::new();
        for place in 0..exprs.len() {
            let expr = exprs[place].clone();
            if rows.place(&expr).is_some() || names.contains(&expr) {
                continue;
            }
            let kind = expr.get_type(&*rows.schema)?;
            let Some(column) = self.expr(expr.clone(), &kind, &rows)? else { return Ok(None) };
            let named = self.named(&[Arc::new(Field::new("", kind, true))])?;
            columns.push(column);
            fields.extend(named.fields().iter().cloned());
            let name = Expr::Column(Column::from_name(named.field(0).name()));
            // Whoever else asks for the same gets it from here.
            let others = exprs.iter_mut().chain(&mut rows.exprs);
            others.filter(|other| **other == expr).for_each(|other| *other = name.clone());
            names.push(name);
        }
        let fields = fields.into_iter().map(|field| (None, field)).collect();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        let input = Arc::clone(rows.node());
        let node = Node::Project { input, exprs: columns, schema: Arc::clone(schema.inner()) };
        Ok(Some(Rows { schema, works: true, ..rows.over(node) }))
    }

    /// Names for the columns of an operator.
    pub(super) fn named(&mut self, fields: &[FieldRef]) -> Result<DFSchemaRef> {
        let fields = fields.iter().map(|field| {
            self.named += 1;
            (None, Arc::new(Field::new(format!("#{}", self.named), field.data_type().clone(), field.is_nullable())))
        });
        DFSchema::new_with_metadata(fields.collect(), Default::default()).map(Arc::new)
    }

    fn union(&mut self, union: &Union, inputs: &[Rows]) -> Result<Option<Rows>> {
        let schema = union.schema.inner();
        let mut nodes = Vec::with_capacity(inputs.len());
        for input in inputs {
            let Some(node) = self.root(input.clone(), schema)? else { return Ok(None) };
            nodes.push(node);
        }
        let names = self.named(schema.fields())?;
        let node = Node::Union { inputs: nodes, schema: Arc::clone(names.inner()) };
        Ok(Some(Rows::new(node, names, true)))
    }

    fn limit(&mut self, limit: &Limit, input: &Rows) -> Result<Option<Rows>> {
        let (SkipType::Literal(skip), FetchType::Literal(rows)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Ok(None);
        };
        let Some(input) = self.settled(input.clone(), &[])? else { return Ok(None) };
        let node = match &**input.node() {
            // The sort has been told of all rows up to the end of the limit.
            Node::Sort { input, keys, skip: 0, rows: Some(fetch) }
                if rows.is_some_and(|rows| rows + skip <= *fetch) =>
            {
                Node::Sort { input: Arc::clone(input), keys: keys.clone(), skip, rows }
            }
            _ => Node::Limit { input: Arc::clone(input.node()), skip, rows },
        };
        Ok(Some(input.over(node)))
    }

    /// An expression over the columns of an operator, with results of type `kind`.
    pub(super) fn expr(&mut self, expr: Expr, kind: &DataType, rows: &Rows) -> Result<Option<plan::Expr>> {
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
            rows.iter().find_map(|rows| Some(rows.node().column_names(self)[rows.place(expr)?].clone().into_owned()))
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

/// The columns of a projection over what is below it.
fn projected(projection: &Projection, input: &Rows) -> Result<Option<Rows>> {
    let mut exprs = Vec::with_capacity(projection.expr.len());
    for expr in &projection.expr {
        let expr = input.resolve(expr.clone().unalias_nested().data, projection.input.schema())?;
        if !is_taken(&expr)? {
            return Ok(None);
        }
        exprs.push(expr);
    }
    narrowed(Rows { exprs, ..input.clone() }).map(Some)
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
