//! LIKE patterns, matched with many strings that are stored one after the other.
//!
//! ```text
//!   '%go_gle%x'     pieces: go, any character, gle | x        the last piece must end the string
//! ```
//!
//! We cut a pattern at its `%` into pieces. The first piece must start the string and the last one must end it, unless
//! a `%` is there. We search for the middle pieces from left to right and take the first occurrence of each, which
//! finds a match if one exists. Before that, we search all strings at once for the longest text that every match must
//! contain, and ignore where one string ends and the next begins. Only strings with a hit are matched. This skips most
//! strings at the speed at which memory is read.
//!
//! Bytes that are not UTF-8 are split into characters by their continuation bits.

use std::fmt;

use memchr::memmem::Finder;
use rowmill_base::{Error, ErrorKind, Result};

use super::letter_case;

/// The escape character unless ESCAPE names another one. The character after it is literal.
pub const ESCAPE: char = '\\';

/// A prepared pattern of `LIKE`. It should be prepared once and used for all strings.
pub struct LikePattern {
    /// The pieces between the `%`, in order. There is one more piece than there are `%`. The first and the last piece
    /// may be empty.
    pieces: Vec<LikePiece>,
    /// The longest text that every match must contain, or empty if no such text exists.
    needle: Finder<'static>,
    search: LikeSearch,
}

/// How we find the matches among many strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LikeSearch {
    /// Match each string, because only its ends count or no needle exists.
    Each,
    /// Search the needle, which alone decides.
    Needle,
    /// Search the needle, then match the strings that contain it.
    Candidates,
}

/// A sequence of text and single characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LikePiece(Vec<LikePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum LikePart {
    Text(Vec<u8>),
    /// A number of arbitrary characters.
    Any(usize),
}

impl fmt::Debug for LikePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LikePattern").field(&self.pieces).finish()
    }
}

/// The range of strings that a pattern matches, if its matches are consecutive in the order of strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LikeRange {
    /// This string only.
    Equal(String),
    /// All strings with this prefix.
    Prefix(String),
}

/// A character of a pattern after its escape was resolved.
enum Token {
    Character(char),
    AnyCharacter,
    AnyText,
}

fn tokens(pattern: &str, escape: Option<char>) -> impl Iterator<Item = Token> {
    let mut characters = pattern.chars();
    std::iter::from_fn(move || {
        Some(match characters.next()? {
            // An escape at the end of the pattern is a literal.
            next if Some(next) == escape => Token::Character(characters.next().unwrap_or(next)),
            '%' => Token::AnyText,
            '_' => Token::AnyCharacter,
            character => Token::Character(character),
        })
    })
}

/// Returns the text that every match of `pattern` begins with: everything up to the first wildcard.
pub fn literal_prefix(pattern: &str, escape: Option<char>) -> String {
    let characters = tokens(pattern, escape).map_while(|token| match token {
        Token::Character(character) => Some(character),
        _ => None,
    });
    characters.collect()
}

impl LikeRange {
    /// Returns the range of `pattern`, if its matches form one.
    pub fn of(pattern: &str, escape: Option<char>) -> Option<LikeRange> {
        let mut text = String::new();
        let mut is_prefix = false;
        for token in tokens(pattern, escape) {
            match token {
                Token::Character(character) if !is_prefix => text.push(character),
                Token::AnyText => is_prefix = true,
                _ => return None,
            }
        }
        Some(if is_prefix { LikeRange::Prefix(text) } else { LikeRange::Equal(text) })
    }
}

impl LikePattern {
    /// Prepares `pattern`. Returns an error if an escape named by `ESCAPE` is the last character.
    pub fn parse(pattern: &str, escape: Option<char>) -> Result<LikePattern> {
        if let Some(escape) = escape.filter(|escape| *escape != ESCAPE) {
            let mut characters = pattern.chars();
            while let Some(next) = characters.next() {
                if next == escape && characters.next().is_none() {
                    let message = format!("the LIKE pattern '{pattern}' cannot end with its escape");
                    return Err(Error::new(ErrorKind::InvalidParameter, message));
                }
            }
        }
        Ok(LikePattern::new(pattern, escape))
    }

    /// Prepares `pattern`. An escape at its end is a literal.
    pub fn new(pattern: &str, escape: Option<char>) -> LikePattern {
        let mut pieces = vec![LikePiece::default()];
        for token in tokens(pattern, escape) {
            let parts = &mut pieces.last_mut().expect("there is a piece from the start").0;
            match (token, parts.last_mut()) {
                (Token::AnyText, _) => pieces.push(LikePiece::default()),
                (Token::AnyCharacter, Some(LikePart::Any(count))) => *count += 1,
                (Token::AnyCharacter, _) => parts.push(LikePart::Any(1)),
                (Token::Character(character), Some(LikePart::Text(text))) => push(text, character),
                (Token::Character(character), _) => {
                    let mut text = Vec::new();
                    push(&mut text, character);
                    parts.push(LikePart::Text(text));
                }
            }
        }
        // An empty piece between two `%` adds no condition, so we drop it.
        let last = pieces.len() - 1;
        let mut place = 0;
        pieces.retain(|piece| {
            place += 1;
            place == 1 || place == last + 1 || !piece.0.is_empty()
        });
        let texts = pieces.iter().flat_map(|piece| &piece.0).filter_map(LikePart::text);
        let needle = texts.max_by_key(|text| text.len()).unwrap_or_default();
        let search = match &pieces[..] {
            _ if needle.is_empty() => LikeSearch::Each,
            [_] | [_, _] => LikeSearch::Each,
            [first, LikePiece(middle), last] if first.0.is_empty() && last.0.is_empty() && middle.len() == 1 => {
                LikeSearch::Needle
            }
            _ => LikeSearch::Candidates,
        };
        LikePattern { needle: Finder::new(needle).into_owned(), search, pieces }
    }

    /// Returns the text that decides alone: a string matches if it contains the text. `None` if the pattern needs more.
    pub fn text(&self) -> Option<&[u8]> {
        (self.search == LikeSearch::Needle).then(|| self.needle())
    }

    /// Returns the longest text that every matching string contains.
    pub fn needle(&self) -> &[u8] {
        self.needle.needle()
    }

    /// Sets whether each string matches. String `i` is `bytes[offsets[i]..offsets[i + 1]]`, and `truth` has a value for
    /// each string.
    pub fn find(&self, bytes: &[u8], offsets: &[u32], truth: &mut [bool]) {
        if self.search == LikeSearch::Each {
            for (index, truth) in truth.iter_mut().enumerate() {
                *truth = self.matches(&bytes[offsets[index] as usize..offsets[index + 1] as usize]);
            }
            return;
        }
        let length = self.needle.needle().len();
        // We search all strings as one text.
        let (mut from, end) = (offsets[0] as usize, offsets[truth.len()] as usize);
        // The first string that ends after the current search position.
        let mut index = 0;
        while let Some(distance) = self.needle.find(&bytes[from..end]) {
            let hit = from + distance;
            index += string_with(&offsets[index..], hit as u32);
            let behind = offsets[index + 1] as usize;
            if hit + length > behind {
                // The hit spans two strings, so it is not a match.
                from = hit + 1;
                continue;
            }
            truth[index] = self.search == LikeSearch::Needle || self.matches(&bytes[offsets[index] as usize..behind]);
            // One hit per string is enough, so we continue with the next string.
            from = behind;
        }
    }

    /// Whether one string matches.
    pub fn matches(&self, string: &[u8]) -> bool {
        if self.search == LikeSearch::Needle {
            return self.needle.find(string).is_some();
        }
        let (first, rest) = self.pieces.split_first().expect("a pattern has a piece");
        let Some(mut at) = first.end_at(string, 0) else { return false };
        let Some((last, middle)) = rest.split_last() else { return at == string.len() };
        // The last piece is fixed to the end, so the middle pieces must fit before it.
        let Some(end) = last.start_before(string) else { return false };
        for piece in middle {
            match piece.find(string, at) {
                Some(behind) => at = behind,
                None => return false,
            }
        }
        at <= end
    }
}

/// Returns the index of the string that contains the byte `at`, counted from the first of `offsets`.
fn string_with(offsets: &[u32], at: u32) -> usize {
    // We gallop from the start, because the next hit is usually near.
    let mut reach = 1;
    // Double the reach until it passes `at`, then search within it.
    while offsets.get(reach).is_some_and(|start| *start <= at) {
        reach *= 2;
    }
    let near = &offsets[..reach.min(offsets.len())];
    near.partition_point(|start| *start <= at) - 1
}

fn push(text: &mut Vec<u8>, character: char) {
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

impl LikePart {
    fn text(&self) -> Option<&[u8]> {
        match self {
            LikePart::Text(text) => Some(text),
            LikePart::Any(_) => None,
        }
    }
}

impl LikePiece {
    /// Returns the end of the piece in `string` if the piece occurs at `at`.
    fn end_at(&self, string: &[u8], mut at: usize) -> Option<usize> {
        for part in &self.0 {
            match part {
                LikePart::Text(text) if string[at..].starts_with(text) => at += text.len(),
                LikePart::Text(_) => return None,
                LikePart::Any(count) => {
                    for _ in 0..*count {
                        at = character_behind(string, at)?;
                    }
                }
            }
        }
        Some(at)
    }

    /// Returns the start of the piece in `string` if the piece ends the string.
    fn start_before(&self, string: &[u8]) -> Option<usize> {
        let mut end = string.len();
        for part in self.0.iter().rev() {
            match part {
                LikePart::Text(text) if string[..end].ends_with(text) => end -= text.len(),
                LikePart::Text(_) => return None,
                LikePart::Any(count) => {
                    for _ in 0..*count {
                        end = string[..end].iter().rposition(|byte| !is_inside(*byte))?;
                    }
                }
            }
        }
        Some(end)
    }

    /// Returns the end of the piece's first occurrence in `string` from `at` on.
    fn find(&self, string: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if let Some(LikePart::Text(text)) = self.0.first() {
                at += memchr::memmem::find(&string[at..], text)?;
            }
            if let Some(end) = self.end_at(string, at) {
                return Some(end);
            }
            at = character_behind(string, at)?;
        }
    }
}

/// Whether a byte continues a character.
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Returns the end of the character at `at`, or `None` at the end of the string.
fn character_behind(string: &[u8], at: usize) -> Option<usize> {
    let rest = string.get(at..).filter(|rest| !rest.is_empty())?;
    Some(at + 1 + rest[1..].iter().take_while(|byte| is_inside(**byte)).count())
}

/// A pattern of LIKE or ILIKE that is matched with one text at a time.
#[derive(Debug)]
pub struct LikeMatcher {
    pattern: LikePattern,
    ignore_case: bool,
}

impl LikeMatcher {
    /// Prepares a pattern. Returns an error if it ends with an escape that the statement names.
    pub fn new(pattern: &str, escape: Option<char>, ignore_case: bool) -> Result<LikeMatcher> {
        let pattern = match ignore_case {
            true => {
                let mut folded = String::with_capacity(pattern.len());
                fold_case(pattern, &mut folded);
                // The escape is folded like the pattern, so that it still matches there.
                LikePattern::parse(&folded, escape.map(letter_case::folded))?
            }
            false => LikePattern::parse(pattern, escape)?,
        };
        Ok(LikeMatcher { pattern, ignore_case })
    }

    /// Whether `text` matches. `scratch` is memory for the folded text.
    pub fn matches(&self, text: &str, scratch: &mut String) -> bool {
        if !self.ignore_case {
            return self.pattern.matches(text.as_bytes());
        }
        scratch.clear();
        fold_case(text, scratch);
        self.pattern.matches(scratch.as_bytes())
    }
}

/// Appends `text` in lower case, character by character, so that `_` still matches exactly one.
fn fold_case(text: &str, out: &mut String) {
    match text.is_ascii() {
        true => {
            let start = out.len();
            out.push_str(text);
            out[start..].make_ascii_lowercase();
        }
        false => out.extend(text.chars().map(letter_case::folded)),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Scalar, StringViewArray};
    use arrow_string::like::like;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn patterns_that_match_a_range_are_recognized() {
        let of = |pattern: &str| LikeRange::of(pattern, Some(ESCAPE));
        let equal = |text: &str| Some(LikeRange::Equal(text.to_owned()));
        let prefix = |text: &str| Some(LikeRange::Prefix(text.to_owned()));
        assert_eq!(of(""), equal(""));
        assert_eq!(of("a\\%b"), equal("a%b"));
        assert_eq!(of("a\\"), equal("a\\"));
        assert_eq!(of("%"), prefix(""));
        assert_eq!(of("ab%%"), prefix("ab"));
        assert_eq!(["a%b", "a_", "_%", "%a"].map(of), [None, None, None, None]);
    }

    fn random(rng: &mut SmallRng, alphabet: &str, length_max: usize) -> String {
        let characters: Vec<char> = alphabet.chars().collect();
        (0..rng.random_range(0..=length_max)).map(|_| characters[rng.random_range(0..characters.len())]).collect()
    }

    #[test]
    fn random_patterns_agree_with_arrow_one_by_one_and_together() {
        let mut rng = SmallRng::seed_from_u64(7);
        for _ in 0..500 {
            let pattern = random(&mut rng, "%%__aяb", 7);
            let texts: Vec<String> = (0..20).map(|_| random(&mut rng, "aяb", 9)).collect();
            let expected = like(
                &StringViewArray::from_iter_values(&texts),
                &Scalar::new(StringViewArray::from(vec![pattern.as_str()])),
            )
            .expect("texts");
            let matcher = LikePattern::new(&pattern, Some(ESCAPE));
            let mut offsets = vec![0];
            let mut bytes = Vec::new();
            for text in &texts {
                bytes.extend_from_slice(text.as_bytes());
                offsets.push(bytes.len() as u32);
            }
            let mut together = vec![false; texts.len()];
            matcher.find(&bytes, &offsets, &mut together);
            for (row, text) in texts.iter().enumerate() {
                assert_eq!(matcher.matches(text.as_bytes()), expected.value(row), "{text:?} LIKE {pattern:?}");
                assert_eq!(together[row], expected.value(row), "{text:?} LIKE {pattern:?}, together");
            }
        }
    }

    #[test]
    fn patterns_of_one_text_are_searched_directly() {
        let search = |pattern| LikePattern::new(pattern, Some(ESCAPE)).search;
        assert_eq!(["%a%", "%a\\_%%"].map(search), [LikeSearch::Needle; 2]);
        assert_eq!(["%a_%", "%a%b", "x%a%", "%a%b%", "%_a%"].map(search), [LikeSearch::Candidates; 5]);
        assert_eq!(["%a", "a_", "_", "%_%", "%%", ""].map(search), [LikeSearch::Each; 6]);
    }

    #[test]
    fn bytes_that_are_not_utf8_do_no_harm() {
        let rng = &mut SmallRng::seed_from_u64(4);
        for _ in 0..2000 {
            let pattern = LikePattern::new(&random(rng, "%%__aя", 7), Some(ESCAPE));
            let bytes: Vec<u8> =
                (0..rng.random_range(0..12)).map(|_| [b'a', 0x80, 0xd1, 0x8f, 0xff][rng.random_range(0..5)]).collect();
            let _ = pattern.matches(&bytes);
        }
    }

    #[test]
    fn escapes_and_case_are_respected() {
        let like =
            |text: &str, pattern: &str, escape| LikePattern::parse(pattern, escape).map(|p| p.matches(text.as_bytes()));
        assert_eq!(like("a%b", "a!%b", Some('!')), Ok(true));
        assert_eq!(like("axb", "a!%b", Some('!')), Ok(false));
        assert_eq!(like("a!b", "a!!b", Some('!')), Ok(true));
        assert_eq!(like("a\\xb", "a\\%b", None), Ok(true));
        assert!(like("a", "a!", Some('!')).is_err());
        assert_eq!(like("a\\", "a\\", Some(ESCAPE)), Ok(true));
        let ilike = |text: &str, pattern: &str| {
            LikeMatcher::new(pattern, Some(ESCAPE), true).expect("a pattern").matches(text, &mut String::new())
        };
        assert!(ilike("ABC", "a_c"));
        assert!(ilike("ÄB", "äb"));
        assert!(ilike("xÄBx", "%äB%"));
        assert!(!ilike("AB", "a"));
    }
}
