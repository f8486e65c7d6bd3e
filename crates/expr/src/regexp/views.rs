//! A column of texts most of which are those of another one or pieces of them: views into the buffers of that one.

use arrow::array::{Array, AsArray, ByteView, StringViewArray, StringViewBuilder};
use arrow::compute::interleave;
use arrow::error::ArrowError;
use rowmill_base::{Error, ErrorKind, Result};

/// Bytes of one text at most.
const TEXT_BYTES_MAX: usize = i32::MAX as usize;

/// Bytes of texts that lie in their views.
const INLINE_BYTES_MAX: usize = 12;

/// A column under construction, row by row beside its source.
#[derive(Debug)]
pub(super) struct Views<'s> {
    source: &'s StringViewArray,
    /// The texts of the source, and behind them what rows have instead.
    texts: StringViewBuilder,
    /// Texts in there.
    count: usize,
    /// For each row array 0, which is the only one, and its place among the texts.
    places: Vec<(usize, usize)>,
}

impl<'s> Views<'s> {
    /// An empty column beside `source`.
    pub(super) fn new(source: &'s StringViewArray) -> Views<'s> {
        let mut texts = StringViewBuilder::with_capacity(source.len());
        texts.append_array(source);
        Views { source, texts, count: source.len(), places: Vec::with_capacity(source.len()) }
    }

    /// Gives the next row what the source has there, which may be NULL.
    pub(super) fn push_same(&mut self) {
        self.places.push((0, self.places.len()));
    }

    /// Gives the next row the bytes `start..end` of `text`, which is what the source has there.
    #[inline]
    pub(super) fn push_piece(&mut self, text: &str, start: usize, end: usize) -> Result<()> {
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

    /// The column. It holds on to the buffers that it has views into, and only to those.
    pub(super) fn finish(mut self) -> Result<StringViewArray> {
        if self.count == self.source.len() {
            return Ok(self.source.clone());
        }
        let texts = self.texts.finish();
        let column = interleave(&[&texts], &self.places).map_err(broken)?;
        Ok(column.as_string_view().clone())
    }
}

/// Refuses a text of so many bytes if no column can hold it.
#[inline]
pub(super) fn check_length(bytes: usize) -> Result<()> {
    if bytes <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let message = format!("a text would have {bytes} bytes or more, and {TEXT_BYTES_MAX} is the most");
    Err(Error::new(ErrorKind::ResultTooLarge, message))
}

fn broken(error: ArrowError) -> Error {
    Error::internal(format!("views of texts are broken: {error}"))
}
