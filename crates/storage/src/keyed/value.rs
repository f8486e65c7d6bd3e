//! One value, borrowed from wherever it lies.

use arrow::datatypes::IntervalMonthDayNano;

/// A value of a column. Types that are kept alike share a variant; which it is follows from the column's type.
#[derive(Clone, Copy, Debug, PartialEq)]
// A tag of a whole word: beside one of a byte `Bool` has its value, values are copied in overlapping pieces, and whoever reads
// one that was just written waits until those are put together.
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
    /// `REAL` (which every value of goes through a double unharmed) and `DOUBLE`.
    Float(f64),
    /// `DECIMAL`: all digits, without the point.
    Decimal(i128),
    /// `INTERVAL`
    Interval(IntervalMonthDayNano),
    /// `TEXT`
    Text(&'a str),
    /// `BLOB`, the 16 bytes of a `UUID`, and the stored bytes of a list or struct ([`encode_nested`]).
    ///
    /// [`encode_nested`]: super::encode_nested
    Bytes(&'a [u8]),
}

impl ValueRef<'_> {
    /// Whether it is NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, ValueRef::Null)
    }
}
