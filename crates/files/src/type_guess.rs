//! Guesses types from texts if no table gives them.
//!
//! A guess is the narrowest type that holds all texts seen so far. It only ever widens, and the order of the texts does
//! not matter:
//!
//! ```text
//!  nothing ─► BOOLEAN ──────────────────────────────────────┐
//!          ─► BIGINT ─► BIGINT UNSIGNED ─► DOUBLE ──────────┤
//!          ─► DATE ─► TIMESTAMP ─► TIMESTAMP WITH TIME ZONE ┼─► TEXT
//!          ─► list of a guess ──────────────────────────────┤
//!          ─► struct of guesses ────────────────────────────┘
//! ```
//!
//! A guess must never lose information. For example, digits with a leading zero or a plus (postal codes, telephone
//! numbers) stay text, and so do integers that are too long for every integer type. A column of NULLs is text.

use rowmill_base::{SqlType, TimeUnit};

use rowmill_expr::text::json::{JsonKind, items, members, unescape};
use rowmill_expr::text::reader::{parse_date, parse_f64, parse_int, parse_timestamp};

/// The narrowest type of the texts seen so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Guess {
    /// Only NULLs so far.
    #[default]
    Nothing,
    Boolean,
    /// Integers that fit into a BIGINT. `negative` is true if any of them is negative.
    Integer {
        negative: bool,
    },
    /// Integers from 0 on, at least one of them too large for a BIGINT.
    Unsigned,
    Double,
    Date,
    Timestamp {
        zoned: bool,
    },
    Text,
    List(Box<Guess>),
    Struct(Vec<(String, Guess)>),
}

impl Guess {
    /// The guess for one CSV field that is not NULL.
    pub(crate) fn of_text(text: &str) -> Guess {
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            return Guess::Boolean;
        }
        match Guess::of_number(text) {
            Guess::Text => Guess::of_time(text),
            number => number,
        }
    }

    /// Widens the guess by one CSV field that is not NULL.
    #[inline]
    pub(crate) fn add_text(&mut self, text: &str) {
        match self {
            Guess::Text => {}
            // This is the most frequent case: few enough digits that a BIGINT holds them for certain.
            Guess::Integer { negative } if is_short_integer(text) => *negative |= text.starts_with('-'),
            _ => *self = std::mem::take(self).widen(Guess::of_text(text)),
        }
    }

    /// Widens the guess by one JSON value, which must have been checked.
    #[inline]
    pub(crate) fn add_json(&mut self, json: &str) {
        match self {
            Guess::Text => {}
            Guess::Integer { negative } if is_short_integer(json) => *negative |= json.starts_with('-'),
            _ => *self = std::mem::take(self).widen(Guess::of_json(json)),
        }
    }

    /// The guess for a number. Text if it is not a number, or if no type keeps its digits.
    fn of_number(text: &str) -> Guess {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return Guess::Text;
        }
        // A number would lose the leading zero.
        if digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit() {
            return Guess::Text;
        }
        if digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return if parse_int::<i64>(text).is_ok() {
                Guess::Integer { negative: digits.len() < text.len() }
            } else if parse_int::<u64>(text).is_ok() {
                Guess::Unsigned
            } else {
                Guess::Text
            };
        }
        if parse_f64(text).is_ok() { Guess::Double } else { Guess::Text }
    }

    /// The guess for a date or a timestamp. Text if it is neither.
    fn of_time(text: &str) -> Guess {
        // Only the usual form of dates counts, so that `1-2-3` stays text.
        let dated = text.len() >= 10 && text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-';
        if !dated {
            Guess::Text
        } else if parse_date(text).is_ok() {
            Guess::Date
        } else if parse_timestamp(text, 1_000_000).is_ok() {
            let zoned = text[10..].contains(['Z', 'z', '+', '-', 'U']);
            Guess::Timestamp { zoned }
        } else {
            Guess::Text
        }
    }

    /// The guess for a JSON value, which must have been checked. A string is text unless it is a date or a time.
    pub(crate) fn of_json(json: &str) -> Guess {
        match JsonKind::of(json) {
            JsonKind::Null => Guess::Nothing,
            JsonKind::Boolean => Guess::Boolean,
            JsonKind::String => Guess::of_time(&json[1..json.len() - 1]),
            JsonKind::Number => match Guess::of_number(json) {
                // JSON numbers are numbers, even if a DOUBLE cannot keep their last digits.
                Guess::Text => Guess::Double,
                number => number,
            },
            JsonKind::Array => {
                // The items share one type: the narrowest that holds all of them.
                let item = items(json).flatten().map(Guess::of_json).fold(Guess::Nothing, Guess::widen);
                Guess::List(Box::new(item))
            }
            JsonKind::Object => {
                let members = members(json).flatten().map(|(key, value)| (plain_key(key), Guess::of_json(value)));
                Guess::Struct(Vec::new()).widen(Guess::Struct(members.collect()))
            }
        }
    }

    /// The narrowest guess that holds the values of both.
    pub(crate) fn widen(self, other: Guess) -> Guess {
        use Guess::*;
        match (self, other) {
            (Nothing, guess) | (guess, Nothing) => guess,
            (Integer { negative: a }, Integer { negative: b }) => Integer { negative: a || b },
            (Integer { negative: false }, Unsigned) | (Unsigned, Integer { negative: false }) => Unsigned,
            // No integer type holds both.
            (Integer { .. }, Unsigned) | (Unsigned, Integer { .. }) => Double,
            (Double, Integer { .. } | Unsigned) | (Integer { .. } | Unsigned, Double) => Double,
            (Date, Timestamp { zoned }) | (Timestamp { zoned }, Date) => Timestamp { zoned },
            (Timestamp { zoned: a }, Timestamp { zoned: b }) => Timestamp { zoned: a || b },
            (List(a), List(b)) => List(Box::new(a.widen(*b))),
            (Struct(a), Struct(b)) => Struct(widen_members(a, b)),
            (a, b) if a == b => a,
            _ => Text,
        }
    }

    /// The SQL type of the guess.
    pub(crate) fn kind(&self) -> SqlType {
        match self {
            Guess::Nothing | Guess::Text => SqlType::TEXT,
            Guess::Boolean => SqlType::Boolean,
            Guess::Integer { .. } => SqlType::Int64,
            Guess::Unsigned => SqlType::UInt64,
            Guess::Double => SqlType::Float64,
            Guess::Date => SqlType::Date,
            Guess::Timestamp { zoned } => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: *zoned },
            Guess::List(item) => SqlType::List(Box::new(item.kind())),
            // A struct without members cannot be stored as one.
            Guess::Struct(members) if members.is_empty() => SqlType::TEXT,
            Guess::Struct(members) => {
                SqlType::Struct(members.iter().map(|(name, guess)| (name.clone(), guess.kind())).collect())
            }
        }
    }
}

/// Whether `text` has at most 18 digits without a leading zero, with an optional minus.
#[inline]
fn is_short_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    (1..=18).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit)
        && (digits.len() == 1 || digits[0] != b'0')
}

/// The members of both, in the order of their first occurrence.
fn widen_members(mut known: Vec<(String, Guess)>, more: Vec<(String, Guess)>) -> Vec<(String, Guess)> {
    for (name, guess) in more {
        match known.iter_mut().find(|(known, _)| *known == name) {
            Some((_, before)) => *before = std::mem::take(before).widen(guess),
            None => known.push((name, guess)),
        }
    }
    known
}

/// A key with its escapes decoded. If they are invalid, the key is returned unchanged.
pub(crate) fn plain_key(key: &str) -> String {
    let mut plain = String::with_capacity(key.len());
    if unescape(key, &mut plain).is_err() {
        return key.to_owned();
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(texts: &[&str]) -> String {
        let forwards = texts.iter().map(|text| Guess::of_text(text)).fold(Guess::Nothing, Guess::widen);
        let mut backwards = Guess::Nothing;
        texts.iter().rev().for_each(|text| backwards.add_text(text));
        assert_eq!(forwards.kind(), backwards.kind(), "the order does not matter");
        forwards.kind().to_string()
    }

    #[test]
    fn types_of_texts_are_guessed() {
        for (texts, expected) in [
            (&[][..], "TEXT"),
            (&["true", "FALSE"], "BOOLEAN"),
            (&["true", "1"], "TEXT"),
            (&["1", "-5", "0"], "BIGINT"),
            (&["1", "18446744073709551615"], "BIGINT UNSIGNED"),
            (&["-1", "18446744073709551615"], "DOUBLE"),
            (&["1", "2.5", "1e5", ".5"], "DOUBLE"),
            (&["18446744073709551616"], "TEXT"),
            (&["007"], "TEXT"),
            (&["0.5", "0"], "DOUBLE"),
            (&["+49"], "TEXT"),
            (&["NaN"], "TEXT"),
            (&["1-2-3"], "TEXT"),
            (&["2013-07-31"], "DATE"),
            (&["2013-07-31", "2013-07-31 12:00:00"], "TIMESTAMP"),
            (&["2013-07-31T12:00:00Z", "2013-07-31"], "TIMESTAMP WITH TIME ZONE"),
            (&["2013-02-30"], "TEXT"),
            (&["2013-07-31", "7"], "TEXT"),
            (&["ключ-2013-07"], "TEXT"),
        ] {
            assert_eq!(guessed(texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn types_of_json_values_are_guessed() {
        for (json, expected) in [
            ("\"1\"", "TEXT"),
            ("1.0", "DOUBLE"),
            ("123456789012345678901", "DOUBLE"),
            ("\"2013-07-31T00:00:00Z\"", "TIMESTAMP WITH TIME ZONE"),
            ("[1, null, 2.5]", "DOUBLE[]"),
            ("[]", "TEXT[]"),
            ("{}", "TEXT"),
            ("{\"a\": 1, \"b\": [{\"c\": true}, {\"d\": \"x\"}]}", "STRUCT(a BIGINT, b STRUCT(c BOOLEAN, d TEXT)[])"),
        ] {
            assert_eq!(Guess::of_json(json).kind().to_string(), expected, "{json}");
        }
        let both = Guess::of_json("{\"a\": 1}").widen(Guess::of_json("{\"b\": 1, \"a\": 1.5}"));
        assert_eq!(both.kind().to_string(), "STRUCT(a DOUBLE, b BIGINT)");
        assert_eq!(Guess::of_json("[1]").widen(Guess::of_json("1")).kind().to_string(), "TEXT");
    }
}
