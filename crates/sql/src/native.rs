//! Plans that the engine runs itself.
//!
//! The optimised logical plan is lowered from its leaves up ([`lowering`]), to `rowmill_plan`. If all of it is native the
//! engine runs the statement; otherwise each native part is a leaf of DataFusion's plan, the scan of a table whose rows
//! are the result ([`table`]).

mod arithmetic;
mod case;
mod estimate;
mod foreign;
mod function;
mod group;
mod grouping_sets;
mod handover;
mod join;
mod join_graph;
mod lowering;
mod regexp;
mod rows;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use rowmill_base::TableId;
use rowmill_exec::function::VectorFunction;
use rowmill_plan::{Names, Node};
use rowmill_storage::TableSource;

use self::lowering::{Lowered, Lowerer};
use crate::catalog::StatementContext;
use crate::operators;

pub(crate) use table::{NativeExec, estimated, measures};

/// A logical plan after lowering.
pub(crate) enum Lowering {
    /// The engine runs all of it; the columns of its result.
    Whole(NativePlan, SchemaRef),
    /// DataFusion runs it, over leaves some of which may be the engine's.
    Mixed(LogicalPlan),
}

/// Lowers `plan` as far as the engine runs it.
pub(crate) fn lower(plan: LogicalPlan, state: &SessionState, context: &Arc<StatementContext>) -> Result<Lowering> {
    let mut lowerer = Lowerer::new(state, context);
    match lowerer.lower(plan.clone())? {
        Lowered::Native(rows) => Ok(match lowerer.whole(*rows, &plan)? {
            Some(native) => Lowering::Whole(native, Arc::clone(plan.schema().inner())),
            None => Lowering::Mixed(plan),
        }),
        Lowered::Foreign(plan) => Ok(Lowering::Mixed(plan)),
    }
}

/// A plan of the engine's for any snapshot with the same catalog.
#[derive(Debug)]
pub(crate) struct PlanShape {
    root: Arc<Node>,
    tables: Vec<TableId>,
    functions: Vec<Arc<dyn VectorFunction>>,
    /// The functions as EXPLAIN shows them.
    texts: Vec<String>,
}

/// A plan of the engine's over the tables of one statement's snapshot.
#[derive(Clone, Debug)]
pub(crate) struct NativePlan {
    shape: Arc<PlanShape>,
    tables: Vec<Arc<dyn TableSource>>,
    /// What DataFusion runs below, by the numbers that the shape gives it.
    foreign: BTreeMap<usize, LogicalPlan>,
    context: Arc<StatementContext>,
}

impl NativePlan {
    /// The plan `shape` over the tables that a statement sees; `None` if one of them is not there.
    pub(crate) fn over(shape: Arc<PlanShape>, context: &Arc<StatementContext>) -> Option<NativePlan> {
        let table = |id: &TableId| Some(context.snapshot.table(*id)? as Arc<dyn TableSource>);
        let tables = shape.tables.iter().map(table).collect::<Option<Vec<_>>>()?;
        Some(NativePlan { shape, tables, foreign: BTreeMap::new(), context: Arc::clone(context) })
    }

    /// Whether the engine runs all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.foreign.is_empty()
    }

    /// The leaf that runs it and gives the columns of `schema`, with what is below planned too.
    pub(crate) async fn exec(mut self, schema: SchemaRef, state: &SessionState) -> Result<Arc<NativeExec>> {
        let mut foreign = BTreeMap::new();
        for (number, plan) in std::mem::take(&mut self.foreign) {
            foreign.insert(number, operators::plan(plan, state, &self.context).await?);
        }
        Ok(NativeExec::new(self, foreign, schema))
    }

    /// What does not depend on the snapshot.
    pub(crate) fn shape(&self) -> &Arc<PlanShape> {
        &self.shape
    }
}

impl Names for NativePlan {
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
        &self.shape.texts[function]
    }
}
