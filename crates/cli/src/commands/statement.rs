//! Commands that run, show or edit the statement that was typed or that ran last.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rowmill::{Error, ErrorKind, Result};

use super::Next;
use super::system::run_program;
use crate::buffer::can_run;
use crate::interrupt;
use crate::result_target::ResultTarget;
use crate::runner::Runner;
use crate::terminal::say;

/// Returns the statement that was typed, or the one that ran last.
fn current(runner: &mut Runner) -> Result<String> {
    let typed = std::mem::take(&mut runner.buffer);
    let sql = if typed.trim().is_empty() { runner.last_sql.clone() } else { typed };
    if sql.is_empty() {
        let error = Error::new(ErrorKind::UndefinedObject, "there is no statement to run");
        return Err(error.hint("write it before the command: SELECT 1 \\g"));
    }
    Ok(sql)
}

pub(super) fn run_again(file: &str, runner: &mut Runner) -> Result<Next> {
    let sql = current(runner)?;
    if file.is_empty() {
        runner.run_text(&sql)?;
    } else {
        let target = std::mem::replace(&mut runner.target, ResultTarget::file(Path::new(file))?);
        let ran = runner.run_text(&sql);
        runner.target = target;
        ran?;
    }
    Ok(Next::Continue)
}

pub(super) fn run_expanded(file: &str, runner: &mut Runner) -> Result<Next> {
    let was_expanded = std::mem::replace(&mut runner.view.expanded, true);
    let ran = run_again(file, runner);
    runner.view.expanded = was_expanded;
    ran
}

const WATCH_SECONDS: f64 = 2.0;

pub(super) fn watch(argument: &str, runner: &mut Runner) -> Result<Next> {
    let sql = current(runner)?;
    let seconds = if argument.is_empty() { Some(WATCH_SECONDS) } else { argument.parse().ok() };
    let pause = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| {
        let message = format!("\\watch takes a number of seconds, not \"{argument}\"");
        Error::new(ErrorKind::InvalidParameter, message)
    })?;
    // The pager would stop the repetition.
    let was_paged = std::mem::replace(&mut runner.view.paged, false);
    let ran = interrupt::repeat(pause, || runner.run_text(&sql));
    runner.view.paged = was_paged;
    ran.map(|()| Next::Continue)
}

pub(super) fn print(_: &str, runner: &mut Runner) -> Result<Next> {
    let sql = current(runner)?;
    say(&format!("{}\n", sql.trim_end()))?;
    runner.buffer = sql;
    Ok(Next::Continue)
}

pub(super) fn reset(_: &str, runner: &mut Runner) -> Result<Next> {
    runner.buffer.clear();
    Ok(Next::Continue)
}

/// A temporary file that holds the statement while it is edited.
struct EditedFile(PathBuf);

impl EditedFile {
    fn new(sql: &str) -> Result<EditedFile> {
        let path = std::env::temp_dir().join(format!("rowmill-edit-{}.sql", std::process::id()));
        let failed = |error: &std::io::Error| Error::io(format!("making {}", path.display()), error);
        // Other users of the machine must not read the statement, nor put a file of theirs in its place.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(|error| failed(&error))?;
        file.write_all(sql.as_bytes()).map_err(|error| failed(&error))?;
        Ok(EditedFile(path))
    }
}

impl Drop for EditedFile {
    fn drop(&mut self) {
        // If the file cannot be removed, no caller can do anything about it.
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(super) fn edit(file: &str, runner: &mut Runner) -> Result<Next> {
    let own;
    let path = if file.is_empty() {
        let typed = std::mem::take(&mut runner.buffer);
        own = EditedFile::new(if typed.trim().is_empty() { &runner.last_sql } else { &typed })?;
        &own.0
    } else {
        Path::new(file)
    };
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // The variable may have arguments: `EDITOR="code --wait"`.
    run_program("sh", &["-c", &format!("{editor} \"$1\""), "sh", &path.display().to_string()])?;
    let text =
        std::fs::read_to_string(path).map_err(|error| Error::io(format!("reading {}", path.display()), &error))?;
    let text = text.trim_end();
    if can_run(text) {
        say(&format!("{text}\n"))?;
        runner.run_text(text)?;
    } else if !text.is_empty() {
        say(&format!("{text}\n"))?;
        runner.buffer = format!("{text}\n");
    }
    Ok(Next::Continue)
}
