//! `rowmill`: the shell.
//!
//! The modules, in the order in which a statement meets them:
//!
//! - `args`, `demo`, `serve`: the command line, the guided tour, and the server.
//! - `input`, `data_lines`: sources of SQL, and of the data of a COPY.
//! - `shell`, `typist`, `completion`, `highlight`: the interactive loop, and what helps while typing.
//! - `buffer`, `variables`: the statement that is being typed, and the names that it may use.
//! - `commands`: the commands of the shell itself.
//! - `runner`, `interrupt`, `stopwatch`: runs statements; Ctrl-C; the time of a statement.
//! - `outcome_printer`, `output`, `result_target`, `pager`: results, in which format and where.
//! - `plot`: charts of results.
//! - `progress`, `error_view`, `style`, `terminal`: what else is on the screen.

mod args;
mod buffer;
mod commands;
mod completion;
mod data_lines;
mod demo;
mod error_view;
mod highlight;
mod input;
mod interrupt;
mod outcome_printer;
mod output;
mod pager;
mod plot;
mod progress;
mod result_target;
mod runner;
mod serve;
mod shell;
mod stopwatch;
mod style;
mod terminal;
mod typist;
mod variables;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use rowmill::{Database, Error, Result};
use rowmill_allocator::CountingAllocator;

use crate::args::{Args, database_options};
use crate::input::SqlInput;
use crate::outcome_printer::ResultView;
use crate::output::Format;
use crate::runner::Runner;
use crate::serve::ServeArgs;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    CountingAllocator::announce();
    let ran = match ServeArgs::of_process() {
        Some(args) => serve::run(&args).map_err(Failure::from),
        None => run(&Args::parse()),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output had enough, as in `rowmill db -c ... | head`.
        Err(_) if terminal::is_output_closed() => ExitCode::SUCCESS,
        Err(Failure { error, excerpt }) => {
            error_view::show(&error, excerpt.as_deref());
            ExitCode::FAILURE
        }
    }
}

/// The error that ends the program, and its place in the text of the statement.
struct Failure {
    error: Error,
    excerpt: Option<String>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, excerpt: None }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    if args.is_demo() {
        return Ok(demo::run(args.demo_dir())?);
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
    let format = args.format.unwrap_or(default);
    let view = ResultView { format, all: args.all, expanded: false, paged: interactive, sampled: interactive };
    let mut runner = Runner::new(&database, view)?;
    if interactive {
        return Ok(shell::run(&database, &mut runner)?);
    }
    // The first error ends the program, because later inputs may depend on earlier ones.
    let ran = inputs.into_iter().try_for_each(|input| runner.run_input(input));
    ran.map_err(|error| Failure { error, excerpt: runner.error_excerpt.take() })
}
