//! Small text results of statements that are not queries.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewBuilder};
use arrow::datatypes::{DataType, Field, Schema};
use rowmill_base::{Error, Result};

use crate::outcome::{Outcome, RowStream};

/// Rows of `N` texts, each of which may be NULL.
pub(super) struct TextRows<const N: usize> {
    names: [&'static str; N],
    rows: Vec<[Option<String>; N]>,
}

impl<const N: usize> TextRows<N> {
    pub(super) fn new(names: [&'static str; N]) -> Self {
        TextRows { names, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: [Option<String>; N]) {
        self.rows.push(row);
    }

    /// Returns the rows as the outcome of a statement.
    pub(super) fn outcome(self) -> Result<Outcome> {
        let fields: Vec<Field> = self.names.iter().map(|name| Field::new(*name, DataType::Utf8View, true)).collect();
        let columns = (0..N).map(|column| {
            let mut texts = StringViewBuilder::with_capacity(self.rows.len());
            self.rows.iter().for_each(|row| texts.append_option(row[column].as_deref()));
            Arc::new(texts.finish()) as ArrayRef
        });
        // A result may have no columns, so the number of rows is given explicitly.
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns.collect(), &options)
            .map(|batch| Outcome::Rows(RowStream::ready(batch)))
            .map_err(|error| Error::internal(format!("columns of text go into a batch of text: {error}")))
    }
}
