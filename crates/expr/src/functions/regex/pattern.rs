//! Compiled patterns, kept per thread so that they are not compiled again for each batch.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::thread::LocalKey;

use regex::Regex;
use rowmill_base::Result;

use crate::functions::rowwise::TextArgument;
use crate::regexp::compile;

/// The most patterns of each kind that a thread keeps. A statement has few, and a column of patterns should not fill
/// the memory.
const KEPT_MAX: usize = 8;

/// Compiled patterns with the texts that they were made from, the most recently used first.
pub(super) type PatternCache<T> = RefCell<Vec<(Vec<String>, Rc<T>)>>;

thread_local! {
    static REGEXES: PatternCache<Regex> = const { RefCell::new(Vec::new()) };
}

/// Returns the cached value for `parts`, or makes it with `make` and caches it.
pub(super) fn prepared<T>(
    cache: &'static LocalKey<PatternCache<T>>,
    parts: &[&str],
    make: impl FnOnce() -> Result<T>,
) -> Result<Rc<T>> {
    cache.with_borrow_mut(|kept| {
        if let Some(at) = kept.iter().position(|(of, _)| of == parts) {
            // Move the hit to the front, so that the least recently used pattern is at the end.
            kept[..=at].rotate_right(1);
        } else {
            let made = Rc::new(make()?);
            // Make room for the new pattern.
            kept.truncate(KEPT_MAX - 1);
            kept.insert(0, (parts.iter().map(|&part| part.to_owned()).collect(), made));
        }
        Ok(Rc::clone(&kept[0].1))
    })
}

/// Returns the compiled pattern of a row.
pub(super) fn regex(pattern: &str, flags: &str) -> Result<Rc<Regex>> {
    prepared(&REGEXES, &[pattern, flags], || compile(pattern, &library_flags(flags)))
}

/// The patterns of a column: one for all rows, or one for each row.
pub(super) struct Patterns<'a> {
    patterns: TextArgument<'a>,
    flags: Option<TextArgument<'a>>,
    constant: Option<Rc<Regex>>,
    /// The texts before and after each pattern.
    enclosing: (&'static str, &'static str),
}

impl<'a> Patterns<'a> {
    pub(super) fn new(patterns: TextArgument<'a>, flags: Option<TextArgument<'a>>) -> Result<Patterns<'a>> {
        let constant_flags = flags.map_or(Some(""), |flags| flags.constant());
        let constant = match patterns.constant().zip(constant_flags) {
            Some((pattern, flags)) => Some(regex(pattern, flags)?),
            None => None,
        };
        Ok(Patterns { patterns, flags, constant, enclosing: ("", "") })
    }

    /// Returns the patterns with a text before and after each.
    pub(super) fn enclosed(self, before: &'static str, after: &'static str) -> Result<Patterns<'a>> {
        let mut enclosed = Patterns { constant: None, enclosing: (before, after), ..self };
        let constant_flags = enclosed.flags.map_or(Some(""), |flags| flags.constant());
        if let Some((pattern, flags)) = enclosed.patterns.constant().zip(constant_flags) {
            enclosed.constant = Some(regex(&format!("{before}{pattern}{after}"), flags)?);
        }
        Ok(enclosed)
    }

    /// Returns the pattern of a row. No argument may be NULL in that row.
    #[inline]
    pub(super) fn at(&self, row: usize) -> Result<Rc<Regex>> {
        match &self.constant {
            Some(regex) => Ok(Rc::clone(regex)),
            None => {
                let flags = self.flags.map_or("", |flags| flags.at(row));
                match self.enclosing {
                    ("", "") => regex(self.patterns.at(row), flags),
                    (before, after) => regex(&format!("{before}{}{after}", self.patterns.at(row)), flags),
                }
            }
        }
    }
}

/// Translates the flags of SQL to those of the library.
pub(super) fn library_flags(flags: &str) -> Cow<'_, str> {
    match flags.contains(['c', 'n']) {
        true => Cow::Owned(flags.replace('c', "").replace('n', "m")),
        false => Cow::Borrowed(flags),
    }
}
