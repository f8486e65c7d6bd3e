//! Numbers and bytes as digits of a base, and texts that are escaped for addresses of the web.

use std::fmt::Write;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, UInt64Type};
use base64::Engine;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::encoding::{BASE64_PADDED, decode_base64, decode_hex};
use crate::functions::rowwise::{BytesArgument, NumberArgument, RowText, TextArgument, bigints, blobs, texts};
use crate::functions::signatures::{BIGINT, BLOB, TEXT, bytes, exactly, optional, ordinary, stands_for};

/// The functions of this file.
pub(in crate::functions) static BASES: &[FunctionSpec] = &[
    FunctionSpec {
        name: "hex",
        signature: digits_kinds,
        kernel: |arguments, _, rows| digits(arguments, rows, "hex", DigitForm { bits: 4 }),
        doc: "An integer, or the bytes of a text or a BLOB, in hexadecimal digits; a negative integer as its 64 bits.",
        example: ("hex(255)", "FF"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "bin",
        aliases: &["to_binary"],
        signature: digits_kinds,
        kernel: |arguments, _, rows| digits(arguments, rows, "bin", DigitForm { bits: 1 }),
        doc: "An integer, or the bytes of a text or a BLOB, in binary digits; a negative integer as its 64 bits.",
        example: ("bin(10)", "1010"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "unhex",
        aliases: &["from_hex"],
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT], BLOB),
        kernel: |arguments, _, rows| {
            let values = TextArgument::new(&arguments[0]);
            blobs(arguments, rows, |row, made| {
                let text = values.at(row);
                // A digit that is alone is the last one of a byte.
                match text.len() % 2 {
                    0 => decode_hex(text.as_bytes(), made),
                    _ => decode_hex(format!("0{text}").as_bytes(), made),
                }
            })
        },
        doc: "The bytes of a text of hexadecimal digits.",
        example: ("unhex('6d696c6c')", "\\x6d696c6c"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "unbin",
        aliases: &["from_binary"],
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT], BLOB),
        kernel: unbin,
        doc: "The bytes of a text of binary digits.",
        example: ("unbin('1101101')", "\\x6d"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "to_base",
        can_fail: true,
        signature: |arguments| optional(arguments, 2, &[BIGINT, BIGINT, BIGINT], TEXT),
        kernel: to_base,
        doc: "An integer from 0 on in digits of a base from 2 to 36, with at least as many digits as the last argument \
              says.",
        example: ("to_base(42, 16, 4)", "002A"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "base64",
        aliases: &["to_base64"],
        signature: |arguments| bytes(arguments, &[], TEXT),
        kernel: |arguments, _, rows| {
            let values = BytesArgument::new(&arguments[0]);
            texts("base64", arguments, rows, |row, made| {
                let bytes = values.at(row);
                made.reserve(bytes.len() as u128 * 4 / 3 + 4)?;
                BASE64_PADDED.encode_string(bytes, made.text());
                Ok(())
            })
        },
        doc: "The bytes of a text or a BLOB to base 64.",
        example: ("base64('mill')", "bWlsbA=="),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "from_base64",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT], BLOB),
        kernel: |arguments, _, rows| {
            let values = TextArgument::new(&arguments[0]);
            blobs(arguments, rows, |row, made| decode_base64(values.at(row).as_bytes(), made))
        },
        doc: "The bytes of a text to base 64.",
        example: ("from_base64('bWlsbA==')", "\\x6d696c6c"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "url_encode",
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: url_encode,
        doc: "The text with every byte that an address cannot have written as % and two hexadecimal digits.",
        example: ("url_encode('a mill')", "a%20mill"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "url_decode",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: url_decode,
        doc: "The text with every % and two hexadecimal digits replaced by the byte.",
        example: ("url_decode('a%20mill')", "a mill"),
        ..ordinary("hash")
    },
];

/// Accepts an integer, or a text or a BLOB without a cast.
fn digits_kinds(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    match arguments {
        [value] if *value.kind == DataType::UInt64 => exactly(arguments, &[DataType::UInt64], TEXT),
        [value] if value.kind.is_integer() && stands_for(value, &BIGINT) => exactly(arguments, &[BIGINT], TEXT),
        _ => bytes(arguments, &[], TEXT),
    }
}

/// Digits of a base that is a power of two.
#[derive(Clone, Copy)]
struct DigitForm {
    /// The bits of a digit.
    bits: u32,
}

impl DigitForm {
    /// Writes a number without zeros at its beginning.
    fn number(self, number: u64, made: &mut RowText) -> Result<()> {
        made.reserve(64)?;
        let written = match self.bits {
            1 => write!(made.text(), "{number:b}"),
            _ => write!(made.text(), "{number:X}"),
        };
        written.expect("writing to a String does not fail");
        Ok(())
    }

    /// Writes all digits of each byte.
    fn bytes(self, bytes: &[u8], made: &mut RowText) -> Result<()> {
        made.reserve(bytes.len() as u128 * u128::from(8 / self.bits))?;
        for byte in bytes {
            let written = match self.bits {
                1 => write!(made.text(), "{byte:08b}"),
                _ => write!(made.text(), "{byte:02X}"),
            };
            written.expect("writing to a String does not fail");
        }
        Ok(())
    }
}

fn digits(arguments: &[Operand], rows: usize, function: &'static str, form: DigitForm) -> Result<ArrayRef> {
    match arguments[0].values.data_type() {
        DataType::UInt64 => {
            let numbers = NumberArgument::new::<UInt64Type>(&arguments[0]);
            texts(function, arguments, rows, |row, made| form.number(numbers.at(row), made))
        }
        DataType::Int64 => {
            let numbers = bigints(&arguments[0]);
            texts(function, arguments, rows, |row, made| form.number(numbers.at(row) as u64, made))
        }
        _ => {
            let values = BytesArgument::new(&arguments[0]);
            texts(function, arguments, rows, |row, made| form.bytes(values.at(row), made))
        }
    }
}

fn unbin(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = TextArgument::new(&arguments[0]);
    blobs(arguments, rows, |row, made| {
        let text = values.at(row);
        if let Some(other) = text.chars().find(|digit| !matches!(digit, '0' | '1')) {
            return Err(Error::new(ErrorKind::InvalidText, format!("unbin: '{other}' is not a binary digit")));
        }
        // The first byte has the digits that are left over.
        let (first, rest) = text.as_bytes().split_at(text.len() % 8);
        let byte = |digits: &[u8]| digits.iter().fold(0, |byte, digit| byte << 1 | (digit - b'0'));
        made.extend((!first.is_empty()).then(|| byte(first)));
        made.extend(rest.chunks_exact(8).map(byte));
        Ok(())
    })
}

fn to_base(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    const DIGITS_MAX: i64 = 64;
    let (numbers, bases) = (bigints(&arguments[0]), bigints(&arguments[1]));
    let lengths = arguments.get(2).map(bigints);
    let refused = |why: String| Err(Error::new(ErrorKind::InvalidParameter, format!("to_base: {why}")));
    texts("to_base", arguments, rows, |row, made| {
        let (mut number, base) = (numbers.at(row), bases.at(row));
        let length = lengths.map_or(0, |lengths| lengths.at(row));
        if number < 0 {
            return refused(format!("the number must not be negative: {number}"));
        }
        if !(2..=36).contains(&base) {
            return refused(format!("the base must be from 2 to 36: {base}"));
        }
        if !(0..=DIGITS_MAX).contains(&length) {
            return refused(format!("the number of digits must be from 0 to {DIGITS_MAX}: {length}"));
        }
        let mut digits = Vec::new();
        while number > 0 || digits.is_empty() || (digits.len() as i64) < length {
            let digit = char::from_digit((number % base) as u32, base as u32).expect("the digit is below the base");
            digits.push(digit.to_ascii_uppercase());
            number /= base;
        }
        digits.iter().rev().try_for_each(|digit| made.push_char(*digit))
    })
}

fn url_encode(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = TextArgument::new(&arguments[0]);
    texts("url_encode", arguments, rows, |row, made| {
        let text = values.at(row);
        made.reserve(text.len() as u128 * 3)?;
        for byte in text.bytes() {
            let written = match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    made.text().write_char(char::from(byte))
                }
                _ => write!(made.text(), "%{byte:02X}"),
            };
            written.expect("writing to a String does not fail");
        }
        Ok(())
    })
}

fn url_decode(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = arguments[0].values.as_string_view();
    texts("url_decode", arguments, rows, |row, made| {
        let text = values.value(arguments[0].at(row)).as_bytes();
        let mut decoded = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let digits = text.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            match digits.filter(|_| text[at] == b'%') {
                Some(digits) => {
                    decode_hex(digits, &mut decoded)?;
                    at += 3;
                }
                // A percent sign without two digits stays.
                None => {
                    decoded.push(text[at]);
                    at += 1;
                }
            }
        }
        match std::str::from_utf8(&decoded) {
            Ok(decoded) => made.push(decoded),
            Err(_) => Err(Error::new(ErrorKind::InvalidText, "url_decode: the decoded bytes are not UTF-8")),
        }
    })
}
