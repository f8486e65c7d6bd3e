//! TPC-C, after revision 5.11 of its specification: the load of an order-entry system. It runs on Rowmill and, for
//! comparison, on SQLite.
//!
//! A [`terminal`] draws transactions from its [`deck`] and runs them through the trait [`client`]. Each engine
//! implements that trait in a file of its own; all engines share the statements. The [`loader`] makes the
//! initial rows, and [`consistency`] checks the rows that transactions leave. At the same time an [`analyst`] can ask
//! [`questions`] about all tables. It checks that all answers of a transaction come from [`one_snapshot`].
//!
//! We depart from the specification in these points. Clients do not think or type, so that few of them are enough. Each
//! client works for warehouses of its own, as far as there are enough. Delivery does not wait in a queue. Only
//! committed orders count. The figures compare engines on one machine and are not results of the TPC.

pub mod analyst;
pub mod batch_builder;
pub mod client;
pub mod consistency;
pub mod deck;
pub mod delivery;
pub mod driver;
pub mod histogram;
pub mod loader;
pub mod new_order;
pub mod one_snapshot;
pub mod options;
pub mod order_status;
pub mod payment;
pub mod questions;
pub mod random;
pub mod report;
pub mod rowmill_client;
pub mod scale;
pub mod sizes;
pub mod sqlite_client;
pub mod statement;
pub mod stock_level;
pub mod suppliers;
pub mod table;
pub mod terminal;
pub mod world;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rowmill_base::{Error, ErrorKind, Result};

use self::client::Engine;
use self::driver::Run;
use self::loader::Loader;
pub use self::options::Options;
use self::options::{Base, Durability, EngineName};
use self::random::{Constants, Random};
use self::report::Report;
use self::rowmill_client::Rowmill;
use self::scale::Scale;
use self::sizes::{Sizes, database_bytes, row_bytes};
use self::sqlite_client::Sqlite;
use self::world::{World, now};
use crate::bare_log::BareLog;

/// The bytes of a record in the bare log loop.
const BARE_RECORD: usize = 512;
/// The time for which the loop runs before the clients, and again after them, because the speed of a disk changes from
/// minute to minute.
const BARE_TIME: Duration = Duration::from_secs(2);

/// The approximate number of rows that we must load.
pub fn rows(options: &Options) -> u64 {
    match options.no_load {
        true => 0,
        // An order has ten lines on average.
        false => (Scale::FULL.rows(options.warehouses) + options.warehouses * 300_000) as u64,
    }
}

/// Loads the tables if asked, runs the clients and checks the result. Reports loaded rows to `progress`.
pub fn run<'a>(options: &'a Options, progress: &(dyn Fn(u64) + Sync)) -> Result<Report<'a>> {
    fs::create_dir_all(&options.dir).map_err(|error| Error::io(options.dir.display(), &error))?;
    let is_synced = options.durability == Durability::Full;
    let path = options.dir.join(match options.engine {
        EngineName::Rowmill => "rowmill",
        EngineName::Sqlite => "tpcc.sqlite",
    });
    check_path(&path, options.no_load)?;
    match (options.engine, options.base) {
        (EngineName::Rowmill, base) => {
            measure(&Rowmill::open(&path, is_synced, base.map(Base::kind))?, options, &path, progress)
        }
        (EngineName::Sqlite, None) => measure(&Sqlite::open(&path, is_synced), options, &path, progress),
        (EngineName::Sqlite, Some(_)) => {
            Err(Error::new(ErrorKind::InvalidParameter, "--base chooses Rowmill's store; SQLite has none"))
        }
    }
}

/// Returns an error if a database that we must make exists already, or if one that we must use does not exist.
pub(crate) fn check_path(path: &Path, is_loaded: bool) -> Result<()> {
    let (said, help) = match (path.exists(), is_loaded) {
        (true, false) => ("exists already", "give --no-load to run on it, or another directory"),
        (false, true) => ("does not exist", "leave --no-load out to load it"),
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::InvalidParameter, format!("{} {said}", path.display())).hint(help))
}

fn measure<'a, E: Engine>(
    engine: &E,
    options: &'a Options,
    path: &Path,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report<'a>> {
    // We test this first, because an engine without analysts should be refused before the load.
    if options.analysts > 0 {
        engine.reader()?;
    }
    let load_s = match options.no_load {
        true => check_warehouses(engine, options.warehouses).map(|()| None)?,
        false => Some(load(engine, options, progress)?),
    };
    if options.analysts > 0 {
        suppliers::load(engine)?;
    }
    let (before, rows_before) = (database_bytes(path)?, row_bytes(engine)?);
    let log = BareLog::create(&options.dir)?;
    // The syncs are measured right before and right after the run, because a disk's speed changes.
    let first_sync = log.sync_time(BARE_RECORD, BARE_TIME)?;
    let constants = Constants::of_run(&mut Random::new(options.seed, 0));
    let measured = driver::run(
        engine,
        &Run {
            world: World { scale: Scale::FULL, warehouses: options.warehouses, constants },
            clients: usize::from(options.clients),
            rate: options.rate,
            analysts: usize::from(options.analysts),
            warmup: Duration::from_secs_f64(options.warmup),
            time: Duration::from_secs_f64(options.seconds),
            max_retry: options.max_retry,
            seed: options.seed,
        },
    )?;
    let after = database_bytes(path)?;
    let syncs = [first_sync, log.sync_time(BARE_RECORD, BARE_TIME)?];
    std::thread::sleep(Duration::from_secs_f64(options.rest));
    let rested = database_bytes(path)?;
    // Only now may a checkpoint move everything to its place: before it we measured the size at the end of the run.
    engine.settle()?;
    let settled = database_bytes(path)?;
    let sizes = Sizes { before, after, rested, settled, rows_before, rows_after: row_bytes(engine)? };
    let broken = consistency::check(engine, &Scale::FULL)?;
    Ok(Report { options, engine: engine.name(), load_s, syncs, sizes, measured, broken })
}

fn load<E: Engine>(engine: &E, options: &Options, progress: &(dyn Fn(u64) + Sync)) -> Result<f64> {
    let begun = Instant::now();
    let (warehouses, seed) = (options.warehouses, options.seed);
    Loader { scale: Scale::FULL, warehouses, seed, now: now(), progress }.load(engine)?;
    Ok(begun.elapsed().as_secs_f64())
}

fn check_warehouses<E: Engine>(engine: &E, wanted: i64) -> Result<()> {
    match engine.number("SELECT COUNT(*) FROM warehouse")? {
        found if found == wanted => Ok(()),
        found => Err(Error::new(ErrorKind::InvalidParameter, format!("the database has {found} warehouses"))
            .hint(format!("give --warehouses {found}"))),
    }
}
