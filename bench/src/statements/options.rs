//! The command line of `statements`.

use std::path::PathBuf;

use clap::Args;

/// The options of `rowmill-bench statements`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The directory of the databases; without it, they are created in a temporary directory that is removed in the
    /// end.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Runs on the databases that are already in the directory.
    #[arg(long, requires = "dir")]
    pub no_load: bool,
    /// Number of users of the shop.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(i64).range(10..))]
    pub users: i64,
    /// Number of orders of the shop; each has two lines, and there are half as many events.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(i64).range(20..))]
    pub orders: i64,
    /// The most runs in a turn.
    #[arg(long, default_value_t = 5_000)]
    pub runs: usize,
    /// The most milliseconds that a statement may take, over all turns of both engines.
    #[arg(long, default_value_t = 300)]
    pub budget_ms: u64,
    /// Runs only the statements with this text in their group, name or SQL.
    #[arg(long)]
    pub only: Option<String>,
    /// Reads the results of Rowmill row by row with `Statement::query`, as most programs do, instead of in place with
    /// `Statement::ask`.
    #[arg(long)]
    pub rows: bool,
    /// Shows how both engines run each statement that is slower than 1.5 times SQLite.
    #[arg(long)]
    pub explain: bool,
    /// Another seed makes other rows and other values.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The file for the report as JSON; the text is printed too.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Whether TPC-C's tables are as small as tests need them.
    #[arg(skip)]
    pub tiny: bool,
}
