//! Shows output that is longer than the screen through the user's pager.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

/// Shows `text`: directly if it fits the terminal, and otherwise through `$PAGER` (by default `less`).
pub(crate) fn show(text: &str) -> std::io::Result<()> {
    let out = std::io::stdout();
    if out.is_terminal() && !fits(text) && page(text).is_ok() {
        return Ok(());
    }
    let mut out = out.lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn fits(text: &str) -> bool {
    let (Some(lines), Some(columns)) = (from_environment("LINES"), from_environment("COLUMNS")) else {
        return text.lines().count() < 50;
    };
    text.lines().count() < lines && text.lines().all(|line| line.chars().count() <= columns)
}

fn from_environment(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

fn page(text: &str) -> std::io::Result<()> {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less -SFRX".to_owned());
    let mut words = pager.split_whitespace();
    let program = words.next().ok_or(std::io::ErrorKind::NotFound)?;
    let mut child = Command::new(program).args(words).stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // The write fails if the user leaves the pager before the end. That is not an error.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().map(drop)
}
