//! Reads values from their text. CSV fields, JSON tokens and text columns of files are read with this.
//!
//! There is one function per type, which works on the bytes of one value and does not allocate. Together with
//! [`super::writer`] this defines the text form of every type: this module must read everything that the writer writes.
//!
//! Two rules hold throughout. A value that does not fit must be [`Problem::OutOfRange`]; it never wraps or saturates.
//! Digits beyond those that a type keeps are rounded half away from zero in a DECIMAL, as SQL assigns numbers, and cut
//! off in a TIME or TIMESTAMP, so that reading never moves into the next second or day.

use arrow::datatypes::{IntervalMonthDayNano, i256};
use rowmill_base::{NumberedNative, NumberedType};

use crate::functions::time::zone::instant_of;
use crate::session_zone::SessionZone;

use crate::text::calendar::{days_in_month, days_of_date};
use crate::unscaled::Unscaled;

/// Why a text is not a value of the wanted type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The text does not have the form of the type.
    Malformed,
    /// The text has the right form, but the type cannot hold the value.
    OutOfRange,
    /// The text has more characters than `VARCHAR(n)` allows.
    TooLong,
    /// NULL, where the column is NOT NULL.
    Null,
}

type Parsed<T> = Result<T, Problem>;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Reads a truth value: the words that PostgreSQL accepts (`true`, `f`, `yes`, `N`, `on`, `0`), in any case.
pub fn parse_bool(text: &str) -> Parsed<bool> {
    let mut lower = [0_u8; 5];
    let bytes = text.as_bytes();
    // The longest word has five letters.
    let lower = lower.get_mut(..bytes.len()).ok_or(Problem::Malformed)?;
    lower.copy_from_slice(bytes);
    lower.make_ascii_lowercase();
    match &*lower {
        b"true" | b"t" | b"yes" | b"y" | b"on" | b"1" => Ok(true),
        b"false" | b"f" | b"no" | b"n" | b"off" | b"0" => Ok(false),
        _ => Err(Problem::Malformed),
    }
}

/// An integer type that [`parse_int`] can collect digits in.
pub trait Integer: Copy {
    /// Zero.
    const ZERO: Self;
    /// Appends one digit to the number, or returns `None` if the result does not fit. `negative` says that the number
    /// is below zero.
    fn push_digit(self, digit: u8, negative: bool) -> Option<Self>;
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Integer for $kind {
            const ZERO: Self = 0;
            #[inline(always)]
            fn push_digit(self, digit: u8, negative: bool) -> Option<Self> {
                let tens = self.checked_mul(10)?;
                if negative { tens.checked_sub(digit as $kind) } else { tens.checked_add(digit as $kind) }
            }
        }
    )*};
}
integers!(i8, i16, i32, i64, u8, u16, u32, u64, i128);

impl Integer for i256 {
    const ZERO: i256 = i256::ZERO;
    #[inline]
    fn push_digit(self, digit: u8, negative: bool) -> Option<i256> {
        let digit = i256::from_i128(digit.into());
        // A factor of ten is cheap for 128 bits.
        let tens = match self.to_i128().and_then(|value| value.checked_mul(10)) {
            Some(tens) => i256::from_i128(tens),
            None => self.checked_mul(i256::from_i128(10))?,
        };
        if negative { tens.checked_sub(digit) } else { tens.checked_add(digit) }
    }
}

/// Reads an integer: digits with an optional sign.
#[inline]
pub fn parse_int<T: Integer>(text: &str) -> Parsed<T> {
    let (negative, digits) = split_sign(text.as_bytes());
    if digits.is_empty() {
        return Err(Problem::Malformed);
    }
    let mut value = T::ZERO;
    for (i, byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Problem::Malformed);
        }
        match value.push_digit(digit, negative) {
            Some(next) => value = next,
            // The number is too large, but it is out of range only if the rest is digits too.
            None if digits[i..].iter().all(u8::is_ascii_digit) => return Err(Problem::OutOfRange),
            None => return Err(Problem::Malformed),
        }
    }
    Ok(value)
}

/// Reads a DOUBLE: decimal or scientific notation, `NaN`, `inf`, `Infinity`. A finite number that is too large is out
/// of range rather than infinite.
#[inline]
pub fn parse_f64(text: &str) -> Parsed<f64> {
    let value: f64 = text.parse().map_err(|_| Problem::Malformed)?;
    if value.is_infinite() && names_a_finite(text) {
        return Err(Problem::OutOfRange);
    }
    // One NaN and one zero, because comparisons look at bits.
    Ok(if value.is_nan() { f64::NAN } else { value + 0.0 })
}

/// Reads a REAL: decimal or scientific notation, `NaN`, `inf`, `Infinity`. A finite number that is too large is out of
/// range rather than infinite.
#[inline]
pub(crate) fn parse_f32(text: &str) -> Parsed<f32> {
    let value: f32 = text.parse().map_err(|_| Problem::Malformed)?;
    if value.is_infinite() && names_a_finite(text) {
        return Err(Problem::OutOfRange);
    }
    Ok(if value.is_nan() { f32::NAN } else { value + 0.0 })
}

fn names_a_finite(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Reads a number in decimal or scientific notation as an integer of 10^-`scale` with at most `precision` digits.
pub(crate) fn parse_decimal<N: Integer + Unscaled>(text: &str, precision: u8, scale: u8) -> Parsed<N> {
    let (negative, bytes) = split_sign(text.as_bytes());
    let (mantissa, exponent) = match bytes.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        None => (bytes, 0),
        Some(at) => {
            let exponent = str::from_utf8(&bytes[at + 1..]).map_err(|_| Problem::Malformed)?;
            (&bytes[..at], parse_int::<i32>(exponent)?)
        }
    };
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let (whole, fraction) = (&mantissa[..point], mantissa.get(point + 1..).unwrap_or_default());
    // At least one digit must be there, before or after the point.
    if whole.len() + fraction.len() == 0 || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return Err(Problem::Malformed);
    }
    // Digits before this position count; the digit at it decides about rounding.
    let kept = whole.len() as i64 + i64::from(exponent) + i64::from(scale);
    let mut value = N::ZERO;
    let mut round_up = false;
    for (at, byte) in (0_i64..).zip(whole.iter().chain(fraction)) {
        let digit = byte - b'0';
        if at < kept {
            value = value.push_digit(digit, false).ok_or(Problem::OutOfRange)?;
        } else {
            // Only the first digit that is cut off matters: half rounds away from zero.
            round_up = at == kept && digit >= 5;
            break;
        }
    }
    // The scale may need more digits than the text has.
    let missing_zeros = kept - (whole.len() + fraction.len()) as i64;
    if value != N::ZERO {
        for _ in 0..missing_zeros {
            value = value.push_digit(0, false).ok_or(Problem::OutOfRange)?;
        }
    }
    if round_up {
        value = Unscaled::add(value, N::of(1)).ok_or(Problem::OutOfRange)?;
    }
    // Rounding up may have added a digit, so the check comes last.
    if value >= N::power_of_ten(u32::from(precision)) {
        return Err(Problem::OutOfRange);
    }
    Ok(if negative { value.opposite() } else { value })
}

/// Reads a date, for example `2013-07-31`. Month and day may have one digit, the year may be longer, and years before 0
/// have a minus. `epoch` is 1970-01-01.
#[inline]
pub fn parse_date(text: &str) -> Parsed<i32> {
    let (days, rest) = match date_prefix(text.as_bytes()) {
        Err(Problem::Malformed) => return word_of_date(text),
        found => found?,
    };
    if rest.is_empty() { i32::try_from(days).map_err(|_| Problem::OutOfRange) } else { Err(Problem::Malformed) }
}

/// Reads a time (`12:30`, `12:30:45`, `12:30:45.123456`) as microseconds since midnight.
#[inline]
pub(crate) fn parse_time(text: &str) -> Parsed<i64> {
    let (nanos, rest) = time_prefix(text.as_bytes())?;
    if rest.is_empty() { Ok(nanos / 1_000) } else { Err(Problem::Malformed) }
}

/// Reads a timestamp (`2013-07-31`, `2013-07-31 12:30:45.123`, `2013-07-31T12:30:45Z`, `... +02:00`) in units of
/// `units_per_second` since 1970. A text without a zone is read as UTC; one with a zone is converted to UTC.
#[inline]
pub fn parse_timestamp(text: &str, units_per_second: i64) -> Parsed<i64> {
    let (days, rest) = match date_prefix(text.as_bytes()) {
        Err(Problem::Malformed) => return word_of_date(text).map(i64::from),
        found => found?,
    };
    let (nanos, zone_seconds) = match rest {
        [] => (0, 0),
        [b' ' | b'T' | b't', rest @ ..] => {
            let (nanos, rest) = time_prefix(rest)?;
            (nanos, zone(rest)?)
        }
        _ => return Err(Problem::Malformed),
    };
    let seconds = days * SECONDS_PER_DAY + nanos / NANOS_PER_SECOND - zone_seconds;
    let fraction = nanos % NANOS_PER_SECOND / (NANOS_PER_SECOND / units_per_second);
    // We compute in i128, because the very first nanosecond is the sum of a product that overflows i64.
    let value = i128::from(seconds) * i128::from(units_per_second) + i128::from(fraction);
    i64::try_from(value).map_err(|_| Problem::OutOfRange)
}

/// Reads an instant as [`parse_timestamp`] does, except that a text without an offset is read in a zone.
pub(crate) fn parse_instant(text: &str, units_per_second: i64, zone: SessionZone) -> Parsed<i64> {
    let value = parse_timestamp(text, units_per_second)?;
    // The offset is what follows the time: a sign, or the letter of UTC. A date has none.
    let time = text.find([' ', 'T', 't']).map_or("", |at| &text[at + 1..]);
    if time.contains(['+', '-', 'Z', 'z', 'U']) || text.eq_ignore_ascii_case("epoch") {
        return Ok(value);
    }
    instant_of(value, units_per_second, zone.zone).ok_or(Problem::OutOfRange)
}

/// Reads the words of PostgreSQL that stand for dates: `epoch` is 1970-01-01, the zero of dates and timestamps. Our
/// types have no infinite values.
#[cold]
fn word_of_date(text: &str) -> Parsed<i32> {
    if text.eq_ignore_ascii_case("epoch") {
        return Ok(0);
    }
    match text.strip_prefix(['-', '+']).unwrap_or(text).eq_ignore_ascii_case("infinity") {
        true => Err(Problem::OutOfRange),
        false => Err(Problem::Malformed),
    }
}

/// Reads the date at the beginning of the bytes. Returns its days since 1970 and the bytes after it.
#[inline]
fn date_prefix(bytes: &[u8]) -> Parsed<(i64, &[u8])> {
    let (negative, unsigned) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    let (year, rest) = digits(unsigned, 4, 7)?;
    let [b'-', rest @ ..] = rest else {
        return Err(Problem::Malformed);
    };
    let (month, rest) = digits(rest, 1, 2)?;
    let [b'-', rest @ ..] = rest else {
        return Err(Problem::Malformed);
    };
    let (day, rest) = digits(rest, 1, 2)?;
    let year = if negative { -i64::from(year) } else { i64::from(year) };
    if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return Err(Problem::OutOfRange);
    }
    Ok((days_of_date(year, month, day), rest))
}

/// Reads the time at the beginning of the bytes. Returns its nanoseconds since midnight and the bytes after it.
#[inline]
fn time_prefix(bytes: &[u8]) -> Parsed<(i64, &[u8])> {
    let (hour, rest) = digits(bytes, 1, 2)?;
    let [b':', rest @ ..] = rest else {
        return Err(Problem::Malformed);
    };
    let (minute, rest) = digits(rest, 2, 2)?;
    let (second, rest) = match rest {
        [b':', rest @ ..] => digits(rest, 2, 2)?,
        _ => (0, rest),
    };
    if hour > 23 || minute > 59 || second > 59 {
        return Err(Problem::OutOfRange);
    }
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => fraction_nanos(rest)?,
        _ => (0, rest),
    };
    Ok((i64::from(hour * 3_600 + minute * 60 + second) * NANOS_PER_SECOND + fraction, rest))
}

/// Reads `least` to `most` digits at the beginning of the bytes. Returns their number and the bytes after them.
#[inline(always)]
fn digits(bytes: &[u8], least: usize, most: usize) -> Parsed<(u32, &[u8])> {
    let mut value = 0;
    let mut count = 0;
    while let Some(byte) = bytes.get(count) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 || count == most {
            break;
        }
        value = value * 10 + u32::from(digit);
        count += 1;
    }
    if count < least { Err(Problem::Malformed) } else { Ok((value, &bytes[count..])) }
}

/// Reads the digits after the point of a second as nanoseconds. Digits beyond the ninth are dropped.
fn fraction_nanos(bytes: &[u8]) -> Parsed<(i64, &[u8])> {
    let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return Err(Problem::Malformed);
    }
    let (fraction, rest) = bytes.split_at(count);
    let nanos = (0..9).fold(0, |nanos, at| nanos * 10 + fraction.get(at).map_or(0, |byte| i64::from(byte - b'0')));
    Ok((nanos, rest))
}

/// Reads a zone as seconds east of UTC: empty, `Z`, `UTC`, `+02`, `+0200`, `+02:00`, each after an optional blank.
fn zone(bytes: &[u8]) -> Parsed<i64> {
    let bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
    let (sign, rest) = match bytes {
        [] | [b'Z' | b'z'] | b"UTC" => return Ok(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return Err(Problem::Malformed),
    };
    let (hours, rest) = digits(rest, 2, 2)?;
    let (minutes, rest) = match rest {
        [] => (0, rest),
        [b':', rest @ ..] => digits(rest, 2, 2)?,
        _ => digits(rest, 2, 2)?,
    };
    // Offsets of the time before zones were common have seconds.
    let (seconds, rest) = match rest {
        [b':', rest @ ..] => digits(rest, 2, 2)?,
        _ => (0, rest),
    };
    if !rest.is_empty() {
        return Err(Problem::Malformed);
    }
    if hours > 18 || minutes > 59 || seconds > 59 {
        return Err(Problem::OutOfRange);
    }
    Ok(sign * i64::from(hours * 3_600 + minutes * 60 + seconds))
}

/// Reads an interval, for example `1 year 2 mons -3 days 04:05:06.789`, with its parts in any order and number. Also
/// reads `2 hours 30 min`, `1.5 days`, `1 02:00` (a number before a time counts days), `90` (a number alone counts
/// seconds), and ISO 8601 as in `P1Y2M3DT4H5M6.5S`.
pub(crate) fn parse_interval(text: &str) -> Parsed<IntervalMonthDayNano> {
    let mut sum = IntervalSum::default();
    match text.strip_prefix("-P") {
        Some(parts) => {
            sum.add_iso(parts)?;
            sum = IntervalSum { months: -sum.months, days: -sum.days, nanos: -sum.nanos };
        }
        None => match text.strip_prefix(['P', 'p']) {
            Some(parts) => sum.add_iso(parts)?,
            None => sum.add_words(text)?,
        },
    }
    Ok(IntervalMonthDayNano {
        months: i32::try_from(sum.months).map_err(|_| Problem::OutOfRange)?,
        days: i32::try_from(sum.days).map_err(|_| Problem::OutOfRange)?,
        nanoseconds: i64::try_from(sum.nanos).map_err(|_| Problem::OutOfRange)?,
    })
}

#[derive(Default)]
struct IntervalSum {
    months: i64,
    days: i64,
    nanos: i128,
}

/// The length of an interval unit.
enum UnitLength {
    Months(i64),
    Days(i64),
    Nanos(i64),
}

fn unit_length(unit: &str) -> Parsed<UnitLength> {
    Ok(match unit.to_ascii_lowercase().as_str() {
        "millennium" | "millennia" => UnitLength::Months(12_000),
        "century" | "centuries" => UnitLength::Months(1_200),
        "decade" | "decades" => UnitLength::Months(120),
        "quarter" | "quarters" => UnitLength::Months(3),
        "year" | "years" | "yr" | "yrs" | "y" => UnitLength::Months(12),
        "month" | "months" | "mon" | "mons" => UnitLength::Months(1),
        "week" | "weeks" | "w" => UnitLength::Days(7),
        "day" | "days" | "d" => UnitLength::Days(1),
        "hour" | "hours" | "hr" | "hrs" | "h" => UnitLength::Nanos(3_600 * NANOS_PER_SECOND),
        "minute" | "minutes" | "min" | "mins" | "m" => UnitLength::Nanos(60 * NANOS_PER_SECOND),
        "second" | "seconds" | "sec" | "secs" | "s" => UnitLength::Nanos(NANOS_PER_SECOND),
        "millisecond" | "milliseconds" | "ms" => UnitLength::Nanos(1_000_000),
        "microsecond" | "microseconds" | "us" => UnitLength::Nanos(1_000),
        "nanosecond" | "nanoseconds" | "ns" => UnitLength::Nanos(1),
        _ => return Err(Problem::Malformed),
    })
}

impl IntervalSum {
    fn add_words(&mut self, text: &str) -> Parsed<()> {
        let mut words = text.split_ascii_whitespace().peekable();
        if words.peek().is_none() {
            return Err(Problem::Malformed);
        }
        while let Some(word) = words.next() {
            if word.contains(':') {
                self.nanos += clock_nanos(word)?;
                continue;
            }
            // The space between a number and its unit is optional, for example in `3d`.
            let at = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
            let (number, unit) = word.split_at(at);
            let unit = match unit {
                "" if words.peek().is_some_and(|next| next.contains(':')) => "day",
                "" => words.next().unwrap_or("second"),
                unit => unit,
            };
            self.add(number, unit)?;
        }
        Ok(())
    }

    fn add_iso(&mut self, text: &str) -> Parsed<()> {
        let (date, time) = match text.split_once(['T', 't']) {
            Some((date, time)) => (date, Some(time)),
            None => (text, None),
        };
        if date.is_empty() && time.is_none_or(str::is_empty) {
            return Err(Problem::Malformed);
        }
        for (mut part, minute_unit) in [(date, "month"), (time.unwrap_or_default(), "minute")] {
            while !part.is_empty() {
                let at = part.find(|c: char| c.is_ascii_alphabetic()).ok_or(Problem::Malformed)?;
                let (number, rest) = part.split_at(at);
                let unit = if rest.starts_with(['M', 'm']) { minute_unit } else { &rest[..1] };
                self.add(number, unit)?;
                part = &rest[1..];
            }
        }
        Ok(())
    }

    /// Adds `number` of `unit`. A fraction of a month becomes days, 30 to a month; a fraction of a day becomes time; a
    /// fraction of a year becomes whole months.
    fn add(&mut self, number: &str, unit: &str) -> Parsed<()> {
        const ONE: i128 = NANOS_PER_SECOND as i128;
        let times = |billionths: i128, factor: i64| billionths.checked_mul(factor.into()).ok_or(Problem::OutOfRange);
        let whole = |billionths: i128| i64::try_from(billionths / ONE).map_err(|_| Problem::OutOfRange);
        let billionths: i128 = parse_decimal(number, 38, 9)?;
        let mut days = 0;
        match unit_length(unit)? {
            UnitLength::Months(1) => {
                self.months = self.months.checked_add(whole(billionths)?).ok_or(Problem::OutOfRange)?;
                days = times(billionths % ONE, 30)?;
            }
            UnitLength::Months(months) => {
                self.months = self.months.checked_add(whole(times(billionths, months)?)?).ok_or(Problem::OutOfRange)?;
            }
            UnitLength::Days(count) => days = times(billionths, count)?,
            UnitLength::Nanos(nanos) => self.nanos += times(billionths, nanos)? / ONE,
        }
        self.days = self.days.checked_add(whole(days)?).ok_or(Problem::OutOfRange)?;
        self.nanos += times(days % ONE, SECONDS_PER_DAY)?;
        Ok(())
    }
}

/// Reads `[-]hours:minutes[:seconds[.fraction]]`, with any number of hours.
fn clock_nanos(text: &str) -> Parsed<i128> {
    let (negative, bytes) = split_sign(text.as_bytes());
    let (hours, rest) = digits(bytes, 1, 7)?;
    let [b':', rest @ ..] = rest else {
        return Err(Problem::Malformed);
    };
    let (minutes, rest) = digits(rest, 2, 2)?;
    let (seconds, rest) = match rest {
        [b':', rest @ ..] => digits(rest, 2, 2)?,
        _ => (0, rest),
    };
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => fraction_nanos(rest)?,
        _ => (0, rest),
    };
    if !rest.is_empty() {
        return Err(Problem::Malformed);
    }
    if minutes > 59 || seconds > 59 {
        return Err(Problem::OutOfRange);
    }
    let whole = i64::from(hours) * 3_600 + i64::from(minutes * 60 + seconds);
    let nanos = i128::from(whole) * i128::from(NANOS_PER_SECOND) + i128::from(fraction);
    Ok(if negative { -nanos } else { nanos })
}

/// Reads a value of a numbered type as the number that arrays hold.
pub(crate) fn parse_numbered<N: NumberedNative>(text: &str, kind: &NumberedType) -> Parsed<N> {
    kind.read(text).map(N::of_number).ok_or(Problem::Malformed)
}

/// Reads a UUID: 32 hexadecimal digits, with optional hyphens between bytes and optional braces around them.
pub(crate) fn parse_uuid(text: &str) -> Parsed<[u8; 16]> {
    let bytes = text.as_bytes();
    let bytes = match bytes {
        [b'{', inner @ .., b'}'] => inner,
        _ => bytes,
    };
    let mut uuid = [0; 16];
    let mut digits = 0;
    for byte in bytes {
        match hex_digit(*byte) {
            Some(_) if digits == 32 => return Err(Problem::Malformed),
            Some(digit) => {
                uuid[digits / 2] = uuid[digits / 2] << 4 | digit;
                digits += 1;
            }
            None if *byte == b'-' && digits % 2 == 0 && digits != 0 && digits != 32 => {}
            None => return Err(Problem::Malformed),
        }
    }
    if digits == 32 { Ok(uuid) } else { Err(Problem::Malformed) }
}

/// Reads a BLOB: `\x` and hexadecimal digits, or any other text, whose bytes are the value.
pub(crate) fn parse_blob(text: &str, out: &mut Vec<u8>) -> Parsed<()> {
    out.clear();
    let Some(hex) = text.strip_prefix("\\x") else {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    };
    let (pairs, odd) = hex.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Problem::Malformed);
    }
    for pair in pairs {
        match (hex_digit(pair[0]), hex_digit(pair[1])) {
            (Some(high), Some(low)) => out.push(high << 4 | low),
            _ => return Err(Problem::Malformed),
        }
    }
    Ok(())
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Splits off the sign. Returns whether it is a minus, and the bytes after it.
#[inline(always)]
fn split_sign(bytes: &[u8]) -> (bool, &[u8]) {
    match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::Problem::{Malformed, OutOfRange};
    use super::*;

    #[test]
    fn integers_are_read_up_to_the_limits_of_their_type() {
        assert_eq!(parse_int::<i8>("-128"), Ok(-128));
        assert_eq!(parse_int::<i8>("128"), Err(OutOfRange));
        assert_eq!(parse_int::<u8>("-1"), Err(OutOfRange));
        assert_eq!(parse_int::<u8>("-0"), Ok(0));
        assert_eq!(parse_int::<i64>("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(parse_int::<i64>("9223372036854775808"), Err(OutOfRange));
        assert_eq!(parse_int::<u64>("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_int::<i64>("99999999999999999999x"), Err(Malformed));
        for text in ["", "-", "+", "1.0", "1e3", "0x10", " 1", "١"] {
            assert_eq!(parse_int::<i64>(text), Err(Malformed), "{text:?}");
        }
    }

    #[test]
    fn finite_numbers_never_become_infinite_floats() {
        assert_eq!(parse_f64("1e3"), Ok(1000.0));
        assert_eq!(parse_f64("-Infinity"), Ok(f64::NEG_INFINITY));
        assert_eq!(parse_f64("1e999"), Err(OutOfRange));
        assert_eq!(parse_f32("1e39"), Err(OutOfRange));
        assert!(parse_f64("nan").expect("a number").is_nan());
        assert_eq!(parse_f64("1,5"), Err(Malformed));
    }

    #[test]
    fn decimals_round_half_away_and_keep_their_precision() {
        assert_eq!(parse_decimal("1.005", 10, 2), Ok(101));
        assert_eq!(parse_decimal("-1.005", 10, 2), Ok(-101));
        assert_eq!(parse_decimal("1.0049", 10, 2), Ok(100));
        assert_eq!(parse_decimal("12e-1", 10, 2), Ok(120));
        assert_eq!(parse_decimal("1.5e2", 10, 0), Ok(150));
        assert_eq!(parse_decimal("5e-3", 10, 2), Ok(1));
        assert_eq!(parse_decimal("5e-4", 10, 2), Ok(0));
        assert_eq!(parse_decimal(".5", 3, 1), Ok(5));
        assert_eq!(parse_decimal("5.", 3, 1), Ok(50));
        assert_eq!(parse_decimal::<i128>("99.995", 4, 2), Err(OutOfRange));
        assert_eq!(parse_decimal("99.99", 4, 2), Ok(9999));
        assert_eq!(parse_decimal::<i128>("1e2000000000", 38, 0), Err(OutOfRange));
        assert_eq!(parse_decimal("0e2000000000", 38, 0), Ok(0));
        assert_eq!(parse_decimal("1e-2000000000", 38, 0), Ok(0));
        assert_eq!(parse_decimal::<i128>(&"9".repeat(38), 38, 0), Ok(10_i128.pow(38) - 1));
        assert_eq!(parse_decimal::<i128>(&"9".repeat(39), 38, 0), Err(OutOfRange));
        for text in ["", ".", "-", "e5", "1e", "1.2.3", "0x1"] {
            assert_eq!(parse_decimal::<i128>(text, 38, 0), Err(Malformed), "{text:?}");
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_out_of_range_and_other_texts_malformed() {
        assert_eq!(parse_date("2013-07-31"), Ok(15_917));
        assert_eq!(parse_date("2013-7-1"), Ok(15_887));
        assert_eq!(parse_date("2024-02-29"), Ok(19_782));
        assert_eq!(parse_date("2023-02-29"), Err(OutOfRange));
        assert_eq!(parse_date("2013-13-01"), Err(OutOfRange));
        assert_eq!(parse_date("9999999-01-01"), Err(OutOfRange));
        assert_eq!(parse_date("-0044-03-15"), Ok(days_of_date(-44, 3, 15) as i32));
        for text in ["", "2013", "2013-07", "31.07.2013", "2013-07-31 ", "13-07-31"] {
            assert_eq!(parse_date(text), Err(Malformed), "{text:?}");
        }
    }

    #[test]
    fn timestamps_convert_zones_to_utc_and_cut_off_finer_units() {
        let noon = 15_917 * 86_400 + 12 * 3_600;
        assert_eq!(parse_timestamp("2013-07-31 12:00:00", 1), Ok(noon));
        assert_eq!(parse_timestamp("2013-07-31T12:00:00Z", 1), Ok(noon));
        assert_eq!(parse_timestamp("2013-07-31 14:00:00+02", 1), Ok(noon));
        assert_eq!(parse_timestamp("2013-07-31 14:00:00 +0200", 1), Ok(noon));
        assert_eq!(parse_timestamp("2013-07-31 06:30:00-05:30", 1), Ok(noon));
        assert_eq!(parse_timestamp("2013-07-31 12:00:00.9999999", 1_000), Ok(noon * 1_000 + 999));
        assert_eq!(parse_timestamp("1969-12-31 23:59:59.5", 1_000), Ok(-500));
        assert_eq!(parse_timestamp("2013-07-31", 1_000_000), Ok(15_917 * 86_400 * 1_000_000));
        assert_eq!(parse_timestamp("2262-04-11 23:47:16.854775807", NANOS_PER_SECOND), Ok(i64::MAX));
        assert_eq!(parse_timestamp("2262-04-11 23:47:16.854775808", NANOS_PER_SECOND), Err(OutOfRange));
        assert_eq!(parse_timestamp("1677-09-21 00:12:43.145224192", NANOS_PER_SECOND), Ok(i64::MIN));
        assert_eq!(parse_timestamp("2013-07-31 24:00:00", 1), Err(OutOfRange));
        for text in ["2013-07-31 12", "2013-07-31 12:00:00 CET", "2013-07-31x12:00", "2013-07-31 12:00:00."] {
            assert_eq!(parse_timestamp(text, 1), Err(Malformed), "{text:?}");
        }
        assert_eq!(parse_time("23:59:59.999999999"), Ok(86_399_999_999));
        assert_eq!(parse_time("9:05"), Ok(32_700_000_000));
    }

    #[test]
    fn intervals_keep_months_days_and_time_apart() {
        let interval = |months, days, nanoseconds| Ok(IntervalMonthDayNano { months, days, nanoseconds });
        assert_eq!(parse_interval("1 year 2 mons -3 days 04:05:06.7"), interval(14, -3, 14_706_700_000_000));
        assert_eq!(parse_interval("00:00:00"), interval(0, 0, 0));
        assert_eq!(parse_interval("-100:00:00"), interval(0, 0, -360_000 * NANOS_PER_SECOND));
        assert_eq!(parse_interval("1.5 hours 2w"), interval(0, 14, 5_400 * NANOS_PER_SECOND));
        assert_eq!(parse_interval("P1Y2M3DT4H5M6.5S"), interval(14, 3, 14_706_500_000_000));
        assert_eq!(parse_interval("PT1M"), interval(0, 0, 60 * NANOS_PER_SECOND));
        assert_eq!(parse_interval("3000000000 days"), Err(OutOfRange));
        assert_eq!(parse_interval("1"), interval(0, 0, NANOS_PER_SECOND));
        assert_eq!(parse_interval("-1 day 02:00:00"), interval(0, -1, 7_200 * NANOS_PER_SECOND));
        assert_eq!(parse_interval("1 02:00"), interval(0, 1, 7_200 * NANOS_PER_SECOND));
        assert_eq!(parse_interval("1.5 months 1.5 days"), interval(1, 16, 12 * 3_600 * NANOS_PER_SECOND));
        assert_eq!(parse_interval("1.5 years"), interval(18, 0, 0));
        assert_eq!(parse_interval("-P1Y2D"), interval(-12, -2, 0));
        assert_eq!(parse_interval("P1Y2M"), interval(14, 0, 0));
        for text in ["", "P", "PT", "day", "1 fortnight", "12:61x", "1 day day"] {
            assert_eq!(parse_interval(text), Err(Malformed), "{text:?}");
        }
    }

    #[test]
    fn booleans_uuids_and_blobs_are_read() {
        for (text, value) in [("TRUE", true), ("t", true), ("On", true), ("1", true), ("No", false), ("f", false)] {
            assert_eq!(parse_bool(text), Ok(value));
        }
        for text in ["", "2", "truly", "nein", "wahrheit"] {
            assert_eq!(parse_bool(text), Err(Malformed));
        }
        let uuid = "550e8400-e29b-41d4-a716-446655440000";
        let bytes = parse_uuid(uuid).expect("a UUID");
        assert_eq!((bytes[0], bytes[15]), (0x55, 0));
        assert_eq!(parse_uuid(&uuid.replace('-', "").to_uppercase()), Ok(bytes));
        assert_eq!(parse_uuid(&format!("{{{uuid}}}")), Ok(bytes));
        for text in ["", "550e", "550e8400-e29b-41d4-a716-4466554400001", "x50e8400-e29b-41d4-a716-446655440000"] {
            assert_eq!(parse_uuid(text), Err(Malformed));
        }
        let mut blob = Vec::new();
        assert_eq!(parse_blob("\\x00fF", &mut blob), Ok(()));
        assert_eq!(blob, [0, 0xff]);
        assert_eq!(parse_blob("abc", &mut blob), Ok(()));
        assert_eq!(blob, b"abc");
        assert_eq!(parse_blob("\\x0", &mut blob), Err(Malformed));
        assert_eq!(parse_blob("\\x0g", &mut blob), Err(Malformed));
    }
}
