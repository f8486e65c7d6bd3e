//! Patterns, compiled once per thread rather than once per batch.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::thread::LocalKey;

use regex::Regex;
use rowmill_base::Result;

use crate::functions::rowwise::TextArgument;
use crate::regexp::compile;

/// Patterns that a thread keeps of each sort. A statement has few, and a column of patterns should not fill the memory.
const KEPT_MAX: usize = 8;

/// Compiled patterns under the texts that they were made of, the last one used first.
pub(super) type PatternCache<T> = RefCell<Vec<(Vec<String>, Rc<T>)>>;

thread_local! {
    static REGEXES: PatternCache<Regex> = const { RefCell::new(Vec::new()) };
}

/// What `make` makes of `parts`, or has made of them before.
pub(super) fn prepared<T>(
    cache: &'static LocalKey<PatternCache<T>>,
    parts: &[&str],
    make: impl FnOnce() -> Result<T>,
) -> Result<Rc<T>> {
    cache.with_borrow_mut(|kept| {
        if let Some(at) = kept.iter().position(|(of, _)| of == parts) {
            kept[..=at].rotate_right(1);
        } else {
            let made = Rc::new(make()?);
            kept.truncate(KEPT_MAX - 1);
            kept.insert(0, (parts.iter().map(|&part| part.to_owned()).collect(), made));
        }
        Ok(Rc::clone(&kept[0].1))
    })
}

/// The pattern of a row.
pub(super) fn regex(pattern: &str, flags: &str) -> Result<Rc<Regex>> {
    prepared(&REGEXES, &[pattern, flags], || compile(pattern, &library_flags(flags)))
}

/// The patterns of a column: one for all rows, or one for each.
pub(super) struct Patterns<'a> {
    patterns: TextArgument<'a>,
    flags: Option<TextArgument<'a>>,
    constant: Option<Rc<Regex>>,
}

impl<'a> Patterns<'a> {
    pub(super) fn new(patterns: TextArgument<'a>, flags: Option<TextArgument<'a>>) -> Result<Patterns<'a>> {
        let constant_flags = flags.map_or(Some(""), |flags| flags.constant());
        let constant = match patterns.constant().zip(constant_flags) {
            Some((pattern, flags)) => Some(regex(pattern, flags)?),
            None => None,
        };
        Ok(Patterns { patterns, flags, constant })
    }

    /// The pattern of a row in which nothing is NULL.
    #[inline]
    pub(super) fn at(&self, row: usize) -> Result<Rc<Regex>> {
        match &self.constant {
            Some(regex) => Ok(Rc::clone(regex)),
            None => regex(self.patterns.at(row), self.flags.map_or("", |flags| flags.at(row))),
        }
    }
}

/// The flags of SQL as the library writes them.
pub(super) fn library_flags(flags: &str) -> Cow<'_, str> {
    match flags.contains(['c', 'n']) {
        true => Cow::Owned(flags.replace('c', "").replace('n', "m")),
        false => Cow::Borrowed(flags),
    }
}
