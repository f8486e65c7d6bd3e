//! A plain interpreter that evaluates an expression for one row. The evaluator's results are compared with it.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{CompareOp, ExprOp, ScalarExpr};

/// A value. Its type is that of its expression.
#[derive(Clone, Debug)]
pub(super) enum Datum {
    Null,
    Boolean(bool),
    /// An integer, or the unscaled integer of a decimal.
    Exact(i128),
    Double(f64),
    Real(f32),
    Text(String),
}

/// The evaluation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EvaluationFailure;

type Interpreted = Result<Datum, EvaluationFailure>;

impl PartialEq for Datum {
    fn eq(&self, other: &Datum) -> bool {
        match (self, other) {
            (Datum::Null, Datum::Null) => true,
            (Datum::Null, _) | (_, Datum::Null) => false,
            _ => order(self, other) == Ordering::Equal,
        }
    }
}

/// Returns the value in one row of an array.
pub(super) fn datum(array: &ArrayRef, row: usize) -> Datum {
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return Datum::Null;
    }
    macro_rules! exact {
        ($kind:ty) => {
            Datum::Exact(array.as_primitive::<$kind>().value(row).into())
        };
    }
    match array.data_type() {
        DataType::Boolean => Datum::Boolean(array.as_boolean().value(row)),
        DataType::Int8 => exact!(Int8Type),
        DataType::Int16 => exact!(Int16Type),
        DataType::Int32 => exact!(Int32Type),
        DataType::Int64 => exact!(Int64Type),
        DataType::UInt8 => exact!(UInt8Type),
        DataType::UInt16 => exact!(UInt16Type),
        DataType::UInt32 => exact!(UInt32Type),
        DataType::UInt64 => exact!(UInt64Type),
        DataType::Decimal128(..) => exact!(Decimal128Type),
        DataType::Float32 => Datum::Real(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => Datum::Double(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8View => Datum::Text(array.as_string_view().value(row).to_owned()),
        other => panic!("no datum of {other}"),
    }
}

fn order(left: &Datum, right: &Datum) -> Ordering {
    let floats = |l: f64, r: f64| match (l.is_nan(), r.is_nan()) {
        (false, false) => l.partial_cmp(&r).expect("numbers"),
        (l, r) => l.cmp(&r),
    };
    match (left, right) {
        (Datum::Boolean(l), Datum::Boolean(r)) => l.cmp(r),
        (Datum::Exact(l), Datum::Exact(r)) => l.cmp(r),
        (Datum::Double(l), Datum::Double(r)) => floats(*l, *r),
        (Datum::Real(l), Datum::Real(r)) => floats((*l).into(), (*r).into()),
        (Datum::Text(l), Datum::Text(r)) => l.as_bytes().cmp(r.as_bytes()),
        pair => panic!("{pair:?} are not of one type"),
    }
}

fn comparison(op: CompareOp, left: &Datum, right: &Datum) -> Option<bool> {
    if matches!(left, Datum::Null) || matches!(right, Datum::Null) {
        return None;
    }
    let order = order(left, right);
    Some(match op {
        CompareOp::Equal => order.is_eq(),
        CompareOp::NotEqual => order.is_ne(),
        CompareOp::Less => order.is_lt(),
        CompareOp::LessOrEqual => order.is_le(),
        CompareOp::Greater => order.is_gt(),
        CompareOp::GreaterOrEqual => order.is_ge(),
    })
}

fn truth(value: Option<bool>) -> Datum {
    value.map_or(Datum::Null, Datum::Boolean)
}

fn scale_of(kind: &DataType) -> u32 {
    match kind {
        DataType::Decimal128(_, scale) => u32::try_from(*scale).expect("no scale is negative"),
        _ => 0,
    }
}

/// Returns `value` if it fits the type `kind`.
fn within(value: i128, kind: &DataType) -> Interpreted {
    let (least, most) = match kind {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        DataType::Decimal128(digits, _) => (1 - 10_i128.pow((*digits).into()), 10_i128.pow((*digits).into()) - 1),
        other => panic!("{other} is not exact"),
    };
    if (least..=most).contains(&value) { Ok(Datum::Exact(value)) } else { Err(EvaluationFailure) }
}

fn float_of(op: ArithmeticOp, left: f64, right: f64) -> f64 {
    let value = match op {
        ArithmeticOp::Plus => left + right,
        ArithmeticOp::Minus => left - right,
        ArithmeticOp::Times => left * right,
        ArithmeticOp::Divide => left / right,
        ArithmeticOp::Remainder => left % right,
    };
    // Negative zero becomes zero.
    value + 0.0
}

fn arithmetic(op: ArithmeticOp, left: (Datum, &DataType), right: (Datum, &DataType), kind: &DataType) -> Interpreted {
    match (left.0, right.0) {
        (Datum::Null, _) | (_, Datum::Null) => Ok(Datum::Null),
        (Datum::Double(l), Datum::Double(r)) => Ok(Datum::Double(float_of(op, l, r))),
        // A result of two REALs, computed in doubles, is exact enough to be rounded once.
        (Datum::Real(l), Datum::Real(r)) => Ok(Datum::Real(float_of(op, l.into(), r.into()) as f32)),
        (Datum::Exact(l), Datum::Exact(r)) => {
            let (s1, s2) = (scale_of(left.1), scale_of(right.1));
            if r == 0 && matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder) {
                return Err(EvaluationFailure);
            }
            if *kind == DataType::Float64 {
                let number = |value: i128, scale: u32| value as f64 / 10_f64.powi(scale as i32);
                return Ok(Datum::Double(number(l, s1) / number(r, s2) + 0.0));
            }
            let common = s1.max(s2);
            let aligned =
                |value: i128, scale: u32| value.checked_mul(10_i128.pow(common - scale)).ok_or(EvaluationFailure);
            let value = match op {
                ArithmeticOp::Plus => aligned(l, s1)?.checked_add(aligned(r, s2)?),
                ArithmeticOp::Minus => aligned(l, s1)?.checked_sub(aligned(r, s2)?),
                ArithmeticOp::Times => l.checked_mul(r),
                ArithmeticOp::Divide => Some(aligned(l, s1)? / aligned(r, s2)?),
                ArithmeticOp::Remainder => Some(aligned(l, s1)? % aligned(r, s2)?),
            };
            within(value.ok_or(EvaluationFailure)?, kind)
        }
        pair => panic!("{pair:?} {op}"),
    }
}

fn cast(value: Datum, from: &DataType, to: &DataType) -> Interpreted {
    let rounded = |value: i128, from: u32, to: u32| {
        if to >= from {
            return value.checked_mul(10_i128.pow(to - from)).ok_or(EvaluationFailure);
        }
        let unit = 10_i128.pow(from - to);
        let half_up = (value.abs() + unit / 2) / unit;
        Ok(half_up * value.signum())
    };
    let is_exact = to.is_integer() || matches!(to, DataType::Decimal128(..));
    Ok(match value {
        Datum::Null => Datum::Null,
        value if from == to => value,
        Datum::Boolean(value) if is_exact => within(i128::from(value) * 10_i128.pow(scale_of(to)), to)?,
        Datum::Boolean(value) if *to == DataType::Utf8View => Datum::Text(value.to_string()),
        Datum::Exact(value) if is_exact => within(rounded(value, scale_of(from), scale_of(to))?, to)?,
        Datum::Exact(value) => match to {
            DataType::Boolean => Datum::Boolean(value != 0),
            DataType::Float64 => Datum::Double(decimal_text(value, scale_of(from)).parse().expect("a number")),
            DataType::Float32 => Datum::Real(decimal_text(value, scale_of(from)).parse().expect("a number")),
            DataType::Utf8View => Datum::Text(decimal_text(value, scale_of(from))),
            other => panic!("{from} as {other}"),
        },
        Datum::Double(value) if to.is_integer() => {
            let whole = value.round_ties_even();
            if whole.is_nan() || whole.abs() > 1e30 {
                return Err(EvaluationFailure);
            }
            within(whole as i128, to)?
        }
        Datum::Double(value) if *to == DataType::Boolean => Datum::Boolean(value != 0.0),
        Datum::Double(value) if *to == DataType::Float32 => {
            let narrow = value as f32 + 0.0;
            if narrow.is_infinite() && value.is_finite() {
                return Err(EvaluationFailure);
            }
            Datum::Real(narrow)
        }
        Datum::Real(value) if *to == DataType::Float64 => Datum::Double(value.into()),
        Datum::Real(value) if *to == DataType::Boolean => Datum::Boolean(value != 0.0),
        Datum::Real(value) if to.is_integer() => {
            return cast(Datum::Double(value.into()), &DataType::Float64, to);
        }
        Datum::Text(value) if to.is_integer() => within(value.parse().map_err(|_| EvaluationFailure)?, to)?,
        value => panic!("{value:?} as {to}"),
    })
}

fn decimal_text(value: i128, scale: u32) -> String {
    if scale == 0 {
        return value.to_string();
    }
    let unit = 10_u128.pow(scale);
    let sign = if value < 0 { "-" } else { "" };
    let (whole, part) = (value.unsigned_abs() / unit, value.unsigned_abs() % unit);
    format!("{sign}{whole}.{part:0width$}", width = scale as usize)
}

/// Evaluates `expr` for one row. It should stay as plain as possible, because no other test checks it.
pub(super) fn interpret(expr: &ScalarExpr, columns: &[ArrayRef], row: usize) -> Interpreted {
    let value = |expr: &ScalarExpr| interpret(expr, columns, row);
    let condition = |expr: &ScalarExpr| match value(expr)? {
        Datum::Boolean(value) => Ok(Some(value)),
        _ => Ok(None),
    };
    Ok(match &expr.op {
        ExprOp::Column(column) => datum(&columns[*column], row),
        ExprOp::Literal(constant) => datum(constant.array(), 0),
        ExprOp::Arithmetic(op, pair) => {
            let [left, right] = &**pair;
            arithmetic(*op, (value(left)?, &left.kind), (value(right)?, &right.kind), &expr.kind)?
        }
        ExprOp::Negate(of) => match value(of)? {
            Datum::Exact(value) => within(-value, &expr.kind)?,
            Datum::Double(value) => Datum::Double(-value + 0.0),
            Datum::Real(value) => Datum::Real(-value + 0.0),
            other => other,
        },
        ExprOp::Compare(op, pair) => truth(comparison(*op, &value(&pair[0])?, &value(&pair[1])?)),
        ExprOp::IsDistinct { operands, negated } => {
            Datum::Boolean((value(&operands[0])? != value(&operands[1])?) != *negated)
        }
        ExprOp::CompareRows(op, left, right) => {
            let left = left.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            let right = right.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            truth(compare_rows(*op, &left, &right))
        }
        ExprOp::And(parts) | ExprOp::Or(parts) => {
            let decisive = matches!(expr.op, ExprOp::Or(_));
            let mut result = Some(!decisive);
            for part in parts {
                match condition(part)? {
                    Some(value) if value == decisive => return Ok(Datum::Boolean(decisive)),
                    Some(_) => {}
                    None => result = None,
                }
            }
            truth(result)
        }
        ExprOp::Not(of) => truth(condition(of)?.map(|value| !value)),
        ExprOp::IsNull { value: of, negated } => Datum::Boolean(matches!(value(of)?, Datum::Null) != *negated),
        ExprOp::Case { whens, otherwise } => {
            for (when, then) in whens {
                if condition(when)? == Some(true) {
                    return value(then);
                }
            }
            otherwise.as_deref().map_or(Ok(Datum::Null), value)?
        }
        ExprOp::Cast { value: of, or_null } => match cast(value(of)?, &of.kind, &expr.kind) {
            Err(EvaluationFailure) if *or_null => Datum::Null,
            result => result?,
        },
        ExprOp::InList { value: of, list, negated } => {
            let of = value(of)?;
            let list = list.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            let mut found = Some(false);
            for item in &list {
                match comparison(CompareOp::Equal, &of, item) {
                    Some(true) => return Ok(Datum::Boolean(!negated)),
                    Some(false) => {}
                    None => found = None,
                }
            }
            truth(found.map(|found| found != *negated))
        }
        ExprOp::Coalesce(values) => {
            for expr in values {
                let value = value(expr)?;
                if !matches!(value, Datum::Null) {
                    return Ok(value);
                }
            }
            Datum::Null
        }
        other => panic!("{other:?} is not interpreted"),
    })
}

fn compare_rows(op: CompareOp, left: &[Datum], right: &[Datum]) -> Option<bool> {
    let pairs = left.iter().zip(right);
    match op {
        CompareOp::Equal | CompareOp::NotEqual => {
            let differs = op == CompareOp::NotEqual;
            let mut result = Some(!differs);
            for (left, right) in pairs {
                match comparison(CompareOp::Equal, left, right) {
                    Some(false) => return Some(differs),
                    Some(true) => {}
                    None => result = None,
                }
            }
            result
        }
        _ => {
            for (left, right) in pairs {
                match comparison(CompareOp::Equal, left, right) {
                    Some(true) => {}
                    Some(false) => return comparison(op, left, right),
                    None => return None,
                }
            }
            Some(matches!(op, CompareOp::LessOrEqual | CompareOp::GreaterOrEqual))
        }
    }
}
