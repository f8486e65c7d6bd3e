//! The replacement of a match: text and references to groups.

use std::collections::BTreeSet;

use regex::Regex;

use super::rewrite::Rewrite;

/// A parsed replacement.
#[derive(Debug)]
pub(super) struct Template {
    text: String,
    /// The referenced groups, in order, each with its place in the text.
    references: Vec<(usize, usize)>,
}

impl Template {
    /// Parses a replacement in which `\1` to `\9` mean groups, `\0` and `\&` the match, and `\\` a backslash. Groups
    /// that `regex` does not have are empty.
    pub(super) fn new(replacement: &str, regex: &Regex) -> Template {
        let mut text = String::new();
        let mut references = Vec::new();
        let mut chars = replacement.chars();
        while let Some(char) = chars.next() {
            if char != '\\' {
                text.push(char);
                continue;
            }
            match chars.next() {
                Some('&') => references.push((text.len(), 0)),
                Some(digit @ '0'..='9') => references.push((text.len(), digit as usize - '0' as usize)),
                Some('\\') | None => text.push('\\'),
                Some(other) => text.extend(['\\', other]),
            }
        }
        // A reference to a missing group is empty.
        references.retain(|&(_, group)| group < regex.captures_len());
        Template { text, references }
    }

    /// Returns the referenced groups, 0 for the match.
    pub(super) fn groups(&self) -> BTreeSet<usize> {
        self.references.iter().map(|&(_, group)| group).collect()
    }

    /// Writes the replacement of a match whose groups have the positions of `group`.
    #[inline]
    pub(super) fn write(&self, source: &str, rewrite: &mut Rewrite, group: impl Fn(usize) -> Option<(usize, usize)>) {
        let mut written = 0;
        for &(place, reference) in &self.references {
            rewrite.write(source, &self.text[written..place]);
            written = place;
            if let Some((start, end)) = group(reference) {
                rewrite.copy(source, start, end);
            }
        }
        rewrite.write(source, &self.text[written..]);
    }
}
