//! A text put together of pieces of another one and of new text, without copying what stays one piece.

/// The text so far: what was written down, and behind it a piece of the source that was not yet.
#[derive(Debug, Default)]
pub(super) struct Rewrite {
    written: String,
    start: usize,
    end: usize,
}

/// What came out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rewritten<'r> {
    /// A piece of the source, from where to where.
    Piece(usize, usize),
    New(&'r str),
}

impl Rewrite {
    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.written.clear();
        (self.start, self.end) = (0, 0);
    }

    /// Bytes written down so far.
    pub(super) fn written_bytes(&self) -> usize {
        self.written.len()
    }

    /// Goes on with a piece of the source.
    #[inline]
    pub(super) fn copy(&mut self, source: &str, start: usize, end: usize) {
        if start == end {
            return;
        }
        if self.start != self.end && self.end != start {
            self.flush(source);
        }
        if self.start == self.end {
            self.start = start;
        }
        self.end = end;
    }

    /// Goes on with new text.
    #[inline]
    pub(super) fn write(&mut self, source: &str, text: &str) {
        if !text.is_empty() {
            self.flush(source);
            self.written.push_str(text);
        }
    }

    /// The whole text.
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
