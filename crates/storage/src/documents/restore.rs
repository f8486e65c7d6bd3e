//! Puts documents together of their skeletons and parts.

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use rowmill_base::{Error, Result};

use super::scalar::{PartType, ScalarValues};
use super::{HOLE, HOLES_MAX};

/// The parts of some documents.
#[derive(Debug)]
pub(crate) struct DocumentParts<'a> {
    parts: Vec<ScalarValues<'a>>,
}

impl<'a> DocumentParts<'a> {
    /// The parts with their types, by their numbers. They must have as many rows as the skeletons.
    pub(crate) fn new(parts: impl IntoIterator<Item = (PartType, &'a ArrayRef)>) -> Result<DocumentParts<'a>> {
        let parts = parts.into_iter().map(|(kind, values)| ScalarValues::new(kind, values)).collect::<Result<_>>()?;
        Ok(DocumentParts { parts })
    }

    /// The texts of the documents with these skeletons.
    pub(crate) fn restore(&self, skeletons: &StringViewArray) -> Result<StringViewArray> {
        let mut documents = StringViewBuilder::with_capacity(skeletons.len());
        let mut text = String::new();
        for row in 0..skeletons.len() {
            if skeletons.is_null(row) {
                documents.append_null();
                continue;
            }
            text.clear();
            self.write(row, skeletons.value(row), &mut text)?;
            documents.try_append_value(&text).map_err(|error| Error::corrupt(format!("a document: {error}")))?;
        }
        Ok(documents.finish())
    }

    fn write(&self, row: usize, skeleton: &str, text: &mut String) -> Result<()> {
        let mut rest = skeleton;
        let mut holes = 0;
        while let Some(at) = memchr::memchr(HOLE, rest.as_bytes()) {
            text.push_str(&rest[..at]);
            let number = rest[at + 1..].chars().next().ok_or_else(|| damaged("a hole has no number"))?;
            rest = &rest[at + 1 + number.len_utf8()..];
            let part = number as usize;
            if part == HOLES_MAX {
                text.push(char::from(HOLE));
                continue;
            }
            // A genuine document has each part once, so damage cannot make a document out of all proportion.
            holes += 1;
            let values = self.parts.get(part).filter(|_| holes <= self.parts.len());
            let values = values.ok_or_else(|| damaged(&format!("hole {holes} has the number {part}")))?;
            if !values.write(row, text) {
                return Err(damaged(&format!("part {part} has no value for a hole")));
            }
        }
        text.push_str(rest);
        Ok(())
    }
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("a document cannot be put together: {what}"))
}
