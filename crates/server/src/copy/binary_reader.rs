//! The binary format of COPY, turned into CSV that the engine reads.
//!
//! ```text
//! PGCOPY⏎ÿ␍⏎␀ │ flags │ length of an extension │ rows: fields, then length and value of each │ -1
//!      11         4              4                       2              4                        2
//! ```

use bytes::{Buf, Bytes, BytesMut};
use rowmill::arrow::array::{ArrayRef, TimestampMicrosecondArray};
use rowmill::text::format_value;
use std::sync::Arc;

use super::text_reader::{NULL, put_value};
use crate::decode::{BoundValue, decode};
use crate::encode::WireFormat;
use crate::wire_error::WireError;
use rowmill::pg_types::PgType;

/// What begins the data: the signature, no flags, no extension.
pub(super) const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What ends the data.
pub(super) const TRAILER: &[u8] = b"\xff\xff";

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The most bytes of a row.
const ROW_BYTES_MAX: usize = 64 << 20;

/// Reads rows that arrive in pieces.
pub(super) struct BinaryCopyReader {
    kinds: Vec<PgType>,
    partial: BytesMut,
    has_header: bool,
    rows: u64,
    is_over: bool,
}

impl BinaryCopyReader {
    pub(super) fn new(kinds: Vec<PgType>) -> BinaryCopyReader {
        BinaryCopyReader { kinds, partial: BytesMut::new(), has_header: false, rows: 0, is_over: false }
    }

    /// Takes the next piece of the data and appends its whole rows as CSV to `csv`.
    pub(super) fn push(&mut self, piece: &[u8], csv: &mut Vec<u8>) -> Result<(), WireError> {
        if self.is_over {
            return Ok(());
        }
        self.partial.extend_from_slice(piece);
        if !self.has_header && !self.take_header()? {
            return Ok(());
        }
        while !self.is_over && self.take_row(csv)? {}
        match self.partial.len() > ROW_BYTES_MAX {
            true => Err(self.wrong(format_args!("a row is longer than {ROW_BYTES_MAX} bytes"))),
            false => Ok(()),
        }
    }

    /// Checks that the data has ended.
    pub(super) fn finish(&mut self) -> Result<(), WireError> {
        match self.is_over || (self.has_header && self.partial.is_empty()) {
            true => Ok(()),
            false => Err(self.wrong("the data ends too early")),
        }
    }

    fn wrong(&self, what: impl std::fmt::Display) -> WireError {
        WireError::new("22P04", format!("COPY, row {}: {what}", self.rows + 1))
    }

    /// Takes the header. Returns `false` if it has not arrived completely.
    fn take_header(&mut self) -> Result<bool, WireError> {
        let known = self.partial.len().min(SIGNATURE.len());
        if self.partial[..known] != SIGNATURE[..known] {
            return Err(WireError::new("22P04", "the data has no signature of COPY's binary format"));
        }
        let Some(mut rest) = self.partial.get(SIGNATURE.len()..SIGNATURE.len() + 8) else { return Ok(false) };
        if rest.get_u32() & 0xffff_0000 != 0 {
            return Err(WireError::new("22P04", "the header of COPY's binary format has unknown critical flags"));
        }
        let length = SIGNATURE.len() + 8 + rest.get_u32() as usize;
        if length > ROW_BYTES_MAX {
            return Err(WireError::new("22P04", "the header of COPY's binary format is too long"));
        }
        if self.partial.len() < length {
            return Ok(false);
        }
        self.partial.advance(length);
        self.has_header = true;
        Ok(true)
    }

    /// Takes a row. Returns `false` if it has not arrived completely.
    fn take_row(&mut self, csv: &mut Vec<u8>) -> Result<bool, WireError> {
        let Some(length) = self.row_length()? else { return Ok(false) };
        let mut row = self.partial.split_to(length).freeze();
        if row.get_i16() == -1 {
            self.is_over = true;
            return Ok(true);
        }
        for index in 0..self.kinds.len() {
            if index > 0 {
                csv.push(b',');
            }
            match usize::try_from(row.get_i32()) {
                Err(_) => csv.extend_from_slice(NULL.as_bytes()),
                Ok(bytes) => self.put(self.kinds[index], &row.split_to(bytes), csv)?,
            }
        }
        csv.push(b'\n');
        self.rows += 1;
        Ok(true)
    }

    /// The bytes of the next row. `None` if it has not arrived completely.
    fn row_length(&self) -> Result<Option<usize>, WireError> {
        let bytes = &self.partial[..];
        let Some(mut count) = bytes.get(..2) else { return Ok(None) };
        let count = count.get_i16();
        if count == -1 {
            return Ok(Some(2));
        }
        if usize::try_from(count).ok() != Some(self.kinds.len()) {
            return Err(self.wrong(format_args!("it has {count} fields, {} are needed", self.kinds.len())));
        }
        let mut at = 2;
        for _ in 0..count {
            let Some(mut length) = bytes.get(at..at + 4) else { return Ok(None) };
            let length = length.get_i32();
            if length < -1 || length as i64 > ROW_BYTES_MAX as i64 {
                return Err(self.wrong(format_args!("a field has the length {length}")));
            }
            at += 4 + length.max(0) as usize;
        }
        Ok((at <= bytes.len()).then_some(at))
    }

    fn put(&self, kind: PgType, bytes: &Bytes, csv: &mut Vec<u8>) -> Result<(), WireError> {
        let value = decode(kind, WireFormat::Binary, bytes).map_err(|error| self.wrong(error.message))?;
        put_value(PgType::TEXT, &text_of(&value), csv)
    }
}

/// The text of a value, as the engine reads it.
fn text_of(value: &BoundValue) -> String {
    match value {
        BoundValue::Null => String::new(),
        BoundValue::Boolean(value) => value.to_string(),
        BoundValue::Integer(value) => value.to_string(),
        BoundValue::Double(value) => value.to_string(),
        BoundValue::Decimal(digits, scale) => crate::decode::decimal_text(*digits, *scale),
        BoundValue::Text(text) => text.clone(),
        BoundValue::Blob(bytes) => crate::decode::bytea_text(bytes),
        BoundValue::Timestamp(micros) => {
            let array: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![*micros]));
            format_value(&array, 0).ok().flatten().unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use rowmill::pg_types::PgScalar;

    fn read(bytes: &[u8], cut: usize) -> Result<String, WireError> {
        let mut reader = BinaryCopyReader::new(vec![PgType::scalar(PgScalar::Int4), PgType::TEXT]);
        let mut csv = Vec::new();
        for piece in bytes.chunks(cut.max(1)) {
            reader.push(piece, &mut csv)?;
        }
        reader.finish()?;
        Ok(String::from_utf8(csv).expect("UTF-8"))
    }

    #[test]
    fn rows_become_csv_however_they_are_cut() {
        let mut data = HEADER.to_vec();
        data.extend_from_slice(b"\0\x02\0\0\0\x04\0\0\0\x07\0\0\0\x02a\"");
        data.extend_from_slice(b"\0\x02\xff\xff\xff\xff\0\0\0\0");
        data.extend_from_slice(TRAILER);
        for cut in 1..data.len() {
            assert_eq!(read(&data, cut).expect("read"), "\"7\",\"a\"\"\"\n\\N,\"\"\n");
        }
        for end in 0..data.len() - 2 {
            let whole_rows = end == HEADER.len() || end == HEADER.len() + 16;
            assert_eq!(read(&data[..end], 5).is_ok(), whole_rows, "{end}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            rows in proptest::collection::vec(prop_oneof![Just(0_u8), Just(2), Just(255), any::<u8>()], 0..100),
            cut in 1..50_usize,
        ) {
            let _ = read(&rows, cut);
            let _ = read(&[HEADER, &rows].concat(), cut);
        }
    }
}
