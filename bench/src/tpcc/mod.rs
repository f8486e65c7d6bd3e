//! TPC-C, after revision 5.11 of its specification: the load of an order-entry system, for Rowmill and, as a yardstick,
//! SQLite.
//!
//! A [`terminal`] draws transactions from its [`deck`] and runs them through the trait [`client`], which each engine
//! implements in a file; the statements are the same for all. The [`loader`] makes what they find, [`consistency`] checks
//! what they leave. Beside them an [`analyst`] may ask [`questions`] of all that is there, and looks whether the answers are of
//! [`one_snapshot`].
//!
//! What is not as the specification asks: clients do not think or type, so that few of them are enough; each works for
//! warehouses of its own, as far as there are enough; Delivery does not wait in a queue; only committed orders count. The
//! figures are for comparing engines on one machine and are no results of the TPC.

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

/// Bytes of a record of the bare log loop.
const BARE_RECORD: usize = 512;
/// How long the loop runs, before and after the clients: disks are not the same from one minute to the next.
const BARE_TIME: Duration = Duration::from_secs(2);

/// About how many rows are to be loaded.
pub fn rows(options: &Options) -> u64 {
    match options.no_load {
        true => 0,
        // Ten lines an order.
        false => (Scale::FULL.rows(options.warehouses) + options.warehouses * 300_000) as u64,
    }
}

/// Loads if asked, runs and checks. `progress` is told of loaded rows.
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
            Err(Error::new(ErrorKind::InvalidParameter, "--base is a choice of Rowmill's, SQLite has none"))
        }
    }
}

/// An error if a database that is to be made is there, or one that is to be there is not.
pub(crate) fn check_path(path: &Path, is_loaded: bool) -> Result<()> {
    let (said, help) = match (path.exists(), is_loaded) {
        (true, false) => ("is there already", "give --no-load to run on it, or another directory"),
        (false, true) => ("is not there", "leave --no-load out to load it"),
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
    let first_sync = log.sync_time(BARE_RECORD, BARE_TIME)?;
    let constants = Constants::of_run(&mut Random::new(options.seed, 0));
    let measured = driver::run(
        engine,
        &Run {
            world: World { scale: Scale::FULL, warehouses: options.warehouses, constants },
            clients: usize::from(options.clients),
            analysts: usize::from(options.analysts),
            warmup: Duration::from_secs_f64(options.warmup),
            time: Duration::from_secs_f64(options.seconds),
            max_retry: options.max_retry,
            seed: options.seed,
        },
    )?;
    let after = database_bytes(path)?;
    let syncs = [first_sync, log.sync_time(BARE_RECORD, BARE_TIME)?];
    engine.settle()?;
    let sizes = Sizes { before, after, settled: database_bytes(path)?, rows_before, rows_after: row_bytes(engine)? };
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
