//! Compares stored values with literals in their own type.
//!
//! ```text
//! CAST(month AS BIGINT) <= 1211                              ->  month <= 1211
//! CAST(day AS TIMESTAMP) < TIMESTAMP '2024-03-15 10:00:00'   ->  day <= DATE '2024-03-15'
//! ```
//!
//! A comparison casts the narrower side. A literal does not make a column wider, but the value of `1200 + 11` or of
//! `DATE '2024-03-01' + INTERVAL '14 days'` is known only after folding, when the cast is there already. Keys, zone
//! maps, value lists and statistics answer conditions on columns, not on casts of columns.

use arrow::datatypes::DataType;
use rowmill_expr::fold::fold;
use rowmill_expr::typing::{cast, common_kind, compare};
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};

/// Rewrites a comparison of a cast with literals to one of the value that is cast. Does nothing if the cast loses
/// information, or if the type of the value does not have the literals.
pub(super) fn narrow(expr: &mut ScalarExpr) {
    let narrowed = match &expr.op {
        ExprOp::Compare(op, pair) => narrowed(*op, &pair[0], &pair[1]),
        ExprOp::InList { value, list, negated } => {
            let equal = |item| match narrowed(CompareOp::Equal, value, item)?.op {
                ExprOp::Compare(CompareOp::Equal, pair) => Some(*pair),
                _ => None,
            };
            let pairs: Option<Vec<[ScalarExpr; 2]>> = list.iter().map(equal).collect();
            pairs.filter(|pairs| !pairs.is_empty()).map(|mut pairs| {
                let value = Box::new(pairs[0][0].clone());
                let list = pairs.drain(..).map(|[_, item]| item).collect();
                ScalarExpr::new(DataType::Boolean, ExprOp::InList { value, list, negated: *negated })
            })
        }
        _ => None,
    };
    if let Some(narrowed) = narrowed {
        *expr = narrowed;
    }
}

/// The comparison of the value that `side` casts with a literal, in the type of the value.
fn narrowed(op: CompareOp, side: &ScalarExpr, literal: &ScalarExpr) -> Option<ScalarExpr> {
    let ExprOp::Cast { value, or_null: false } = &side.op else { return None };
    if value.as_constant().is_some() || literal.as_constant().is_none_or(|literal| literal.is_null()) {
        return None;
    }
    if let (DataType::Date32, DataType::Timestamp(_, None)) = (&value.kind, &side.kind) {
        return of_date(op, value, literal);
    }
    // The common type is that of the cast only if the cast keeps every value.
    let is_exact = |kind: &DataType| kind.is_integer() || kind.is_decimal();
    let is_lossless = is_exact(&value.kind)
        && is_exact(&side.kind)
        && common_kind([&value.kind, &side.kind]).is_some_and(|common| common == side.kind);
    if !is_lossless {
        return None;
    }
    let mut compared = compare(op, (**value).clone(), literal.clone()).ok()?;
    fold(&mut compared);
    match &compared.op {
        ExprOp::Compare(_, pair) if pair[0] == **value && pair[1].as_constant().is_some() => Some(compared),
        _ => None,
    }
}

/// The comparison of a date with a timestamp, as one with a date.
fn of_date(op: CompareOp, date: &ScalarExpr, timestamp: &ScalarExpr) -> Option<ScalarExpr> {
    let folded = |expr: &ScalarExpr, kind: &DataType| {
        let mut made = cast(expr.clone(), kind, false).ok()?;
        fold(&mut made);
        made.as_constant().is_some().then_some(made)
    };
    let day = folded(timestamp, &DataType::Date32)?;
    let is_midnight = folded(&day, &timestamp.kind)? == *timestamp;
    // Within a day, all earlier midnights are those up to its own.
    let op = match op {
        _ if is_midnight => op,
        CompareOp::Less | CompareOp::LessOrEqual => CompareOp::LessOrEqual,
        CompareOp::Greater | CompareOp::GreaterOrEqual => CompareOp::Greater,
        CompareOp::Equal | CompareOp::NotEqual => return None,
    };
    Some(ScalarExpr::compare(date.clone(), op, day))
}

#[cfg(test)]
mod tests {
    use rowmill_expr::display::sql_text;
    use rowmill_plan::Constant;

    use super::*;

    fn of(kind: &DataType, text: &str) -> ScalarExpr {
        let text = ScalarExpr::literal(text);
        let mut value = cast(text, kind, false).expect("a value");
        fold(&mut value);
        assert!(value.as_constant().is_some_and(|value: &Constant| !value.is_null()));
        value
    }

    fn shown(of_column: DataType, wide: DataType, op: CompareOp, text: &str) -> String {
        let column = cast(ScalarExpr::column(0, of_column), &wide, false).expect("a cast");
        let mut expr = ScalarExpr::compare(column, op, of(&wide, text));
        narrow(&mut expr);
        sql_text(&expr, &|_| "c".to_owned())
    }

    #[test]
    fn numbers_are_compared_in_the_type_of_the_column() {
        use CompareOp::{Equal, Less};
        use DataType::{Decimal128, Float64, Int16, Int32, Int64};
        assert_eq!(shown(Int32, Int64, Less, "1211"), "c < 1211");
        assert_eq!(shown(Int16, Int64, Equal, "40000"), "CAST(c AS BIGINT) = 40000");
        assert_eq!(shown(Int32, Decimal128(11, 1), Less, "6.0"), "c < 6");
        assert_eq!(shown(Int32, Decimal128(11, 1), Less, "6.5"), "CAST(c AS DECIMAL(11,1)) < 6.5");
        assert_eq!(shown(Decimal128(7, 2), Decimal128(21, 2), Less, "20"), "c < 20.00");
        // A double does not keep every BIGINT.
        assert_eq!(shown(Int64, Float64, Less, "6"), "CAST(c AS DOUBLE) < 6.0");
    }

    #[test]
    fn dates_are_compared_with_dates() {
        use CompareOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        let shown = |op, text| {
            shown(DataType::Date32, DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None), op, text)
        };
        assert_eq!(shown(Less, "2024-03-15 00:00:00"), "c < DATE '2024-03-15'");
        assert_eq!(shown(Equal, "2024-03-15 00:00:00"), "c = DATE '2024-03-15'");
        assert_eq!(shown(Less, "2024-03-15 10:00:00"), "c <= DATE '2024-03-15'");
        assert_eq!(shown(LessOrEqual, "2024-03-15 10:00:00"), "c <= DATE '2024-03-15'");
        assert_eq!(shown(Greater, "2024-03-15 10:00:00"), "c > DATE '2024-03-15'");
        assert_eq!(shown(GreaterOrEqual, "1969-12-31 10:00:00"), "c > DATE '1969-12-31'");
        assert_eq!(shown(Equal, "2024-03-15 10:00:00"), "CAST(c AS TIMESTAMP) = TIMESTAMP '2024-03-15 10:00:00'");
    }

    #[test]
    fn lists_are_narrowed_if_the_type_has_all_values() {
        let list = |values: &[&str]| {
            let value = cast(ScalarExpr::column(0, DataType::Int16), &DataType::Int64, false).expect("a cast");
            let list = values.iter().map(|value| of(&DataType::Int64, value)).collect();
            let in_list = ExprOp::InList { value: Box::new(value), list, negated: false };
            let mut expr = ScalarExpr::new(DataType::Boolean, in_list);
            narrow(&mut expr);
            sql_text(&expr, &|_| "c".to_owned())
        };
        assert_eq!(list(&["1999", "2000"]), "c IN (1999, 2000)");
        assert_eq!(list(&["1999", "40000"]), "CAST(c AS BIGINT) IN (1999, 40000)");
    }
}
