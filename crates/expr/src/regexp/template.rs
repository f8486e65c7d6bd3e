//! The replacement of a match: text and references to groups.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use regex_automata::util::interpolate;

use super::rewrite::Rewrite;

/// Matches the references of a replacement in SQL.
static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\\{1,2}(\d+)").expect("the pattern of a reference is valid"));

/// A parsed replacement.
#[derive(Debug)]
pub(super) struct Template {
    text: String,
    /// The referenced groups, in order, each with its place in the text.
    references: Vec<(usize, usize)>,
}

impl Template {
    /// Parses a replacement of matches of `regex`. `\1` (or `\\1`, as doubled by an escape) means group 1, and so do
    /// the forms of the `regex` library: `$1`, `${1}`, `$name`, with `$$` for a dollar sign. Groups that the pattern
    /// does not have are empty.
    pub(super) fn new(replacement: &str, regex: &Regex) -> Template {
        let replacement = REFERENCE.replace_all(replacement, "$${$1}");
        let mut text = String::new();
        let mut references = Vec::new();
        let named = |name: &str| regex.capture_names().position(|group| group == Some(name));
        interpolate::string(&replacement, |group, text| references.push((text.len(), group)), named, &mut text);
        references.retain(|&(_, group)| group < regex.captures_len());
        Template { text, references }
    }

    /// Parses a replacement in which `\1` to `\9` mean groups, `\0` and `\&` the match, and `\\` a backslash. Groups
    /// that the pattern does not have are empty.
    pub(super) fn sql(replacement: &str, regex: &Regex) -> Template {
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
