//! A pattern as a short program for a matcher that tries one way after another.
//!
//! ```text
//! ^https?://(?:www\.)?([^/]+)/.*$
//!
//!   look ^ | "http" | run s{0,1} | "://" | branch: "www." or on | save | run [^/]+ | save | "/" | run . * | look $ | match
//! ```
//!
//! A run of one class is one operation, whose end is a search for a byte, and most choices are none: which byte follows
//! says which side of a branch can match at all, and a run whose class has no byte that what follows can begin with ends
//! where the class ends. Both are worked out once, from the sets of bytes with which the rest of the pattern can begin
//! (first.rs). What remains is tried in the order that the pattern asks for, so that the first match found is the one that
//! leftmost-first semantics mean.

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
    /// Bytes of a match at least.
    pub(super) bytes_min: usize,
}

/// One operation. Positions are those of other operations.
#[derive(Debug)]
pub(super) enum Op {
    Literal(Literal),
    /// One character of a class.
    Char(usize),
    Run(Box<Run>),
    /// Keeps the position in a slot: 2g where group g begins, 2g + 1 where it ends.
    Save(usize),
    Look(Look),
    Branch(Box<Branch>),
    Jump(usize),
    Match,
}

/// Up to eight bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Literal {
    word: u64,
    mask: u64,
    length: usize,
}

/// Characters of one class.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) class: usize,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    pub(super) is_greedy: bool,
    /// What can come behind the run.
    pub(super) follow: First,
    /// Whether the run can only end where it must, because no byte of its class can come behind it.
    pub(super) is_forced: bool,
}

/// Two ways to go on.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) preferred: usize,
    pub(super) other: usize,
    /// Which of them can match, by the next byte.
    sides: [Sides; 256],
    sides_at_end: Sides,
}

/// Which sides of a branch can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sides {
    Neither,
    Preferred,
    Other,
    Both,
}

/// How positions are found at which a match may begin.
#[derive(Debug)]
pub(super) enum Start {
    /// At the beginning of the text.
    Text,
    /// Where one of some literals is.
    Literals(Prefilter),
    /// Anywhere. Others know better where.
    Anywhere,
}

impl Literal {
    /// A literal of one to eight bytes.
    pub(super) fn new(bytes: &[u8]) -> Literal {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        Literal { word: u64::from_le_bytes(word), mask: u64::MAX >> (64 - 8 * bytes.len()), length: bytes.len() }
    }

    /// The byte that it begins with.
    pub(super) fn first_byte(&self) -> u8 {
        self.word.to_le_bytes()[0]
    }

    /// The position behind the literal, if it stands at `at`.
    #[inline]
    pub(super) fn behind(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = &text[at..];
        let stands = match rest.first_chunk::<8>() {
            Some(&eight) => u64::from_le_bytes(eight) & self.mask == self.word,
            None => rest.starts_with(&self.word.to_le_bytes()[..self.length]),
        };
        stands.then_some(at + self.length)
    }
}

impl Branch {
    /// A branch between the next operation and one that is not known yet.
    pub(super) fn new(next: usize) -> Branch {
        Branch { preferred: next, other: next, sides: [Sides::Neither; 256], sides_at_end: Sides::Neither }
    }

    /// Says with what each side can go on.
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

    /// The sides that can match at `at`.
    #[inline]
    pub(super) fn sides(&self, text: &[u8], at: usize) -> Sides {
        text.get(at).map_or(self.sides_at_end, |&byte| self.sides[usize::from(byte)])
    }
}

impl Start {
    /// Where matches of a pattern begin.
    pub(super) fn of(pattern: &Hir) -> Start {
        if pattern.properties().look_set_prefix().contains(Look::Start) {
            return Start::Text;
        }
        Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, pattern).map_or(Start::Anywhere, Start::Literals)
    }

    /// The first position from `from` on, which lies in the text or at its end, at which a match may begin.
    #[inline]
    pub(super) fn find(&self, text: &str, from: usize) -> Option<usize> {
        match self {
            Start::Text => (from == 0).then_some(0),
            Start::Literals(literals) => Some(literals.find(text.as_bytes(), (from..text.len()).into())?.start),
            Start::Anywhere => (from..=text.len()).find(|&at| text.is_char_boundary(at)),
        }
    }
}
