//! Operators by hand, and random expressions against an interpreter that looks at one row after the other.

mod interpreter;
mod random;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, ListArray, StringViewArray, new_null_array,
};
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use rowmill_base::{ErrorKind, Result};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};

use super::Evaluator;
use crate::text;
use crate::typing::{arithmetic, coerce, compare, is_distinct};

fn column(position: usize, array: &ArrayRef) -> ScalarExpr {
    ScalarExpr::column(position, array.data_type().clone())
}

fn ints(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn evaluate(expr: &ScalarExpr, columns: &[ArrayRef]) -> Result<Vec<String>> {
    let rows = columns.first().map_or(1, |column| column.len());
    let values = Evaluator::new(expr)?.evaluate(columns, rows)?;
    assert_eq!((values.data_type(), values.len()), (&expr.kind, rows));
    Ok((0..rows).map(|row| text::format(&values, row).unwrap_or_else(|| "NULL".to_owned())).collect())
}

fn shows(expr: &ScalarExpr, columns: &[ArrayRef], expected: &[&str]) {
    assert_eq!(evaluate(expr, columns).expect("no error"), expected, "{expr:?}");
}

fn literal(text: &str, kind: DataType) -> ScalarExpr {
    ScalarExpr::literal(text::parse(text, &kind).expect("a value"))
}

fn boolean(op: ExprOp) -> ScalarExpr {
    ScalarExpr::new(DataType::Boolean, op)
}

/// `1 / column > 0`: fails where the column is 0.
fn reciprocal_is_positive(position: usize, array: &ArrayRef) -> ScalarExpr {
    let quotient = arithmetic(ArithmeticOp::Divide, ScalarExpr::literal(1), column(position, array)).expect("numbers");
    compare(CompareOp::Greater, quotient, ScalarExpr::literal(0)).expect("numbers")
}

#[test]
fn and_or_evaluate_later_operands_only_where_they_are_needed() {
    let a = ints(vec![Some(0), Some(1), None, Some(-1)]);
    let columns = [Arc::clone(&a)];
    let not_zero = compare(CompareOp::NotEqual, column(0, &a), ScalarExpr::literal(0)).expect("numbers");
    let is_zero = compare(CompareOp::Equal, column(0, &a), ScalarExpr::literal(0)).expect("numbers");
    let both = ScalarExpr::and(vec![not_zero.clone(), reciprocal_is_positive(0, &a)]);
    shows(&both, &columns, &["false", "true", "NULL", "false"]);
    let either = ScalarExpr::or(vec![is_zero, reciprocal_is_positive(0, &a)]);
    shows(&either, &columns, &["true", "true", "NULL", "false"]);
    let wrong_order = ScalarExpr::and(vec![reciprocal_is_positive(0, &a), not_zero]);
    let error = evaluate(&wrong_order, &columns).expect_err("1 / 0");
    assert_eq!(error.kind(), ErrorKind::DivisionByZero);
    // No row, no error.
    let none = a.slice(0, 0);
    assert!(evaluate(&wrong_order, &[none]).expect("nothing").is_empty());
}

#[test]
fn case_takes_the_first_true_branch_and_evaluates_no_other() {
    let a = ints(vec![Some(0), Some(2), None, Some(-1)]);
    let columns = [Arc::clone(&a)];
    let quotient = arithmetic(ArithmeticOp::Divide, ScalarExpr::literal(6), column(0, &a)).expect("numbers");
    let is_zero = compare(CompareOp::Equal, column(0, &a), ScalarExpr::literal(0)).expect("numbers");
    let is_positive = compare(CompareOp::Greater, quotient.clone(), ScalarExpr::literal(0)).expect("numbers");
    let case = |otherwise: Option<ScalarExpr>| {
        let whens = vec![(is_zero.clone(), ScalarExpr::literal(7)), (is_positive.clone(), column(0, &a))];
        ScalarExpr::new(DataType::Int64, ExprOp::Case { whens, otherwise: otherwise.map(Box::new) })
    };
    shows(&case(Some(quotient)), &columns, &["7", "2", "NULL", "-6"]);
    shows(&case(None), &columns, &["7", "2", "NULL", "NULL"]);
    // A boolean CASE does not become AND and OR.
    let whens = vec![(is_zero, ScalarExpr::literal(false))];
    let otherwise = Some(Box::new(is_positive));
    shows(&boolean(ExprOp::Case { whens, otherwise }), &columns, &["false", "true", "NULL", "false"]);
}

#[test]
fn coalesce_looks_at_later_values_only_for_null() {
    let a = ints(vec![Some(0), None, None]);
    let b = ints(vec![Some(0), Some(5), None]);
    let columns = [Arc::clone(&a), Arc::clone(&b)];
    let inverse = arithmetic(ArithmeticOp::Divide, ScalarExpr::literal(10), column(1, &b)).expect("numbers");
    let values = vec![column(0, &a), inverse, ScalarExpr::literal(9)];
    let coalesce = ScalarExpr::new(DataType::Int64, ExprOp::Coalesce(values));
    shows(&coalesce, &columns, &["0", "2", "9"]);
}

#[test]
fn nan_is_one_value_greater_than_all_and_zero_has_no_sign() {
    let x: ArrayRef = Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(-f64::NAN), Some(-0.0), Some(1.5), None]));
    let y: ArrayRef = Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(1e308), Some(0.0), Some(f64::NAN), None]));
    let columns = [Arc::clone(&x), Arc::clone(&y)];
    let of = |op| compare(op, column(0, &x), column(1, &y)).expect("floats");
    shows(&of(CompareOp::Equal), &columns, &["true", "false", "true", "false", "NULL"]);
    shows(&of(CompareOp::NotEqual), &columns, &["false", "true", "false", "true", "NULL"]);
    shows(&of(CompareOp::Less), &columns, &["false", "false", "false", "true", "NULL"]);
    shows(&of(CompareOp::LessOrEqual), &columns, &["true", "false", "true", "true", "NULL"]);
    shows(&of(CompareOp::Greater), &columns, &["false", "true", "false", "false", "NULL"]);
    shows(&of(CompareOp::GreaterOrEqual), &columns, &["true", "true", "true", "false", "NULL"]);
    let difference =
        arithmetic(ArithmeticOp::Times, column(0, &x), literal("-0.0", DataType::Float64)).expect("floats");
    shows(&difference, &columns, &["NaN", "NaN", "0.0", "0.0", "NULL"]);
}

#[test]
fn rows_are_compared_lexicographically_in_three_values() {
    let rows = |left: &[Option<i64>], op, right: &[Option<i64>]| {
        let row = |values: &[Option<i64>]| {
            let null = || ScalarExpr::null(DataType::Int64);
            values.iter().map(|value| value.map_or_else(null, ScalarExpr::literal)).collect::<Vec<_>>()
        };
        let result = evaluate(&boolean(ExprOp::CompareRows(op, row(left), row(right))), &[]).expect("numbers");
        result.into_iter().next().expect("one row")
    };
    use CompareOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    assert_eq!(rows(&[Some(1), None], Equal, &[Some(1), Some(2)]), "NULL");
    assert_eq!(rows(&[Some(1), None], Equal, &[Some(2), Some(2)]), "false");
    assert_eq!(rows(&[Some(1), None], NotEqual, &[Some(2), Some(2)]), "true");
    assert_eq!(rows(&[Some(1), None], Less, &[Some(2), Some(2)]), "true");
    assert_eq!(rows(&[Some(1), None], Less, &[Some(1), Some(2)]), "NULL");
    assert_eq!(rows(&[None, Some(1)], Greater, &[Some(1), Some(2)]), "NULL");
    assert_eq!(rows(&[Some(1), Some(2)], LessOrEqual, &[Some(1), Some(2)]), "true");
    assert_eq!(rows(&[Some(1), Some(3)], GreaterOrEqual, &[Some(1), Some(4)]), "false");
    assert_eq!(rows(&[Some(2), Some(0), None], Greater, &[Some(1), Some(9), Some(9)]), "true");
}

#[test]
fn lists_and_structs_compare_with_null_as_their_greatest_value() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
    let of = |left: &str, op, right: &str| {
        let expr = compare(op, literal(left, list.clone()), literal(right, list.clone())).expect("lists");
        evaluate(&expr, &[]).expect("lists").remove(0)
    };
    assert_eq!(of("[null, 4]", CompareOp::Greater, "[4]"), "true");
    assert_eq!(of("[1, null]", CompareOp::Equal, "[1, null]"), "true");
    assert_eq!(of("[1, 2]", CompareOp::NotEqual, "[1, null]"), "true");
    assert_eq!(of("[1]", CompareOp::Less, "[1, 0]"), "true");
    assert_eq!(of("[]", CompareOp::Less, "[null]"), "true");
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)]), None]);
    let lists: ArrayRef = Arc::new(lists);
    let other = compare(CompareOp::Equal, column(0, &lists), literal("[1]", list)).expect("lists");
    shows(&other, &[Arc::clone(&lists)], &["true", "NULL"]);
    let fields: Fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8View, true)].into();
    let of = |left: &str, op, right: &str| {
        let kind = DataType::Struct(fields.clone());
        let expr = compare(op, literal(left, kind.clone()), literal(right, kind)).expect("structs");
        evaluate(&expr, &[]).expect("structs").remove(0)
    };
    assert_eq!(of(r#"{"a": 1, "b": null}"#, CompareOp::Equal, r#"{"a": 1, "b": null}"#), "true");
    assert_eq!(of(r#"{"a": 1, "b": "x"}"#, CompareOp::Less, r#"{"a": 1, "b": "y"}"#), "true");
    assert_eq!(of(r#"{"a": null, "b": "x"}"#, CompareOp::Greater, r#"{"a": 1, "b": "y"}"#), "true");
}

#[test]
fn is_distinct_treats_null_as_a_value() {
    let a = ints(vec![Some(1), Some(1), None, None]);
    let b = ints(vec![Some(1), Some(2), Some(1), None]);
    let columns = [Arc::clone(&a), Arc::clone(&b)];
    let distinct = |negated| is_distinct(column(0, &a), column(1, &b), negated).expect("numbers");
    shows(&distinct(false), &columns, &["false", "true", "true", "false"]);
    shows(&distinct(true), &columns, &["true", "false", "false", "true"]);
    let null = is_distinct(column(0, &a), ScalarExpr::null(DataType::Null), false).expect("numbers");
    shows(&null, &columns, &["true", "true", "false", "false"]);
}

fn in_list(value: &ScalarExpr, list: &[&str], negated: bool) -> ScalarExpr {
    let item = |text: &&str| match *text {
        "NULL" => ScalarExpr::null(value.kind.clone()),
        text => literal(text, value.kind.clone()),
    };
    let list = list.iter().map(item).collect();
    boolean(ExprOp::InList { value: Box::new(value.clone()), list, negated })
}

#[test]
fn in_lists_of_every_type_short_and_long_know_null() {
    let cases: [(DataType, [&str; 2], [&str; 5]); 9] = [
        (DataType::Int8, ["5", "-7"], ["5", "1", "2", "3", "4"]),
        (DataType::Int64, ["5", "-7"], ["5", "1", "9223372036854775807", "-9223372036854775808", "4"]),
        (DataType::UInt64, ["18446744073709551615", "7"], ["18446744073709551615", "1", "2", "3", "4"]),
        (DataType::Decimal128(38, 2), ["5.00", "7.5"], ["5", "1", "2", "3", "4"]),
        (DataType::Float64, ["NaN", "0.5"], ["NaN", "1", "2", "3", "4"]),
        (DataType::Utf8View, ["a longer text than fits", "b"], ["a longer text than fits", "c", "", "d", "e"]),
        (
            DataType::Date32,
            ["2013-07-31", "2013-08-01"],
            ["2013-07-31", "1970-01-01", "1969-12-31", "2000-01-01", "2000-01-02"],
        ),
        (DataType::Boolean, ["true", "false"], ["true", "true", "true", "true", "true"]),
        (DataType::BinaryView, ["\\x00", "\\x01"], ["\\x00", "\\x02", "\\x", "\\x03", "\\x04"]),
    ];
    for (kind, values, list) in cases {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some(values[0]), Some(values[1]), None]));
        let array = crate::kernels::cast::cast(&texts, &kind, false).expect("values");
        let value = column(0, &array);
        for list in [&list[..2], &list[..]] {
            shows(&in_list(&value, list, false), &[Arc::clone(&array)], &["true", "false", "NULL"]);
            shows(&in_list(&value, list, true), &[Arc::clone(&array)], &["false", "true", "NULL"]);
            let with_null: Vec<&str> = list.iter().copied().chain(["NULL"]).collect();
            shows(&in_list(&value, &with_null, false), &[Arc::clone(&array)], &["true", "NULL", "NULL"]);
            shows(&in_list(&value, &with_null, true), &[Arc::clone(&array)], &["false", "NULL", "NULL"]);
        }
    }
}

#[test]
fn like_matches_constant_patterns_and_patterns_of_rows() {
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("мир"), Some("ABC"), None, Some("a%b")]));
    let patterns: ArrayRef = Arc::new(StringViewArray::from(vec![Some("м_р"), Some("%c"), Some("%"), Some("a\\%b")]));
    let columns = [Arc::clone(&texts), Arc::clone(&patterns)];
    let like = |pattern: ScalarExpr, ignore_case, negated| {
        let value = Box::new(column(0, &texts));
        boolean(ExprOp::Like { value, pattern: Box::new(pattern), escape: Some('\\'), negated, ignore_case })
    };
    shows(&like(column(1, &patterns), false, false), &columns, &["true", "false", "NULL", "true"]);
    shows(&like(column(1, &patterns), true, true), &columns, &["false", "false", "NULL", "false"]);
    shows(&like(ScalarExpr::literal("a%"), true, false), &columns, &["false", "true", "NULL", "true"]);
    shows(&like(ScalarExpr::null(DataType::Utf8View), false, false), &columns, &["NULL"; 4]);
}

#[test]
fn nulls_of_the_type_null_go_through_every_operator() {
    let null = || ScalarExpr::null(DataType::Null);
    let both = ScalarExpr::new(DataType::Boolean, ExprOp::And(vec![null(), ScalarExpr::literal(true)]));
    shows(&both, &[], &["NULL"]);
    shows(&compare(CompareOp::Equal, null(), null()).expect("NULL"), &[], &["NULL"]);
    shows(&boolean(ExprOp::IsNull { value: Box::new(null()), negated: false }), &[], &["true"]);
    shows(&boolean(ExprOp::Not(Box::new(null()))), &[], &["NULL"]);
    let sum = arithmetic(ArithmeticOp::Plus, null(), ScalarExpr::literal(1)).expect("numbers");
    shows(&sum, &[], &["NULL"]);
    shows(&ScalarExpr::new(DataType::Null, ExprOp::Coalesce(vec![null(), null()])), &[], &["NULL"]);
    let column_of_null = new_null_array(&DataType::Null, 3);
    let is_null = boolean(ExprOp::IsNull { value: Box::new(column(0, &column_of_null)), negated: true });
    shows(&is_null, &[column_of_null], &["false"; 3]);
}

#[test]
fn selected_rows_are_the_true_ones() {
    let p: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
    let evaluator = Evaluator::new(&column(0, &p)).expect("a column");
    let rows = evaluator.selected(&[Arc::clone(&p)], 3).expect("no error");
    assert_eq!(rows.set_indices().collect::<Vec<_>>(), [0]);
    let cast = coerce(column(0, &p), &DataType::Int64).expect("a cast");
    let values = Evaluator::new(&cast).expect("a cast").evaluate(&[p], 3).expect("no error");
    assert_eq!(values.as_primitive::<Int64Type>().value(0), 1);
}
