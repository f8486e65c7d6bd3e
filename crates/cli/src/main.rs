//! `rowmill`: the shell.
//!
//! `args.rs` parses the command line. `runner.rs` runs statements and prints their outcomes in one of the formats of
//! `output/`. `shell.rs` is the interactive loop around the runner. `demo.rs` is the guided tour.

#![allow(clippy::print_stdout, clippy::print_stderr)] // A shell talks to its terminal.

mod args;
mod commands;
mod completion;
mod demo;
mod output;
mod pager;
mod progress;
mod runner;
mod shell;

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use clap::Parser;
use rowmill::{Database, Error, ErrorKind, Options, Result};
use rowmill_allocator::CountingAllocator;

use crate::args::{Args, SqlInput};
use crate::output::Format;
use crate::runner::Runner;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    CountingAllocator::announce();
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ERROR {}: {error}", error.sqlstate());
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if args.is_demo() {
        return demo::run(args.demo_dir());
    }
    let options = args.settings.iter().try_fold(Options::new().read_only(args.read_only), |options, setting| {
        let (name, value) = setting.split_once('=').ok_or_else(|| {
            Error::new(ErrorKind::InvalidParameter, format!("--set takes name=value, not \"{setting}\""))
        })?;
        options.set(name.trim(), value.trim())
    })?;
    let database = match &args.dir {
        Some(dir) => Database::open_with(dir, options)?,
        None => Database::memory_with(options)?,
    };
    // The shell should only be interactive if a person types. For example, `rowmill db < file.sql` must not show a
    // prompt.
    let interactive = args.inputs().is_empty() && std::io::stdin().is_terminal();
    let default = if std::io::stdout().is_terminal() || interactive { Format::Table } else { Format::Csv };
    let mut runner = Runner::new(database.connect()?, args.format.unwrap_or(default))?;
    if interactive {
        return shell::run(&database, &mut runner);
    }
    let mut inputs = args.inputs();
    if inputs.is_empty() {
        inputs.push(SqlInput::Standard);
    }
    // The first error ends the program, because later inputs may depend on earlier ones.
    for input in inputs {
        runner.run_text(&read(&input)?)?;
    }
    Ok(())
}

/// Reads the SQL of an input.
fn read(input: &SqlInput) -> Result<String> {
    let failed =
        |what: String| move |error: std::io::Error| Error::new(ErrorKind::UndefinedFile, format!("{what}: {error}"));
    match input {
        SqlInput::Text(sql) => Ok(sql.clone()),
        SqlInput::File(path) => {
            std::fs::read_to_string(path).map_err(failed(format!("the file {} cannot be read", path.display())))
        }
        SqlInput::Standard => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(failed("the standard input cannot be read".into()))?;
            Ok(text)
        }
    }
}
