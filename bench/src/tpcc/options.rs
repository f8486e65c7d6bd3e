//! The command line of `tpcc`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rowmill::BaseKind;

/// The options of `rowmill-bench tpcc`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The directory of the database, created if it does not exist.
    #[arg(long)]
    pub dir: PathBuf,
    /// Number of warehouses: about 100 megabytes each.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=100_000))]
    pub warehouses: i64,
    /// Number of concurrent clients, each with a connection and, unless `--rate` is given, without think times.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub clients: u16,
    /// Transactions a second that all clients together begin at regular moments. A transaction that begins late has its
    /// latency counted from the moment when it was due.
    #[arg(long, value_parser = rate)]
    pub rate: Option<f64>,
    /// Number of concurrent analysts, each with a connection, one thread and 22 questions like TPC-H's. Rowmill only.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub analysts: u16,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 60.0, value_parser = seconds)]
    pub seconds: f64,
    /// Seconds of warm-up before that.
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    pub warmup: f64,
    /// Seconds without clients after the run, before the size of the directory is measured once more.
    #[arg(long, default_value_t = 0.0, value_parser = seconds)]
    pub rest: f64,
    /// The moment at which a commit is answered.
    #[arg(long, value_enum, default_value_t = Durability::Full)]
    pub durability: Durability,
    /// The engine to measure.
    #[arg(long, value_enum, default_value_t = EngineName::Rowmill)]
    pub engine: EngineName,
    /// The store in which Rowmill keeps its rows, in addition to the log; by default its own default. Only builds with
    /// the feature `rocksdb` have RocksDB.
    #[arg(long, value_enum)]
    pub base: Option<Base>,
    /// The most further attempts of a transaction for which others committed first.
    #[arg(long, default_value_t = 5)]
    pub max_retry: u32,
    /// Another seed makes other rows and other transactions.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Runs on the database that is already in the directory.
    #[arg(long)]
    pub no_load: bool,
    /// Prints the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The moment at which a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// When it is on disk.
    Full,
    /// When the log has it.
    Relaxed,
}

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Rowmill.
    Rowmill,
    /// SQLite, which is linked in.
    Sqlite,
}

/// The store in which Rowmill keeps its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Base {
    /// A B-tree in a file of its own.
    Tree,
    /// A log-structured merge tree.
    Rocksdb,
}

impl Durability {
    /// The name of the option's value.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Full => "full",
            Durability::Relaxed => "relaxed",
        }
    }
}

impl Base {
    /// The name of the option's value.
    pub fn name(self) -> &'static str {
        match self {
            Base::Tree => "tree",
            Base::Rocksdb => "rocksdb",
        }
    }

    /// The name in Rowmill's library.
    pub fn kind(self) -> BaseKind {
        match self {
            Base::Tree => BaseKind::Tree,
            Base::Rocksdb => BaseKind::RocksDb,
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.0..=1e6)
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, 0.001..=1e6)
}

fn number(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.parse::<f64>().map_err(|error| error.to_string())?;
    match range.contains(&number) {
        true => Ok(number),
        false => Err(format!("not from {} to {}", range.start(), range.end())),
    }
}
