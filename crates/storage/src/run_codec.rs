//! The bytes of an open run: a few recent rows as one value of the ordered base.
//!
//! A run is written at every small commit and read once, at opening, so the layout is the plainest that is compact for
//! one row as well as for sixty thousand: per column a presence bitmap where there are NULLs, then the values. The
//! types are not repeated; they belong to the table's definition, and a column that was dropped since is skipped by its
//! length. The byte table is in `docs/file-format.md`, "Open run".

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryViewBuilder, BooleanBufferBuilder, StringViewBuilder, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;

use rowmill_base::{ColumnId, Error, Result, SqlType};

use crate::chunk::{self, Chunk, ChunkBytes};

/// The most rows a run may claim, so that damaged bytes cannot ask for unbounded memory.
const ROWS_MAX: usize = 1 << 24;
/// Rows (u32) and columns (u32).
const HEAD_BYTES: usize = 8;
/// Column id (u32) and payload length (u64).
const COLUMN_HEAD_BYTES: usize = 12;

const FLAG_NULLS: u8 = 1;

/// The bytes of `columns`, all of `rows` rows.
pub fn encode(rows: usize, columns: &[(ColumnId, ArrayRef)]) -> Result<Vec<u8>> {
    assert!(rows <= ROWS_MAX, "a run has at most {ROWS_MAX} rows");
    let mut out = Vec::with_capacity(HEAD_BYTES + columns.len() * (COLUMN_HEAD_BYTES + 9));
    out.extend((rows as u32).to_le_bytes());
    out.extend((columns.len() as u32).to_le_bytes());
    for (id, values) in columns {
        assert_eq!(values.len(), rows, "every column of a run has the run's rows");
        out.extend(id.0.to_le_bytes());
        let length_at = out.len();
        out.extend([0; 8]);
        encode_values(values, &mut out)?;
        let length = (out.len() - length_at - 8) as u64;
        out[length_at..length_at + 8].copy_from_slice(&length.to_le_bytes());
    }
    Ok(out)
}

fn encode_values(values: &ArrayRef, out: &mut Vec<u8>) -> Result<()> {
    let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
    out.push(if nulls.is_some() { FLAG_NULLS } else { 0 });
    if let Some(nulls) = nulls {
        push_bits(nulls.inner(), out);
    }
    match values.data_type() {
        DataType::Boolean => push_bits(values.as_boolean().values(), out),
        DataType::Utf8View => {
            let values = values.as_string_view();
            push_strings(
                (0..values.len()).map(|i| if values.is_null(i) { &[] } else { values.value(i).as_bytes() }),
                out,
            );
        }
        DataType::BinaryView => {
            let values = values.as_binary_view();
            push_strings((0..values.len()).map(|i| if values.is_null(i) { &[] } else { values.value(i) }), out);
        }
        DataType::List(_) | DataType::Struct(_) => push_nested(values, out)?,
        kind => {
            let width = fixed_width(kind);
            let data = values.to_data();
            let start = data.offset() * width;
            out.extend(&data.buffers()[0].as_slice()[start..start + values.len() * width]);
        }
    }
    Ok(())
}

fn fixed_width(kind: &DataType) -> usize {
    match kind {
        DataType::FixedSizeBinary(width) => *width as usize,
        kind => kind.primitive_width().expect("every type that is not variable or nested has a width"),
    }
}

fn push_bits(bits: &BooleanBuffer, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bits.len().div_ceil(8), 0);
    for i in bits.set_indices() {
        out[start + i / 8] |= 1 << (i % 8);
    }
}

fn push_strings<'a>(values: impl Iterator<Item = &'a [u8]> + Clone, out: &mut Vec<u8>) {
    for value in values.clone() {
        out.extend((value.len() as u32).to_le_bytes());
    }
    for value in values {
        out.extend(value);
    }
}

/// Nested values are a chunk, which checks itself. The reader of Arrow's own format trusts its bytes too much.
fn push_nested(values: &ArrayRef, out: &mut Vec<u8>) -> Result<()> {
    let kind = SqlType::from_arrow(values.data_type())
        .ok_or_else(|| Error::internal(format!("no SQL type is kept as {}", values.data_type())))?;
    out.extend(chunk::encode(values, &kind)?);
    Ok(())
}

/// The rows and columns of a run. `kind` tells a column's type, or `None` for a column that exists no more.
pub fn decode(bytes: &[u8], kind: impl Fn(ColumnId) -> Option<SqlType>) -> Result<(usize, Vec<(ColumnId, ArrayRef)>)> {
    let mut input = Input { bytes, at: 0 };
    let rows = input.u32()? as usize;
    let column_count = input.u32()? as usize;
    if rows > ROWS_MAX || column_count > bytes.len() / COLUMN_HEAD_BYTES {
        return Err(input.damaged("the head names more rows or columns than there can be"));
    }
    let mut columns = Vec::with_capacity(column_count);
    for _ in 0..column_count {
        let id = ColumnId(input.u32()?);
        let length = usize::try_from(input.u64()?).map_err(|_| input.damaged("a column is longer than memory"))?;
        let payload = Input { bytes: input.take(length)?, at: 0 };
        if let Some(kind) = kind(id) {
            columns.push((id, decode_values(payload, rows, &kind.arrow())?));
        }
    }
    input.end()?;
    Ok((rows, columns))
}

fn decode_values(mut input: Input<'_>, rows: usize, kind: &DataType) -> Result<ArrayRef> {
    let flags = input.take(1)?[0];
    if flags & !FLAG_NULLS != 0 {
        return Err(input.damaged("unknown flags"));
    }
    let nulls = match flags & FLAG_NULLS {
        0 => None,
        _ => Some(NullBuffer::new(input.bits(rows)?)),
    };
    let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let values: ArrayRef = match kind {
        DataType::Boolean => Arc::new(arrow::array::BooleanArray::new(input.bits(rows)?, nulls)),
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::with_capacity(rows);
            for (row, value) in input.strings(rows)?.into_iter().enumerate() {
                let text = std::str::from_utf8(value).map_err(|_| input.damaged("a text is not UTF-8"))?;
                builder.append_option((!is_null(row)).then_some(text));
            }
            Arc::new(builder.finish())
        }
        DataType::BinaryView => {
            let mut builder = BinaryViewBuilder::with_capacity(rows);
            for (row, value) in input.strings(rows)?.into_iter().enumerate() {
                builder.append_option((!is_null(row)).then_some(value));
            }
            Arc::new(builder.finish())
        }
        DataType::List(_) | DataType::Struct(_) => {
            let rest = input.take(input.bytes.len() - input.at)?;
            input.nested(rest, rows, kind)?
        }
        kind => {
            let bytes = input.take(rows * fixed_width(kind))?;
            let data = ArrayData::builder(kind.clone())
                .len(rows)
                .add_buffer(Buffer::from_slice_ref(bytes))
                .nulls(nulls)
                .build()
                .map_err(|error| input.damaged(&error.to_string()))?;
            make_array(data)
        }
    };
    input.end()?;
    Ok(values)
}

/// A reader that answers every request beyond its bytes with an error.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn damaged(&self, what: &str) -> Error {
        Error::corrupt(format!("open run, offset {}: {what}", self.at))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        if len > rest.len() {
            return Err(self.damaged(&format!("{len} bytes are needed, {} are left", rest.len())));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes were taken")))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes were taken")))
    }

    fn bits(&mut self, rows: usize) -> Result<BooleanBuffer> {
        let mut bits = BooleanBufferBuilder::new(rows);
        bits.append_packed_range(0..rows, self.take(rows.div_ceil(8))?);
        Ok(bits.finish())
    }

    fn strings(&mut self, rows: usize) -> Result<Vec<&'a [u8]>> {
        let lengths = self.take(rows * 4)?;
        lengths
            .chunks_exact(4)
            .map(|length| self.take(u32::from_le_bytes(length.try_into().expect("four bytes a length")) as usize))
            .collect()
    }

    fn nested(&self, bytes: &[u8], rows: usize, kind: &DataType) -> Result<ArrayRef> {
        let kind = SqlType::from_arrow(kind).ok_or_else(|| self.damaged("a column of an unknown type"))?;
        let chunk = Chunk::open(ChunkBytes::memory(bytes.to_vec()), &kind)?;
        match chunk.rows() == rows {
            true => chunk.read(0..rows),
            false => Err(self.damaged("a nested column of another length than its run's")),
        }
    }

    fn end(&self) -> Result<()> {
        match self.at == self.bytes.len() {
            true => Ok(()),
            false => Err(self.damaged("bytes are left over")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        BooleanArray, Decimal128Array, FixedSizeBinaryArray, Int16Array, Int64Array, ListArray, StringViewArray,
    };
    use arrow::datatypes::Int32Type;

    fn sample() -> Vec<(ColumnId, SqlType, ArrayRef)> {
        let list =
            ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None]), None, Some(vec![])]);
        vec![
            (ColumnId(1), SqlType::Int64, Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)])) as ArrayRef),
            (ColumnId(2), SqlType::Int16, Arc::new(Int16Array::from(vec![1, 2, 3]).slice(0, 3))),
            (
                ColumnId(4),
                SqlType::TEXT,
                Arc::new(StringViewArray::from(vec![Some("a"), None, Some("юность, long enough")])),
            ),
            (ColumnId(5), SqlType::Boolean, Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
            (
                ColumnId(6),
                SqlType::Decimal { precision: 12, scale: 2 },
                Arc::new(
                    Decimal128Array::from(vec![Some(1), None, Some(-99)])
                        .with_precision_and_scale(12, 2)
                        .expect("fits"),
                ),
            ),
            (
                ColumnId(7),
                SqlType::Uuid,
                Arc::new(FixedSizeBinaryArray::try_from_iter((0u8..3).map(|i| [i; 16])).expect("16 bytes each")),
            ),
            (ColumnId(9), SqlType::List(Box::new(SqlType::Int32)), Arc::new(list)),
        ]
    }

    fn sample_bytes() -> Vec<u8> {
        let columns: Vec<_> = sample().into_iter().map(|(id, _, values)| (id, values)).collect();
        encode(3, &columns).expect("the sample is written")
    }

    fn kind_of(id: ColumnId) -> Option<SqlType> {
        sample().into_iter().find(|(other, _, _)| *other == id).map(|(_, kind, _)| kind)
    }

    #[test]
    fn every_type_comes_back() {
        let (rows, columns) = decode(&sample_bytes(), kind_of).expect("what was written is read");
        assert_eq!(rows, 3);
        for ((id, _, expected), (read_id, read)) in sample().iter().zip(&columns) {
            assert_eq!(id, read_id);
            assert_eq!(expected, read, "column {id}");
        }
    }

    #[test]
    fn a_dropped_column_is_passed_over() {
        let (_, columns) =
            decode(&sample_bytes(), |id| kind_of(id).filter(|_| id != ColumnId(4))).expect("the others are read");
        assert_eq!(columns.len(), sample().len() - 1);
    }

    #[test]
    fn slices_write_their_own_rows_only() {
        let values: ArrayRef = Arc::new(Int64Array::from((0..100).collect::<Vec<_>>()));
        let bytes = encode(3, &[(ColumnId(1), values.slice(50, 3))]).expect("written");
        let (_, columns) = decode(&bytes, |_| Some(SqlType::Int64)).expect("read");
        assert_eq!(columns[0].1.as_primitive::<arrow::datatypes::Int64Type>().values(), &[50, 51, 52]);
    }

    #[test]
    fn damaged_bytes_are_an_error_or_other_values_but_never_a_panic() {
        let bytes = sample_bytes();
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut], kind_of).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let _ = decode(&damaged, kind_of);
            }
        }
    }
}
