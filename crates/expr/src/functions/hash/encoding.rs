//! Bytes as text, in hexadecimal digits or base 64.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;

use crate::functions::rowwise::{BytesArgument, TextArgument, blobs, texts};

/// Base 64 that is written without `=` at the end. Both variants can read texts with and without it.
const BASE64: GeneralPurpose = base64(false);

/// Base 64 that is written with `=` at the end.
pub(super) const BASE64_PADDED: GeneralPurpose = base64(true);

const fn base64(is_padded: bool) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_encode_padding(is_padded)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&STANDARD, config)
}

pub(super) fn encode(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if arguments.len() == 1 {
        let values = TextArgument::new(&arguments[0]);
        return blobs(arguments, rows, |row, made| {
            made.extend_from_slice(values.at(row).as_bytes());
            Ok(())
        });
    }
    let (values, forms) = (BytesArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let constant = forms.constant().map(ByteForm::named).transpose()?;
    texts("encode", arguments, rows, |row, made| {
        let bytes = values.at(row);
        // The longest form has two digits per byte. We reserve before we write, so that the limit is checked first.
        made.reserve(bytes.len() as u128 * 2)?;
        match constant.map_or_else(|| ByteForm::named(forms.at(row)), Ok)? {
            ByteForm::Hex => push_hex(bytes, made.text()),
            ByteForm::Base64 => BASE64.encode_string(bytes, made.text()),
            ByteForm::Base64Padded => BASE64_PADDED.encode_string(bytes, made.text()),
        }
        Ok(())
    })
}

pub(super) fn decode(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    if arguments.len() == 1 {
        let values = BytesArgument::new(&arguments[0]);
        return texts("decode", arguments, rows, |row, made| match std::str::from_utf8(values.at(row)) {
            Ok(text) => made.push(text),
            Err(_) => Err(Error::new(ErrorKind::InvalidText, "decode: the bytes are not a text in UTF-8")),
        });
    }
    let (values, forms) = (BytesArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let constant = forms.constant().map(ByteForm::named).transpose()?;
    blobs(arguments, rows, |row, made| {
        let text = values.at(row);
        match constant.map_or_else(|| ByteForm::named(forms.at(row)), Ok)? {
            ByteForm::Hex => decode_hex(text, made),
            ByteForm::Base64 | ByteForm::Base64Padded => decode_base64(text, made),
        }
    })
}

/// Appends the bytes of a text to base 64.
pub(super) fn decode_base64(text: &[u8], made: &mut Vec<u8>) -> Result<()> {
    BASE64.decode_vec(text, made).map_err(|error| undecodable(text, "base64", &error.to_string()))
}

/// The forms of `encode` and `decode`.
#[derive(Clone, Copy, Debug)]
enum ByteForm {
    Hex,
    Base64,
    Base64Padded,
}

impl ByteForm {
    fn named(name: &str) -> Result<ByteForm> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "hex" => ByteForm::Hex,
            "base64" => ByteForm::Base64,
            "base64pad" => ByteForm::Base64Padded,
            _ => {
                let name: String = name.chars().take(60).collect();
                let error = Error::new(ErrorKind::InvalidParameter, format!("'{name}' is not a form of bytes"));
                return Err(error.hint("the forms are hex, base64 and base64pad"));
            }
        })
    }
}

/// Appends two hexadecimal digits for each byte.
pub(super) fn push_hex(bytes: &[u8], made: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    made.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

pub(super) fn decode_hex(text: &[u8], made: &mut Vec<u8>) -> Result<()> {
    // Two digits make a byte.
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(undecodable(text, "hex", "the number of digits is odd"));
    }
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    for &[high, low] in pairs {
        match digit(high).zip(digit(low)) {
            Some((high, low)) => made.push(high << 4 | low),
            None => return Err(undecodable(text, "hex", "only 0 to 9 and a to f are digits")),
        }
    }
    Ok(())
}

fn undecodable(text: &[u8], form: &str, why: &str) -> Error {
    let text: String = String::from_utf8_lossy(text).chars().take(60).collect();
    Error::new(ErrorKind::InvalidText, format!("'{text}' is not {form}: {why}"))
}
