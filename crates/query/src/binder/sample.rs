//! SAMPLE BY: groups by buckets of a time column, and FILL: rows for buckets without rows.
//!
//! ```text
//! SELECT ts, symbol, avg(price) FROM trades SAMPLE BY 1h FILL(PREV)
//!
//! Fill(previous)  <-  Group(symbol, time_bucket(1 hour, ts); avg(price))  <-  trades
//! ```
//!
//! The time column means the bucket wherever an expression is computed after grouping, and the row's own time inside of
//! aggregates. Without GROUP BY, every item of the select list without an aggregate is a key. HAVING, windows and ORDER
//! BY see the rows that FILL adds.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNano, TimeUnit};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::time_buckets::{BucketRule, TimeBuckets};
use rowmill_expr::{fold, functions, typing};
use rowmill_plan::logical::{LogicalSortKey, LogicalWindow, LogicalWindowCall, LogicalWindowFunction, WindowFrame};
use rowmill_plan::{ColumnId, CompareOp, Constant, FillMode, FilledBuckets, Logical, LogicalFill, ScalarExpr};
use sqlparser::ast::{Expr, Function, Ident, Value};
use std::sync::Arc;

use super::Binder;
use super::call::arguments_of;
use super::duration::{Duration, INTERVAL, interval_literal, interval_of, text_of};
use super::grouping::GroupKeys;
use super::place::{start_of, type_name};
use super::projection::SelectedItem;
use super::query::filter;
use super::scope::PendingWindow;
use super::walk::{free_columns, rewrite_deep, window_exprs_mut};
use crate::optimizer::facts::plain_call;

/// The timestamp that a date is converted to.
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The Monday of the week of 1970-01-01, from which buckets of weeks are counted.
const FIRST_MONDAY: i64 = -3;

/// A SAMPLE BY clause.
pub(super) struct Sample {
    /// The time of a row, a timestamp.
    pub(super) time: ScalarExpr,
    /// The buckets.
    buckets: FilledBuckets,
    /// Whether the first bucket begins at the first row.
    at_first_observation: bool,
    from: Option<ScalarExpr>,
    to: Option<ScalarExpr>,
    /// The arguments of FILL.
    fill: Option<Vec<Expr>>,
}

/// The grouping of a SAMPLE BY.
pub(super) struct SampledKeys {
    bucket: ScalarExpr,
    origin: Option<ScalarExpr>,
}

impl Binder<'_> {
    /// Binds what replaces a SAMPLE BY clause in the syntax tree: the call `"sample by"(...)` in CLUSTER BY.
    pub(super) fn sample_clause(&mut self, clause: &[Expr]) -> Result<Option<Sample>> {
        let [Expr::Function(call)] = clause else { return Ok(None) };
        let arguments = arguments_of(call)?;
        let [stride, on, from, to, fill, alignment, zone, offset] = arguments.as_slice() else {
            return Err(Error::internal("a SAMPLE BY without its parts"));
        };
        let time = match given(on) {
            Some(on) => self.sampled_time(on)?,
            None => self.time_column_of_from("SAMPLE BY")?,
        };
        let DataType::Timestamp(unit, _) = &time.kind else { return Err(Error::internal("a time of another type")) };
        let unit = *unit;
        let duration = self.duration(stride, "SAMPLE BY")?;
        let zone = given(zone).map(|zone| self.zone_name(zone)).transpose()?;
        let offset = given(offset).map(|offset| self.bucket_offset(offset)).transpose()?;
        let from = given(from).map(|bound| self.range_bound(bound, &time.kind, zone.as_deref())).transpose()?;
        let to = given(to).map(|bound| self.range_bound(bound, &time.kind, zone.as_deref())).transpose()?;
        let origin = match (&from, offset) {
            // The first bucket begins where the range begins.
            (Some(from), None) => self.local_ticks(from, zone.as_deref())?,
            _ if duration.in_weeks => FIRST_MONDAY * ticks_per_day(unit),
            _ => 0,
        };
        let buckets = FilledBuckets {
            stride: duration.interval,
            zone,
            origin,
            offset: offset.unwrap_or(IntervalMonthDayNano::new(0, 0, 0)),
        };
        check_buckets(&buckets, duration, unit).map_err(|error| self.at(error, start_of(stride)))?;
        let fill = match given(fill) {
            Some(Expr::Function(fill)) => Some(arguments_of(fill)?.into_iter().cloned().collect()),
            _ => None,
        };
        let at_first_observation = text_of(alignment) == Some("first observation");
        Ok(Some(Sample { time, buckets, at_first_observation, from, to, fill }))
    }

    /// Binds the expression of SAMPLE BY ... ON.
    fn sampled_time(&mut self, on: &Expr) -> Result<ScalarExpr> {
        let time = self.expr(on)?;
        match time.kind {
            DataType::Timestamp(..) => Ok(time),
            DataType::Date32 => self.coerce(time, &TIMESTAMP),
            _ => {
                let message = format!("SAMPLE BY ... ON takes a timestamp or date, not {}", type_name(&time.kind));
                Err(self.at(Error::new(ErrorKind::DatatypeMismatch, message), start_of(on)))
            }
        }
    }

    /// Returns the time column of the first table in FROM that has one.
    pub(super) fn time_column_of_from(&mut self, clause: &str) -> Result<ScalarExpr> {
        let visible = self.levels.last().into_iter().flat_map(|level| &level.names).flat_map(|names| &names.visible);
        let found = visible.map(|column| column.id).find(|id| self.time_columns.contains(id));
        match found {
            Some(id) => {
                let time = self.columns.expr(id);
                if time.kind == DataType::Date32 { self.coerce(time, &TIMESTAMP) } else { Ok(time) }
            }
            None => {
                let message = format!("{clause}: no table in FROM has a time column");
                Err(Error::new(ErrorKind::UndefinedColumn, message).hint(
                    "write SAMPLE BY ... ON column, or declare the column with TIMESTAMP(column) in CREATE TABLE",
                ))
            }
        }
    }

    fn zone_name(&mut self, zone: &Expr) -> Result<String> {
        let name = text_of(zone).map(str::to_owned);
        name.ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidParameter, "TIME ZONE takes a text such as 'Europe/Berlin'");
            self.at(error, start_of(zone))
        })
    }

    /// Binds the text of WITH OFFSET, such as `'02:00'` or `'-00:30'`, or an interval.
    fn bucket_offset(&mut self, offset: &Expr) -> Result<IntervalMonthDayNano> {
        let mut value = self.expr(offset)?;
        if value.kind != INTERVAL {
            value = typing::cast(value, &INTERVAL, false).map_err(|error| self.at(error, start_of(offset)))?;
        }
        fold::fold(&mut value);
        value.as_constant().and_then(interval_of).ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidParameter, "WITH OFFSET takes a constant such as '02:00'");
            self.at(error, start_of(offset))
        })
    }

    /// Binds a bound of FROM ... TO as a constant of the type of the time. In a zone, a text is a time of the local
    /// clock.
    fn range_bound(&mut self, bound: &Expr, kind: &DataType, zone: Option<&str>) -> Result<ScalarExpr> {
        let DataType::Timestamp(unit, _) = kind else { return Err(Error::internal("a time of another type")) };
        let is_text = text_of(bound).is_some();
        let mut value = self.expr(bound)?;
        let span = start_of(bound);
        value = match zone {
            Some(zone) if is_text => self.placed(span, |binder| {
                let local = binder.coerce(value, &DataType::Timestamp(*unit, None))?;
                let call = functions::find("at_time_zone").expect("the function exists");
                let instant = typing::call(call, vec![local, ScalarExpr::literal(zone)])?;
                typing::cast(instant, &DataType::Timestamp(*unit, Some("UTC".into())), false)
            })?,
            _ => value,
        };
        value = self.placed(span, |binder| match (&value.kind, kind) {
            // Both are counts since 1970-01-01 in UTC.
            (DataType::Timestamp(..) | DataType::Date32, _) => typing::cast(value, kind, false),
            _ => binder.coerce(value, kind),
        })?;
        fold::fold(&mut value);
        if value.as_constant().is_none() {
            let error = Error::new(ErrorKind::InvalidParameter, "FROM and TO of SAMPLE BY take constants");
            return Err(self.at(error, span));
        }
        Ok(value)
    }

    /// The ticks of a bound, as the clock of a zone shows it.
    fn local_ticks(&mut self, bound: &ScalarExpr, zone: Option<&str>) -> Result<i64> {
        let mut local = bound.clone();
        if let (Some(zone), DataType::Timestamp(unit, _)) = (zone, &bound.kind) {
            let instant = typing::cast(local, &DataType::Timestamp(*unit, Some("UTC".into())), false)?;
            let call = functions::find("at_time_zone").expect("the function exists");
            local = typing::call(call, vec![instant, ScalarExpr::literal(zone)])?;
            fold::fold(&mut local);
        }
        let ticks = local.as_constant().and_then(ticks_of);
        ticks.ok_or_else(|| Error::new(ErrorKind::InvalidParameter, "FROM of SAMPLE BY must not be NULL"))
    }

    /// Keeps the rows of the range, and adds what the buckets need to `plan`.
    pub(super) fn sampled_rows(&mut self, plan: &mut Logical, sample: &Sample) -> Result<SampledKeys> {
        for (bound, op) in [(&sample.from, CompareOp::GreaterOrEqual), (&sample.to, CompareOp::Less)] {
            if let Some(bound) = bound {
                filter(plan, ScalarExpr::compare(sample.time.clone(), op, bound.clone()));
            }
        }
        let FilledBuckets { stride, zone, origin, offset } = &sample.buckets;
        let mut arguments = vec![interval_literal(*stride), sample.time.clone()];
        arguments.extend(zone.as_deref().map(ScalarExpr::literal));
        let origin_expr = if sample.at_first_observation {
            self.first_time(plan, &sample.time)
        } else {
            timestamp_literal(*origin, &sample.time.kind)?
        };
        arguments.push(origin_expr.clone());
        arguments.push(interval_literal(*offset));
        let function = functions::find("time_bucket").expect("the function exists");
        let bucket = typing::call(function, arguments)?;
        Ok(SampledKeys { bucket, origin: sample.at_first_observation.then_some(origin_expr) })
    }

    /// Adds a column with the first time of all rows.
    fn first_time(&mut self, plan: &mut Logical, time: &ScalarExpr) -> ScalarExpr {
        let kind = time.kind.clone();
        let id = self.add_column("first", kind.clone());
        let call = plain_call("min", vec![time.clone()], kind);
        let input = std::mem::replace(plan, Logical::one_row());
        let function = LogicalWindowFunction::Aggregate(call);
        *plan = Logical::Window(LogicalWindow {
            input: Box::new(input),
            partition: Vec::new(),
            order: Vec::new(),
            calls: vec![(id, LogicalWindowCall { function, frame: WindowFrame::whole() })],
            top: None,
        });
        self.columns.expr(id)
    }

    /// Adds the keys of a SAMPLE BY to those of GROUP BY. Without GROUP BY, the items without aggregates are keys.
    pub(super) fn sampled_keys(
        &mut self,
        keys: &mut GroupKeys,
        sample: &Sample,
        sampled: &SampledKeys,
        items: &[SelectedItem],
    ) -> Result<()> {
        if keys.has_sets() {
            let message = "SAMPLE BY does not go with ROLLUP, CUBE and GROUPING SETS";
            return Err(Error::new(ErrorKind::Unsupported, message).hint("GROUP BY time_bucket(...) takes them"));
        }
        if !keys.is_written {
            for item in items {
                if !self.is_computed(&item.expr) && item.expr != sample.time {
                    keys.add(item.expr.clone());
                }
            }
        }
        keys.is_written = true;
        keys.add(sampled.bucket.clone());
        if let Some(origin) = &sampled.origin {
            keys.add(origin.clone());
        }
        Ok(())
    }
}

impl Sample {
    /// Adds to the columns of the keys that the time itself means its bucket.
    pub(super) fn note_bucket(&self, sampled: &SampledKeys, keys: &mut Vec<(ColumnId, ScalarExpr)>) {
        if let Some((bucket, _)) = keys.iter().find(|(_, key)| *key == sampled.bucket) {
            keys.push((*bucket, self.time.clone()));
        }
    }
}

impl SampledKeys {
    /// The column of the bucket.
    pub(super) fn bucket_column(&self, keys: &[(ColumnId, ScalarExpr)]) -> ColumnId {
        keys.iter().find(|(_, key)| *key == self.bucket).expect("the bucket is a key").0
    }

    fn origin_column(&self, keys: &[(ColumnId, ScalarExpr)]) -> Option<ColumnId> {
        let origin = self.origin.as_ref()?;
        keys.iter().find(|(_, key)| key == origin).map(|(id, _)| *id)
    }
}

/// The expressions after grouping that may read what FILL fills.
pub(super) struct FilledUses<'s> {
    pub(super) items: &'s mut [SelectedItem],
    pub(super) others: Vec<&'s mut ScalarExpr>,
    pub(super) windows: &'s mut [PendingWindow],
}

impl Binder<'_> {
    /// Adds the FILL of a SAMPLE BY above its groups.
    pub(super) fn fill_sample(
        &mut self,
        plan: Logical,
        sample: &Sample,
        sampled: &SampledKeys,
        keys: &[(ColumnId, ScalarExpr)],
        mut uses: FilledUses<'_>,
    ) -> Result<Logical> {
        let Some(arguments) = &sample.fill else { return Ok(plan) };
        let is_none = |expr: &Expr| matches!(expr, Expr::Identifier(name) if name.value == "none");
        if let [only] = arguments.as_slice()
            && is_none(only)
        {
            return Ok(plan);
        }
        let aggregates: Vec<ColumnId> = self.level().aggregates.iter().map(|(id, _)| *id).collect();
        let windows: Vec<usize> = uses.windows.iter().map(|window| window.id.0).collect();
        let is_filled = |item: &SelectedItem| {
            let named = free_columns(&item.expr);
            aggregates.iter().any(|id| named.contains(&id.0)) && !windows.iter().any(|id| named.contains(id))
        };
        let places: Vec<usize> = (0..uses.items.len()).filter(|place| is_filled(&uses.items[*place])).collect();
        if arguments.len() != 1 && arguments.len() != places.len() {
            let message =
                format!("FILL has {} values, but the select list has {} aggregates", arguments.len(), places.len());
            return Err(Error::new(ErrorKind::Syntax, message).hint("give one value for all, or one for each"));
        }
        let mut values: Vec<(ColumnId, FillMode<ScalarExpr, ColumnId>)> = Vec::new();
        let mut mapped: Vec<(ColumnId, ScalarExpr)> = Vec::new();
        let mut columns: Vec<ColumnId> = Vec::with_capacity(places.len());
        for place in &places {
            let item = &uses.items[*place];
            let direct = item.expr.as_column().map(ColumnId).filter(|id| !columns.contains(id));
            columns.push(match direct {
                Some(id) => id,
                None => {
                    let (spelled, kind) = (item.spelled.clone(), item.expr.kind.clone());
                    let id = self.add_column(&spelled, kind);
                    mapped.push((id, item.expr.clone()));
                    id
                }
            });
        }
        for (at, place) in places.iter().enumerate() {
            let argument = &arguments[if arguments.len() == 1 { 0 } else { at }];
            let kind = uses.items[*place].expr.kind.clone();
            let mode = self.fill_mode(argument, &kind, columns[at], &columns, uses.items, &places)?;
            values.push((columns[at], mode));
        }
        // Aggregates outside of the select list are filled like the others if one value holds for all.
        if arguments.len() == 1 {
            for id in aggregates.iter().filter(|id| !columns.contains(id)) {
                let kind = self.kind(*id).clone();
                let mode = self.fill_mode(&arguments[0], &kind, *id, &columns, uses.items, &places);
                values.push((*id, mode.unwrap_or(FillMode::Null)));
            }
        }
        uses.replace(&mapped, &places, &columns);
        let mut input = plan;
        super::query::map(&mut input, mapped);
        let bucket = sampled.bucket_column(keys);
        let origin = sampled.origin_column(keys);
        let is_key = |id: &ColumnId| *id != bucket && Some(*id) != origin;
        let mut key_columns: Vec<ColumnId> = keys.iter().map(|(id, _)| *id).filter(is_key).collect();
        key_columns.dedup();
        Ok(Logical::Fill(LogicalFill {
            input: Box::new(input),
            keys: key_columns,
            bucket,
            buckets: sample.buckets.clone(),
            origin,
            from: sample.from.clone(),
            to: sample.to.clone(),
            values,
        }))
    }

    /// Binds one argument of FILL for a column of the type `kind`.
    fn fill_mode(
        &mut self,
        argument: &Expr,
        kind: &DataType,
        id: ColumnId,
        columns: &[ColumnId],
        items: &[SelectedItem],
        places: &[usize],
    ) -> Result<FillMode<ScalarExpr, ColumnId>> {
        let span = start_of(argument);
        match argument {
            Expr::Identifier(Ident { value, .. }) if value == "none" => {
                let error = Error::new(ErrorKind::Syntax, "NONE cannot be one of several values of FILL");
                Err(self.at(error, span))
            }
            Expr::Identifier(Ident { value, .. }) if value == "prev" => Ok(FillMode::Previous(id)),
            Expr::Identifier(Ident { value, .. }) if value == "linear" => {
                if !is_linear(kind) {
                    let message = format!("FILL(LINEAR) takes numbers, dates and times, not {}", type_name(kind));
                    let error = Error::new(ErrorKind::DatatypeMismatch, message);
                    return Err(self.at(error.hint("give this column another value of FILL, such as PREV"), span));
                }
                Ok(FillMode::Linear)
            }
            Expr::Value(value) if value.value == Value::Null => Ok(FillMode::Null),
            Expr::Function(call) if is_named(call, "prev") => {
                let arguments = arguments_of(call)?;
                let name = match arguments.as_slice() {
                    [Expr::Identifier(name)] => name,
                    _ => {
                        let error =
                            Error::new(ErrorKind::Syntax, "PREV takes the name of one column of the select list");
                        return Err(self.at(error, span));
                    }
                };
                let found = places.iter().position(|place| *items[*place].name == *name.value);
                let of = found.map(|at| columns[at]).ok_or_else(|| {
                    let message = format!("PREV: the select list has no aggregate called \"{}\"", name.value);
                    self.at(Error::new(ErrorKind::UndefinedColumn, message), span)
                })?;
                if self.kind(of) != kind {
                    let (other, own) = (type_name(self.kind(of)), type_name(kind));
                    let message = format!("PREV(\"{}\") is {other}, but the column to fill is {own}", name.value);
                    return Err(self.at(Error::new(ErrorKind::DatatypeMismatch, message), span));
                }
                Ok(FillMode::Previous(of))
            }
            expr => {
                let value = self.expr(expr)?;
                let mut value = self.placed(span, |_| typing::cast(value, kind, false))?;
                fold::fold(&mut value);
                if value.as_constant().is_none() {
                    let error =
                        Error::new(ErrorKind::InvalidParameter, "FILL takes constants, PREV, LINEAR, NULL and NONE");
                    return Err(self.at(error, span));
                }
                Ok(FillMode::Value(value))
            }
        }
    }
}

impl FilledUses<'_> {
    /// Replaces expressions that were computed before rows were added by their columns.
    fn replace(&mut self, mapped: &[(ColumnId, ScalarExpr)], places: &[usize], columns: &[ColumnId]) {
        for (at, place) in places.iter().enumerate() {
            let item = &mut self.items[*place];
            item.expr = ScalarExpr::id(columns[at], item.expr.kind.clone());
        }
        if mapped.is_empty() {
            return;
        }
        let mut replace = |expr: &mut ScalarExpr| {
            rewrite_deep(expr, &mut |part| {
                if let Some((id, _)) = mapped.iter().find(|(_, of)| of == part && of.as_column().is_none()) {
                    *part = ScalarExpr::id(*id, part.kind.clone());
                }
            });
        };
        self.others.iter_mut().for_each(|expr| replace(expr));
        for window in &mut *self.windows {
            window.partition.iter_mut().for_each(&mut replace);
            window.order.iter_mut().for_each(|key| replace(&mut key.expr));
            window_exprs_mut(&mut window.call, &mut replace);
        }
    }
}

/// The order in which a SAMPLE BY gives its rows if there is no ORDER BY.
pub(super) fn bucket_order(bucket: ScalarExpr) -> LogicalSortKey {
    LogicalSortKey { expr: bucket, descending: false, nulls_first: false }
}

/// Returns an argument of a clause unless the clause leaves it out.
pub(super) fn given<'e>(argument: &&'e Expr) -> Option<&'e Expr> {
    match argument {
        Expr::Value(value) if value.value == Value::Null => None,
        argument => Some(argument),
    }
}

fn is_named(call: &Function, name: &str) -> bool {
    call.name.0.len() == 1 && call.name.to_string() == name
}

/// Whether values of a type lie on a line between two others.
pub(super) fn is_linear(kind: &DataType) -> bool {
    let is_numbered = rowmill_base::NumberedType::of_arrow(kind).is_some();
    (kind.is_numeric() && !is_numbered)
        || matches!(kind, DataType::Date32 | DataType::Time64(_) | DataType::Timestamp(..))
}

/// Returns an error unless the buckets can be computed.
fn check_buckets(buckets: &FilledBuckets, duration: Duration, unit: TimeUnit) -> Result<()> {
    let rule = BucketRule {
        stride: duration.interval,
        zone: buckets.zone.as_deref(),
        origin: buckets.origin,
        offset: buckets.offset,
    };
    if TimeBuckets::new(&rule, unit)?.begin_at_ticks() {
        return Ok(());
    }
    let message = "SAMPLE BY: the buckets are finer than the unit of the time column";
    Err(Error::new(ErrorKind::InvalidParameter, message).hint("CAST(... AS TIMESTAMP(9)) has nanoseconds"))
}

pub(super) fn ticks_per_day(unit: TimeUnit) -> i64 {
    86_400 * (1_000_000_000 / nanos_per_tick(unit))
}

pub(super) fn nanos_per_tick(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// The ticks of a timestamp constant that is not NULL.
pub(super) fn ticks_of(constant: &Constant) -> Option<i64> {
    let ticks = arrow::compute::cast(constant.array(), &DataType::Int64).ok()?;
    let ticks = ticks.as_primitive::<Int64Type>();
    (!ticks.is_null(0)).then(|| ticks.value(0))
}

/// A local time of the unit of `kind` as an expression.
fn timestamp_literal(ticks: i64, kind: &DataType) -> Result<ScalarExpr> {
    let DataType::Timestamp(unit, _) = kind else { return Err(Error::internal("a time of another type")) };
    let ticks = arrow::array::Int64Array::from(vec![ticks]);
    let value = arrow::compute::cast(&ticks, &DataType::Timestamp(*unit, None));
    let value = value.map_err(|error| Error::internal(error.to_string()))?;
    Ok(ScalarExpr::literal(Constant::new(Arc::clone(&value))))
}
