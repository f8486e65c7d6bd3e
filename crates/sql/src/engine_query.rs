//! Queries that our own front end plans and the engine runs.
//!
//! ```text
//! syntax tree -> binder -> optimizer -> lowering (crate query) -> operators (crate exec)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use rowmill_base::{Error, Result, SqlType};
use rowmill_exec::batch::BatchSource;
use rowmill_exec::operator::{Environment, Operator, Running};
use rowmill_plan::{Constant, Node};
use rowmill_query::{PhysicalQuery, estimate};
use rowmill_storage::TableSource;

use crate::catalog::StatementContext;
use crate::explain::below;
use crate::names::Spellings;
use crate::native::{estimated, measures};
use crate::query_catalog::ContextCatalog;
use crate::table_scan::ScanProgress;

/// A query that is ready to run, over the tables of one statement's snapshot.
#[derive(Debug)]
pub(crate) struct EngineQuery {
    physical: Arc<PhysicalQuery>,
    context: Arc<StatementContext>,
    /// The progress of the scans, in the order of the plan.
    progress: Vec<Arc<ScanProgress>>,
    /// The operators that ran last, for their measurements.
    last: Mutex<Option<Arc<Running>>>,
}

impl EngineQuery {
    /// Plans `query` with values for its parameters.
    pub(crate) fn plan(
        context: &Arc<StatementContext>,
        query: &ast::Query,
        spellings: &Spellings,
        params: &[ScalarValue],
    ) -> Result<EngineQuery> {
        let values = params.iter().map(constant).collect::<Result<Vec<_>>>()?;
        let kinds: Vec<DataType> = values.iter().map(|value| value.kind().clone()).collect();
        let catalog = ContextCatalog::new(Arc::clone(context));
        let spelling = |ident: &ast::Ident| spellings.of(ident).to_owned();
        let mut bound = rowmill_query::binder::bind(query, &catalog, &spelling, &kinds)?;
        bound.set_parameters(&values)?;
        rowmill_query::optimizer::optimize(&mut bound)?;
        // The expressions of the plan take the limit along.
        let result_bytes_max = context.settings.number("result_value_max_bytes");
        let physical = rowmill_expr::functions::with_result_limit(result_bytes_max, || rowmill_query::lower(&bound))?;
        Ok(EngineQuery::over(Arc::new(physical), context))
    }

    fn over(physical: Arc<PhysicalQuery>, context: &Arc<StatementContext>) -> EngineQuery {
        let mut progress = Vec::new();
        physical.root.each(&mut |node| {
            if let Node::Scan(scan) = node {
                progress.push(Arc::new(ScanProgress::new(physical.tables[scan.table].row_count())));
            }
        });
        EngineQuery { physical, context: Arc::clone(context), progress, last: Mutex::default() }
    }

    /// The plan `physical` over the tables that a statement sees; `None` if one of them is not there.
    pub(crate) fn again(physical: &PhysicalQuery, context: &Arc<StatementContext>) -> Option<EngineQuery> {
        let table = |id| Some(context.snapshot.table(id)? as Arc<dyn TableSource>);
        Some(EngineQuery::over(Arc::new(physical.over(&table)?), context))
    }

    /// The plan, if another statement with the same text and without parameters can run it again.
    pub(crate) fn reusable(&self) -> Option<Arc<PhysicalQuery>> {
        self.physical.is_reusable.then(|| Arc::clone(&self.physical))
    }

    /// The names of the result as spelled, and the types.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.physical.schema
    }

    /// Prepares the operators.
    pub(crate) fn begin(&self) -> Result<Arc<Running>> {
        let (physical, context) = (&self.physical, &self.context);
        let (batch_rows, threads) = (context.settings.number("batch_rows") as usize, context.settings.threads());
        let mut foreign: BTreeMap<usize, Arc<dyn BatchSource>> = BTreeMap::new();
        for (number, scan) in physical.sources.iter().enumerate() {
            let source = scan.source.open(&scan.columns, &scan.predicates, batch_rows, threads, &context.cancel)?;
            foreign.insert(number, source);
        }
        let environment = Environment {
            tables: &physical.tables,
            functions: &physical.functions,
            foreign: &foreign,
            batch_rows,
            threads,
            cancel: &context.cancel,
            broker: &context.broker,
            recursion_max: context.settings.number("recursion_max"),
        };
        let running = Arc::new(Running::new(&physical.root, &environment)?);
        let mut progress = self.progress.iter();
        running.operator.each_scan(&mut |metrics| {
            if let Some(progress) = progress.next() {
                context.follow(progress, metrics);
            }
        });
        *self.last.lock() = Some(Arc::clone(&running));
        Ok(running)
    }

    /// The lines that EXPLAIN shows, with the measurements if the query ran.
    pub(crate) fn lines(&self, measured: bool) -> Vec<String> {
        let running = self.last.lock().clone().filter(|_| measured);
        let mut lines = Vec::new();
        let operator = running.as_deref().map(|running| &running.operator);
        self.node_lines(&self.physical.root, operator, "", "", &mut lines);
        lines
    }

    fn node_lines(&self, node: &Node, operator: Option<&Operator>, branch: &str, stem: &str, lines: &mut Vec<String>) {
        let estimate = estimate::row_count(node, &self.physical.tables);
        let facts = match operator {
            Some(operator) => measures(operator, estimate),
            None => estimated(estimate),
        };
        let line = match node {
            Node::Foreign(foreign) => format!("Rows of {}", self.physical.sources[foreign.plan].source.name()),
            node => node.line(&*self.physical),
        };
        lines.push(format!("{branch}{line}  ({facts})  [native]"));
        let inputs = node.inputs();
        for (place, input) in inputs.iter().enumerate() {
            let (branch, stem) = below(stem, place + 1 == inputs.len());
            self.node_lines(input, operator.map(|operator| &operator.inputs[place]), &branch, &stem, lines);
        }
    }
}

/// The value of a parameter, of one of the types that the engine works with.
fn constant(value: &ScalarValue) -> Result<Constant> {
    let failed = |error: &dyn std::fmt::Display| Error::internal(format!("the value of a parameter: {error}"));
    let array = value.to_array().map_err(|error| failed(&error))?;
    let kind = match array.data_type() {
        DataType::Null => DataType::Null,
        kind => SqlType::from_arrow(kind)
            .map(|kind| kind.arrow())
            .ok_or_else(|| failed(&format!("{kind} is not a type of SQL")))?,
    };
    match *array.data_type() == kind {
        true => Ok(Constant::new(array)),
        false => cast(&array, &kind).map(Constant::new).map_err(|error| failed(&error)),
    }
}
