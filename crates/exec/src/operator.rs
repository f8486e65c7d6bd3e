//! Turns a native plan into operators that run.
//!
//! A plan is built from its root down, because an operator may take over the work of the operator below it. For
//! example, a grouping directly over a table reads the table's blocks itself, and a sort that needs only a few rows
//! tells the grouping or scan below how many.

mod builder;
mod grouping;
mod measured;
mod recursion;
mod sliced;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use rowmill_base::{Broker, Cancel, Error, LengthUnit, Result};
use rowmill_plan::{self as plan, AggregateRole, Expr, Group, JoinKind, Node, OrderedResult, Predicate, Scan, SortKey};
use rowmill_storage::TableSource;
use rowmill_storage::spill::TempSpace;

use self::builder::Builder;
use self::grouping::{AdaptedGroup, adapted};
use self::measured::watched;
pub use self::measured::{Measured, Operator};
pub use self::sliced::ordered_join_way;
use crate::arithmetic::Arithmetic;
use crate::batch::{BatchSource, Batches};
use crate::case::CaseFunction;
use crate::expand::Expand;
use crate::fill::{FILLED_GROUPS_MIN, Fill, SlicedFill};
use crate::filter::Filter;
use crate::first_rows::FirstRows;
use crate::forced::forced;
use crate::function::VectorFunction;
use crate::group::{GroupRequest, GroupTop, group_batches, group_table};
use crate::join::{HashJoin, JoinRequest};
use crate::late_sort::{LateSort, SortInput};
use crate::latest::{LatestRequest, LatestRows};
use crate::limit::Limit;
use crate::lookahead::looking_ahead;
use crate::numbered_rows::{NumberedRows, numbers_all_rows};
use crate::ordered_join::{OrderRules, OrderedJoinRequest, ordered_join};
use crate::project::{Project, Projected};
use crate::scan::{
    Scan as TableScan, ScanRequest, TopKey, TopRequest, access_text as keyed_access_text, columns_read, reads_most_rows,
};
use crate::series::{Series, SeriesRequest};
use crate::set_all::{SetAll, SetRequest};
use crate::share::with_nulls;
use crate::single_row::SingleRow;
use crate::sliced_group::{GroupSlices, SLICED_GROUPS_MIN, SlicedGroup};
use crate::sort::{Sort, SortRequest, TOP_ROWS_MAX as TOP_ROWS_OF_SORT_MAX};
use crate::union::Union;
use crate::unnest::{Unnest, UnnestRequest};
use crate::values::ReadyBatches;
use crate::window::{WindowOperator, WindowRequest};

/// The most rows that we ask a scan for as the first of an order. The scan keeps the keys of that many rows. If it
/// reads only numbers, that costs more than it saves: ClickBench's first 2,500 and 10,000 rows by WatchID take 13 and
/// 42 ms instead of 11 and 30. For a keyed table, it saves reading the rows after these.
const TOP_ROWS_MAX: usize = 10_000;
/// The most such rows for a scan that reads texts besides the keys. It need not decode the texts of other rows. The
/// first 10,000, 20,000, 32,768 and 65,536 rows take 68, 160, 351 and 572 ms instead of 374, 385, 581 and 512.
const TOP_ROWS_WITH_TEXTS_MAX: usize = 1 << 15;

/// Everything that a plan needs to run.
pub struct Environment<'a> {
    /// The tables of one snapshot. The plan refers to them by number.
    pub tables: &'a [Arc<dyn TableSource>],
    /// The functions that the plan refers to by number.
    pub functions: &'a [Arc<dyn VectorFunction>],
    /// The sources of plan parts that another engine runs, by number.
    pub foreign: &'a BTreeMap<usize, Arc<dyn BatchSource>>,
    /// The most rows of a batch.
    pub batch_rows: usize,
    /// The expected number of workers.
    pub threads: usize,
    /// Ends the work early.
    pub cancel: &'a Cancel,
    /// Grants the memory.
    pub broker: &'a Broker,
    /// The place of temporary files, for operators that are short of memory.
    pub temp: &'a TempSpace,
    /// The most rounds of a recursive query.
    pub recursion_max: u64,
    /// Whether operators leave out rows that operators above them do not need.
    pub early_filters: bool,
}

/// A plan that is ready to run.
#[derive(Debug)]
pub struct RunningPlan {
    source: Arc<dyn BatchSource>,
    /// The measurements of its operators.
    pub operator: Operator,
}

impl RunningPlan {
    /// Prepares the operators of `root`. Reads no rows.
    pub fn new(root: &Node, environment: &Environment<'_>) -> Result<RunningPlan> {
        if forced().spills {
            environment.broker.set_always_spills(true);
        }
        let (source, operator) = Builder::new(environment).build(root, Wish::All)?;
        Ok(RunningPlan { source, operator })
    }

    /// The most workers that would have something to do. If it is 0, there is so little to do that the caller should do
    /// it alone.
    pub fn parallelism(&self) -> usize {
        self.source.parallelism()
    }

    /// Returns one worker's share of the result.
    pub fn worker(&self) -> Batches {
        Arc::clone(&self.source).worker()
    }
}

/// The rows of an operator that the operator above it needs.
#[derive(Clone, Copy)]
enum Wish<'a> {
    All,
    /// The first rows of an order. The operator may leave out others and may return the rows in any order.
    Top {
        keys: &'a [SortKey],
        rows: usize,
    },
    /// This many rows, whichever they are.
    Any(usize),
    /// All rows, but only whether a text is NULL matters, not its value.
    Presence,
}

impl Builder {
    fn build(&self, node: &Node, wish: Wish<'_>) -> Result<(Arc<dyn BatchSource>, Operator)> {
        // In a round of a recursive query, parts that do not change were built before.
        if let Some(known) = self.kept(node)? {
            return Ok(known);
        }
        let mut operator = Operator::default();
        let broker = self.broker.metered(&operator.memory);
        let temp = self.temp.metered(&operator.spilled);
        let source: Arc<dyn BatchSource> = match node {
            Node::Scan(scan) => {
                let (table, request) = (Arc::clone(&self.tables[scan.table]), self.scan_request(scan, wish));
                let ready = match self.column_copy(scan, wish) {
                    Some(copy) => TableScan::with_copy(table, copy, request)?,
                    None => TableScan::new(table, request)?,
                };
                operator = Operator::of_scan(&ready.metrics);
                self.with_engine_types(ready.source, scan)
            }
            Node::Latest(latest) => {
                let table = Arc::clone(&self.tables[latest.scan.table]);
                let request = LatestRequest {
                    keys: latest.keys.iter().map(|key| latest.scan.columns[*key]).collect(),
                    time: latest.scan.columns[latest.time],
                    columns: latest.scan.columns.clone(),
                    row_numbers: latest.scan.row_number,
                    batch_rows: self.batch_rows,
                };
                LatestRows::new(table, request, &latest.scan.schema, broker, self.cancel.clone())?
            }
            Node::Filter { input, condition, .. } => {
                let input = self.build_below(input, Wish::All, &mut operator)?;
                Filter::new(input, self.function(*condition), self.batch_rows, self.cancel.clone())
            }
            Node::Project { input, exprs, schema } => {
                let below = keys_below(wish, exprs);
                let wish = match (wish, &below) {
                    (Wish::Top { rows, .. }, Some(keys)) => Wish::Top { keys, rows },
                    _ => Wish::All,
                };
                let input = self.build_below(input, wish, &mut operator)?;
                let exprs = exprs.iter().map(|expr| self.projected(*expr)).collect();
                Project::new(input, exprs, schema, self.cancel.clone())
            }
            Node::Group { input, group, schema, rows } => match adapted(group, schema, &self.functions)? {
                None => {
                    let request = self.group_request(input, (group, schema), &self.functions, wish, (broker, temp));
                    self.group(input, request, *rows, &mut operator)?
                }
                Some(AdaptedGroup { group, functions, schema: own_schema, result }) => {
                    // The adapted group has other forms of values in place of some columns, and these may sort
                    // differently. We can therefore not pass an order on, but a number of rows we can.
                    let wish = if result.is_none() || matches!(wish, Wish::Any(_)) { wish } else { Wish::All };
                    let request = self.group_request(input, (&group, &own_schema), &functions, wish, (broker, temp));
                    let groups = self.group(input, request, *rows, &mut operator)?;
                    match result {
                        None => groups,
                        Some(result) => Project::new(groups, result, schema, self.cancel.clone()),
                    }
                }
            },
            Node::Expand(expand) => {
                let input = self.build_below(&expand.input, Wish::All, &mut operator)?;
                Expand::new(input, expand.sets.clone(), &expand.schema, self.cancel.clone())
            }
            Node::Join(join) => {
                let build = self.build_below(&join.build, Wish::All, &mut operator)?;
                let probe = self.build_below(&join.probe, Wish::All, &mut operator)?;
                // For these kinds, a probe row needs only the build rows that match it. If the probe side has few
                // keys, we look at them first and read only the matching build rows.
                let needs_matches = matches!(
                    join.kind,
                    JoinKind::ProbeOuter | JoinKind::ProbeAnti | JoinKind::ProbeMark | JoinKind::ProbeSingle
                );
                let (build, probe) = match needs_matches && !join.null_aware {
                    true => looking_ahead(build, probe, &join.on, join.nulls_equal, broker.clone()),
                    false => (build, probe),
                };
                let join = HashJoin::new(build, probe, self.join_request(join, (broker, temp)))?;
                operator.join = Some(Arc::clone(join.metrics()));
                join
            }
            Node::OrderedJoin(join) => {
                if let Some(sliced) = self.sliced_join(join, (&broker, &temp))? {
                    operator.inputs.extend(sliced.scans().map(Operator::of_scan));
                    sliced
                } else {
                    self.indexed_ordered_join(join, (broker, temp), &mut operator)?
                }
            }
            Node::Sort { input, keys, skip, rows, rows_below } => {
                let request = |schema: &SchemaRef, keys: &[SortKey]| SortRequest {
                    keys: keys.to_vec(),
                    skip: *skip,
                    rows: *rows,
                    schema: Arc::clone(schema),
                    batch_rows: self.batch_rows,
                    cancel: self.cancel.clone(),
                    broker: broker.clone(),
                    temp,
                };
                if let Some((sort, of_input)) = self.late_sort(input, (keys, *skip, *rows), *rows_below, &broker)? {
                    operator.inputs.push(of_input);
                    Sort::with_late_rows(sort.source, request(input.schema(), &sort.keys), sort.late)?
                } else {
                    let wish = match rows {
                        Some(rows) if self.early_filters => Wish::Top { keys, rows: skip + rows },
                        _ => Wish::All,
                    };
                    let input = self.build_below(input, wish, &mut operator)?;
                    let request = request(input.schema(), keys);
                    Sort::new(input, request)?
                }
            }
            Node::Window(window) if numbers_all_rows(window) => {
                let wish = window.limit.map_or(Wish::All, Wish::Any);
                NumberedRows::new(self.build_below(&window.input, wish, &mut operator)?, &window.schema)
            }
            Node::Window(window) => {
                let input = self.build_below(&window.input, Wish::All, &mut operator)?;
                let request = WindowRequest {
                    partition: window.partition.clone(),
                    order: window.order.clone(),
                    calls: window.calls.clone(),
                    limit: window.limit,
                    schema: Arc::clone(&window.schema),
                    batch_rows: self.batch_rows,
                    cancel: self.cancel.clone(),
                    broker,
                    temp,
                };
                WindowOperator::new(input, request)
            }
            Node::Union { inputs, schema } => {
                // Each input must satisfy the wish by itself, because all rows that are needed may come from that
                // input.
                let sources = inputs.iter().map(|input| self.build_below(input, wish, &mut operator));
                Union::new(sources.collect::<Result<_>>()?, Arc::clone(schema))
            }
            Node::Foreign(foreign) => Arc::clone(&self.foreign[&foreign.plan]),
            Node::Limit { input, skip, rows } => {
                let wish = rows.map_or(Wish::All, |rows| Wish::Any(skip + rows));
                Limit::new(self.build_below(input, wish, &mut operator)?, *skip, *rows)
            }
            Node::SetAll(set) => {
                let left = self.build_below(&set.left, Wish::All, &mut operator)?;
                let right = self.build_below(&set.right, Wish::All, &mut operator)?;
                let request = SetRequest { except: set.except, cancel: self.cancel.clone(), broker, temp };
                SetAll::new(left, right, request)?
            }
            Node::Values { rows } => ReadyBatches::of_rows(rows, self.batch_rows),
            Node::SingleRow { input, by } => {
                let input = self.build_below(input, Wish::All, &mut operator)?;
                SingleRow::new(input, by.clone(), self.cancel.clone(), &broker)?
            }
            Node::FirstRows { input, by } => {
                let input = self.build_below(input, Wish::All, &mut operator)?;
                FirstRows::new(input, by.clone(), self.cancel.clone(), &broker)?
            }
            Node::Unnest(unnest) => {
                let input = self.build_below(&unnest.input, Wish::All, &mut operator)?;
                Unnest::new(input, self.unnest_request(unnest))?
            }
            Node::Series(series) => {
                let input = self.build_below(&series.input, Wish::All, &mut operator)?;
                Series::new(input, self.series_request(series))?
            }
            Node::Fill(fill) => {
                if let Some(sliced) = self.sliced_fill(fill, (&broker, &temp), &mut operator)? {
                    sliced
                } else {
                    let input = self.build_below(&fill.input, Wish::All, &mut operator)?;
                    Fill::new(input, fill, self.batch_rows, self.cancel.clone())?
                }
            }
            Node::Shared { number, input } => self.shared(*number, input, &mut operator, broker)?,
            Node::Recursive(recursive) => self.recursive(recursive, &mut operator, broker)?,
            Node::RecursiveRows { number, schema } => self.recursive_rows(*number, schema)?,
        };
        let (source, measured) = watched(source, self.early_filters);
        operator.measured = Some(measured);
        Ok((source, operator))
    }

    /// Builds `node` as an input of `operator`.
    fn build_below(&self, node: &Node, wish: Wish<'_>, operator: &mut Operator) -> Result<Arc<dyn BatchSource>> {
        let (source, input) = self.build(node, wish)?;
        operator.inputs.push(input);
        Ok(source)
    }

    fn join_request(&self, join: &plan::Join, (broker, temp): (Broker, TempSpace)) -> JoinRequest {
        JoinRequest {
            kind: join.kind,
            on: join.on.clone(),
            nulls_equal: join.nulls_equal,
            residual: join.condition.map(|condition| self.function(condition)),
            bounds: join.bounds.clone(),
            output: join.output.iter().copied().filter(|column| *column < join.columns()).collect(),
            schema: with_nulls(&join.schema),
            batch_rows: self.batch_rows,
            cancel: self.cancel.clone(),
            broker,
            temp,
            null_aware: join.null_aware,
            ordered: None,
        }
    }

    /// A join along an order that gathers the right side by its keys.
    fn indexed_ordered_join(
        &self,
        join: &plan::OrderedJoin,
        (broker, temp): (Broker, TempSpace),
        operator: &mut Operator,
    ) -> Result<Arc<dyn BatchSource>> {
        let left = self.build_below(&join.left, Wish::All, operator)?;
        let right = self.build_below(&join.right, Wish::All, operator)?;
        // A left row needs only the right rows with its key. An inner join gives filters to the left side.
        let on: Vec<(usize, usize)> = join.on.iter().map(|(of_left, of_right)| (*of_right, *of_left)).collect();
        let (right, left) = match join.result {
            OrderedResult::Rows { inner: true } => (right, left),
            _ => looking_ahead(right, left, &on, join.nulls_equal, broker.clone()),
        };
        let join = ordered_join(left, right, self.ordered_join_request(join, (broker, temp)))?;
        operator.join = Some(Arc::clone(join.metrics()));
        Ok(join)
    }

    fn ordered_join_request(
        &self,
        join: &plan::OrderedJoin,
        (broker, temp): (Broker, TempSpace),
    ) -> OrderedJoinRequest {
        OrderedJoinRequest {
            on: join.on.clone(),
            nulls_equal: join.nulls_equal,
            order: OrderRules {
                position: join.position,
                tie: join.tie,
                lower: join.lower,
                upper: join.upper,
                choice: join.choice,
            },
            result: join.result.clone(),
            output: join.output.clone(),
            schema: with_nulls(&join.schema),
            batch_rows: self.batch_rows,
            cancel: self.cancel.clone(),
            broker,
            temp,
        }
    }

    fn unnest_request(&self, unnest: &plan::Unnest) -> UnnestRequest {
        UnnestRequest {
            keep: unnest.keep.clone(),
            lists: unnest.lists.clone(),
            ordinality: unnest.ordinality,
            outer: unnest.outer,
            schema: Arc::clone(&unnest.schema),
            batch_rows: self.batch_rows,
            cancel: self.cancel.clone(),
        }
    }

    fn series_request(&self, series: &plan::Series) -> SeriesRequest {
        SeriesRequest {
            keep: series.keep.clone(),
            start: series.start,
            stop: series.stop,
            step: series.step,
            inclusive: series.inclusive,
            schema: Arc::clone(&series.schema),
            batch_rows: self.batch_rows,
            cancel: self.cancel.clone(),
        }
    }

    fn scan_request(&self, scan: &Scan, wish: Wish<'_>) -> ScanRequest {
        let (limit, top) = match wish {
            Wish::All | Wish::Presence => (None, None),
            Wish::Any(rows) => (Some(rows), None),
            Wish::Top { keys, rows } => (None, top_request(scan, keys, rows)),
        };
        ScanRequest {
            columns: scan.columns.clone(),
            predicates: scan.predicates.clone(),
            limit,
            top,
            batch_rows: self.batch_rows,
            row_numbers: scan.row_number,
            cancel: self.cancel.clone(),
        }
    }

    /// Wraps the source of a scan. The keys of a keyed table that serve as row numbers are cast to the type of blobs
    /// that other engines use.
    fn with_engine_types(&self, source: Arc<dyn BatchSource>, scan: &Scan) -> Arc<dyn BatchSource> {
        if !scan.row_number || self.tables[scan.table].keyed().is_none() {
            return source;
        }
        let key = scan.columns.len();
        let mut columns: Vec<Projected> = (0..key).map(Projected::Column).collect();
        columns.push(Projected::Function(Arc::new(BlobColumn([key]))));
        Project::new(source, columns, &scan.schema, self.cancel.clone())
    }

    /// A sort of the rows of a columnar table that reads their texts afterwards, and the operator below it. `below` is
    /// the estimated number of rows, if the scan has conditions. `None` if the texts should be sorted with the rows.
    fn late_sort(
        &self,
        node: &Node,
        (keys, skip, rows): (&[SortKey], usize, Option<usize>),
        below: Option<f64>,
        broker: &Broker,
    ) -> Result<Option<(LateSort, Operator)>> {
        let (exprs, scan) = match node {
            Node::Project { input, exprs, .. } => (Some(exprs), self.columnar_scan(input)),
            _ => (None, self.columnar_scan(node)),
        };
        // Of a few first rows, the scan itself reads other columns late.
        let scan = scan.filter(|_| rows.is_none_or(|rows| skip + rows > TOP_ROWS_OF_SORT_MAX));
        let Some((scan, table)) = scan else { return Ok(None) };
        let table = &table;
        let columns = match exprs {
            Some(exprs) => exprs.iter().map(|expr| self.projected(*expr)).collect(),
            None => (0..scan.columns.len()).map(Projected::Column).collect(),
        };
        let rows_below = below.unwrap_or(table.row_count() as f64);
        let input = SortInput {
            table,
            scan: self.scan_request(scan, Wish::All),
            columns,
            schema: node.schema(),
            rows: rows_below,
            shown: rows.map_or(rows_below, |rows| rows_below.min((skip + rows) as f64)),
        };
        let Some(mut sort) = LateSort::new(input, keys, broker)? else { return Ok(None) };
        let (source, measured) = watched(sort.source, self.early_filters);
        sort.source = source;
        let mut operator = Operator::of_scan(&sort.metrics);
        if exprs.is_some() {
            operator = Operator { inputs: vec![operator], ..Operator::default() };
        }
        operator.measured = Some(measured);
        Ok(Some((sort, operator)))
    }

    /// A FILL over a grouping that can be cut into slices of time. It sorts each slice by itself, so the sort and the
    /// grouping below it are not built.
    fn sliced_fill(
        &self,
        fill: &plan::Fill,
        (broker, temp): (&Broker, &TempSpace),
        operator: &mut Operator,
    ) -> Result<Option<Arc<SlicedFill>>> {
        let Node::Sort { input: grouping, keys, skip: 0, rows: None, .. } = &*fill.input else { return Ok(None) };
        let Node::Group { input, group, schema, rows } = &**grouping else { return Ok(None) };
        let is_in_order = keys.iter().map(|key| key.column).eq(fill.keys.iter().copied().chain([fill.bucket]));
        let scan = self.columnar_scan(input).filter(|_| is_in_order && fill.origin.is_none());
        let Some((_, table)) = scan else { return Ok(None) };
        if adapted(group, schema, &self.functions)?.is_some() {
            return Ok(None);
        }
        let resources = (broker.clone(), temp.clone());
        let request = self.group_request(input, (group, schema), &self.functions, Wish::All, resources);
        let metrics = Arc::clone(&request.metrics);
        let slices = GroupSlices::of(&table, &request, (*rows, FILLED_GROUPS_MIN))?;
        let Some(slices) = slices.filter(|slices| slices.key() == fill.bucket) else { return Ok(None) };
        let below = |input: Operator| Operator { inputs: vec![input], ..Operator::default() };
        operator.inputs.push(below(below(Operator::of_scan(&metrics))));
        let resources = (self.cancel.clone(), broker.clone());
        SlicedFill::new(Arc::new(slices), fill, self.batch_rows, resources).map(Some)
    }

    /// Builds a grouping of the rows of `input` with about `groups` groups.
    fn group(
        &self,
        input: &Node,
        request: GroupRequest,
        groups: Option<f64>,
        operator: &mut Operator,
    ) -> Result<Arc<dyn BatchSource>> {
        // The key of the table yields MIN or MAX with the first row that the scan finds, so we ask for one row only.
        if let Some((scan, key)) = self.scan_for_extreme(input, &request.group) {
            let node = Node::Scan(scan);
            let wish = Wish::Top { keys: &[key], rows: 1 };
            let batches = |_: bool| self.build_below(&node, wish, operator);
            return group_batches(batches, request, |column| input.is_nullable(column));
        }
        let Some((_, table)) = self.columnar_scan(input) else {
            let batches = |only_counts: bool| {
                let wish = if only_counts { Wish::Presence } else { Wish::All };
                self.build_below(input, wish, operator)
            };
            return group_batches(batches, request, |column| input.is_nullable(column));
        };
        // The grouping reads the blocks of the table itself, so no scan operator runs between them.
        operator.inputs.push(Operator::of_scan(&request.metrics));
        if let Some(slices) = GroupSlices::of(&table, &request, (groups, SLICED_GROUPS_MIN))? {
            return Ok(SlicedGroup::new(slices));
        }
        group_table(&table, request)
    }

    /// The scan and the order whose first row has the result of a MIN or MAX over a keyed table. NULLs are excluded by
    /// an additional predicate. `None` if the grouping is not of this form.
    fn scan_for_extreme(&self, input: &Node, group: &Group) -> Option<(Scan, SortKey)> {
        let Node::Scan(scan) = input else { return None };
        let table = &self.tables[scan.table];
        let key = order_of_extreme(group)?;
        let column = *scan.columns.get(key.column)?;
        // Only a keyed table can read its rows in order.
        table.keyed()?;
        let mut scan = scan.clone();
        if table.table().columns[column].nullable {
            scan.predicates.push(Predicate::IsNull { column, negated: true });
        }
        Some((scan, key))
    }

    /// The scan of a table that a grouping or sort can read block by block, if `node` is one, and the table.
    fn columnar_scan<'n>(&self, node: &'n Node) -> Option<(&'n Scan, Arc<dyn TableSource>)> {
        let Node::Scan(scan) = node else { return None };
        let table = &self.tables[scan.table];
        match table.keyed() {
            None if !scan.row_number => Some((scan, Arc::clone(table))),
            None => None,
            Some(_) => Some((scan, self.column_copy(scan, Wish::All)?)),
        }
    }

    /// The column copy of a keyed table, if there is one and if the scan should read it instead of the rows. Row
    /// numbers of keyed tables are keys, which the copy does not have.
    fn column_copy(&self, scan: &Scan, wish: Wish<'_>) -> Option<Arc<dyn TableSource>> {
        let table = &self.tables[scan.table];
        let keyed = table.keyed().filter(|_| !scan.row_number)?;
        if !reads_most_rows(&**table, &self.scan_request(scan, wish)) {
            return None;
        }
        // Asked for once, because the question counts as a read of the table and the answer may change.
        let columns = columns_read(&scan.columns, &scan.predicates);
        let mut copies = self.column_copies.lock();
        let ask = |(_, columns): &(usize, Vec<usize>)| keyed.column_copy(columns);
        copies.entry((scan.table, columns)).or_insert_with_key(ask).clone()
    }

    fn group_request(
        &self,
        input: &Node,
        (group, schema): (&Group, &SchemaRef),
        functions: &[Arc<dyn VectorFunction>],
        wish: Wish<'_>,
        (broker, temp): (Broker, TempSpace),
    ) -> GroupRequest {
        let scan = self.columnar_scan(input).map(|(scan, _)| scan);
        let (mut group, functions) = own_functions(group, functions, scan.map(|scan| &*scan.columns));
        if let Some(scan) = scan {
            group.predicates = scan.predicates.clone();
        }
        GroupRequest {
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
            threads: self.threads,
            cancel: self.cancel.clone(),
            broker,
            temp,
            metrics: Arc::default(),
            counts_workers: true,
        }
    }

    /// The column of a projection that has the values of `expr`.
    fn projected(&self, expr: Expr) -> Projected {
        match expr {
            Expr::Column(column) => Projected::Column(column),
            Expr::Function(function) => Projected::Function(Arc::clone(&self.functions[function])),
        }
    }

    /// Returns a condition as a function, even if it is only a column.
    fn function(&self, expr: Expr) -> Arc<dyn VectorFunction> {
        match expr {
            Expr::Column(column) => Arc::new(ColumnFunction([column])),
            Expr::Function(function) => Arc::clone(&self.functions[function]),
        }
    }
}

/// The request for the first rows of an order that a scan gets. `None` if it would not help the scan.
fn top_request(scan: &Scan, keys: &[SortKey], rows: usize) -> Option<TopRequest> {
    // A scan has no bounds for row numbers, and inside lists it does not treat 0.0 and -0.0 as equal.
    let is_known =
        |key: &SortKey| key.column < scan.columns.len() && !scan.schema.field(key.column).data_type().is_nested();
    let is_key = |column: usize| keys.iter().any(|key| key.column == column);
    let reads_texts = scan.schema.fields().iter().enumerate().any(|(column, field)| {
        !is_key(column) && matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView)
    });
    let rows_max = if reads_texts { TOP_ROWS_WITH_TEXTS_MAX } else { TOP_ROWS_MAX };
    if rows > rows_max || keys.is_empty() || rows == 0 || !keys.iter().all(is_known) {
        return None;
    }
    let keys = keys.iter().map(|key| TopKey {
        column: scan.columns[key.column],
        descending: key.descending,
        nulls_first: key.nulls_first,
    });
    Some(TopRequest { keys: keys.collect(), rows })
}

/// Describes in words how a scan of a keyed table finds its rows. `first` is the order and the number of rows if only
/// the first rows are needed. `None` if the table is not keyed.
pub fn access_text(table: &dyn TableSource, scan: &Scan, first: Option<(&[SortKey], usize)>) -> Option<String> {
    let top = first.and_then(|(keys, rows)| top_request(scan, keys, rows));
    keyed_access_text(table, (&scan.columns, &scan.predicates), top.as_ref())
}

/// Translates the order wished for of a projection into an order of its input. `None` if a key is computed.
fn keys_below(wish: Wish<'_>, exprs: &[Expr]) -> Option<Vec<SortKey>> {
    let Wish::Top { keys, .. } = wish else { return None };
    let below = keys.iter().map(|key| match exprs[key.column] {
        Expr::Column(column) => Some(SortKey { column, ..*key }),
        Expr::Function(_) => None,
    });
    below.collect()
}

/// The order whose first row has the result of a grouping that is a single plain MIN or MAX of a column.
fn order_of_extreme(group: &Group) -> Option<SortKey> {
    let ([], [only]) = (&group.keys[..], &group.aggregates[..]) else { return None };
    let descending = match only.function.role {
        AggregateRole::Min => false,
        AggregateRole::Max => true,
        _ => return None,
    };
    let Some((Expr::Column(column), _)) = only.argument else { return None };
    let is_plain = only.filter.is_none() && only.of_parts.is_none() && only.more.is_empty();
    is_plain.then_some(SortKey { column, descending, nulls_first: false })
}

/// A copy of `group` with only the functions that it uses. Column `i` of the group becomes column `places[i]`.
fn own_functions(
    group: &Group,
    all: &[Arc<dyn VectorFunction>],
    places: Option<&[usize]>,
) -> (Group, Vec<Arc<dyn VectorFunction>>) {
    let mut functions = Vec::new();
    let mut own = |expr: &mut Expr| match (&expr, places) {
        (Expr::Column(column), Some(places)) => *expr = Expr::Column(places[*column]),
        (Expr::Column(_), None) => {}
        (Expr::Function(function), places) => {
            let function = Arc::clone(&all[*function]);
            functions.push(match places {
                Some(places) => Arc::new(Moved::new(function, places)),
                None => function,
            });
            *expr = Expr::Function(functions.len() - 1);
        }
    };
    let mut group = group.clone();
    group.keys.iter_mut().for_each(|key| own(&mut key.expr));
    group.aggregates.iter_mut().flat_map(plan::Aggregate::exprs_mut).for_each(own);
    (group, functions)
}

/// A function that returns one column unchanged.
#[derive(Debug)]
struct ColumnFunction([usize; 1]);

impl VectorFunction for ColumnFunction {
    fn columns(&self) -> &[usize] {
        &self.0
    }

    fn evaluate(&self, columns: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        Ok(Arc::clone(&columns[0]))
    }
}

/// A function that casts a column of bytes to blobs.
#[derive(Debug)]
struct BlobColumn([usize; 1]);

impl VectorFunction for BlobColumn {
    fn columns(&self) -> &[usize] {
        &self.0
    }

    fn evaluate(&self, columns: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        arrow::compute::cast(&columns[0], &DataType::BinaryView)
            .map_err(|error| Error::internal(format!("cannot cast the keys of a table: {error}")))
    }

    fn never_fails(&self) -> bool {
        true
    }
}

/// A function whose columns are at other places.
#[derive(Debug)]
pub(crate) struct Moved {
    function: Arc<dyn VectorFunction>,
    columns: Vec<usize>,
}

impl Moved {
    /// Wraps `function` so that it reads column `places[i]` where it used to read column `i`.
    pub(crate) fn new(function: Arc<dyn VectorFunction>, places: &[usize]) -> Moved {
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

    fn never_fails(&self) -> bool {
        self.function.never_fails()
    }

    fn of_lengths(&self) -> Option<(LengthUnit, &dyn VectorFunction)> {
        self.function.of_lengths()
    }

    fn arithmetic(&self) -> Option<&Arithmetic> {
        self.function.arithmetic()
    }

    fn is_ascending(&self) -> bool {
        self.function.is_ascending()
    }

    fn case(&self) -> Option<&CaseFunction> {
        self.function.case()
    }
}

#[cfg(test)]
mod tests;
