//! The shell from outside: in a pseudo-terminal, through pipes, and its output formats beside golden files.

mod book;
mod formats;
mod packaging;
mod peers;
mod pipes;
mod prompt;
#[cfg(feature = "remote")]
mod remote_files;
mod screen;
mod serve;
mod terminal;

/// The path of the shell.
const SHELL: &str = env!("CARGO_BIN_EXE_rowmill");
