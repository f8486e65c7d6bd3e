//! Decimal numbers.

use std::fmt;
use std::str::FromStr;

use rowmill_base::{Error, ErrorKind, NARROW_DIGITS_MAX, Result};

/// A decimal number of up to 38 digits: all digits, and how many of them come after the point.
///
/// ```
/// # use rowmill::{Database, Decimal, Result};
/// # fn main() -> Result<()> {
/// let mut connection = Database::memory()?.connect()?;
/// let price: Decimal = "12.50".parse()?;
/// let double: Decimal = connection.query_row("SELECT ? * 2", [price], |row| row.get(0))?;
/// assert_eq!((double.to_string().as_str(), double.digits()), ("25.00", 2500));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    digits: i128,
    scale: u8,
}

impl Decimal {
    /// The number with these digits, `scale` of them after the point. For example, 1250 with the scale 2 is 12.50.
    pub fn new(digits: i128, scale: u8) -> Result<Decimal> {
        let fits = digits.unsigned_abs() < 10_u128.pow(NARROW_DIGITS_MAX.into()) && scale <= NARROW_DIGITS_MAX;
        fits.then_some(Decimal { digits, scale }).ok_or_else(|| {
            let what = format!("{digits} with {scale} digits after the point is no decimal of 38 digits");
            Error::new(ErrorKind::NumericOutOfRange, what)
        })
    }

    /// All digits, without the point.
    pub fn digits(self) -> i128 {
        self.digits
    }

    /// The number of digits after the point.
    pub fn scale(self) -> u8 {
        self.scale
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, scale) = (if self.digits < 0 { "-" } else { "" }, usize::from(self.scale));
        let digits = format!("{:0>width$}", self.digits.unsigned_abs(), width = scale + 1);
        match digits.split_at(digits.len() - scale) {
            (whole, "") => write!(f, "{sign}{whole}"),
            (whole, fraction) => write!(f, "{sign}{whole}.{fraction}"),
        }
    }
}

impl FromStr for Decimal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Decimal> {
        let wrong = || Error::new(ErrorKind::InvalidText, format!("\"{text}\" is not a decimal number"));
        let (sign, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(wrong());
        }
        let scale = u8::try_from(fraction.len()).map_err(|_| wrong())?;
        let digits: i128 = digits.parse().map_err(|_| wrong())?;
        Decimal::new(sign * digits, scale)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in ["0", "-0.05", "12.50", "1", "99999999999999999999999999999999999999", "0.000"] {
            assert_eq!(text.parse::<Decimal>().unwrap().to_string(), text);
        }
        assert_eq!("+.5".parse::<Decimal>().unwrap().to_string(), "0.5");
        for text in ["", ".", "1e5", "1.2.3", "--1", "100000000000000000000000000000000000000", "٣"] {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
    }
}
