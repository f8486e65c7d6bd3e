//! A pattern as a short program for a backtracking matcher.
//!
//! ```text
//! ^https?://(?:www\.)?([^/]+)/.*$
//!
//!   look ^ | "http" | run s{0,1} | "://" | branch: "www." or on
//!     | save | run [^/]+ | save | "/" | run . * | look $ | match
//! ```
//!
//! A run of one class is one operation: its end is found by a search for a byte. Most choices need no backtracking, for
//! two reasons. The next byte tells which side of a branch can match at all. And a run ends where its class ends if no
//! byte of the class can begin the rest of the pattern. The compiler computes both in advance, from the sets of bytes
//! with which the rest of the pattern can begin (first.rs). The remaining choices are tried in the order of the
//! pattern, so the first match that is found is the leftmost-first match.

use regex_automata::MatchKind;
use regex_automata::util::prefilter::Prefilter;
use regex_syntax::hir::{Hir, Look};

use super::class::Class;
use super::first::First;

/// A pattern that the matcher can run.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) ops: Vec<Op>,
    pub(super) classes: Vec<Class>,
    pub(super) start: Start,
    /// The least number of bytes of a match.
    pub(super) bytes_min: usize,
}

/// One operation. Positions refer to other operations.
#[derive(Debug)]
pub(super) enum Op {
    Literal(Literal),
    /// One character of a class.
    Char(usize),
    Run(Box<ClassRun>),
    /// Saves the position in a slot: 2g where group g begins, 2g + 1 where it ends.
    Save(usize),
    Look(Look),
    Branch(Box<RegexBranch>),
    Jump(usize),
    Match,
}

/// A text of up to eight bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Literal {
    word: u64,
    mask: u64,
    length: usize,
}

/// A run of characters of one class.
#[derive(Debug)]
pub(super) struct ClassRun {
    pub(super) class: usize,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    pub(super) is_greedy: bool,
    /// The bytes that can follow the run.
    pub(super) follow: First,
    /// Whether the run can end only at its last position, because no byte of its class can follow it.
    pub(super) is_forced: bool,
}

/// Two ways to continue.
#[derive(Debug)]
pub(super) struct RegexBranch {
    pub(super) preferred: usize,
    pub(super) other: usize,
    /// For each next byte, the sides that can match.
    sides: [Sides; 256],
    sides_at_end: Sides,
}

/// The sides of a branch that can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sides {
    Neither,
    Preferred,
    Other,
    Both,
}

/// How to find positions at which a match may begin.
#[derive(Debug)]
pub(super) enum Start {
    /// At the beginning of the text.
    Text,
    /// Where one of some literals occurs.
    Literals(Prefilter),
    /// Anywhere. The library is better at finding such matches.
    Anywhere,
}

impl Literal {
    /// Makes a literal of one to eight bytes.
    pub(super) fn new(bytes: &[u8]) -> Literal {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        Literal { word: u64::from_le_bytes(word), mask: u64::MAX >> (64 - 8 * bytes.len()), length: bytes.len() }
    }

    /// Returns the first byte of the literal.
    pub(super) fn first_byte(&self) -> u8 {
        self.word.to_le_bytes()[0]
    }

    /// Returns the position after the literal, if it occurs at `at`.
    #[inline]
    pub(super) fn behind(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = &text[at..];
        let stands = match rest.first_chunk::<8>() {
            // With eight bytes left, one masked comparison decides.
            Some(&eight) => u64::from_le_bytes(eight) & self.mask == self.word,
            None => rest.starts_with(&self.word.to_le_bytes()[..self.length]),
        };
        stands.then_some(at + self.length)
    }
}

impl RegexBranch {
    /// Makes a branch between the next operation and one that is set later.
    pub(super) fn new(next: usize) -> RegexBranch {
        RegexBranch { preferred: next, other: next, sides: [Sides::Neither; 256], sides_at_end: Sides::Neither }
    }

    /// Sets the bytes with which each side can continue.
    pub(super) fn set_sides(&mut self, preferred: &First, other: &First) {
        let sides = |preferred, other| match (preferred, other) {
            (false, false) => Sides::Neither,
            (true, false) => Sides::Preferred,
            (false, true) => Sides::Other,
            (true, true) => Sides::Both,
        };
        for (byte, side) in (0..=u8::MAX).zip(&mut self.sides) {
            *side = sides(preferred.has(byte), other.has(byte));
        }
        self.sides_at_end = sides(preferred.has_end(), other.has_end());
    }

    /// Returns the sides that can match at `at`.
    #[inline]
    pub(super) fn sides(&self, text: &[u8], at: usize) -> Sides {
        text.get(at).map_or(self.sides_at_end, |&byte| self.sides[usize::from(byte)])
    }
}

impl Start {
    /// Returns where matches of a pattern can begin.
    pub(super) fn of(pattern: &Hir) -> Start {
        if pattern.properties().look_set_prefix().contains(Look::Start) {
            return Start::Text;
        }
        Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, pattern).map_or(Start::Anywhere, Start::Literals)
    }

    /// Returns the first position from `from` on at which a match may begin. `from` must be at most the length of the
    /// text.
    #[inline]
    pub(super) fn find(&self, text: &str, from: usize) -> Option<usize> {
        match self {
            Start::Text => (from == 0).then_some(0),
            Start::Literals(literals) => Some(literals.find(text.as_bytes(), (from..text.len()).into())?.start),
            Start::Anywhere => (from..=text.len()).find(|&at| text.is_char_boundary(at)),
        }
    }
}
