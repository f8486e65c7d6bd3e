//! Places in a text. The parser counts lines and characters, the rest of the engine counts bytes.

use sqlparser::tokenizer::Location;

/// Converts places to byte offsets. The caller must ask for places in ascending order, so that the text is walked only
/// once.
pub(super) struct TextCursor<'s> {
    text: &'s str,
    byte: usize,
    line: u64,
    column: u64,
}

impl<'s> TextCursor<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        TextCursor { text, byte: 0, line: 1, column: 1 }
    }

    /// Returns the byte offset of `place`, or the length of the text if `place` is after its end.
    pub(super) fn offset(&mut self, place: Location) -> usize {
        for ch in self.text[self.byte..].chars() {
            // A place after the end of its line counts as the end of the line.
            if (self.line, self.column) >= (place.line, place.column) {
                break;
            }
            self.byte += ch.len_utf8();
            if ch == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.byte
    }
}

/// The most characters of the text that an error shows.
const EXCERPT_CHARS: usize = 24;

/// Returns the text at `place`, up to the end of its line or [`EXCERPT_CHARS`].
pub(super) fn excerpt(text: &str, place: Location) -> &str {
    let rest = &text[TextCursor::new(text).offset(place)..];
    let line = rest.lines().next().unwrap_or("");
    match line.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => &line[..end],
        None => line,
    }
}

/// Splits ` at Line: 1, Column: 8` off a message of the parser.
pub(super) fn split_place(message: &str) -> (&str, Option<Location>) {
    let Some((what, place)) = message.rsplit_once(" at Line: ") else { return (message, None) };
    let Some((line, column)) = place.split_once(", Column: ") else { return (message, None) };
    match (line.parse(), column.trim().parse()) {
        (Ok(line), Ok(column)) => (what, Some(Location { line, column })),
        _ => (message, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_and_offsets_count_bytes() {
        let text = "aé\nböc";
        let mut cursor = TextCursor::new(text);
        assert_eq!(cursor.offset(Location { line: 1, column: 2 }), 1);
        assert_eq!(cursor.offset(Location { line: 2, column: 1 }), 4);
        assert_eq!(cursor.offset(Location { line: 2, column: 3 }), 7);
        assert_eq!(cursor.offset(Location { line: 9, column: 1 }), text.len());
        assert_eq!(excerpt(text, Location { line: 2, column: 2 }), "öc");
    }

    #[test]
    fn the_place_is_split_off_a_message() {
        let (what, place) = split_place("Expected: x, found: y at Line: 3, Column: 14");
        assert_eq!((what, place), ("Expected: x, found: y", Some(Location { line: 3, column: 14 })));
        assert_eq!(split_place("no place"), ("no place", None));
    }
}
