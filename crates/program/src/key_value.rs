//! Values that columns of a key are compared with.
//!
//! A key holds values of its column's type alone. A number of another type is looked for as the value that equals it, if
//! there is one; where it is the end of a range and lies between two values of the column, the range ends at the next value
//! that is in it:
//!
//! ```text
//! integer column    = 1.5   nothing      > 1.5, >= 1.5   >= 2      < 1.5, <= 1.5   <= 1
//! SMALLINT column   = 1e6   nothing      > 1e6           nothing   < 1e6           all values
//! ```
//!
//! NULL equals nothing, and nothing is on either side of it. Pairs of types for which the general engine rounds before it
//! compares (a BIGINT and a DOUBLE, say) are left to that.

use std::ops::Bound;

use rowmill_base::{Result, SqlType};
use rowmill_plan::program::Scalar;
use rowmill_storage::keyed::ValueRef;

use crate::expr::{Compiler, Env, Expr, canonical_value, unsupported};
use crate::number::{Integer, Number, exact, float, product, ten_to};

/// Integers of so many bits are doubles, all of them.
const BITS_OF_DOUBLES: u8 = 32;

/// A value of a column of a key.
#[derive(Debug)]
pub(crate) struct KeyValue {
    expr: Expr,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// A value of the column's type.
    Same,
    /// An exact number for a column of exact numbers.
    Exact(Number, Number),
    /// A double for a column of integers.
    Double(Integer),
    /// A number for a column of doubles, which holds the nearest double of each.
    ToDouble(Number),
}

/// Which end of a range a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Lower,
    Upper,
}

/// Where a number is among those of a column.
enum Place {
    /// Less than all.
    Below,
    At(i128),
    /// Between this one and the next.
    Behind(i128),
    /// Greater than all.
    Above,
}

impl KeyValue {
    /// `scalar`, compared with a column of the type `column`. `Unsupported` of types that are not compared in a key.
    pub(crate) fn new(scalar: &Scalar, column: &SqlType, compiler: &mut Compiler<'_>) -> Result<KeyValue> {
        let is_text = |kind: &SqlType| matches!(kind, SqlType::Text { .. });
        let is_of_time = matches!(column, SqlType::Date | SqlType::Time | SqlType::Timestamp { zoned: false, .. });
        if is_text(&scalar.kind) && is_of_time {
            return Ok(KeyValue { expr: compiler.cast(scalar, column)?, how: How::Same });
        }
        let how = match (Number::of(&scalar.kind), Number::of(column)) {
            _ if scalar.kind == *column || is_text(&scalar.kind) && is_text(column) => How::Same,
            (Some(Number::Integer(from)), Some(Number::Integer(to))) if to.has_all_of(from) => How::Same,
            (Some(from), Some(to)) if !from.is_float() && !to.is_float() => How::Exact(from, to),
            (Some(Number::Double), Some(Number::Integer(to))) if to.bits <= BITS_OF_DOUBLES => How::Double(to),
            (Some(from), Some(Number::Double)) => How::ToDouble(from),
            _ => return Err(unsupported(format_args!("a key of {column} beside {}", scalar.kind))),
        };
        Ok(KeyValue { expr: compiler.expr(scalar)?, how })
    }

    /// The value of the column that equals it, if there is one.
    #[inline]
    pub(crate) fn equal<'a>(&'a self, env: Env<'a>) -> Result<Option<ValueRef<'a>>> {
        Ok(self.equal_to(self.expr.value(env)?))
    }

    /// What is looked for, as it is.
    pub(crate) fn value<'a>(&'a self, env: Env<'a>) -> Result<ValueRef<'a>> {
        self.expr.value(env)
    }

    /// The value of the column that equals `value`, which is its own, if there is one.
    #[inline]
    pub(crate) fn equal_to<'a>(&self, value: ValueRef<'a>) -> Option<ValueRef<'a>> {
        if value.is_null() {
            return None;
        }
        match self.how {
            How::Same => Some(canonical_value(value)),
            how => match how.place(value) {
                Placed::Double(value) => Some(value),
                Placed::Exact(Place::At(number), column) => column.exact_value(number),
                Placed::Exact(..) => None,
            },
        }
    }

    /// The end of a range that `value`, which is its own, is; `None` if nothing is in the range.
    pub(crate) fn bound_at<'a>(&self, value: ValueRef<'a>, inclusive: bool, side: Side) -> Option<Bound<ValueRef<'a>>> {
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
        // A bound of its own, so that NULLs, which are in no range, stay out.
        let end = match (place, side) {
            (Place::At(number), _) => return column.exact_value(number).and_then(at),
            (Place::Behind(number), Side::Lower) => number + 1,
            (Place::Behind(number), Side::Upper) => number,
            (Place::Below, Side::Lower) => least,
            (Place::Above, Side::Upper) => greatest,
            (Place::Below, Side::Upper) | (Place::Above, Side::Lower) => return None,
        };
        column.exact_value(end).map(Bound::Included)
    }
}

/// A value, or where it is among those of a column of exact numbers.
enum Placed {
    Double(ValueRef<'static>),
    Exact(Place, Number),
}

impl How {
    fn place(self, value: ValueRef<'_>) -> Placed {
        match self {
            How::Same => unreachable!("a value of the column's type is where it is"),
            How::ToDouble(from) => {
                let double = from.convert(value, Number::Double).unwrap_or(ValueRef::Null);
                Placed::Double(canonical_value(double))
            }
            How::Exact(from, to) => Placed::Exact(placed(exact(value), from.scale(), to), to),
            How::Double(to) => {
                let (value, to) = (float(value), Number::Integer(to));
                let (least, greatest) = to.bounds();
                // NaN is above all.
                let place = if value < least as f64 {
                    Place::Below
                } else if value <= greatest as f64 {
                    let floor = value.floor();
                    if floor == value { Place::At(floor as i128) } else { Place::Behind(floor as i128) }
                } else {
                    Place::Above
                };
                Placed::Exact(place, to)
            }
        }
    }
}

/// Where an exact number is among those of a column.
#[inline]
fn placed(number: i128, scale: u8, column: Number) -> Place {
    let (least, greatest) = column.bounds();
    let (floor, is_whole) = if scale == column.scale() {
        (number, true)
    } else if scale < column.scale() {
        let Some(number) = product(number, ten_to(column.scale() - scale)) else {
            return if number < 0 { Place::Below } else { Place::Above };
        };
        (number, true)
    } else {
        let divisor = ten_to(scale - column.scale());
        (number.div_euclid(divisor), number.rem_euclid(divisor) == 0)
    };
    if floor < least {
        // Behind the number below the least one is between all numbers and nothing.
        Place::Below
    } else if floor > greatest {
        Place::Above
    } else if is_whole {
        Place::At(floor)
    } else if floor == greatest {
        Place::Above
    } else {
        Place::Behind(floor)
    }
}
