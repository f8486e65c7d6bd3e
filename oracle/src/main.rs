//! Asks Rowmill and independent engines the same random questions, and reports differences between their answers.

mod aggregate;
mod cell;
mod change;
#[cfg(feature = "datafusion")]
mod datafusion;
mod differences;
mod duck;
mod engine;
mod exists;
mod expression;
mod from;
mod generator;
mod kind;
mod mill;
mod prepared;
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
use crate::engine::Oracle;
use crate::run::{Request, run};

const USAGE: &str =
    "usage: oracle run [--queries N] [--seed N] [--findings N] [--oracle duckdb|datafusion] [--python PATH]
                  [--way NUMBER]
       oracle ask [--python PATH] < STATEMENTS
       oracle tables [--seed N]
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

/// Runs the command of the arguments, and returns the number of findings.
fn command() -> Result<usize, String> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    if !["run", "ask", "tables", "suite"].contains(&command.as_str()) {
        return Err(USAGE.to_owned());
    }
    let mut folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/slt").to_owned();
    let mut oracle = "duckdb".to_owned();
    let mut request = Request { queries: 2_000, seed: 1, findings_max: 10 };
    let mut python = "python3".to_owned();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value\n{USAGE}"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} needs a number, found {value}"));
        match name.as_str() {
            "--queries" => request.queries = number()?,
            "--seed" => request.seed = number()?,
            "--findings" => request.findings_max = number()? as usize,
            "--python" => python = value,
            "--way" => rowmill_exec::forced::force(run::forced(number()?)),
            "--oracle" => oracle = value,
            "--folder" => folder = value,
            _ => return Err(format!("unknown option {name}\n{USAGE}")),
        }
    }
    // A panic of Rowmill is a finding. We print it with its statement, so the hook prints nothing.
    std::panic::set_hook(Box::new(|_| {}));
    if command == "suite" {
        return suite(&folder);
    }
    if command == "tables" {
        world::World::new(request.seed).print();
        return Ok(0);
    }
    if command == "ask" {
        return ask(&mut Duck::start(&python)?);
    }
    let counts = match oracle.as_str() {
        "duckdb" => run(&request, &mut Duck::start(&python)?)?,
        "datafusion" => with_datafusion(&request)?,
        _ => return Err(USAGE.to_owned()),
    };
    counts.print();
    Ok(counts.findings)
}

/// Runs the statements of standard input, one per line, and prints both answers to each query.
fn ask(oracle: &mut dyn Oracle) -> Result<usize, String> {
    let mut mill = mill::Mill::new();
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let sql = line.trim().trim_end_matches(';');
        if sql.is_empty() || sql.starts_with("--") {
            continue;
        }
        let (ours, theirs) = (mill.run(sql), oracle.run(sql));
        let is_query = ["select", "with", "explain"].iter().any(|word| sql.to_lowercase().starts_with(word));
        if is_query || matches!(ours, cell::Answer::Failed { .. }) {
            println!("{sql}");
            run::show(oracle.name(), &ours, &theirs);
        }
    }
    Ok(0)
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
    Err("this build has no DataFusion: build with the feature datafusion".to_owned())
}

#[cfg(not(feature = "datafusion"))]
fn suite(_: &str) -> Result<usize, String> {
    Err("this build has no DataFusion: build with the feature datafusion".to_owned())
}
