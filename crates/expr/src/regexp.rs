//! Regular expressions over columns of texts: [`Matcher`] for `~` and similar operators, [`Replacer`] for
//! `regexp_replace`.
//!
//! The result must be that of the `regex` library for every pattern. Most patterns of queries are simple: literals,
//! runs of a class, and optional parts. For those, our own program (compiler.rs, program.rs) and the machine that runs
//! it (machine.rs) give the same result at a fraction of the cost, because a step is a literal or a whole run rather
//! than a byte. The library handles patterns that have no program or that are too much for the machine.
//!
//! A replacement most often leaves a piece of the text or the unchanged text. Then we copy none of its bytes, because
//! the result is a view into the same buffer.

mod class;
mod compiler;
mod first;
mod machine;
mod program;
mod rewrite;
mod search;
mod template;
mod views;

#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;

use arrow::array::{Array, BooleanArray, StringViewArray};
use arrow::buffer::BooleanBuffer;
use regex::Regex;
use regex_syntax::hir::Hir;
use rowmill_base::{Error, ErrorKind, Result};

use self::rewrite::{Rewrite, Rewritten};
use self::search::{RegexSearch, Searcher};
use self::template::Template;
use self::views::{Views, check_length};

/// Replaces matches: `regexp_replace(text, pattern, replacement, flags)` with a constant pattern, replacement and
/// flags.
#[derive(Debug)]
pub(crate) struct Replacer {
    search: RegexSearch,
    template: Template,
    is_global: bool,
}

impl Replacer {
    /// Compiles a pattern, its replacement and the flags. Patterns and flags are those of the `regex` library, with the
    /// flag `g` for all matches instead of the first. In the replacement, `\1` to `\9` mean groups, `\0` and `\&` the
    /// match, and `\\` a backslash.
    ///
    /// Errors: [`ErrorKind::InvalidParameter`] if pattern or flags are not valid (flags may be missing but not empty),
    /// [`ErrorKind::ResultTooLarge`] if the pattern is too large.
    pub(crate) fn new(pattern: &str, replacement: &str, flags: Option<&str>) -> Result<Replacer> {
        let pattern = match flags {
            None | Some("g") => pattern.to_string(),
            Some(flags) => format!("(?{}){pattern}", flags.replace('g', "")),
        };
        let (regex, hir) = read(&pattern)?;
        let template = Template::new(replacement, &regex);
        let search = RegexSearch::places(regex, &hir, &template.groups());
        Ok(Replacer { search, template, is_global: flags.is_some_and(|flags| flags.contains('g')) })
    }

    /// Returns the texts with their matches replaced; NULL stays NULL. The result shares the buffers of `texts` for
    /// unchanged texts and for pieces of texts, and so keeps these buffers in memory. It takes about 64 bytes per row
    /// while it runs. We call `check` with the bytes of all new texts so far, also while a text grows, so that a single
    /// text cannot take all memory.
    ///
    /// Errors: [`ErrorKind::ResultTooLarge`] if a text would exceed 2 GiB, and those of `check`.
    pub(crate) fn replace(
        &self,
        texts: &StringViewArray,
        check: &dyn Fn(usize) -> Result<()>,
    ) -> Result<StringViewArray> {
        let mut new_bytes = 0;
        let mut searcher = self.search.searcher();
        let mut rewrite = Rewrite::default();
        let mut views = Views::new(texts);
        for text in texts {
            // NULL, or no match: the row keeps the source's view.
            let Some(text) = text.filter(|text| searcher.first(text)) else {
                views.push_same();
                continue;
            };
            self.rewrite(text, &mut searcher, &mut rewrite, &|bytes| check(new_bytes + bytes))?;
            match rewrite.finish(text) {
                Rewritten::Piece(start, end) => views.push_piece(text, start, end)?,
                Rewritten::New(text) => {
                    // Only new text costs memory; pieces are views into the source.
                    new_bytes += text.len();
                    check(new_bytes)?;
                    views.push_new(text)?;
                }
            }
        }
        views.finish()
    }

    /// Rewrites a text whose first match was found.
    #[inline]
    fn rewrite(
        &self,
        text: &str,
        searcher: &mut Searcher<'_>,
        rewrite: &mut Rewrite,
        check: &impl Fn(usize) -> Result<()>,
    ) -> Result<()> {
        rewrite.clear();
        let mut behind = 0;
        loop {
            let (start, end) = searcher.found();
            rewrite.copy(text, behind, start);
            self.template.write(text, rewrite, |group| searcher.group(group));
            behind = end;
            if !self.is_global || !searcher.next(text) {
                break;
            }
            check_length(rewrite.written_bytes())?;
            check(rewrite.written_bytes())?;
        }
        rewrite.copy(text, behind, text.len());
        Ok(())
    }
}

/// Tells which texts match: `text ~ pattern`, `text ~* pattern` (flag `i`) and `regexp_like(text, pattern, flags)` with
/// a constant pattern and flags.
#[derive(Debug)]
pub(crate) struct Matcher {
    search: RegexSearch,
}

impl Matcher {
    /// Compiles a pattern and the flags, which are those of the `regex` library.
    ///
    /// Errors: [`ErrorKind::InvalidParameter`] if pattern or flags are not valid, [`ErrorKind::ResultTooLarge`] if the
    /// pattern is too large.
    pub(crate) fn new(pattern: &str, flags: Option<&str>) -> Result<Matcher> {
        let pattern = match flags {
            None | Some("") => pattern.to_string(),
            Some(flags) if flags.contains('g') => {
                let message = format!("the flags '{}' ask for all matches, but one match already decides", clip(flags));
                return Err(Error::new(ErrorKind::InvalidParameter, message).hint("leave out the flag g"));
            }
            Some(flags) => format!("(?{flags}){pattern}"),
        };
        let (regex, hir) = read(&pattern)?;
        Ok(Matcher { search: RegexSearch::whether(regex, &hir) })
    }

    /// Returns whether each text has a match; NULL stays NULL.
    pub(crate) fn is_match(&self, texts: &StringViewArray) -> BooleanArray {
        let mut searcher = self.search.searcher();
        let found =
            BooleanBuffer::collect_bool(texts.len(), |row| !texts.is_null(row) && searcher.any(texts.value(row)));
        BooleanArray::new(found, texts.nulls().cloned())
    }
}

/// Compiles a pattern with flags of the `regex` library, for callers that need more than [`Matcher`] and [`Replacer`].
pub(crate) fn compile(pattern: &str, flags: &str) -> Result<Regex> {
    let (regex, _) = if flags.is_empty() { read(pattern) } else { read(&format!("(?{flags}){pattern}")) }?;
    Ok(regex)
}

/// Parses a pattern as the library does.
fn read(pattern: &str) -> Result<(Regex, Hir)> {
    let hir = regex_syntax::parse(pattern).map_err(|error| {
        let why = match &error {
            regex_syntax::Error::Parse(error) => error.kind().to_string(),
            regex_syntax::Error::Translate(error) => error.kind().to_string(),
            other => other.to_string(),
        };
        let message = format!("'{}' is not a regular expression: {why}", clip(pattern));
        Error::new(ErrorKind::InvalidParameter, message)
    })?;
    let regex = Regex::new(pattern).map_err(|_| {
        Error::new(ErrorKind::ResultTooLarge, "the regular expression is too large once compiled")
            .hint("smaller counts in {n,m} help")
    })?;
    Ok((regex, hir))
}

/// Returns the beginning of a text that an error quotes.
fn clip(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}
