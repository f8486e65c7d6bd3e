//! Measures commits of one row by prepared statement, and compares them with the disk: a loop that appends the same
//! number of bytes to an existing file and syncs them. The two take turns, because a disk's speed changes from second
//! to second.

use std::path::Path;
use std::time::{Duration, Instant};

use rowmill::Database;
use rowmill_base::Result;
use serde_json::{Map, Value, json};

use crate::bare_log::BareLog;

/// The bytes of a record of the bare loop. The log record of a row of this table has the same size.
const BARE_RECORD: usize = 168;

/// The parameters of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Commits<'a> {
    /// The directory of the database.
    pub directory: &'a Path,
    /// The seconds of each turn.
    pub seconds: f64,
    /// The turns of each kind.
    pub turns: usize,
}

/// Runs the measurement. The report has rows per second: the best of all turns, and their quotient with the bare
/// loop's.
pub fn run(commits: &Commits<'_>) -> Result<Map<String, Value>> {
    let time = Duration::from_secs_f64(commits.seconds);
    let database = Database::open(commits.directory)?;
    let mut connection = database.connect()?;
    connection.execute_batch("CREATE TABLE IF NOT EXISTS commits (number BIGINT, moment TIMESTAMP, payload TEXT)")?;
    let log = BareLog::create(commits.directory)?;

    let (mut bare, mut best): (f64, Map<String, Value>) = (0.0, Map::new());
    let mut rates: Vec<(&str, usize, f64)> =
        vec![("full", 1, 0.0), ("full", 8, 0.0), ("relaxed", 1, 0.0), ("off", 1, 0.0)];
    let mut latencies: Vec<Vec<Duration>> = vec![Vec::new(); rates.len()];
    for _ in 0..commits.turns {
        // The bare loop and all kinds take turns, so that a slow minute of the disk hits all of them.
        bare = bare.max(log.sync_time(BARE_RECORD, time)?.per_second());
        for ((durability, connections, rate), latencies) in rates.iter_mut().zip(&mut latencies) {
            connection.execute_batch(&format!("SET durability = '{durability}'"))?;
            let times = insert(&database, *connections, time)?;
            let of_this = times.len() as f64 / time.as_secs_f64();
            // We keep the latencies of the best turn, so that they belong to the reported rate.
            if of_this > *rate {
                (*rate, *latencies) = (of_this, times);
            }
        }
    }
    best.insert("bare_syncs_per_second".into(), json!(bare.round()));
    for ((durability, connections, rate), mut times) in rates.into_iter().zip(latencies) {
        times.sort_unstable();
        let micros = |share: usize| times.get(times.len() * share / 1_000).map_or(0.0, |time| time.as_secs_f64() * 1e6);
        let result = json!({
            "rows_per_second": rate.round(),
            "of_bare": (rate / bare * 100.0).round() / 100.0,
            "p50_us": micros(500).round(),
            "p99_us": micros(990).round(),
            "p999_us": micros(999).round(),
        });
        best.insert(format!("{durability}_{connections}"), result);
    }
    Ok(best)
}

/// Inserts rows with `connections` connections, each on a thread, and returns the time of each commit.
fn insert(database: &Database, connections: usize, time: Duration) -> Result<Vec<Duration>> {
    let one = |number: usize| -> Result<Vec<Duration>> {
        let mut connection = database.connect()?;
        let insert = connection.prepare("INSERT INTO commits VALUES ($1, '2026-01-01 10:00:00', $2)")?;
        let (start, mut times) = (Instant::now(), Vec::new());
        let mut row = number as i64;
        while start.elapsed() < time {
            let begun = Instant::now();
            insert.execute(&mut connection, (row, "a payload of some length"))?;
            times.push(begun.elapsed());
            // Each connection inserts its own residue class, so that numbers do not collide.
            row += connections as i64;
        }
        Ok(times)
    };
    let threads = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|number| scope.spawn(move || one(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panics")).collect::<Result<Vec<_>>>()
    })?;
    Ok(threads.concat())
}
