//! Commands of the operating system.

use std::process::Command;

use rowmill::{Error, Result};

use super::Next;
use crate::interrupt;
use crate::runner::Runner;
use crate::terminal::complain;

/// Runs a program with the terminal of the shell and waits for it. Ctrl-C goes to the program.
pub(super) fn run_program(program: &str, arguments: &[&str]) -> Result<()> {
    let status = interrupt::without_end(|| Command::new(program).args(arguments).status());
    let status = status.map_err(|error| Error::io(format!("running {program}"), &error))?;
    if !status.success() {
        complain(&format!("The command failed: {status}."));
    }
    Ok(())
}

pub(super) fn shell(command: &str, _: &mut Runner) -> Result<Next> {
    match command {
        "" => run_program(&std::env::var("SHELL").unwrap_or_else(|_| "sh".to_owned()), &[])?,
        command => run_program("sh", &["-c", command])?,
    }
    Ok(Next::Continue)
}
