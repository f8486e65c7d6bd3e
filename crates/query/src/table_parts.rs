//! Tables whose definition has parts of documents as columns.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, StringViewBuilder};
use rowmill_base::{Error, Result};
use rowmill_expr::json::parts::part;
use rowmill_expr::json::path::{JsonPath, PathStep};
use rowmill_expr::json::{scalar_text, texts_of};
use rowmill_storage::{Block, OpenRun, PartForm, PartReader, PartType, PlannedParts, TableDef, TableSource};

/// The rows of a table, read with a definition that has columns for parts of documents.
#[derive(Debug)]
struct TableWithParts {
    rows: Arc<dyn TableSource>,
    parts: Arc<PlannedParts>,
}

impl TableSource for TableWithParts {
    fn table(&self) -> &Arc<TableDef> {
        &self.parts.table
    }

    fn blocks(&self) -> &[Arc<Block>] {
        self.rows.blocks()
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        self.rows.runs()
    }

    fn planned_parts(&self) -> Option<&Arc<PlannedParts>> {
        Some(&self.parts)
    }
}

/// The rows of a columnar table with the parts that a plan reads.
pub(crate) fn with_parts(rows: Arc<dyn TableSource>, parts: Arc<PlannedParts>) -> Arc<dyn TableSource> {
    Arc::new(TableWithParts { rows, parts })
}

/// The rows of another snapshot for a plan over `planned`. `None` if a plan for that snapshot would read other parts.
pub(crate) fn like_planned(planned: &dyn TableSource, rows: Arc<dyn TableSource>) -> Option<Arc<dyn TableSource>> {
    match planned.planned_parts() {
        Some(parts) if parts.still_hold(&*rows) => Some(with_parts(rows, Arc::clone(parts))),
        Some(_) => None,
        None => Some(rows),
    }
}

/// Reads the values at a path of documents.
#[derive(Debug)]
pub(crate) struct PathReader {
    path: JsonPath,
    form: PartForm,
}

impl PathReader {
    pub(crate) fn new(keys: &[String], form: PartForm) -> PathReader {
        PathReader { path: JsonPath { steps: keys.iter().cloned().map(PathStep::Key).collect() }, form }
    }

    /// Calls `each` with the text of each document's value, or `None` if it has none.
    fn each(&self, documents: &ArrayRef, each: &mut dyn FnMut(Option<&str>)) {
        let texts = texts_of(documents);
        let mut scratch = String::new();
        for row in 0..texts.len() {
            let found = if texts.is_valid(row) { part(texts.value(row), &self.path.steps) } else { None };
            each(found.and_then(|found| scalar_text(found, &mut scratch)));
        }
    }

    /// The texts for which `is_wanted` is true, and NULL for the others.
    fn texts(&self, documents: &ArrayRef, is_wanted: fn(&str) -> bool) -> Result<ArrayRef> {
        let mut values = StringViewBuilder::with_capacity(documents.len());
        let mut outcome = Ok(());
        self.each(documents, &mut |text| match text.filter(|text| is_wanted(text)) {
            Some(text) => {
                if let Err(error) = values.try_append_value(text) {
                    outcome = Err(Error::internal(format!("a part of a document: {error}")));
                }
            }
            None => values.append_null(),
        });
        outcome.map(|()| Arc::new(values.finish()) as ArrayRef)
    }
}

impl PartReader for PathReader {
    fn read(&self, documents: &ArrayRef) -> Result<ArrayRef> {
        let rows = documents.len();
        match self.form {
            PartForm::Values(PartType::Text) => self.texts(documents, |_| true),
            PartForm::Values(PartType::Integer) => {
                let mut values = Int64Builder::with_capacity(rows);
                self.each(documents, &mut |text| values.append_option(text.and_then(parsed)));
                Ok(Arc::new(values.finish()))
            }
            PartForm::Values(PartType::Double) => {
                let mut values = Float64Builder::with_capacity(rows);
                self.each(documents, &mut |text| values.append_option(text.and_then(parsed)));
                Ok(Arc::new(values.finish()))
            }
            PartForm::Values(PartType::Boolean) => {
                let mut values = BooleanBuilder::with_capacity(rows);
                self.each(documents, &mut |text| values.append_option(text.and_then(parsed)));
                Ok(Arc::new(values.finish()))
            }
            PartForm::Rest(PartType::Integer) => self.texts(documents, |text| parsed::<i64>(text).is_none()),
            PartForm::Rest(PartType::Double) => self.texts(documents, |text| parsed::<f64>(text).is_none()),
            PartForm::Rest(PartType::Boolean) => self.texts(documents, |text| parsed::<bool>(text).is_none()),
            PartForm::Rest(PartType::Text) => self.texts(documents, |_| false),
        }
    }
}

/// The value of a text that is written as we would write the value. So the text follows from the value.
fn parsed<T: FromStr + ToString>(text: &str) -> Option<T> {
    text.parse::<T>().ok().filter(|value| value.to_string() == text)
}
