//! `time_bucket_gapfill`, `locf` and `interpolate`: filled buckets in a plain GROUP BY.
//!
//! ```text
//! SELECT time_bucket_gapfill('1 hour', ts) AS hour, sensor, locf(avg(value))
//! FROM readings WHERE ts >= '2026-11-01' AND ts < '2026-11-02' GROUP BY hour, sensor
//! ```
//!
//! The other keys of GROUP BY are filled over the range that the call or WHERE gives. `locf` carries the value of the
//! bucket before into buckets without rows, `interpolate` draws a line; other values are NULL there.

use arrow::datatypes::{DataType, TimeUnit};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::{fold, functions, typing};
use rowmill_plan::{ColumnId, CompareOp, ExprOp, FillMode, FilledBuckets, Logical, LogicalFill, ScalarExpr};
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr};

use super::Binder;
use super::call::{argument_list, arguments_of};
use super::duration::{INTERVAL, interval_of, text_of};
use super::place::{start_of, type_name};
use super::query::conjuncts;
use super::sample::{is_linear, ticks_of};

/// The timestamp that a date is converted to.
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// A call of `time_bucket_gapfill` in a SELECT.
#[derive(Clone, Debug)]
pub(super) struct GapFillCall {
    /// The bucket, which must be a key of GROUP BY.
    bucket: ScalarExpr,
    time: ScalarExpr,
    buckets: FilledBuckets,
    start: Option<ScalarExpr>,
    finish: Option<ScalarExpr>,
}

/// A call of `locf` or `interpolate` in a SELECT.
#[derive(Clone, Debug)]
pub(super) struct FilledCall {
    /// The column of the filled value.
    pub(super) id: ColumnId,
    /// The value of a bucket that has rows.
    pub(super) value: ScalarExpr,
    is_linear: bool,
}

impl Binder<'_> {
    /// Binds `time_bucket_gapfill(width, time [, zone] [, start] [, finish])`. The result is the bucket.
    pub(super) fn gapfill_call(&mut self, call: &Function) -> Result<ScalarExpr> {
        const USAGE: &str = "it takes a width, a time, and then a time zone, a start and a finish if they are needed";
        let mut places: Vec<&Expr> = Vec::new();
        let (mut start, mut finish, mut zone) = (None, None, None);
        for argument in argument_list(call).map_or(&[][..], |list| &list.args) {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => places.push(expr),
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } if name.value == "start" => {
                    start = Some(expr);
                }
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } if name.value == "finish" => {
                    finish = Some(expr);
                }
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } if name.value == "timezone" => {
                    zone = text_of(expr).map(str::to_owned);
                }
                other => {
                    let message = format!("time_bucket_gapfill does not take {other}");
                    return Err(Error::new(ErrorKind::UndefinedFunction, message).hint(USAGE));
                }
            }
        }
        let [width, time, more @ ..] = places.as_slice() else {
            return Err(Error::new(ErrorKind::UndefinedFunction, "time_bucket_gapfill needs two arguments").hint(USAGE));
        };
        let mut more = more.to_vec();
        // A text that is the name of a zone is no bound.
        if let Some(name) = more.first().and_then(|first| text_of(first))
            && (more.len() == 3 || functions::time_zone(name).is_ok())
        {
            zone = Some(name.to_owned());
            more.remove(0);
        }
        let mut more = more.into_iter();
        start = start.or(more.next());
        finish = finish.or(more.next());
        if more.next().is_some() {
            return Err(
                Error::new(ErrorKind::UndefinedFunction, "time_bucket_gapfill has too many arguments").hint(USAGE)
            );
        }
        let mut stride = self.expr(width)?;
        if stride.kind != INTERVAL {
            stride = self.placed(start_of(width), |binder| binder.coerce(stride, &INTERVAL))?;
        }
        fold::fold(&mut stride);
        let Some(interval) = stride.as_constant().and_then(interval_of) else {
            let error = Error::new(ErrorKind::InvalidParameter, "the width of time_bucket_gapfill must be a constant");
            return Err(self.at(error, start_of(width)));
        };
        let time = match self.expr(time)? {
            value if value.kind == DataType::Date32 => self.coerce(value, &TIMESTAMP)?,
            value => value,
        };
        let DataType::Timestamp(unit, _) = &time.kind else {
            let message = format!("time_bucket_gapfill takes a timestamp or date, not {}", type_name(&time.kind));
            return Err(Error::new(ErrorKind::DatatypeMismatch, message));
        };
        let per_day = super::sample::ticks_per_day(*unit);
        let origin_day = if interval.months != 0 { functions::MONTHS_ORIGIN_DAY } else { functions::ORIGIN_DAY };
        let mut arguments = vec![stride, time.clone()];
        arguments.extend(zone.as_deref().map(ScalarExpr::literal));
        let function = functions::find("time_bucket").expect("the function exists");
        let bucket = typing::call(function, arguments)?;
        let zero = arrow::datatypes::IntervalMonthDayNano::new(0, 0, 0);
        let buckets = FilledBuckets { stride: interval, zone, origin: origin_day * per_day, offset: zero };
        let kind = time.kind.clone();
        let start = start.map(|bound| self.gapfill_bound(bound, &kind)).transpose()?;
        let finish = finish.map(|bound| self.gapfill_bound(bound, &kind)).transpose()?;
        let level = self.level();
        if level.gapfill.as_ref().is_some_and(|other| other.bucket != bucket) {
            return Err(Error::new(ErrorKind::Unsupported, "a SELECT takes one time_bucket_gapfill"));
        }
        level.gapfill = Some(GapFillCall { bucket: bucket.clone(), time, buckets, start, finish });
        Ok(bucket)
    }

    fn gapfill_bound(&mut self, bound: &Expr, kind: &DataType) -> Result<ScalarExpr> {
        let value = self.expr(bound)?;
        let mut value = self.placed(start_of(bound), |binder| match &value.kind {
            DataType::Timestamp(..) | DataType::Date32 => typing::cast(value, kind, false),
            _ => binder.coerce(value, kind),
        })?;
        fold::fold(&mut value);
        match value.as_constant().and_then(ticks_of) {
            Some(_) => Ok(value),
            None => {
                let message = "start and finish of time_bucket_gapfill must be constants other than NULL";
                Err(self.at(Error::new(ErrorKind::InvalidParameter, message), start_of(bound)))
            }
        }
    }

    /// Binds `locf(value)` or `interpolate(value)`. A new column represents the filled value.
    pub(super) fn filled_call(&mut self, name: &str, call: &Function) -> Result<ScalarExpr> {
        let arguments = arguments_of(call)?;
        let [value] = arguments.as_slice() else {
            let message = format!("{name} takes one argument, the value to fill");
            return Err(Error::new(ErrorKind::UndefinedFunction, message));
        };
        let value = self.expr(value)?;
        let kind = value.kind.clone();
        let is_interpolated = name == "interpolate";
        if is_interpolated && !is_linear(&kind) {
            let message = format!("interpolate takes numbers, dates and times, not {}", type_name(&kind));
            return Err(Error::new(ErrorKind::DatatypeMismatch, message).hint("locf takes every type"));
        }
        let id = self.add_column(name, kind.clone());
        self.level().filled_calls.push(FilledCall { id, value, is_linear: is_interpolated });
        Ok(ScalarExpr::id(id, kind))
    }

    /// Adds the rows of a `time_bucket_gapfill` above the groups. `where_` is the condition of WHERE.
    pub(super) fn fill_gaps(
        &mut self,
        mut plan: Logical,
        keys: &[(ColumnId, ScalarExpr)],
        where_: &[ScalarExpr],
    ) -> Result<Logical> {
        let calls = std::mem::take(&mut self.level().filled_calls);
        let Some(gapfill) = self.level().gapfill.take() else {
            return match calls.is_empty() {
                true => Ok(plan),
                false => {
                    Err(Error::new(ErrorKind::Grouping, "locf and interpolate need time_bucket_gapfill in GROUP BY"))
                }
            };
        };
        let Some((bucket, _)) = keys.iter().find(|(_, key)| *key == gapfill.bucket) else {
            let message = "time_bucket_gapfill must be an expression of GROUP BY";
            return Err(Error::new(ErrorKind::Grouping, message));
        };
        let lower = [CompareOp::GreaterOrEqual, CompareOp::Greater];
        let upper = [CompareOp::Less, CompareOp::LessOrEqual];
        let from = gapfill.start.clone().or_else(|| bound_in(where_, &gapfill.time, &lower));
        let to = gapfill.finish.clone().or_else(|| bound_in(where_, &gapfill.time, &upper));
        let (Some(from), Some(to)) = (from, to) else {
            let message = "time_bucket_gapfill does not know where the buckets begin and end";
            return Err(Error::new(ErrorKind::InvalidParameter, message)
                .hint("give start and finish as arguments, or compare the time with constants in WHERE"));
        };
        let (bucket, mut values, mut mapped) = (*bucket, Vec::new(), Vec::new());
        for call in calls {
            let mode = if call.is_linear { FillMode::Linear } else { FillMode::Previous(call.id) };
            values.push((call.id, mode));
            mapped.push((call.id, call.value));
        }
        super::query::map(&mut plan, mapped);
        Ok(Logical::Fill(LogicalFill {
            input: Box::new(plan),
            keys: keys.iter().map(|(id, _)| *id).filter(|id| *id != bucket).collect(),
            bucket,
            buckets: gapfill.buckets,
            origin: None,
            from: Some(from),
            to: Some(to),
            values,
        }))
    }
}

/// Returns the constant that a condition compares a time with by one of `ops`.
fn bound_in(conditions: &[ScalarExpr], time: &ScalarExpr, ops: &[CompareOp]) -> Option<ScalarExpr> {
    let all = conditions.iter().cloned().flat_map(conjuncts);
    all.filter_map(|condition| {
        let ExprOp::Compare(op, pair) = condition.op else { return None };
        let [one, other] = *pair;
        let (op, mut bound) = if one == *time {
            (op, other)
        } else if other == *time {
            (op.flipped(), one)
        } else {
            return None;
        };
        fold::fold(&mut bound);
        (ops.contains(&op) && bound.as_constant().and_then(ticks_of).is_some()).then_some(bound)
    })
    .next()
}
