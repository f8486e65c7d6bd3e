//! Prints results; each format has a file of its own.

mod csv;
mod grid;
mod json;
mod line;
mod plan;
mod screen;
mod table;

use std::io::Write;

use clap::ValueEnum;
use rowmill::Result;
use rowmill::arrow::array::RecordBatch;
use rowmill::arrow::datatypes::Schema;

use crate::terminal::output_error;

/// The format in which results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table with borders, for people.
    Table,
    /// Comma-separated values with a header row.
    Csv,
    /// One JSON array of objects.
    Json,
    /// One JSON object per line.
    Ndjson,
    /// A Markdown table.
    Markdown,
    /// One value per line.
    Line,
}

/// Prints the batches of one result.
pub(crate) trait Printer {
    /// Prints the rows of a batch, or keeps them for later.
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<()>;
    /// Prints the rows that were kept, and everything that ends the result.
    fn finish(&mut self, out: &mut dyn Write) -> Result<()>;
}

impl Format {
    /// A printer for a result with `schema`.
    pub(crate) fn printer(self, schema: &Schema) -> Box<dyn Printer> {
        match self {
            Format::Table => Box::new(table::TablePrinter::new(schema, false)),
            Format::Markdown => Box::new(table::TablePrinter::new(schema, true)),
            Format::Csv => Box::new(csv::CsvPrinter::new(schema)),
            Format::Json => Box::new(json::JsonPrinter::new(schema, true)),
            Format::Ndjson => Box::new(json::JsonPrinter::new(schema, false)),
            Format::Line => Box::new(line::LinePrinter::new(schema)),
        }
    }

    /// A printer for a result with `schema` on a screen of this width. Tables are made to fit it.
    pub(crate) fn screen_printer(self, schema: &Schema, columns: usize) -> Box<dyn Printer> {
        match self {
            Format::Table if plan::is_plan(schema) => Box::new(plan::PlanPrinter),
            Format::Table => Box::new(screen::ScreenPrinter::new(schema, columns)),
            other => other.printer(schema),
        }
    }

    /// Whether people read the format. For them we also print the outcome of statements without rows.
    pub(crate) fn is_for_people(self) -> bool {
        matches!(self, Format::Table | Format::Markdown | Format::Line)
    }
}

/// Writes text to the output.
fn put(out: &mut dyn Write, text: &str) -> Result<()> {
    out.write_all(text.as_bytes()).map_err(|error| output_error(&error))
}

/// The names of the columns.
fn names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}
