//! Tests of each kind of scalar: its values, its NULLs, and its errors.

use rowmill_base::{Error, ErrorKind, Result, SqlType, TimeUnit};
use rowmill_plan::CompareOp;
use rowmill_plan::program::{ArithmeticOp, Scalar, ScalarOp, ScalarValue, TextFunction};
use rowmill_storage::keyed::ValueRef;

use super::{Env, ExprCompiler, RowsLayout, borrowed};
use crate::texts::ComputedTexts;

const INT: SqlType = SqlType::Int32;
const BIG: SqlType = SqlType::Int64;
const DOUBLE: SqlType = SqlType::Float64;
const BOOL: SqlType = SqlType::Boolean;

fn decimal(precision: u8, scale: u8) -> SqlType {
    SqlType::Decimal { precision, scale }
}

fn literal(kind: SqlType, value: ScalarValue) -> Scalar {
    Scalar::literal(kind, value)
}

fn int(value: i64) -> Scalar {
    literal(INT, ScalarValue::Int(value))
}

fn big(value: i64) -> Scalar {
    literal(BIG, ScalarValue::Int(value))
}

fn double(value: f64) -> Scalar {
    literal(DOUBLE, ScalarValue::Float(value))
}

fn money(value: i128) -> Scalar {
    literal(decimal(10, 2), ScalarValue::Decimal(value))
}

fn text(value: &str) -> Scalar {
    literal(SqlType::TEXT, ScalarValue::Text(value.into()))
}

fn truth(value: Option<bool>) -> Scalar {
    literal(BOOL, value.map_or(ScalarValue::Null, ScalarValue::Bool))
}

fn null(kind: SqlType) -> Scalar {
    literal(kind, ScalarValue::Null)
}

fn owned(value: ValueRef<'_>) -> ScalarValue {
    match value {
        ValueRef::Null => ScalarValue::Null,
        ValueRef::Bool(value) => ScalarValue::Bool(value),
        ValueRef::Int(value) => ScalarValue::Int(value),
        ValueRef::UInt(value) => ScalarValue::UInt(value),
        ValueRef::Float(value) => ScalarValue::Float(value),
        ValueRef::Decimal(value) => ScalarValue::Decimal(value),
        ValueRef::Interval(value) => ScalarValue::Interval(value),
        ValueRef::Text(value) => ScalarValue::Text(value.into()),
        ValueRef::Bytes(value) => ScalarValue::Bytes(value.into()),
    }
}

fn computed(scalar: &Scalar) -> Result<ScalarValue> {
    let layout = RowsLayout::default();
    let mut compiler = ExprCompiler::new(&[], &layout, 0);
    let expr = compiler.expr(scalar)?;
    let mut texts = ComputedTexts::default();
    texts.clear(compiler.texts());
    expr.value(Env { columns: &[], parameters: &[], texts: &texts }).map(owned)
}

fn value(scalar: Scalar) -> ScalarValue {
    computed(&scalar).expect("a value")
}

fn error(scalar: Scalar) -> Error {
    computed(&scalar).expect_err("an error")
}

fn of(kind: SqlType, left: Scalar, op: ArithmeticOp, right: Scalar) -> Scalar {
    Scalar::arithmetic(kind, left, op, right)
}

use ArithmeticOp::{Divide, Minus, Plus, Remainder, Times};

#[test]
fn integers_keep_their_type_or_fail() {
    assert_eq!(value(of(INT, int(7), Plus, int(-9))), ScalarValue::Int(-2));
    assert_eq!(value(of(INT, int(7), Divide, int(-2))), ScalarValue::Int(-3));
    assert_eq!(value(of(INT, int(-7), Remainder, int(2))), ScalarValue::Int(-1));
    assert_eq!(value(of(BIG, big(i64::MIN), Remainder, big(-1))), ScalarValue::Int(0));
    assert_eq!(value(of(INT, int(7), Times, null(INT))), ScalarValue::Null);
    assert_eq!(value(of(INT, null(INT), Divide, int(0))), ScalarValue::Null);
    for (left, op, right) in [
        (big(i64::MAX), Plus, big(1)),
        (big(i64::MIN), Minus, big(1)),
        (big(1 << 40), Times, big(1 << 40)),
        (big(i64::MIN), Divide, big(-1)),
    ] {
        assert_eq!(error(of(BIG, left, op, right)).kind(), ErrorKind::NumericOutOfRange);
    }
    let overflow = error(of(INT, int(i32::MAX.into()), Plus, int(1)));
    assert_eq!(overflow.message(), "number out of range: 2147483647 + 1 does not fit INTEGER");
    for op in [Divide, Remainder] {
        assert_eq!(error(of(INT, int(1), op, int(0))).kind(), ErrorKind::DivisionByZero);
    }
    let unsigned = |value| literal(SqlType::UInt64, ScalarValue::UInt(value));
    assert_eq!(error(of(SqlType::UInt64, unsigned(1), Minus, unsigned(2))).kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(
        error(of(SqlType::UInt64, unsigned(u64::MAX), Times, unsigned(u64::MAX))).kind(),
        ErrorKind::NumericOutOfRange
    );
    let negate = |scalar: Scalar| Scalar::new(scalar.kind.clone(), ScalarOp::Negate(Box::new(scalar)));
    assert_eq!(value(negate(int(5))), ScalarValue::Int(-5));
    assert_eq!(error(negate(big(i64::MIN))).kind(), ErrorKind::NumericOutOfRange);
    assert_eq!(value(negate(double(0.0))), ScalarValue::Float(0.0));
}

#[test]
fn decimals_are_exact_or_fail() {
    assert_eq!(value(of(decimal(12, 2), money(150), Plus, int(2))), ScalarValue::Decimal(350));
    assert_eq!(value(of(decimal(20, 4), money(150), Times, money(-25))), ScalarValue::Decimal(-3750));
    let tenth = literal(decimal(3, 1), ScalarValue::Decimal(1));
    assert_eq!(value(of(decimal(11, 2), money(150), Minus, tenth.clone())), ScalarValue::Decimal(140));
    assert_eq!(value(of(decimal(4, 2), money(157), Remainder, tenth)), ScalarValue::Decimal(7));
    assert_eq!(value(of(DOUBLE, money(150), Divide, int(4))), ScalarValue::Float(0.375));
    for op in [Remainder, Divide] {
        let kind = if op == Divide { DOUBLE } else { decimal(10, 2) };
        assert_eq!(error(of(kind, money(150), op, money(0))).kind(), ErrorKind::DivisionByZero);
    }
    let wide = |value| literal(decimal(38, 0), ScalarValue::Decimal(value));
    let most = 10_i128.pow(38) - 1;
    let overflow = error(of(decimal(38, 0), wide(most), Plus, wide(1)));
    assert_eq!(overflow.kind(), ErrorKind::NumericOutOfRange);
    assert!(overflow.message().ends_with("9999 + 1 does not fit DECIMAL(38,0)"), "{overflow}");
    assert_eq!(error(of(decimal(38, 0), wide(most), Times, wide(most))).kind(), ErrorKind::NumericOutOfRange);
    // The declared type differs from the type that the operator gives.
    assert_eq!(error(of(decimal(38, 3), money(1), Plus, money(1))).kind(), ErrorKind::Unsupported);
}

#[test]
fn floats_have_one_nan_and_one_zero() {
    assert_eq!(value(of(DOUBLE, double(1.0), Divide, double(0.0))), ScalarValue::Float(f64::INFINITY));
    let ScalarValue::Float(nan) = value(of(DOUBLE, double(0.0), Divide, double(0.0))) else { panic!("a float") };
    assert_eq!(nan.to_bits(), f64::NAN.to_bits());
    let ScalarValue::Float(zero) = value(of(DOUBLE, double(-1.0), Times, double(0.0))) else { panic!("a float") };
    assert_eq!(zero.to_bits(), 0);
    let real = |value: f32| literal(SqlType::Float32, ScalarValue::Float(value.into()));
    assert_eq!(value(of(SqlType::Float32, real(0.1), Plus, real(0.2))), ScalarValue::Float((0.1_f32 + 0.2_f32).into()));
}

#[test]
fn logic_has_three_values() {
    let (yes, no, unknown) = (Some(true), Some(false), None);
    let and = |left, right| value(Scalar::new(BOOL, ScalarOp::And(vec![truth(left), truth(right)])));
    let or = |left, right| value(Scalar::new(BOOL, ScalarOp::Or(vec![truth(left), truth(right)])));
    let is = |value: Option<bool>| value.map_or(ScalarValue::Null, ScalarValue::Bool);
    for (left, right, both, any) in [
        (yes, yes, yes, yes),
        (yes, no, no, yes),
        (yes, unknown, unknown, yes),
        (no, no, no, no),
        (no, unknown, no, unknown),
        (unknown, unknown, unknown, unknown),
    ] {
        assert_eq!((and(left, right), and(right, left)), (is(both), is(both)), "{left:?} AND {right:?}");
        assert_eq!((or(left, right), or(right, left)), (is(any), is(any)), "{left:?} OR {right:?}");
    }
    let not = |operand| value(Scalar::new(BOOL, ScalarOp::Not(Box::new(truth(operand)))));
    assert_eq!((not(yes), not(no), not(unknown)), (is(no), is(yes), is(unknown)));
    let is_null = |negated| value(Scalar::new(BOOL, ScalarOp::IsNull { value: Box::new(truth(unknown)), negated }));
    assert_eq!((is_null(false), is_null(true)), (is(yes), is(no)));
    // A deciding operand hides an error after it, but not an error before it.
    let fails = || Scalar::compare(of(INT, int(1), Divide, int(0)), CompareOp::Equal, int(1));
    assert_eq!(value(Scalar::new(BOOL, ScalarOp::And(vec![truth(no), fails()]))), ScalarValue::Bool(false));
    assert_eq!(error(Scalar::new(BOOL, ScalarOp::And(vec![fails(), truth(no)]))).kind(), ErrorKind::DivisionByZero);
}

#[test]
fn numbers_of_all_types_are_compared_as_numbers() {
    let compare = |left: &Scalar, op, right: &Scalar| value(Scalar::compare(left.clone(), op, right.clone()));
    let tiny = literal(SqlType::UInt8, ScalarValue::UInt(3));
    let ascending = [int(-1), money(50), tiny, money(301), double(3.5), big(1 << 40), double(f64::NAN)];
    for (at, left) in ascending.iter().enumerate() {
        for (other, right) in ascending.iter().enumerate() {
            assert_eq!(compare(left, CompareOp::Less, right), ScalarValue::Bool(at < other), "{left:?} < {right:?}");
            assert_eq!(compare(left, CompareOp::GreaterOrEqual, right), ScalarValue::Bool(at >= other));
            assert_eq!(compare(left, CompareOp::NotEqual, right), ScalarValue::Bool(at != other));
        }
        assert_eq!(compare(left, CompareOp::Equal, &null(left.kind.clone())), ScalarValue::Null);
    }
    assert_eq!(compare(&text("a"), CompareOp::Less, &text("b")), ScalarValue::Bool(true));
    let date = literal(SqlType::Date, ScalarValue::Int(1));
    assert_eq!(compare(&date, CompareOp::Equal, &text("1970-01-02")), ScalarValue::Bool(true));
    let unreadable = error(Scalar::compare(date.clone(), CompareOp::Equal, text("soon")));
    assert_eq!(unreadable.kind(), ErrorKind::InvalidDatetime);
    assert_eq!(error(Scalar::compare(date, CompareOp::Equal, int(1))).kind(), ErrorKind::Unsupported);
}

#[test]
fn casts_round_or_fail() {
    assert_eq!(value(double(2.5).cast(INT)), ScalarValue::Int(2));
    assert_eq!(value(money(250).cast(INT)), ScalarValue::Int(3));
    assert_eq!(value(int(7).cast(decimal(5, 2))), ScalarValue::Decimal(700));
    assert_eq!(value(null(DOUBLE).cast(INT)), ScalarValue::Null);
    let narrow = error(int(300).cast(SqlType::Int8));
    assert_eq!(narrow.message(), "number out of range: 300 does not fit TINYINT");
    assert_eq!(
        error(money(12_345).cast(decimal(4, 2))).message(),
        "number out of range: 123.45 does not fit DECIMAL(4,2)"
    );
    assert_eq!(value(text("héllo").cast(SqlType::Text { chars_max: Some(2) })), ScalarValue::Text("hé".into()));
    assert_eq!(value(int(-12).cast(SqlType::TEXT)), ScalarValue::Text("-12".into()));
    assert_eq!(value(text("42").cast(INT)), ScalarValue::Int(42));
    let moment = SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false };
    assert_eq!(value(text("1970-01-01 00:00:01").cast(moment.clone())), ScalarValue::Int(1_000_000));
    for (cast, kind) in [
        (text("x").cast(INT), ErrorKind::InvalidText),
        (text("1.5").cast(INT), ErrorKind::InvalidText),
        (text("99999999999").cast(INT), ErrorKind::NumericOutOfRange),
        (text("x").cast(moment), ErrorKind::InvalidDatetime),
        (int(1).cast(SqlType::Date), ErrorKind::Unsupported),
    ] {
        assert_eq!(error(cast).kind(), kind);
    }
}

#[test]
fn dates_and_timestamps_are_truncated_towards_the_past() {
    let stamp = |unit, zoned| SqlType::Timestamp { unit, zoned };
    let nanos = |value| literal(stamp(TimeUnit::Nanosecond, true), ScalarValue::Int(value));
    let micros = stamp(TimeUnit::Microsecond, false);
    assert_eq!(value(nanos(1_999).cast(micros.clone())), ScalarValue::Int(1));
    assert_eq!(value(nanos(-1).cast(micros.clone())), ScalarValue::Int(-1));
    assert_eq!(value(nanos(-1).cast(SqlType::Date)), ScalarValue::Int(-1));
    let day = literal(SqlType::Date, ScalarValue::Int(2));
    assert_eq!(value(day.cast(micros)), ScalarValue::Int(2 * 86_400_000_000));
    let far = literal(stamp(TimeUnit::Second, false), ScalarValue::Int(i64::MAX));
    for kind in [SqlType::Date, stamp(TimeUnit::Nanosecond, false)] {
        assert_eq!(error(far.clone().cast(kind)).kind(), ErrorKind::InvalidDatetime);
    }
}

#[test]
fn case_and_coalesce_compute_only_the_chosen_value() {
    let case = |condition: Scalar| {
        let whens = vec![(condition, of(INT, int(1), Plus, int(1)))];
        Scalar::new(INT, ScalarOp::Case { whens, otherwise: Some(Box::new(of(INT, int(1), Divide, int(0)))) })
    };
    assert_eq!(value(case(truth(Some(true)))), ScalarValue::Int(2));
    assert_eq!(error(case(truth(None))).kind(), ErrorKind::DivisionByZero);
    let none = Scalar::new(INT, ScalarOp::Case { whens: vec![(truth(Some(false)), int(1))], otherwise: None });
    assert_eq!(value(none), ScalarValue::Null);
    let first = |all| Scalar::new(INT, ScalarOp::Coalesce(all));
    assert_eq!(value(first(vec![null(INT), int(4), of(INT, int(1), Divide, int(0))])), ScalarValue::Int(4));
    assert_eq!(value(first(vec![null(INT), null(INT)])), ScalarValue::Null);
}

#[test]
fn text_functions_count_characters() {
    let call = |function, kind, arguments| Scalar::new(kind, ScalarOp::Text(function, arguments));
    let made = |function, arguments| value(call(function, SqlType::TEXT, arguments));
    let shown = |text: &str| ScalarValue::Text(text.into());
    assert_eq!(made(TextFunction::Concat, vec![text("a"), text(""), text("bé")]), shown("abé"));
    assert_eq!(made(TextFunction::Concat, vec![text("a"), null(SqlType::TEXT)]), ScalarValue::Null);
    let inner = call(TextFunction::Upper, SqlType::TEXT, vec![text("ß1x")]);
    assert_eq!(made(TextFunction::Concat, vec![inner.clone(), inner]), shown("SS1XSS1X"));
    assert_eq!(made(TextFunction::Lower, vec![text("ABC")]), shown("abc"));
    assert_eq!(value(call(TextFunction::Length, INT, vec![text("né")])), ScalarValue::Int(2));
    for (first, chars, part) in
        [(1, 2, "hé"), (2, 9, "éllo"), (0, 2, "h"), (-5, 3, ""), (9, 1, ""), (2, 0, ""), (i64::MIN, i64::MAX, "")]
    {
        let arguments = vec![text("héllo"), big(first), big(chars)];
        assert_eq!(made(TextFunction::Substring, arguments), shown(part), "from {first}, {chars}");
    }
    assert_eq!(made(TextFunction::Substring, vec![text("héllo"), big(3)]), shown("llo"));
    let negative = call(TextFunction::Substring, SqlType::TEXT, vec![text("a"), big(1), big(-1)]);
    assert_eq!(error(negative).kind(), ErrorKind::InvalidParameter);
}

#[test]
fn scalars_with_wrong_types_are_refused() {
    let parameter = Scalar::parameter(INT, 0);
    assert_eq!(computed(&parameter).unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(computed(&Scalar::column(INT, 0, 0)).unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(computed(&literal(INT, ScalarValue::Float(1.0))).unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(computed(&Scalar::new(BOOL, ScalarOp::Not(Box::new(int(1))))).unwrap_err().kind(), ErrorKind::Internal);
    let deep = (0..1_000).fold(int(1), |deep, _| of(INT, deep, Plus, int(1)));
    assert_eq!(computed(&deep).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(borrowed(&ScalarValue::UInt(3)), ValueRef::UInt(3));
}
