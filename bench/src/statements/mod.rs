//! Runs hundreds of ordinary statements of applications through the library, in turns with SQLite in the same process.
//!
//! The [`list`] uses the tables of a [`shop`], the [`tpcc_list`] those of TPC-C, and the [`community_list`] those of a
//! [`community`]. We [`draw`] new parameter values for each run; both engines must get the same values. Before we
//! [`measure`] a statement, we compare the rows of both engines. For a change we also compare the table that it leaves.
//! Most changes are rolled back; the few that are committed are committed on both sides.
//!
//! SQLite is configured as for TPC-C: a write-ahead log that is synced at checkpoints, and a cache and a mapping that
//! hold the database. Rowmill commits with `durability = relaxed`. Both have the same indexes and statistics.

pub mod community;
pub mod community_list;
pub mod draw;
pub mod list;
pub mod options;
pub mod report;
pub mod shop;
pub mod statement;
pub mod tpcc_list;

mod back_office_list;
mod community_account_list;
mod community_change_list;
mod contender;
mod desk_list;
mod filled_tables;
mod framework_list;
mod measure;
mod ours;
mod service_list;
mod theirs;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rowmill_base::{Error, Result};

use self::community::Community;
use self::community_list::COMMUNITY;
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

/// The time at which TPC-C's orders were made, in microseconds since 1970.
const TPCC_MOMENT: i64 = 1_700_000_000_000_000;

/// The types that have other names in SQLite. Only an `INTEGER` can be the number under which it stores a row, and only
/// values of a `TEXT` are compared without an attempt to read them as numbers.
const SQLITE_TYPES: &[(&str, &str)] = &[("BIGINT", "INTEGER"), ("UUID", "TEXT"), ("JSON", "TEXT")];

/// The statements of a group, with the name of the group.
type Group = (&'static str, &'static [Statement]);

/// The approximate number of rows that we must load.
pub fn rows(options: &Options) -> u64 {
    match options.no_load {
        true => 0,
        false => {
            let tpcc = scale(options).rows(1) + 100 * scale(options).customers;
            2 * (shop(options).rows() + tpcc + community(options).rows()) as u64
        }
    }
}

fn shop(options: &Options) -> Shop {
    Shop { users: options.users, orders: options.orders, seed: options.seed }
}

/// Returns the community: one member for every two users of the shop, and one post for every five orders.
fn community(options: &Options) -> Community {
    Community { members: options.users / 2, posts: options.orders / 5, seed: options.seed }
}

fn scale(options: &Options) -> Scale {
    if options.tiny { Scale::TINY } else { Scale::FULL }
}

/// Loads the tables if asked, and measures the statements. Reports loaded rows to `progress`, and each statement to
/// `done`.
pub fn run(options: &Options, progress: &(dyn Fn(u64) + Sync), done: &dyn Fn(&Line)) -> Result<Report> {
    let folder = Folder::of(options)?;
    let mut report = Report { lines: Vec::new(), differences: Vec::new() };
    for part in [Part::Shop, Part::Tpcc, Part::Community] {
        if part.groups().iter().any(|group| !chosen(options, group).is_empty()) {
            run_part(part, options, &folder.path, &mut report, progress, done)?;
        }
    }
    Ok(report)
}

/// A list of statements, and the tables that they use.
#[derive(Clone, Copy)]
enum Part {
    Shop,
    Tpcc,
    Community,
}

impl Part {
    fn groups(self) -> &'static [Group] {
        match self {
            Part::Shop => SHOP,
            Part::Tpcc => TPCC,
            Part::Community => COMMUNITY,
        }
    }

    fn tables(self) -> &'static [&'static Table] {
        match self {
            Part::Shop => &shop::TABLES,
            Part::Tpcc => &table::TABLES,
            Part::Community => &community::TABLES,
        }
    }

    /// A query for the greatest number that a row has. New rows get greater ones.
    fn greatest(self) -> &'static str {
        match self {
            Part::Shop => "SELECT max(id) FROM events",
            Part::Tpcc => "SELECT max(o_id) FROM orders",
            Part::Community => "SELECT max(id) FROM notices",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Part::Shop => "shop",
            Part::Tpcc => "tpcc",
            Part::Community => "community",
        }
    }
}

/// Returns the statements of a group that the user has selected.
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
        load(part, options, &rowmill, (&[], ""), progress)?;
        load(part, options, &sqlite, (SQLITE_TYPES, " WITHOUT ROWID"), progress)?;
    }
    // Rows of earlier runs keep their numbers, so new rows must start after them.
    let (shop, community, scale) = (shop(options), community(options), scale(options));
    let fresh = sqlite.number(part.greatest())?.max(shop.users).max(shop.orders).max(scale.customers) + 1;
    let mut drawing = Drawing::new(shop, community, scale, fresh, part as u64);
    let (mut ours, mut theirs) = (Ours::new(&rowmill, options.rows)?, Theirs::new(&sqlite)?);
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
    // We compare whole tables only after commits, because all other changes were rolled back.
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
    (types, under_key): (&[(&str, &str)], &str),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    match part {
        Part::Shop => shop(options).load(engine, types, under_key, progress),
        Part::Community => community(options).load(engine, types, under_key, progress),
        Part::Tpcc => {
            let scale = scale(options);
            Loader { scale, warehouses: 1, seed: options.seed, now: TPCC_MOMENT, progress }.load(engine)?;
            engine.execute("ANALYZE")
        }
    }
}

/// Returns the lines with which both engines explain a statement. If an engine cannot explain it, we show its error
/// instead.
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

/// The folder of the databases.
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
            // If the folder cannot be removed, we leave it to the system's cleaning of temporary files.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
