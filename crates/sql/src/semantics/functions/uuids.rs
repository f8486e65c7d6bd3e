//! UUIDs: sixteen bytes that read and print as text.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, ScalarUDF, Signature, Volatility};
use rowmill_base::{Error, ErrorKind, Result};

use super::Function;

const BYTES: i32 = 16;

/// The UUID that the text `expr` is.
pub(in crate::semantics) fn uuid_of_text(expr: Expr) -> Expr {
    Function::new("uuid_of_text", |_| Some(DataType::FixedSizeBinary(BYTES)), |columns, _| parse_all(columns, false))
        .call(vec![expr])
}

/// The UUID that the text `expr` is, or NULL.
pub(in crate::semantics) fn try_uuid_of_text(expr: Expr) -> Expr {
    Function::new("try_uuid_of_text", |_| Some(DataType::FixedSizeBinary(BYTES)), |columns, _| parse_all(columns, true))
        .call(vec![expr])
}

/// The text of the UUID `expr`.
pub(in crate::semantics) fn text_of_uuid(expr: Expr) -> Expr {
    Function::new("text_of_uuid", |_| Some(DataType::Utf8View), print_all).call(vec![expr])
}

/// `uuid()`, also called `gen_random_uuid()`: a random UUID per row.
pub(super) fn random() -> Arc<ScalarUDF> {
    let mut function = Function::new("uuid", |_| Some(DataType::FixedSizeBinary(BYTES)), |_, rows| make_all(rows));
    function.signature = Signature::nullary(Volatility::Volatile);
    function.aliases = vec!["gen_random_uuid".into()];
    Arc::new(ScalarUDF::from(function))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}

fn parse_all(columns: &[ArrayRef], is_try: bool) -> Result<ArrayRef> {
    let texts = cast(&columns[0], &DataType::Utf8View).map_err(failed)?;
    let mut uuids = FixedSizeBinaryBuilder::with_capacity(texts.len(), BYTES);
    for text in texts.as_string_view().iter() {
        match text.map(|text| (text, parse(text))) {
            Some((_, Some(uuid))) => uuids.append_value(uuid).map_err(failed)?,
            Some((text, None)) if !is_try => {
                let text: String = text.chars().take(60).collect();
                return Err(Error::new(ErrorKind::InvalidText, format!("'{text}' is not a value of type UUID"))
                    .hint("a UUID has 32 hexadecimal digits, such as 2f1d3c4e-0000-4000-8000-00000000abcd"));
            }
            _ => uuids.append_null(),
        }
    }
    Ok(Arc::new(uuids.finish()))
}

/// 32 hexadecimal digits in either case; a hyphen may follow every four; braces may stand around all.
fn parse(text: &str) -> Option<[u8; 16]> {
    let text = text.trim();
    let text = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'))?;
    let mut uuid = [0; 16];
    let mut digits = 0;
    for byte in text.bytes() {
        if byte == b'-' && digits > 0 && digits < 32 && digits % 4 == 0 {
            continue;
        }
        let digit = (byte as char).to_digit(16)? as u8;
        *uuid.get_mut(digits / 2)? |= if digits % 2 == 0 { digit << 4 } else { digit };
        digits += 1;
    }
    (digits == 32 && !text.contains("--")).then_some(uuid)
}

fn print_all(columns: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let texts: StringViewArray = columns[0].as_fixed_size_binary().iter().map(|uuid| uuid.map(print)).collect();
    Ok(Arc::new(texts))
}

fn print(uuid: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Random UUIDs (version 4): a keyed hash of the row, under a key from the system's randomness.
fn make_all(rows: usize) -> Result<ArrayRef> {
    let key = RandomState::new();
    let mut uuids = FixedSizeBinaryBuilder::with_capacity(rows, BYTES);
    for row in 0..rows {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&key.hash_one((row, 0_u8)).to_le_bytes());
        uuid[8..].copy_from_slice(&key.hash_one((row, 1_u8)).to_le_bytes());
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuids.append_value(uuid).map_err(failed)?;
    }
    Ok(Arc::new(uuids.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_several_forms_are_read_and_one_is_printed() {
        let uuid = parse("2f1d3c4e-0000-4000-8000-00000000ABCD").expect("a UUID");
        assert_eq!(print(&uuid), "2f1d3c4e-0000-4000-8000-00000000abcd");
        assert_eq!(parse("{2f1d3c4e000040008000 00000000abcd}"), None);
        assert_eq!(parse("2f1d3c4e00004000800000000000abcd"), Some(uuid));
        assert_eq!(parse("{2f1d3c4e-0000-4000-8000-00000000abcd}"), Some(uuid));
        for bad in ["", "2f1d", "2f1d3c4e-0000-4000-8000-00000000abcg", "2f1d3c4e-0000-4000-8000-00000000abcdef"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
