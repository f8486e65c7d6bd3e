//! LIKE patterns, matched against many strings that lie behind one another.
//!
//! ```text
//!   '%go_gle%x'     pieces: go, any character, gle | x        the last piece has to end the string
//! ```
//!
//! A pattern is cut at its `%` into pieces; the first one and the last one are bound to the ends of a string unless there
//! is a `%`, and those in between are looked for from left to right, each as early as it is there, which finds a match if
//! there is one. Of the text that every match has in it the longest part is searched for in all strings at once, without a
//! look at where one ends and the next begins; only strings with a hit are matched. Most are passed over that way, at the
//! speed at which memory is read.
//!
//! Bytes that are not UTF-8 match as whatever a decoder of characters makes of them.

use std::fmt;

use memchr::memmem::Finder;
use rowmill_storage::strings::StringWindow;

/// The character that takes the next one as it is.
const ESCAPE: char = '\\';

/// A pattern of `LIKE`, ready to be matched.
pub(crate) struct LikePattern {
    /// What lies between the `%`, in turn; one more than there are of those, empty ones at the ends included.
    pieces: Vec<Piece>,
    /// The longest text that every match has in it. Empty if there is none.
    needle: Finder<'static>,
    search: Search,
}

/// How the matches among many strings are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// By matching each string: only its ends count, or there is nothing to search for.
    Each,
    /// By the needle, which is all there is to find.
    Needle,
    /// By the needle, and then by matching the string that has it.
    Candidates,
}

/// Text and single characters behind one another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Piece(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    /// So many characters, whatever they are.
    Any(usize),
}

impl fmt::Debug for LikePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LikePattern").field(&self.pieces).finish()
    }
}

/// What a pattern is if its strings lie together in the order of strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// This string only.
    Equal(String),
    /// All strings with this prefix.
    Prefix(String),
}

/// The characters of a pattern, with their escapes resolved.
enum Token {
    Character(char),
    AnyCharacter,
    AnyText,
}

fn tokens(pattern: &str) -> impl Iterator<Item = Token> {
    let mut characters = pattern.chars();
    std::iter::from_fn(move || {
        Some(match characters.next()? {
            // At the end it stands for itself.
            ESCAPE => Token::Character(characters.next().unwrap_or(ESCAPE)),
            '%' => Token::AnyText,
            '_' => Token::AnyCharacter,
            character => Token::Character(character),
        })
    })
}

impl Range {
    /// The range that `pattern` is, if it is one.
    pub(crate) fn of(pattern: &str) -> Option<Range> {
        let mut text = String::new();
        let mut is_prefix = false;
        for token in tokens(pattern) {
            match token {
                Token::Character(character) if !is_prefix => text.push(character),
                Token::AnyText => is_prefix = true,
                _ => return None,
            }
        }
        Some(if is_prefix { Range::Prefix(text) } else { Range::Equal(text) })
    }
}

impl LikePattern {
    pub(crate) fn new(pattern: &str) -> LikePattern {
        let mut pieces = vec![Piece::default()];
        for token in tokens(pattern) {
            let parts = &mut pieces.last_mut().expect("there is a piece from the start").0;
            match (token, parts.last_mut()) {
                (Token::AnyText, _) => pieces.push(Piece::default()),
                (Token::AnyCharacter, Some(Part::Any(count))) => *count += 1,
                (Token::AnyCharacter, _) => parts.push(Part::Any(1)),
                (Token::Character(character), Some(Part::Text(text))) => push(text, character),
                (Token::Character(character), _) => {
                    let mut text = Vec::new();
                    push(&mut text, character);
                    parts.push(Part::Text(text));
                }
            }
        }
        // Between two `%` nothing is nothing more to ask for.
        let last = pieces.len() - 1;
        let mut place = 0;
        pieces.retain(|piece| {
            place += 1;
            place == 1 || place == last + 1 || !piece.0.is_empty()
        });
        let texts = pieces.iter().flat_map(|piece| &piece.0).filter_map(Part::text);
        let needle = texts.max_by_key(|text| text.len()).unwrap_or_default();
        let search = match &pieces[..] {
            _ if needle.is_empty() => Search::Each,
            [_] | [_, _] => Search::Each,
            [first, Piece(middle), last] if first.0.is_empty() && last.0.is_empty() && middle.len() == 1 => {
                Search::Needle
            }
            _ => Search::Candidates,
        };
        LikePattern { needle: Finder::new(needle).into_owned(), search, pieces }
    }

    /// The text that a string has to have in it to match, if that is all there is to it.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        (self.search == Search::Needle).then(|| self.needle())
    }

    /// The longest text that every string has in it that matches.
    pub(crate) fn needle(&self) -> &[u8] {
        self.needle.needle()
    }

    /// Sets the truth of each string of `window` that matches.
    pub(crate) fn find(&self, window: StringWindow<'_>, truth: &mut [bool]) {
        if self.search == Search::Each {
            for (index, truth) in truth.iter_mut().enumerate() {
                *truth = self.matches(window.value(index));
            }
            return;
        }
        let (bytes, offsets) = (window.bytes(), window.offsets());
        let length = self.needle.needle().len();
        let (mut from, end) = (offsets[0] as usize, offsets[window.len()] as usize);
        // The first string that no hit lies behind.
        let mut index = 0;
        while let Some(distance) = self.needle.find(&bytes[from..end]) {
            let hit = from + distance;
            index += string_with(&offsets[index..], hit as u32);
            let behind = offsets[index + 1] as usize;
            if hit + length > behind {
                // It begins in one string and ends in another.
                from = hit + 1;
                continue;
            }
            truth[index] = self.search == Search::Needle || self.matches(&bytes[offsets[index] as usize..behind]);
            from = behind;
        }
    }

    /// Whether one string matches.
    pub(crate) fn matches(&self, string: &[u8]) -> bool {
        let (first, rest) = self.pieces.split_first().expect("a pattern has a piece");
        let Some(mut at) = first.end_at(string, 0) else { return false };
        let Some((last, middle)) = rest.split_last() else { return at == string.len() };
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

/// How many strings behind the first of `offsets` the one lies that has the byte `at` in it.
fn string_with(offsets: &[u32], at: u32) -> usize {
    // It is near where hits are many.
    let mut reach = 1;
    while offsets.get(reach).is_some_and(|start| *start <= at) {
        reach *= 2;
    }
    let near = &offsets[..reach.min(offsets.len())];
    near.partition_point(|start| *start <= at) - 1
}

fn push(text: &mut Vec<u8>, character: char) {
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

impl Part {
    fn text(&self) -> Option<&[u8]> {
        match self {
            Part::Text(text) => Some(text),
            Part::Any(_) => None,
        }
    }
}

impl Piece {
    /// Where the piece ends if it stands at `at`.
    fn end_at(&self, string: &[u8], mut at: usize) -> Option<usize> {
        for part in &self.0 {
            match part {
                Part::Text(text) if string[at..].starts_with(text) => at += text.len(),
                Part::Text(_) => return None,
                Part::Any(count) => {
                    for _ in 0..*count {
                        at = character_behind(string, at)?;
                    }
                }
            }
        }
        Some(at)
    }

    /// Where the piece starts if it stands at the end.
    fn start_before(&self, string: &[u8]) -> Option<usize> {
        let mut end = string.len();
        for part in self.0.iter().rev() {
            match part {
                Part::Text(text) if string[..end].ends_with(text) => end -= text.len(),
                Part::Text(_) => return None,
                Part::Any(count) => {
                    for _ in 0..*count {
                        end = string[..end].iter().rposition(|byte| !is_inside(*byte))?;
                    }
                }
            }
        }
        Some(end)
    }

    /// Where the piece ends if it stands as early as it can, but not before `at`.
    fn find(&self, string: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if let Some(Part::Text(text)) = self.0.first() {
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

/// Where the character at `at` ends; `None` if there is none.
fn character_behind(string: &[u8], at: usize) -> Option<usize> {
    let rest = string.get(at..).filter(|rest| !rest.is_empty())?;
    Some(at + 1 + rest[1..].iter().take_while(|byte| is_inside(**byte)).count())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Scalar, StringViewArray};
    use arrow::compute::like;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use rowmill_storage::strings::{StringList, encode_list};

    use super::*;

    #[test]
    fn patterns_that_are_ranges_are_told_apart() {
        let equal = |text: &str| Some(Range::Equal(text.to_owned()));
        let prefix = |text: &str| Some(Range::Prefix(text.to_owned()));
        assert_eq!(Range::of(""), equal(""));
        assert_eq!(Range::of("a\\%b"), equal("a%b"));
        assert_eq!(Range::of("a\\"), equal("a\\"));
        assert_eq!(Range::of("%"), prefix(""));
        assert_eq!(Range::of("ab%%"), prefix("ab"));
        assert_eq!(["a%b", "a_", "_%", "%a"].map(Range::of), [None, None, None, None]);
    }

    #[test]
    fn what_can_be_searched_for_is() {
        let search = |pattern| LikePattern::new(pattern).search;
        assert_eq!(["%a%", "%a\\_%%"].map(search), [Search::Needle; 2]);
        assert_eq!(["%a_%", "%a%b", "x%a%", "%a%b%", "%_a%"].map(search), [Search::Candidates; 5]);
        assert_eq!(["%a", "a_", "_", "%_%", "%%", ""].map(search), [Search::Each; 6]);
    }

    /// Patterns and strings of few characters, some of several bytes, so that many match.
    fn random(rng: &mut SmallRng, characters: &str, length_max: usize) -> String {
        let characters: Vec<char> = characters.chars().collect();
        (0..rng.random_range(0..=length_max)).map(|_| characters[rng.random_range(0..characters.len())]).collect()
    }

    #[test]
    fn strings_match_as_the_kernels_of_arrow_say() {
        let rng = &mut SmallRng::seed_from_u64(3);
        for _ in 0..3000 {
            let pattern = random(rng, "%%%__aabя€\\\n", 9);
            let strings: Vec<String> = (0..rng.random_range(0..40)).map(|_| random(rng, "aaabbя€%_\\\n", 12)).collect();
            let expected: Vec<bool> = like(
                &StringViewArray::from_iter_values(&strings),
                &Scalar::new(StringViewArray::from(vec![pattern.as_str()])),
            )
            .expect("a pattern")
            .values()
            .iter()
            .collect();
            let matcher = LikePattern::new(&pattern);
            let matched: Vec<bool> = strings.iter().map(|string| matcher.matches(string.as_bytes())).collect();
            assert_eq!(matched, expected, "{pattern:?} {strings:?}");

            let mut sorted: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
            sorted.sort_unstable();
            let stored = encode_list(&sorted).expect("a short list");
            let list = StringList::open(&stored, sorted.len()).expect("a list of ours");
            let (mut found, start) = (vec![false; sorted.len()], sorted.len() / 3);
            list.for_each_window(start..sorted.len(), |window| {
                let first = start + window.first();
                matcher.find(window, &mut found[first..first + window.len()]);
                Ok(())
            })
            .expect("a list of ours");
            let expected = sorted.iter().skip(start).map(|string| matcher.matches(string));
            assert!(found[start..].iter().copied().eq(expected), "{pattern:?} {strings:?}");

            let is_in = |string: &String| match Range::of(&pattern) {
                Some(Range::Equal(text)) => Some(*string == text),
                Some(Range::Prefix(text)) => Some(string.starts_with(&text)),
                None => None,
            };
            assert!(
                strings.iter().zip(&matched).all(|(string, matched)| is_in(string).is_none_or(|is| is == *matched))
            );
        }
    }

    #[test]
    fn bytes_that_are_no_text_do_no_harm() {
        let rng = &mut SmallRng::seed_from_u64(4);
        for _ in 0..2000 {
            let pattern = LikePattern::new(&random(rng, "%%__aя", 7));
            let bytes: Vec<u8> =
                (0..rng.random_range(0..12)).map(|_| [b'a', 0x80, 0xd1, 0x8f, 0xff][rng.random_range(0..5)]).collect();
            let _ = pattern.matches(&bytes);
        }
    }
}
