//! Forms of Unicode: composed and decomposed texts, and texts without accents.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int32Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{FunctionSpec, Operand};
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfd, is_nfkc, is_nfkd};

use crate::functions::rowwise::{TextArgument, numbers, texts};
use crate::functions::signatures::{BOOLEAN, INTEGER, TEXT, exactly, optional, ordinary};

/// The functions of this file.
pub(in crate::functions) static UNICODE: &[FunctionSpec] = &[
    FunctionSpec {
        name: "unicode",
        aliases: &["ord"],
        signature: |arguments| exactly(arguments, &[TEXT], INTEGER),
        kernel: code_point,
        doc: "The number in Unicode of the first character of a text, -1 for the empty text.",
        example: ("unicode('мир')", "1084"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "strip_accents",
        aliases: &["unaccent"],
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: strip_accents,
        doc: "The text without the accents of its letters.",
        example: ("strip_accents('Mühle')", "Muhle"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "normalize",
        can_fail: true,
        signature: |arguments| optional(arguments, 1, &[TEXT, TEXT], TEXT),
        kernel: normalize,
        doc: "The text in a form of Unicode: NFC, NFD, NFKC or NFKD; NFC if none is given.",
        example: ("octet_length(normalize('ü', 'NFD'))", "3"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "nfc_normalize",
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: normalize,
        doc: "The text in the form NFC of Unicode, in which letters and their accents are one character \
          where that exists.",
        example: ("nfc_normalize('Mühle')", "Mühle"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "is_normalized",
        can_fail: true,
        signature: |arguments| optional(arguments, 1, &[TEXT, TEXT], BOOLEAN),
        kernel: is_normalized,
        doc: "Whether the text is in a form of Unicode: NFC, NFD, NFKC or NFKD; NFC if none is given.",
        example: ("is_normalized('Mühle', 'NFD')", "false"),
        ..ordinary("text")
    },
    FunctionSpec {
        name: "unistr",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT], TEXT),
        kernel: unistr,
        doc: "The text with escapes of characters, such as \\0441 or \\+01F600, replaced by the characters.",
        example: ("unistr('d\\0061t\\+000061')", "data"),
        ..ordinary("text")
    },
];

pub(super) fn code_point(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let texts = TextArgument::new(&arguments[0]);
    numbers::<Int32Type>(arguments, kind, rows, |row| Ok(texts.at(row).chars().next().map_or(-1, |char| char as i32)))
}

pub(super) fn strip_accents(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = TextArgument::new(&arguments[0]);
    texts("strip_accents", arguments, rows, |row, made| {
        let text = values.at(row);
        match text.is_ascii() {
            true => made.push(text),
            false => text.nfd().filter(|char| !is_combining_mark(*char)).try_for_each(|char| made.push_char(char)),
        }
    })
}

/// The forms of `normalize`.
#[derive(Clone, Copy)]
enum UnicodeForm {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl UnicodeForm {
    fn named(name: &str) -> Result<UnicodeForm> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "nfc" => UnicodeForm::Nfc,
            "nfd" => UnicodeForm::Nfd,
            "nfkc" => UnicodeForm::Nfkc,
            "nfkd" => UnicodeForm::Nfkd,
            _ => {
                let name: String = name.chars().take(60).collect();
                let error = Error::new(ErrorKind::InvalidParameter, format!("'{name}' is not a form of Unicode"));
                return Err(error.hint("the forms are NFC, NFD, NFKC and NFKD"));
            }
        })
    }

    /// Returns the form of a row, which is NFC if the call has none.
    fn of(forms: Option<TextArgument<'_>>, row: usize) -> Result<UnicodeForm> {
        forms.map_or(Ok(UnicodeForm::Nfc), |forms| UnicodeForm::named(forms.at(row)))
    }
}

pub(super) fn normalize(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (values, forms) = (TextArgument::new(&arguments[0]), arguments.get(1).map(TextArgument::new));
    texts("normalize", arguments, rows, |row, made| {
        let text = values.at(row);
        match UnicodeForm::of(forms, row)? {
            UnicodeForm::Nfc => text.nfc().try_for_each(|char| made.push_char(char)),
            UnicodeForm::Nfd => text.nfd().try_for_each(|char| made.push_char(char)),
            UnicodeForm::Nfkc => text.nfkc().try_for_each(|char| made.push_char(char)),
            UnicodeForm::Nfkd => text.nfkd().try_for_each(|char| made.push_char(char)),
        }
    })
}

pub(super) fn is_normalized(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (values, forms) = (TextArgument::new(&arguments[0]), arguments.get(1).map(TextArgument::new));
    crate::functions::rowwise::fallible_booleans(arguments, kind, rows, |row| {
        let text = values.at(row);
        Ok(match UnicodeForm::of(forms, row)? {
            UnicodeForm::Nfc => is_nfc(text),
            UnicodeForm::Nfd => is_nfd(text),
            UnicodeForm::Nfkc => is_nfkc(text),
            UnicodeForm::Nfkd => is_nfkd(text),
        })
    })
}

/// `unistr`: a text with escapes of characters, such as `\0441` or `\+01F600`.
pub(super) fn unistr(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = TextArgument::new(&arguments[0]);
    texts("unistr", arguments, rows, |row, made| {
        let mut rest = values.at(row);
        // The first half of a pair of UTF-16 waits for the second one.
        let mut half: Option<u16> = None;
        while let Some((plain, escape)) = rest.split_once('\\') {
            if half.is_some() && !plain.is_empty() {
                return Err(no_escape(rest));
            }
            made.push(plain)?;
            if let Some(after) = escape.strip_prefix('\\') {
                made.push("\\")?;
                rest = after;
                continue;
            }
            let (number, after) = escaped_number(escape).ok_or_else(|| no_escape(escape))?;
            rest = after;
            half = match (half, u16::try_from(number)) {
                (None, Ok(first @ 0xd800..=0xdbff)) => Some(first),
                (Some(first), Ok(second)) => {
                    let char = char::decode_utf16([first, second]).next().and_then(Result::ok);
                    made.push_char(char.ok_or_else(|| no_escape(escape))?)?;
                    None
                }
                (None, _) => {
                    made.push_char(char::from_u32(number).ok_or_else(|| no_escape(escape))?)?;
                    None
                }
                (Some(_), Err(_)) => return Err(no_escape(escape)),
            };
        }
        if half.is_some() {
            return Err(no_escape(rest));
        }
        made.push(rest)
    })
}

/// Reads the number after a backslash: four digits, or a letter with more digits. Returns the text after it.
fn escaped_number(escape: &str) -> Option<(u32, &str)> {
    let (start, digits) = match escape.chars().next()? {
        '+' => (1, 6),
        'u' => (1, 4),
        'U' => (1, 8),
        _ => (0, 4),
    };
    let text = escape.get(start..start + digits)?;
    let is_number = text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u32::from_str_radix(text, 16).ok().filter(|_| is_number)?;
    Some((number, &escape[start + digits..]))
}

fn no_escape(escape: &str) -> Error {
    let escape: String = escape.chars().take(20).collect();
    Error::new(ErrorKind::InvalidText, format!("unistr: '\\{escape}' is not an escape of a character"))
        .hint("an escape is \\XXXX, \\+XXXXXX, \\uXXXX or \\UXXXXXXXX with hexadecimal digits, and \\\\ a backslash")
}
