//! Patterns of names, as the shell and SQLite have them: `*` stands for any characters, `?` for one, and `[a-z]`,
//! `[^a-z]` or `[!a-z]` for one of a set. Upper and lower case differ.

/// A pattern, ready to be compared with texts.
#[derive(Clone, Debug, PartialEq)]
pub struct GlobPattern(Vec<GlobPart>);

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq)]
enum GlobPart {
    Char(char),
    AnyChar,
    /// Any number of characters.
    Many,
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl GlobPattern {
    /// Divides a pattern. A set that does not end is read as its characters.
    pub fn new(pattern: &str) -> GlobPattern {
        let chars: Vec<char> = pattern.chars().collect();
        let mut parts = Vec::with_capacity(chars.len());
        let mut at = 0;
        while at < chars.len() {
            let (part, next) = match chars[at] {
                '*' => (GlobPart::Many, at + 1),
                '?' => (GlobPart::AnyChar, at + 1),
                '[' => set_at(&chars, at + 1).unwrap_or((GlobPart::Char('['), at + 1)),
                char => (GlobPart::Char(char), at + 1),
            };
            parts.push(part);
            at = next;
        }
        GlobPattern(parts)
    }

    /// Whether a text matches. After a mismatch the last star takes one character more, so that the time is at most the
    /// product of both lengths.
    pub fn matches(&self, text: &str) -> bool {
        let parts = &self.0;
        let fits = |part: &GlobPart, char: char| match part {
            GlobPart::Char(wanted) => *wanted == char,
            GlobPart::AnyChar => true,
            GlobPart::Many => false,
            GlobPart::Set { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&char)) != *negated
            }
        };
        let (mut part, mut rest) = (0, text.chars());
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            if parts.get(part) == Some(&GlobPart::Many) {
                part += 1;
                retry = Some((part, rest.clone()));
                continue;
            }
            let Some(char) = rest.clone().next() else { return part == parts.len() };
            if parts.get(part).is_some_and(|wanted| fits(wanted, char)) {
                rest.next();
                part += 1;
                continue;
            }
            let Some((after_star, from)) = &mut retry else { return false };
            from.next();
            part = *after_star;
            rest = from.clone();
        }
    }
}

/// Reads the set that begins after the bracket before `at`. Returns it with the place after it.
fn set_at(chars: &[char], mut at: usize) -> Option<(GlobPart, usize)> {
    let negated = matches!(chars.get(at), Some('^' | '!'));
    at += usize::from(negated);
    let mut ranges = Vec::new();
    // A closing bracket at the beginning is a member of the set.
    while ranges.is_empty() || *chars.get(at)? != ']' {
        let first = *chars.get(at)?;
        let is_range = chars.get(at + 1) == Some(&'-') && chars.get(at + 2).is_some_and(|last| *last != ']');
        let last = if is_range { chars[at + 2] } else { first };
        ranges.push((first, last));
        at += if is_range { 3 } else { 1 };
    }
    Some((GlobPart::Set { negated, ranges }, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_the_shell() {
        for (pattern, text, expected) in [
            ("a*c", "abbc", true),
            ("a*c", "ab", false),
            ("*", "", true),
            ("?", "", false),
            ("?é", "aé", true),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[!a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[]x]", "x", true),
            ("[a-]", "-", true),
            ("[ab", "[ab", true),
            ("[ab", "a", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*aab", "aaaab", true),
            ("A*", "abc", false),
            ("", "", true),
        ] {
            assert_eq!(GlobPattern::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "*a".repeat(200);
        let matches = |pattern: &str, text: &str| GlobPattern::new(pattern).matches(text);
        assert!(!matches(&pattern, &"a".repeat(199)));
        assert!(matches(&pattern, &"a".repeat(200)));
        assert!(!matches(&format!("{pattern}b"), &"a".repeat(5000)));
    }
}
