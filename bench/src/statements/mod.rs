//! A hundred ordinary statements of applications, through the library, in turns with SQLite in the same process.
//!
//! The [`list`] runs on the tables of a [`shop`], the [`tpcc_list`] on those of TPC-C. Values of parameters are [`draw`]n anew for each
//! run, the same for both engines. Before a statement is [`measure`]d, the rows that both give are compared; a change is also
//! compared by the table that it leaves. Most changes are rolled back; the few that are committed are made on both sides.
//!
//! SQLite is set up as for TPC-C: a write-ahead log that is synced at checkpoints, a cache and a mapping that hold the database.
//! Rowmill commits with `durability = relaxed`. Both have the same indexes and statistics.

pub mod draw;
pub mod list;
pub mod options;
pub mod report;
pub mod shop;
pub mod statement;
pub mod tpcc_list;

mod contender;
mod measure;
mod ours;
mod theirs;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rowmill_base::{Error, Result};

use self::contender::Contender;
use self::draw::Drawing;
use self::list::SHOP;
use self::measure::{Effort, Pair};
pub use self::options::Options;
use self::ours::Ours;
use self::report::{Line, Report};
use self::shop::Shop;
use self::statement::{Statement, Way};
use self::theirs::Theirs;
use self::tpcc_list::TPCC;
use crate::tpcc::check_path;
use crate::tpcc::client::Engine;
use crate::tpcc::loader::Loader;
use crate::tpcc::rowmill_client::Rowmill;
use crate::tpcc::scale::Scale;
use crate::tpcc::sqlite_client::Sqlite;
use crate::tpcc::table::{self, Table};

/// When TPC-C's orders were made: microseconds since 1970.
const TPCC_MOMENT: i64 = 1_700_000_000_000_000;

/// Statements with their group's name.
type Group = (&'static str, &'static [Statement]);

/// About how many rows are to be loaded.
pub fn rows(options: &Options) -> u64 {
    match options.no_load {
        true => 0,
        false => 2 * (shop(options).rows() + scale(options).rows(1) + 100 * scale(options).customers) as u64,
    }
}

fn shop(options: &Options) -> Shop {
    Shop { users: options.users, orders: options.orders, seed: options.seed }
}

fn scale(options: &Options) -> Scale {
    if options.tiny { Scale::TINY } else { Scale::FULL }
}

/// Loads if asked, and measures. `progress` is told of loaded rows, `done` of each statement.
pub fn run(options: &Options, progress: &(dyn Fn(u64) + Sync), done: &dyn Fn(&Line)) -> Result<Report> {
    let folder = Folder::of(options)?;
    let mut report = Report { lines: Vec::new(), differences: Vec::new() };
    for part in [Part::Shop, Part::Tpcc] {
        if part.groups().iter().any(|group| !chosen(options, group).is_empty()) {
            run_part(part, options, &folder.path, &mut report, progress, done)?;
        }
    }
    Ok(report)
}

/// A list of statements with the tables that it is about.
#[derive(Clone, Copy)]
enum Part {
    Shop,
    Tpcc,
}

impl Part {
    fn groups(self) -> &'static [Group] {
        match self {
            Part::Shop => SHOP,
            Part::Tpcc => TPCC,
        }
    }

    fn tables(self) -> &'static [&'static Table] {
        match self {
            Part::Shop => &shop::TABLES,
            Part::Tpcc => &table::TABLES,
        }
    }

    /// The greatest number that rows of its tables have.
    fn greatest(self) -> &'static str {
        match self {
            Part::Shop => "SELECT max(id) FROM events",
            Part::Tpcc => "SELECT max(o_id) FROM orders",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Part::Shop => "shop",
            Part::Tpcc => "tpcc",
        }
    }
}

/// The statements of a group that were asked for.
fn chosen(options: &Options, (group, statements): &Group) -> Vec<&'static Statement> {
    let is_chosen = |statement: &&Statement| match &options.only {
        Some(part) => group.contains(part.as_str()) || statement.has(part),
        None => true,
    };
    statements.iter().filter(is_chosen).collect()
}

fn run_part(
    part: Part,
    options: &Options,
    folder: &Path,
    report: &mut Report,
    progress: &(dyn Fn(u64) + Sync),
    done: &dyn Fn(&Line),
) -> Result<()> {
    let paths = [part.name().to_owned(), format!("{}.sqlite", part.name())].map(|name| folder.join(name));
    paths.iter().try_for_each(|path| check_path(path, options.no_load))?;
    let (rowmill, sqlite) = (Rowmill::open(&paths[0], false, None)?, Sqlite::open(&paths[1], false));
    if !options.no_load {
        load(part, options, &rowmill, ("BIGINT", ""), progress)?;
        load(part, options, &sqlite, ("INTEGER", " WITHOUT ROWID"), progress)?;
    }
    // Numbers of earlier runs stay taken.
    let (shop, scale) = (shop(options), scale(options));
    let fresh = sqlite.number(part.greatest())?.max(shop.users).max(shop.orders).max(scale.customers) + 1;
    let mut drawing = Drawing::new(shop, scale, fresh, part as u64);
    let (mut ours, mut theirs) = (Ours::new(&rowmill)?, Theirs::new(&sqlite)?);
    let mut pair = Pair { ours: &mut ours, theirs: &mut theirs, tables: part.tables() };
    let effort = Effort { runs_max: options.runs, budget: Duration::from_millis(options.budget_ms) };
    let mut has_committed = false;
    for group in part.groups() {
        for statement in chosen(options, group) {
            let times = pair.measure(statement, &mut drawing, effort);
            has_committed |= statement.way == Way::Committed;
            let mut line = Line {
                group: group.0,
                name: statement.name,
                way: statement.way,
                text: statement.rowmill_text(),
                times,
                explained: Vec::new(),
            };
            if options.explain && line.is_slow() {
                line.explained = explained(&mut pair, statement, &mut drawing);
            }
            done(&line);
            report.lines.push(line);
        }
    }
    if has_committed {
        for table in part.tables() {
            report.differences.extend(pair.compare_table(table).err().map(|error| error.to_string()));
        }
    }
    Ok(())
}

fn load<E: Engine>(
    part: Part,
    options: &Options,
    engine: &E,
    (integer, under_key): (&str, &str),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    match part {
        Part::Shop => shop(options).load(engine, integer, under_key, progress),
        Part::Tpcc => {
            let scale = scale(options);
            Loader { scale, warehouses: 1, seed: options.seed, now: TPCC_MOMENT, progress }.load(engine)?;
            engine.execute("ANALYZE")
        }
    }
}

/// How both engines run a statement; an error in the place of lines where one does not tell.
fn explained(pair: &mut Pair<'_>, statement: &Statement, drawing: &mut Drawing) -> Vec<String> {
    let values = drawing.draw(statement.draws);
    let lines = |name: &str, contender: &mut dyn Contender| {
        let told = contender.explain(statement, &values).unwrap_or_else(|error| vec![error.to_string()]);
        told.into_iter().map(|line| format!("{name}: {line}")).collect::<Vec<_>>()
    };
    let mut explained = lines("rowmill", pair.ours);
    explained.extend(lines("sqlite", pair.theirs));
    explained
}

/// Where the databases are.
struct Folder {
    path: PathBuf,
    is_temporary: bool,
}

impl Folder {
    fn of(options: &Options) -> Result<Folder> {
        let temporary = || std::env::temp_dir().join(format!("rowmill-statements-{}", std::process::id()));
        let path = options.dir.clone().unwrap_or_else(temporary);
        fs::create_dir_all(&path).map_err(|error| Error::io(path.display(), &error))?;
        Ok(Folder { path, is_temporary: options.dir.is_none() })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary {
            // What cannot be removed is left for the system to remove.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
