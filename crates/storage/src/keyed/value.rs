//! One value, borrowed from its storage.

use arrow::datatypes::IntervalMonthDayNano;

/// A value of a column. Types with the same representation share a variant, so the column's type decides its meaning.
#[derive(Clone, Copy, Debug, PartialEq)]
// The tag must be a whole word. With a tag of one byte, `Bool` would have its value next to it, so that values are
// copied in overlapping pieces. A read of a value that was just written would then wait until the processor has
// combined these pieces.
#[repr(u64)]
pub enum ValueRef<'a> {
    /// NULL
    Null,
    /// `BOOLEAN`
    Bool(bool),
    /// Signed integers, `DATE` in days, `TIME` in microseconds, `TIMESTAMP` in its unit.
    Int(i64),
    /// Unsigned integers.
    UInt(u64),
    /// `REAL` (all its values survive the conversion to a double) and `DOUBLE`.
    Float(f64),
    /// `DECIMAL`: all digits, without the point.
    Decimal(i128),
    /// `INTERVAL`
    Interval(IntervalMonthDayNano),
    /// `TEXT`
    Text(&'a str),
    /// `BLOB`, the 16 bytes of a `UUID`, the bytes of a number of 256 bits that
    /// [`of_ordered_bytes`](crate::of_ordered_bytes) reads, and the stored bytes of a list or struct
    /// ([`encode_nested`]).
    ///
    /// [`encode_nested`]: super::encode_nested
    Bytes(&'a [u8]),
}

impl ValueRef<'_> {
    /// Whether the value is NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, ValueRef::Null)
    }
}
