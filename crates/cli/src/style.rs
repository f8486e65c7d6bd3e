//! Colours of the output. They are used only on a terminal that has them, and not if `NO_COLOR` is set.

use console::Style;

/// A role that a text of the shell has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// Less important than the text beside it: NULL, types, times.
    Faint,
    Error,
    Hint,
    Keyword,
    Function,
    Value,
    Comment,
    /// The bracket that belongs to the one at the cursor.
    Match,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Tone::Plain => Style::new(),
            Tone::Faint | Tone::Comment => Style::new().black().bright(),
            Tone::Error => Style::new().red().bold(),
            Tone::Hint => Style::new().cyan(),
            Tone::Keyword => Style::new().blue().bold(),
            Tone::Function => Style::new().cyan(),
            Tone::Value => Style::new().green(),
            Tone::Match => Style::new().yellow().bold().underlined(),
        }
    }

    /// Returns `text` in the colour of the role, for the standard output.
    pub(crate) fn paint(self, text: &str) -> String {
        match self {
            Tone::Plain => text.to_owned(),
            tone => tone.style().apply_to(text).to_string(),
        }
    }

    /// Returns `text` in the colour of the role, for the error output.
    pub(crate) fn paint_error(self, text: &str) -> String {
        match self {
            Tone::Plain => text.to_owned(),
            tone => tone.style().for_stderr().apply_to(text).to_string(),
        }
    }
}
