//! Rows that a program gives: values in one list, texts and bytes one behind the other. Made to be filled again and again.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{Field, IntervalMonthDayNano, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_storage::keyed::{ColumnValues, ValueRef};

use crate::arrays::array_of;
use crate::groups::append_key;

fn kinds_of(schema: &SchemaRef) -> Result<Arc<[SqlType]>> {
    let kind = |field: &Arc<Field>| {
        let unknown = || Error::new(ErrorKind::Unsupported, format!("a result of type {}", field.data_type()));
        SqlType::from_arrow(field.data_type()).ok_or_else(unknown)
    };
    schema.fields().iter().map(kind).collect()
}

/// Rows of values.
#[derive(Clone, Debug, Default)]
pub struct ResultRows {
    kinds: Arc<[SqlType]>,
    rows: usize,
    cells: Vec<Cell>,
    texts: String,
    bytes: Vec<u8>,
}

/// A value; a text or bytes by where they are.
#[derive(Clone, Copy, Debug)]
enum Cell {
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
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The types of the columns.
    pub fn kinds(&self) -> &Arc<[SqlType]> {
        &self.kinds
    }

    /// The value in a row and column that are there.
    #[inline]
    pub fn get(&self, row: usize, column: usize) -> ValueRef<'_> {
        assert!(row < self.rows && column < self.kinds.len(), "no row {row} with a column {column}");
        match self.cells[row * self.kinds.len() + column] {
            Cell::Null => ValueRef::Null,
            Cell::Bool(value) => ValueRef::Bool(value),
            Cell::Int(value) => ValueRef::Int(value),
            Cell::UInt(value) => ValueRef::UInt(value),
            Cell::Float(value) => ValueRef::Float(value),
            Cell::Decimal(value) => ValueRef::Decimal(value),
            Cell::Interval(value) => ValueRef::Interval(value),
            Cell::Text(start, end) => ValueRef::Text(&self.texts[start..end]),
            Cell::Bytes(start, end) => ValueRef::Bytes(&self.bytes[start..end]),
        }
    }

    /// All rows as a batch of `schema`, which has the types of the columns.
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

    /// Holds the rows of `batches`, which have one schema, instead of its own. `Unsupported` of types that no column can have.
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

    /// Adds all rows of `other`, which has columns of the same types.
    pub(crate) fn append(&mut self, other: &ResultRows) {
        (0..other.rows).for_each(|row| self.append_row(other, row));
    }

    /// Adds the rows of `other` whose values are not among those that were `met`, each once.
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

    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.cells[..]) + self.texts.len() + self.bytes.len()
    }

    /// Forgets all rows; those to come are of `kinds`.
    pub(crate) fn start(&mut self, kinds: &Arc<[SqlType]>) {
        if !Arc::ptr_eq(&self.kinds, kinds) {
            self.kinds = Arc::clone(kinds);
        }
        self.rows = 0;
        self.cells.clear();
        self.texts.clear();
        self.bytes.clear();
    }

    /// Adds the next value of a row. One that is not [ended](Self::end_row) does not count.
    #[inline]
    pub(crate) fn push(&mut self, value: ValueRef<'_>) {
        let cell = match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Bool(value) => Cell::Bool(value),
            ValueRef::Int(value) => Cell::Int(value),
            ValueRef::UInt(value) => Cell::UInt(value),
            ValueRef::Float(value) => Cell::Float(value),
            ValueRef::Decimal(value) => Cell::Decimal(value),
            ValueRef::Interval(value) => Cell::Interval(value),
            ValueRef::Text(text) => {
                let start = self.texts.len();
                self.texts.push_str(text);
                Cell::Text(start, self.texts.len())
            }
            ValueRef::Bytes(bytes) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                Cell::Bytes(start, self.bytes.len())
            }
        };
        self.cells.push(cell);
    }

    /// Forgets the values of a row that is not ended.
    pub(crate) fn drop_row(&mut self) {
        for cell in self.cells.drain(self.rows * self.kinds.len()..).rev() {
            match cell {
                Cell::Text(start, _) => self.texts.truncate(start),
                Cell::Bytes(start, _) => self.bytes.truncate(start),
                _ => {}
            }
        }
    }

    /// Ends a row, of which all values were added.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        self.rows += 1;
    }
}
