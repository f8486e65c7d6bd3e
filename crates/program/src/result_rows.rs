//! The rows of a result: one list of values, with all texts and all bytes in one buffer each. It is reused for many
//! results.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{Field, IntervalMonthDayNano, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_storage::keyed::{ColumnValues, ValueRef};

use crate::arrays::array_of;
use crate::groups::append_key;

/// Results of at most this number of bytes are copied when they are taken: copying them costs less than the growth of
/// new buffers in the next run. It is half of a first-level cache.
const COPIED_BYTES_MAX: usize = 16 << 10;

fn kinds_of(schema: &SchemaRef) -> Result<Arc<[SqlType]>> {
    let kind = |field: &Arc<Field>| {
        let unknown = || Error::new(ErrorKind::Unsupported, format!("no column has the type {}", field.data_type()));
        SqlType::from_arrow(field.data_type()).ok_or_else(unknown)
    };
    schema.fields().iter().map(kind).collect()
}

/// Rows of values, row by row.
#[derive(Clone, Debug, Default)]
pub struct ResultRows {
    kinds: Arc<[SqlType]>,
    rows: usize,
    cells: Vec<ResultCell>,
    texts: String,
    bytes: Vec<u8>,
}

/// A value. Texts and bytes are given by their start and end in the buffers.
#[derive(Clone, Copy, Debug)]
enum ResultCell {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Decimal(i128),
    Interval(IntervalMonthDayNano),
    Text(usize, usize),
    Bytes(usize, usize),
}

impl ResultRows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether the result has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The types of the columns.
    pub fn kinds(&self) -> &Arc<[SqlType]> {
        &self.kinds
    }

    /// The value in a row and a column. Both must exist.
    #[inline]
    pub fn get(&self, row: usize, column: usize) -> ValueRef<'_> {
        assert!(row < self.rows && column < self.kinds.len(), "no row {row} with a column {column}");
        match self.cells[row * self.kinds.len() + column] {
            ResultCell::Null => ValueRef::Null,
            ResultCell::Bool(value) => ValueRef::Bool(value),
            ResultCell::Int(value) => ValueRef::Int(value),
            ResultCell::UInt(value) => ValueRef::UInt(value),
            ResultCell::Float(value) => ValueRef::Float(value),
            ResultCell::Decimal(value) => ValueRef::Decimal(value),
            ResultCell::Interval(value) => ValueRef::Interval(value),
            ResultCell::Text(start, end) => ValueRef::Text(&self.texts[start..end]),
            ResultCell::Bytes(start, end) => ValueRef::Bytes(&self.bytes[start..end]),
        }
    }

    /// Takes the rows for a caller that keeps them. The caller must start the next result before it reads these rows
    /// again.
    ///
    /// Few rows are copied to memory of their size, so that the buffers here stay and need not grow again.
    pub fn take(&mut self) -> ResultRows {
        if self.bytes() <= COPIED_BYTES_MAX { self.clone() } else { std::mem::take(self) }
    }

    /// Converts all rows to a batch of `schema`, which must have the types of the columns.
    pub fn to_batch(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = self
            .kinds
            .iter()
            .enumerate()
            .map(|(column, kind)| array_of(kind, (0..self.rows).map(|row| self.get(row, column))));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .map_err(|error| Error::internal(error.to_string()))
    }

    /// Replaces the rows by those of `batches`, which must have one schema. Returns `Unsupported` for types that no
    /// column can have.
    pub fn set_batches(&mut self, batches: &[RecordBatch]) -> Result<()> {
        let kinds = batches.first().map(|batch| kinds_of(batch.schema_ref())).transpose()?;
        self.start(&kinds.unwrap_or_default());
        for batch in batches {
            let columns = batch.columns().iter().zip(self.kinds.iter());
            let columns = columns.map(|(values, kind)| {
                let values = cast(values, &kind.arrow()).map_err(|error| Error::internal(error.to_string()))?;
                ColumnValues::new(&values, kind)
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            for row in 0..batch.num_rows() {
                columns.iter().for_each(|column| self.push(column.get(row)));
                self.end_row();
            }
        }
        Ok(())
    }

    /// Appends all rows of `other`, which must have columns of the same types.
    pub(crate) fn append(&mut self, other: &ResultRows) {
        (0..other.rows).for_each(|row| self.append_row(other, row));
    }

    /// Appends the rows of `other` whose values are not in `met` yet, and adds them to `met`.
    pub(crate) fn append_new(&mut self, other: &ResultRows, met: &mut HashSet<Box<[u8]>>) {
        let mut key = Vec::new();
        for row in 0..other.rows {
            key.clear();
            (0..other.kinds.len()).for_each(|column| append_key(other.get(row, column), &mut key));
            if !met.contains(&key[..]) {
                met.insert(key.as_slice().into());
                self.append_row(other, row);
            }
        }
    }

    fn append_row(&mut self, other: &ResultRows, row: usize) {
        (0..other.kinds.len()).for_each(|column| self.push(other.get(row, column)));
        self.end_row();
    }

    /// Bytes that all values need.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.cells[..]) + self.texts.len() + self.bytes.len()
    }

    /// Removes all rows and sets the types of the rows that follow.
    pub(crate) fn start(&mut self, kinds: &Arc<[SqlType]>) {
        // The types rarely change between runs, so we avoid the write to the reference count.
        if !Arc::ptr_eq(&self.kinds, kinds) {
            self.kinds = Arc::clone(kinds);
        }
        self.rows = 0;
        self.cells.clear();
        self.texts.clear();
        self.bytes.clear();
    }

    /// Appends the next value of a row. The row counts only after [`end_row`](Self::end_row).
    #[inline]
    pub(crate) fn push(&mut self, value: ValueRef<'_>) {
        let cell = match value {
            ValueRef::Null => ResultCell::Null,
            ValueRef::Bool(value) => ResultCell::Bool(value),
            ValueRef::Int(value) => ResultCell::Int(value),
            ValueRef::UInt(value) => ResultCell::UInt(value),
            ValueRef::Float(value) => ResultCell::Float(value),
            ValueRef::Decimal(value) => ResultCell::Decimal(value),
            ValueRef::Interval(value) => ResultCell::Interval(value),
            ValueRef::Text(text) => {
                let start = self.texts.len();
                self.texts.push_str(text);
                ResultCell::Text(start, self.texts.len())
            }
            ValueRef::Bytes(bytes) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                ResultCell::Bytes(start, self.bytes.len())
            }
        };
        self.cells.push(cell);
    }

    /// Ends a row. The caller must have pushed one value for each column.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        self.rows += 1;
    }
}
