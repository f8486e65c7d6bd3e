//! Tables of `pg_catalog`, built row by row.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, ListBuilder, RecordBatch, StringViewArray};
use arrow::array::{Int64Builder, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use rowmill_base::{Error, Result, SqlType};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PgColumn {
    /// Text, also for names and for PostgreSQL's single bytes.
    Text,
    /// A whole number, also for the numbers of objects.
    Number,
    /// A truth value.
    Truth,
    /// A list of whole numbers.
    Numbers,
    /// A list of texts, for rights and options, which nothing has: NULL in every row.
    NoTexts,
}

/// A value of a row.
#[derive(Clone, Debug)]
pub(super) enum PgCell {
    Null,
    Text(String),
    Number(i64),
    Truth(bool),
    Numbers(Vec<i64>),
}

impl From<&str> for PgCell {
    fn from(text: &str) -> Self {
        PgCell::Text(text.to_owned())
    }
}

impl From<String> for PgCell {
    fn from(text: String) -> Self {
        PgCell::Text(text)
    }
}

impl From<u32> for PgCell {
    fn from(number: u32) -> Self {
        PgCell::Number(number.into())
    }
}

impl From<i64> for PgCell {
    fn from(number: i64) -> Self {
        PgCell::Number(number)
    }
}

impl From<bool> for PgCell {
    fn from(truth: bool) -> Self {
        PgCell::Truth(truth)
    }
}

impl From<Vec<i64>> for PgCell {
    fn from(numbers: Vec<i64>) -> Self {
        PgCell::Numbers(numbers)
    }
}

impl<T: Into<PgCell>> From<Option<T>> for PgCell {
    fn from(value: Option<T>) -> Self {
        value.map_or(PgCell::Null, Into::into)
    }
}

/// The definition of a table: its columns with their types.
pub(super) type PgColumns = &'static [(&'static str, PgColumn)];

/// A table that is being built.
pub(super) struct PgRows {
    columns: PgColumns,
    rows: Vec<Vec<PgCell>>,
}

impl PgRows {
    pub(super) fn new(columns: PgColumns) -> PgRows {
        PgRows { columns, rows: Vec::new() }
    }

    /// Adds a row. Columns that `values` does not name are NULL.
    pub(super) fn push<const N: usize>(&mut self, values: [(&str, PgCell); N]) {
        let mut row = vec![PgCell::Null; self.columns.len()];
        for (name, value) in values {
            let place = self.columns.iter().position(|(own, _)| *own == name);
            row[place.unwrap_or_else(|| panic!("the table has a column {name}"))] = value;
        }
        self.rows.push(row);
    }

    pub(super) fn into_batch(self) -> Result<RecordBatch> {
        let column = |(place, (_, kind)): (usize, &(&str, PgColumn))| array(*kind, place, &self.rows);
        let arrays: Vec<ArrayRef> = self.columns.iter().enumerate().map(column).collect();
        let fields = self.columns.iter().zip(&arrays);
        let fields = fields.map(|((name, _), array)| Field::new(*name, array.data_type().clone(), true));
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays, &options)
            .map_err(|error| Error::internal(format!("pg_catalog: {error}")))
    }
}

fn array(kind: PgColumn, place: usize, rows: &[Vec<PgCell>]) -> ArrayRef {
    let cells = rows.iter().map(|row| &row[place]);
    match kind {
        PgColumn::Text => {
            let texts = cells.map(|cell| match cell {
                PgCell::Text(text) => Some(text.as_str()),
                _ => None,
            });
            Arc::new(texts.collect::<StringViewArray>())
        }
        PgColumn::Number => {
            let numbers = cells.map(|cell| match cell {
                PgCell::Number(number) => Some(*number),
                _ => None,
            });
            Arc::new(numbers.collect::<Int64Array>())
        }
        PgColumn::Truth => {
            let truths = cells.map(|cell| match cell {
                PgCell::Truth(truth) => Some(*truth),
                _ => None,
            });
            Arc::new(truths.collect::<BooleanArray>())
        }
        PgColumn::NoTexts => new_null_array(&SqlType::List(Box::new(SqlType::TEXT)).arrow(), rows.len()),
        PgColumn::Numbers => {
            let item = Field::new("item", DataType::Int64, true);
            let mut lists = ListBuilder::new(Int64Builder::new()).with_field(Arc::new(item));
            for cell in cells {
                match cell {
                    PgCell::Numbers(numbers) => lists.append_value(numbers.iter().map(|number| Some(*number))),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
    }
}
