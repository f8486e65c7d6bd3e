//! Finds the ends of lines in bytes that come in parts. A string may have line breaks, so a line break ends a line only
//! outside of strings.

/// The place in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinePlace {
    /// Nothing but blanks has come.
    #[default]
    Start,
    Comment,
    /// The measurement and the tags, where a double quote is a character like any other.
    Names,
    /// The fields and the time, outside of strings. A double quote in the name of a field is a character like any
    /// other.
    Fields,
    /// The place after the equals sign of a field, where a string may begin.
    Value,
    String,
}

/// Reads bytes in order, and knows where the last complete line ends.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    place: LinePlace,
    /// Whether the last byte was a backslash that protects the next one.
    is_escaped: bool,
}

impl LineSplitter {
    /// Reads the next bytes. Returns the place after the last complete line in them, or `None` if no line ends in them.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut end = None;
        for (at, byte) in bytes.iter().enumerate() {
            if std::mem::take(&mut self.is_escaped) && *byte != b'\n' {
                continue;
            }
            self.place = match (self.place, byte) {
                (LinePlace::Names | LinePlace::Fields | LinePlace::Value | LinePlace::String, b'\\') => {
                    self.is_escaped = true;
                    self.place
                }
                (LinePlace::String, b'"') => LinePlace::Fields,
                (LinePlace::String, _) => LinePlace::String,
                (_, b'\n') => {
                    end = Some(at + 1);
                    LinePlace::Start
                }
                (LinePlace::Start, b' ' | b'\t' | b'\r') => LinePlace::Start,
                (LinePlace::Start, b'#') => LinePlace::Comment,
                (LinePlace::Start, b'\\') => {
                    self.is_escaped = true;
                    LinePlace::Names
                }
                (LinePlace::Start, _) => LinePlace::Names,
                (LinePlace::Names, b' ') => LinePlace::Fields,
                (LinePlace::Fields, b'=') => LinePlace::Value,
                (LinePlace::Value, b'"') => LinePlace::String,
                (LinePlace::Value, _) => LinePlace::Fields,
                (place, _) => place,
            };
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_break_in_a_string_ends_no_line() {
        let text = b"cpu,host=a\\ b\"c q\"r=1,s=\"x\ny\\\"\nz\",n=1 7\n# it's \"\nmem n=\"a\\\\\"\nrest";
        let ends: Vec<usize> = vec![40, 49, 61];
        for parts in 1..text.len() {
            let mut splitter = LineSplitter::default();
            let mut found = Vec::new();
            for (index, part) in text.chunks(parts).enumerate() {
                found.extend(splitter.read(part).map(|end| index * parts + end));
            }
            assert!(found.iter().all(|end| text[end - 1] == b'\n'), "{found:?}");
            assert_eq!(found.last(), ends.last(), "parts of {parts} bytes");
            if parts == 1 {
                assert_eq!(found, ends);
            }
        }
    }
}
