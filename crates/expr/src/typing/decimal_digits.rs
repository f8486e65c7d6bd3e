//! Digits and scale of decimal arithmetic.
//!
//! | operation | digits after the point | digits before it |
//! | --- | --- | --- |
//! | `+ -` | the larger of both | one more than the larger of both |
//! | `*` | the sum of both | the sum of both |
//! | `%` | the larger of both | the smaller of both |
//! | `/` | a DOUBLE | |
//!
//! We cap more than 38 digits to 38, or to 76 if an operand has more than 38 itself. Then digits before the point may
//! be missing, and a result that needs them is out of range.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, decimal_arrow};
use rowmill_plan::program::ArithmeticOp;

use crate::kinds::{DIGITS_MAX, WIDE_DIGITS_MAX};

/// Returns the type of `op` on `DECIMAL(p1,s1)` and `DECIMAL(p2,s2)`. Fails if a product needs more digits after the
/// point than a decimal has.
pub(crate) fn decimal_result(op: ArithmeticOp, (p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> Result<DataType> {
    let (whole1, whole2) = (i16::from(p1) - i16::from(s1), i16::from(p2) - i16::from(s2));
    let (whole, scale) = match op {
        ArithmeticOp::Plus | ArithmeticOp::Minus => (whole1.max(whole2) + 1, s1.max(s2)),
        ArithmeticOp::Times => (whole1 + whole2, s1.saturating_add(s2)),
        ArithmeticOp::Remainder => (whole1.min(whole2), s1.max(s2)),
        ArithmeticOp::Divide => return Ok(DataType::Float64),
    };
    let digits_max = if p1.max(p2) > DIGITS_MAX { WIDE_DIGITS_MAX } else { DIGITS_MAX };
    if scale > digits_max as i8 {
        let message = format!(
            "number out of range: DECIMAL({p1},{s1}) {op} DECIMAL({p2},{s2}) needs {scale} digits after the point"
        );
        return Err(Error::new(ErrorKind::NumericOutOfRange, message).hint(match digits_max {
            DIGITS_MAX => "CAST one side to a DECIMAL with fewer digits after the point, or with more than 38 in all",
            _ => "a DECIMAL has at most 76 digits: CAST one side to fewer, or to DOUBLE",
        }));
    }
    // The scale is kept and digits before the point are given up, so that a result is either exact or an error.
    let digits = (whole + i16::from(scale)).clamp(1, i16::from(digits_max)) as u8;
    Ok(decimal_arrow(digits, scale))
}
