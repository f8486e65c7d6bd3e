//! `rowmill-bench`: makes data, measures engines on it, and compares them.

#![allow(clippy::print_stdout, clippy::print_stderr)] // It talks to its terminal.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use rowmill::ProgressFn;
use rowmill_allocator::CountingAllocator;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_bench::hits::World;
use rowmill_bench::{
    appends, commits, estimates, inserts, load, parquet_file, planning, queries, run, statements, tpcc, tpch, wire,
};
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Makes data, measures Rowmill and other engines on it, and compares.
#[derive(Parser)]
#[command(name = "rowmill-bench", version)]
enum Bench {
    /// Writes a web-analytics table with 105 columns; the same number of rows and seed give the same table.
    Hits(HitsArgs),
    /// Writes the eight tables of TPC-H, one Parquet file each.
    Tpch(TpchArgs),
    /// Loads Parquet into a Rowmill database.
    Load(LoadArgs),
    /// Runs the statements of a file on a Rowmill database.
    Run(RunArgs),
    /// Runs the statements of a file on a server of PostgreSQL's wire protocol.
    Wire(WireArgs),
    /// Inserts rows by key: many in one transaction, and some in a commit each, compared with SQLite.
    Inserts(InsertsArgs),
    /// Appends rows one by one to a columnar table: by an appender, and by prepared INSERTs.
    Appends(AppendsArgs),
    /// Commits rows one by one, at each durability, compared with a bare loop of appends and syncs.
    Commits(CommitsArgs),
    /// Runs TPC-C on Rowmill or SQLite: loads warehouses, lets clients work, checks the resulting tables.
    Tpcc(tpcc::Options),
    /// Runs ordinary statements of applications, prepared, in turns with SQLite, and compares rows and times.
    Statements(statements::Options),
    /// Compares the actual rows of joins and groupings with the planner's estimates.
    Estimates(QueriesArgs),
    /// Measures the time to plan queries.
    Planning(QueriesArgs),
    #[command(flatten)]
    Python(Python),
}

/// The commands of the Python program in `bench/peers`.
#[derive(Subcommand)]
enum Python {
    /// Loads data into another engine and runs queries there: `peers run --help`.
    #[command(disable_help_flag = true)]
    Peers(Passed),
    /// Prints the times of several runs side by side: `compare OURS.json PEER.json ...`
    #[command(disable_help_flag = true)]
    Compare(Passed),
}

/// Arguments that we pass on unchanged.
#[derive(Args)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Args)]
struct HitsArgs {
    /// Rows of the table. For example: 10000000, 10_000_000 or 10m.
    #[arg(long, value_parser = count)]
    rows: u64,
    /// Another seed makes another table.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The Parquet file to write.
    #[arg(long)]
    out: PathBuf,
    /// Threads to work with; by default one per core.
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(Args)]
struct TpchArgs {
    /// The scale factor, from 0.0001 to 1000.
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// The folder to write to.
    #[arg(long)]
    out: PathBuf,
    /// Threads to work with; by default one per core.
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(Args)]
struct LoadArgs {
    /// The directory of the database, created if it does not exist.
    directory: PathBuf,
    /// A Parquet file, or a folder in which every file NAME.parquet becomes the table NAME.
    data: PathBuf,
    /// The name of the table if the data are one file.
    #[arg(long, default_value = "hits")]
    table: String,
    /// A file with the CREATE TABLE statement; without it, the table has the columns of the file.
    #[arg(long)]
    create: Option<PathBuf>,
    /// Threads to work with.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The file for the report; by default it is printed.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct RunArgs {
    /// The directory of the database.
    directory: PathBuf,
    /// A file with the statements, one per line.
    #[arg(long)]
    queries: PathBuf,
    /// The number of times that each statement runs.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Threads to work with.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The report of `load`, which is copied into this one.
    #[arg(long)]
    load: Option<PathBuf>,
    /// The file for the report; by default it is printed.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct WireArgs {
    /// The address and port of the server, which must ask for no password.
    #[arg(long, default_value = "127.0.0.1:5432")]
    address: String,
    /// The user, whose name is also that of the database.
    #[arg(long, default_value = "postgres")]
    user: String,
    /// A file with the statements, one per line.
    #[arg(long)]
    queries: PathBuf,
    /// The number of times that each statement runs.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// The file for the report; by default it is printed.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct InsertsArgs {
    /// The folder in which the databases are created.
    directory: PathBuf,
    /// Rows of the single transaction.
    #[arg(long, default_value_t = 1_000_000)]
    rows: i64,
    /// Rows that are committed one by one.
    #[arg(long, default_value_t = 10_000)]
    commits: i64,
    /// Turns of each measurement.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// The file for the report; by default it is printed.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct AppendsArgs {
    /// The directory of the database, made again for each turn.
    directory: PathBuf,
    /// Rows of each turn.
    #[arg(long, default_value_t = 3_000_000)]
    rows: i64,
    /// Turns of each measurement.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// The file for the report; by default it is printed.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct CommitsArgs {
    /// The directory of the database, created if it does not exist.
    directory: PathBuf,
    /// Seconds of each turn.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Turns of each measurement; the best one counts.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// The file for the report; by default it is printed.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct QueriesArgs {
    /// The directory of the database.
    #[arg(long)]
    db: PathBuf,
    /// A file with the queries, one per line, or a folder that contains such a file `queries.sql`.
    #[arg(long)]
    queries: PathBuf,
    /// The file for the report as JSON; the text is printed too.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    CountingAllocator::announce();
    let done = match Bench::parse() {
        Bench::Hits(args) => hits(&args),
        Bench::Tpch(args) => tpch(&args),
        Bench::Load(args) => load(&args),
        Bench::Run(args) => run(&args),
        Bench::Wire(args) => wire(&args),
        Bench::Inserts(args) => inserts(&args),
        Bench::Appends(args) => appends(&args),
        Bench::Commits(args) => commits(&args),
        Bench::Tpcc(options) => tpcc(&options),
        Bench::Statements(options) => statements(&options),
        Bench::Estimates(args) => estimates(&args),
        Bench::Planning(args) => planning(&args),
        Bench::Python(Python::Peers(passed)) => python(None, &passed),
        Bench::Python(Python::Compare(passed)) => python(Some("compare"), &passed),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ERROR {}: {error}", error.sqlstate());
            ExitCode::FAILURE
        }
    }
}

fn hits(args: &HitsArgs) -> Result<()> {
    let bar = bar(args.rows, "rows");
    let world = World::new(args.rows, args.seed);
    parquet_file::write(&world, &args.out, threads(args.threads), &|rows| bar.inc(rows))?;
    bar.finish();
    Ok(())
}

fn tpch(args: &TpchArgs) -> Result<()> {
    let bar = bar(tpch::rows(args.scale), "rows");
    tpch::write(args.scale, &args.out, threads(args.threads), &|rows| bar.inc(rows))?;
    bar.finish();
    Ok(())
}

fn load(args: &LoadArgs) -> Result<()> {
    let create = args.create.as_deref().map(read).transpose()?;
    let bar = bar(0, "rows");
    let shown = bar.clone();
    let progress: ProgressFn = Arc::new(move |progress| {
        shown.set_length(progress.rows_total.unwrap_or(progress.rows_done));
        shown.set_position(progress.rows_done);
    });
    let load = load::Load {
        directory: &args.directory,
        data: &args.data,
        table: &args.table,
        create: create.as_deref(),
        threads: args.threads,
    };
    let report = load::load(&load, Some(progress))?;
    bar.finish_and_clear();
    write(args.out.as_deref(), &report)
}

fn run(args: &RunArgs) -> Result<()> {
    let statements = read(&args.queries)?;
    let bar = bar(run::statements(&statements).count() as u64, "statements");
    let load = args.load.as_deref().map(read_report).transpose()?;
    let run = run::Run {
        directory: &args.directory,
        statements: &statements,
        runs: args.runs,
        threads: args.threads,
        load: load.and_then(|report| report.as_object().cloned()),
    };
    let report = run::run(&run, || bar.inc(1))?;
    bar.finish_and_clear();
    write(args.out.as_deref(), &report)
}

fn wire(args: &WireArgs) -> Result<()> {
    let WireArgs { address, user, queries, runs, out } = args;
    let statements = read(queries)?;
    write(out.as_deref(), &wire::run(&wire::WireRun { address, user, statements: &statements, runs: *runs })?)
}

fn appends(args: &AppendsArgs) -> Result<()> {
    let AppendsArgs { directory, rows, turns, out } = args;
    write(out.as_deref(), &Value::Object(appends::run(directory, *rows, *turns)?))
}

fn inserts(args: &InsertsArgs) -> Result<()> {
    let InsertsArgs { directory, rows, commits, turns, out } = args;
    let inserts = inserts::Inserts { directory, rows: *rows, commits: *commits, turns: *turns };
    write(out.as_deref(), &Value::Object(inserts::run(&inserts)?))
}

fn commits(args: &CommitsArgs) -> Result<()> {
    let commits = commits::Commits { directory: &args.directory, seconds: args.seconds, turns: args.turns };
    write(args.out.as_deref(), &Value::Object(commits::run(&commits)?))
}

fn tpcc(options: &tpcc::Options) -> Result<()> {
    let bar = bar(tpcc::rows(options), "rows");
    let report = tpcc::run(options, &|rows| bar.inc(rows))?;
    bar.finish_and_clear();
    match options.json {
        true => println!("{:#}", report.json()),
        false => print!("{}", report.text()?),
    }
    report.verdict()
}

fn statements(options: &statements::Options) -> Result<()> {
    let bar = bar(statements::rows(options), "rows");
    let report = statements::run(options, &|rows| bar.inc(rows), &|line| {
        bar.finish_and_clear();
        eprintln!("{}", line.name);
    })?;
    print_and_write(options.out.as_deref(), &report.text()?, &report.json())?;
    report.verdict()
}

fn estimates(args: &QueriesArgs) -> Result<()> {
    let queries = queries::read(&args.queries)?;
    let bar = bar(queries.len() as u64, "queries");
    let report = estimates::run(&args.db, &queries, || bar.inc(1))?;
    bar.finish_and_clear();
    print_and_write(args.out.as_deref(), &report.text()?, &report.json())
}

fn planning(args: &QueriesArgs) -> Result<()> {
    let queries = queries::read(&args.queries)?;
    let bar = bar(queries.len() as u64, "queries");
    let report = planning::run(&args.db, &queries, || bar.inc(1))?;
    bar.finish_and_clear();
    print_and_write(args.out.as_deref(), &report.text()?, &report.json())?;
    report.verdict()
}

/// Prints the text, and writes the JSON if a file is given.
fn print_and_write(path: Option<&Path>, text: &str, json: &Value) -> Result<()> {
    print!("{text}");
    path.map_or(Ok(()), |path| write(Some(path), json))
}

/// Replaces this process by the Python program in `bench/peers`.
fn python(command: Option<&str>, passed: &Passed) -> Result<()> {
    let script = script()?;
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let error = Command::new(&python).arg(script).args(command).args(&passed.arguments).exec();
    Err(Error::new(ErrorKind::UndefinedFile, format!("{python} cannot be started: {error}"))
        .hint("Install Python 3.10 or newer, or set PYTHON to its path."))
}

/// Returns the path of the Python program. It is in the source tree in which we were built, or below the current
/// folder.
fn script() -> Result<PathBuf> {
    let places = [Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/peers.py"), PathBuf::from("bench/peers/peers.py")];
    places.iter().find(|path| path.exists()).cloned().ok_or_else(|| {
        Error::new(ErrorKind::UndefinedFile, format!("{} does not exist", places[1].display()))
            .hint("Run rowmill-bench from the root of the source tree.")
    })
}

/// Makes a progress bar on standard error. It shows nothing if that is not a terminal.
fn bar(length: u64, of: &str) -> ProgressBar {
    let template = format!("{{wide_bar}} {{human_pos}} of {{human_len}} {of}, {{elapsed}}, {{eta}} to go");
    let style = ProgressStyle::with_template(&template).expect("the template is well formed");
    ProgressBar::new(length).with_style(style)
}

fn threads(given: Option<usize>) -> usize {
    given.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path)
        .map_err(|error| Error::new(ErrorKind::UndefinedFile, format!("{}: {error}", path.display())))
}

fn read_report(path: &Path) -> Result<Value> {
    serde_json::from_str(&read(path)?)
        .map_err(|error| Error::new(ErrorKind::BadFileFormat, format!("{}: {error}", path.display())))
}

fn write(path: Option<&Path>, report: &Value) -> Result<()> {
    match path {
        Some(path) => fs::write(path, format!("{report:#}\n")).map_err(|error| Error::io(path.display(), &error)),
        None => {
            println!("{report:#}");
            Ok(())
        }
    }
}

/// Parses a number with an optional unit: `k`, `m` or `g` for thousands, millions and thousands of millions.
fn count(text: &str) -> Result<u64, String> {
    let text = text.replace('_', "").to_ascii_lowercase();
    let (digits, factor) = match text.strip_suffix(['k', 'm', 'g']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000),
        Some(digits) if text.ends_with('m') => (digits, 1_000_000),
        Some(digits) => (digits, 1_000_000_000),
        None => (text.as_str(), 1),
    };
    let number = digits.parse::<u64>().map_err(|error| error.to_string())?;
    number.checked_mul(factor).ok_or_else(|| "too many".to_owned())
}

fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.0001..=1_000.0).contains(&scale) { Ok(scale) } else { Err("not from 0.0001 to 1000".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Bench::command().debug_assert();
    }

    #[test]
    fn counts_take_units() {
        assert_eq!(count("10m"), Ok(10_000_000));
        assert_eq!(count("5_000"), Ok(5_000));
        assert!(count("ten").is_err());
        assert!(count("99999999999g").is_err());
    }
}
