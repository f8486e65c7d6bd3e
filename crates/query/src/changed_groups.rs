//! Incremental refreshes of materialized views: which queries allow them, and the queries that they run.
//!
//! ```text
//! SELECT keys, aggregates FROM t [WHERE ...] GROUP BY keys [HAVING ...]
//!
//! keys_of      the distinct keys of some rows of t: of those that were inserted or deleted
//! stale_rows   the rows of the view that have one of these keys
//! groups       the query itself, only over the rows of t that have one of these keys
//! ```
//!
//! A group that no changed row belongs to keeps all of its rows, so its row of the view is still right. All other
//! groups are computed again from t. This holds for inserts, updates and deletes in any order, and for every aggregate.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use rowmill_base::{Error, Result};
use rowmill_plan::logical::{LogicalGroup, LogicalJoinKind, LogicalQuery, LogicalScan, LogicalSource};
use rowmill_plan::{ColumnId, ColumnNames, CompareOp, Constant, ExprOp, Logical, ScalarExpr};
use rowmill_storage::TableSource;

use crate::binder::BoundQuery;
use crate::binder::duration::interval_of;
use crate::binder::target::kind_of_row;
use crate::binder::walk::own_exprs;
use crate::memory_rows::MemoryRows;

const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// What a bucket that follows a calendar or a time zone may be longer than its length says.
const CALENDAR_SLACK_DAYS: i64 = 2;

/// A query with one row for each group of the rows of one columnar table.
#[derive(Clone, Debug)]
pub struct GroupedQuery {
    bound: BoundQuery,
    keys: Vec<ScalarExpr>,
    /// For each key, the position of the output column that has its values.
    outputs: Vec<usize>,
}

impl GroupedQuery {
    /// Examines a query. If it is no such query, the error says why, as the end of a sentence.
    pub fn of(bound: BoundQuery) -> Result<GroupedQuery, String> {
        if bound.reads_more_than_tables() {
            return Err("its result depends on more than the rows of tables".to_owned());
        }
        check_plan(&bound.query.root, false)?;
        let (Some(group), Some(scan)) = (group_of(&bound.query.root), scan_of(&bound.query.root)) else {
            return Err("it has no GROUP BY".to_owned());
        };
        let table = bound.tables[scan.table].table();
        if table.keyed.is_some() {
            return Err(format!("the rows of \"{}\" are stored by a primary key", table.name));
        }
        let mut outputs = Vec::with_capacity(group.keys.len());
        for (id, _) in &group.keys {
            let place = bound.query.output.iter().position(|(output, _)| source_of(&bound.query.root, *output) == *id);
            let name = &bound.query.columns.get(*id).name;
            outputs.push(place.ok_or_else(|| format!("its columns lack the key {name}"))?);
        }
        let keys = group.keys.iter().map(|(_, expr)| expr.clone()).collect();
        Ok(GroupedQuery { bound, keys, outputs })
    }

    /// Returns the output column with the buckets of the time column of the table, which are never NULL.
    pub fn time_output(&self) -> Option<usize> {
        let scan = scan_of(&self.bound.query.root)?;
        let table = self.bound.tables[scan.table].table();
        let time = table.column_by_id(table.time.as_ref()?.column)?;
        let is_time = |key: &ScalarExpr| {
            let column = bucketed_time(key).and_then(ScalarExpr::as_column)?;
            scan.columns.iter().find(|(id, place)| id.0 == column && *place == time)
        };
        let key = self.keys.iter().position(|key| is_time(key).is_some())?;
        Some(self.outputs[key])
    }

    /// Returns a query for the distinct keys of the rows of `table`, which has the columns of the query's table.
    #[must_use]
    pub fn keys_of(&self, table: Arc<dyn TableSource>) -> BoundQuery {
        let mut bound = self.bound.clone();
        bound.tables = vec![table];
        let group = group_of_mut(&mut bound.query.root).expect("the query has a GROUP BY");
        let input = std::mem::replace(&mut *group.input, Logical::one_row());
        let keys: Vec<(ColumnId, ScalarExpr)> =
            self.keys.iter().map(|key| (bound.query.columns.add("key", key.kind.clone()), key.clone())).collect();
        let columns: Vec<ColumnId> = keys.iter().map(|(id, _)| *id).collect();
        bound.query.output = (0..).zip(&columns).map(|(place, id): (usize, _)| (*id, format!("key {place}"))).collect();
        bound.query.root = Logical::Distinct { input: Box::new(Logical::map(input, keys)), columns, on: false };
        bound
    }

    /// Returns the query over the rows whose keys are among the rows of `keys`, which are rows of [`Self::keys_of`].
    pub fn groups(&self, keys: &RecordBatch) -> Result<BoundQuery> {
        let mut bound = self.bound.clone();
        let bounds = self.bounds(keys)?;
        let (source, columns) = add_keys(&mut bound.query.columns, keys);
        let conditions = self.keys.iter().cloned().zip(columns).map(|(key, of)| is_same(key, of)).collect();
        bound.sources = vec![MemoryRows::new("changed groups", keys.clone())];
        let group = group_of_mut(&mut bound.query.root).expect("the query has a GROUP BY");
        let input = std::mem::replace(&mut *group.input, Logical::one_row());
        *group.input = Logical::join(LogicalJoinKind::Semi, Logical::filter(input, bounds), source, conditions);
        Ok(bound)
    }

    /// Returns a query for the numbers of the rows of `view` whose keys are among the rows of `keys`.
    pub fn stale_rows(&self, view: Arc<dyn TableSource>, keys: &RecordBatch) -> BoundQuery {
        let mut names = ColumnNames::default();
        let places = self.outputs.iter().map(|place| {
            let column = &view.table().columns[*place];
            (names.add(&column.name, column.kind.arrow()), *place)
        });
        let columns: Vec<(ColumnId, usize)> = places.collect();
        let number = names.add("row number", kind_of_row(view.table()));
        let (source, of) = add_keys(&mut names, keys);
        let conditions = columns.iter().zip(of).map(|((id, _), of)| is_same(names.expr(*id), of)).collect();
        let scan = LogicalScan { table: 0, columns, conditions: Vec::new(), row_number: Some(number) };
        let root = Logical::join(LogicalJoinKind::Semi, Logical::Scan(scan), source, conditions);
        let output = vec![(number, "row number".to_owned())];
        BoundQuery {
            query: LogicalQuery { root, output, columns: names },
            tables: vec![view],
            sources: vec![MemoryRows::new("changed groups", keys.clone())],
            parameters: Vec::new(),
            reads_clock: false,
        }
    }

    /// Returns conditions that hold for the rows of all changed groups, which scans can check for whole blocks: a time
    /// lies in its bucket.
    fn bounds(&self, keys: &RecordBatch) -> Result<Vec<ScalarExpr>> {
        let mut conditions = Vec::new();
        for (key, values) in self.keys.iter().zip(keys.columns()) {
            let (Some(time), DataType::Timestamp(unit, _)) = (bucketed_time(key), &key.kind) else { continue };
            let Some(length) = length_of(key, *unit).filter(|_| time.kind == key.kind) else { continue };
            let failed = |error: arrow::error::ArrowError| Error::internal(format!("bounds of buckets: {error}"));
            let ticks = cast(values, &DataType::Int64).map_err(failed)?;
            let ticks = ticks.as_primitive::<Int64Type>();
            // Rows without a time have no bounds.
            let (first, last) = (ticks.values().iter().min(), ticks.values().iter().max());
            let (Some(first), Some(last), 0) = (first, last, ticks.null_count()) else { continue };
            let bound = |ticks: i64| -> Result<ScalarExpr> {
                let value = cast(&Int64Array::from(vec![ticks]), &key.kind).map_err(failed)?;
                Ok(ScalarExpr::literal(Constant::new(value)))
            };
            let (first, last) = (first.checked_sub(length.slack), last.checked_add(length.whole));
            if let (Some(first), Some(last)) = (first, last) {
                conditions.push(ScalarExpr::compare(time.clone(), CompareOp::GreaterOrEqual, bound(first)?));
                conditions.push(ScalarExpr::compare(time.clone(), CompareOp::LessOrEqual, bound(last)?));
            }
        }
        Ok(conditions)
    }
}

/// How far times may lie from the begin of their bucket, in ticks.
struct BucketLength {
    /// Before the begin.
    slack: i64,
    /// After the begin.
    whole: i64,
}

/// Returns the column whose times a key puts into buckets.
fn bucketed_time(key: &ScalarExpr) -> Option<&ScalarExpr> {
    match &key.op {
        ExprOp::Call(function, arguments) if function.name == "time_bucket" => {
            arguments.get(1).filter(|time| time.as_column().is_some())
        }
        _ => None,
    }
}

fn length_of(key: &ScalarExpr, unit: TimeUnit) -> Option<BucketLength> {
    let ExprOp::Call(_, arguments) = &key.op else { return None };
    let stride = arguments.first()?.as_constant().and_then(interval_of)?;
    let has_zone = arguments.iter().skip(2).any(|argument| argument.kind == DataType::Utf8View);
    let days = i64::from(stride.months).checked_mul(31)?.checked_add(i64::from(stride.days))?;
    let slack = if has_zone || stride.months != 0 { CALENDAR_SLACK_DAYS } else { 0 };
    let nanos = |days: i64, nanos: i64| days.checked_mul(NANOS_PER_DAY)?.checked_add(nanos);
    let per_tick = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let whole = nanos(days.checked_add(slack)?, stride.nanoseconds)? / per_tick;
    Some(BucketLength { slack: nanos(slack, 0)? / per_tick, whole: whole.checked_add(1)? })
}

/// Adds the columns of the changed keys. Returns the operator that has them, and each as an expression.
fn add_keys(names: &mut ColumnNames, keys: &RecordBatch) -> (Logical, Vec<ScalarExpr>) {
    let schema = keys.schema();
    let ids: Vec<ColumnId> =
        schema.fields().iter().map(|field| names.add(field.name(), field.data_type().clone())).collect();
    let columns = (0..).zip(&ids).map(|(place, id)| (*id, place)).collect();
    let source = Logical::Source(LogicalSource { source: 0, columns, conditions: Vec::new() });
    (source, ids.into_iter().map(|id| names.expr(id)).collect())
}

/// `left IS NOT DISTINCT FROM right`: NULL is a key like any other.
fn is_same(left: ScalarExpr, right: ScalarExpr) -> ScalarExpr {
    ScalarExpr::new(DataType::Boolean, ExprOp::IsDistinct { operands: Box::new([left, right]), negated: true })
}

/// Checks that each operator is one whose result follows group by group, or row by row below the groups.
fn check_plan(plan: &Logical, is_below: bool) -> Result<(), String> {
    let mut has_subquery = false;
    own_exprs(plan, &mut |expr| has_subquery |= expr.any(&|part| matches!(part.op, ExprOp::Subquery(_))));
    if has_subquery {
        return Err("it has a subquery".to_owned());
    }
    match plan {
        Logical::Map { input, .. } | Logical::Filter { input, .. } | Logical::Sort { input, .. } => {
            check_plan(input, is_below)
        }
        Logical::Group(_) if is_below => Err("it groups groups".to_owned()),
        Logical::Group(group) if group.sets.is_some() => Err("it has GROUPING SETS".to_owned()),
        Logical::Group(group) if group.keys.is_empty() => Err("it has no GROUP BY".to_owned()),
        Logical::Group(group) => check_plan(&group.input, true),
        Logical::Scan(_) if is_below => Ok(()),
        Logical::Scan(_) => Err("it has no GROUP BY".to_owned()),
        Logical::Limit { .. } => Err("it has a LIMIT".to_owned()),
        Logical::Distinct { .. } => Err("it has DISTINCT".to_owned()),
        Logical::Window(_) => Err("it has a window".to_owned()),
        Logical::Fill(_) => Err("it has FILL".to_owned()),
        Logical::Join(_) | Logical::OrderedJoin(_) => Err("it reads more than one table".to_owned()),
        Logical::SetOperation(_) => Err("it has a set operation".to_owned()),
        Logical::Unnest { .. } => Err("it makes rows of lists".to_owned()),
        Logical::OuterRow { .. } => Err("it is correlated".to_owned()),
        Logical::Recursive { .. } | Logical::RecursiveRows { .. } => Err("it is recursive".to_owned()),
        Logical::Source(_) | Logical::Values { .. } => Err("it reads no table".to_owned()),
        Logical::Shared { .. } | Logical::SingleRow { .. } => Err("it reads rows twice".to_owned()),
    }
}

fn group_of(plan: &Logical) -> Option<&LogicalGroup> {
    match plan {
        Logical::Group(group) => Some(group),
        Logical::Map { input, .. } | Logical::Filter { input, .. } | Logical::Sort { input, .. } => group_of(input),
        _ => None,
    }
}

fn group_of_mut(plan: &mut Logical) -> Option<&mut LogicalGroup> {
    match plan {
        Logical::Group(group) => Some(group),
        Logical::Map { input, .. } | Logical::Filter { input, .. } | Logical::Sort { input, .. } => group_of_mut(input),
        _ => None,
    }
}

fn scan_of(plan: &Logical) -> Option<&LogicalScan> {
    match plan {
        Logical::Scan(scan) => Some(scan),
        Logical::Group(LogicalGroup { input, .. })
        | Logical::Map { input, .. }
        | Logical::Filter { input, .. }
        | Logical::Sort { input, .. } => scan_of(input),
        _ => None,
    }
}

/// Returns the column that `id` is a copy of, as the operators above the groups make it.
fn source_of(plan: &Logical, id: ColumnId) -> ColumnId {
    match plan {
        Logical::Map { input, exprs } => {
            let made = exprs.iter().find(|(made, _)| *made == id).and_then(|(_, expr)| expr.as_column());
            source_of(input, made.map_or(id, ColumnId))
        }
        Logical::Filter { input, .. } | Logical::Sort { input, .. } => source_of(input, id),
        _ => id,
    }
}
