//! Finds matches, by a program where one is quicker, else by the library.
//!
//! A program is quicker at trying a place than at finding one: the library knows more ways to rule out whole texts. So a
//! program answers by itself only if matches begin with the text or with some literals. Otherwise the library finds the
//! match, and the program says where its groups are, which is what costs the library most.

use std::collections::BTreeSet;

use regex::{CaptureLocations, Regex};
use regex_syntax::hir::{Hir, HirKind};

use super::machine::{Machine, Outcome};
use super::program::{Program, Start};

/// Texts that the machine may give up on before a searcher leaves all further ones to the library.
const GIVEN_UP_MAX: usize = 64;

/// What is searched for.
#[derive(Debug)]
pub(super) struct Search {
    regex: Regex,
    program: Option<Program>,
    /// The groups whose positions are asked for, beside those of the match.
    groups: BTreeSet<usize>,
}

/// A search over many texts, one after another.
#[derive(Debug)]
pub(super) struct Searcher<'s> {
    search: &'s Search,
    program: Option<&'s Program>,
    machine: Machine,
    /// What the library needs to say where groups are.
    locations: Option<CaptureLocations>,
    given_up: usize,
}

impl Search {
    /// A search for whether `regex`, which was read as `hir`, matches.
    pub(super) fn whether(regex: Regex, hir: &Hir) -> Search {
        let groups = BTreeSet::new();
        let is_of_use = |program: &Program| match program.start {
            Start::Text => true,
            // The library would look for these literals itself, unless something was in front of them.
            Start::Literals(_) => matches!(Start::of(hir), Start::Anywhere),
            Start::Anywhere => false,
        };
        Search { program: Program::new(&without_empty_ends(hir), &groups).filter(is_of_use), regex, groups }
    }

    /// A search for the places of matches of `regex`, which was read as `hir`, and of some of its groups.
    pub(super) fn places(regex: Regex, hir: &Hir, groups: &BTreeSet<usize>) -> Search {
        let groups: BTreeSet<usize> = groups.iter().copied().filter(|&group| group > 0).collect();
        let is_of_use = |program: &Program| !groups.is_empty() || !matches!(program.start, Start::Anywhere);
        Search { program: Program::new(hir, &groups).filter(is_of_use), regex, groups }
    }

    /// Leaves everything to the library.
    #[cfg(test)]
    pub(super) fn forget_program(&mut self) {
        self.program = None;
    }

    /// A searcher at its first text.
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

    /// Finds the next match behind the one found before. An empty one does not touch that one.
    pub(super) fn next(&mut self, text: &str) -> bool {
        let (_, behind) = self.found();
        if !self.find(text, behind) {
            return false;
        }
        self.found() != (behind, behind) || self.find(text, behind + 1)
    }

    /// The positions of the match.
    #[inline]
    pub(super) fn found(&self) -> (usize, usize) {
        self.machine.group(0).expect("a match was found")
    }

    /// The positions of a group of the match, one of those that were asked for.
    #[inline]
    pub(super) fn group(&self, group: usize) -> Option<(usize, usize)> {
        self.machine.group(group)
    }

    #[inline]
    fn find(&mut self, text: &str, from: usize) -> bool {
        let Some(program) = self.program else { return self.by_library(text, from) };
        let from = match program.start {
            Start::Text | Start::Literals(_) => Some(from),
            Start::Anywhere => self.place(text, from).map(|(start, _)| start),
        };
        let Some(from) = from else { return false };
        self.by_program(program, text, from).unwrap_or_else(|| self.by_library(text, from))
    }

    /// What the program answers, unless it gives up.
    #[inline]
    fn by_program(&mut self, program: &Program, text: &str, from: usize) -> Option<bool> {
        match self.machine.find(program, text, from) {
            Outcome::Found => Some(true),
            Outcome::NotFound => Some(false),
            Outcome::GaveUp => {
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

    /// The positions of the first match from `from` on, by the library.
    fn place(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let found = if from > text.len() { None } else { self.search.regex.find_at(text, from) };
        found.map(|found| (found.start(), found.end()))
    }
}

/// The pattern without what may be empty wherever it stands, such as `.*`, at its ends: it is in the same texts.
fn without_empty_ends(hir: &Hir) -> Hir {
    let HirKind::Concat(parts) = hir.kind() else { return hir.clone() };
    let is_needed = |part: &Hir| part.properties().minimum_len() != Some(0) || !part.properties().look_set().is_empty();
    let first = parts.iter().position(is_needed).unwrap_or(parts.len());
    let end = parts.iter().rposition(is_needed).map_or(first, |last| last + 1);
    Hir::concat(parts[first..end].to_vec())
}
