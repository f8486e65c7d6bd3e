//! Tests of single operators, and random expressions that are compared with an interpreter of one row at a time.

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

/// Returns `1 / column > 0`, which fails where the column is 0.
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
    // Without rows, nothing may fail.
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
    // A boolean CASE must not become AND and OR, which would evaluate more.
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
fn short_and_long_in_lists_of_every_type_handle_null() {
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
fn every_operator_accepts_values_of_the_type_null() {
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

/// Returns ascending values of every type.
fn ascending() -> Vec<(DataType, Vec<&'static str>)> {
    use arrow::datatypes::{IntervalUnit, TimeUnit};
    let timestamp = |unit| DataType::Timestamp(unit, None);
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let list = DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true)));
    let fields: Fields = vec![Field::new("a", DataType::Int8, true)].into();
    let timestamps = || vec!["0001-01-01 00:00:00", "1969-12-31 23:59:59", "2013-07-31 12:00:00"];
    vec![
        (DataType::Boolean, vec!["false", "true"]),
        (DataType::Int8, vec!["-128", "0", "127"]),
        (DataType::Int16, vec!["-32768", "0", "32767"]),
        (DataType::Int32, vec!["-2147483648", "0", "2147483647"]),
        (DataType::Int64, vec!["-9223372036854775808", "0", "9223372036854775807"]),
        (DataType::UInt8, vec!["0", "127", "255"]),
        (DataType::UInt16, vec!["0", "32768", "65535"]),
        (DataType::UInt32, vec!["0", "2147483648", "4294967295"]),
        (DataType::UInt64, vec!["0", "9223372036854775808", "18446744073709551615"]),
        (DataType::Float32, vec!["-Infinity", "-0.5", "1e38", "Infinity", "NaN"]),
        (DataType::Float64, vec!["-Infinity", "-0.5", "1e300", "Infinity", "NaN"]),
        (DataType::Decimal128(38, 2), vec!["-999999999999999999999999999999999999.99", "-0.01", "0", "0.01"]),
        (DataType::Date32, vec!["-0044-03-15", "1969-12-31", "2013-07-31"]),
        (DataType::Time64(TimeUnit::Microsecond), vec!["00:00:00", "00:00:00.000001", "23:59:59"]),
        (timestamp(TimeUnit::Second), timestamps()),
        (timestamp(TimeUnit::Millisecond), timestamps()),
        (timestamp(TimeUnit::Microsecond), timestamps()),
        (timestamp(TimeUnit::Nanosecond), vec!["1700-01-01 00:00:00", "2013-07-31 12:00:00.000000001"]),
        (zoned, vec!["2013-07-31 12:00:00+02", "2013-07-31 12:00:00+00"]),
        (
            DataType::Interval(IntervalUnit::MonthDayNano),
            vec!["-1 day", "00:00:01", "25:00:00", "1 day", "31 days", "1 month"],
        ),
        (
            DataType::Utf8View,
            vec!["", "B", "a", "a text beyond twelve bytes", "a text beyond twelve bytes!", "é", "😀"],
        ),
        (DataType::BinaryView, vec!["\\x", "\\x00", "\\x00ff", "\\xff"]),
        (
            DataType::FixedSizeBinary(16),
            vec!["00000000-0000-0000-0000-000000000001", "80000000-0000-0000-0000-000000000000"],
        ),
        (list, vec!["[]", "[a]", "[a, b]", "[a, null]", "[b]", "[null]"]),
        (DataType::Struct(fields), vec![r#"{"a": -1}"#, r#"{"a": 1}"#, r#"{"a": null}"#]),
    ]
}

#[test]
fn values_of_every_type_compare_in_their_order() {
    use CompareOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    for (kind, texts) in ascending() {
        let column_of = |rows: Vec<Option<&str>>| {
            let rows: ArrayRef = Arc::new(StringViewArray::from(rows));
            crate::kernels::cast::cast(&rows, &kind, false).expect("values of the type")
        };
        let pairs: Vec<(usize, usize)> =
            (0..texts.len()).flat_map(|left| (0..texts.len()).map(move |right| (left, right))).collect();
        let nulls = [(Some(texts[0]), None), (None, Some(texts[0])), (None, None)];
        let both = || pairs.iter().map(|(left, right)| (Some(texts[*left]), Some(texts[*right]))).chain(nulls);
        let columns = [column_of(both().map(|pair| pair.0).collect()), column_of(both().map(|pair| pair.1).collect())];
        let is_numbered = |test: &dyn Fn(&(usize, usize)) -> bool| -> Vec<String> {
            pairs.iter().map(|pair| test(pair).to_string()).collect()
        };
        for op in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual] {
            let expected = is_numbered(&|(left, right)| op.holds(left.cmp(right)));
            let with_null: Vec<&str> = expected.iter().map(String::as_str).chain(["NULL"; 3]).collect();
            let comparison = compare(op, column(0, &columns[0]), column(1, &columns[1])).expect("one type");
            shows(&comparison, &columns, &with_null);
            // We compare with constants on either side of a column, and with two constants.
            let rows = column_of(texts.iter().copied().map(Some).collect());
            for (constant, text) in texts.iter().enumerate() {
                let of = |is_left: bool| -> Vec<String> {
                    (0..texts.len())
                        .map(|row| {
                            let order = if is_left { constant.cmp(&row) } else { row.cmp(&constant) };
                            op.holds(order).to_string()
                        })
                        .collect()
                };
                let value = literal(text, kind.clone());
                let right = ScalarExpr::compare(column(0, &rows), op, value.clone());
                assert_eq!(evaluate(&right, &[Arc::clone(&rows)]).expect("no error"), of(false), "{kind}");
                let left = ScalarExpr::compare(value.clone(), op, column(0, &rows));
                assert_eq!(evaluate(&left, &[Arc::clone(&rows)]).expect("no error"), of(true), "{kind}");
                let same = ScalarExpr::compare(value.clone(), op, value);
                let expected = matches!(op, Equal | LessOrEqual | GreaterOrEqual).to_string();
                assert_eq!(evaluate(&same, &[]).expect("no error"), [expected], "{kind}");
            }
        }
        let expected = is_numbered(&|(left, right)| left != right);
        let with_null: Vec<&str> = expected.iter().map(String::as_str).chain(["true", "true", "false"]).collect();
        let distinct = is_distinct(column(0, &columns[0]), column(1, &columns[1]), false).expect("one type");
        shows(&distinct, &columns, &with_null);
    }
}

#[test]
fn values_of_every_type_are_chosen_and_looked_up() {
    for (kind, texts) in ascending() {
        let rows: Vec<Option<&str>> = texts.iter().copied().map(Some).chain([None]).collect();
        let rows: ArrayRef = Arc::new(StringViewArray::from(rows));
        let array = crate::kernels::cast::cast(&rows, &kind, false).expect("values of the type");
        let shown: Vec<String> = (0..texts.len()).map(|row| text::format(&array, row).expect("a text")).collect();
        let columns = [Arc::clone(&array)];
        let first = literal(texts[0], kind.clone());
        let coalesce = ExprOp::Coalesce(vec![column(0, &array), first.clone()]);
        let expected: Vec<&str> = shown.iter().map(String::as_str).chain([&*shown[0]]).collect();
        shows(&ScalarExpr::new(kind.clone(), coalesce), &columns, &expected);
        // A CASE of three branches, one of them a constant.
        let is_first = ScalarExpr::compare(column(0, &array), CompareOp::Equal, first.clone());
        let is_null = boolean(ExprOp::IsNull { value: Box::new(column(0, &array)), negated: false });
        let last = literal(texts[texts.len() - 1], kind.clone());
        let whens = vec![(is_first, last), (is_null, first)];
        let otherwise = Some(Box::new(column(0, &array)));
        let expected: Vec<&str> = std::iter::once(&*shown[texts.len() - 1])
            .chain(shown[1..].iter().map(String::as_str))
            .chain([&*shown[0]])
            .collect();
        shows(&ScalarExpr::new(kind.clone(), ExprOp::Case { whens, otherwise }), &columns, &expected);
        let list: Vec<&str> = std::iter::repeat_n(texts[0], 5).collect();
        let found: Vec<&str> = std::iter::once("true").chain(vec!["false"; texts.len() - 1]).chain(["NULL"]).collect();
        shows(&in_list(&column(0, &array), &list, false), &columns, &found);
        shows(&in_list(&column(0, &array), &list[..1], false), &columns, &found);
    }
}

#[test]
fn operators_of_dates_and_intervals_are_calls() {
    use ArithmeticOp::{Divide, Minus, Plus, Times};
    use arrow::datatypes::{IntervalUnit, TimeUnit};
    let date = |text| literal(text, DataType::Date32);
    let timestamp = |text| literal(text, DataType::Timestamp(TimeUnit::Microsecond, None));
    let time = |text| literal(text, DataType::Time64(TimeUnit::Microsecond));
    let interval = |text| literal(text, DataType::Interval(IntervalUnit::MonthDayNano));
    let cases = [
        (date("2013-07-31"), Plus, ScalarExpr::literal(1), "2013-08-01"),
        (ScalarExpr::literal(1), Plus, date("2012-02-28"), "2012-02-29"),
        (date("2013-07-31"), Minus, ScalarExpr::literal(31), "2013-06-30"),
        (date("2013-03-01"), Minus, date("2012-03-01"), "365"),
        (date("2013-03-01"), Minus, ScalarExpr::literal("2012-03-01"), "365"),
        (date("2013-01-31"), Plus, interval("1 month"), "2013-02-28 00:00:00"),
        (interval("1 hour"), Plus, timestamp("2013-01-31 12:00:00"), "2013-01-31 13:00:00"),
        (timestamp("2013-01-31 12:00:00"), Plus, ScalarExpr::literal("1 day"), "2013-02-01 12:00:00"),
        (timestamp("2012-02-29 00:00:00"), Minus, interval("1 year"), "2011-02-28 00:00:00"),
        (timestamp("2013-07-31 12:00:00"), Minus, timestamp("2013-07-01 00:00:00"), "30 days 12:00:00"),
        (timestamp("2013-07-31 12:00:00"), Minus, date("2013-07-01"), "30 days 12:00:00"),
        (time("23:30:00"), Plus, interval("1 hour"), "00:30:00"),
        (interval("1 day"), Times, ScalarExpr::literal(2), "2 days"),
        (ScalarExpr::literal(2), Times, interval("1 day"), "2 days"),
        (interval("1 day"), Divide, ScalarExpr::literal(2), "12:00:00"),
        (interval("1 day"), Plus, interval("2 hours"), "1 day 02:00:00"),
        (timestamp("2013-07-31 12:00:00"), Minus, ScalarExpr::null(DataType::Null), "NULL"),
        (date("2013-07-31"), Plus, ScalarExpr::null(DataType::Null), "NULL"),
    ];
    for (left, op, right, expected) in cases {
        shows(&arithmetic(op, left, right).expect("an operator"), &[], &[expected]);
    }
    shows(&crate::typing::negate(interval("1 day")).expect("an operator"), &[], &["-1 days"]);
    let concat = |left, right| crate::typing::concat(left, right).expect("an operator");
    shows(&concat(ScalarExpr::literal("a"), ScalarExpr::literal(1)), &[], &["a1"]);
    shows(&concat(ScalarExpr::literal("a"), ScalarExpr::null(DataType::Null)), &[], &["NULL"]);
    let list = |text| literal(text, DataType::List(Arc::new(Field::new("item", DataType::Int64, true))));
    shows(&concat(list("[1]"), list("[2]")), &[], &["[1, 2]"]);
    shows(&concat(list("[1]"), ScalarExpr::literal(2)), &[], &["[1, 2]"]);
    shows(&concat(ScalarExpr::literal(0), list("[1]")), &[], &["[0, 1]"]);
    shows(&concat(literal("\\x00", DataType::BinaryView), ScalarExpr::literal("\\xff")), &[], &["\\x00ff"]);
}

#[test]
fn long_chains_of_operators_are_evaluated() {
    // The deepest chain that a statement may contain.
    const LENGTH: i64 = 400;
    let a = ints(vec![Some(1), None]);
    let mut sum = column(0, &a);
    for _ in 0..LENGTH {
        sum = arithmetic(ArithmeticOp::Plus, sum, column(0, &a)).expect("numbers");
    }
    crate::fold::fold(&mut sum);
    assert!(crate::fold::can_fail(&sum));
    shows(&sum, &[a], &[&(LENGTH + 1).to_string(), "NULL"]);
}
