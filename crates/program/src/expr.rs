//! Expressions: scalars of a program, ready to be computed.
//!
//! Types are looked at when an expression is made ([`compile`]), not when it is computed: each node knows what its operands
//! are. A node is dispatched once for a value, and a column, a parameter or a literal alone is taken without a call. A value is
//! borrowed from where it lies; texts that are made lie in [`Texts`].

mod arithmetic;
mod cast;
mod compare;
mod compile;
mod evaluated;
mod like;
#[cfg(test)]
mod tests;
mod text;

use rowmill_base::{Result, SqlType};
use rowmill_plan::program::Value;
use rowmill_storage::keyed::ValueRef;

pub(crate) use self::arithmetic::Step;
pub(crate) use self::cast::{Cast, canonical_value};
pub(crate) use self::compare::{Comparison, compare_values};
pub(crate) use self::compile::{Compiler, Layout, unsupported};
pub(crate) use self::evaluated::Evaluated;
pub(crate) use self::like::LikeTest;
pub(crate) use self::text::TextCall;
use crate::texts::Texts;

/// What an expression is computed of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env<'a> {
    /// Columns of all rows, in the places that the [`Layout`] gave them.
    pub(crate) columns: &'a [ValueRef<'a>],
    pub(crate) parameters: &'a [ValueRef<'a>],
    pub(crate) texts: &'a Texts,
}

/// An expression.
#[derive(Debug)]
pub(crate) enum Expr {
    Column(usize),
    Parameter(usize),
    Literal(Value),
    Arithmetic(Box<Step>),
    Negate(Box<Expr>, SqlType),
    Compare(Box<Comparison>),
    And(Box<[Expr]>),
    Or(Box<[Expr]>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    IsNotNull(Box<Expr>),
    Case(Box<Case>),
    Cast(Box<Cast>),
    Coalesce(Box<[Expr]>),
    Text(Box<TextCall>),
    Like(Box<LikeTest>),
    Evaluated(Box<Evaluated>),
}

/// `CASE`
#[derive(Debug)]
pub(crate) struct Case {
    whens: Box<[(Expr, Expr)]>,
    otherwise: Expr,
}

impl Expr {
    /// The value for a row. What is there already is taken where it is asked for, without a call.
    #[inline(always)]
    pub(crate) fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        match self {
            Expr::Column(place) => Ok(env.columns[*place]),
            Expr::Parameter(number) => Ok(env.parameters[*number]),
            Expr::Literal(value) => Ok(borrowed(value)),
            made => made.compute(env),
        }
    }

    #[inline(never)]
    fn compute<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        match self {
            Expr::Column(_) | Expr::Parameter(_) | Expr::Literal(_) => self.value(env),
            Expr::Arithmetic(step) => step.value(env),
            Expr::Negate(operand, kind) => arithmetic::negated(operand.value(env)?, kind),
            Expr::Compare(comparison) => comparison.value(env),
            Expr::And(all) => decided(all, env, false),
            Expr::Or(all) => decided(all, env, true),
            Expr::Not(operand) => Ok(truth(operand.value(env)?).map_or(ValueRef::Null, |is| ValueRef::Bool(!is))),
            Expr::IsNull(operand) => Ok(ValueRef::Bool(operand.value(env)?.is_null())),
            Expr::IsNotNull(operand) => Ok(ValueRef::Bool(!operand.value(env)?.is_null())),
            Expr::Case(case) => case.value(env),
            Expr::Cast(cast) => cast.value(env),
            Expr::Coalesce(all) => first_value(all, env),
            Expr::Text(call) => call.value(env),
            Expr::Like(test) => test.value(env),
            Expr::Evaluated(evaluated) => evaluated.value(env),
        }
    }

    /// Whether it is true for a row: false and NULL are not.
    #[inline]
    pub(crate) fn is_true(&self, env: Env<'_>) -> Result<bool> {
        Ok(truth(self.value(env)?) == Some(true))
    }

    /// Whether it is false for a row: true and NULL are not.
    pub(crate) fn is_false(&self, env: Env<'_>) -> Result<bool> {
        Ok(truth(self.value(env)?) == Some(false))
    }
}

/// A boolean, or NULL.
#[inline]
fn truth(value: ValueRef<'_>) -> Option<bool> {
    match value {
        ValueRef::Bool(value) => Some(value),
        ValueRef::Null => None,
        _ => unreachable!("a boolean was promised"),
    }
}

/// The first of the conditions that is `decisive` decides; without one it is the opposite, or NULL if one is NULL.
fn decided<'a>(all: &'a [Expr], env: Env<'a>, decisive: bool) -> Result<ValueRef<'a>> {
    let mut has_null = false;
    for condition in all {
        match truth(condition.value(env)?) {
            Some(is) if is == decisive => return Ok(ValueRef::Bool(decisive)),
            Some(_) => {}
            None => has_null = true,
        }
    }
    Ok(if has_null { ValueRef::Null } else { ValueRef::Bool(!decisive) })
}

fn first_value<'a>(all: &'a [Expr], env: Env<'a>) -> Result<ValueRef<'a>> {
    for expr in all {
        let value = expr.value(env)?;
        if !value.is_null() {
            return Ok(value);
        }
    }
    Ok(ValueRef::Null)
}

impl Case {
    fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        for (when, then) in &self.whens {
            if when.is_true(env)? {
                return then.value(env);
            }
        }
        self.otherwise.value(env)
    }
}

/// A literal, where it lies.
#[inline]
pub(crate) fn borrowed(value: &Value) -> ValueRef<'_> {
    match value {
        Value::Null => ValueRef::Null,
        Value::Bool(value) => ValueRef::Bool(*value),
        Value::Int(value) => ValueRef::Int(*value),
        Value::UInt(value) => ValueRef::UInt(*value),
        Value::Float(value) => ValueRef::Float(*value),
        Value::Decimal(value) => ValueRef::Decimal(*value),
        Value::Interval(value) => ValueRef::Interval(*value),
        Value::Text(value) => ValueRef::Text(value),
        Value::Bytes(value) => ValueRef::Bytes(value),
    }
}

/// Whether a value is one of a type, or NULL.
pub(crate) fn is_of(value: ValueRef<'_>, kind: &SqlType) -> bool {
    use SqlType::{Boolean, Date, Float32, Float64, Int8, Int16, Int32, Int64, Time, UInt8, UInt16, UInt32, UInt64};
    match value {
        ValueRef::Null => true,
        ValueRef::Bool(_) => *kind == Boolean,
        ValueRef::Int(_) => matches!(kind, Int8 | Int16 | Int32 | Int64 | Date | Time | SqlType::Timestamp { .. }),
        ValueRef::UInt(_) => matches!(kind, UInt8 | UInt16 | UInt32 | UInt64),
        ValueRef::Float(_) => matches!(kind, Float32 | Float64),
        ValueRef::Decimal(_) => matches!(kind, SqlType::Decimal { .. }),
        ValueRef::Interval(_) => *kind == SqlType::Interval,
        ValueRef::Text(_) => matches!(kind, SqlType::Text { .. }),
        ValueRef::Bytes(bytes) => match kind {
            SqlType::Uuid => bytes.len() == 16,
            kind => matches!(kind, SqlType::Blob | SqlType::List(_) | SqlType::Struct(_)),
        },
    }
}
