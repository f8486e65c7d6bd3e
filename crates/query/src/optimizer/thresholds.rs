//! Compares columns with thresholds instead of comparing functions of them.
//!
//! ```text
//! CAST(t AS DATE) = DATE '2024-05-05'              ->  t >= '2024-05-05 00:00:00' AND t < '2024-05-06 00:00:00'
//! extract(year FROM t) IN (2023, 2024)             ->  t >= '2023-01-01 00:00:00' AND t < '2025-01-01 00:00:00'
//! date_trunc('month', t) > TIMESTAMP '2024-05-01'  ->  t >= '2024-06-01 00:00:00'
//! ```
//!
//! The value of such a function never falls while the column rises, so a comparison changes its result once. We search
//! for the value of the column at which it does. Keys, zone maps and statistics answer conditions on columns, and no
//! row needs the function.

use arrow::datatypes::DataType;
use rowmill_expr::fold::{ascending_operand, operator_can_fail, threshold, value_of_number};
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};

/// The longest list of values that becomes ranges of a column.
const LIST_MAX: usize = 16;

/// Rewrites a comparison of an ascending function of a column with literals to one of the column. Does nothing if the
/// function can fail, or if a threshold is outside of the type of the column.
pub(super) fn compare_column(expr: &mut ScalarExpr) {
    let of_column = match &expr.op {
        ExprOp::Compare(op, pair) if is_value(&pair[1]) => {
            Thresholds::new(&pair[0]).and_then(|thresholds| thresholds.condition(*op, &pair[1]))
        }
        ExprOp::InList { value, list, negated: false } if list.len() <= LIST_MAX => of_list(value, list),
        _ => None,
    };
    if let Some(of_column) = of_column {
        *expr = of_column;
    }
}

/// An ascending function of a column.
struct Thresholds<'e> {
    column: &'e ScalarExpr,
    /// The function of column 0.
    of_first: ScalarExpr,
}

impl<'e> Thresholds<'e> {
    /// Returns `None` if `function` is no ascending function of a column.
    fn new(function: &'e ScalarExpr) -> Option<Thresholds<'e>> {
        let mut column = function;
        while column.as_column().is_none() {
            // The result for an instant depends on the time zone of the session.
            let has_zone = |kind: &DataType| matches!(kind, DataType::Timestamp(_, Some(_)));
            let operand = column.operands()[ascending_operand(column)?];
            if operator_can_fail(column) || has_zone(&column.kind) || has_zone(&operand.kind) {
                return None;
            }
            column = operand;
        }
        if std::ptr::eq(column, function) {
            return None;
        }
        let mut of_first = function.clone();
        of_first.rewrite(&mut |part| {
            if let ExprOp::Column(column) = &mut part.op {
                *column = 0;
            }
        });
        Some(Thresholds { column, of_first })
    }

    /// The condition of the column that is true if and only if a comparison of the function with `compared` is.
    fn condition(&self, op: CompareOp, compared: &ScalarExpr) -> Option<ScalarExpr> {
        let (from, after) = (CompareOp::GreaterOrEqual, CompareOp::Greater);
        match op {
            CompareOp::GreaterOrEqual | CompareOp::Greater => self.compared(from, self.least(op, compared)?),
            CompareOp::Less => self.compared(CompareOp::Less, self.least(from, compared)?),
            CompareOp::LessOrEqual => self.compared(CompareOp::Less, self.least(after, compared)?),
            CompareOp::Equal => self.within(self.range(compared)?),
            CompareOp::NotEqual => None,
        }
    }

    /// The least value of the column for which the function compares with `compared` as `op` says.
    fn least(&self, op: CompareOp, compared: &ScalarExpr) -> Option<i128> {
        threshold(&ScalarExpr::compare(self.of_first.clone(), op, compared.clone()), &self.column.kind)
    }

    /// The values of the column for which the function is `compared`. Nothing is between the ends if there are none.
    fn range(&self, compared: &ScalarExpr) -> Option<(i128, i128)> {
        Some((self.least(CompareOp::GreaterOrEqual, compared)?, self.least(CompareOp::Greater, compared)?))
    }

    fn within(&self, (from, to): (i128, i128)) -> Option<ScalarExpr> {
        let ends = [self.compared(CompareOp::GreaterOrEqual, from)?, self.compared(CompareOp::Less, to)?];
        Some(ScalarExpr::new(DataType::Boolean, ExprOp::And(ends.into())))
    }

    fn compared(&self, op: CompareOp, number: i128) -> Option<ScalarExpr> {
        let value = value_of_number(&self.column.kind, number)?;
        let value = ScalarExpr::new(self.column.kind.clone(), ExprOp::Literal(value));
        Some(ScalarExpr::compare(self.column.clone(), op, value))
    }
}

/// The condition of the column that is true if and only if the function has a value of the list. Ranges that touch
/// become one.
fn of_list(function: &ScalarExpr, list: &[ScalarExpr]) -> Option<ScalarExpr> {
    let thresholds = Thresholds::new(function)?;
    let mut ranges = Vec::with_capacity(list.len());
    for item in list {
        ranges.push(if is_value(item) { thresholds.range(item)? } else { return None });
    }
    ranges.sort_unstable();
    ranges.dedup_by(|next, range| {
        let do_touch = next.0 <= range.1;
        if do_touch {
            range.1 = range.1.max(next.1);
        }
        do_touch
    });
    let mut conditions = Vec::with_capacity(ranges.len());
    for range in ranges {
        conditions.push(thresholds.within(range)?);
    }
    Some(ScalarExpr::or(conditions))
}

/// Whether an operand is a literal other than NULL.
fn is_value(operand: &ScalarExpr) -> bool {
    operand.as_constant().is_some_and(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use rowmill_expr::display::sql_text;
    use rowmill_expr::evaluator::Evaluator;
    use rowmill_expr::fold::fold;
    use rowmill_expr::functions::find;
    use rowmill_expr::typing::{arithmetic, call, cast, compare};
    use rowmill_plan::Constant;
    use rowmill_plan::program::ArithmeticOp;

    use super::*;

    const TIMESTAMP: DataType = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
    const SECONDS: DataType = DataType::Timestamp(arrow::datatypes::TimeUnit::Second, None);

    fn value(kind: &DataType, text: &str) -> ScalarExpr {
        let mut value = cast(ScalarExpr::literal(text), kind, false).expect("a value");
        fold(&mut value);
        value
    }

    fn of_field(name: &str, field: &str, kind: &DataType) -> ScalarExpr {
        let arguments = vec![ScalarExpr::literal(field), ScalarExpr::column(0, kind.clone())];
        call(find(name).expect("a function"), arguments).expect("a call")
    }

    fn shown(mut condition: ScalarExpr) -> String {
        compare_column(&mut condition);
        sql_text(&condition, &|_| "t".to_string())
    }

    #[test]
    fn comparisons_of_ascending_functions_become_ranges() {
        let day = cast(ScalarExpr::column(0, TIMESTAMP), &DataType::Date32, false).expect("a cast");
        let may_5 = value(&DataType::Date32, "2024-05-05");
        let of_day = |op| shown(ScalarExpr::compare(day.clone(), op, may_5.clone()));
        let midnight = |day| format!("TIMESTAMP '2024-05-0{day} 00:00:00'");
        assert_eq!(of_day(CompareOp::Equal), format!("t >= {} AND t < {}", midnight(5), midnight(6)));
        assert_eq!(of_day(CompareOp::Less), format!("t < {}", midnight(5)));
        assert_eq!(of_day(CompareOp::LessOrEqual), format!("t < {}", midnight(6)));
        assert_eq!(of_day(CompareOp::Greater), format!("t >= {}", midnight(6)));
        assert_eq!(of_day(CompareOp::NotEqual), "CAST(t AS DATE) <> DATE '2024-05-05'");

        let years = ["2024", "2023", "2020"].map(|year| value(&DataType::Int32, year)).to_vec();
        let year = Box::new(of_field("date_part", "year", &DataType::Date32));
        let of_years = ExprOp::InList { value: year, list: years, negated: false };
        let ranges =
            "t >= DATE '2020-01-01' AND t < DATE '2021-01-01' OR t >= DATE '2023-01-01' AND t < DATE '2025-01-01'";
        assert_eq!(shown(ScalarExpr::new(DataType::Boolean, of_years)), ranges);

        // No date has such a year, and months begin again each year.
        for (field, number) in [("year", "6000000"), ("month", "5")] {
            let field = of_field("date_part", field, &DataType::Date32);
            let condition = ScalarExpr::compare(field, CompareOp::Equal, value(&DataType::Int32, number));
            assert_eq!(shown(condition.clone()), sql_text(&condition, &|_| "t".to_string()));
        }
    }

    /// Compares each rewritten condition with the original one for values around all steps, and at the ends of types.
    #[test]
    fn a_range_has_the_rows_of_the_comparison() {
        let mut functions = Vec::new();
        for kind in [DataType::Date32, TIMESTAMP, SECONDS] {
            for field in ["year", "decade", "century", "millennium", "isoyear", "julian", "epoch", "month", "dow"] {
                functions.push(of_field("date_part", field, &kind));
            }
            for field in ["second", "minute", "hour", "day", "week", "month", "quarter", "year", "century", "decade"] {
                functions.push(of_field("date_trunc", field, &kind));
            }
            functions.push(cast(ScalarExpr::column(0, kind.clone()), &DataType::Date32, false).expect("a cast"));
        }
        for kind in [DataType::Int16, DataType::Int32, DataType::Int64] {
            let quotient = arithmetic(ArithmeticOp::Divide, ScalarExpr::column(0, kind), value(&DataType::Int16, "7"));
            functions.push(quotient.expect("a quotient"));
        }
        let mut rewritten = 0;
        for function in functions {
            let kind =
                function.operands().iter().rev().find_map(|operand| operand.as_column().map(|_| operand.kind.clone()));
            let Some(kind) = kind else { continue };
            let most = match kind {
                DataType::Int16 => i128::from(i16::MAX),
                DataType::Int32 | DataType::Date32 => i128::from(i32::MAX),
                _ => i128::from(i64::MAX),
            };
            let near = [0, 1, 19_999, 700_000, 1_714_867_200, 1_714_867_200_000_000];
            let mut numbers: Vec<i128> = vec![-most - 1, -most, most - 1, most];
            for number in near.into_iter().filter(|number| *number <= most / 2) {
                numbers.extend([-number - 1, -number, number - 1, number, number + 1]);
            }
            for compared in &numbers {
                let column = value_of_number(&kind, *compared).expect("a value");
                let Ok(values) =
                    Evaluator::new(&function).expect("an evaluator").evaluate(&[column.array().clone()], 1)
                else {
                    continue;
                };
                let compared = ScalarExpr::new(function.kind.clone(), ExprOp::Literal(Constant::new(values)));
                for op in [
                    CompareOp::Equal,
                    CompareOp::Less,
                    CompareOp::LessOrEqual,
                    CompareOp::Greater,
                    CompareOp::GreaterOrEqual,
                ] {
                    let original = compare(op, function.clone(), compared.clone()).expect("a comparison");
                    let mut of_column = original.clone();
                    compare_column(&mut of_column);
                    if of_column == original {
                        continue;
                    }
                    rewritten += 1;
                    for number in &numbers {
                        let column = value_of_number(&kind, *number).expect("a value");
                        let holds = |condition: &ScalarExpr| {
                            let evaluator = Evaluator::new(condition).expect("an evaluator");
                            evaluator.selected(&[column.array().clone()], 1).expect("a value").value(0)
                        };
                        assert_eq!(holds(&of_column), holds(&original), "{original:?} of {number}");
                    }
                }
            }
        }
        assert!(rewritten > 1_000, "{rewritten}");
    }
}
