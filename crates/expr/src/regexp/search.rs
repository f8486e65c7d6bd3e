//! Finds matches with a program if that is faster, otherwise with the library.
//!
//! A program is fast at trying a position, but the library is faster at finding one, because it knows more ways to rule
//! out whole texts. So there is a program only if matches begin with the text, or with literals that a fast search
//! finds, or if the pattern is one run of a class.

use std::collections::BTreeSet;

use regex::{CaptureLocations, Regex};
use regex_syntax::hir::{Hir, HirKind};

use super::machine::{Machine, SearchOutcome};
use super::program::{Program, Start};

/// The number of texts on which the machine may give up before the searcher leaves all further ones to the library. A
/// few hard texts should not cost the program its use for all others.
const GIVEN_UP_MAX: usize = 64;

/// A search for a pattern.
#[derive(Debug)]
pub(super) struct RegexSearch {
    regex: Regex,
    program: Option<Program>,
    /// The groups whose positions are needed, beside the match itself.
    groups: BTreeSet<usize>,
}

/// A search over many texts, one after the other.
#[derive(Debug)]
pub(super) struct Searcher<'s> {
    search: &'s RegexSearch,
    program: Option<&'s Program>,
    machine: Machine,
    /// The library's memory for the positions of groups.
    locations: Option<CaptureLocations>,
    given_up: usize,
}

impl RegexSearch {
    /// Makes a search that only tells whether `regex`, which was parsed to `hir`, matches.
    pub(super) fn whether(regex: Regex, hir: &Hir) -> RegexSearch {
        let is_of_use = |program: &Program| match program.start {
            Start::Text => true,
            // The library would search these literals itself, unless something comes before them.
            Start::Literals(_) => Start::of(hir).is_none(),
            Start::Class(_) => false,
        };
        let groups = BTreeSet::new();
        RegexSearch { program: Program::new(&without_empty_ends(hir), &groups).filter(is_of_use), regex, groups }
    }

    /// Makes a search for the positions of matches of `regex`, which was parsed to `hir`, and of some of its groups.
    pub(super) fn places(regex: Regex, hir: &Hir, groups: &BTreeSet<usize>) -> RegexSearch {
        let groups: BTreeSet<usize> = groups.iter().copied().filter(|&group| group > 0).collect();
        RegexSearch { program: Program::new(hir, &groups), regex, groups }
    }

    /// Leaves everything to the library.
    #[cfg(test)]
    pub(super) fn forget_program(&mut self) {
        self.program = None;
    }

    /// Returns a searcher for texts.
    pub(super) fn searcher(&self) -> Searcher<'_> {
        let group_last = self.groups.last().copied().unwrap_or(0);
        Searcher {
            search: self,
            program: self.program.as_ref(),
            machine: Machine::new(group_last),
            locations: None,
            given_up: 0,
        }
    }
}

impl Searcher<'_> {
    /// Whether `text` has a match.
    #[inline]
    pub(super) fn any(&mut self, text: &str) -> bool {
        self.machine.begin(text);
        let answer = self.program.and_then(|program| self.by_program(program, text, 0));
        answer.unwrap_or_else(|| self.search.regex.is_match(text))
    }

    /// Finds the first match of a text.
    #[inline]
    pub(super) fn first(&mut self, text: &str) -> bool {
        self.machine.begin(text);
        self.find(text, 0)
    }

    /// Finds the next match after the current one. An empty match must not touch the one before.
    pub(super) fn next(&mut self, text: &str) -> bool {
        let (_, behind) = self.found();
        if !self.find(text, behind) {
            return false;
        }
        self.found() != (behind, behind) || self.find(text, behind + 1)
    }

    /// Returns the positions of the match.
    #[inline]
    pub(super) fn found(&self) -> (usize, usize) {
        self.machine.group(0).expect("a match was found")
    }

    /// Returns the positions of a group of the match. The group must be one of `groups`.
    #[inline]
    pub(super) fn group(&self, group: usize) -> Option<(usize, usize)> {
        self.machine.group(group)
    }

    #[inline]
    fn find(&mut self, text: &str, from: usize) -> bool {
        let Some(program) = self.program else { return self.by_library(text, from) };
        self.by_program(program, text, from).unwrap_or_else(|| self.by_library(text, from))
    }

    /// Returns the program's answer, or `None` if it gives up.
    #[inline]
    fn by_program(&mut self, program: &Program, text: &str, from: usize) -> Option<bool> {
        match self.machine.find(program, text, from) {
            SearchOutcome::Found => Some(true),
            SearchOutcome::NotFound => Some(false),
            SearchOutcome::GaveUp => {
                self.given_up += 1;
                if self.given_up > GIVEN_UP_MAX {
                    self.program = None;
                }
                None
            }
        }
    }

    fn by_library(&mut self, text: &str, from: usize) -> bool {
        if self.search.groups.is_empty() {
            let place = self.place(text, from);
            self.machine.set_group(0, place);
            return place.is_some();
        }
        if from > text.len() {
            return false;
        }
        let regex = &self.search.regex;
        let locations = self.locations.get_or_insert_with(|| regex.capture_locations());
        if regex.captures_read_at(locations, text, from).is_none() {
            return false;
        }
        for &group in std::iter::once(&0).chain(&self.search.groups) {
            self.machine.set_group(group, locations.get(group));
        }
        true
    }

    /// Returns the positions of the first match from `from` on, found by the library.
    fn place(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let found = if from > text.len() { None } else { self.search.regex.find_at(text, from) };
        found.map(|found| (found.start(), found.end()))
    }
}

/// Returns the pattern without the parts at its ends that can be empty anywhere, such as `.*`. It matches in the same
/// texts.
fn without_empty_ends(hir: &Hir) -> Hir {
    let HirKind::Concat(parts) = hir.kind() else { return hir.clone() };
    // An assertion is empty too, but it restricts where the rest can match.
    let is_needed = |part: &Hir| part.properties().minimum_len() != Some(0) || !part.properties().look_set().is_empty();
    let first = parts.iter().position(is_needed).unwrap_or(parts.len());
    let end = parts.iter().rposition(is_needed).map_or(first, |last| last + 1);
    Hir::concat(parts[first..end].to_vec())
}
