//! The bytes of an open run: a few recent rows, stored as one value of the ordered base.
//!
//! A run is written at every small commit and read once, when the database is opened. So the layout is the simplest one
//! that is compact for one row as well as for sixty thousand: for each column a bitmap of the values that are not NULL,
//! if there are NULLs, and then the values. Types are not stored, because they belong to the table's definition. The
//! reader skips a dropped column by its length. The byte table is in `docs/file-format.md`, "Open run".

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryViewBuilder, BooleanArray, BooleanBufferBuilder, NullBufferBuilder,
    StringViewBuilder, make_array, new_empty_array,
};
use arrow::buffer::{BooleanBuffer, MutableBuffer, NullBuffer};
use arrow::compute::concat;
use arrow::datatypes::DataType;

use rowmill_base::{ColumnId, Error, Result, SqlType};

use crate::chunk::{self, Chunk, ChunkBytes};

/// The maximum number of rows that a run may claim, so that damaged bytes cannot ask for unbounded memory.
const ROWS_MAX: usize = 1 << 24;
/// Rows (u32) and columns (u32).
const HEAD_BYTES: usize = 8;
/// Column id (u32) and payload length (u64).
const COLUMN_HEAD_BYTES: usize = 12;

const FLAG_NULLS: u8 = 1;

/// Encodes `columns`, which must all have `rows` rows.
pub fn encode(rows: usize, columns: &[(ColumnId, ArrayRef)]) -> Result<Vec<u8>> {
    assert!(rows <= ROWS_MAX, "a run has at most {ROWS_MAX} rows");
    let mut out = Vec::with_capacity(HEAD_BYTES + columns.len() * (COLUMN_HEAD_BYTES + 9));
    out.extend((rows as u32).to_le_bytes());
    out.extend((columns.len() as u32).to_le_bytes());
    for (id, values) in columns {
        assert_eq!(values.len(), rows, "every column of a run must have as many rows as the run");
        out.extend(id.0.to_le_bytes());
        // The length is only known at the end, so we leave room for it.
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
        // A NULL is stored as an empty string.
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
            // An array may be a slice, so its values start at an offset.
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
        kind => kind.primitive_width().expect("every other type should have a fixed width"),
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

/// Appends nested values as a chunk, because a chunk checks its own bytes. The reader of Arrow's format trusts its
/// bytes too much.
fn push_nested(values: &ArrayRef, out: &mut Vec<u8>) -> Result<()> {
    let kind = SqlType::from_arrow(values.data_type())
        .ok_or_else(|| Error::internal(format!("no SQL type is stored as {}", values.data_type())))?;
    out.extend(chunk::encode(values, &kind)?);
    Ok(())
}

/// Decodes the rows and columns of a run. `kind` must return a column's type, or `None` if the column no longer exists.
pub fn decode(bytes: &[u8], kind: impl Fn(ColumnId) -> Option<SqlType>) -> Result<(usize, Vec<(ColumnId, ArrayRef)>)> {
    let mut decoder = RunDecoder::default();
    decoder.push(bytes, kind)?;
    decoder.finish()
}

/// Decodes the bytes of one run, or of many runs with the same columns, into one array per column. Decoding each run by
/// itself and joining the arrays would take far longer.
#[derive(Debug, Default)]
pub(crate) struct RunDecoder {
    rows: usize,
    /// In the order of the bytes. A column that no longer exists has no values: its bytes are skipped.
    columns: Vec<(ColumnId, Option<RunValues>)>,
}

impl RunDecoder {
    /// The number of rows so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends the rows of a run and returns their number. Returns `None` without any change if the run has other
    /// columns than the runs before. `kind` must return a column's type, or `None` if the column no longer exists.
    /// After an error the decoder must not be used again.
    pub(crate) fn push(&mut self, bytes: &[u8], kind: impl Fn(ColumnId) -> Option<SqlType>) -> Result<Option<usize>> {
        let mut input = RunInput { bytes, at: 0 };
        let rows = input.u32()? as usize;
        let column_count = input.u32()? as usize;
        // We check both numbers before we allocate by them: every column takes at least its head.
        if rows > ROWS_MAX || column_count > bytes.len() / COLUMN_HEAD_BYTES {
            return Err(input.damaged("the head claims more rows or columns than a run can have"));
        }
        // A second reader looks only at the column ids.
        let mut heads = RunInput { bytes, at: input.at };
        if self.rows == 0 {
            self.columns.clear();
            for _ in 0..column_count {
                let (id, _) = heads.column()?;
                self.columns.push((id, kind(id).map(|kind| RunValues::new(&kind.arrow(), rows))));
            }
        } else if column_count != self.columns.len() {
            return Ok(None);
        } else {
            // All column ids are compared before any value is appended, so that `None` leaves the decoder unchanged.
            for (known, _) in &self.columns {
                if heads.column()?.0 != *known {
                    return Ok(None);
                }
            }
        }
        for (_, values) in &mut self.columns {
            let (_, payload) = input.column()?;
            if let Some(values) = values {
                values.push(RunInput { bytes: payload, at: 0 }, rows)?;
            }
        }
        // Leftover bytes mean that the run is damaged.
        input.end()?;
        self.rows += rows;
        Ok(Some(rows))
    }

    /// The rows, and the columns that still exist.
    pub(crate) fn finish(self) -> Result<(usize, Vec<(ColumnId, ArrayRef)>)> {
        let rows = self.rows;
        let columns = self.columns.into_iter().filter_map(|(id, values)| Some((id, values?)));
        let columns = columns.map(|(id, values)| Ok((id, values.finish(rows)?))).collect::<Result<_>>()?;
        Ok((rows, columns))
    }
}

/// The values of a column as they are collected.
#[derive(Debug)]
enum RunValues {
    Bits(BooleanBufferBuilder, NullBufferBuilder),
    Text(StringViewBuilder),
    Binary(BinaryViewBuilder),
    Nested(DataType, Vec<ArrayRef>),
    Fixed(Fixed),
}

/// Values of a fixed width in bytes.
#[derive(Debug)]
struct Fixed {
    kind: DataType,
    width: usize,
    bytes: MutableBuffer,
    nulls: NullBufferBuilder,
}

impl RunValues {
    fn new(kind: &DataType, rows: usize) -> RunValues {
        let nulls = || NullBufferBuilder::new(rows);
        match kind {
            DataType::Boolean => RunValues::Bits(BooleanBufferBuilder::new(rows), nulls()),
            DataType::Utf8View => RunValues::Text(StringViewBuilder::with_capacity(rows)),
            DataType::BinaryView => RunValues::Binary(BinaryViewBuilder::with_capacity(rows)),
            DataType::List(_) | DataType::Struct(_) => RunValues::Nested(kind.clone(), Vec::new()),
            kind => RunValues::Fixed(Fixed {
                kind: kind.clone(),
                width: fixed_width(kind),
                bytes: MutableBuffer::new(0),
                nulls: nulls(),
            }),
        }
    }

    fn push(&mut self, mut input: RunInput<'_>, rows: usize) -> Result<()> {
        let flags = input.take(1)?[0];
        // Flags of a newer version could change the meaning of the bytes, so they are refused.
        if flags & !FLAG_NULLS != 0 {
            return Err(input.damaged("unknown flags"));
        }
        let nulls = match flags & FLAG_NULLS {
            0 => None,
            _ => Some(NullBuffer::new(input.bits(rows)?)),
        };
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        match self {
            RunValues::Bits(bits, known) => {
                bits.append_packed_range(0..rows, input.take(rows.div_ceil(8))?);
                push_nulls(known, nulls.as_ref(), rows);
            }
            RunValues::Text(builder) => {
                let lengths = input.lengths(rows)?;
                for (row, length) in lengths.enumerate() {
                    let value = input.take(length)?;
                    let text = std::str::from_utf8(value).map_err(|_| input.damaged("a text is not UTF-8"))?;
                    builder.append_option((!is_null(row)).then_some(text));
                }
            }
            RunValues::Binary(builder) => {
                let lengths = input.lengths(rows)?;
                for (row, length) in lengths.enumerate() {
                    let value = input.take(length)?;
                    builder.append_option((!is_null(row)).then_some(value));
                }
            }
            RunValues::Nested(kind, parts) => {
                let rest = input.take(input.bytes.len() - input.at)?;
                parts.push(input.nested(rest, rows, kind)?);
            }
            RunValues::Fixed(fixed) => {
                fixed.bytes.extend_from_slice(input.take(rows * fixed.width)?);
                push_nulls(&mut fixed.nulls, nulls.as_ref(), rows);
            }
        }
        input.end()
    }

    fn finish(self, rows: usize) -> Result<ArrayRef> {
        Ok(match self {
            RunValues::Bits(mut bits, mut nulls) => Arc::new(BooleanArray::new(bits.finish(), nulls.finish())),
            RunValues::Text(mut builder) => Arc::new(builder.finish()),
            RunValues::Binary(mut builder) => Arc::new(builder.finish()),
            RunValues::Nested(kind, parts) => match &parts[..] {
                [] => new_empty_array(&kind),
                [only] => Arc::clone(only),
                parts => {
                    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                    concat(&parts).map_err(|error| Error::internal(error.to_string()))?
                }
            },
            RunValues::Fixed(Fixed { kind, bytes, mut nulls, .. }) => {
                let data = ArrayData::builder(kind).len(rows).add_buffer(bytes.into()).nulls(nulls.finish());
                make_array(data.build().map_err(|error| Error::corrupt(format!("open run: {error}")))?)
            }
        })
    }
}

fn push_nulls(known: &mut NullBufferBuilder, nulls: Option<&NullBuffer>, rows: usize) {
    match nulls {
        Some(nulls) => known.append_buffer(nulls),
        None => known.append_n_non_nulls(rows),
    }
}

/// A reader that returns an error for every request beyond its bytes.
struct RunInput<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> RunInput<'a> {
    fn damaged(&self, what: &str) -> Error {
        Error::corrupt(format!("open run, offset {}: {what}", self.at))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        // `at` never exceeds the length, so this slice cannot panic.
        let rest = &self.bytes[self.at..];
        if len > rest.len() {
            return Err(self.damaged(&format!("{len} bytes are needed, but only {} are left", rest.len())));
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

    /// Reads the id and the payload of a column.
    fn column(&mut self) -> Result<(ColumnId, &'a [u8])> {
        let id = ColumnId(self.u32()?);
        let length = usize::try_from(self.u64()?).map_err(|_| self.damaged("a column is longer than memory"))?;
        Ok((id, self.take(length)?))
    }

    fn lengths(&mut self, rows: usize) -> Result<impl Iterator<Item = usize> + use<'a>> {
        let (lengths, _) = self.take(rows * 4)?.as_chunks::<4>();
        Ok(lengths.iter().map(|length| u32::from_le_bytes(*length) as usize))
    }

    fn nested(&self, bytes: &[u8], rows: usize, kind: &DataType) -> Result<ArrayRef> {
        let kind = SqlType::from_arrow(kind).ok_or_else(|| self.damaged("a column has an unknown type"))?;
        let chunk = Chunk::open(ChunkBytes::memory(bytes.to_vec()), &kind)?;
        match chunk.rows() == rows {
            true => chunk.read(0..rows),
            false => Err(self.damaged("a nested column has another number of rows than its run")),
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
    use arrow::array::{Decimal128Array, FixedSizeBinaryArray, Int16Array, Int64Array, ListArray, StringViewArray};
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
        let (rows, columns) = decode(&sample_bytes(), kind_of).expect("an encoded run can be decoded");
        assert_eq!(rows, 3);
        for ((id, _, expected), (read_id, read)) in sample().iter().zip(&columns) {
            assert_eq!(id, read_id);
            assert_eq!(expected, read, "column {id}");
        }
    }

    #[test]
    fn runs_that_are_decoded_together_keep_their_rows() {
        let (bytes, mut decoder) = (sample_bytes(), RunDecoder::default());
        let few: Vec<_> = sample().into_iter().map(|(id, _, values)| (id, values.slice(1, 1))).collect();
        let few_bytes = encode(1, &few).expect("a part of the sample is written");
        for (bytes, rows) in [(&few_bytes, 1), (&bytes, 3), (&few_bytes, 1), (&bytes, 3)] {
            assert_eq!(decoder.push(bytes, kind_of), Ok(Some(rows)));
        }
        let fewer_columns = encode(1, &few[1..]).expect("written");
        assert_eq!(decoder.push(&fewer_columns, kind_of), Ok(None), "a run with other columns is refused");
        let (rows, columns) = decoder.finish().expect("the decoder has the runs before");
        assert_eq!((rows, columns.len()), (8, sample().len()));
        for ((_, _, values), (id, read)) in sample().iter().zip(&columns) {
            let few = values.slice(1, 1);
            let parts: [&dyn Array; 4] = [&few, values, &few, values];
            assert_eq!(read, &concat(&parts).expect("of one type"), "column {id}");
        }
    }

    #[test]
    fn a_dropped_column_is_skipped() {
        let (_, columns) =
            decode(&sample_bytes(), |id| kind_of(id).filter(|_| id != ColumnId(4))).expect("the others are read");
        assert_eq!(columns.len(), sample().len() - 1);
    }

    #[test]
    fn a_slice_writes_only_its_own_rows() {
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
