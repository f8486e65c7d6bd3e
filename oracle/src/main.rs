//! Asks Rowmill and independent engines the same random questions and reports where their answers differ.

mod aggregate;
mod cell;
mod change;
#[cfg(feature = "datafusion")]
mod datafusion;
mod differences;
mod duck;
mod engine;
mod expression;
mod from;
mod generator;
mod kind;
mod mill;
mod query;
mod random;
mod reduce;
mod run;
mod scope;
mod select;
mod subquery;
#[cfg(feature = "datafusion")]
mod suite;
mod window;
mod world;

use std::process::ExitCode;

use crate::duck::Duck;
use crate::run::{Request, run};

const USAGE: &str =
    "usage: oracle run [--queries N] [--seed N] [--findings N] [--oracle duckdb|datafusion] [--python PATH]
       oracle suite [--folder PATH]";

fn main() -> ExitCode {
    match command() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(findings) => {
            println!("{findings} findings");
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command of the arguments and gives the number of findings.
fn command() -> Result<usize, String> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    if command != "run" && command != "suite" {
        return Err(USAGE.to_owned());
    }
    let mut folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/slt").to_owned();
    let mut oracle = "duckdb".to_owned();
    let mut request = Request { queries: 2_000, seed: 1, findings_max: 10 };
    let mut python = "python3".to_owned();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value\n{USAGE}"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} needs a number, not {value}"));
        match name.as_str() {
            "--queries" => request.queries = number()?,
            "--seed" => request.seed = number()?,
            "--findings" => request.findings_max = number()? as usize,
            "--python" => python = value,
            "--oracle" => oracle = value,
            "--folder" => folder = value,
            _ => return Err(format!("unknown: {name}\n{USAGE}")),
        }
    }
    // A panic is a finding, which is printed with its statement.
    std::panic::set_hook(Box::new(|_| {}));
    if command == "suite" {
        return suite(&folder);
    }
    let counts = match oracle.as_str() {
        "duckdb" => run(&request, &mut Duck::start(&python)?)?,
        "datafusion" => with_datafusion(&request)?,
        _ => return Err(USAGE.to_owned()),
    };
    counts.print();
    Ok(counts.findings)
}

#[cfg(feature = "datafusion")]
fn with_datafusion(request: &Request) -> Result<run::Counts, String> {
    run(request, &mut datafusion::Fusion::new())
}

#[cfg(feature = "datafusion")]
fn suite(folder: &str) -> Result<usize, String> {
    let counts = suite::run(std::path::Path::new(folder))?;
    println!("same {}, refused by DataFusion {}, different {}", counts.compared, counts.refused, counts.differences);
    for (why, times) in &counts.known {
        println!("  known {times}: {why}");
    }
    Ok(counts.differences)
}

#[cfg(not(feature = "datafusion"))]
fn with_datafusion(_: &Request) -> Result<run::Counts, String> {
    Err("this build has no DataFusion".to_owned())
}

#[cfg(not(feature = "datafusion"))]
fn suite(_: &str) -> Result<usize, String> {
    Err("this build has no DataFusion".to_owned())
}
