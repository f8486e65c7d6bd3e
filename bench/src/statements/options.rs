//! The command line of `statements`.

use std::path::PathBuf;

use clap::Args;

/// What `rowmill-bench statements` is asked for.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The directory of the databases. Without it they are made in a temporary one, which is removed.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Runs on what is in the directory.
    #[arg(long, requires = "dir")]
    pub no_load: bool,
    /// Users of the shop.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(i64).range(10..))]
    pub users: i64,
    /// Orders of the shop; there are two lines for each, and half as many events.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(i64).range(20..))]
    pub orders: i64,
    /// Runs of a turn at most.
    #[arg(long, default_value_t = 5_000)]
    pub runs: usize,
    /// Milliseconds that a statement may take, over all turns of both engines.
    #[arg(long, default_value_t = 300)]
    pub budget_ms: u64,
    /// Only statements with this in their group, name or text.
    #[arg(long)]
    pub only: Option<String>,
    /// Shows how both engines run each statement that is slower than 1.5 times SQLite.
    #[arg(long)]
    pub explain: bool,
    /// Another seed makes other rows and other values.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The file for the report as JSON, beside the text that is printed.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// TPC-C's tables as small as tests want them.
    #[arg(skip)]
    pub tiny: bool,
}
