//! The commands of the shell itself. They start with a backslash, at the prompt and in scripts. [`COMMANDS`] lists
//! them; the help and the completion read that list.
//!
//! - `describe`: what the database holds. `results`: how and where results are printed.
//! - `script`: files, texts and variables. `statement`: runs, shows or edits a statement.
//! - `system`: programs of the system. `habits`: answers to the commands of other shells.

mod describe;
mod habits;
mod results;
mod script;
mod statement;
mod system;

use rowmill::{Error, ErrorKind, Result, STATEMENTS};

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
    /// What the argument is, for completion.
    pub(crate) completes: ArgumentKind,
    run: fn(&str, &mut Runner) -> Result<Next>,
}

/// The kind of a command's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    None,
    Relation,
    File,
    Format,
    Statement,
    /// The rest of a statement: `\copy t FROM ...`.
    Copy,
}

const fn command(
    names: &'static [&'static str],
    argument: &'static str,
    doc: &'static str,
    run: fn(&str, &mut Runner) -> Result<Next>,
) -> ShellCommand {
    ShellCommand { names, argument, doc, completes: ArgumentKind::None, run }
}

impl ShellCommand {
    const fn completes(self, completes: ArgumentKind) -> ShellCommand {
        ShellCommand { completes, ..self }
    }
}

/// All commands.
pub(crate) const COMMANDS: &[ShellCommand] = &[
    command(&["\\d"], "", "lists tables, views and sequences", describe::describe),
    command(&["\\d"], "NAME", "describes a table or view: columns, keys, indexes", describe::describe)
        .completes(ArgumentKind::Relation),
    command(&["\\dt"], "", "lists tables with their rows", describe::tables),
    command(&["\\dv"], "", "lists views", describe::views),
    command(&["\\di"], "", "lists indexes", describe::indexes),
    command(&["\\ds"], "", "lists sequences", describe::sequences),
    command(&["\\dn"], "", "lists schemas", describe::schemas),
    command(&["\\dT"], "", "lists the types that CREATE TYPE has made", describe::types),
    command(&["\\df"], "PATTERN", "lists functions; * stands for any letters", describe::functions),
    command(&["\\l"], "", "lists the open database and those that are attached", describe::databases),
    command(&["\\conninfo"], "", "shows the database, the process and the open transaction", describe::connection),
    command(&["\\mode"], "FORMAT", "prints results as table, csv, json, ndjson, markdown or line", results::mode)
        .completes(ArgumentKind::Format),
    command(&["\\x"], "", "switches between tables and one value per line", results::expanded),
    command(&["\\all"], "", "switches between all rows and columns and those that fit the screen", results::all),
    command(&["\\timing"], "", "switches the time of each statement on or off", results::timing),
    command(&["\\o"], "FILE", "writes results to a file; without a name, to the screen again", results::output)
        .completes(ArgumentKind::File),
    command(&["\\plot"], "[line|bar] [X [Y ...]]", "draws the last result as a chart", results::plot),
    command(&["\\g"], "[FILE]", "runs the statement again, into a file if one is named", statement::run_again)
        .completes(ArgumentKind::File),
    command(&["\\gx"], "[FILE]", "like \\g, with one value per line", statement::run_expanded)
        .completes(ArgumentKind::File),
    command(&["\\watch"], "[SECONDS]", "runs the statement again and again until Ctrl-C", statement::watch),
    command(&["\\e"], "[FILE]", "edits the statement, or a file, in $EDITOR", statement::edit)
        .completes(ArgumentKind::File),
    command(&["\\p"], "", "shows the statement", statement::print),
    command(&["\\r"], "", "discards the statement that is being typed", statement::reset),
    command(&["\\i"], "FILE", "runs the SQL of a file", script::include).completes(ArgumentKind::File),
    command(&["\\copy"], "TABLE FROM|TO FILE", "loads a file, or writes one, as COPY does", script::copy)
        .completes(ArgumentKind::Copy),
    command(&["\\echo"], "TEXT", "prints a text", script::echo),
    command(&["\\set"], "[NAME VALUE]", "sets a variable, which SQL reads as :NAME; lists all variables", script::set),
    command(&["\\unset"], "NAME", "removes a variable", script::unset),
    command(&["\\!"], "COMMAND", "runs a command of the system", system::shell).completes(ArgumentKind::File),
    command(&["\\h"], "STATEMENT", "explains an SQL statement, or lists all of them", statements)
        .completes(ArgumentKind::Statement),
    command(&["\\?", "\\help", "help"], "", "shows this list", help),
    command(&["\\q", "\\quit", "\\exit", "quit", "exit"], "", "ends the shell (so does Ctrl-D)", |_, _| Ok(Next::Quit)),
];

/// The commands that do something with the statement in front of them: `SELECT 1 \gx`.
const OF_STATEMENT: &[&str] = &["\\g", "\\gx", "\\watch", "\\plot", "\\e", "\\p", "\\r"];

/// Whether `line` is a command that does something with the statement in front of it.
pub(crate) fn takes_statement(line: &str) -> bool {
    OF_STATEMENT.contains(&parts(line).0)
}

/// The kind of the argument of the command `name`.
pub(crate) fn argument_kind(name: &str) -> ArgumentKind {
    let kinds = COMMANDS.iter().filter(|command| command.names.contains(&name)).map(|command| command.completes);
    kinds.reduce(|one, other| if other == ArgumentKind::None { one } else { other }).unwrap_or(ArgumentKind::None)
}

/// Whether `line` is a command: it starts with a backslash or is one of the words that people try first.
pub(crate) fn is_command(line: &str) -> bool {
    let (name, argument) = parts(line);
    name.starts_with('\\') || (argument.is_empty() && find(name).is_some()) || habits::answer(name).is_some()
}

/// Runs the command in `line`.
pub(crate) fn run(line: &str, runner: &mut Runner) -> Result<Next> {
    let (name, argument) = parts(line);
    match find(name) {
        Some(command) => (command.run)(argument, runner),
        None => {
            let error = Error::new(ErrorKind::Syntax, format!("there is no command {name}"));
            if let Some(answer) = habits::answer(name) {
                return Err(error.hint(answer));
            }
            // In such short names one typing error is the most that can be guessed.
            let known = COMMANDS.iter().flat_map(|command| command.names).copied().filter(|known| is_near(name, known));
            let near: Vec<&str> = known.take(NEAR_MAX).collect();
            Err(match near.as_slice() {
                [] => error.hint("\\? lists the commands"),
                near => error.hint(format!("did you mean {}? \\? lists the commands", near.join(", "))),
            })
        }
    }
}

/// The number of commands that an error suggests at most.
const NEAR_MAX: usize = 3;

/// Whether `known` becomes `name` by one letter more, less or other.
fn is_near(name: &str, known: &str) -> bool {
    let (name, known) = (name.as_bytes(), known.as_bytes());
    let begin = name.iter().zip(known).take_while(|(a, b)| a == b).count();
    let (name, known) = (&name[begin..], &known[begin..]);
    // A backslash alone is no beginning.
    begin > 1
        && [(0, 1), (1, 0), (1, 1)].iter().any(|(a, b)| name.get(*a..) == known.get(*b..) && name.get(*a..).is_some())
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
        text.push_str(&format!("{:28} {}\n", format!("{} {}", command.names[0], command.argument), command.doc));
    }
    text.push_str("Statements end with a semicolon or \\g. Ctrl-C cancels the running statement.\n");
    say(&text)?;
    Ok(Next::Continue)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::output::Format;

    #[test]
    fn words_without_a_backslash_are_commands_only_alone() {
        for command in ["\\d t", "\\nonsense", "quit", "EXIT;", " help ", ".tables", ".schema t"] {
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
