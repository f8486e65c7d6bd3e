//! The text format of COPY, turned into CSV that the engine reads.
//!
//! ```text
//! 1⇥a\tb⇥\N⏎      "1","a    b",\N⏎
//! ```
//!
//! Every value gets quotes, and NULL is the bare text `\N`, so that no value can be taken for NULL or for an empty
//! line. Truth values and arrays are written as the engine writes them.

use std::borrow::Cow;

use crate::decode::{BoundValue, decode, utf8};
use crate::encode::{CopyTextFormat, WireFormat};
use crate::wire_error::WireError;
use rowmill::pg_types::{PgScalar, PgType};

/// The text of NULL in the CSV.
pub(super) const NULL: &str = "\\N";

/// The most bytes of a line. The engine has the same limit.
const LINE_BYTES_MAX: usize = 64 << 20;

const BAD_FORMAT: &str = "22P04";

/// Reads lines that arrive in pieces.
pub(super) struct TextCopyReader {
    format: CopyTextFormat,
    kinds: Vec<PgType>,
    /// A line whose end has not arrived.
    partial: Vec<u8>,
    lines: u64,
    skips_header: bool,
    /// Whether the mark of the end, `\.`, has been read.
    is_over: bool,
}

impl TextCopyReader {
    pub(super) fn new(format: CopyTextFormat, kinds: Vec<PgType>, skips_header: bool) -> TextCopyReader {
        TextCopyReader { format, kinds, partial: Vec::new(), lines: 0, skips_header, is_over: false }
    }

    /// Takes the next piece of the data and appends its whole lines as CSV to `csv`.
    pub(super) fn push(&mut self, piece: &[u8], csv: &mut Vec<u8>) -> Result<(), WireError> {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            // Nearly all lines come as a whole and need no copy.
            if self.partial.is_empty()
                && let Some(line) = whole_line(part)
            {
                self.line(line, csv)?;
                continue;
            }
            self.partial.extend_from_slice(part);
            if whole_line(&self.partial).is_some() {
                let line = std::mem::take(&mut self.partial);
                self.line(&line[..line.len() - 1], csv)?;
            }
        }
        match self.partial.len() > LINE_BYTES_MAX {
            true => Err(self.wrong(format!("a line is longer than {LINE_BYTES_MAX} bytes"))),
            false => Ok(()),
        }
    }

    /// Takes the last line, which may have no end.
    pub(super) fn finish(&mut self, csv: &mut Vec<u8>) -> Result<(), WireError> {
        match std::mem::take(&mut self.partial) {
            line if line.is_empty() => Ok(()),
            line => self.line(&line, csv),
        }
    }

    fn wrong(&self, what: impl std::fmt::Display) -> WireError {
        WireError::new(BAD_FORMAT, format!("COPY, line {}: {what}", self.lines + 1))
    }

    fn line(&mut self, line: &[u8], csv: &mut Vec<u8>) -> Result<(), WireError> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.is_over |= line == b"\\.";
        if self.is_over {
            return Ok(());
        }
        if std::mem::take(&mut self.skips_header) {
            self.lines += 1;
            return Ok(());
        }
        let fields = fields(line, self.format.delimiter, self.kinds.len());
        if fields.len() != self.kinds.len() {
            return Err(self.wrong(format_args!("it has {} fields, {} are needed", fields.len(), self.kinds.len())));
        }
        for (index, (raw, kind)) in fields.into_iter().zip(&self.kinds).enumerate() {
            if index > 0 {
                csv.push(b',');
            }
            // NULL is recognized before escapes are read.
            if raw == self.format.null.as_bytes() {
                csv.extend_from_slice(NULL.as_bytes());
                continue;
            }
            let value = unescaped(raw);
            let text = utf8(&value).map_err(|error| self.wrong(error.message))?;
            put_value(*kind, text, csv).map_err(|error| self.wrong(error.message))?;
        }
        csv.push(b'\n');
        self.lines += 1;
        Ok(())
    }
}

/// Returns a line without its line break, or `None` if its end has not come. An odd number of backslashes before the
/// line break makes it a part of the value.
fn whole_line(bytes: &[u8]) -> Option<&[u8]> {
    let line = bytes.strip_suffix(b"\n")?;
    let backslashes = line.iter().rev().take_while(|byte| **byte == b'\\').count();
    (backslashes % 2 == 0).then_some(line)
}

/// Cuts a line at its delimiters. A backslash takes the next character with it. `expected` is the number of fields that
/// the line should have.
fn fields(line: &[u8], delimiter: u8, expected: usize) -> Vec<&[u8]> {
    let mut fields = Vec::with_capacity(expected);
    let (mut start, mut at) = (0, 0);
    while at < line.len() {
        match line[at] {
            b'\\' => at += 1,
            byte if byte == delimiter => {
                fields.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    fields.push(&line[start..]);
    fields
}

/// Reads the escapes of a field: `\n`, `\t` and the like, three octal digits, `\x` and two hexadecimal ones.
fn unescaped(raw: &[u8]) -> Cow<'_, [u8]> {
    if !raw.contains(&b'\\') {
        return Cow::Borrowed(raw);
    }
    let mut value = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&first, after)) = rest.split_first() {
        let (b'\\', Some((&escape, after_escape))) = (first, after.split_first()) else {
            value.push(first);
            rest = after;
            continue;
        };
        rest = after_escape;
        let digits = |rest: &[u8], max: usize, radix: u32| {
            let count = rest.iter().take(max).take_while(|byte| char::from(**byte).is_digit(radix)).count();
            let text = std::str::from_utf8(&rest[..count]).unwrap_or_default();
            (count, u32::from_str_radix(text, radix).unwrap_or(0) as u8)
        };
        match escape {
            b'b' => value.push(0x08),
            b'f' => value.push(0x0c),
            b'n' => value.push(b'\n'),
            b'r' => value.push(b'\r'),
            b't' => value.push(b'\t'),
            b'v' => value.push(0x0b),
            b'0'..=b'7' => {
                let (count, byte) = digits(after, 3, 8);
                value.push(byte);
                rest = &after[count..];
            }
            b'x' if after_escape.first().is_some_and(u8::is_ascii_hexdigit) => {
                let (count, byte) = digits(after_escape, 2, 16);
                value.push(byte);
                rest = &after_escape[count..];
            }
            other => value.push(other),
        }
    }
    Cow::Owned(value)
}

/// Appends a value with quotes, in the form in which the engine reads it.
pub(super) fn put_value(kind: PgType, text: &str, csv: &mut Vec<u8>) -> Result<(), WireError> {
    if !kind.is_array && kind.scalar != PgScalar::Bool {
        put_quoted(text, csv);
        return Ok(());
    }
    match decode(kind, WireFormat::Text, &bytes::Bytes::copy_from_slice(text.as_bytes()))? {
        BoundValue::Boolean(value) => put_quoted(if value { "true" } else { "false" }, csv),
        BoundValue::Text(json) => put_quoted(&json, csv),
        _ => put_quoted(text, csv),
    }
    Ok(())
}

fn put_quoted(text: &str, csv: &mut Vec<u8>) {
    csv.push(b'"');
    match text.as_bytes().contains(&b'"') {
        true => csv.extend_from_slice(text.replace('"', "\"\"").as_bytes()),
        false => csv.extend_from_slice(text.as_bytes()),
    }
    csv.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encode::CopyEscapes;

    const TEXT: PgType = PgType::TEXT;

    fn read(pieces: &[&[u8]], kinds: &[PgType]) -> Result<String, WireError> {
        let format = CopyTextFormat { delimiter: b'\t', null: "\\N".to_owned() };
        let mut reader = TextCopyReader::new(format, kinds.to_vec(), false);
        let mut csv = Vec::new();
        pieces.iter().try_for_each(|piece| reader.push(piece, &mut csv))?;
        reader.finish(&mut csv)?;
        Ok(String::from_utf8(csv).expect("UTF-8"))
    }

    #[test]
    fn lines_become_csv() {
        let list = PgType { scalar: PgScalar::Int4, is_array: true };
        let kinds = [TEXT, PgType::scalar(PgScalar::Bool), list];
        assert_eq!(
            read(&[b"a\\tb\tt\t{1,NULL}\n\\N\t\\N\t\\N\n"], &kinds).expect("read"),
            "\"a\tb\",\"true\",\"[1,null]\"\n\\N,\\N,\\N\n"
        );
        assert_eq!(read(&[b"\\\\N\\101\\x41\"\n", b"\n\\.\nrest"], &[TEXT]).expect("read"), "\"\\NAA\"\"\"\n\"\"\n");
        assert_eq!(read(&[b"a", b"b\r\nc\\\n", b"d"], &[TEXT]).expect("read"), "\"ab\"\n\"c\nd\"\n");
        assert!(read(&[b"a\tb\n"], &[TEXT]).expect_err("two fields").message.contains("line 1: it has 2 fields"));
        assert!(read(&[b"x\n\xff\n"], &[TEXT]).expect_err("no UTF-8").message.contains("line 2"));
        assert!(read(&[b"maybe\n"], &[PgType::scalar(PgScalar::Bool)]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0..200_usize,
        ) {
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let list = PgType { scalar: PgScalar::Int4, is_array: true };
            let _ = read(&[first, second], &[list]);
        }

        #[test]
        fn what_is_written_is_read_back(value in "[a-c\\\\\t\n\r\"\u{8}\u{b}\u{c}é]{0,20}") {
            let format = CopyTextFormat { delimiter: b'\t', null: "\\N".to_owned() };
            let mut line = Vec::new();
            CopyEscapes::new(&format).put(value.as_bytes(), &mut line);
            line.extend_from_slice(b"\n");
            let csv = read(&[&line], &[TEXT]).expect("read");
            prop_assert_eq!(csv, format!("\"{}\"\n", value.replace('"', "\"\"")));
        }
    }
}
