//! `rowmill-bench`: makes data, measures, compares. `rowmill-bench help` lists the commands.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use indicatif::{ProgressBar, ProgressStyle};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_bench::arguments::{Arguments, usage};
use rowmill_bench::hits::World;
use rowmill_bench::{parquet_file, tpch};

const HELP: &str = "\
rowmill-bench makes data, measures, and compares.

  rowmill-bench hits --rows N [--seed S] --out FILE.parquet
      A web-analytics table with 105 columns, the same for the same N and S. N may end in k, m or g.
  rowmill-bench tpch [--scale S] --out DIR
      The eight tables of TPC-H, one Parquet file each.
  rowmill-bench peers run --engine duckdb|hyper|chdb|datafusion --data FILE.parquet|DIR [--create FILE.sql]
      [--queries FILE] [--runs 3] [--threads 2] [--out times.json]
      The same queries on another engine; needs Python and `pip install -r bench/peers/requirements.txt`.
  rowmill-bench compare OURS.json PEER.json ...
      Times of several runs side by side.

Every command that makes data takes --threads N; without it, it uses all cores.";

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

#[allow(
    clippy::print_stderr,
    reason = "this is where the program speaks to its user"
)]
fn report(error: &Error) {
    eprintln!("ERROR: {error}");
}

#[allow(
    clippy::print_stdout,
    reason = "this is where the program speaks to its user"
)]
fn help() {
    println!("{HELP}");
}

fn run(mut given: impl Iterator<Item = String>) -> Result<()> {
    match given.next().as_deref() {
        Some("hits") => hits(&Arguments::parse(
            "hits",
            &[],
            &["rows", "seed", "out", "threads"],
            given,
        )?),
        Some("tpch") => tpch(&Arguments::parse(
            "tpch",
            &[],
            &["scale", "out", "threads"],
            given,
        )?),
        Some("peers") => python(given.collect()),
        Some("compare") => python(std::iter::once("compare".to_owned()).chain(given).collect()),
        None | Some("help" | "--help" | "-h") => {
            help();
            Ok(())
        }
        Some(other) => Err(usage(other, "there is no such command")),
    }
}

fn hits(arguments: &Arguments) -> Result<()> {
    let rows = arguments.count("rows", None)?;
    let world = World::new(rows, arguments.count("seed", Some(1))?);
    let bar = progress_bar(rows);
    parquet_file::write(
        &world,
        arguments.required("out")?.as_ref(),
        arguments.threads()?,
        &|rows| bar.inc(rows),
    )?;
    bar.finish();
    Ok(())
}

fn tpch(arguments: &Arguments) -> Result<()> {
    let scale = arguments.optional("scale").unwrap_or("1");
    let scale = scale
        .parse::<f64>()
        .ok()
        .filter(|scale| (0.0001..=1_000.0).contains(scale))
        .ok_or_else(|| {
            usage(
                "tpch",
                format!("--scale {scale}: not a number from 0.0001 to 1000"),
            )
        })?;
    let bar = progress_bar(tpch::rows(scale));
    tpch::write(
        scale,
        arguments.required("out")?.as_ref(),
        arguments.threads()?,
        &|rows| bar.inc(rows),
    )?;
    bar.finish();
    Ok(())
}

/// A bar on standard error if that is a terminal, nothing otherwise.
fn progress_bar(rows: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{wide_bar} {human_pos} of {human_len} rows, {elapsed}, {eta} to go",
    )
    .expect("the template is a constant that parses");
    ProgressBar::new(rows).with_style(style)
}

/// Becomes the Python program in `bench/peers`.
fn python(arguments: Vec<String>) -> Result<()> {
    let script = script()?;
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let error = Command::new(&python).arg(script).args(arguments).exec();
    Err(Error::new(
        ErrorKind::UndefinedFile,
        format!("{python} cannot be started: {error}"),
    )
    .hint("Install Python 3.10 or newer, or set PYTHON to its path."))
}

/// The script lies in the source tree: where this program was built, or under the current folder.
fn script() -> Result<PathBuf> {
    let places = [
        Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/peers.py"),
        PathBuf::from("bench/peers/peers.py"),
    ];
    places
        .iter()
        .find(|path| path.exists())
        .cloned()
        .ok_or_else(|| {
            Error::new(
                ErrorKind::UndefinedFile,
                format!("{} is not there", places[1].display()),
            )
            .hint("Run rowmill-bench from the root of the source tree.")
        })
}
