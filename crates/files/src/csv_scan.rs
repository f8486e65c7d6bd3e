//! Splits a text into CSV records as spans.
//!
//! The scanner finds where fields begin and end (RFC 4180, with any delimiter, quote and escape character) and copies
//! nothing. A quote opens a field only as its first character. After the closing quote, only a delimiter or a line end
//! may follow. Within an unquoted field a quote is an ordinary character. Lines end in `\n` or `\r\n`.
//!
//! After a bad record, scanning continues at the line after the record's first line. So a quote that is not closed on
//! its line costs only that line.

use memchr::{memchr, memchr2};

/// The dialect of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    /// The quote character. If `None`, quotes are ordinary characters.
    pub(crate) quote: Option<u8>,
    pub(crate) escape: u8,
    /// The unquoted text that means NULL.
    pub(crate) null_string: String,
}

/// The position of a field in its text, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldSpan {
    /// The start. The top bit is set if the field has escapes.
    start: u32,
    /// The end. The top bit is set if the field was quoted.
    end: u32,
}

/// The flag bit in [`FieldSpan`].
const TOP: u32 = 1 << 31;

impl FieldSpan {
    fn new(start: usize, end: usize, quoted: bool, escaped: bool) -> FieldSpan {
        debug_assert!(end < TOP as usize, "a chunk of text must be shorter than 2 GiB");
        let flag = |set: bool| if set { TOP } else { 0 };
        FieldSpan { start: start as u32 | flag(escaped), end: end as u32 | flag(quoted) }
    }

    #[inline(always)]
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        (self.start & !TOP) as usize..(self.end & !TOP) as usize
    }

    #[inline(always)]
    pub(crate) fn quoted(self) -> bool {
        self.end & TOP != 0
    }

    #[inline(always)]
    pub(crate) fn escaped(self) -> bool {
        self.start & TOP != 0
    }
}

/// The reason why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRecord {
    /// Text follows the quote that closes a field: the number of the field, and the position of that text.
    TextBehindQuote { field: usize, at: usize },
    /// The quote that opens a field is never closed.
    UnclosedQuote { field: usize },
}

/// The location of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    /// The position of its first byte.
    pub(crate) start: usize,
    /// The position after its line end.
    pub(crate) end: usize,
    /// The number of its first line.
    pub(crate) line: u64,
}

/// Iterates over the records of a text.
pub(crate) struct RecordScanner<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
    delimiter: u8,
    quote: Option<u8>,
    escape: u8,
}

impl<'a> RecordScanner<'a> {
    /// Starts at a record on line `first_line`.
    pub(crate) fn new(text: &'a str, dialect: &Dialect, first_line: u64) -> RecordScanner<'a> {
        RecordScanner {
            bytes: text.as_bytes(),
            at: 0,
            line: first_line,
            delimiter: dialect.delimiter,
            quote: dialect.quote,
            escape: dialect.escape,
        }
    }

    /// Appends the fields of the next record to `fields`. On an error it appends nothing, and the location is that of
    /// the record's first line.
    #[inline]
    pub(crate) fn next_record(&mut self, fields: &mut Vec<FieldSpan>) -> Option<(RecordPlace, Result<(), BadRecord>)> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let (start, line, before) = (self.at, self.line, fields.len());
        let scanned = self.scan_fields(fields, before);
        if scanned.is_err() {
            // Fields before the error were already appended. The caller must not see them.
            fields.truncate(before);
            self.at = memchr(b'\n', &self.bytes[start..]).map_or(self.bytes.len(), |length| start + length + 1);
            self.line = line + 1;
        }
        Some((RecordPlace { start, end: self.at, line }, scanned))
    }

    #[inline]
    fn scan_fields(&mut self, fields: &mut Vec<FieldSpan>, before: usize) -> Result<(), BadRecord> {
        loop {
            let ended = if self.quote.is_some() && self.bytes.get(self.at).copied() == self.quote {
                self.scan_quoted(fields, before)?
            } else {
                self.scan_plain(fields)
            };
            if ended {
                self.line += 1;
                return Ok(());
            }
        }
    }

    /// Scans an unquoted field. Returns `true` if it ends its record.
    #[inline(always)]
    fn scan_plain(&mut self, fields: &mut Vec<FieldSpan>) -> bool {
        let start = self.at;
        let end = start + position_of_either(&self.bytes[start..], self.delimiter, b'\n');
        self.at = end + 1;
        if self.bytes.get(end) == Some(&self.delimiter) {
            fields.push(FieldSpan::new(start, end, false, false));
            return false;
        }
        self.at = self.at.min(self.bytes.len());
        // The line end may be `\r\n`.
        let end = if end > start && self.bytes[end - 1] == b'\r' { end - 1 } else { end };
        fields.push(FieldSpan::new(start, end, false, false));
        true
    }

    /// Scans a quoted field. Returns `true` if it ends its record.
    fn scan_quoted(&mut self, fields: &mut Vec<FieldSpan>, before: usize) -> Result<bool, BadRecord> {
        let field = fields.len() - before;
        let start = self.at + 1;
        let quote = self.bytes[self.at];
        let (end, escaped) =
            closing(self.bytes, start, quote, self.escape).ok_or(BadRecord::UnclosedQuote { field })?;
        // Line ends within quotes count, so that later errors name the right line.
        self.line += self.bytes[start..end].iter().filter(|byte| **byte == b'\n').count() as u64;
        let behind = end + 1;
        let (length, ended) = match self.bytes.get(behind) {
            None => (0, true),
            Some(byte) if *byte == self.delimiter => (1, false),
            Some(b'\n') => (1, true),
            Some(b'\r') if self.bytes.get(behind + 1) == Some(&b'\n') => (2, true),
            Some(b'\r') if behind + 1 == self.bytes.len() => (1, true),
            Some(_) => return Err(BadRecord::TextBehindQuote { field, at: behind }),
        };
        self.at = behind + length;
        fields.push(FieldSpan::new(start, end, true, escaped));
        Ok(ended)
    }
}

/// The position of the first byte that is `a` or `b`, or the length if there is none. Compares eight bytes at a time
/// with little setup, because fields are short.
#[inline(always)]
fn position_of_either(bytes: &[u8], a: u8, b: u8) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (a_everywhere, b_everywhere) = (LOW * u64::from(a), LOW * u64::from(b));
    let (words, tail) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let (x, y) = (word ^ a_everywhere, word ^ b_everywhere);
        // The lowest zero byte of x or y has its high bit set here, and no lower byte has.
        let found = (x.wrapping_sub(LOW) & !x | y.wrapping_sub(LOW) & !y) & HIGH;
        if found != 0 {
            return i * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let from = words.len() * 8;
    from + tail.iter().position(|byte| *byte == a || *byte == b).unwrap_or(tail.len())
}

/// The position of the quote that closes a field whose text starts at `from`, and whether escapes precede it.
#[inline]
fn closing(bytes: &[u8], from: usize, quote: u8, escape: u8) -> Option<(usize, bool)> {
    let mut escaped = false;
    let mut at = from;
    loop {
        at += memchr2(quote, escape, bytes.get(at..)?)?;
        let closes = if quote == escape { bytes.get(at + 1) != Some(&quote) } else { bytes[at] == quote };
        if closes {
            return Some((at, escaped));
        }
        escaped = true;
        at += 2;
    }
}

/// Appends the inside of a quoted field to `out`, with its escapes removed.
pub(crate) fn undo_escapes(inside: &str, escape: u8, out: &mut String) {
    let mut rest = inside;
    while let Some(at) = memchr(escape, rest.as_bytes()) {
        out.push_str(&rest[..at]);
        // The character after the escape is literal.
        let next = rest[at + 1..].chars().next();
        out.extend(next);
        rest = &rest[at + 1 + next.map_or(0, char::len_utf8)..];
    }
    out.push_str(rest);
}

/// Trims blanks and tabs, which are rare.
#[inline(always)]
pub(crate) fn trimmed(text: &str) -> &str {
    match (text.as_bytes().first(), text.as_bytes().last()) {
        (Some(b' ' | b'\t'), _) | (_, Some(b' ' | b'\t')) => text.trim_matches([' ', '\t']),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect(escape: u8) -> Dialect {
        Dialect { delimiter: b',', quote: Some(b'"'), escape, null_string: String::new() }
    }

    /// The records as texts, with their lines. A bad record is returned as its problem.
    fn records(text: &str, escape: u8) -> Vec<(u64, Result<Vec<String>, BadRecord>)> {
        let mut scanner = RecordScanner::new(text, &dialect(escape), 1);
        let mut fields = Vec::new();
        let mut records = Vec::new();
        while let Some((place, scanned)) = scanner.next_record(&mut fields) {
            let texts = fields.drain(..).map(|span: FieldSpan| {
                let mut field = String::new();
                if span.escaped() {
                    undo_escapes(&text[span.range()], escape, &mut field);
                } else {
                    field.push_str(&text[span.range()]);
                }
                if span.quoted() { format!("<{field}>") } else { field }
            });
            records.push((place.line, scanned.map(|()| texts.collect())));
        }
        records
    }

    fn fields(text: &str) -> Vec<Vec<String>> {
        records(text, b'"').into_iter().map(|(_, record)| record.expect("sound")).collect()
    }

    #[test]
    fn fields_end_at_delimiters_and_lines() {
        assert_eq!(fields("a,bc,\n1,,3\r\nx"), [vec!["a", "bc", ""], vec!["1", "", "3"], vec!["x"]]);
        assert_eq!(fields("a\n\nb\r\n"), [vec!["a"], vec![""], vec!["b"]]);
        assert_eq!(fields("a,b\r"), [vec!["a", "b"]]);
        assert_eq!(
            fields("a long field over eight bytes,another one of them\n"),
            [vec!["a long field over eight bytes", "another one of them"]]
        );
        assert!(fields("").is_empty());
    }

    #[test]
    fn quoted_fields_may_contain_delimiters_and_quotes() {
        assert_eq!(fields("\"a,b\",\"c\"\"d\"\r\n\"\",x\"y\"\n"), [vec!["<a,b>", "<c\"d>"], vec!["<>", "x\"y\""]]);
        let backslash = records("\"a\\\"b\\\\\",\"c\"\n", b'\\');
        assert_eq!(backslash, [(1, Ok(vec!["<a\"b\\>".to_owned(), "<c>".to_owned()]))]);
    }

    #[test]
    fn lines_are_counted_through_quotes() {
        let lines: Vec<u64> = records("a\n\"b\n\nc\"\nd\n", b'"').iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 5]);
    }

    #[test]
    fn a_bad_record_costs_only_its_first_line() {
        let found = records("1,\"a\n2,b\n3,\"c\"\n", b'"');
        assert_eq!(found[0], (1, Err(BadRecord::TextBehindQuote { field: 1, at: 12 })));
        assert_eq!(found[1], (2, Ok(vec!["2".to_owned(), "b".to_owned()])));
        assert_eq!(found[2], (3, Ok(vec!["3".to_owned(), "<c>".to_owned()])));
        let found = records("1,2\n3,\"x", b'"');
        assert_eq!(found[1], (2, Err(BadRecord::UnclosedQuote { field: 1 })));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn the_search_agrees_with_a_plain_loop() {
        let mut state = 1_u32;
        for length in 0..100 {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // Bytes next to the searched ones would show errors of borrows.
                    [b',', b'+', b'-', b'\n', 9, 11, 0, 0x80, 0xAC][(state >> 24) as usize % 9]
                })
                .collect();
            for from in 0..bytes.len() {
                let expected = bytes[from..].iter().position(|byte| matches!(byte, b',' | b'\n'));
                let expected = expected.unwrap_or(bytes.len() - from);
                assert_eq!(position_of_either(&bytes[from..], b',', b'\n'), expected);
            }
        }
    }
}
