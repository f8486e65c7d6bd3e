//! Types of operators and calls: the common type of operands, implicit casts, and typed expressions.
//!
//! | operands | common type |
//! | --- | --- |
//! | NULL and any | the other |
//! | integers | the narrowest integer that holds both; for `BIGINT UNSIGNED` and a signed one: `DECIMAL(20,0)` |
//! | integer or DECIMAL, and DECIMAL | a DECIMAL with the larger scale and as many digits before the point |
//! | REAL, DOUBLE and any number | the wider float |
//! | DATE and TIMESTAMP | TIMESTAMP; for two timestamps the finer unit, with a time zone if one has one |
//! | TEXT and a date, a time, a timestamp, UUID, INTERVAL or BLOB | the other |
//! | TEXT and a number | TEXT; in a comparison a literal is read as the number |
//! | lists, structs | lists and structs of the common types of their parts |

mod casts;
mod common;
mod decimal_digits;
mod operators;
mod zones;

#[cfg(test)]
pub(crate) use casts::can_cast;
pub use casts::{cast, cast_to_sql_type, coerce};
pub use common::{common_kind, comparison_kind};
#[cfg(test)]
pub(crate) use decimal_digits::decimal_result;
pub use operators::{arithmetic, call, compare, concat, is_distinct, negate};

#[cfg(test)]
mod tests;
