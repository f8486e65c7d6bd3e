//! Values that key columns are compared with.
//!
//! A key holds only values of its column's type. A number of another type is replaced by the value of the column that
//! equals it, if one exists. If the number is the end of a range and is between two values of the column, the range
//! ends at the next value inside it:
//!
//! ```text
//! integer column    = 1.5   nothing      > 1.5, >= 1.5   >= 2      < 1.5, <= 1.5   <= 1
//! SMALLINT column   = 1e6   nothing      > 1e6           nothing   < 1e6           all values
//! ```
//!
//! NULL equals nothing, unless a condition such as `IS NULL` looks it up, and no value is on either side of it. For
//! some pairs of types the general engine rounds before it compares, for example for a BIGINT and a DOUBLE. We leave
//! those to it.

use std::ops::Bound;

use rowmill_base::{Result, SqlType};
use rowmill_plan::program::Scalar;
use rowmill_storage::keyed::ValueRef;

use crate::expr::{Env, Expr, ExprCompiler, canonical_value, unsupported};
use crate::number::{Integer, Number, exact, float, product, ten_to};

/// A double represents every integer with at most this number of bits exactly.
const BITS_OF_DOUBLES: u8 = 32;

/// A value for a key column.
#[derive(Debug)]
pub(crate) struct KeyValue {
    expr: Expr,
    how: How,
    /// Whether NULL is a value that the column may have, as for `IS NULL`.
    finds_null: bool,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// The value has the type of the column.
    Same,
    /// An exact number, for a column of exact numbers.
    Exact(Number, Number),
    /// A double, for a column of integers.
    Double(Integer),
    /// A number, for a column of doubles. It is compared as the nearest double.
    ToDouble(Number),
}

/// The lower or the upper end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeSide {
    Lower,
    Upper,
}

/// The place of a number among the values of a column.
enum NumberPlace {
    /// Less than every value.
    Below,
    At(i128),
    /// Greater than this value and less than the next one.
    Behind(i128),
    /// Greater than every value.
    Above,
}

impl KeyValue {
    /// Compiles `scalar` for a comparison with a key column of the type `column`. Returns `Unsupported` if keys cannot
    /// compare the two types.
    pub(crate) fn new(scalar: &Scalar, column: &SqlType, compiler: &mut ExprCompiler<'_>) -> Result<KeyValue> {
        let is_text = |kind: &SqlType| matches!(kind, SqlType::Text { .. });
        let is_of_time = matches!(column, SqlType::Date | SqlType::Time | SqlType::Timestamp { zoned: false, .. });
        if is_text(&scalar.kind) && is_of_time {
            return Ok(KeyValue { expr: compiler.cast(scalar, column)?, how: How::Same, finds_null: false });
        }
        let how = match (Number::of(&scalar.kind), Number::of(column)) {
            _ if scalar.kind == *column || is_text(&scalar.kind) && is_text(column) => How::Same,
            (Some(Number::Integer(from)), Some(Number::Integer(to))) if to.has_all_of(from) => How::Same,
            (Some(from), Some(to)) if !from.is_float() && !to.is_float() => How::Exact(from, to),
            (Some(Number::Double), Some(Number::Integer(to))) if to.bits <= BITS_OF_DOUBLES => How::Double(to),
            (Some(from), Some(Number::Double)) => How::ToDouble(from),
            _ => return Err(unsupported(format_args!("comparing a key of {column} with {}", scalar.kind))),
        };
        Ok(KeyValue { expr: compiler.expr(scalar)?, how, finds_null: false })
    }

    /// The same value, which also finds NULL if it is NULL and `finds_null` is set.
    pub(crate) fn finding_null(self, finds_null: bool) -> KeyValue {
        KeyValue { finds_null, ..self }
    }

    /// Computes the value and returns the equal value of the column, if one exists.
    #[inline]
    pub(crate) fn equal<'a>(&'a self, env: Env<'a>) -> Result<Option<ValueRef<'a>>> {
        Ok(self.equal_to(self.expr.value(env)?))
    }

    /// Computes the value without converting it to the type of the column.
    pub(crate) fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        self.expr.value(env)
    }

    /// The value of the column that equals `value`, if one exists. `value` must come from [`KeyValue::value`].
    #[inline]
    pub(crate) fn equal_to<'a>(&self, value: ValueRef<'a>) -> Option<ValueRef<'a>> {
        if value.is_null() {
            return self.finds_null.then_some(value);
        }
        match self.how {
            How::Same => Some(canonical_value(value)),
            how => match how.place(value) {
                Placed::Double(value) => Some(value),
                Placed::Exact(NumberPlace::At(number), column) => column.exact_value(number),
                Placed::Exact(..) => None,
            },
        }
    }

    /// The bound of a range that ends at `value`, which must come from [`KeyValue::value`]. Returns `None` if the range
    /// is empty.
    pub(crate) fn bound_at<'a>(
        &self,
        value: ValueRef<'a>,
        inclusive: bool,
        side: RangeSide,
    ) -> Option<Bound<ValueRef<'a>>> {
        if value.is_null() {
            return None;
        }
        let at = |value| Some(if inclusive { Bound::Included(value) } else { Bound::Excluded(value) });
        let (place, column) = match self.how {
            How::Same => return at(canonical_value(value)),
            how => match how.place(value) {
                Placed::Double(value) => return at(value),
                Placed::Exact(place, column) => (place, column),
            },
        };
        let (least, greatest) = column.bounds();
        // The bound must be a value, not unbounded, because NULLs are stored in the key as well and belong to no range.
        // Beyond all values of the column, the range ends at the extreme value or is empty.
        let end = match (place, side) {
            (NumberPlace::At(number), _) => return column.exact_value(number).and_then(at),
            (NumberPlace::Behind(number), RangeSide::Lower) => number + 1,
            (NumberPlace::Behind(number), RangeSide::Upper) => number,
            (NumberPlace::Below, RangeSide::Lower) => least,
            (NumberPlace::Above, RangeSide::Upper) => greatest,
            (NumberPlace::Below, RangeSide::Upper) | (NumberPlace::Above, RangeSide::Lower) => return None,
        };
        column.exact_value(end).map(Bound::Included)
    }
}

/// A value of a column of doubles, or a place among the values of a column of exact numbers.
enum Placed {
    Double(ValueRef<'static>),
    Exact(NumberPlace, Number),
}

impl How {
    fn place(self, value: ValueRef<'_>) -> Placed {
        match self {
            How::Same => unreachable!("a value of the column's type needs no conversion"),
            How::ToDouble(from) => {
                let double = from.convert(value, Number::Double).unwrap_or(ValueRef::Null);
                Placed::Double(canonical_value(double))
            }
            How::Exact(from, to) => Placed::Exact(placed(exact(value), from.scale(), to), to),
            How::Double(to) => {
                let (value, to) = (float(value), Number::Integer(to));
                let (least, greatest) = to.bounds();
                // The comparisons with NaN are false, so NaN is above all values.
                let place = if value < least as f64 {
                    NumberPlace::Below
                } else if value <= greatest as f64 {
                    let floor = value.floor();
                    if floor == value { NumberPlace::At(floor as i128) } else { NumberPlace::Behind(floor as i128) }
                } else {
                    NumberPlace::Above
                };
                Placed::Exact(place, to)
            }
        }
    }
}

/// The place of an exact number among the values of a column.
#[inline]
fn placed(number: i128, scale: u8, column: Number) -> NumberPlace {
    let (least, greatest) = column.bounds();
    let (floor, is_whole) = if scale == column.scale() {
        (number, true)
    } else if scale < column.scale() {
        let Some(number) = product(number, ten_to(column.scale() - scale)) else {
            return if number < 0 { NumberPlace::Below } else { NumberPlace::Above };
        };
        (number, true)
    } else {
        let divisor = ten_to(scale - column.scale());
        // Euclidean division gives the floor for negative numbers, too.
        (number.div_euclid(divisor), number.rem_euclid(divisor) == 0)
    };
    if floor < least {
        // The number may be between `floor` and the least value, but no value of the column is there.
        NumberPlace::Below
    } else if floor > greatest {
        NumberPlace::Above
    } else if is_whole {
        NumberPlace::At(floor)
    } else if floor == greatest {
        NumberPlace::Above
    } else {
        NumberPlace::Behind(floor)
    }
}
