//! A chain of two materialized views that follow a table under a steady load, and under kills.
//!
//! A view that says that it is current must have exactly the rows of its query over the base table of the same
//! snapshot. While rows come, a view is seldom current. So the load pauses from time to time until a snapshot in which
//! both views are current was checked. `ROWMILL_LONG=1` takes the load for five minutes and kills two hundred times.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rowmill::{Connection, Database, ErrorKind, Options};

use crate::kill::{moment, number, run_and_kill, tell};
use crate::materialized::{STATES, lines, text, wait_for};

/// The views with the queries over the base table that they must be equal to.
const VIEWS: [(&str, &str); 2] = [
    ("by_second", "SELECT ts, k, sum(v) AS total, count(*) AS n, min(v) AS low FROM t SAMPLE BY 1s"),
    ("by_minute", "SELECT ts, sum(v) AS total, count(*) AS n, min(v) AS low FROM t SAMPLE BY 1m"),
];

const SECOND_VIEW: &str = "SELECT ts, sum(total) AS total, sum(n) AS n, min(low) AS low FROM by_second SAMPLE BY 1m";

/// The keys of the rows.
const KEYS: u64 = 50;

/// The rows of the load for each second.
const ROWS_PER_SECOND: u64 = 100_000;

/// One INSERT of the load: a tenth of a second.
const ROWS: u64 = ROWS_PER_SECOND / 10;

fn is_long() -> bool {
    std::env::var_os("ROWMILL_LONG").is_some()
}

fn create(connection: &mut Connection) {
    let (first, second) = (VIEWS[0].1, SECOND_VIEW);
    let sql = format!(
        "CREATE TABLE t (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP(ts) PARTITION BY DAY;
         CREATE MATERIALIZED VIEW by_second REFRESH IMMEDIATE AS {first};
         CREATE MATERIALIZED VIEW by_minute REFRESH IMMEDIATE AS {second}"
    );
    connection.run(&sql, |_| Ok(())).expect("a table with two views");
}

fn time(microseconds: u64) -> String {
    format!("TIMESTAMP '2026-01-01' + {microseconds} * INTERVAL '1 microsecond'")
}

/// Inserts rows, each ten microseconds after the one before. One of ten comes late, by up to half a minute.
fn insert(first: u64, rows: u64) -> String {
    format!(
        "INSERT INTO t SELECT TIMESTAMP '2026-01-01' + ({first} + x * 10 - CASE WHEN x % 10 = 3 \
         THEN (x * 7919 + {first}) % 30000000 ELSE 0 END) * INTERVAL '1 microsecond', x % {KEYS}, x % 1009 \
         FROM generate_series(0, {rows} - 1) g(x)"
    )
}

fn within(first: u64, length: u64, key: u64) -> String {
    format!("ts >= {} AND ts < {} AND k = {}", time(first), time(first + length), key % KEYS)
}

/// Runs a statement again if a background job or another transaction was faster.
fn run(connection: &mut Connection, sql: &str) {
    loop {
        match connection.run(sql, |_| Ok(())) {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{sql}: {error}"),
        }
    }
}

/// Checks that a view is equal to its query, for the rows that meet `condition`.
fn check(connection: &mut Connection, view: &str, query: &str, condition: &str, when: &str) {
    let view = format!("SELECT * FROM {view} {condition}");
    let query = query.replace(" SAMPLE", &format!(" {condition} SAMPLE"));
    for (one, other, what) in [(&view, &query, "too many"), (&query, &view, "missing")] {
        let found = lines(connection, &format!("SELECT * FROM ({one} EXCEPT ALL {other}) d LIMIT 5"));
        assert!(found.is_empty(), "{view}: rows are {what} {when}: {found:?}");
    }
}

/// What the writer and the reader tell each other.
#[derive(Debug, Default)]
struct Signals {
    stop: AtomicBool,
    /// The writer waits, so the reader has time to compute all rows of the queries.
    is_paused: AtomicBool,
    /// Snapshots in which both views were current, with all rows as they must be.
    checked: AtomicU64,
}

impl Signals {
    /// Lets the writer wait until the reader has checked one more snapshot. Returns how long that took.
    fn pause(&self, reader_ended: impl Fn() -> bool) -> Duration {
        let began = Instant::now();
        let before = self.checked.load(Ordering::Relaxed);
        self.is_paused.store(true, Ordering::Relaxed);
        while self.checked.load(Ordering::Relaxed) == before && !reader_ended() {
            if began.elapsed() > Duration::from_secs(120) {
                self.stop.store(true, Ordering::Relaxed);
                panic!("the views have not become current");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.is_paused.store(false, Ordering::Relaxed);
        began.elapsed()
    }
}

/// What a reader has seen of a view.
#[derive(Debug, Default)]
struct Seen {
    snapshots: u64,
    current: u64,
    lag_rows_max: u64,
    lag_ms: Vec<u64>,
    full: u64,
}

/// Reads snapshots until it is stopped, and checks each view in those in which it is current.
fn read(mut connection: Connection, signals: &Signals) -> [Seen; 2] {
    let mut seen: [Seen; 2] = Default::default();
    while !signals.stop.load(Ordering::Relaxed) {
        // A full computation takes long when the table is large, so most looks are at the last minute.
        let is_full = signals.is_paused.load(Ordering::Relaxed);
        connection.execute_batch("BEGIN").expect("begun");
        let newest = "SELECT date_trunc('minute', max(ts) - INTERVAL '30 seconds') FROM t";
        let newest = text(&mut connection, newest);
        let condition = if is_full || newest == "NULL" { String::new() } else { format!("WHERE ts >= '{newest}'") };
        let states = "SELECT status, coalesce(lag_rows, 0), (extract(epoch FROM now() - last_refresh) * 1000)::BIGINT \
                      FROM rowmill_materialized_views() WHERE name = ";
        let mut is_current = true;
        for ((view, query), seen) in VIEWS.iter().zip(&mut seen) {
            let state = text(&mut connection, &format!("{states} '{view}'"));
            let state: Vec<&str> = state.split(" | ").collect();
            seen.snapshots += 1;
            seen.lag_rows_max = seen.lag_rows_max.max(state[1].parse().expect("rows"));
            seen.lag_ms.push(state[2].parse().unwrap_or(0));
            // The second view is equal to the query over the base table only if both are current.
            is_current &= state[0] == "current";
            if is_current {
                check(&mut connection, view, query, &condition, "in a snapshot in which the view is current");
                seen.current += 1;
                seen.full += u64::from(is_full);
            }
        }
        connection.execute_batch("COMMIT").expect("ended");
        if is_current && is_full {
            signals.checked.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    seen
}

#[test]
fn a_chain_of_views_follows_a_steady_load_and_is_right_whenever_it_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = Database::open(folder.path().join("database")).expect("a new database");
    let mut writer = database.connect().expect("a connection");
    create(&mut writer);
    // The load in tenths of a second, and how many of them lie between two pauses.
    let (inserts_max, between_pauses) = if is_long() { (3_000, 200) } else { (30, 10) };
    let signals = Signals::default();
    let (began, mut inserts, mut latest) = (Instant::now(), 0_u64, Duration::ZERO);
    let (mut paused, mut pause_max) = (Duration::ZERO, Duration::ZERO);
    let seen = std::thread::scope(|scope| {
        let connection = database.connect().expect("a connection");
        let reader = scope.spawn(|| read(connection, &signals));
        while inserts < inserts_max && !reader.is_finished() {
            let now = inserts * 100_000;
            run(&mut writer, &insert(now, ROWS));
            inserts += 1;
            let past = now.saturating_sub(inserts * 7_919_317 % 20_000_000);
            match inserts % 10 {
                3 => run(&mut writer, &format!("UPDATE t SET v = v + 1 WHERE {}", within(past, 200_000, inserts / 10))),
                6 => run(&mut writer, &format!("DELETE FROM t WHERE {}", within(past, 200_000, inserts / 10))),
                // Rows that move to another group.
                9 => run(
                    &mut writer,
                    &format!(
                        "UPDATE t SET ts = ts + INTERVAL '1 second', k = (k + 1) % {KEYS} WHERE {}",
                        within(past, 100_000, inserts / 10)
                    ),
                ),
                _ => {}
            }
            if inserts % between_pauses == 0 {
                let took = signals.pause(|| reader.is_finished());
                (paused, pause_max) = (paused + took, pause_max.max(took));
            }
            let due = Duration::from_micros(inserts * 100_000) + paused;
            latest = latest.max(began.elapsed().saturating_sub(due));
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        signals.stop.store(true, Ordering::Relaxed);
        reader.join().expect("the reader found no fault")
    });
    let (took, ended) = (began.elapsed() - paused, Instant::now());
    wait_for(&mut writer, STATES, "current");
    let caught_up = ended.elapsed();
    for (view, query) in VIEWS {
        check(&mut writer, view, query, "", "at the end");
    }
    check(&mut writer, "by_minute", SECOND_VIEW, "", "at the end");
    println!(
        "{} rows in {took:?}, at most {latest:?} late; pauses took {paused:?}, at most {pause_max:?}; the views were \
         current {caught_up:?} after the last commit",
        inserts * ROWS
    );
    for ((view, _), mut seen) in VIEWS.iter().zip(seen) {
        seen.lag_ms.sort_unstable();
        let at = |share: usize| seen.lag_ms.get(seen.lag_ms.len() * share / 100).or(seen.lag_ms.last());
        println!(
            "{view}: {} snapshots, current and right in {} (all rows in {}); last refresh began {:?} ms ago (median), \
             {:?} ms (95 %), {:?} ms (most); at most {} rows behind",
            seen.snapshots,
            seen.current,
            seen.full,
            at(50),
            at(95),
            at(100),
            seen.lag_rows_max
        );
        assert!(seen.full >= inserts_max / between_pauses, "{view} was not checked in each pause");
    }
    println!("{}", text(&mut writer, "SELECT * FROM rowmill_table_order('t')"));
}

pub(crate) fn open(path: &Path) -> rowmill::Result<Database> {
    // Small blocks, so that rows are sealed and brought into the order of time between the kills.
    Database::open_with(path, Options::new().set("rows_per_block", "8192")?.set("small_block_rows", "1024")?)
}

#[test]
fn a_chain_of_views_catches_up_after_each_kill() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("database");
    create(&mut open(&path).expect("a new database").connect().expect("a connection"));
    let rounds = if is_long() { 200 } else { 6 };
    let (mut step, mut slowest, mut behind) = (0, Duration::ZERO, 0);
    for round in 0..rounds {
        step += run_and_kill(folder.path(), "views", step, moment(round));
        let database = open(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let mut connection = database.connect().expect("a connection");
        behind += u32::from(text(&mut connection, STATES) != "current");
        let opened = Instant::now();
        wait_for(&mut connection, STATES, "current");
        slowest = slowest.max(opened.elapsed());
        let when = format!("after kill {round}");
        for (view, query) in VIEWS {
            check(&mut connection, view, query, "", &when);
        }
        check(&mut connection, "by_minute", SECOND_VIEW, "", &when);
        // The step in flight may be there without its acknowledgement. Its rows are the last ones.
        let last = "SELECT coalesce(max(extract(epoch FROM ts - TIMESTAMP '2026-01-01') * 10), 0)::BIGINT FROM t";
        step = step.max(number(&mut connection, last) + 1);
    }
    println!("{rounds} kills, {step} steps; {behind} times behind at opening, current after at most {slowest:?}");
    assert!(step > rounds as u64, "{step} steps prove nothing");
}

/// The work of the process that is killed.
pub(crate) fn work(database: &Database, first: u64) {
    let mut connection = database.connect().expect("a connection");
    for step in first.. {
        let now = step * 100_000;
        let past = now.saturating_sub(step * 7_919_317 % 20_000_000);
        let sql = match step % 8 {
            2 => format!("UPDATE t SET v = v + 1 WHERE {}", within(past, 3_000_000, step)),
            4 => format!("DELETE FROM t WHERE {}", within(past, 1_000_000, step)),
            5 => format!("UPDATE t SET ts = ts + INTERVAL '1 second' WHERE {}", within(past, 1_000_000, step)),
            7 if step % 5 == 0 => format!("DELETE FROM t WHERE ts < {}", time(now.saturating_sub(120_000_000))),
            7 if step % 5 == 1 => "CHECKPOINT".to_owned(),
            _ => insert(now, [50, 900, 3_000][step as usize % 3]),
        };
        run(&mut connection, &sql);
        tell("done");
    }
}
