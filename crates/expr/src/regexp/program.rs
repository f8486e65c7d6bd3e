//! A pattern as a short program for a backtracking matcher.
//!
//! ```text
//! ^https?://(?:www\.)?([^/]+)/.*$
//!
//!   start | "http" | run s{0,1} | "://" | branch: "www." or on
//!     | save | run [^/]+ | save | "/" | run . * | end | match
//! ```
//!
//! A run of one class is one operation: its end is found by a search for a byte. Most choices need no backtracking, for
//! two reasons. The next byte tells which side of a branch can match at all. And a run ends where its class ends if no
//! byte of the class can begin the rest of the pattern. The compiler computes both in advance, from the sets of bytes
//! with which the rest of the pattern can begin (first.rs). The remaining choices are tried in the order of the
//! pattern, so the first match that is found is the leftmost-first match.

use regex_automata::MatchKind;
use regex_automata::util::prefilter::Prefilter;
use regex_syntax::hir::{Capture, Hir, HirKind, Look, Repetition};

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
    Literal(Box<[u8]>),
    /// One character of a class.
    Char(usize),
    Run(Box<ClassRun>),
    /// Saves the position in a slot: 2g where group g begins, 2g + 1 where it ends.
    Save(usize),
    /// The beginning of the text.
    Start,
    /// The end of the text.
    End,
    Branch(Box<RegexBranch>),
    Jump(usize),
    Match,
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
    pub(super) preferred: BranchSide,
    pub(super) other: BranchSide,
}

/// The operation to continue with, and the bytes with which it can match.
#[derive(Debug)]
pub(super) struct BranchSide {
    pub(super) op: usize,
    pub(super) first: First,
}

/// How to find positions at which a match may begin.
#[derive(Debug)]
pub(super) enum Start {
    /// At the beginning of the text.
    Text,
    /// Where one of some literals occurs.
    Literals(Prefilter),
    /// At a character of a class, if each of them begins a match. Otherwise, the library is better at finding the ones
    /// that do.
    Class(Box<Class>),
}

impl Start {
    /// Returns where matches of a pattern can begin. `None` if there is no fast search for these positions; the library
    /// is better at finding such matches.
    pub(super) fn of(pattern: &Hir) -> Option<Start> {
        if pattern.properties().look_set_prefix().contains(Look::Start) {
            return Some(Start::Text);
        }
        let literals = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, pattern);
        match literals {
            Some(literals) if literals.is_fast() => Some(Start::Literals(literals)),
            literals => {
                let class = Start::of_class(pattern)?;
                // The few characters of such a class are found faster as literals. Looking at the next 64 bytes by
                // class first saves an eighth of the time for digits in URLs, but costs half as much for rare
                // characters.
                Some(literals.map_or(class, Start::Literals))
            }
        }
    }

    /// Returns the start of a pattern that is one run of a class, or one character of it.
    fn of_class(mut pattern: &Hir) -> Option<Start> {
        while let HirKind::Capture(Capture { sub, .. }) | HirKind::Repetition(Repetition { min: 1, sub, .. }) =
            pattern.kind()
        {
            pattern = sub;
        }
        let HirKind::Class(_) = pattern.kind() else { return None };
        Some(Start::Class(Box::new(Class::of(pattern)?)))
    }

    /// Returns the first position from `from` on at which a match may begin. `from` must be at most the length of the
    /// text.
    #[inline]
    pub(super) fn find(&self, text: &str, from: usize) -> Option<usize> {
        match self {
            Start::Text => (from == 0).then_some(0),
            Start::Literals(literals) => Some(literals.find(text.as_bytes(), (from..text.len()).into())?.start),
            Start::Class(class) => class.find(text, from..text.len()),
        }
    }
}
