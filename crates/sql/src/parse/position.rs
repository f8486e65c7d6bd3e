//! Places in a text: the parser counts lines and characters, the rest of the engine bytes.

use sqlparser::tokenizer::Location;

/// Turns places into byte offsets. Places are asked for in ascending order, so a text is walked once.
pub(super) struct Cursor<'s> {
    text: &'s str,
    byte: usize,
    line: u64,
    column: u64,
}

impl<'s> Cursor<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        Cursor { text, byte: 0, line: 1, column: 1 }
    }

    /// The byte at which `place` stands, or the end of the text.
    pub(super) fn offset(&mut self, place: Location) -> usize {
        for ch in self.text[self.byte..].chars() {
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

/// The characters shown of a text at the place of an error.
const EXCERPT_CHARS: usize = 24;

/// What stands at `place`, at most to the end of its line.
pub(super) fn excerpt(text: &str, place: Location) -> &str {
    let rest = &text[Cursor::new(text).offset(place)..];
    let line = rest.lines().next().unwrap_or("");
    match line.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => &line[..end],
        None => line,
    }
}

/// Cuts ` at Line: 1, Column: 8` off a message of the parser.
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
        let mut cursor = Cursor::new(text);
        assert_eq!(cursor.offset(Location { line: 1, column: 2 }), 1);
        assert_eq!(cursor.offset(Location { line: 2, column: 1 }), 4);
        assert_eq!(cursor.offset(Location { line: 2, column: 3 }), 7);
        assert_eq!(cursor.offset(Location { line: 9, column: 1 }), text.len());
        assert_eq!(excerpt(text, Location { line: 2, column: 2 }), "öc");
    }

    #[test]
    fn the_place_is_cut_off_a_message() {
        let (what, place) = split_place("Expected: x, found: y at Line: 3, Column: 14");
        assert_eq!((what, place), ("Expected: x, found: y", Some(Location { line: 3, column: 14 })));
        assert_eq!(split_place("no place"), ("no place", None));
    }
}
