//! The direction in which values are ordered.

use std::cmp::Ordering;

use rowmill_plan::program::OutputOrder;
use rowmill_storage::keyed::ValueRef;

use crate::expr::compare_values;
use crate::number::canonical;

/// The direction in which values are ordered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

impl Way {
    pub(crate) fn of(order: &OutputOrder) -> Way {
        Way { descending: order.descending, nulls_first: order.nulls_first }
    }

    /// Compares two values of one type. Each may be NULL.
    pub(crate) fn compare(self, left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
        match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if self.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if self.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if self.descending => compare_values(right, left),
            (false, false) => compare_values(left, right),
        }
    }

    /// A number that decides most comparisons of values of one type: a value with a lower rank than another one sorts
    /// before it. Values with the same rank may be in either order.
    #[inline]
    pub(crate) fn rank(self, value: ValueRef<'_>) -> u64 {
        let signed = |value: i64| value as u64 ^ 1 << 63;
        let rank = match value {
            ValueRef::Null => return if self.nulls_first { 0 } else { u64::MAX },
            ValueRef::Bool(value) => value.into(),
            ValueRef::Int(value) => signed(value),
            ValueRef::UInt(value) => value,
            ValueRef::Decimal(value) => signed(value.clamp(i64::MIN.into(), i64::MAX.into()) as i64),
            ValueRef::Float(value) => {
                let bits = canonical(value).to_bits() as i64;
                // In negative floats the other bits descend.
                signed(bits ^ (bits >> 63) & i64::MAX)
            }
            ValueRef::Text(text) => beginning(text.as_bytes()),
            ValueRef::Bytes(bytes) => beginning(bytes),
            ValueRef::Interval(_) => unreachable!("an interval has no order"),
        };
        if self.descending { !rank } else { rank }
    }
}

/// The first eight bytes as a number that compares like the bytes.
#[inline]
fn beginning(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = bytes.len().min(8);
    first[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_with_comparisons() {
        let lists: [Vec<ValueRef<'_>>; 5] = [
            [i64::MIN, -7, -1, 0, 3, i64::MAX].map(ValueRef::Int).to_vec(),
            [0, 3, u64::MAX].map(ValueRef::UInt).to_vec(),
            [i128::MIN, i64::MIN.into(), -1, 0, 5, i64::MAX.into(), i128::MAX].map(ValueRef::Decimal).to_vec(),
            [f64::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-300, 7.0, f64::INFINITY, f64::NAN].map(ValueRef::Float).to_vec(),
            ["", "a", "a\0", "abcdefgh", "abcdefghi", "abcdefgi", "é"].map(ValueRef::Text).to_vec(),
        ];
        for mut list in lists {
            list.push(ValueRef::Null);
            for way in [(false, false), (false, true), (true, false), (true, true)] {
                let way = Way { descending: way.0, nulls_first: way.1 };
                for (left, right) in list.iter().flat_map(|left| list.iter().map(move |right| (*left, *right))) {
                    let ranks = way.rank(left).cmp(&way.rank(right));
                    assert!(ranks.is_eq() || ranks == way.compare(left, right), "{way:?} {left:?} {right:?}");
                }
            }
        }
    }
}
