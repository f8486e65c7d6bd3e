//! `rowmill`: the shell.
//!
//! `args.rs` parses the command line, and `input.rs` opens the sources of SQL that it names. `runner.rs` runs
//! statements and prints their outcomes in one of the formats of `output/`. `shell.rs` is the interactive loop around
//! the runner, with the commands of `commands.rs`. `demo.rs` is the guided tour. `serve.rs` is the server.

mod args;
mod commands;
mod completion;
mod demo;
mod input;
mod output;
mod pager;
mod progress;
mod runner;
mod serve;
mod shell;
mod stopwatch;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use rowmill::{Database, Result};
use rowmill_allocator::CountingAllocator;

use crate::args::{Args, database_options};
use crate::input::SqlInput;
use crate::output::Format;
use crate::runner::{ResultView, Runner};
use crate::serve::ServeArgs;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    CountingAllocator::announce();
    let ran = match ServeArgs::of_process() {
        Some(args) => serve::run(&args),
        None => run(&Args::parse()),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output had enough, as in `rowmill db -c ... | head`.
        Err(_) if terminal::is_output_closed() => ExitCode::SUCCESS,
        Err(error) => {
            shell::show(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if args.is_demo() {
        return demo::run(args.demo_dir());
    }
    let options = database_options(&args.settings, args.read_only)?;
    let mut inputs = args.inputs();
    // The shell should only be interactive if a person types. For example, `rowmill db < file.sql` must not show a
    // prompt.
    let interactive = inputs.is_empty() && std::io::stdin().is_terminal();
    if inputs.is_empty() && !interactive {
        inputs.push(SqlInput::Standard);
    }
    // Before the database is opened, so that a wrong name of a file does not create one.
    let inputs = inputs.into_iter().map(SqlInput::open).collect::<Result<Vec<_>>>()?;
    let database = match &args.dir {
        Some(dir) => Database::open_with(dir, options)?,
        None => Database::memory_with(options)?,
    };
    let default = if std::io::stdout().is_terminal() || interactive { Format::Table } else { Format::Csv };
    let view = ResultView { format: args.format.unwrap_or(default), all: args.all, paged: interactive };
    let mut runner = Runner::new(database.connect()?, view)?;
    if interactive {
        return shell::run(&database, &mut runner);
    }
    // The first error ends the program, because later inputs may depend on earlier ones.
    inputs.into_iter().try_for_each(|input| runner.run_input(input))
}
