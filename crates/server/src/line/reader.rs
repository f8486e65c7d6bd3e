//! Reads InfluxDB's line protocol: one point for each line.
//!
//! ```text
//! measurement[,tag=value...] field=value[,field=value...] [timestamp]
//! ```
//!
//! - In measurements, tags and names of fields, a backslash before a comma, an equals sign, a space or a backslash
//!   makes it a part of the text. Any other backslash is a backslash.
//! - In strings, a backslash before a double quote, a backslash or a line break does so; QuestDB's clients write one
//!   before line breaks. A string may also have line breaks without it.
//! - A line that begins with `#` is a comment. Empty lines are skipped.
//!
//! After an error, the reader goes on after the next line break. A line that is no UTF-8 is an error like any other,
//! so that one damaged line does not refuse the others.
//!
//! The grammar is that of InfluxDB's documentation ("Line protocol reference"); the suffix `t` is QuestDB's.

use std::borrow::Cow;
use std::fmt;

use super::point::{LineEscapes, LinePoint, LineText, LineValue, is_escaped_in_names, is_escaped_in_strings};

/// Why a line is no point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineError {
    /// The character of the line at which reading failed, counted from 1.
    pub(crate) column: usize,
    /// The reason.
    pub(crate) reason: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.reason)
    }
}

/// A line that the reader has read.
#[derive(Debug)]
pub(crate) struct ReadLine<'a> {
    /// The number of the line in the body, counted from 1.
    pub(crate) number: u64,
    /// The line without its line break. Bytes that are no UTF-8 are replaced.
    pub(crate) text: Cow<'a, str>,
    /// Whether the point was filled.
    pub(crate) outcome: Result<(), LineError>,
}

/// Reads the lines of a body.
pub(crate) struct LineReader<'a> {
    /// The text before the first line that is no UTF-8.
    text: &'a str,
    /// The place in `text`.
    at: usize,
    /// The bytes after `text`. They begin with a line that is no UTF-8, or are empty.
    rest: &'a [u8],
    /// The number of the next line.
    number: u64,
    /// The names of the last point.
    last: LastNames<'a>,
}

/// The names of the last point. Most lines have those of the line before them, so a comparison takes the place of
/// looking for the end of each name.
#[derive(Default)]
struct LastNames<'a> {
    measurement: &'a str,
    /// The names of the tags, and then of the fields. A name with escapes is empty here.
    names: Vec<&'a str>,
    tags: usize,
}

impl<'a> LineReader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> LineReader<'a> {
        let (text, rest) = valid_lines(body);
        LineReader { text, at: 0, rest, number: 1, last: LastNames::default() }
    }

    /// Reads the next line that is neither empty nor a comment into `point`. Returns `None` at the end of the body.
    pub(crate) fn next_into(&mut self, point: &mut LinePoint<'a>) -> Option<ReadLine<'a>> {
        loop {
            let Some(first) = self.peek() else {
                if self.rest.is_empty() {
                    return None;
                }
                return Some(self.damaged_line());
            };
            match first {
                b'\n' => self.end_line(),
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'#' => self.skip_line(),
                _ => return Some(self.line(point)),
            }
        }
    }

    /// Passes the first line of `rest`, which is no UTF-8, and makes the valid lines after it the text.
    fn damaged_line(&mut self) -> ReadLine<'a> {
        let end = self.rest.iter().position(|byte| *byte == b'\n').map_or(self.rest.len(), |end| end + 1);
        let (line, rest) = self.rest.split_at(end);
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let valid = std::str::from_utf8(line).map_or_else(|error| error.valid_up_to(), |_| line.len());
        let column = String::from_utf8_lossy(&line[..valid]).chars().count() + 1;
        let number = self.number;
        self.number += 1;
        (self.text, self.rest) = valid_lines(rest);
        self.at = 0;
        let outcome = Err(LineError { column, reason: "the line is not UTF-8".to_owned() });
        ReadLine { number, text: String::from_utf8_lossy(line), outcome }
    }

    fn line(&mut self, point: &mut LinePoint<'a>) -> ReadLine<'a> {
        let (start, number) = (self.at, self.number);
        let outcome = self.point(point);
        let outcome = outcome.map_err(|fault| {
            // The names that were read so far must not be taken for those of a point.
            self.last = LastNames::default();
            let column = self.text[start..self.at].chars().count() + 1;
            // A string without its end reaches to the end of the body. Most likely only one quote is missing, so we
            // read the lines after the first one as lines again.
            if fault.is_open_string {
                (self.at, self.number) = (start, number);
            }
            self.skip_line_break_less();
            LineError { column, reason: fault.reason }
        });
        let text = &self.text[start..self.at];
        self.end_line();
        ReadLine { number, text: Cow::Borrowed(text.trim_end_matches('\r')), outcome }
    }

    fn point(&mut self, point: &mut LinePoint<'a>) -> Result<(), LineFault> {
        point.tags.clear();
        point.fields.clear();
        point.time = None;
        point.repeats_names = true;
        self.measurement(point)?;
        while self.peek() == Some(b',') {
            self.at += 1;
            let name = self.name_at(point.tags.len(), point, "tag")?;
            let value = self.name(true);
            if self.peek() == Some(b'=') {
                return Err(fault("an equals sign in the value of a tag must follow a backslash"));
            }
            if value.is_empty() {
                return Err(fault(format!("the tag \"{}\" has no value", name.text())));
            }
            point.tags.push((name, value));
        }
        if !self.spaces() || self.is_at_line_end() {
            return Err(fault("the line has no fields"));
        }
        loop {
            let name = self.name_at(point.tags.len() + point.fields.len(), point, "field")?;
            let value = self.value(name)?;
            point.fields.push((name, value));
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => break,
            }
        }
        let (tags, names) = (point.tags.len(), point.tags.len() + point.fields.len());
        point.repeats_names &= self.last.tags == tags && self.last.names.len() == names;
        self.last.tags = tags;
        self.last.names.truncate(names);
        self.time(point)
    }

    /// Reads the name of the table.
    fn measurement(&mut self, point: &mut LinePoint<'a>) -> Result<(), LineFault> {
        let rest = &self.text.as_bytes()[self.at..];
        let last = self.last.measurement;
        if !last.is_empty() && rest.starts_with(last.as_bytes()) && matches!(rest.get(last.len()), Some(b',' | b' ')) {
            self.at += last.len();
            point.measurement = LineText::from(last);
            return Ok(());
        }
        point.repeats_names = false;
        point.measurement = self.name(false);
        if point.measurement.is_empty() {
            return Err(fault("the name of the measurement is missing"));
        }
        self.last.measurement = point.measurement.plain().unwrap_or_default();
        Ok(())
    }

    /// Reads the name at the place `place` of a line, and passes the equals sign after it.
    #[inline(always)]
    fn name_at(&mut self, place: usize, point: &mut LinePoint<'a>, what: &str) -> Result<LineText<'a>, LineFault> {
        if let Some(last) = self.last.names.get(place) {
            let rest = &self.text.as_bytes()[self.at..];
            if rest.get(last.len()) == Some(&b'=') && !last.is_empty() && rest.starts_with(last.as_bytes()) {
                self.at += last.len() + 1;
                return Ok(LineText::from(*last));
            }
        }
        point.repeats_names = false;
        self.new_name_at(place, what)
    }

    /// Reads a name that is not the one which the last line had at its place.
    fn new_name_at(&mut self, place: usize, what: &str) -> Result<LineText<'a>, LineFault> {
        let name = self.name(true);
        if name.is_empty() {
            return Err(fault(format!("the name of a {what} is missing")));
        }
        if self.peek() != Some(b'=') {
            return Err(fault(format!("an equals sign must follow the {what} \"{}\"", shortened(&name.text()))));
        }
        self.at += 1;
        let plain = name.plain().unwrap_or_default();
        match self.last.names.get_mut(place) {
            Some(known) => *known = plain,
            None => self.last.names.push(plain),
        }
        Ok(name)
    }

    /// Reads the time, if there is one, and the end of the line.
    fn time(&mut self, point: &mut LinePoint<'a>) -> Result<(), LineFault> {
        if !self.spaces() && !self.is_at_line_end() {
            return Err(fault("a comma, a space or the end of the line must follow the value of a field"));
        }
        if self.is_at_line_end() {
            return Ok(());
        }
        let digits = self.word();
        point.time = match digits.parse() {
            Ok(time) if !digits.starts_with('+') => Some(time),
            _ => {
                self.at -= digits.len();
                return Err(fault(format!("the timestamp \"{}\" is not a whole number of 64 bits", shortened(digits))));
            }
        };
        self.spaces();
        match self.is_at_line_end() {
            true => Ok(()),
            false => Err(fault("the line goes on after its timestamp")),
        }
    }

    /// Reads a name or the value of a tag: the text up to a comma, a space, a line break or, with `ends_at_equals`, an
    /// equals sign.
    #[inline(always)]
    fn name(&mut self, ends_at_equals: bool) -> LineText<'a> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut escapes = LineEscapes::None;
        loop {
            let rest = &bytes[self.at..];
            self.at += rest.iter().position(|byte| MAY_END_NAME[usize::from(*byte)]).unwrap_or(rest.len());
            match bytes.get(self.at) {
                Some(b'\r') if !matches!(bytes.get(self.at + 1), None | Some(b'\n')) => self.at += 1,
                Some(b'=') if !ends_at_equals => self.at += 1,
                Some(b'\\') if bytes.get(self.at + 1).is_some_and(|next| is_escaped_in_names(*next)) => {
                    escapes = LineEscapes::InName;
                    self.at += 2;
                }
                Some(b'\\') => self.at += 1,
                _ => break,
            }
        }
        LineText::new(&self.text[start..self.at], escapes)
    }

    #[inline(always)]
    fn value(&mut self, name: LineText<'a>) -> Result<LineValue<'a>, LineFault> {
        match self.short_integer() {
            Some(value) => Ok(LineValue::Integer(value)),
            None => self.other_value(name),
        }
    }

    /// Reads a value if it is an integer that certainly fits, which many fields are.
    #[inline(always)]
    fn short_integer(&mut self) -> Option<i64> {
        let rest = &self.text.as_bytes()[self.at..];
        let is_negative = rest.first() == Some(&b'-');
        let start = usize::from(is_negative);
        let (mut value, mut end) = (0_i64, start);
        while let Some(digit @ b'0'..=b'9') = rest.get(end) {
            if end - start == SHORT_DIGITS_MAX {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
            end += 1;
        }
        let ends = rest.get(end) == Some(&b'i') && matches!(rest.get(end + 1), None | Some(b',' | b' ' | b'\n'));
        if end == start || !ends {
            return None;
        }
        self.at += end + 1;
        Some(if is_negative { -value } else { value })
    }

    fn other_value(&mut self, name: LineText<'a>) -> Result<LineValue<'a>, LineFault> {
        if self.peek() == Some(b'"') {
            return self.string(name).map(LineValue::Text);
        }
        let word = self.word();
        let read = if word.is_empty() {
            Err(fault(format!("the field \"{}\" has no value", shortened(&name.text()))))
        } else {
            plain_value(word)
        };
        if read.is_err() {
            self.at -= word.len();
        }
        read
    }

    fn string(&mut self, name: LineText<'a>) -> Result<LineText<'a>, LineFault> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut escapes = LineEscapes::None;
        let mut end = start;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') if bytes.get(end + 1).is_some_and(|next| is_escaped_in_strings(*next)) => {
                    escapes = LineEscapes::InString;
                    self.number += u64::from(bytes[end + 1] == b'\n');
                    end += 2;
                }
                Some(b'\n') => {
                    self.number += 1;
                    end += 1;
                }
                Some(_) => end += 1,
                None => {
                    let reason = format!("the string of the field \"{}\" has no end", shortened(&name.text()));
                    return Err(LineFault { reason, is_open_string: true });
                }
            }
        }
        self.at = end + 1;
        Ok(LineText::new(&self.text[start..end], escapes))
    }

    /// Reads the text up to a comma, a space or a line break.
    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|byte| matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n'));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    /// Passes spaces. Returns whether there was one.
    fn spaces(&mut self) -> bool {
        let start = self.at;
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        self.at > start
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn is_at_line_end(&self) -> bool {
        match self.peek() {
            None | Some(b'\n') => true,
            Some(b'\r') => matches!(self.text.as_bytes().get(self.at + 1), None | Some(b'\n')),
            Some(_) => false,
        }
    }

    /// Goes to the next line break, without passing it.
    fn skip_line_break_less(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    fn skip_line(&mut self) {
        self.skip_line_break_less();
        self.end_line();
    }

    /// Passes the end of a line.
    fn end_line(&mut self) {
        self.skip_line_break_less();
        if self.peek() == Some(b'\n') {
            self.at += 1;
            self.number += 1;
        }
    }
}

/// An integer of this many digits fits in 64 bits.
const SHORT_DIGITS_MAX: usize = 18;

/// The bytes at which a name may end, or which begin an escape in it.
const MAY_END_NAME: [bool; 256] = {
    let mut ends = [false; 256];
    let bytes = b", =\n\r\\";
    let mut at = 0;
    while at < bytes.len() {
        ends[bytes[at] as usize] = true;
        at += 1;
    }
    ends
};

/// Why a point cannot be read. The reader's place tells where.
struct LineFault {
    reason: String,
    is_open_string: bool,
}

fn fault(reason: impl Into<String>) -> LineFault {
    LineFault { reason: reason.into(), is_open_string: false }
}

/// Splits a body before its first line that is no UTF-8.
fn valid_lines(body: &[u8]) -> (&str, &[u8]) {
    match std::str::from_utf8(body) {
        Ok(text) => (text, &[]),
        Err(error) => {
            let valid = &body[..error.valid_up_to()];
            let end = valid.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let (text, rest) = body.split_at(end);
            (std::str::from_utf8(text).unwrap_or_default(), rest)
        }
    }
}

/// Reads the value of a field without quotes.
fn plain_value<'a>(word: &str) -> Result<LineValue<'a>, LineFault> {
    match word {
        "t" | "T" | "true" | "True" | "TRUE" => return Ok(LineValue::Boolean(true)),
        "f" | "F" | "false" | "False" | "FALSE" => return Ok(LineValue::Boolean(false)),
        _ => {}
    }
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let suffixed =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let out_of_range = |kind: &str| fault(format!("the number \"{}\" is out of range for {kind}", shortened(word)));
    let wrong = || fault(format!("\"{}\" is no number, boolean or string in double quotes", shortened(word)));
    let (digits, suffix) = word.split_at(word.len() - word.chars().next_back().map_or(0, char::len_utf8));
    match suffix {
        "i" if suffixed(digits) => {
            digits.parse().map(LineValue::Integer).map_err(|_| out_of_range("an integer of 64 bits"))
        }
        "u" if suffixed(digits) => {
            digits.parse().map(LineValue::Unsigned).map_err(|_| out_of_range("an unsigned integer of 64 bits"))
        }
        "t" if suffixed(digits) => digits.parse().map(LineValue::Micros).map_err(|_| out_of_range("a timestamp")),
        _ if is_number(word) => match word.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(LineValue::Float(number)),
            Ok(_) => Err(out_of_range("a float")),
            Err(_) => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// The beginning of a text, for messages.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(60).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests;
