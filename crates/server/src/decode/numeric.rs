//! Decimals: from digits, as text or of base 10,000.

use super::{BoundValue, invalid};
use crate::wire_error::WireError;

/// The most digits of a decimal that the engine takes as a number. It takes longer ones as texts.
const DIGITS_MAX: usize = 38;

/// Reads a decimal: a sign, digits with a point, an exponent. `NaN` and infinities have no decimal.
pub(super) fn decimal(text: &str) -> Result<BoundValue, WireError> {
    let wrong = || invalid("numeric", text);
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| wrong())?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return Err(wrong());
    }
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let scale = i64::try_from(fraction.len()).map_err(|_| wrong())? - i64::from(exponent);
    match scale {
        0..=38 if digits.len() <= DIGITS_MAX => {
            let value: i128 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| wrong())? };
            Ok(BoundValue::Decimal(if text.starts_with('-') { -value } else { value }, scale as u8))
        }
        // The engine reads the text, and reports a value that is too large for its place.
        _ => Ok(BoundValue::Text(text.to_owned())),
    }
}
