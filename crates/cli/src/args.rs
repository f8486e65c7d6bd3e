//! The arguments of the command line.

use std::path::{Path, PathBuf};

use clap::Parser;
use rowmill::{Error, ErrorKind, Options, Result};

use crate::input::SqlInput;
use crate::output::Format;

/// Rowmill: one SQL database for events and for the tables around them.
#[derive(Debug, Parser)]
#[command(
    name = "rowmill",
    version,
    about,
    after_help = "\
Without SQL, -c and -f, the shell reads SQL from the terminal or the standard input.
`rowmill demo [DIR]` makes a million events, loads them and asks questions about them.
`rowmill serve DIR` makes the database a server; `rowmill serve --help` shows its options."
)]
pub(crate) struct Args {
    /// The directory of the database, created if it does not exist; without a directory, or with `:memory:`, the
    /// database is in memory.
    pub(crate) dir: Option<PathBuf>,

    /// SQL to run, before that of -c and -f.
    #[arg(value_name = "SQL")]
    second: Option<String>,

    /// Runs one or several SQL statements; -c and -f may be repeated and run in order.
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    commands: Vec<String>,

    /// Runs the SQL of a file; - is the standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE", allow_hyphen_values = true)]
    files: Vec<PathBuf>,

    /// The format of results; by default a table on a terminal and CSV elsewhere.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// Prints all rows and columns of a table on a terminal, not only those that fit the screen.
    #[arg(long)]
    pub(crate) all: bool,

    /// Opens the database only for reading; another process may write it at the same time.
    #[arg(long)]
    pub(crate) read_only: bool,

    /// Gives a setting its initial value; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
}

impl Args {
    /// Whether the command is `rowmill demo [DIR]`. To open a database in a directory called `demo`, write `./demo`.
    pub(crate) fn is_demo(&self) -> bool {
        self.dir.as_deref() == Some(Path::new("demo")) && self.commands.is_empty() && self.files.is_empty()
    }

    pub(crate) fn demo_dir(&self) -> Option<&Path> {
        self.second.as_deref().map(Path::new)
    }

    /// Returns the inputs in the order of the command line.
    pub(crate) fn inputs(&self) -> Vec<SqlInput> {
        self.inputs_in_order(std::env::args())
    }

    /// Returns the inputs in the order in which they occur in `words`. clap collects each option by itself and loses
    /// the order between -c and -f, so we must read the words again.
    fn inputs_in_order(&self, words: impl Iterator<Item = String>) -> Vec<SqlInput> {
        let (mut commands, mut files) = (self.commands.iter(), self.files.iter());
        let mut inputs: Vec<SqlInput> = self.second.iter().map(|sql| SqlInput::Text(sql.clone())).collect();
        let mut words = words.skip(1).peekable();
        while let Some(word) = words.next() {
            let next = match word.as_str() {
                word if word == "-c"
                    || word.starts_with("--command")
                    || (word.starts_with("-c") && !word.starts_with("--")) =>
                {
                    commands.next().map(|sql| SqlInput::Text(sql.clone()))
                }
                word if word == "-f"
                    || word == "--file"
                    || word.starts_with("--file=")
                    || (word.starts_with("-f") && !word.starts_with("--")) =>
                {
                    files.next().map(|path| SqlInput::File(path.clone()))
                }
                _ => None,
            };
            if next.is_some() && matches!(word.as_str(), "-c" | "--command" | "-f" | "--file") {
                // The next word is the option's value, even if it looks like an option.
                words.next();
            }
            inputs.extend(next);
        }
        inputs
    }
}

/// Returns the options with which the database is opened. Each of `settings` is `name=value`.
pub(crate) fn database_options(settings: &[String], read_only: bool) -> Result<Options> {
    settings.iter().try_fold(Options::new().read_only(read_only), |options, setting| {
        let (name, value) = assignment(setting)?;
        options.set(&name, &value)
    })
}

/// Reads `name=value`, the argument of `--set`.
pub(crate) fn assignment(text: &str) -> Result<(String, String)> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| Error::new(ErrorKind::InvalidParameter, format!("--set takes name=value, not \"{text}\"")))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(words: &[&str]) -> Vec<SqlInput> {
        let args = Args::try_parse_from(words).expect("valid arguments");
        args.inputs_in_order(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn commands_and_files_keep_their_order() {
        let text = |sql: &str| SqlInput::Text(sql.into());
        let found = inputs(&["rowmill", "db", "-c", "one", "-f", "-c.sql", "--command=two", "-cthree"]);
        assert_eq!(found, [text("one"), SqlInput::File("-c.sql".into()), text("two"), text("three")]);
        let found = inputs(&["rowmill", "-c", "one", "db", "two"]);
        assert_eq!(found, [text("two"), text("one")]);
    }

    #[test]
    fn the_definition_of_the_arguments_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
