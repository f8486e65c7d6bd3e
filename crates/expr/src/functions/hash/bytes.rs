//! Single bytes and bits of BLOBs, conversions between BLOBs and texts, and hashes as numbers.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type, UInt64Type, i256};
use md5::{Digest as _, Md5};
use rowmill_base::{Error, ErrorKind, Result, decimal_arrow};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::encoding::push_hex;
use crate::functions::list::keys::keys_of;
use crate::functions::rowwise::{BytesArgument, TextArgument, bigints, blobs, numbers, texts};
use crate::functions::signatures::{BIGINT, BLOB, INTEGER, TEXT, bytes, exactly, ordinary};
use crate::functions::time::columns::{primitive, unary};
use crate::kinds::arrow_failed;

/// The functions of this file.
pub(in crate::functions) static BYTES: &[FunctionSpec] = &[
    FunctionSpec {
        name: "get_byte",
        can_fail: true,
        signature: |arguments| bytes_of_blob(arguments, &[BIGINT], INTEGER),
        kernel: |arguments, kind, rows| {
            let (values, places) = (BytesArgument::new(&arguments[0]), bigints(&arguments[1]));
            numbers::<Int32Type>(arguments, kind, rows, |row| {
                let bytes = values.at(row);
                Ok(i32::from(bytes[place_in(places.at(row), bytes.len(), "byte")?]))
            })
        },
        doc: "The byte of a BLOB at a place, counted from 0.",
        example: ("get_byte(X'0a0b', 1)", "11"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "set_byte",
        can_fail: true,
        signature: |arguments| bytes_of_blob(arguments, &[BIGINT, BIGINT], BLOB),
        kernel: |arguments, _, rows| {
            let values = BytesArgument::new(&arguments[0]);
            let (places, bytes) = (bigints(&arguments[1]), bigints(&arguments[2]));
            blobs(arguments, rows, |row, made| {
                made.extend_from_slice(values.at(row));
                let place = place_in(places.at(row), made.len(), "byte")?;
                // Only the lowest eight bits of the number are used, as in PostgreSQL.
                made[place] = bytes.at(row) as u8;
                Ok(())
            })
        },
        doc: "The BLOB with another byte at a place, counted from 0.",
        example: ("set_byte(X'0a0b', 1, 255)", "\\x0aff"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "get_bit",
        can_fail: true,
        signature: |arguments| bytes_of_blob(arguments, &[BIGINT], INTEGER),
        kernel: |arguments, kind, rows| {
            let (values, places) = (BytesArgument::new(&arguments[0]), bigints(&arguments[1]));
            numbers::<Int32Type>(arguments, kind, rows, |row| {
                let bytes = values.at(row);
                let place = place_in(places.at(row), bytes.len() * 8, "bit")?;
                Ok(i32::from(bytes[place / 8] >> (place % 8) & 1))
            })
        },
        doc: "The bit of a BLOB at a place, counted from 0 at the lowest bit of the first byte.",
        example: ("get_bit(X'02', 1)", "1"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "set_bit",
        can_fail: true,
        signature: |arguments| bytes_of_blob(arguments, &[BIGINT, BIGINT], BLOB),
        kernel: set_bit,
        doc: "The BLOB with another bit at a place, counted from 0 at the lowest bit of the first byte.",
        example: ("set_bit(X'02', 0, 1)", "\\x03"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "convert_from",
        can_fail: true,
        signature: |arguments| bytes_of_blob(arguments, &[TEXT], TEXT),
        kernel: |arguments, _, rows| {
            let (values, names) = (BytesArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
            texts("convert_from", arguments, rows, |row, made| {
                made.push(&TextEncoding::named(names.at(row))?.text(values.at(row))?)
            })
        },
        doc: "The text of bytes in an encoding: UTF8, LATIN1 or SQL_ASCII.",
        example: ("convert_from(X'e4', 'LATIN1')", "ä"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "convert_to",
        can_fail: true,
        signature: |arguments| exactly(arguments, &[TEXT, TEXT], BLOB),
        kernel: |arguments, _, rows| {
            let (values, names) = (TextArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
            blobs(arguments, rows, |row, made| TextEncoding::named(names.at(row))?.bytes(values.at(row), made))
        },
        doc: "The bytes of a text in an encoding: UTF8, LATIN1 or SQL_ASCII.",
        example: ("convert_to('ä', 'LATIN1')", "\\xe4"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "sha1",
        signature: |arguments| bytes(arguments, &[], TEXT),
        kernel: |arguments, _, rows| {
            let values = BytesArgument::new(&arguments[0]);
            texts("sha1", arguments, rows, |row, made| {
                push_hex(&sha1::Sha1::digest(values.at(row)), made.text());
                Ok(())
            })
        },
        doc: "The SHA-1 hash of a text or a BLOB, in hexadecimal digits.",
        example: ("sha1('a')", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "md5_number",
        signature: |arguments| bytes(arguments, &[], md5_kind()),
        kernel: |arguments, kind, rows| {
            let values = BytesArgument::new(&arguments[0]);
            numbers::<arrow::datatypes::Decimal256Type>(arguments, kind, rows, |row| {
                let words = md5_words(values.at(row));
                let high = i256::from_i128(i128::from(words[1])) << 64_u8;
                Ok(high | i256::from_i128(i128::from(words[0])))
            })
        },
        doc: "The MD5 hash of a text or a BLOB as a number of 128 bits. Its first byte is the lowest one.",
        example: ("md5_number('a')", "129134844867590561315626153795017621772"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "md5_number_lower",
        signature: |arguments| bytes(arguments, &[], DataType::UInt64),
        kernel: |arguments, kind, rows| {
            let values = BytesArgument::new(&arguments[0]);
            numbers::<UInt64Type>(arguments, kind, rows, |row| Ok(md5_words(values.at(row))[1]))
        },
        doc: "The last eight bytes of the MD5 hash of a text or a BLOB as a number.",
        example: ("md5_number_lower('a')", "7000413967451013937"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "md5_number_upper",
        signature: |arguments| bytes(arguments, &[], DataType::UInt64),
        kernel: |arguments, kind, rows| {
            let values = BytesArgument::new(&arguments[0]);
            numbers::<UInt64Type>(arguments, kind, rows, |row| Ok(md5_words(values.at(row))[0]))
        },
        doc: "The first eight bytes of the MD5 hash of a text or a BLOB as a number.",
        example: ("md5_number_upper('a')", "12157170054180749580"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "hash",
        strict: false,
        signature: |arguments| {
            let kinds: Vec<DataType> = arguments.iter().map(|argument| argument.kind.clone()).collect();
            (!kinds.is_empty()).then_some(CallKinds { arguments: kinds, result: DataType::UInt64 })
        },
        kernel: hash_all,
        doc: "A number that is equal for equal values, and rarely for others. It may change between versions.",
        example: ("hash('mill') = hash('mill')", "true"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "bit_count",
        signature: |arguments| match arguments {
            [value] if value.kind.is_integer() => {
                Some(CallKinds { arguments: vec![value.kind.clone()], result: BIGINT })
            }
            _ => bytes_of_blob(arguments, &[], BIGINT),
        },
        kernel: bit_count,
        doc: "The number of bits of an integer or a BLOB that are set.",
        example: ("bit_count(7)", "3"),
        ..ordinary("hash")
    },
];

/// The type of the number of an MD5 hash.
fn md5_kind() -> DataType {
    const DIGITS: u8 = 39;
    decimal_arrow(DIGITS, 0)
}

/// Accepts a BLOB and further parameters.
fn bytes_of_blob(arguments: &[ArgumentKind<'_>], further: &[DataType], result: DataType) -> Option<CallKinds> {
    exactly(arguments, &[&[BLOB], further].concat(), result)
}

fn place_in(place: i64, length: usize, what: &str) -> Result<usize> {
    let found = usize::try_from(place).ok().filter(|place| *place < length);
    found.ok_or_else(|| {
        let message = format!("there is no {what} {place} in a BLOB of {length} {what}s");
        Error::new(ErrorKind::InvalidParameter, message)
    })
}

fn set_bit(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = BytesArgument::new(&arguments[0]);
    let (places, bits) = (bigints(&arguments[1]), bigints(&arguments[2]));
    blobs(arguments, rows, |row, made| {
        made.extend_from_slice(values.at(row));
        let place = place_in(places.at(row), made.len() * 8, "bit")?;
        let mask = 1 << (place % 8);
        match bits.at(row) {
            0 => made[place / 8] &= !mask,
            1 => made[place / 8] |= mask,
            other => return Err(Error::new(ErrorKind::InvalidParameter, format!("a bit is 0 or 1, not {other}"))),
        }
        Ok(())
    })
}

/// Returns the hash as two words. Bytes come from the lowest one on.
fn md5_words(bytes: &[u8]) -> [u64; 2] {
    let digest = Md5::digest(bytes);
    let (words, _) = digest.as_slice().as_chunks::<8>();
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
}

fn hash_all(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let mut keys = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let [of] = keys_of([&argument.values])?;
        keys.push(of);
    }
    let hashes = (0..rows).map(|row| {
        // This hasher has a fixed seed, so that a hash is the same in every process.
        let mut hasher = DefaultHasher::new();
        for (argument, keys) in arguments.iter().zip(&keys) {
            hasher.write(keys.row(argument.at(row)).data());
        }
        hasher.finish()
    });
    primitive(kind, hashes.collect::<Vec<u64>>(), None)
}

fn bit_count(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let given = arguments[0].values.data_type().clone();
    if given == BLOB {
        let values = BytesArgument::new(&arguments[0]);
        return numbers::<Int64Type>(arguments, kind, rows, |row| {
            Ok(values.at(row).iter().map(|byte| i64::from(byte.count_ones())).sum())
        });
    }
    let bits = given.primitive_width().unwrap_or(8) * 8;
    let is_signed = given.is_signed_integer();
    let wide = if is_signed { BIGINT } else { DataType::UInt64 };
    // A negative number of a narrow type has only the bits of its type.
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let count = |value: u64| i64::from((value & mask).count_ones());
    unary(&arguments[0], rows, |values| {
        let values = cast(values, &wide).map_err(arrow_failed)?;
        let counts: Int64Array = match is_signed {
            true => values.as_primitive::<Int64Type>().unary(|value| count(value as u64)),
            false => values.as_primitive::<UInt64Type>().unary(count),
        };
        Ok(Arc::new(counts.with_data_type(kind.clone())))
    })
}

/// An encoding of texts.
#[derive(Clone, Copy)]
enum TextEncoding {
    Utf8,
    Latin1,
    Ascii,
}

impl TextEncoding {
    fn named(name: &str) -> Result<TextEncoding> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        Ok(match plain.to_ascii_lowercase().as_str() {
            "utf8" | "unicode" => TextEncoding::Utf8,
            "latin1" | "iso88591" => TextEncoding::Latin1,
            "sqlascii" | "ascii" => TextEncoding::Ascii,
            _ => {
                let name: String = name.chars().take(60).collect();
                let error = Error::new(ErrorKind::InvalidParameter, format!("'{name}' is not a known encoding"));
                return Err(error.hint("the encodings are UTF8, LATIN1 and SQL_ASCII"));
            }
        })
    }

    fn text(self, bytes: &[u8]) -> Result<String> {
        match self {
            TextEncoding::Utf8 => Ok(std::str::from_utf8(bytes).map_err(|_| not_encoded("UTF8"))?.to_owned()),
            TextEncoding::Latin1 => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
            TextEncoding::Ascii if bytes.is_ascii() => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
            TextEncoding::Ascii => Err(not_encoded("SQL_ASCII")),
        }
    }

    fn bytes(self, text: &str, made: &mut Vec<u8>) -> Result<()> {
        let last = match self {
            TextEncoding::Utf8 => {
                made.extend_from_slice(text.as_bytes());
                return Ok(());
            }
            TextEncoding::Latin1 => 0xff,
            TextEncoding::Ascii => 0x7f,
        };
        for char in text.chars() {
            let byte = u8::try_from(u32::from(char)).ok().filter(|byte| *byte <= last);
            made.push(byte.ok_or_else(|| {
                Error::new(ErrorKind::InvalidText, format!("the encoding does not have the character '{char}'"))
            })?);
        }
        Ok(())
    }
}

fn not_encoded(name: &str) -> Error {
    Error::new(ErrorKind::InvalidText, format!("the bytes are not a text in the encoding {name}"))
}
