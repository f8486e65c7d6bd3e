//! From a native plan to operators that run.
//!
//! A plan is built from its root down, because an operator may take over what is below it: a grouping reads the blocks
//! of the table that it stands on itself, and a sort that wants few rows tells the grouping or scan below.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Broker, Cancel, Result};
use rowmill_plan::{self as plan, Aggregate, AggregateFunction, Expr, Group, Node, Scan, SortKey};
use rowmill_storage::TableSource;

use crate::batch::{BatchSource, Batches};
use crate::filter::Filter;
use crate::function::VectorFunction;
use crate::group::{GroupBy, GroupRequest, GroupTop};
use crate::join::{Join, JoinRequest};
use crate::key_filter::KeyFilter;
use crate::limit::Limit;
use crate::project::{Project, Projected};
use crate::scan::{ScanMetrics, ScanRequest, TableScan, TopKey, TopRequest};
use crate::share::with_nulls;
use crate::sort::{Sort, SortRequest};
use crate::union::Union;

/// Above so many rows their keys are no small thing for a scan to keep.
const TOP_ROWS_MAX: usize = 10_000;

/// What a plan is run with.
pub struct Environment<'a> {
    /// The tables that the plan names by number, of one snapshot.
    pub tables: &'a [Arc<dyn TableSource>],
    /// The functions that it names by number.
    pub functions: &'a [Arc<dyn VectorFunction>],
    /// The plans that others run, by number.
    pub foreign: &'a BTreeMap<usize, Arc<dyn BatchSource>>,
    /// Rows of a batch at most.
    pub batch_rows: usize,
    /// Ends the work early.
    pub cancel: &'a Cancel,
    /// Grants the memory.
    pub broker: &'a Broker,
}

/// A plan that runs.
#[derive(Debug)]
pub struct Running {
    source: Arc<dyn BatchSource>,
    /// What is measured of its operators.
    pub operator: Operator,
}

impl Running {
    /// Prepares the operators of `root`; reads no rows.
    pub fn new(root: &Node, environment: &Environment<'_>) -> Result<Running> {
        let (source, operator) = environment.build(root, Wish::All)?;
        Ok(Running { source, operator })
    }

    /// Workers that have something to do at most; none if there is so little that it is not worth calling one.
    pub fn parallelism(&self) -> usize {
        self.source.parallelism()
    }

    /// A worker's share of the result.
    pub fn worker(&self) -> Batches {
        Arc::clone(&self.source).worker()
    }
}

/// What is measured of an operator and of those below it; the shape is the plan's.
#[derive(Debug)]
pub struct Operator {
    /// Rows and time; of an operator that another one took over, nothing.
    pub measured: Option<Arc<Measured>>,
    /// What was read of a table.
    pub scan: Option<Arc<ScanMetrics>>,
    /// The operators that it works on.
    pub inputs: Vec<Operator>,
}

impl Operator {
    /// Calls `each` with what is measured of the scans, in the order in which they stand in the plan.
    pub fn each_scan(&self, each: &mut dyn FnMut(&Arc<ScanMetrics>)) {
        self.scan.iter().for_each(&mut *each);
        self.inputs.iter().for_each(|input| input.each_scan(each));
    }
}

/// The rows that an operator gave, and the time that its workers spent in it and below.
#[derive(Debug, Default)]
pub struct Measured {
    rows: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Measured {
    /// Rows given.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Seconds, added up over workers.
    pub fn seconds(&self) -> f64 {
        self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9
    }
}

/// A source that is measured.
#[derive(Debug)]
struct Watched {
    source: Arc<dyn BatchSource>,
    measured: Arc<Measured>,
}

impl BatchSource for Watched {
    fn schema(&self) -> &SchemaRef {
        self.source.schema()
    }

    fn parallelism(&self) -> usize {
        self.source.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        let mut worker = Arc::clone(&self.source).worker();
        Box::new(std::iter::from_fn(move || {
            let started = Instant::now();
            let batch = worker.next();
            self.measured.nanoseconds.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
            if let Some(Ok(batch)) = &batch {
                self.measured.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            }
            batch
        }))
    }

    fn accepts(&self, column: usize) -> bool {
        self.source.accepts(column)
    }

    fn offer(&self, column: usize, filter: &Arc<KeyFilter>) {
        self.source.offer(column, filter);
    }
}

/// Which rows of an operator are needed.
#[derive(Clone, Copy)]
enum Wish<'a> {
    All,
    /// The first of an order; others may be left out, and the order is not asked for.
    Top {
        keys: &'a [SortKey],
        rows: usize,
    },
    /// Any so many.
    Any(usize),
    /// All, but of texts it only matters which are NULL.
    Presence,
}

impl Environment<'_> {
    fn build(&self, node: &Node, wish: Wish<'_>) -> Result<(Arc<dyn BatchSource>, Operator)> {
        let (source, scan, inputs): (Arc<dyn BatchSource>, _, _) = match node {
            Node::Scan(scan) => {
                let scan = TableScan::new(Arc::clone(&self.tables[scan.table]), self.scan_request(scan, wish))?;
                let metrics = Arc::clone(scan.metrics());
                (scan, Some(metrics), Vec::new())
            }
            Node::Filter { input, condition } => {
                let (input, below) = self.build(input, Wish::All)?;
                let condition = self.function(*condition);
                (Filter::new(input, condition, self.batch_rows, self.cancel.clone()), None, vec![below])
            }
            Node::Project { input, exprs, schema } => {
                let (input, below) = self.build(input, Wish::All)?;
                let exprs = exprs.iter().map(|expr| match expr {
                    Expr::Column(column) => Projected::Column(*column),
                    Expr::Function(function) => Projected::Function(Arc::clone(&self.functions[*function])),
                });
                (Project::new(input, exprs.collect(), schema, self.cancel.clone()), None, vec![below])
            }
            Node::Group { input, group, schema } => return self.build_group(input, group, schema, wish),
            Node::Join(join) => {
                let (build, of_build) = self.build(&join.build, Wish::All)?;
                let (probe, of_probe) = self.build(&join.probe, Wish::All)?;
                (Join::new(build, probe, self.join_request(join))?, None, vec![of_build, of_probe])
            }
            Node::Sort { input, keys, skip, rows } => {
                let wish = match rows {
                    Some(rows) => Wish::Top { keys, rows: skip + rows },
                    None => Wish::All,
                };
                let (input, below) = self.build(input, wish)?;
                let request = SortRequest {
                    keys: keys.clone(),
                    skip: *skip,
                    rows: *rows,
                    schema: Arc::clone(input.schema()),
                    batch_rows: self.batch_rows,
                    cancel: self.cancel.clone(),
                    broker: self.broker.clone(),
                };
                (Sort::new(input, request)?, None, vec![below])
            }
            Node::Union { inputs, schema } => {
                // What is wished for of all together is enough of each.
                let built = inputs.iter().map(|input| self.build(input, wish));
                let (sources, below) = built.collect::<Result<Vec<_>>>()?.into_iter().unzip();
                (Union::new(sources, Arc::clone(schema)), None, below)
            }
            Node::Foreign(foreign) => (Arc::clone(&self.foreign[&foreign.plan]), None, Vec::new()),
            Node::Limit { input, skip, rows } => {
                let wish = rows.map_or(Wish::All, |rows| Wish::Any(skip + rows));
                let (input, below) = self.build(input, wish)?;
                (Limit::new(input, *skip, *rows), None, vec![below])
            }
        };
        Ok(watched(source, scan, inputs))
    }

    fn join_request(&self, join: &plan::Join) -> JoinRequest {
        JoinRequest {
            kind: join.kind,
            on: join.on.clone(),
            nulls_equal: join.nulls_equal,
            residual: join.condition.map(|condition| self.function(condition)),
            output: join.output.iter().copied().filter(|column| *column < join.columns()).collect(),
            schema: with_nulls(&join.schema),
            batch_rows: self.batch_rows,
            cancel: self.cancel.clone(),
            broker: self.broker.clone(),
            null_aware: join.null_aware,
        }
    }

    fn scan_request(&self, scan: &Scan, wish: Wish<'_>) -> ScanRequest {
        let (limit, top) = match wish {
            Wish::All | Wish::Presence => (None, None),
            Wish::Any(rows) => (Some(rows), None),
            Wish::Top { keys, rows } if rows > TOP_ROWS_MAX || keys.is_empty() || rows == 0 => (None, None),
            Wish::Top { keys, rows } => {
                let keys = keys.iter().map(|key| TopKey {
                    column: scan.columns[key.column],
                    descending: key.descending,
                    nulls_first: key.nulls_first,
                });
                (None, Some(TopRequest { keys: keys.collect(), rows }))
            }
        };
        ScanRequest {
            columns: scan.columns.clone(),
            predicates: scan.predicates.clone(),
            limit,
            top,
            batch_rows: self.batch_rows,
            row_numbers: false,
            cancel: self.cancel.clone(),
        }
    }

    fn build_group(
        &self,
        input: &Node,
        group: &Group,
        schema: &SchemaRef,
        wish: Wish<'_>,
    ) -> Result<(Arc<dyn BatchSource>, Operator)> {
        let places = match input {
            Node::Scan(scan) => Some(&*scan.columns),
            _ => None,
        };
        let (mut group, functions) = self.own_functions(group, places);
        if let Node::Scan(scan) = input {
            group.predicates = scan.predicates.clone();
        }
        let request = GroupRequest {
            group,
            functions,
            schema: Arc::clone(schema),
            top: match wish {
                Wish::Top { keys, rows } => Some(GroupTop { keys: keys.to_vec(), rows }),
                _ => None,
            },
            limit: match wish {
                Wish::Any(rows) => Some(rows),
                _ => None,
            },
            only_presence: matches!(wish, Wish::Presence),
            batch_rows: self.batch_rows,
            cancel: self.cancel.clone(),
            broker: self.broker.clone(),
        };
        let Node::Scan(scan) = input else {
            let wish = if only_counts(&request.group) { Wish::Presence } else { Wish::All };
            let (input, below) = self.build(input, wish)?;
            return Ok(watched(GroupBy::new(input, request)?, None, vec![below]));
        };
        // The grouping reads the blocks of the table itself.
        let group_by = GroupBy::new(Arc::clone(&self.tables[scan.table]), request)?;
        let below = Operator { measured: None, scan: Some(Arc::clone(group_by.metrics())), inputs: Vec::new() };
        Ok(watched(group_by, None, vec![below]))
    }

    /// `group` with the functions that it names, where what it calls column `i` is column `places[i]`.
    fn own_functions(&self, group: &Group, places: Option<&[usize]>) -> (Group, Vec<Arc<dyn VectorFunction>>) {
        let mut functions = Vec::new();
        let mut own = |expr: &mut Expr| match (&expr, places) {
            (Expr::Column(column), Some(places)) => *expr = Expr::Column(places[*column]),
            (Expr::Column(_), None) => {}
            (Expr::Function(function), places) => {
                let function = Arc::clone(&self.functions[*function]);
                functions.push(match places {
                    Some(places) => Arc::new(Moved::new(function, places)),
                    None => function,
                });
                *expr = Expr::Function(functions.len() - 1);
            }
        };
        let mut group = group.clone();
        group.keys.iter_mut().for_each(|key| own(&mut key.expr));
        let arguments = group.aggregates.iter_mut().filter_map(|aggregate| aggregate.argument.as_mut());
        arguments.for_each(|(expr, _)| own(expr));
        group.aggregates.iter_mut().filter_map(|aggregate| aggregate.filter.as_mut()).for_each(own);
        (group, functions)
    }

    /// A condition as a function.
    fn function(&self, expr: Expr) -> Arc<dyn VectorFunction> {
        match expr {
            Expr::Column(column) => Arc::new(Column([column])),
            Expr::Function(function) => Arc::clone(&self.functions[function]),
        }
    }
}

/// Whether nothing of a value that is grouped matters but whether it is NULL.
fn only_counts(group: &Group) -> bool {
    let counts = |aggregate: &Aggregate| {
        let is_of_column = matches!(aggregate.argument, None | Some((Expr::Column(_), _)));
        aggregate.function == AggregateFunction::Count
            && is_of_column
            && !aggregate.distinct
            && aggregate.filter.is_none()
    };
    group.keys.is_empty() && group.aggregates.iter().all(counts)
}

fn watched(
    source: Arc<dyn BatchSource>,
    scan: Option<Arc<ScanMetrics>>,
    inputs: Vec<Operator>,
) -> (Arc<dyn BatchSource>, Operator) {
    let measured = Arc::new(Measured::default());
    let operator = Operator { measured: Some(Arc::clone(&measured)), scan, inputs };
    (Arc::new(Watched { source, measured }), operator)
}

/// A column as a function of itself.
#[derive(Debug)]
struct Column([usize; 1]);

impl VectorFunction for Column {
    fn columns(&self) -> &[usize] {
        &self.0
    }

    fn evaluate(&self, columns: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        Ok(Arc::clone(&columns[0]))
    }
}

/// A function over the columns of another input.
#[derive(Debug)]
struct Moved {
    function: Arc<dyn VectorFunction>,
    columns: Vec<usize>,
}

impl Moved {
    /// `function`, where what it calls column `i` is column `places[i]`.
    fn new(function: Arc<dyn VectorFunction>, places: &[usize]) -> Moved {
        let columns = function.columns().iter().map(|column| places[*column]).collect();
        Moved { function, columns }
    }
}

impl VectorFunction for Moved {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.function.evaluate(columns, rows)
    }
}
