//! Helps a person who types at the prompt: completion and colours.

use std::borrow::Cow;

use console::colors_enabled;
use rowmill::Database;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::{Context, Helper, Hinter, Result, Validator};

use crate::completion::Completion;
use crate::highlight::highlighted;

/// The helper of the line editor.
#[derive(Helper, Hinter, Validator)]
pub(crate) struct Typist {
    completion: Completion,
    /// The earlier lines of the statement.
    before: String,
}

impl Typist {
    pub(crate) fn new(database: &Database) -> Typist {
        Typist { completion: Completion::new(database), before: String::new() }
    }

    /// Tells which lines of the statement come before the one that is typed next.
    pub(crate) fn set_before(&mut self, before: &str) {
        before.clone_into(&mut self.before);
    }
}

impl Completer for Typist {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        self.completion.complete(&self.before, line, position)
    }
}

impl Highlighter for Typist {
    fn highlight<'l>(&self, line: &'l str, position: usize) -> Cow<'l, str> {
        match colors_enabled() {
            true => Cow::Owned(highlighted(&self.before, line, position)),
            false => Cow::Borrowed(line),
        }
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        // A quote or a bracket changes the colours of everything after it.
        colors_enabled()
    }
}
