//! Joins along an order: ASOF, LT, NEAREST, SPLICE, WINDOW and HORIZON JOIN.
//!
//! The parser hands such a join over as `JOIN t ON "ordered join"(kind, sides, match, constraint, tolerance, ...)`; see
//! `parse/time_clauses.rs` of the crate `sql`. The columns that order both sides are named by an inequality in ON, by
//! MATCH_CONDITION or by the last column of USING; otherwise they are the time columns of the tables.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::typing;
use rowmill_plan::logical::{
    LogicalOrderBound, LogicalOrderedChoice, LogicalOrderedJoin, LogicalSetOperation, SetOperationKind,
};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{ColumnId, CompareOp, ExprOp, Logical, ScalarExpr};
use sqlparser::ast::{Expr, Function, Ident, Join, JoinConstraint, JoinOperator};

use super::Binder;
use super::call::arguments_of;
use super::duration::{Duration, duration_of, interval_literal, text_of};
use super::from::FromPart;
use super::place::{start_of, type_name};
use super::query::conjuncts;
use super::sample::given;
use super::scope::{FromNames, NamedColumn, ScopeRelation, WindowJoin};
use super::walk::{free_columns, free_columns_of_plan};
use crate::optimizer::walk::output;

/// The most offsets of a HORIZON JOIN.
const OFFSETS_MAX: usize = 10_000;

/// The call that replaces the condition of a join along an order.
pub(super) fn ordered_join_call(constraint: &Expr) -> Option<&Function> {
    match constraint {
        Expr::Function(call) if call.name.to_string() == "\"ordered join\"" => Some(call),
        _ => None,
    }
}

/// The clauses of a join along an order.
struct OrderedClauses<'e> {
    /// The word before JOIN: `asof`, `nearest`, `lt`, `splice`, `window` or `horizon`.
    kind: &'e str,
    /// `inner`, `left`, or an empty text.
    sides: &'e str,
    matched: Option<&'e Expr>,
    constraint: Option<&'e Function>,
    tolerance: Option<&'e Expr>,
    /// The clauses of WINDOW and HORIZON.
    more: Vec<&'e Expr>,
}

/// The horizon of several HORIZON JOINs. Only the last one names the offsets.
pub(super) struct SharedHorizon {
    /// The column with the offset as an interval.
    distance: ColumnId,
}

/// The keys and the order of a join.
struct JoinOrder {
    on: Vec<(ScalarExpr, ScalarExpr)>,
    /// The position of a left row.
    left: ScalarExpr,
    /// The position of a right row.
    right: ScalarExpr,
    /// `left op right` holds of rows that may meet; absent if the clauses do not say it.
    op: Option<CompareOp>,
    /// Whether the order is written as DuckDB does it, where a join without a word for its sides is an inner join.
    is_inner_by_default: bool,
    /// The columns that USING merges.
    merged: Vec<Ident>,
}

/// A window or horizon around a left row: a distance from its position, and the direction.
struct WindowBound {
    expr: Option<ScalarExpr>,
}

impl Binder<'_> {
    /// Binds a join along an order.
    pub(super) fn ordered_join(
        &mut self,
        left: FromPart,
        (join, call): (&Join, &Function),
        (horizon, later): (&mut Option<SharedHorizon>, &[Join]),
    ) -> Result<FromPart> {
        let arguments = arguments_of(call)?;
        let [kind, sides, matched, constraint, tolerance, more @ ..] = arguments.as_slice() else {
            return Err(Error::internal("a join along an order without its parts"));
        };
        let clauses = OrderedClauses {
            kind: text_of(kind).unwrap_or_default(),
            sides: text_of(sides).unwrap_or_default(),
            matched: given(matched),
            constraint: match given(constraint) {
                Some(Expr::Function(call)) => Some(call),
                _ => None,
            },
            tolerance: given(tolerance),
            more: more.to_vec(),
        };
        let right = self.table_factor(&join.relation)?;
        let free = free_columns_of_plan(&right.plan);
        if output(&left.plan).iter().any(|id| free.contains(&id.0)) {
            let message = format!("the right side of a {} JOIN cannot name columns of its left side", clauses.word());
            return Err(Error::new(ErrorKind::UndefinedColumn, message));
        }
        match clauses.kind {
            "window" => self.window_join(left, right, &clauses),
            "horizon" => self.horizon_join(left, right, &clauses, (horizon, later)),
            "splice" => self.splice_join(left, right, &clauses),
            _ => self.point_join(left, right, &clauses),
        }
    }

    /// ASOF, LT and NEAREST: at most one right row for each left row.
    fn point_join(&mut self, left: FromPart, mut right: FromPart, clauses: &OrderedClauses<'_>) -> Result<FromPart> {
        let order = self.join_order(&left, &right, clauses)?;
        let tolerance = match clauses.tolerance {
            Some(tolerance) => Some(self.tolerance(tolerance, &order.left)?),
            None => None,
        };
        let inner = match clauses.sides {
            "inner" => true,
            "left" => false,
            _ => order.is_inner_by_default,
        };
        let tie = self.arrival(&mut right.plan);
        let moved = |op, by: &Option<ScalarExpr>| match by {
            Some(by) => Ok(Some(inclusive(typing::arithmetic(op, order.left.clone(), by.clone())?, &order.right)?)),
            None => Ok(None),
        };
        let own = |is_inclusive| LogicalOrderBound { expr: order.left.clone(), inclusive: is_inclusive };
        let op = match (clauses.kind, order.op) {
            ("asof", None) => CompareOp::GreaterOrEqual,
            ("lt", None) => CompareOp::Greater,
            ("nearest", None | Some(CompareOp::Equal)) => CompareOp::Equal,
            ("nearest", Some(_)) => {
                let message = "ASOF NEAREST JOIN looks in both directions, so it takes no inequality";
                return Err(Error::new(ErrorKind::Syntax, message)
                    .hint("name the two columns of the order with MATCH_CONDITION (a.ts = b.ts)"));
            }
            ("lt", Some(op)) if !matches!(op, CompareOp::Greater | CompareOp::Less) => {
                let message = "LT JOIN looks for other times than its own, so its inequality is > or <";
                return Err(Error::new(ErrorKind::Syntax, message).hint("ASOF JOIN takes >= and <="));
            }
            (_, Some(op)) => op,
            (_, None) => return Err(Error::internal("a join of an unknown kind")),
        };
        let (lower, upper, choice) = match op {
            CompareOp::GreaterOrEqual | CompareOp::Greater => {
                let upper = own(op == CompareOp::GreaterOrEqual);
                (moved(ArithmeticOp::Minus, &tolerance)?, Some(upper), LogicalOrderedChoice::Last)
            }
            CompareOp::LessOrEqual | CompareOp::Less => {
                let lower = own(op == CompareOp::LessOrEqual);
                (Some(lower), moved(ArithmeticOp::Plus, &tolerance)?, LogicalOrderedChoice::First)
            }
            _ => (
                moved(ArithmeticOp::Minus, &tolerance)?,
                moved(ArithmeticOp::Plus, &tolerance)?,
                LogicalOrderedChoice::Nearest(order.left.clone()),
            ),
        };
        let names = merged_names(&left.names, &right.names, &order.merged);
        let plan = Logical::OrderedJoin(LogicalOrderedJoin {
            left: Box::new(left.plan),
            right: Box::new(right.plan),
            on: order.on,
            position: order.right,
            tie,
            lower,
            upper,
            choice,
            inner,
            aggregates: None,
        });
        Ok(FromPart { plan, names })
    }

    /// WINDOW JOIN: all right rows in a window around each left row.
    fn window_join(&mut self, left: FromPart, mut right: FromPart, clauses: &OrderedClauses<'_>) -> Result<FromPart> {
        let order = self.join_order(&left, &right, clauses)?;
        self.refuse_direction(&order, clauses)?;
        let [lower, upper, prevailing] = clauses.more.as_slice() else {
            return Err(Error::internal("a WINDOW JOIN without its bounds"));
        };
        let lower = self.window_bound(lower, &left.names, &order)?;
        let upper = self.window_bound(upper, &left.names, &order)?;
        let is_included = text_of(prevailing) == Some("include") && lower.expr.is_some();
        let bound = |bound: WindowBound| match bound.expr {
            Some(expr) => inclusive(expr, &order.right).map(Some),
            None => Ok(None),
        };
        let (lower, upper) = (bound(lower)?, bound(upper)?);
        let tie = self.arrival(&mut right.plan);
        let right_columns: HashSet<usize> = output(&right.plan).iter().map(|id| id.0).collect();
        self.level().window_joins.push(WindowJoin { right_columns });
        let names = merged_names(&left.names, &right.names, &order.merged);
        let plan = Logical::OrderedJoin(LogicalOrderedJoin {
            left: Box::new(left.plan),
            right: Box::new(right.plan),
            on: order.on,
            position: order.right,
            tie,
            lower,
            upper,
            choice: if is_included { LogicalOrderedChoice::AllWithPrevailing } else { LogicalOrderedChoice::All },
            inner: false,
            aggregates: None,
        });
        Ok(FromPart { plan, names })
    }

    /// HORIZON JOIN: each left row once for each offset, with the right row that prevails at its time plus the offset.
    ///
    /// Several of them in a row share the offsets that follow the last one. The first one repeats the left rows.
    fn horizon_join(
        &mut self,
        left: FromPart,
        mut right: FromPart,
        clauses: &OrderedClauses<'_>,
        (shared, later): (&mut Option<SharedHorizon>, &[Join]),
    ) -> Result<FromPart> {
        let order = self.join_order(&left, &right, clauses)?;
        self.refuse_direction(&order, clauses)?;
        let (mut plan, left_names) = (left.plan, left.names);
        let is_last = !clauses.more.is_empty();
        let (distance, horizon) = match shared.take() {
            Some(SharedHorizon { distance }) => (distance, None),
            None => {
                let (distance, horizon) = self.repeat_by_offsets(&mut plan, &order, clauses, later)?;
                (distance, Some(horizon))
            }
        };
        if !is_last {
            *shared = Some(SharedHorizon { distance });
        }
        let moved = typing::arithmetic(ArithmeticOp::Plus, order.left.clone(), self.columns.expr(distance))?;
        let moved = typing::cast(moved, &order.right.kind, false)?;
        let time = self.add_column("timestamp", moved.kind.clone());
        super::query::map(&mut plan, vec![(time, moved)]);
        let tie = self.arrival(&mut right.plan);
        let mut names = merged_names(&left_names, &right.names, &order.merged);
        // The columns of the horizon are named only with its alias, so that they do not hide those of the tables.
        names.relations.extend(horizon.map(|(offset, alias)| {
            let columns = vec![NamedColumn::new(offset, "offset"), NamedColumn::new(time, "timestamp")];
            ScopeRelation::new(alias, columns)
        }));
        let upper = LogicalOrderBound { expr: self.columns.expr(time), inclusive: true };
        let plan = Logical::OrderedJoin(LogicalOrderedJoin {
            left: Box::new(plan),
            right: Box::new(right.plan),
            on: order.on,
            position: order.right,
            tie,
            lower: None,
            upper: Some(upper),
            choice: LogicalOrderedChoice::Last,
            inner: false,
            aggregates: None,
        });
        Ok(FromPart { plan, names })
    }

    /// Gives each row of `plan` once for each offset. Returns the column with the offset as an interval, and with the
    /// name of the horizon the one that counts the units of the time, so that queries can calculate with it.
    fn repeat_by_offsets<'e>(
        &mut self,
        plan: &mut Logical,
        order: &JoinOrder,
        clauses: &OrderedClauses<'e>,
        later: &'e [Join],
    ) -> Result<(ColumnId, (ColumnId, Option<&'e str>))> {
        let more = match clauses.more.as_slice() {
            [] => offsets_of_last(later)?,
            more => more.to_vec(),
        };
        let [offsets, alias] = more.as_slice() else {
            return Err(Error::internal("a HORIZON JOIN without its offsets"));
        };
        let Expr::Function(call) = offsets else { return Err(Error::internal("offsets of another form")) };
        let durations = self.offsets(call)?;
        let nanos_per_tick = match &order.right.kind {
            DataType::Timestamp(unit, _) => super::sample::nanos_per_tick(*unit),
            kind => {
                let message = format!("HORIZON JOIN takes a timestamp as its order, not {}", type_name(kind));
                return Err(Error::new(ErrorKind::DatatypeMismatch, message));
            }
        };
        let offset = self.add_column("offset", DataType::Int64);
        let distance = self.add_column("distance", super::duration::INTERVAL);
        let mut rows = Vec::with_capacity(durations.len());
        for duration in &durations {
            let ticks = i64::try_from(nanos_of(duration)? / i128::from(nanos_per_tick));
            let ticks = ticks.map_err(|_| Error::new(ErrorKind::NumericOutOfRange, "an offset is out of range"))?;
            rows.push(vec![ScalarExpr::literal(ticks), interval_literal(duration.interval)]);
        }
        let values = Logical::Values { columns: vec![offset, distance], rows };
        *plan = super::from::cross(std::mem::replace(plan, Logical::one_row()), values);
        Ok((distance, (offset, text_of(alias))))
    }

    /// SPLICE JOIN: the left rows with the right row that prevails at their time, and the right rows whose time no left
    /// row has with the left row that prevails at theirs.
    fn splice_join(&mut self, left: FromPart, right: FromPart, clauses: &OrderedClauses<'_>) -> Result<FromPart> {
        let order = self.join_order(&left, &right, clauses)?;
        self.refuse_direction(&order, clauses)?;
        let columns: Vec<ColumnId> = output(&left.plan).iter().chain(output(&right.plan).iter()).collect();
        let ([left_one, left_two], [right_one, right_two]) = (self.twice(left.plan), self.twice(right.plan));
        let by_one: Vec<_> = left_one.columns.iter().chain(&right_one.columns).copied().collect();
        let by_two: Vec<_> = left_two.columns.iter().chain(&right_two.columns).copied().collect();
        let order_one = order.renamed(&by_one);
        let order_two = order.renamed(&by_two);
        let forward = prevailing(left_one.plan, right_one.plan, &order_one);
        // A right row at the time of a left row is in the first part already.
        let backward = prevailing(right_two.plan, left_two.plan, &order_two.turned());
        let is_later = typing::compare(CompareOp::Less, order_two.left.clone(), order_two.right.clone())?;
        let is_alone = ExprOp::IsNull { value: Box::new(order_two.left.clone()), negated: false };
        let is_alone = ScalarExpr::new(DataType::Boolean, is_alone);
        let is_new = ScalarExpr::new(DataType::Boolean, ExprOp::Or(vec![is_later, is_alone]));
        let backward = Logical::filter(backward, vec![is_new]);
        let made: Vec<ColumnId> = columns.iter().map(|id| self.copied_column(*id)).collect();
        let read = |by: &[(ColumnId, ColumnId)]| columns.iter().map(|id| renamed_column(*id, by)).collect();
        let plan = Logical::SetOperation(LogicalSetOperation {
            kind: SetOperationKind::Union,
            all: true,
            inputs: vec![(forward, read(&by_one)), (backward, read(&by_two))],
            columns: made.clone(),
        });
        let by: Vec<(ColumnId, ColumnId)> = columns.into_iter().zip(made).collect();
        let mut names = merged_names(&left.names, &right.names, &[]);
        let relations = names.relations.iter_mut().flat_map(|relation| &mut relation.columns);
        for column in relations.chain(&mut names.visible) {
            if self.time_columns.contains(&column.id) {
                self.time_columns.insert(renamed_column(column.id, &by));
            }
            column.id = renamed_column(column.id, &by);
        }
        Ok(FromPart { plan, names })
    }

    /// Makes two uses of the rows of a plan. Each has columns of its own.
    fn twice(&mut self, plan: Logical) -> [RowsUse; 2] {
        let number = self.next_plan();
        let input_columns: Vec<ColumnId> = output(&plan).iter().collect();
        let input = Arc::new(plan);
        [(); 2].map(|()| {
            let columns: Vec<ColumnId> = input_columns.iter().map(|id| self.copied_column(*id)).collect();
            let by = input_columns.iter().copied().zip(columns.iter().copied()).collect();
            let (input, input_columns) = (Arc::clone(&input), input_columns.clone());
            RowsUse { plan: Logical::Shared { number, input, input_columns, columns }, columns: by }
        })
    }

    fn copied_column(&mut self, of: ColumnId) -> ColumnId {
        let info = self.columns.get(of).clone();
        self.add_column(&info.name, info.kind)
    }

    /// The length of TOLERANCE: an interval beside times, a number beside numbers.
    fn tolerance(&mut self, tolerance: &Expr, position: &ScalarExpr) -> Result<ScalarExpr> {
        if position.kind.is_numeric() && text_of(tolerance).is_none() {
            return self.expr(tolerance);
        }
        let Duration { interval, .. } = self.duration(tolerance, "TOLERANCE")?;
        let is_negative = interval.months < 0 || interval.days < 0 || interval.nanoseconds < 0;
        if is_negative {
            let error = Error::new(ErrorKind::InvalidParameter, "TOLERANCE must not be negative");
            return Err(self.at(error, start_of(tolerance)));
        }
        Ok(interval_literal(interval))
    }

    /// Binds a bound of a window: what the parser calls `"bound"(direction, distance, unit)`.
    fn window_bound(&mut self, bound: &Expr, left: &FromNames, order: &JoinOrder) -> Result<WindowBound> {
        let Expr::Function(call) = bound else { return Err(Error::internal("a bound of another form")) };
        let arguments = arguments_of(call)?;
        let [direction, distance, unit] = arguments.as_slice() else {
            return Err(Error::internal("a bound without its parts"));
        };
        let op = match text_of(direction) {
            Some("preceding") => ArithmeticOp::Minus,
            Some("following") => ArithmeticOp::Plus,
            Some("current") => return Ok(WindowBound { expr: Some(order.left.clone()) }),
            _ => return Ok(WindowBound { expr: None }),
        };
        let span = start_of(distance);
        let outside = std::mem::replace(&mut self.level().names, vec![left.clone()]);
        let value = self.expr(distance);
        self.level().names = outside;
        let mut value = value?;
        if let Some(unit) = given(unit).and_then(text_of) {
            let one = duration_of(1, unit).ok_or_else(|| Error::internal("a unit that the parser knows"))?;
            value =
                self.placed(span, |_| typing::arithmetic(ArithmeticOp::Times, value, interval_literal(one.interval)))?;
        }
        let expr = self.placed(span, |_| typing::arithmetic(op, order.left.clone(), value))?;
        Ok(WindowBound { expr: Some(expr) })
    }

    /// Binds the offsets of a HORIZON JOIN.
    fn offsets(&mut self, call: &Function) -> Result<Vec<Duration>> {
        let arguments = arguments_of(call)?;
        let mut durations = Vec::with_capacity(arguments.len());
        for argument in &arguments {
            durations.push(self.duration(argument, "HORIZON JOIN")?);
        }
        if call.name.to_string() != "\"range\"" {
            return Ok(durations);
        }
        let [from, to, step] = durations.as_slice() else {
            return Err(Error::internal("a range of offsets without its parts"));
        };
        let (from, to, step) = (nanos_of(from)?, nanos_of(to)?, nanos_of(step)?);
        if step <= 0 {
            return Err(Error::new(ErrorKind::InvalidParameter, "STEP of a HORIZON JOIN must be greater than zero"));
        }
        if to >= from && (to - from) / step >= OFFSETS_MAX as i128 {
            let message = format!("the RANGE of a HORIZON JOIN has more than {OFFSETS_MAX} offsets");
            return Err(Error::new(ErrorKind::InvalidParameter, message).hint("take a longer STEP"));
        }
        let count = if to < from { 0 } else { (to - from) / step + 1 };
        (0..count)
            .map(|at| {
                let nanos = i64::try_from(from + at * step).map_err(|_| {
                    Error::new(ErrorKind::NumericOutOfRange, "an offset of a HORIZON JOIN is out of range")
                })?;
                let interval = arrow::datatypes::IntervalMonthDayNano::new(0, 0, nanos);
                Ok(Duration { interval, in_weeks: false })
            })
            .collect()
    }

    fn refuse_direction(&self, order: &JoinOrder, clauses: &OrderedClauses<'_>) -> Result<()> {
        match order.op {
            None | Some(CompareOp::Equal) => Ok(()),
            Some(_) => {
                let message = format!("{} JOIN takes no inequality in ON", clauses.word());
                Err(Error::new(ErrorKind::Syntax, message)
                    .hint("name the two columns of the order with MATCH_CONDITION (a.ts = b.ts)"))
            }
        }
    }
}

/// The keys and the order.
impl Binder<'_> {
    fn join_order(&mut self, left: &FromPart, right: &FromPart, clauses: &OrderedClauses<'_>) -> Result<JoinOrder> {
        let mut on = Vec::new();
        let mut merged = Vec::new();
        let mut ordered: Option<(ScalarExpr, ScalarExpr, CompareOp)> = None;
        let mut is_inner_by_default = false;
        let arguments = clauses.constraint.map(arguments_of).transpose()?.unwrap_or_default();
        let is_using = clauses.constraint.is_some_and(|call| call.name.to_string() == "\"using\"");
        let columns = if is_using {
            let names = arguments.iter().map(|argument| plain_name(argument)).collect::<Option<Vec<_>>>();
            names.ok_or_else(|| Error::new(ErrorKind::Syntax, "USING takes the names of columns"))?
        } else {
            // ON (a, b): columns that both sides have.
            arguments.first().and_then(|condition| key_names(condition)).unwrap_or_default()
        };
        let mut columns: Vec<&Ident> = columns;
        if !columns.is_empty() {
            if is_using && clauses.matched.is_none() && matches!(clauses.kind, "asof" | "lt" | "nearest") {
                let last = columns.pop().expect("there is a column");
                let (one, other) = self.both_sides(left, right, last)?;
                let op = if clauses.kind == "nearest" { CompareOp::Equal } else { order_of_kind(clauses.kind) };
                ordered = Some((one, other, op));
                is_inner_by_default = true;
            }
            for ident in &columns {
                on.push(self.both_sides(left, right, ident)?);
            }
            merged = columns.into_iter().cloned().collect();
        } else if let Some(condition) = arguments.first() {
            for part in self.conditions_of_both(left, right, condition)? {
                match self.sided(left, right, part) {
                    Some((CompareOp::Equal, one, other)) => on.push((one, other)),
                    Some((op, one, other)) if is_inequality(op) && ordered.is_none() => {
                        ordered = Some((one, other, op));
                        is_inner_by_default = true;
                    }
                    _ => {
                        let message = format!(
                            "ON of a {} JOIN takes equalities of both sides and at most one inequality",
                            clauses.word()
                        );
                        let error = Error::new(ErrorKind::Unsupported, message);
                        let hint = "put other conditions into WHERE, or into a subquery for one side";
                        return Err(self.at(error.hint(hint), start_of(condition)));
                    }
                }
            }
        }
        if let Some(matched) = clauses.matched {
            if ordered.is_some() {
                let error = Error::new(ErrorKind::Syntax, "both ON and MATCH_CONDITION give an inequality");
                return Err(self.at(error, start_of(matched)));
            }
            let mut parts = self.conditions_of_both(left, right, matched)?;
            let part = if parts.len() == 1 { parts.pop() } else { None };
            match part.and_then(|part| self.sided(left, right, part)) {
                Some((op, one, other)) if is_inequality(op) || op == CompareOp::Equal => {
                    ordered = Some((one, other, op))
                }
                _ => {
                    let message = "MATCH_CONDITION takes one comparison of a left column with a right one";
                    let error = Error::new(ErrorKind::Syntax, message).hint("for example: (a.ts >= b.ts)");
                    return Err(self.at(error, start_of(matched)));
                }
            }
            is_inner_by_default = false;
        }
        let (one, other, op) = match ordered {
            Some((one, other, CompareOp::Equal)) if matches!(clauses.kind, "asof" | "lt") => {
                let message = "an ASOF or LT JOIN takes an inequality in MATCH_CONDITION";
                let shown = format!("{} = {}", type_name(&one.kind), type_name(&other.kind));
                return Err(
                    Error::new(ErrorKind::Syntax, message).hint(format!("write >= in place of the = of {shown}"))
                );
            }
            Some((one, other, op)) => (one, other, Some(op)),
            None => {
                let one = self.time_column(&left.names, "left", clauses)?;
                let other = self.time_column(&right.names, "right", clauses)?;
                let (one, other) = same_kind(one, other)?;
                (one, other, None)
            }
        };
        Ok(JoinOrder { on, left: one, right: other, op, is_inner_by_default, merged })
    }

    /// Returns the time column of one side.
    fn time_column(&self, names: &FromNames, side: &str, clauses: &OrderedClauses<'_>) -> Result<ScalarExpr> {
        let found = names.visible.iter().map(|column| column.id).find(|id| self.time_columns.contains(id));
        found.map(|id| self.columns.expr(id)).ok_or_else(|| {
            let message = format!("{} JOIN: the {side} side has no time column", clauses.word());
            let hint = match clauses.kind {
                "asof" | "lt" => "write ON a.key = b.key AND a.ts >= b.ts, or declare TIMESTAMP(ts) in CREATE TABLE",
                _ => "write MATCH_CONDITION (a.ts = b.ts) before ON, or declare TIMESTAMP(ts) in CREATE TABLE",
            };
            Error::new(ErrorKind::UndefinedColumn, message).hint(hint)
        })
    }

    fn both_sides(&self, left: &FromPart, right: &FromPart, ident: &Ident) -> Result<(ScalarExpr, ScalarExpr)> {
        let one = self.using_column(&left.names, ident)?;
        let other = self.using_column(&right.names, ident)?;
        same_kind(self.columns.expr(one.id), self.columns.expr(other.id)).map_err(|error| self.at(error, ident.span))
    }

    /// Binds a condition over both sides, and splits it into its parts.
    fn conditions_of_both(&mut self, left: &FromPart, right: &FromPart, condition: &Expr) -> Result<Vec<ScalarExpr>> {
        let both = left.names.clone().and(right.names.clone());
        let outside = std::mem::replace(&mut self.level().names, vec![both]);
        let bound = self.condition(condition);
        self.level().names = outside;
        Ok(conjuncts(bound?))
    }

    /// Returns a comparison of a left expression with a right one, turned so that the left one comes first.
    fn sided(
        &self,
        left: &FromPart,
        right: &FromPart,
        part: ScalarExpr,
    ) -> Option<(CompareOp, ScalarExpr, ScalarExpr)> {
        let ExprOp::Compare(op, pair) = part.op else { return None };
        let [one, other] = *pair;
        let (of_left, of_right) = (output(&left.plan), output(&right.plan));
        let is_of = |expr: &ScalarExpr, side: &crate::column_set::ColumnSet| {
            let named = free_columns(expr);
            !named.is_empty() && named.iter().all(|id| side.contains(ColumnId(*id)))
        };
        if is_of(&one, &of_left) && is_of(&other, &of_right) {
            Some((op, one, other))
        } else if is_of(&one, &of_right) && is_of(&other, &of_left) {
            Some((op.flipped(), other, one))
        } else {
            None
        }
    }
}

/// A use of rows that are read twice.
struct RowsUse {
    plan: Logical,
    /// The columns of the rows, each with its column of this use.
    columns: Vec<(ColumnId, ColumnId)>,
}

/// Each left row with the right row that prevails at its position.
fn prevailing(left: Logical, right: Logical, order: &JoinOrder) -> Logical {
    Logical::OrderedJoin(LogicalOrderedJoin {
        left: Box::new(left),
        right: Box::new(right),
        on: order.on.clone(),
        position: order.right.clone(),
        tie: None,
        lower: None,
        upper: Some(LogicalOrderBound { expr: order.left.clone(), inclusive: true }),
        choice: LogicalOrderedChoice::Last,
        inner: false,
        aggregates: None,
    })
}

impl JoinOrder {
    /// The order over other columns.
    fn renamed(&self, by: &[(ColumnId, ColumnId)]) -> JoinOrder {
        let rename = |expr: &ScalarExpr| {
            let mut expr = expr.clone();
            expr.rewrite(&mut |part| {
                if let ExprOp::Column(id) = &mut part.op {
                    *id = renamed_column(ColumnId(*id), by).0;
                }
            });
            expr
        };
        JoinOrder {
            on: self.on.iter().map(|(one, other)| (rename(one), rename(other))).collect(),
            left: rename(&self.left),
            right: rename(&self.right),
            op: self.op,
            is_inner_by_default: self.is_inner_by_default,
            merged: Vec::new(),
        }
    }

    /// The same order with the sides exchanged.
    fn turned(&self) -> JoinOrder {
        JoinOrder {
            on: self.on.iter().map(|(one, other)| (other.clone(), one.clone())).collect(),
            left: self.right.clone(),
            right: self.left.clone(),
            op: self.op.map(CompareOp::flipped),
            is_inner_by_default: self.is_inner_by_default,
            merged: Vec::new(),
        }
    }
}

fn renamed_column(id: ColumnId, by: &[(ColumnId, ColumnId)]) -> ColumnId {
    by.iter().find(|(old, _)| *old == id).map_or(id, |(_, new)| *new)
}

/// An inclusive bound of the type of a position.
fn inclusive(expr: ScalarExpr, position: &ScalarExpr) -> Result<LogicalOrderBound> {
    Ok(LogicalOrderBound { expr: typing::cast(expr, &position.kind, false)?, inclusive: true })
}

fn is_inequality(op: CompareOp) -> bool {
    use CompareOp::{Greater, GreaterOrEqual, Less, LessOrEqual};
    matches!(op, Less | LessOrEqual | Greater | GreaterOrEqual)
}

fn order_of_kind(kind: &str) -> CompareOp {
    if kind == "lt" { CompareOp::Greater } else { CompareOp::GreaterOrEqual }
}

/// The offsets of the last HORIZON JOIN of those that directly follow one without offsets, and the name of the horizon.
fn offsets_of_last(later: &[Join]) -> Result<Vec<&Expr>> {
    for join in later {
        let JoinOperator::Join(JoinConstraint::On(condition)) = &join.join_operator else { break };
        let Some(call) = ordered_join_call(condition) else { break };
        let arguments = arguments_of(call)?;
        match arguments.split_at_checked(5) {
            Some(([kind, ..], more)) if text_of(kind) == Some("horizon") => {
                if !more.is_empty() {
                    return Ok(more.to_vec());
                }
            }
            _ => break,
        }
    }
    Err(Error::internal("a HORIZON JOIN without its offsets"))
}

/// The nanoseconds of an offset of a HORIZON JOIN.
fn nanos_of(duration: &Duration) -> Result<i128> {
    match duration.interval.months {
        0 => Ok(i128::from(duration.interval.days) * 86_400_000_000_000 + i128::from(duration.interval.nanoseconds)),
        _ => Err(Error::new(ErrorKind::InvalidParameter, "the offsets of a HORIZON JOIN take no months and years")
            .hint("their lengths differ; count days instead")),
    }
}

/// Brings the positions of both sides to one type.
fn same_kind(one: ScalarExpr, other: ScalarExpr) -> Result<(ScalarExpr, ScalarExpr)> {
    let condition = typing::compare(CompareOp::Equal, one, other)?;
    match condition.op {
        ExprOp::Compare(_, pair) => {
            let [one, other] = *pair;
            Ok((one, other))
        }
        _ => Err(Error::internal("a comparison of another form")),
    }
}

/// Returns the names in `ON (a, b)`, if it only names columns without a table.
fn key_names(condition: &Expr) -> Option<Vec<&Ident>> {
    match condition {
        Expr::Nested(inner) => key_names(inner),
        Expr::Tuple(parts) => parts.iter().map(plain_name).collect(),
        Expr::Identifier(name) => Some(vec![name]),
        _ => None,
    }
}

fn plain_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        _ => None,
    }
}

/// The names of both sides. Columns that both sides are joined by are visible once.
fn merged_names(left: &FromNames, right: &FromNames, merged: &[Ident]) -> FromNames {
    let mut names = left.clone();
    let is_merged = |column: &NamedColumn| merged.iter().any(|ident| *ident.value == *column.name);
    names.visible.extend(right.visible.iter().filter(|column| !is_merged(column)).cloned());
    names.relations.extend(right.relations.iter().cloned());
    names
}

impl OrderedClauses<'_> {
    /// The word before JOIN in messages.
    fn word(&self) -> String {
        if self.kind == "nearest" { "ASOF NEAREST".into() } else { self.kind.to_uppercase() }
    }
}
