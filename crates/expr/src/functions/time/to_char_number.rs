//! Numbers by a pattern of PostgreSQL, for `to_char`.
//!
//! ```text
//! 9,999.00 of 1234.5     " 1,234.50"    a blank stands for the sign of a number that is not negative
//! FM9,999.00 of -12      "-12.00"       FM leaves out blanks, and zeros at the end in the place of a 9
//! 0000S of 12            "0012+"        S is a sign at either end, MI a minus, PL a plus, SG a sign at its place
//! 99PR of -7             "  <7>"        PR puts brackets around negative numbers
//! ```
//!
//! A number with more digits than the pattern has places for is written with `#`, as PostgreSQL does.

use rowmill_base::{Error, ErrorKind, NARROW_DIGITS_MAX, Result};

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NumberPiece {
    /// `9` or `0`.
    Digit { is_zero: bool },
    /// A comma or `G`.
    Group,
    /// A point or `D`.
    Point,
    /// `S`, `MI`, `PL` or `SG`.
    Sign(SignStyle),
    /// Characters that are written as they are.
    Text(String),
}

/// How a sign is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignStyle {
    /// `S`: next to the digits.
    Anchored,
    /// `MI`: a minus or a blank.
    Minus,
    /// `PL`: a plus or a blank.
    Plus,
    /// `SG`: a minus or a plus.
    Both,
}

/// A pattern that was read.
#[derive(Clone, Debug)]
pub(super) struct NumberPattern {
    pieces: Vec<NumberPiece>,
    /// `FM`
    is_filled: bool,
    /// `PR`
    has_brackets: bool,
    /// Digits before and after the point.
    whole: usize,
    fraction: usize,
}

/// Returns the number of digits of a pattern after its point, as far as it can be read.
pub(super) fn fraction_digits(pattern: &str) -> i8 {
    NumberPattern::read(pattern).map_or(0, |pattern| pattern.fraction as i8)
}

impl NumberPattern {
    pub(super) fn read(pattern: &str) -> Result<NumberPattern> {
        let refused = |what: &str| {
            Error::new(ErrorKind::Unsupported, format!("to_char: {what} in the pattern '{pattern}' is not supported"))
                .hint("patterns of numbers have 9, 0, D, G, a point, a comma, S, MI, PL, SG, PR and FM")
        };
        let mut made =
            NumberPattern { pieces: Vec::new(), is_filled: true, has_brackets: false, whole: 0, fraction: 0 };
        let mut has_point = false;
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            let word = rest.get(..2).unwrap_or_default().to_ascii_uppercase();
            let (piece, bytes) = match (first.to_ascii_uppercase(), word.as_str()) {
                (_, "FM") => {
                    made.is_filled = false;
                    (None, 2)
                }
                (_, "MI") => (Some(NumberPiece::Sign(SignStyle::Minus)), 2),
                (_, "PL") => (Some(NumberPiece::Sign(SignStyle::Plus)), 2),
                (_, "SG") => (Some(NumberPiece::Sign(SignStyle::Both)), 2),
                (_, "PR") => {
                    made.has_brackets = true;
                    (None, 2)
                }
                ('S', _) => (Some(NumberPiece::Sign(SignStyle::Anchored)), 1),
                (digit @ ('9' | '0'), _) => {
                    let count = if has_point { &mut made.fraction } else { &mut made.whole };
                    *count += 1;
                    (Some(NumberPiece::Digit { is_zero: digit == '0' }), 1)
                }
                (',' | 'G', _) => (Some(NumberPiece::Group), 1),
                ('.' | 'D', _) if has_point => return Err(refused("a second point")),
                ('.' | 'D', _) => {
                    has_point = true;
                    (Some(NumberPiece::Point), 1)
                }
                ('"', _) => {
                    let quoted = rest[1..].split('"').next().unwrap_or_default();
                    let bytes = (quoted.len() + 2).min(rest.len());
                    (Some(NumberPiece::Text(quoted.to_owned())), bytes)
                }
                (letter, _) if letter.is_ascii_alphabetic() => return Err(refused(&format!("'{first}'"))),
                _ => (Some(NumberPiece::Text(first.to_string())), first.len_utf8()),
            };
            made.pieces.extend(piece);
            rest = &rest[bytes..];
        }
        let signs = made.pieces.iter().filter(|piece| matches!(piece, NumberPiece::Sign(_))).count();
        if signs + usize::from(made.has_brackets) > 1 {
            return Err(refused("a second sign"));
        }
        if made.whole + made.fraction > usize::from(NARROW_DIGITS_MAX) {
            return Err(refused(&format!("more than {NARROW_DIGITS_MAX} digits")));
        }
        Ok(made)
    }

    /// Writes a decimal number, whose digits after the point are those of the pattern.
    pub(super) fn write(&self, number: i128) -> String {
        let digits = format!("{:0width$}", number.unsigned_abs(), width = self.fraction + 1);
        let (whole, fraction) = digits.split_at(digits.len() - self.fraction);
        let mut last = self.last_fraction_digit(fraction);
        // Before a point, a zero is written only in the place of a 0, or if nothing else would be written.
        let is_alone = number == 0 && last == 0 && self.whole > 0;
        let whole = if self.fraction > 0 && !is_alone { whole.trim_start_matches('0') } else { whole };
        let is_too_long = whole.len() > self.whole;
        if is_too_long {
            last = self.fraction;
        }
        let zeros = self.pieces.iter().scan((), |(), piece| match piece {
            NumberPiece::Digit { is_zero } => Some(Some(*is_zero)),
            NumberPiece::Point => None,
            _ => Some(None),
        });
        let first_zero = zeros.flatten().position(|is_zero| is_zero).unwrap_or(self.whole);
        let blanks = if is_too_long { 0 } else { self.whole - whole.len() };
        let first = blanks.min(first_zero);
        let mut writer = NumberWriter {
            pattern: self,
            out: String::new(),
            is_negative: number < 0,
            is_sign_written: false,
            place: 0,
            first,
        };
        let mut after_point = false;
        for piece in &self.pieces {
            match piece {
                NumberPiece::Digit { .. } if after_point => {
                    let at = writer.place - self.whole;
                    if at < last {
                        writer.out.push_str(if is_too_long { "#" } else { &fraction[at..=at] });
                    }
                    writer.place += 1;
                }
                NumberPiece::Digit { .. } => {
                    let place = writer.place;
                    if place >= first {
                        writer.sign_before_digits();
                        match place.checked_sub(blanks) {
                            _ if is_too_long => writer.out.push('#'),
                            Some(at) => writer.out.push_str(&whole[at..=at]),
                            None => writer.out.push('0'),
                        }
                    } else if self.is_filled {
                        writer.out.push(' ');
                    }
                    writer.place += 1;
                }
                NumberPiece::Group => match writer.place > first {
                    true => writer.out.push(','),
                    false if self.is_filled => writer.out.push(' '),
                    false => {}
                },
                NumberPiece::Point => {
                    writer.sign_before_digits();
                    writer.out.push_str(if self.fraction > 0 { "." } else { "" });
                    after_point = true;
                }
                NumberPiece::Sign(style) => writer.sign_piece(*style),
                NumberPiece::Text(text) => writer.out.push_str(text),
            }
        }
        writer.end();
        writer.out
    }

    /// The number of digits after the point that are written. FM leaves out zeros at the end in the place of a 9.
    fn last_fraction_digit(&self, fraction: &str) -> usize {
        if self.is_filled {
            return self.fraction;
        }
        let mut last = fraction.trim_end_matches('0').len();
        let after = self.pieces.iter().skip_while(|piece| **piece != NumberPiece::Point);
        let digits = after.filter_map(|piece| match piece {
            NumberPiece::Digit { is_zero } => Some(*is_zero),
            _ => None,
        });
        for (place, is_zero) in digits.enumerate() {
            if is_zero {
                last = last.max(place + 1);
            }
        }
        last
    }

    /// The place of an `S`, if the pattern has one: whether it is before the digits.
    fn anchor(&self) -> Option<bool> {
        let is_anchor = |piece: &NumberPiece| *piece == NumberPiece::Sign(SignStyle::Anchored);
        let at = self.pieces.iter().position(is_anchor)?;
        let digit =
            self.pieces.iter().position(|piece| matches!(piece, NumberPiece::Digit { .. } | NumberPiece::Point));
        Some(digit.is_none_or(|digit| at < digit))
    }

    /// Whether a part of the pattern takes the place of the usual sign. PL is written beside it.
    fn has_own_sign(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, NumberPiece::Sign(style) if *style != SignStyle::Plus))
    }
}

/// The text of one number.
struct NumberWriter<'p> {
    pattern: &'p NumberPattern,
    out: String,
    is_negative: bool,
    is_sign_written: bool,
    /// The number of digits of the pattern so far.
    place: usize,
    /// The first digit that is written.
    first: usize,
}

impl NumberWriter<'_> {
    /// Writes the sign before the first digit.
    fn sign_before_digits(&mut self) {
        if self.is_sign_written {
            return;
        }
        self.is_sign_written = true;
        let pattern = self.pattern;
        let blank = if pattern.is_filled { " " } else { "" };
        let sign = match (pattern.has_brackets, pattern.anchor(), self.is_negative) {
            (true, _, true) => "<",
            (_, Some(true), true) => "-",
            (_, Some(true), false) => "+",
            (false, None, true) if !pattern.has_own_sign() => "-",
            (_, None, false) if !pattern.has_own_sign() => blank,
            _ => "",
        };
        self.out.push_str(sign);
    }

    fn sign_piece(&mut self, style: SignStyle) {
        let blank = if self.pattern.is_filled { " " } else { "" };
        let sign = match (style, self.is_negative) {
            // Before the digits it is written with the first digit.
            (SignStyle::Anchored, _) if self.pattern.anchor() == Some(true) => "",
            (SignStyle::Anchored | SignStyle::Both, true) | (SignStyle::Minus, true) => "-",
            (SignStyle::Anchored | SignStyle::Both, false) | (SignStyle::Plus, false) => "+",
            (SignStyle::Minus, false) | (SignStyle::Plus, true) => blank,
        };
        self.out.push_str(sign);
    }

    fn end(&mut self) {
        if self.place >= self.first {
            self.sign_before_digits();
        }
        if self.pattern.has_brackets {
            match self.is_negative {
                true => self.out.push('>'),
                false if self.pattern.is_filled => self.out.push(' '),
                false => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number that is nearest to a text, with the digits of a pattern after its point.
    fn nearest(text: &str, pattern: &str) -> i128 {
        let scaled = text.parse::<f64>().expect("a number") * 10_f64.powi(i32::from(fraction_digits(pattern)));
        scaled.round() as i128
    }

    #[test]
    fn numbers_are_written_as_by_postgresql() {
        let cases = [
            ("999.99", "12.5", "  12.50"),
            ("FM999.99", "0", "0."),
            ("9,999.00", "1234.567", " 1,234.57"),
            ("FM9,999,999.00", "-1234567.891", "-1,234,567.89"),
            ("0000S", "-1", "0001-"),
            ("0000S", "12.5", "0013+"),
            ("S9999", "12.5", "  +13"),
            ("SG999", "-1", "-  1"),
            ("MI999", "-12.34", "- 12"),
            ("999MI", "485", "485 "),
            ("PL999", "1", "+   1"),
            ("PL999", "-1", "   -1"),
            ("99PR", "-1", " <1>"),
            ("FM99PR", "1", "1"),
            ("9.9", "485", " #.#"),
            ("9.9", "-0.1", " -.1"),
            ("0.9", "0.1", " 0.1"),
            ("$999.00", "12.5", "$  12.50"),
            ("99,99,99", "1234.567", "    12,35"),
            ("000,000", "485", " 000,485"),
            ("999\"x\"9", "485", "  48x5"),
            ("FM9.999", "485", "#.###"),
            ("9 9 9", "485", " 4 8 5"),
            ("00.00MI", "-12.34", "12.34-"),
        ];
        for (pattern, number, expected) in cases {
            let read = NumberPattern::read(pattern).expect("a pattern");
            assert_eq!(read.write(nearest(number, pattern)), expected, "{number} by {pattern}");
        }
    }

    #[test]
    fn parts_that_are_not_supported_are_refused() {
        for pattern in ["9.9.9", "S9MI", "99TH", "RN", "9EEEE", "S9PR", &"9".repeat(39)] {
            assert!(NumberPattern::read(pattern).is_err(), "{pattern}");
        }
    }
}
