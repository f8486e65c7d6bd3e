//! Results: batches or rows as they are computed, or all at once.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use rowmill_base::Result;
use rowmill_sql::{Outcome, RowStream};

use crate::row::RowBatch;
use crate::{FromRow, Row};

/// The result of a statement: an iterator of record batches. Dropping it stops the computation.
///
/// ```
/// # use rowmill::{Database, Result};
/// # fn main() -> Result<()> {
/// # let mut connection = Database::memory()?.connect()?;
/// let mut rows = connection.query("SELECT value AS n FROM generate_series(1, 3)")?;
/// let mut sum = 0;
/// while let Some(row) = rows.next_row()? {
///     sum += row.get::<i64>("n")?;
/// }
/// assert_eq!(sum, 6);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Rows {
    schema: SchemaRef,
    stream: Option<RowStream>,
    /// The batch whose rows are given out one by one, and the next one of them.
    current: Option<(RowBatch, usize)>,
}

impl From<Outcome> for Rows {
    /// The rows of an outcome. An outcome without a result has no rows.
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Rows(stream) => Rows { schema: stream.schema(), stream: Some(stream), current: None },
            Outcome::Changed { .. } | Outcome::Done { .. } => {
                Rows { schema: Arc::new(Schema::empty()), stream: None, current: None }
            }
        }
    }
}

impl Rows {
    /// The names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The names of the columns, in order.
    pub fn column_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.schema.fields().iter().map(|field| field.name().as_str())
    }

    /// Collects all batches. Callers should take batch after batch instead if the result may be large.
    pub fn batches(self) -> Result<Vec<RecordBatch>> {
        self.collect()
    }

    /// Collects all rows. This should only be used for small results.
    pub fn rows(self) -> Result<Vec<Row>> {
        self.row_iter().collect()
    }

    /// Returns the next row, or `None` after the last one. Rows are computed while they are pulled.
    pub fn next_row(&mut self) -> Result<Option<Row>> {
        loop {
            match self.current.take() {
                Some((rows, next)) if next + 1 == rows.len() => return Ok(Some(Row::new(rows, next))),
                Some((rows, next)) if next < rows.len() => {
                    self.current = Some((rows.clone(), next + 1));
                    return Ok(Some(Row::new(rows, next)));
                }
                _ => {}
            }
            let Some(stream) = &mut self.stream else { return Ok(None) };
            let rows = match stream.take_rows() {
                Some(rows) => RowBatch::of_program(&self.schema, rows)?,
                None => match stream.next() {
                    Some(batch) => RowBatch::Arrow(Arc::new(batch?)),
                    None => return Ok(None),
                },
            };
            self.current = Some((rows, 0));
        }
    }

    /// Returns an iterator of the rows, which are computed while they are pulled.
    pub fn row_iter(self) -> RowIter {
        RowIter { rows: self }
    }

    /// Returns an iterator of the results of `read` for each row.
    pub fn map_rows<T, F: FnMut(&Row) -> Result<T>>(self, read: F) -> MappedRows<F> {
        MappedRows { rows: self, read }
    }

    /// Collects all rows as tuples, or as values of the only column: `collect_as::<(i64, String)>()`. This should only
    /// be used for small results.
    pub fn collect_as<T: for<'r> FromRow<'r>>(self) -> Result<Vec<T>> {
        self.map_rows(|row| T::from_row(row)).collect()
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    /// Returns the next batch, or the rest of a batch after some of its rows were taken.
    fn next(&mut self) -> Option<Self::Item> {
        if let Some((rows, next)) = self.current.take()
            && next < rows.len()
        {
            return Some(rows.to_batch(next));
        }
        self.stream.as_mut()?.next()
    }
}

/// The rows of a result, made by [`Rows::row_iter`].
#[derive(Debug)]
pub struct RowIter {
    rows: Rows,
}

impl RowIter {
    /// The names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        self.rows.schema()
    }
}

impl Iterator for RowIter {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rows.next_row().transpose()
    }
}

/// What a function reads from each row of a result, made by [`Rows::map_rows`].
#[derive(Debug)]
pub struct MappedRows<F> {
    rows: Rows,
    read: F,
}

impl<T, F: FnMut(&Row) -> Result<T>> Iterator for MappedRows<F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next_row().transpose()?;
        Some(row.and_then(|row| (self.read)(&row)))
    }
}
