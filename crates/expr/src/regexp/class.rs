//! Classes of characters over UTF-8. The first byte of a character tells whether the character belongs to the class, or
//! that its ranges must decide.

use std::ops::Range;

use memchr::{memchr, memchr2, memchr3};
use regex_syntax::hir::{self, Hir, HirKind};

/// A set of characters.
#[derive(Debug)]
pub(super) struct Class {
    /// For each first byte, whether its characters belong. If all characters beyond ASCII belong, their continuation
    /// bytes do too, so that a run of the class is a run of bytes.
    members: [Member; 256],
    /// The ranges of characters beyond ASCII, in order, if only some of them belong.
    wide: Box<[(char, char)]>,
    stop: Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    No,
    Yes,
    /// The whole character must be checked.
    Ask,
}

/// The bytes that end a run of the class.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Never,
    At(u8),
    AtTwo(u8, u8),
    AtThree(u8, u8, u8),
    /// At a byte that does not belong; there are more than three.
    Elsewhere,
}

/// Whether a byte continues a character, so that no character begins with it.
pub(super) fn continues(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Returns the length of the character that begins with `byte`.
fn char_bytes(byte: u8) -> usize {
    if byte < 0x80 { 1 } else { byte.leading_ones() as usize }
}

/// Returns the byte that a character begins with.
fn lead_byte(one: char) -> u8 {
    one.encode_utf8(&mut [0; 4]).as_bytes()[0]
}

fn is_in(ranges: &[(char, char)], one: char) -> bool {
    // The first range that does not end before the character is the only candidate.
    let range = ranges.partition_point(|&(_, end)| end < one);
    ranges.get(range).is_some_and(|&(start, _)| start <= one)
}

impl Class {
    /// Returns the class of a node of a pattern if the node matches exactly one character.
    pub(super) fn of(node: &Hir) -> Option<Class> {
        match node.kind() {
            HirKind::Literal(literal) => {
                let mut chars = std::str::from_utf8(&literal.0).ok()?.chars();
                let only = chars.next()?;
                chars.next().is_none().then(|| Class::new(&[(only, only)]))
            }
            HirKind::Class(hir::Class::Unicode(class)) => {
                Some(Class::new(&class.iter().map(|range| (range.start(), range.end())).collect::<Vec<_>>()))
            }
            _ => None,
        }
    }

    /// Makes the class of some ranges of characters, in order, both ends included.
    fn new(ranges: &[(char, char)]) -> Class {
        let mut members = [Member::No; 256];
        for (byte, member) in (0_u8..0x80).zip(&mut members) {
            if is_in(ranges, char::from(byte)) {
                *member = Member::Yes;
            }
        }
        let mut wide: Vec<(char, char)> = ranges.iter().copied().filter(|&(_, end)| !end.is_ascii()).collect();
        if wide.iter().any(|&(start, end)| start <= '\u{80}' && end == char::MAX) {
            // Every character beyond ASCII belongs, so no ranges are needed.
            members[0x80..].fill(Member::Yes);
            wide.clear();
        } else {
            for &(start, end) in &wide {
                members[usize::from(lead_byte(start.max('\u{80}')))..=usize::from(lead_byte(end))].fill(Member::Ask);
            }
        }
        let stop = Stop::of(&members);
        Class { members, wide: wide.into(), stop }
    }

    /// Returns the bytes that a character of the class can begin with.
    pub(super) fn first_bytes(&self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(|&byte| !continues(byte) && self.members[usize::from(byte)] != Member::No)
    }

    /// Returns the position after the character at `at`, if it belongs.
    #[inline]
    pub(super) fn step(&self, text: &str, at: usize) -> Option<usize> {
        let byte = *text.as_bytes().get(at)?;
        match self.members[usize::from(byte)] {
            Member::No => None,
            Member::Yes => Some(at + char_bytes(byte)),
            Member::Ask => self.step_wide(text, at),
        }
    }

    fn step_wide(&self, text: &str, at: usize) -> Option<usize> {
        let next = text[at..].chars().next()?;
        is_in(&self.wide, next).then(|| at + next.len_utf8())
    }

    /// Returns the position of the first character that belongs and begins in a range of bytes.
    pub(super) fn find(&self, text: &str, mut range: Range<usize>) -> Option<usize> {
        loop {
            let bytes = &text.as_bytes()[range.clone()];
            range.start += bytes.iter().position(|byte| self.members[usize::from(*byte)] != Member::No)?;
            // If all characters beyond ASCII belong, their continuation bytes do too, but no match begins with one.
            if text.is_char_boundary(range.start) && self.step(text, range.start).is_some() {
                return Some(range.start);
            }
            range.start += 1;
        }
    }

    /// Returns the position after the run of characters that belong, from `at` on.
    #[inline]
    pub(super) fn run_end(&self, text: &str, at: usize) -> usize {
        let rest = &text.as_bytes()[at..];
        let stop = match self.stop {
            Stop::Never => None,
            Stop::At(a) => memchr(a, rest),
            Stop::AtTwo(a, b) => memchr2(a, b, rest),
            Stop::AtThree(a, b, c) => memchr3(a, b, c, rest),
            Stop::Elsewhere => return self.walk(text, at),
        };
        stop.map_or(text.len(), |length| at + length)
    }

    fn walk(&self, text: &str, mut at: usize) -> usize {
        loop {
            let rest = &text.as_bytes()[at..];
            let member = |byte: &u8| self.members[usize::from(*byte)];
            at += rest.iter().position(|byte| member(byte) != Member::Yes).unwrap_or(rest.len());
            match self.step(text, at) {
                Some(behind) => at = behind,
                None => return at,
            }
        }
    }

    /// Returns the first and the last position at which a run from `at` on can end, if the run is long enough. Lengths
    /// count characters.
    #[inline]
    pub(super) fn ends(&self, text: &str, at: usize, min: u32, max: Option<u32>) -> Option<(usize, usize)> {
        match (min, max) {
            (0, Some(1)) => Some((at, self.step(text, at).unwrap_or(at))),
            (0, None) => Some((at, self.run_end(text, at))),
            (1, None) => {
                let last = self.run_end(text, at);
                (last > at).then(|| (at + char_bytes(text.as_bytes()[at]), last))
            }
            _ => self.counted_ends(text, at, min, max),
        }
    }

    fn counted_ends(&self, text: &str, at: usize, min: u32, max: Option<u32>) -> Option<(usize, usize)> {
        let first = (0..min).try_fold(at, |at, _| self.step(text, at))?;
        let Some(max) = max else { return Some((first, self.run_end(text, first))) };
        let last = (min..max).try_fold(first, |at, _| self.step(text, at).ok_or(at));
        Some((first, last.unwrap_or_else(|stopped| stopped)))
    }
}

impl Stop {
    fn of(members: &[Member; 256]) -> Stop {
        let mut outside = (0..=u8::MAX).filter(|&byte| members[usize::from(byte)] != Member::Yes);
        match (outside.next(), outside.next(), outside.next(), outside.next()) {
            (None, ..) => Stop::Never,
            (Some(a), None, ..) => Stop::At(a),
            (Some(a), Some(b), None, _) => Stop::AtTwo(a, b),
            (Some(a), Some(b), Some(c), None) => Stop::AtThree(a, b, c),
            _ => Stop::Elsewhere,
        }
    }
}
