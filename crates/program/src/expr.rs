//! Expressions: the scalars of a program, ready to be computed.
//!
//! Types are checked when an expression is compiled ([`compile`]) and not when it is computed, because each node knows
//! the types of its operands. A value costs one dispatch per node; a column, a parameter or a literal is taken without
//! a call. Values are borrowed from where they are stored. Texts that an expression makes are stored in [`Texts`].

mod arithmetic;
mod cast;
mod compare;
mod compile;
mod evaluated;
mod like;
mod row_call;
#[cfg(test)]
mod tests;
mod text;

use rowmill_base::{Physical, Result, SqlType};
use rowmill_plan::program::ScalarValue;
use rowmill_storage::WIDE_BYTES;
use rowmill_storage::keyed::ValueRef;

pub(crate) use self::arithmetic::NumberStep;
pub(crate) use self::cast::{Cast, canonical_value};
pub(crate) use self::compare::{Comparison, compare_values};
pub(crate) use self::compile::{ExprCompiler, RowsLayout, unsupported};
pub(crate) use self::evaluated::Evaluated;
pub(crate) use self::like::LikeTest;
pub(crate) use self::text::TextCall;
use crate::texts::ComputedTexts;

/// The inputs of an expression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env<'a> {
    /// The columns of all rows, in the places that the [`Layout`] assigned.
    pub(crate) columns: &'a [ValueRef<'a>],
    pub(crate) parameters: &'a [ValueRef<'a>],
    pub(crate) texts: &'a ComputedTexts,
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) enum Expr {
    Column(usize),
    Parameter(usize),
    Literal(ScalarValue),
    Arithmetic(Box<NumberStep>),
    Negate(Box<Expr>, SqlType),
    Compare(Box<Comparison>),
    And(Box<[Expr]>),
    Or(Box<[Expr]>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    IsNotNull(Box<Expr>),
    Case(Box<CaseExpr>),
    Cast(Box<Cast>),
    Coalesce(Box<[Expr]>),
    Text(Box<TextCall>),
    Like(Box<LikeTest>),
    Evaluated(Box<Evaluated>),
}

/// `CASE`
#[derive(Debug)]
pub(crate) struct CaseExpr {
    whens: Box<[(Expr, Expr)]>,
    otherwise: Expr,
}

impl Expr {
    /// Computes the value for a row. We handle columns, parameters and literals here, so they can be inlined in
    /// the caller.
    #[inline(always)]
    pub(crate) fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        match self {
            Expr::Column(place) => Ok(env.columns[*place]),
            Expr::Parameter(number) => Ok(env.parameters[*number]),
            Expr::Literal(value) => Ok(borrowed(value)),
            // Everything else is out of line, so this function stays small enough to inline.
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

    /// The value of a signed integer that is a column, a parameter, a literal, or made of such by operators. Returns
    /// `None` for NULL, if the expression is something else, and if it fails; [`value`](Self::value) tells which.
    #[inline]
    fn signed(&self, env: Env<'_>) -> Option<i64> {
        match self {
            Expr::Column(place) => signed_of(env.columns[*place]),
            Expr::Parameter(number) => signed_of(env.parameters[*number]),
            Expr::Literal(ScalarValue::Int(value)) => Some(*value),
            Expr::Arithmetic(step) => step.signed(env),
            _ => None,
        }
    }

    /// Whether the condition is true for a row, not false or NULL.
    #[inline]
    pub(crate) fn is_true(&self, env: Env<'_>) -> Result<bool> {
        // Most conditions compare integers, and those need no list of cases.
        if let Expr::Compare(comparison) = self
            && let Some(is) = comparison.of_signed(env)
        {
            return Ok(is);
        }
        Ok(truth(self.value(env)?) == Some(true))
    }

    /// Whether the condition is false for a row, not true or NULL.
    pub(crate) fn is_false(&self, env: Env<'_>) -> Result<bool> {
        Ok(truth(self.value(env)?) == Some(false))
    }
}

#[inline]
fn signed_of(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Int(value) => Some(value),
        _ => None,
    }
}

/// The value of a boolean, or `None` for NULL.
#[inline]
fn truth(value: ValueRef<'_>) -> Option<bool> {
    match value {
        ValueRef::Bool(value) => Some(value),
        ValueRef::Null => None,
        _ => unreachable!("the caller must pass a boolean"),
    }
}

/// Computes AND (`decisive` is false) or OR (`decisive` is true). The first condition that equals `decisive` decides.
/// Without one, the result is NULL if a condition is NULL, and the opposite of `decisive` otherwise.
fn decided<'a>(all: &'a [Expr], env: Env<'a>, decisive: bool) -> Result<ValueRef<'a>> {
    let mut has_null = false;
    for condition in all {
        let is = match condition {
            Expr::Compare(comparison) => comparison.of_signed(env),
            _ => None,
        };
        let is = if is.is_some() { is } else { truth(condition.value(env)?) };
        match is {
            // Stop at the first deciding condition: later operands must not be evaluated, because they may fail.
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

impl CaseExpr {
    fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        for (when, then) in &self.whens {
            if when.is_true(env)? {
                return then.value(env);
            }
        }
        self.otherwise.value(env)
    }
}

/// A literal as a borrowed value.
#[inline]
pub(crate) fn borrowed(value: &ScalarValue) -> ValueRef<'_> {
    match value {
        ScalarValue::Null => ValueRef::Null,
        ScalarValue::Bool(value) => ValueRef::Bool(*value),
        ScalarValue::Int(value) => ValueRef::Int(*value),
        ScalarValue::UInt(value) => ValueRef::UInt(*value),
        ScalarValue::Float(value) => ValueRef::Float(*value),
        ScalarValue::Decimal(value) => ValueRef::Decimal(*value),
        ScalarValue::Interval(value) => ValueRef::Interval(*value),
        ScalarValue::Text(value) => ValueRef::Text(value),
        ScalarValue::Bytes(value) => ValueRef::Bytes(value),
    }
}

/// Whether a value belongs to a type. NULL belongs to every type.
pub(crate) fn is_of(value: ValueRef<'_>, kind: &SqlType) -> bool {
    use Physical::{Blob, Boolean, Decimal, Float32, Float64, Int8, Int16, Int32, Int64, Nested};
    use Physical::{Interval, Text, UInt8, UInt16, UInt32, UInt64, Uuid, Wide};
    let form = Physical::of(kind);
    match value {
        ValueRef::Null => true,
        ValueRef::Bool(_) => form == Boolean,
        ValueRef::Int(_) => matches!(form, Int8 | Int16 | Int32 | Int64),
        ValueRef::UInt(_) => matches!(form, UInt8 | UInt16 | UInt32 | UInt64),
        ValueRef::Float(_) => matches!(form, Float32 | Float64),
        ValueRef::Decimal(_) => form == Decimal,
        ValueRef::Interval(_) => form == Interval,
        ValueRef::Text(_) => form == Text || *kind == SqlType::Json,
        ValueRef::Bytes(bytes) => {
            matches!(form, Blob | Nested)
                || form == Uuid && bytes.len() == 16
                || form == Wide && bytes.len() == WIDE_BYTES
        }
    }
}
