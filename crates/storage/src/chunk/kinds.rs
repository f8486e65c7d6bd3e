//! The stored form of the types: each value of a fixed-size type becomes an unsigned integer, its key. Keys have the
//! order of the values.
//!
//! Signed integers flip their sign bit. Floats use the total order of IEEE 754: negative ones flip all bits, the others
//! only the sign bit. Every NaN becomes the one positive quiet NaN, so NaN is a single value above infinity. -0.0
//! becomes 0.0, which it equals. So code that compares, groups or sorts keys or bits needs no special case (`floats.rs`
//! does this for rows that are not encoded yet). A UUID is the big-endian number of its bytes. Intervals have no order,
//! because a month is not a fixed number of days, so the order of their keys means nothing. Numbers of 256 bits have no
//! keys: they are stored as byte strings (`wide.rs`).

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, IntervalMonthDayNano};
use std::sync::Arc;

pub(crate) use rowmill_base::Physical;
use rowmill_base::{Error, Result};

use crate::sequence::{Word, pack_bits};

/// A type with a fixed size.
pub(crate) trait Kind {
    /// The stored integer.
    type Key: Word;
    /// The type of a value in an Arrow array.
    type Native: ArrowNativeType;
    /// Whether the order of the keys is the order of the values.
    const ORDERED: bool = true;

    fn key(native: Self::Native) -> Self::Key;
    fn native(key: Self::Key) -> Self::Native;

    /// The keys of all rows. The key of a NULL row is arbitrary.
    fn keys(array: &dyn Array) -> Vec<Self::Key> {
        array.to_data().buffer::<Self::Native>(0)[..array.len()].iter().map(|native| Self::key(*native)).collect()
    }

    /// Makes an array of the Arrow type `kind` from natives.
    fn array(natives: Buffer, nulls: Option<NullBuffer>, kind: &DataType) -> Result<ArrayRef> {
        let len = natives.len() / size_of::<Self::Native>();
        let data = ArrayData::builder(kind.clone()).len(len).add_buffer(natives).nulls(nulls).build();
        data.map(make_array).map_err(|error| Error::internal(format!("{kind} from stored values: {error}")))
    }
}

macro_rules! integers {
    ($($name:ident: $native:ty as $key:ty, $to:expr;)*) => {$(
        pub(crate) struct $name;

        impl Kind for $name {
            type Key = $key;
            type Native = $native;

            #[inline]
            fn key(native: $native) -> $key {
                $to(native as $key)
            }
            #[inline]
            fn native(key: $key) -> $native {
                $to(key) as $native
            }
        }
    )*};
}

integers! {
    Int8: i8 as u8, Word::flip_sign;
    Int16: i16 as u16, Word::flip_sign;
    Int32: i32 as u32, Word::flip_sign;
    Int64: i64 as u64, Word::flip_sign;
    Decimal: i128 as u128, Word::flip_sign;
    UInt8: u8 as u8, std::convert::identity;
    UInt16: u16 as u16, std::convert::identity;
    UInt32: u32 as u32, std::convert::identity;
    UInt64: u64 as u64, std::convert::identity;
}

/// A float type, whose values may be short decimal numbers.
pub(crate) trait FloatKind: Kind {
    /// Converts the value to a double without loss.
    fn double(native: Self::Native) -> f64;
    /// Rounds `double` to the nearest value.
    fn nearest(double: f64) -> Self::Native;
}

macro_rules! floats {
    ($($name:ident: $native:ty as $key:ty;)*) => {$(
        pub(crate) struct $name;

        impl Kind for $name {
            type Key = $key;
            type Native = $native;

            #[inline]
            fn key(native: $native) -> $key {
                // Adding zero turns -0.0 into 0.0 and changes nothing else.
                let bits = if native.is_nan() { <$native>::NAN.to_bits() } else { (native + 0.0).to_bits() };
                if bits >> (<$key>::BITS - 1) == 0 { bits.flip_sign() } else { !bits }
            }
            #[inline]
            fn native(key: $key) -> $native {
                <$native>::from_bits(if key >> (<$key>::BITS - 1) == 1 { key.flip_sign() } else { !key })
            }
        }

        impl FloatKind for $name {
            #[inline]
            fn double(native: $native) -> f64 {
                f64::from(native)
            }
            #[inline]
            fn nearest(double: f64) -> $native {
                double as $native
            }
        }
    )*};
}

floats! {
    Float32: f32 as u32;
    Float64: f64 as u64;
}

pub(crate) struct Boolean;

impl Kind for Boolean {
    type Key = u8;
    type Native = u8;

    #[inline]
    fn key(native: u8) -> u8 {
        native
    }
    #[inline]
    fn native(key: u8) -> u8 {
        key
    }
    fn keys(array: &dyn Array) -> Vec<u8> {
        array.as_boolean().values().iter().map(u8::from).collect()
    }
    fn array(natives: Buffer, nulls: Option<NullBuffer>, _: &DataType) -> Result<ArrayRef> {
        let bits = BooleanBuffer::new(pack_bits(&natives, |native| native != 0).into(), 0, natives.len());
        Ok(Arc::new(BooleanArray::new(bits, nulls)))
    }
}

pub(crate) struct Uuid;

impl Kind for Uuid {
    type Key = u128;
    type Native = u128;

    #[inline]
    fn key(native: u128) -> u128 {
        u128::from_be_bytes(native.to_ne_bytes())
    }
    #[inline]
    fn native(key: u128) -> u128 {
        u128::from_ne_bytes(key.to_be_bytes())
    }
    fn keys(array: &dyn Array) -> Vec<u128> {
        // We read bytes, because the buffer need not be aligned as 128-bit numbers must be.
        let bytes = array.as_fixed_size_binary().value_data();
        bytes.as_chunks().0.iter().map(|bytes| u128::from_be_bytes(*bytes)).collect()
    }
}

pub(crate) struct Interval;

impl Kind for Interval {
    type Key = u128;
    type Native = IntervalMonthDayNano;
    const ORDERED: bool = false;

    #[inline]
    fn key(native: IntervalMonthDayNano) -> u128 {
        u128::from(native.months as u32) << 96
            | u128::from(native.days as u32) << 64
            | u128::from(native.nanoseconds as u64)
    }
    #[inline]
    fn native(key: u128) -> IntervalMonthDayNano {
        IntervalMonthDayNano::new((key >> 96) as i32, (key >> 64) as i32, key as i64)
    }
}

/// Runs `$body` with `$kind` as the [`Kind`] of `$physical`, or runs `$other` if its values have no fixed size.
macro_rules! with_kind {
    ($physical:expr, $kind:ident => $body:expr, else $other:expr) => {{
        use $crate::chunk::kinds::{self, Physical};
        macro_rules! run {
            ($name:ident) => {{
                type $kind = kinds::$name;
                $body
            }};
        }
        match $physical {
            Physical::Boolean => run!(Boolean),
            Physical::Int8 => run!(Int8),
            Physical::Int16 => run!(Int16),
            Physical::Int32 => run!(Int32),
            Physical::Int64 => run!(Int64),
            Physical::UInt8 => run!(UInt8),
            Physical::UInt16 => run!(UInt16),
            Physical::UInt32 => run!(UInt32),
            Physical::UInt64 => run!(UInt64),
            Physical::Float32 => run!(Float32),
            Physical::Float64 => run!(Float64),
            Physical::Decimal => run!(Decimal),
            Physical::Uuid => run!(Uuid),
            Physical::Interval => run!(Interval),
            Physical::Text | Physical::Blob | Physical::Wide | Physical::Nested => $other,
        }
    }};
}

pub(crate) use with_kind;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_like_their_values() {
        let floats = [f64::NEG_INFINITY, -1e300, -1.0, -f64::MIN_POSITIVE, 0.0, 1e-300, 1.0, f64::INFINITY, f64::NAN];
        assert!(floats.is_sorted_by_key(|value| Float64::key(*value)));
        assert!(floats.iter().all(|value| Float64::native(Float64::key(*value)).to_bits() == value.to_bits()));
        assert_eq!(Float64::key(-f64::NAN), Float64::key(f64::from_bits(0x7ff0_0000_0000_0001)));
        assert!([i64::MIN, -1, 0, 1, i64::MAX].is_sorted_by_key(|value| Int64::key(*value)));
        assert!([i128::MIN, -1, 0, 1, i128::MAX].is_sorted_by_key(|value| Decimal::key(*value)));
        let interval = IntervalMonthDayNano::new(-3, 7, -11);
        assert_eq!(Interval::native(Interval::key(interval)), interval);
        let mut uuid = [0; 16];
        uuid[0] = 1;
        assert_eq!(Uuid::key(u128::from_ne_bytes(uuid)), 1 << 120);
    }
}
