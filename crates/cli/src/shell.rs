//! The interactive shell.

use std::path::PathBuf;

use rowmill::{Database, Error, Result, TransactionState};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::buffer::{OpenPart, can_run, is_blank, split_command};
use crate::commands::{self, Next};
use crate::data_lines::{DataLines, END_OF_DATA};
use crate::interrupt;
use crate::runner::Runner;
use crate::terminal::{complain, say};
use crate::typist::Typist;

type LineEditor = Editor<Typist, FileHistory>;

/// Reads statements and commands until the user quits. Errors are shown, and the shell continues.
pub(crate) fn run(database: &Database, runner: &mut Runner) -> Result<()> {
    let place = database.path().map_or("memory".to_owned(), |path| path.display().to_string());
    say(&format!("Rowmill {} on {place}. \\? for help, \\q to quit.\n", env!("CARGO_PKG_VERSION")))?;
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(false).build();
    let mut editor = LineEditor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(Typist::new(database)));
    let history = history_file();
    if let Some(history) = &history {
        // A new user has no history file, so we ignore the error.
        let _ = editor.load_history(history);
    }
    // Ctrl-C may arrive just after the statement that it was meant for. It must not end the shell and its transaction.
    interrupt::without_end(|| read_lines(&mut editor, runner))?;
    if let Some(history) = &history {
        let _ = editor.save_history(history);
    }
    if runner.connection.transaction_state() != TransactionState::Idle {
        complain("The open transaction was rolled back.");
    }
    Ok(())
}

fn read_lines(editor: &mut LineEditor, runner: &mut Runner) -> Result<()> {
    loop {
        if let Some(typist) = editor.helper_mut() {
            typist.set_before(&runner.buffer);
        }
        match editor.readline(&prompt(runner)) {
            Ok(line) => {
                if take_line(&line, editor, runner) == Next::Quit {
                    return Ok(());
                }
            }
            // Ctrl-C discards the typed text. Ctrl-D ends the shell.
            Err(ReadlineError::Interrupted) => runner.buffer.clear(),
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal(error)),
        }
    }
}

/// Adds a line to the statement, and runs the statement if it is complete, or the command in the line.
fn take_line(line: &str, editor: &mut LineEditor, runner: &mut Runner) -> Next {
    if runner.buffer.is_empty()
        && commands::is_command(line)
        && split_command(line).is_none_or(|(sql, _)| is_blank(sql))
    {
        remember(editor, line);
        return ran(commands::run(line, runner), runner);
    }
    let text = format!("{}{line}\n", runner.buffer);
    if let Some((sql, command)) = split_command(&text) {
        remember(editor, text.trim());
        let (sql, command) = (sql.to_owned(), command.trim().to_owned());
        // A command that does nothing with the statement leaves it, so that the user can go on with it.
        runner.buffer = sql;
        return ran(commands::run(&command, runner), runner);
    }
    runner.buffer = text;
    if is_blank(&runner.buffer) && !OpenPart::of(&runner.buffer).hides_commands() {
        runner.buffer.clear();
    } else if can_run(&runner.buffer) {
        let text = std::mem::take(&mut runner.buffer);
        remember(editor, text.trim());
        let done = runner.run_with_data(&text, &mut TypedLines { editor, is_over: false });
        return ran(done.map(|()| Next::Continue), runner);
    }
    Next::Continue
}

/// Shows the error of a statement or command. The shell continues after it.
fn ran(result: Result<Next>, runner: &mut Runner) -> Next {
    result.unwrap_or_else(|error| {
        runner.show_error(&error);
        Next::Continue
    })
}

fn remember(editor: &mut LineEditor, text: &str) {
    // A failure to add to the history should not stop the shell.
    let _ = editor.add_history_entry(text.trim());
}

/// The prompt shows whether a transaction is open and which quote or bracket is not closed yet.
fn prompt(runner: &Runner) -> String {
    let open = match runner.connection.transaction_state() {
        TransactionState::Idle => "",
        TransactionState::Active | TransactionState::Failed => "*",
    };
    format!("rowmill{open}{} ", OpenPart::of(&runner.buffer).sign())
}

fn history_file() -> Option<PathBuf> {
    std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".rowmill_history"))
}

fn terminal(error: ReadlineError) -> Error {
    Error::internal(format!("the terminal cannot be used: {error}"))
}

/// The data of a COPY, typed line by line.
struct TypedLines<'e> {
    editor: &'e mut LineEditor,
    is_over: bool,
}

impl DataLines for TypedLines<'_> {
    fn begin(&mut self) -> Result<()> {
        say(&format!("Type the rows, and {END_OF_DATA} or Ctrl-D after the last one.\n"))
    }

    fn next_lines(&mut self) -> Result<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        match self.editor.readline(">> ") {
            Ok(line) if line != END_OF_DATA => Ok(Some(format!("{line}\n").into_bytes())),
            Ok(_) | Err(ReadlineError::Eof) => {
                self.is_over = true;
                Ok(None)
            }
            Err(error) => {
                self.is_over = true;
                Err(if matches!(error, ReadlineError::Interrupted) { cancelled() } else { terminal(error) })
            }
        }
    }
}

fn cancelled() -> Error {
    Error::new(rowmill::ErrorKind::Cancelled, "the data was not typed to its end, so no row was added")
}
