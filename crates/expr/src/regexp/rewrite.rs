//! Builds a text from pieces of a source text and new text. A result that is one piece of the source is not copied.

/// The text so far: the written part, followed by a piece of the source that is not written yet.
#[derive(Debug, Default)]
pub(super) struct Rewrite {
    written: String,
    start: usize,
    end: usize,
}

/// The finished text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rewritten<'r> {
    /// A piece of the source: its start and its end.
    Piece(usize, usize),
    New(&'r str),
}

impl Rewrite {
    /// Starts a new text.
    pub(super) fn clear(&mut self) {
        self.written.clear();
        (self.start, self.end) = (0, 0);
    }

    /// Returns the number of bytes written so far.
    pub(super) fn written_bytes(&self) -> usize {
        self.written.len()
    }

    /// Appends a piece of the source.
    #[inline]
    pub(super) fn copy(&mut self, source: &str, start: usize, end: usize) {
        if start == end {
            return;
        }
        // The new piece does not continue the pending one, so the pending one must be written.
        if self.start != self.end && self.end != start {
            self.flush(source);
        }
        if self.start == self.end {
            self.start = start;
        }
        self.end = end;
    }

    /// Appends new text.
    #[inline]
    pub(super) fn write(&mut self, source: &str, text: &str) {
        if !text.is_empty() {
            self.flush(source);
            self.written.push_str(text);
        }
    }

    /// Returns the whole text.
    #[inline]
    pub(super) fn finish(&mut self, source: &str) -> Rewritten<'_> {
        if self.written.is_empty() {
            return Rewritten::Piece(self.start, self.end);
        }
        self.flush(source);
        Rewritten::New(&self.written)
    }

    fn flush(&mut self, source: &str) {
        self.written.push_str(&source[self.start..self.end]);
        self.start = self.end;
    }
}
