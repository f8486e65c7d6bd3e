//! The share of rows that meet a condition that no scan checks, and the number of values of an expression.

use arrow::datatypes::DataType;
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, ExprOp, Node, ScalarExpr};

use super::distinct::origin;
use super::selectivity::{like_share, selectivity};
use super::{Estimator, FILTER_SHARE, GROUP_SHARE, Positions};
use crate::lower::translate_predicate;

/// The share of rows in which one column is less than another, as we assume it.
const ORDER_SHARE: f64 = 0.5;
/// The share of rows for which a comparison with an unknown value is true, as we assume it.
const RANGE_SHARE: f64 = 0.3;
/// The share of NULLs that we assume without statistics.
const NULL_SHARE: f64 = 0.05;

impl Estimator<'_> {
    /// The share of rows of `input` for which a condition is true.
    pub(crate) fn share_of_rows(&self, input: &Node, condition: &ScalarExpr, positions: Positions<'_>) -> f64 {
        let of = |part: &ScalarExpr| self.share_of_rows(input, part, positions);
        let distinct = |expr: &ScalarExpr| self.distinct_of(input, expr, positions);
        let negate = |negated: bool, share: f64| if negated { 1.0 - share } else { share };
        // Statistics of a table are better than any assumption below.
        if let Some(share) = self.share_by_statistics(input, condition, positions) {
            return share;
        }
        if let ExprOp::Compare(op, pair) = &condition.op
            && let Some(share) = self.share_by_aggregate(input, *op, pair, positions)
        {
            return share;
        }
        let share = match &condition.op {
            ExprOp::And(parts) => parts.iter().map(of).product(),
            ExprOp::Or(parts) => 1.0 - parts.iter().map(|part| 1.0 - of(part)).product::<f64>(),
            ExprOp::Not(part) => 1.0 - of(part),
            ExprOp::Compare(CompareOp::Equal, pair) => 1.0 / distinct(&pair[0]).max(distinct(&pair[1])),
            ExprOp::Compare(CompareOp::NotEqual, pair) => 1.0 - 1.0 / distinct(&pair[0]).max(distinct(&pair[1])),
            ExprOp::Compare(_, pair) => match pair.iter().all(reads_columns) {
                true => ORDER_SHARE,
                false => RANGE_SHARE,
            },
            ExprOp::IsDistinct { operands, negated } => {
                let equal = 1.0 / distinct(&operands[0]).max(distinct(&operands[1]));
                negate(!negated, equal)
            }
            ExprOp::InList { value, list, negated } => negate(*negated, (list.len() as f64 / distinct(value)).min(1.0)),
            ExprOp::Like { value, pattern, negated, .. } => {
                let pattern = pattern.as_constant().and_then(|pattern| pattern.as_text());
                negate(*negated, pattern.map_or(FILTER_SHARE, |pattern| like_share(pattern, Some(distinct(value)))))
            }
            ExprOp::IsNull { negated, .. } => negate(*negated, NULL_SHARE),
            ExprOp::Literal(value) => f64::from(u8::from(value.as_bool() == Some(true))),
            ExprOp::Column(_) => ORDER_SHARE,
            _ => FILTER_SHARE,
        };
        share.clamp(0.0, 1.0)
    }

    /// The share by the statistics of one table, if the condition could be checked by a scan.
    fn share_by_statistics(&self, input: &Node, condition: &ScalarExpr, positions: Positions<'_>) -> Option<f64> {
        let mut read = None;
        condition.each(&mut |part| read = read.or(part.as_column()));
        let (scan, _) = origin(input, positions(read?)?)?;
        let source = &self.tables[scan.table];
        let column = |id: usize| {
            let (of, column) = origin(input, positions(id)?)?;
            std::ptr::eq(of, scan).then(|| (column, source.table().columns[column].kind.clone()))
        };
        let predicate = translate_predicate(condition, &column)?;
        Some(selectivity(self.facts(scan.table), &[predicate]))
    }

    /// The number of distinct values of an expression in the rows of `input`, at least one.
    pub(super) fn distinct_of(&self, input: &Node, expr: &ScalarExpr, positions: Positions<'_>) -> f64 {
        let rows = self.row_count(input);
        self.values_of(input, expr, positions).clamp(1.0, rows)
    }

    fn values_of(&self, input: &Node, expr: &ScalarExpr, positions: Positions<'_>) -> f64 {
        let of = |expr: &ScalarExpr| self.distinct_of(input, expr, positions);
        let all = || expr.operands().into_iter().map(of).product::<f64>();
        match &expr.op {
            ExprOp::Column(column) => {
                let known = positions(*column).and_then(|place| self.distinct_left(input, place));
                known.unwrap_or_else(|| self.row_count(input) * GROUP_SHARE)
            }
            ExprOp::Literal(_) | ExprOp::Parameter(_) => 1.0,
            _ if expr.kind == DataType::Boolean => 2.0,
            ExprOp::Case { whens, otherwise } => {
                let values = whens.iter().map(|(_, value)| value).chain(otherwise.as_deref());
                values.map(of).sum::<f64>() + if otherwise.is_none() { 1.0 } else { 0.0 }
            }
            ExprOp::Coalesce(values) => values.iter().map(of).sum(),
            ExprOp::Arithmetic(op @ (ArithmeticOp::Remainder | ArithmeticOp::Divide), pair)
                if expr.kind.is_integer() =>
            {
                let by = pair[1].as_constant().and_then(|by| by.as_bigint()).map(|by| by.unsigned_abs() as f64);
                match (op, by.filter(|by| *by >= 1.0)) {
                    (_, None) => all(),
                    (ArithmeticOp::Remainder, Some(by)) => by.min(all()),
                    (_, Some(by)) => (all() / by).max(1.0),
                }
            }
            ExprOp::Call(function, arguments) => {
                let text = |place: usize| arguments.get(place)?.as_constant()?.as_text();
                let number = |place: usize| arguments.get(place)?.as_constant()?.as_bigint();
                let own = match (function.name, arguments.as_slice()) {
                    ("date_part", [_, date]) => {
                        text(0).and_then(|unit| self.values_of_part(input, &unit.to_ascii_lowercase(), date, positions))
                    }
                    ("date_trunc", [_, date]) => {
                        text(0).and_then(|unit| self.values_of_trunc(input, unit, date, positions))
                    }
                    // We assume that texts begin with digits.
                    ("substring", [_, _, _]) => number(2).map(letters),
                    ("left" | "right", [_, _]) => number(1).map(letters),
                    ("length", _) => Some(100.0),
                    _ => None,
                };
                own.map_or_else(all, |own| own.min(all()))
            }
            ExprOp::Cast { value, .. } if expr.kind == DataType::Date32 => {
                let days = self.values_of_trunc(input, "day", value, positions);
                days.map_or_else(all, |days| days.min(all()))
            }
            _ => all(),
        }
    }

    /// The number of values of a part of a date, such as the year.
    fn values_of_part(&self, input: &Node, unit: &str, date: &ScalarExpr, positions: Positions<'_>) -> Option<f64> {
        match unit {
            "year" | "years" | "isoyear" | "decade" | "century" => self.values_of_trunc(input, unit, date, positions),
            unit => values_of_cycle(unit),
        }
    }

    /// The number of periods between the least and the greatest value of a date.
    fn values_of_trunc(&self, input: &Node, unit: &str, date: &ScalarExpr, positions: Positions<'_>) -> Option<f64> {
        let days = match unit.to_ascii_lowercase().as_str() {
            "day" => 1.0,
            "week" => 7.0,
            "month" => 30.4,
            "quarter" => 91.3,
            "year" | "years" | "isoyear" => 365.2,
            "decade" => 3_652.0,
            "century" => 36_524.0,
            "hour" => 1.0 / 24.0,
            "minute" => 1.0 / 1_440.0,
            _ => return None,
        };
        let date = match &date.op {
            ExprOp::Cast { value, .. } => value,
            _ => date,
        };
        let (scan, column) = origin(input, positions(date.as_column()?)?)?;
        let facts = self.facts(scan.table);
        let kind = facts.source().table().columns[column].kind.arrow();
        let (least, greatest) = facts.statistics(column).bounds?;
        let per_day = match kind {
            DataType::Date32 => 1.0,
            DataType::Timestamp(..) => 86_400.0 * 1e6,
            _ => return None,
        };
        let whole = ((greatest - least) / per_day / days).ceil() + 1.0;
        // We assume that conditions on the date leave the same share of the periods as of the dates.
        let left = match facts.distinct(column) {
            Some(all) => self.distinct_count(input, positions(date.as_column()?)?) / all.max(1.0),
            None => 1.0,
        };
        Some((whole * left.min(1.0)).max(1.0))
    }
}

fn reads_columns(expr: &ScalarExpr) -> bool {
    expr.any(&|part| part.as_column().is_some())
}

/// The number of texts of this length.
fn letters(count: i64) -> f64 {
    10_f64.powi(i32::try_from(count.clamp(0, 9)).unwrap_or(0))
}

/// The number of values of an expression that repeats while its operand grows: a part of a date, such as the month, or
/// a remainder. `None` for other expressions.
pub(crate) fn cyclic_values(expr: &ScalarExpr) -> Option<f64> {
    match &expr.op {
        ExprOp::Arithmetic(ArithmeticOp::Remainder, pair) if expr.kind.is_integer() => divisor(&pair[1]),
        ExprOp::Call(function, arguments) if function.name == "date_part" => {
            values_of_cycle(&arguments.first()?.as_constant()?.as_text()?.to_ascii_lowercase())
        }
        ExprOp::Cast { value, .. } => cyclic_values(value),
        _ => None,
    }
}

/// The number of values of a part of a date that begins again with the next greater part.
fn values_of_cycle(unit: &str) -> Option<f64> {
    match unit {
        "month" | "months" => Some(12.0),
        "quarter" => Some(4.0),
        "day" | "days" => Some(31.0),
        "dow" | "isodow" => Some(7.0),
        "doy" => Some(366.0),
        "week" => Some(53.0),
        "hour" | "hours" => Some(24.0),
        "minute" | "minutes" | "second" | "seconds" => Some(60.0),
        _ => None,
    }
}

/// The absolute value of a constant integer, if it is not zero.
fn divisor(by: &ScalarExpr) -> Option<f64> {
    let by = by.as_constant()?.as_bigint()?.unsigned_abs();
    (by > 0).then_some(by as f64)
}
