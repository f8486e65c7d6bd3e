//! `+ - * / %` that never wrap around and never lose digits, and that know only one NaN.
//!
//! | operands | result |
//! | --- | --- |
//! | integers of one type | that type; overflow is an error, quotients are truncated towards zero |
//! | decimals, or decimals and integers | a decimal with the planned digits; `/` gives a DOUBLE quotient |
//! | floats of one type | that type: IEEE arithmetic, with one NaN and one zero |

use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_plan::program::ArithmeticOp;
use rowmill_storage::keyed::ValueRef;

use super::{Env, Expr};
use crate::number::{Digits, Integer, Number, Said, canonical, exact, float, out_of_range, product, ten_to};

/// An operator, its kind of arithmetic, and its operands.
#[derive(Debug)]
pub(crate) struct NumberStep {
    op: ArithmeticOp,
    on: On,
    /// The type of the result, for errors.
    kind: SqlType,
    operands: [Expr; 2],
}

/// The kind of arithmetic, which follows from the types of the operands and of the result.
#[derive(Clone, Copy, Debug)]
enum On {
    Integers(Integer),
    /// Both operands by their digits after the point, and the digits of the result.
    Decimals(u8, u8, Digits),
    /// Exact numbers that are divided as doubles, by their digits after the point.
    Quotient(u8, u8),
    Reals,
    Doubles,
}

impl NumberStep {
    /// Compiles an operator on operands of these types. Returns `None` if there is no such operator.
    pub(crate) fn new(
        op: ArithmeticOp,
        kinds: [&SqlType; 2],
        kind: &SqlType,
        operands: [Expr; 2],
    ) -> Option<NumberStep> {
        let on = match (Number::of(kinds[0])?, Number::of(kinds[1])?, Number::of(kind)?) {
            (Number::Integer(left), Number::Integer(right), Number::Integer(result))
                if left == right && left == result =>
            {
                On::Integers(result)
            }
            (Number::Real, Number::Real, Number::Real) => On::Reals,
            (Number::Double, Number::Double, Number::Double) => On::Doubles,
            (left, right, Number::Double) if op == ArithmeticOp::Divide => {
                On::Quotient(left.digits()?.scale, right.digits()?.scale)
            }
            (left, right, Number::Decimal(result)) => {
                let (left, right) = (left.digits()?.scale, right.digits()?.scale);
                let scale = if op == ArithmeticOp::Times { left + right } else { left.max(right) };
                // Decimals are divided as doubles, and the planner must have chosen the natural scale.
                if op == ArithmeticOp::Divide || scale != result.scale {
                    return None;
                }
                On::Decimals(left, right, result)
            }
            _ => return None,
        };
        Some(NumberStep { op, on, kind: kind.clone(), operands })
    }

    pub(super) fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        let [left, right] = &self.operands;
        let (left, right) = (left.value(env)?, right.value(env)?);
        if left.is_null() || right.is_null() {
            return Ok(ValueRef::Null);
        }
        let op = self.op;
        let divides = matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder);
        let made = match self.on {
            On::Reals => {
                let (left, right) = (float(left) as f32, float(right) as f32);
                return Ok(ValueRef::Float(canonical(floats(op, left, right).into())));
            }
            On::Doubles => return Ok(ValueRef::Float(canonical(floats(op, float(left), float(right))))),
            // Floats are handled above: they divide by zero to an infinity or NaN.
            _ if divides && exact(right) == 0 => return Err(division_by_zero()),
            On::Quotient(left_scale, right_scale) => {
                let double = |value, scale| Number::Decimal(Digits { all: 38, scale }).double(value);
                return Ok(ValueRef::Float(double(left, left_scale) / double(right, right_scale) + 0.0));
            }
            On::Integers(kind) => match (left, right) {
                (ValueRef::Int(left), ValueRef::Int(right)) => small_integers(op, left, right, kind).map(ValueRef::Int),
                _ => integers(op, exact(left), exact(right)).and_then(|made| kind.value(made)),
            },
            On::Decimals(left_scale, right_scale, kind) => {
                decimals(op, (exact(left), left_scale), (exact(right), right_scale)).and_then(|made| kind.value(made))
            }
        };
        made.ok_or_else(|| self.out_of_range(left, right))
    }

    /// The result for signed integers, if there is one: no operand is NULL, and no error comes up.
    #[inline]
    pub(super) fn signed(&self, env: Env<'_>) -> Option<i64> {
        let On::Integers(kind) = self.on else { return None };
        let [left, right] = &self.operands;
        let (left, right) = (left.signed(env)?, right.signed(env)?);
        small_integers(self.op, left, right, kind)
    }

    #[cold]
    fn out_of_range(&self, left: ValueRef<'_>, right: ValueRef<'_>) -> Error {
        let (left_scale, right_scale) = match self.on {
            On::Decimals(left, right, _) => (left, right),
            _ => (0, 0),
        };
        out_of_range(format_args!("{} {} {}", Said(left, left_scale), self.op, Said(right, right_scale)), &self.kind)
    }
}

/// Computes an operator on signed integers. Returns `None` if the type does not have the result, or for a division by
/// zero. A division of 128 bits would take several times as long.
#[inline]
fn small_integers(op: ArithmeticOp, left: i64, right: i64, kind: Integer) -> Option<i64> {
    let made = match op {
        ArithmeticOp::Plus => left.checked_add(right)?,
        ArithmeticOp::Minus => left.checked_sub(right)?,
        ArithmeticOp::Times => left.checked_mul(right)?,
        ArithmeticOp::Divide => left.checked_div(right)?,
        // The remainder of a division by -1 is 0 also where the quotient would overflow.
        ArithmeticOp::Remainder if right == 0 => return None,
        ArithmeticOp::Remainder => left.wrapping_rem(right),
    };
    let unused = 64 - u32::from(kind.bits);
    (made << unused >> unused == made).then_some(made)
}

/// Computes an operator on integers of at most 64 bits. In 128 bits, only a product can overflow.
#[inline]
fn integers(op: ArithmeticOp, left: i128, right: i128) -> Option<i128> {
    Some(match op {
        ArithmeticOp::Plus => left + right,
        ArithmeticOp::Minus => left - right,
        // The product of two unsigned integers of 64 bits may need all 128 bits, but `i128` has a sign.
        ArithmeticOp::Times => return left.checked_mul(right),
        ArithmeticOp::Divide => left / right,
        ArithmeticOp::Remainder => left % right,
    })
}

#[inline]
fn decimals(op: ArithmeticOp, (left, left_scale): (i128, u8), (right, right_scale): (i128, u8)) -> Option<i128> {
    if op == ArithmeticOp::Times {
        return product(left, right);
    }
    // Bring both operands to the larger scale.
    let scale = left_scale.max(right_scale);
    let left = product(left, ten_to(scale - left_scale))?;
    let right = product(right, ten_to(scale - right_scale))?;
    match op {
        ArithmeticOp::Plus => left.checked_add(right),
        ArithmeticOp::Minus => left.checked_sub(right),
        _ => left.checked_rem(right),
    }
}

#[inline]
fn floats<F>(op: ArithmeticOp, left: F, right: F) -> F
where
    F: std::ops::Add<Output = F>
        + std::ops::Sub<Output = F>
        + std::ops::Mul<Output = F>
        + std::ops::Div<Output = F>
        + std::ops::Rem<Output = F>,
{
    match op {
        ArithmeticOp::Plus => left + right,
        ArithmeticOp::Minus => left - right,
        ArithmeticOp::Times => left * right,
        ArithmeticOp::Divide => left / right,
        ArithmeticOp::Remainder => left % right,
    }
}

/// Computes `-value`.
pub(super) fn negated<'a>(value: ValueRef<'a>, kind: &SqlType) -> Result<ValueRef<'a>> {
    let negated = match value {
        ValueRef::Null => return Ok(ValueRef::Null),
        ValueRef::Float(value) => return Ok(ValueRef::Float(canonical(-value))),
        value => Number::of(kind).and_then(|number| number.exact_value(-exact(value))),
    };
    negated.ok_or_else(|| out_of_range(format_args!("0 - {}", Said(value, 0)), kind))
}

#[cold]
fn division_by_zero() -> Error {
    Error::new(ErrorKind::DivisionByZero, "division by zero")
}
