//! Rows of Arrow batches as `DataRow` messages, a whole batch into one buffer.
//!
//! The types of the columns are resolved once per batch ([`CellColumn`]); after that a row is one pass over its cells,
//! without an allocation. pgwire's own encoder takes rows one by one, each in a buffer of its own, which is what makes
//! servers that use it slow.
//!
//! ```text
//! 'D' │ length │ number of columns │ length of the value, -1 for NULL │ value │ ...
//!  1      4              2                         4
//! ```

mod answer;
mod array;
mod cell;
mod numeric;

use std::ops::Range;

use bytes::{BufMut, BytesMut};
use pgwire::messages::data::{FORMAT_CODE_BINARY, FORMAT_CODE_TEXT, FieldDescription, RowDescription};
use rowmill::arrow::array::{ArrayRef, RecordBatch};
use rowmill::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use rowmill::{Result, SqlType};

use crate::wire_error::{PROTOCOL_VIOLATION, WireError};
use cell::{CellColumn, is_plain_character};
use rowmill::pg_types::{ORIGIN, PgType, type_modifier};

pub(crate) use answer::{AnswerColumn, answer_columns, has_columns, put_answer};
pub(crate) use cell::{EPOCH_DAYS, EPOCH_MICROS, canonical, is_canonical};
pub(crate) use numeric::NEGATIVE;

/// The form of a value on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireFormat {
    /// Text, as `psql` shows it.
    Text,
    /// The type's binary form.
    Binary,
}

impl WireFormat {
    /// The form with this number in messages.
    pub(crate) fn of_code(code: i16) -> Result<WireFormat, WireError> {
        match code {
            FORMAT_CODE_TEXT => Ok(WireFormat::Text),
            FORMAT_CODE_BINARY => Ok(WireFormat::Binary),
            other => {
                Err(WireError::new(PROTOCOL_VIOLATION, format!("{other} is not a format: 0 is text, 1 is binary")))
            }
        }
    }

    pub(crate) fn code(self) -> i16 {
        match self {
            WireFormat::Text => FORMAT_CODE_TEXT,
            WireFormat::Binary => FORMAT_CODE_BINARY,
        }
    }
}

/// The forms of `count` values, as a message gives them: none means text for all, one is that of all, otherwise there
/// is one for each.
pub(crate) fn formats(codes: &[i16], count: usize, what: &str) -> Result<Vec<WireFormat>, WireError> {
    match codes {
        [] => Ok(vec![WireFormat::Text; count]),
        [code] => Ok(vec![WireFormat::of_code(*code)?; count]),
        codes if codes.len() == count => codes.iter().map(|code| WireFormat::of_code(*code)).collect(),
        codes => {
            let message = format!("the message has {} formats for {count} {what}", codes.len());
            Err(WireError::new(PROTOCOL_VIOLATION, message))
        }
    }
}

/// A column of a result on the wire.
#[derive(Clone, Debug)]
pub(crate) struct WireColumn {
    pub(crate) name: String,
    pub(crate) kind: PgType,
    modifier: i32,
    /// The stored column whose values it shows, if there is one.
    origin: Option<ColumnOrigin>,
}

/// The number of `varchar`, by which a column of a limited length is described. Its values are written as texts.
const VARCHAR_OID: u32 = 1043;
/// PostgreSQL adds this to the length in the modifier of a type.
const VARCHAR_HEADER: i32 = 4;

/// A stored column that a result shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ColumnOrigin {
    table: u32,
    /// The place of the column, counted from 1.
    place: i16,
    /// The characters that a VARCHAR may have.
    chars_max: Option<i32>,
}

impl ColumnOrigin {
    fn of(field: &Field) -> Option<ColumnOrigin> {
        let mut numbers = field.metadata().get(ORIGIN)?.split(' ');
        let (table, place) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some(ColumnOrigin { table, place, chars_max: numbers.next().and_then(|chars| chars.parse().ok()) })
    }
}

/// Returns the columns of a result.
pub(crate) fn wire_columns(schema: &Schema) -> Vec<WireColumn> {
    let fields = schema.fields().iter();
    let modifier = |kind: &DataType| SqlType::from_arrow(kind).map_or(-1, |kind| type_modifier(&kind));
    let column = |field: &FieldRef| WireColumn {
        name: field.name().clone(),
        kind: PgType::of_field(field),
        modifier: modifier(field.data_type()),
        origin: ColumnOrigin::of(field),
    };
    fields.map(column).collect()
}

/// Returns the description of a result. `format` gives the form of each column.
pub(crate) fn row_description(columns: &[WireColumn], format: impl Fn(usize) -> WireFormat) -> RowDescription {
    let field = |(index, column): (usize, &WireColumn)| {
        // A zero byte would end the name.
        let name = column.name.replace('\0', " ");
        let kind = column.kind;
        let (oid, modifier) = match column.origin.and_then(|origin| origin.chars_max) {
            Some(chars) => (VARCHAR_OID, chars.saturating_add(VARCHAR_HEADER)),
            None => (kind.oid(), column.modifier),
        };
        // The message has the bits of a number without a sign.
        let origin = column.origin.map(|origin| (origin.table.cast_signed(), origin.place));
        let (table, place) = origin.unwrap_or_default();
        FieldDescription::new(name, table, place, oid, kind.size(), modifier, format(index).code())
    };
    RowDescription::new(columns.iter().enumerate().map(field).collect())
}

/// A batch that is ready to be encoded.
pub(crate) struct EncodedBatch<'a> {
    cells: Vec<(CellColumn<'a>, WireFormat)>,
    scratch: String,
    /// Rows on their way to the answers. A value is a few short pieces, which a vector takes without a call for each.
    pieces: Vec<u8>,
}

impl<'a> EncodedBatch<'a> {
    /// Resolves the types of the columns of `batch`. `schema` describes the result, as the client was told.
    pub(crate) fn new(batch: &'a RecordBatch, schema: &Schema, formats: &[WireFormat]) -> Result<EncodedBatch<'a>> {
        let columns = batch.columns().iter().zip(schema.fields()).zip(formats);
        let cell = |((array, field), format): ((&'a ArrayRef, &FieldRef), &WireFormat)| {
            Ok((CellColumn::new(array)?.declared(PgType::of_field(field)), *format))
        };
        let cells = columns.map(cell).collect::<Result<_>>()?;
        Ok(EncodedBatch { cells, scratch: String::new(), pieces: Vec::new() })
    }

    /// Appends rows as messages, until `out` holds `bytes_max` bytes. Returns the number of rows that it appended,
    /// which is at least one if there is one.
    pub(crate) fn encode_rows(&mut self, rows: Range<usize>, out: &mut BytesMut, bytes_max: usize) -> usize {
        let EncodedBatch { cells, scratch, pieces } = self;
        encode_each(b'D', rows, out, pieces, bytes_max, |row, out| {
            out.put_i16(cells.len() as i16);
            for (column, format) in &*cells {
                column.write_with_length(row, *format, out, scratch);
            }
        })
    }

    /// Appends rows as the data of a COPY in the text format, as [`encode_rows`](Self::encode_rows) does.
    pub(crate) fn encode_copy_text(
        &mut self,
        rows: Range<usize>,
        escapes: &CopyEscapes<'_>,
        out: &mut BytesMut,
        bytes_max: usize,
    ) -> usize {
        let EncodedBatch { cells, scratch, pieces } = self;
        encode_each(b'd', rows, out, pieces, bytes_max, |row, out| put_copy_line(cells, row, escapes, out, scratch))
    }

    /// Appends a row as a line of the text format of COPY, without the head of a message.
    pub(crate) fn copy_text_row(&mut self, row: usize, escapes: &CopyEscapes<'_>, out: &mut Vec<u8>) {
        put_copy_line(&self.cells, row, escapes, out, &mut self.scratch);
    }

    /// Appends rows as the data of a COPY in the binary format, as [`encode_rows`](Self::encode_rows) does. `head` goes
    /// before the first row, in one message with it, and is empty afterwards.
    pub(crate) fn encode_copy_binary(
        &mut self,
        rows: Range<usize>,
        head: &mut &[u8],
        out: &mut BytesMut,
        bytes_max: usize,
    ) -> usize {
        let EncodedBatch { cells, scratch, pieces } = self;
        encode_each(b'd', rows, out, pieces, bytes_max, |row, out| {
            out.put_slice(std::mem::take(head));
            out.put_i16(cells.len() as i16);
            for (column, _) in &*cells {
                column.write_with_length(row, WireFormat::Binary, out, scratch);
            }
        })
    }
}

/// Appends a message of the type `kind` for each row. `pieces` is memory for the messages.
fn encode_each(
    kind: u8,
    rows: Range<usize>,
    out: &mut BytesMut,
    pieces: &mut Vec<u8>,
    bytes_max: usize,
    mut write: impl FnMut(usize, &mut Vec<u8>),
) -> usize {
    pieces.clear();
    let (first, mut end) = (rows.start, rows.start);
    for row in rows {
        pieces.push(kind);
        let length_at = pieces.len();
        pieces.put_u32(0);
        write(row, pieces);
        put_length(pieces, length_at, length_at);
        end = row + 1;
        if out.len() + pieces.len() >= bytes_max {
            break;
        }
    }
    out.extend_from_slice(pieces);
    end - first
}

/// Appends a row as a line of the text format of COPY.
fn put_copy_line(
    cells: &[(CellColumn<'_>, WireFormat)],
    row: usize,
    escapes: &CopyEscapes<'_>,
    out: &mut Vec<u8>,
    scratch: &mut String,
) {
    for (index, (column, _)) in cells.iter().enumerate() {
        if index > 0 {
            out.push(escapes.format.delimiter);
        }
        if column.is_null(row) {
            out.put_slice(escapes.format.null.as_bytes());
            continue;
        }
        let start = out.len();
        column.write_text(row, out, scratch);
        if escapes.has_plain || !column.is_plain() {
            escapes.escape_from(start, out);
        }
    }
    out.push(b'\n');
}

/// The text format of COPY: fields separated by a character, with escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyTextFormat {
    pub(crate) delimiter: u8,
    pub(crate) null: String,
}

/// The bytes that a text format of COPY must escape, so that none is the end of a field or line, or an escape itself.
pub(crate) struct CopyEscapes<'f> {
    format: &'f CopyTextFormat,
    /// The byte that follows the backslash in place of each byte; 0 for a byte that needs none.
    letters: [u8; 256],
    /// Whether a byte of numbers and times needs a backslash, because it is the delimiter.
    has_plain: bool,
}

impl<'f> CopyEscapes<'f> {
    pub(crate) fn new(format: &'f CopyTextFormat) -> CopyEscapes<'f> {
        let mut letters = [0; 256];
        letters[usize::from(format.delimiter)] = format.delimiter;
        let named = [(b'\\', b'\\'), (b'\n', b'n'), (b'\r', b'r'), (b'\t', b't'), (8, b'b'), (11, b'v'), (12, b'f')];
        for (byte, letter) in named {
            letters[usize::from(byte)] = letter;
        }
        CopyEscapes { format, letters, has_plain: is_plain_character(format.delimiter) }
    }

    /// Appends a value.
    pub(crate) fn put(&self, value: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.put_slice(value);
        self.escape_from(start, out);
    }

    /// Escapes the bytes from `start` to the end of `out`.
    fn escape_from(&self, start: usize, out: &mut Vec<u8>) {
        let letter_of = |byte: u8| self.letters[usize::from(byte)];
        let Some(first) = out[start..].iter().position(|byte| letter_of(*byte) != 0) else { return };
        for byte in out.split_off(start + first) {
            match letter_of(byte) {
                0 => out.push(byte),
                letter => out.put_slice(&[b'\\', letter]),
            }
        }
    }
}

/// Writes the number of bytes from `start` to the end of `out` into the four bytes at `length_at`.
fn put_length(out: &mut [u8], length_at: usize, start: usize) {
    let length = (out.len() - start) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
}

/// The bytes of one value; `None` for NULL.
#[cfg(test)]
pub(crate) struct CellBytes(pub(crate) Option<Vec<u8>>);

/// Encodes the first value of an array.
#[cfg(test)]
pub(crate) fn cell_bytes(array: &dyn rowmill::arrow::array::Array, format: WireFormat) -> CellBytes {
    let column = CellColumn::new(array).expect("a type of ours");
    let mut out = Vec::new();
    column.write_with_length(0, format, &mut out, &mut String::new());
    let value = out.split_off(4);
    CellBytes((out[..] != [255; 4]).then_some(value))
}

#[cfg(test)]
mod tests;
