//! A column whose texts mostly equal those of a source column or are pieces of them. They are views into the buffers of
//! the source.

use arrow::array::{Array, AsArray, ByteView, StringViewArray, StringViewBuilder};
use arrow::compute::interleave;
use arrow::error::ArrowError;
use rowmill_base::{Error, ErrorKind, Result};

/// The most bytes of one text.
const TEXT_BYTES_MAX: usize = i32::MAX as usize;

/// The most bytes of a text that is stored in its view.
const INLINE_BYTES_MAX: usize = 12;

/// A column that is built row by row beside its source.
#[derive(Debug)]
pub(super) struct Views<'s> {
    source: &'s StringViewArray,
    /// The texts of the source, followed by the texts that replace them.
    texts: StringViewBuilder,
    /// The number of texts in `texts`.
    count: usize,
    /// For each row, array 0 (the only one) and its place among the texts.
    places: Vec<(usize, usize)>,
}

impl<'s> Views<'s> {
    /// Creates an empty column beside `source`.
    pub(super) fn new(source: &'s StringViewArray) -> Views<'s> {
        let mut texts = StringViewBuilder::with_capacity(source.len());
        texts.append_array(source);
        Views { source, texts, count: source.len(), places: Vec::with_capacity(source.len()) }
    }

    /// Gives the next row the source's text of that row, which may be NULL.
    pub(super) fn push_same(&mut self) {
        self.places.push((0, self.places.len()));
    }

    /// Gives the next row the bytes `start..end` of `text`, which must be the source's text of that row.
    #[inline]
    pub(super) fn push_piece(&mut self, text: &str, start: usize, end: usize) -> Result<()> {
        // Arrow requires that short texts are stored in the view itself.
        if end - start <= INLINE_BYTES_MAX {
            return self.push_new(&text[start..end]);
        }
        let view = ByteView::from(self.source.views()[self.places.len()]);
        self.texts
            .try_append_view(view.buffer_index, view.offset + start as u32, (end - start) as u32)
            .map_err(broken)?;
        self.push_last();
        Ok(())
    }

    /// Gives the next row a new text.
    #[inline]
    pub(super) fn push_new(&mut self, text: &str) -> Result<()> {
        check_length(text.len())?;
        self.texts.try_append_value(text).map_err(broken)?;
        self.push_last();
        Ok(())
    }

    fn push_last(&mut self) {
        self.places.push((0, self.count));
        self.count += 1;
    }

    /// Returns the column. It keeps only those buffers alive that it has views into.
    pub(super) fn finish(mut self) -> Result<StringViewArray> {
        // No row has a new text, so the source is the result.
        if self.count == self.source.len() {
            return Ok(self.source.clone());
        }
        let texts = self.texts.finish();
        // `interleave` copies views and drops buffers without views.
        let column = interleave(&[&texts], &self.places).map_err(broken)?;
        Ok(column.as_string_view().clone())
    }
}

/// Refuses a text with this number of bytes if no column can hold it.
#[inline]
pub(super) fn check_length(bytes: usize) -> Result<()> {
    if bytes <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let message = format!("a text would have {bytes} bytes or more, the limit is {TEXT_BYTES_MAX}");
    Err(Error::new(ErrorKind::ResultTooLarge, message))
}

fn broken(error: ArrowError) -> Error {
    Error::internal(format!("views of texts are broken: {error}"))
}
