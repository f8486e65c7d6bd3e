//! The interactive shell.

use std::path::PathBuf;

use rowmill::text::is_complete;
use rowmill::{Database, Error, Result, TransactionState};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::commands::{self, Next};
use crate::completion::CompletionWords;
use crate::runner::Runner;
use crate::terminal::{complain, say};

/// Reads statements and commands until the user quits. Errors are shown, and the shell continues.
pub(crate) fn run(database: &Database, runner: &mut Runner) -> Result<()> {
    let place = database.path().map_or("memory".to_owned(), |path| path.display().to_string());
    say(&format!("Rowmill {} on {place}. \\? for help, \\q to quit.\n", env!("CARGO_PKG_VERSION")))?;
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(false).build();
    let mut editor: Editor<CompletionWords, FileHistory> = Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(CompletionWords::new(database)));
    let history = history_file();
    if let Some(history) = &history {
        // A new user has no history file, so we ignore the error.
        let _ = editor.load_history(history);
    }
    let mut typed = String::new();
    loop {
        match editor.readline(&prompt(runner, !typed.is_empty())) {
            Ok(line) => {
                // Inside of an unfinished statement, a backslash or a word is SQL.
                if typed.is_empty() && commands::is_command(&line) {
                    let _ = editor.add_history_entry(line.trim());
                    match commands::run(&line, runner) {
                        Ok(Next::Continue) => {}
                        Ok(Next::Quit) => break,
                        Err(error) => show(&error),
                    }
                    continue;
                }
                typed.push_str(&line);
                typed.push('\n');
                if typed.trim().is_empty() {
                    typed.clear();
                } else if is_complete(&typed) {
                    let text = std::mem::take(&mut typed);
                    // A failure to add to the history should not stop the shell.
                    let _ = editor.add_history_entry(text.trim());
                    if let Err(error) = runner.run_text(&text) {
                        show(&error);
                    }
                }
            }
            // Ctrl-C discards the typed text. Ctrl-D ends the shell.
            Err(ReadlineError::Interrupted) => typed.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        }
    }
    if let Some(history) = &history {
        let _ = editor.save_history(history);
    }
    if runner.connection.transaction_state() != TransactionState::Idle {
        complain("The open transaction was rolled back.");
    }
    Ok(())
}

fn prompt(runner: &Runner, more: bool) -> String {
    let open = match runner.connection.transaction_state() {
        TransactionState::Idle => "",
        TransactionState::Active | TransactionState::Failed => "*",
    };
    format!("rowmill{open}{} ", if more { "-" } else { ">" })
}

fn history_file() -> Option<PathBuf> {
    std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".rowmill_history"))
}

/// Prints an error.
pub(crate) fn show(error: &Error) {
    complain(&format!("ERROR {}: {error}", error.sqlstate()));
}

fn terminal(error: ReadlineError) -> Error {
    Error::internal(format!("the terminal cannot be used: {error}"))
}
