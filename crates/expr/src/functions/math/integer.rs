//! Functions of integers.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use crate::functions::rowwise::{bigints, numbers};
use crate::kinds::out_of_range;

pub(super) fn gcd(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (lefts, rights) = (bigints(&arguments[0]), bigints(&arguments[1]));
    numbers::<Int64Type>(arguments, kind, rows, |row| {
        let (left, right) = (lefts.at(row), rights.at(row));
        let divisor = common_divisor(left.unsigned_abs(), right.unsigned_abs());
        i64::try_from(divisor).map_err(|_| out_of_range(format!("gcd({left}, {right})"), kind))
    })
}

pub(super) fn lcm(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (lefts, rights) = (bigints(&arguments[0]), bigints(&arguments[1]));
    numbers::<Int64Type>(arguments, kind, rows, |row| {
        let (left, right) = (lefts.at(row), rights.at(row));
        if left == 0 || right == 0 {
            return Ok(0);
        }
        let divisor = common_divisor(left.unsigned_abs(), right.unsigned_abs());
        // Dividing first keeps the product as small as possible.
        let multiple = (left.unsigned_abs() / divisor).checked_mul(right.unsigned_abs());
        let multiple = multiple.and_then(|multiple| i64::try_from(multiple).ok());
        multiple.ok_or_else(|| out_of_range(format!("lcm({left}, {right})"), kind))
    })
}

/// Returns the greatest common divisor, by Euclid's algorithm.
fn common_divisor(mut left: u64, mut right: u64) -> u64 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

pub(super) fn factorial(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = bigints(&arguments[0]);
    numbers::<Int64Type>(arguments, kind, rows, |row| {
        let number = values.at(row);
        if number < 0 {
            let message = format!("factorial of {number} is not defined: the number is negative");
            return Err(Error::new(ErrorKind::NumericOutOfRange, message));
        }
        // The product stops at the first overflow, so a large number costs no more than a small one.
        let product = (2..=number).try_fold(1_i64, i64::checked_mul);
        product.ok_or_else(|| out_of_range(format!("factorial({number})"), kind))
    })
}
