//! The commands of the shell itself. They start with a backslash.

use clap::ValueEnum;
use rowmill::{Error, ErrorKind, Result};

use crate::output::Format;
use crate::runner::Runner;

const HELP: &str = "\
\\d            lists tables and views
\\d NAME       describes a table or view
\\timing       switches the time of each statement on or off
\\mode FORMAT  prints results as table, csv, json, ndjson, markdown or line
\\i FILE       runs the SQL of a file
\\?            shows this list
\\q            ends the shell (so does Ctrl-D)
Statements end with a semicolon. Ctrl-C cancels the running statement.
";

/// Whether the shell continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    Quit,
}

/// Runs the command in `line`, which must start with a backslash.
pub(crate) fn run(line: &str, runner: &mut Runner) -> Result<Next> {
    let (command, argument) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let argument = argument.trim().trim_end_matches(';');
    match command {
        "\\q" | "\\quit" | "\\exit" => return Ok(Next::Quit),
        "\\?" | "\\h" | "\\help" => print!("{HELP}"),
        "\\timing" => {
            runner.timing = !runner.timing;
            println!("Timing is {}.", if runner.timing { "on" } else { "off" });
        }
        "\\mode" => {
            runner.format = Format::from_str(argument, true).map_err(|_| {
                let error = Error::new(ErrorKind::InvalidParameter, format!("there is no output mode \"{argument}\""));
                error.hint("the modes are table, csv, json, ndjson, markdown and line")
            })?;
        }
        "\\d" if argument.is_empty() => runner.run_text("SHOW TABLES")?,
        "\\d" => runner.run_text(&format!("DESCRIBE {argument}"))?,
        "\\i" => {
            let text = std::fs::read_to_string(argument).map_err(|error| {
                Error::new(ErrorKind::UndefinedFile, format!("the file {argument} cannot be read: {error}"))
            })?;
            runner.run_text(&text)?;
        }
        other => {
            let error = Error::new(ErrorKind::Syntax, format!("there is no command {other}"));
            return Err(error.hint("\\? lists the commands"));
        }
    }
    Ok(Next::Continue)
}
