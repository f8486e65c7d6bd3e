use arrow::datatypes::DataType;
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, Constant, ExprOp, ScalarExpr};

use super::bounds::integer_range_within;
use super::*;
use crate::typing::{arithmetic, cast, compare, concat};

fn column(kind: DataType) -> ScalarExpr {
    ScalarExpr::column(0, kind)
}

fn op(op: ArithmeticOp, left: ScalarExpr, right: ScalarExpr) -> ScalarExpr {
    arithmetic(op, left, right).expect("numbers")
}

fn folded(mut expr: ScalarExpr) -> ScalarExpr {
    fold(&mut expr);
    expr
}

fn boolean(op: ExprOp) -> ScalarExpr {
    ScalarExpr::new(DataType::Boolean, op)
}

#[test]
fn constants_are_folded_and_failing_parts_stay() {
    let sum = op(ArithmeticOp::Plus, ScalarExpr::literal(1), ScalarExpr::literal(2));
    assert_eq!(folded(sum), ScalarExpr::literal(3));
    let by_zero = op(ArithmeticOp::Divide, ScalarExpr::literal(1), ScalarExpr::literal(0));
    assert_eq!(folded(by_zero.clone()), by_zero);
    let is_positive = compare(CompareOp::Greater, by_zero, ScalarExpr::literal(0)).expect("numbers");
    assert_eq!(
        folded(ScalarExpr::and(vec![is_positive.clone(), ScalarExpr::literal(false)])),
        ScalarExpr::literal(false)
    );
    let p = column(DataType::Boolean);
    assert_eq!(folded(ScalarExpr::and(vec![ScalarExpr::literal(true), p.clone()])), p);
    assert_eq!(folded(ScalarExpr::or(vec![p.clone(), ScalarExpr::literal(true)])), ScalarExpr::literal(true));
    let null = ScalarExpr::and(vec![p.clone(), ScalarExpr::null(DataType::Boolean)]);
    assert_eq!(folded(null.clone()), null, "NULL AND p is false where p is");
    assert_eq!(folded(p.clone().negated().negated()), p);
    let whens = vec![
        (ScalarExpr::literal(false), ScalarExpr::literal(1)),
        (p.clone(), ScalarExpr::literal(2)),
        (ScalarExpr::literal(true), ScalarExpr::literal(3)),
        (is_positive, ScalarExpr::literal(4)),
    ];
    let case = folded(ScalarExpr::new(DataType::Int64, ExprOp::Case { whens, otherwise: None }));
    let expected =
        ExprOp::Case { whens: vec![(p, ScalarExpr::literal(2))], otherwise: Some(Box::new(ScalarExpr::literal(3))) };
    assert_eq!(case.op, expected);
    let values = vec![ScalarExpr::null(DataType::Int64), ScalarExpr::literal(7), column(DataType::Int64)];
    assert_eq!(folded(ScalarExpr::new(DataType::Int64, ExprOp::Coalesce(values))), ScalarExpr::literal(7));
}

#[test]
fn chains_of_concatenations_become_one_call() {
    let text = || column(DataType::Utf8View);
    let chain = concat(concat(text(), ScalarExpr::literal("-")).expect("texts"), text()).expect("texts");
    let nested = concat(chain.clone(), concat(text(), text()).expect("texts")).expect("texts");
    let arguments = |expr: &ScalarExpr| match &expr.op {
        ExprOp::Call(function, arguments) => (function.name, arguments.len()),
        _ => panic!("{expr:?} is no call"),
    };
    assert_eq!(arguments(&chain), ("text_concat", 2));
    assert_eq!(arguments(&folded(chain)), ("text_concat", 3));
    assert_eq!(arguments(&folded(nested)), ("text_concat", 5));
}

#[test]
fn ranges_show_that_arithmetic_cannot_fail() {
    use ArithmeticOp::{Divide, Plus, Remainder, Times};
    let wide = || cast(column(DataType::Int16), &DataType::Int64, false).expect("a cast");
    let big = || column(DataType::Int64);
    assert!(!can_fail(&op(Plus, wide(), ScalarExpr::literal(1))));
    assert!(!can_fail(&op(Times, op(Plus, wide(), ScalarExpr::literal(1)), wide())));
    assert!(can_fail(&op(Plus, big(), ScalarExpr::literal(1))));
    assert!(!can_fail(&op(Divide, big(), ScalarExpr::literal(2))));
    assert!(can_fail(&op(Divide, big(), ScalarExpr::literal(0))));
    assert!(can_fail(&op(Divide, big(), ScalarExpr::literal(-1))));
    assert!(!can_fail(&op(Plus, op(Remainder, big(), ScalarExpr::literal(10)), ScalarExpr::literal(1))));
    assert_eq!(integer_range_within(&op(Remainder, big(), ScalarExpr::literal(10)), &|_| None), Some((-9, 9)));
    let money = || column(DataType::Decimal128(10, 2));
    assert!(!can_fail(&op(Times, money(), money())));
    assert!(can_fail(&op(Times, column(DataType::Decimal128(38, 2)), money())));
    assert!(can_fail(&op(Divide, money(), money())));
    assert!(!can_fail(&op(Divide, money(), ScalarExpr::literal(4))));
    assert!(!can_fail(&op(Divide, column(DataType::Float64), ScalarExpr::literal(0))));
    let narrow = |or_null| cast(big(), &DataType::Int8, or_null).expect("a cast");
    assert!(can_fail(&narrow(false)) && !can_fail(&narrow(true)));
    let fits = cast(op(Remainder, big(), ScalarExpr::literal(100)), &DataType::Int8, false).expect("a cast");
    assert!(!can_fail(&fits));
    assert!(can_fail(&cast(column(DataType::Utf8View), &DataType::Int8, false).expect("a cast")));
    assert!(!can_fail(&cast(big(), &DataType::Utf8View, false).expect("a cast")));
}

#[test]
fn rejects_nulls_finds_conditions_that_reject_nulls() {
    let a = || ScalarExpr::column(0, DataType::Int64);
    let b = || ScalarExpr::column(1, DataType::Int64);
    let equal = |left, right| compare(CompareOp::Equal, left, right).expect("numbers");
    let rejects = |expr: &ScalarExpr| rejects_nulls(expr, &|column| column == 0);
    let is_null = |value, negated| boolean(ExprOp::IsNull { value: Box::new(value), negated });
    assert!(rejects(&equal(a(), b())));
    assert!(!rejects(&equal(b(), b())));
    assert!(rejects(&is_null(a(), true)));
    assert!(!rejects(&is_null(a(), false)));
    assert!(rejects(&is_null(a(), false).negated()));
    assert!(rejects(&ScalarExpr::and(vec![equal(b(), b()), equal(a(), b())])));
    assert!(!rejects(&ScalarExpr::or(vec![equal(b(), b()), equal(a(), b())])));
    assert!(rejects(&ScalarExpr::or(vec![equal(a(), ScalarExpr::literal(1)), equal(a(), b())])));
    let zero_if_null = ScalarExpr::new(DataType::Int64, ExprOp::Coalesce(vec![a(), ScalarExpr::literal(0)]));
    assert!(!rejects(&equal(zero_if_null, ScalarExpr::literal(0))));
    assert!(rejects(&ScalarExpr::null(DataType::Boolean)));
    let distinct = boolean(ExprOp::IsDistinct { operands: Box::new([a(), ScalarExpr::literal(1)]), negated: true });
    assert!(rejects(&distinct));
    let case = ExprOp::Case { whens: vec![(equal(a(), b()), ScalarExpr::literal(true))], otherwise: None };
    assert!(rejects(&boolean(case)));
}

#[test]
fn is_nullable_finds_values_that_are_never_null() {
    let nullable = |expr: &ScalarExpr| is_nullable(expr, &|column| column == 0);
    let (a, b) = (ScalarExpr::column(0, DataType::Int64), ScalarExpr::column(1, DataType::Int64));
    assert!(nullable(&a) && !nullable(&b));
    assert!(nullable(&op(ArithmeticOp::Plus, a.clone(), b.clone())));
    assert!(!nullable(&op(ArithmeticOp::Plus, b.clone(), b.clone())));
    assert!(!nullable(&ScalarExpr::new(DataType::Int64, ExprOp::Coalesce(vec![a.clone(), b.clone()]))));
    assert!(!nullable(&boolean(ExprOp::IsNull { value: Box::new(a), negated: false })));
    assert!(nullable(&cast(b.clone(), &DataType::Int8, true).expect("a cast")));
    let whens = vec![(ScalarExpr::column(0, DataType::Boolean), b.clone())];
    assert!(nullable(&ScalarExpr::new(DataType::Int64, ExprOp::Case { whens: whens.clone(), otherwise: None })));
    assert!(!nullable(&ScalarExpr::new(DataType::Int64, ExprOp::Case { whens, otherwise: Some(Box::new(b)) })));
    assert!(Constant::null(&DataType::Int8).is_null());
}
