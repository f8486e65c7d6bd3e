//! The commands of the shell itself. They start with a backslash, at the prompt and in scripts. [`COMMANDS`] lists
//! them; the help and the completion read that list.

use std::path::Path;

use clap::ValueEnum;
use rowmill::{Error, ErrorKind, Result, STATEMENTS};

use crate::input::SqlStream;
use crate::output::Format;
use crate::runner::Runner;
use crate::terminal::say;

/// Whether the shell continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    Quit,
}

/// A command of the shell.
pub(crate) struct ShellCommand {
    /// Its names; the help shows the first one.
    pub(crate) names: &'static [&'static str],
    argument: &'static str,
    doc: &'static str,
    run: fn(&str, &mut Runner) -> Result<Next>,
}

/// All commands.
pub(crate) const COMMANDS: &[ShellCommand] = &[
    ShellCommand { names: &["\\d"], argument: "", doc: "lists tables and views", run: describe },
    ShellCommand { names: &["\\d"], argument: "NAME", doc: "describes a table or view", run: describe },
    ShellCommand {
        names: &["\\mode"],
        argument: "FORMAT",
        doc: "prints results as table, csv, json, ndjson, markdown or line",
        run: mode,
    },
    ShellCommand {
        names: &["\\all"],
        argument: "",
        doc: "switches between all rows and columns and those that fit the screen",
        run: all,
    },
    ShellCommand {
        names: &["\\timing"],
        argument: "",
        doc: "switches the time of each statement on or off",
        run: timing,
    },
    ShellCommand { names: &["\\i"], argument: "FILE", doc: "runs the SQL of a file", run: include },
    ShellCommand {
        names: &["\\h"],
        argument: "STATEMENT",
        doc: "explains an SQL statement, or lists all of them",
        run: statements,
    },
    ShellCommand { names: &["\\?", "\\help", "help"], argument: "", doc: "shows this list", run: help },
    ShellCommand {
        names: &["\\q", "\\quit", "\\exit", "quit", "exit"],
        argument: "",
        doc: "ends the shell (so does Ctrl-D)",
        run: |_, _| Ok(Next::Quit),
    },
];

/// Whether `line` is a command: it starts with a backslash or is one of the words that people try first.
pub(crate) fn is_command(line: &str) -> bool {
    let (name, argument) = parts(line);
    name.starts_with('\\') || (argument.is_empty() && find(name).is_some())
}

/// Runs the command in `line`.
pub(crate) fn run(line: &str, runner: &mut Runner) -> Result<Next> {
    let (name, argument) = parts(line);
    match find(name) {
        Some(command) => (command.run)(argument, runner),
        None => {
            let error = Error::new(ErrorKind::Syntax, format!("there is no command {name}"));
            Err(error.hint("\\? lists the commands"))
        }
    }
}

fn find(name: &str) -> Option<&'static ShellCommand> {
    COMMANDS.iter().find(|command| command.names.iter().any(|known| known.eq_ignore_ascii_case(name)))
}

/// Splits a line into the name of a command and its argument.
fn parts(line: &str) -> (&str, &str) {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (name, argument.trim())
}

fn describe(name: &str, runner: &mut Runner) -> Result<Next> {
    match name {
        "" => runner.run_text("SHOW TABLES")?,
        name => runner.run_text(&format!("DESCRIBE {name}"))?,
    }
    Ok(Next::Continue)
}

fn mode(format: &str, runner: &mut Runner) -> Result<Next> {
    runner.view.format = Format::from_str(format, true).map_err(|_| {
        let error = Error::new(ErrorKind::InvalidParameter, format!("there is no output mode \"{format}\""));
        error.hint("the modes are table, csv, json, ndjson, markdown and line")
    })?;
    Ok(Next::Continue)
}

fn all(_: &str, runner: &mut Runner) -> Result<Next> {
    runner.view.all = !runner.view.all;
    let what = if runner.view.all { "all rows and columns" } else { "the rows and columns that fit the screen" };
    runner.tell(&format!("Tables show {what}.\n"))?;
    Ok(Next::Continue)
}

fn timing(_: &str, runner: &mut Runner) -> Result<Next> {
    runner.timing = !runner.timing;
    runner.tell(&format!("Timing is {}.\n", if runner.timing { "on" } else { "off" }))?;
    Ok(Next::Continue)
}

fn include(file: &str, runner: &mut Runner) -> Result<Next> {
    runner.run_stream(SqlStream::file(Path::new(file))?)?;
    Ok(Next::Continue)
}

fn statements(name: &str, _: &mut Runner) -> Result<Next> {
    let wanted = name.to_uppercase();
    let mut text = String::new();
    for info in STATEMENTS.iter().filter(|info| info.name.starts_with(&wanted)) {
        match wanted.is_empty() {
            true => text.push_str(&format!("{:18} {}\n", info.name, info.doc)),
            false => text.push_str(&format!("{}: {}\n  {};\n", info.name, info.doc, info.example)),
        }
    }
    if text.is_empty() {
        let error = Error::new(ErrorKind::UndefinedObject, format!("there is no statement \"{name}\""));
        return Err(error.hint("\\h lists the statements"));
    }
    say(&text)?;
    Ok(Next::Continue)
}

fn help(_: &str, _: &mut Runner) -> Result<Next> {
    let mut text = String::new();
    for command in COMMANDS {
        text.push_str(&format!("{:13}  {}\n", format!("{} {}", command.names[0], command.argument), command.doc));
    }
    text.push_str("Statements end with a semicolon. Ctrl-C cancels the running statement.\n");
    say(&text)?;
    Ok(Next::Continue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_without_a_backslash_are_commands_only_alone() {
        for command in ["\\d t", "\\nonsense", "quit", "EXIT;", " help "] {
            assert!(is_command(command), "{command}");
        }
        for sql in ["quit now", "help me;", "SELECT 1;", "QUIT_TABLE", ""] {
            assert!(!is_command(sql), "{sql}");
        }
    }

    #[test]
    fn the_modes_are_those_of_the_formats() {
        let names: Vec<String> = Format::value_variants()
            .iter()
            .filter_map(|format| format.to_possible_value().map(|value| value.get_name().to_owned()))
            .collect();
        let doc = COMMANDS.iter().find(|command| command.names == ["\\mode"]).expect("listed").doc;
        for name in names {
            assert!(doc.contains(&name), "the help of \\mode lacks {name}");
        }
    }
}
