//! Comparisons, and the order of two values of one type.

use std::cmp::Ordering;

use rowmill_base::{Result, SqlType};
use rowmill_plan::CompareOp;
use rowmill_storage::keyed::ValueRef;

use super::{Env, Expr};
use crate::number::{Number, canonical, compare_exact, exact};

/// A comparison operator and its operands. The operands are two values of one type, or two exact numbers that may have
/// different scales.
#[derive(Debug)]
pub(crate) struct Comparison {
    op: CompareOp,
    /// Numbers of digits after the point, if both operands are exact numbers and their types differ.
    scales: Option<(u8, u8)>,
    operands: [Expr; 2],
}

impl Comparison {
    /// Compiles a comparison of operands that were already cast to comparable types. Returns `None` if they are not
    /// comparable.
    pub(super) fn new(op: CompareOp, kinds: [&SqlType; 2], operands: [Expr; 2]) -> Option<Comparison> {
        let scales = match (Number::of(kinds[0]), Number::of(kinds[1])) {
            (Some(left), Some(right)) if left.is_float() && right.is_float() => None,
            (Some(left), Some(right)) => {
                let scales = (left.digits()?.scale, right.digits()?.scale);
                let is_one_kind = matches!((left, right), (Number::Decimal(_), Number::Decimal(_)));
                let is_same = left == right || is_one_kind && scales.0 == scales.1;
                (!is_same).then_some(scales)
            }
            (None, None) if are_alike(kinds[0], kinds[1]) => None,
            _ => return None,
        };
        Some(Comparison { op, scales, operands })
    }

    pub(super) fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        let [left, right] = &self.operands;
        let (left, right) = (left.value(env)?, right.value(env)?);
        if left.is_null() || right.is_null() {
            return Ok(ValueRef::Null);
        }
        let order = match self.scales {
            None => compare_values(left, right),
            Some((left_scale, right_scale)) => compare_exact((exact(left), left_scale), (exact(right), right_scale)),
        };
        Ok(ValueRef::Bool(self.op.holds(order)))
    }

    /// The result if both operands are signed integers of one type. Returns `None` if they are not, if one of them is
    /// NULL, or if it fails.
    #[inline]
    pub(super) fn of_signed(&self, env: Env<'_>) -> Option<bool> {
        if self.scales.is_some() {
            return None;
        }
        let [left, right] = &self.operands;
        Some(self.op.holds(left.signed(env)?.cmp(&right.signed(env)?)))
    }
}

/// Whether values of both types belong to one ordered type.
pub(super) fn are_alike(left: &SqlType, right: &SqlType) -> bool {
    match (left, right) {
        (SqlType::Text { .. }, SqlType::Text { .. }) => true,
        (left, right) => left == right && left.is_ordered(),
    }
}

/// Compares two values of one ordered type. Neither may be NULL. NaN is the greatest float.
#[inline]
pub(crate) fn compare_values(left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
    match (left, right) {
        (ValueRef::Int(left), ValueRef::Int(right)) => left.cmp(&right),
        (ValueRef::UInt(left), ValueRef::UInt(right)) => left.cmp(&right),
        (ValueRef::Decimal(left), ValueRef::Decimal(right)) => left.cmp(&right),
        (ValueRef::Text(left), ValueRef::Text(right)) => left.cmp(right),
        (ValueRef::Bytes(left), ValueRef::Bytes(right)) => left.cmp(right),
        (ValueRef::Bool(left), ValueRef::Bool(right)) => left.cmp(&right),
        (ValueRef::Float(left), ValueRef::Float(right)) => canonical(left).total_cmp(&canonical(right)),
        _ => unreachable!("the caller must pass two values of one ordered type"),
    }
}
