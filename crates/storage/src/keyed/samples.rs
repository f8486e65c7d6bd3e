//! Makes values of every type, for tests of keys and rows.

use std::cmp::Ordering;

use arrow::array::ArrayRef;
use arrow::datatypes::{IntervalMonthDayNano, i256};
use proptest::prelude::*;
use rowmill_base::{NUMBERED_TYPES, NumberedType, SqlType, TimeUnit, UnsignedNumber};

use super::ValueRef;
use crate::wide::ordered_bytes;

/// A [`ValueRef`] that owns its bytes.
#[derive(Clone, Debug)]
pub(super) enum SampleValue {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Decimal(i128),
    Interval(IntervalMonthDayNano),
    Text(String),
    Bytes(Vec<u8>),
}

impl SampleValue {
    pub(super) fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => SampleValue::Null,
            ValueRef::Bool(value) => SampleValue::Bool(value),
            ValueRef::Int(value) => SampleValue::Int(value),
            ValueRef::UInt(value) => SampleValue::UInt(value),
            ValueRef::Float(value) => SampleValue::Float(value),
            ValueRef::Decimal(value) => SampleValue::Decimal(value),
            ValueRef::Interval(value) => SampleValue::Interval(value),
            ValueRef::Text(value) => SampleValue::Text(value.to_owned()),
            ValueRef::Bytes(value) => SampleValue::Bytes(value.to_vec()),
        }
    }

    pub(super) fn as_ref(&self) -> ValueRef<'_> {
        match self {
            SampleValue::Null => ValueRef::Null,
            SampleValue::Bool(value) => ValueRef::Bool(*value),
            SampleValue::Int(value) => ValueRef::Int(*value),
            SampleValue::UInt(value) => ValueRef::UInt(*value),
            SampleValue::Float(value) => ValueRef::Float(*value),
            SampleValue::Decimal(value) => ValueRef::Decimal(*value),
            SampleValue::Interval(value) => ValueRef::Interval(*value),
            SampleValue::Text(value) => ValueRef::Text(value),
            SampleValue::Bytes(value) => ValueRef::Bytes(value),
        }
    }

    /// Compares in SQL order, ascending with NULLS LAST. NaN is the greatest float and equals itself, and both zeros
    /// are equal.
    pub(super) fn compare(&self, other: &SampleValue) -> Ordering {
        match (self, other) {
            (SampleValue::Null, SampleValue::Null) => Ordering::Equal,
            (SampleValue::Null, _) => Ordering::Greater,
            (_, SampleValue::Null) => Ordering::Less,
            (SampleValue::Bool(a), SampleValue::Bool(b)) => a.cmp(b),
            (SampleValue::Int(a), SampleValue::Int(b)) => a.cmp(b),
            (SampleValue::UInt(a), SampleValue::UInt(b)) => a.cmp(b),
            (SampleValue::Float(a), SampleValue::Float(b)) => {
                a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            (SampleValue::Decimal(a), SampleValue::Decimal(b)) => a.cmp(b),
            (SampleValue::Interval(a), SampleValue::Interval(b)) => a.cmp(b),
            (SampleValue::Text(a), SampleValue::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (SampleValue::Bytes(a), SampleValue::Bytes(b)) => a.cmp(b),
            _ => panic!("{self:?} and {other:?} must be of one type"),
        }
    }
}

impl PartialEq for SampleValue {
    fn eq(&self, other: &SampleValue) -> bool {
        self.compare(other) == Ordering::Equal
    }
}

/// All types whose values have an order.
pub(super) fn ordered_kinds() -> Vec<SqlType> {
    let mut kinds = vec![
        SqlType::Boolean,
        SqlType::Int8,
        SqlType::Int16,
        SqlType::Int32,
        SqlType::Int64,
        SqlType::UInt8,
        SqlType::UInt16,
        SqlType::UInt32,
        SqlType::UInt64,
        SqlType::Float32,
        SqlType::Float64,
        SqlType::Decimal { precision: 5, scale: 2 },
        SqlType::Decimal { precision: 18, scale: 0 },
        SqlType::Decimal { precision: 19, scale: 4 },
        SqlType::Decimal { precision: 38, scale: 10 },
        SqlType::Decimal { precision: 39, scale: 0 },
        SqlType::Decimal { precision: 76, scale: 40 },
        SqlType::Date,
        SqlType::Time,
        SqlType::TEXT,
        SqlType::Text { chars_max: Some(40) },
        SqlType::Blob,
        SqlType::Uuid,
    ];
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        kinds.extend([true, false].map(|zoned| SqlType::Timestamp { unit, zoned }));
    }
    kinds.extend(NUMBERED_TYPES.iter().map(|kind| SqlType::Numbered(kind)));
    kinds
}

fn wide(value: i256) -> SampleValue {
    SampleValue::Bytes(ordered_bytes(value).to_vec())
}

fn ints(bits: u32) -> BoxedStrategy<SampleValue> {
    let (min, max) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
    prop_oneof![Just(min), Just(max), -2..3_i64, min..=max].prop_map(SampleValue::Int).boxed()
}

fn uints(bits: u32) -> BoxedStrategy<SampleValue> {
    let max = u64::MAX >> (64 - bits);
    prop_oneof![Just(max), 0..3_u64, 0..=max].prop_map(SampleValue::UInt).boxed()
}

/// Makes values of `kind` other than NULL. Few of them are distinct, so that some are equal, and the limits of the type
/// occur often.
pub(super) fn values(kind: &SqlType) -> BoxedStrategy<SampleValue> {
    let special = || prop_oneof![Just(f64::NAN), Just(-0.0), Just(0.0), Just(f64::INFINITY), Just(f64::NEG_INFINITY)];
    match kind {
        SqlType::Boolean => any::<bool>().prop_map(SampleValue::Bool).boxed(),
        SqlType::Int8 => ints(8),
        SqlType::Int16 => ints(16),
        SqlType::Int32 | SqlType::Date => ints(32),
        SqlType::Int64 | SqlType::Time | SqlType::Timestamp { .. } => ints(64),
        SqlType::UInt8 => uints(8),
        SqlType::UInt16 => uints(16),
        SqlType::UInt32 => uints(32),
        SqlType::UInt64 => uints(64),
        SqlType::Float32 => {
            prop_oneof![special(), any::<f32>().prop_map(f64::from)].prop_map(SampleValue::Float).boxed()
        }
        SqlType::Float64 => prop_oneof![special(), any::<f64>()].prop_map(SampleValue::Float).boxed(),
        SqlType::Decimal { precision: precision @ 39.., .. } => {
            let max = i256::from_i128(10).wrapping_pow(u32::from(*precision)).wrapping_sub(i256::ONE);
            let small = (-2..3_i128).prop_map(i256::from_i128);
            let others = any::<[u8; 32]>().prop_map(move |bytes| i256::from_be_bytes(bytes).wrapping_rem(max));
            prop_oneof![Just(max), Just(max.wrapping_neg()), small, others].prop_map(wide).boxed()
        }
        SqlType::Numbered(kind) if kind.is_wide() => {
            let numbers = prop_oneof![Just([0; 32]), Just([u8::MAX; 32]), any::<[u8; 32]>()];
            numbers.prop_map(|bytes| wide(NumberedType::wide_native(UnsignedNumber::from_be_bytes(bytes)))).boxed()
        }
        SqlType::Decimal { precision, .. } => {
            let max = 10_i128.pow(u32::from(*precision)) - 1;
            prop_oneof![Just(max), Just(-max), -2..3_i128, -max..=max].prop_map(SampleValue::Decimal).boxed()
        }
        SqlType::Numbered(kind) => {
            let max = u128::MAX >> (128 - 8 * kind.bytes);
            let numbers = prop_oneof![Just(max), 0..3_u128, 0..=max];
            numbers.prop_map(|number| SampleValue::Decimal(NumberedType::native(number))).boxed()
        }
        SqlType::Interval => {
            let parts = (any::<i32>(), any::<i32>(), any::<i64>());
            parts
                .prop_map(|(months, days, nanos)| SampleValue::Interval(IntervalMonthDayNano::new(months, days, nanos)))
                .boxed()
        }
        SqlType::Text { .. } | SqlType::Json => {
            prop_oneof!["[\0\u{1}aé]{0,4}", ".{0,20}"].prop_map(SampleValue::Text).boxed()
        }
        SqlType::Blob => {
            let byte = || prop_oneof![Just(0_u8), Just(1), Just(254), Just(255), any::<u8>()];
            proptest::collection::vec(byte(), 0..5).prop_map(SampleValue::Bytes).boxed()
        }
        SqlType::Uuid => (any::<u8>(), any::<u8>())
            .prop_map(|(first, last)| {
                let mut bytes = vec![0; 16];
                (bytes[0], bytes[15]) = (first, last);
                SampleValue::Bytes(bytes)
            })
            .boxed(),
        SqlType::List(_) | SqlType::Struct(_) => {
            let lists = proptest::collection::vec(proptest::option::of(any::<i32>()), 0..4);
            let nested = lists.prop_map(|items| {
                let list =
                    arrow::array::ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>([Some(items)]);
                super::nested::encode_nested(&(std::sync::Arc::new(list) as ArrayRef)).expect("a list is written")
            });
            nested.prop_map(SampleValue::Bytes).boxed()
        }
    }
}

/// Makes values of `kind`, some of them NULL.
pub(super) fn nullable_values(kind: &SqlType) -> BoxedStrategy<SampleValue> {
    prop_oneof![1 => Just(SampleValue::Null), 3 => values(kind)].boxed()
}
