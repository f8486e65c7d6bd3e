//! Materialized views: random changes and refreshes against a full computation, refreshes in the background, and
//! refreshes that fail.
//!
//! `ROWMILL_SEED` repeats a failure. `ROWMILL_LONG=1` takes more steps.

use std::path::Path;
use std::time::{Duration, Instant};

use rowmill::text::format_value;
use rowmill::{Connection, Database, ErrorKind, Options};

/// A generator of numbers that depend only on a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// The views of the model, each with its query. A view comes after those that it reads.
const VIEWS: [(&str, &str); 5] = [
    ("by_hour", "SELECT ts, s, sum(v) AS total, count(*) AS n FROM t SAMPLE BY 1h"),
    ("by_key", "SELECT k, s, min(v) AS low, max(v) AS high FROM t WHERE v > 10 GROUP BY k, s HAVING count(*) > 1"),
    (
        "by_month",
        "SELECT ts, count(DISTINCT k) AS keys FROM t SAMPLE BY 1M ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin'",
    ),
    ("by_day", "SELECT ts, sum(n) AS n, max(total) AS most FROM by_hour SAMPLE BY 1d"),
    ("keys", "SELECT DISTINCT k FROM t"),
];

fn open(path: &Path) -> (Database, Connection) {
    // Small blocks, so that rows are sealed and merged all the time.
    let options = Options::new().set("rows_per_block", "64").and_then(|options| options.set("small_block_rows", "16"));
    let database = Database::open_with(path, options.unwrap()).unwrap();
    let connection = database.connect().unwrap();
    (database, connection)
}

/// Returns the rows of a query as sorted lines.
pub(crate) fn lines(connection: &mut Connection, sql: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let collect = |outcome| {
        let rowmill::Outcome::Rows(rows) = outcome else { return Ok(()) };
        for batch in rows {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let cells =
                    batch.columns().iter().map(|values| Ok(format_value(values, row)?.unwrap_or("NULL".into())));
                lines.push(cells.collect::<rowmill::Result<Vec<String>>>()?.join(" | "));
            }
        }
        Ok(())
    };
    connection.run(sql, collect).unwrap_or_else(|error| panic!("{sql}: {error}"));
    lines.sort_unstable();
    lines
}

pub(crate) fn text(connection: &mut Connection, sql: &str) -> String {
    lines(connection, sql).join("\n")
}

fn check(connection: &mut Connection, view: &str, query: &str, step: &str) {
    let (found, wanted) = (lines(connection, &format!("SELECT * FROM {view}")), lines(connection, query));
    assert_eq!(found, wanted, "{view} after {step}");
}

/// Makes one random change of the base table.
fn change(random: &mut Random, connection: &mut Connection) {
    let hour = random.below(2_000);
    let sql = match random.below(10) {
        // New rows, often near the end of time and sometimes late.
        0..=4 => {
            let rows = 1 + random.below(60);
            let first = if random.below(3) == 0 { hour } else { 2_000 + random.below(20) };
            let (keys, texts) = (1 + random.below(40), 1 + random.below(4));
            format!(
                "INSERT INTO t SELECT TIMESTAMP '2026-01-01' + ({first} * 60 + x * 7) * INTERVAL '1 minute', \
                 CASE WHEN x % 9 = 0 THEN NULL ELSE x % {keys} END, \
                 CASE WHEN x % 5 = 0 THEN NULL ELSE 's' || (x % {texts}) END, x * 31 % 97 \
                 FROM generate_series(1, {rows}) g(x)"
            )
        }
        5 | 6 => format!("UPDATE t SET v = v + 5, k = k + 1 WHERE v % 23 = {} AND v < 300", random.below(23)),
        7 => format!("UPDATE t SET ts = ts + INTERVAL '3 hours' WHERE v % 29 = {}", random.below(29)),
        8 => format!("DELETE FROM t WHERE v % 7 = {} AND k % 3 = {}", random.below(7), random.below(3)),
        _ if random.below(6) == 0 => "TRUNCATE t".to_owned(),
        _ => format!("DELETE FROM t WHERE s = 's{}' OR k IS NULL", random.below(8)),
    };
    connection.execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

#[test]
fn refreshed_views_are_equal_to_their_queries() {
    let seed = std::env::var("ROWMILL_SEED").map_or(0x5eed, |seed| seed.parse().unwrap());
    let (rounds, steps) = if std::env::var_os("ROWMILL_LONG").is_some() { (40, 400) } else { (3, 90) };
    for round in 0..rounds {
        let mut random = Random(seed + round * 7_919 + 1);
        let folder = tempfile::tempdir().unwrap();
        let (mut database, mut connection) = open(folder.path());
        connection.execute_batch("CREATE TABLE t (ts TIMESTAMP, k BIGINT, s TEXT, v BIGINT) TIMESTAMP(ts)").unwrap();
        change(&mut random, &mut connection);
        for (view, query) in VIEWS {
            connection.execute_batch(&format!("CREATE MATERIALIZED VIEW {view} REFRESH MANUAL AS {query}")).unwrap();
            check(&mut connection, view, query, "its creation");
        }
        let (mut asked, mut computed_all) = (0, 0);
        for step in 0..steps {
            match random.below(12) {
                0..=5 => change(&mut random, &mut connection),
                6..=9 => {
                    let (view, query) = VIEWS[random.below(VIEWS.len() as u64) as usize];
                    let how = match random.below(4) {
                        0 => "FULL",
                        1 | 2 if view != "keys" => "INCREMENTAL",
                        _ => "",
                    };
                    let refresh = format!("REFRESH MATERIALIZED VIEW {view} {how}");
                    connection.execute_batch(&refresh).unwrap_or_else(|error| panic!("{refresh}: {error}"));
                    asked += u64::from(how == "INCREMENTAL");
                    computed_all += connection.take_notices().len() as u64;
                    check(
                        &mut connection,
                        view,
                        query,
                        &format!("step {step} of round {round}, seed {seed}: {refresh}"),
                    );
                    let status = format!("SELECT status FROM rowmill_materialized_views() WHERE name = '{view}'");
                    assert_eq!(text(&mut connection, &status), "current");
                }
                // Time for blocks to be sealed and merged.
                10 => std::thread::sleep(Duration::from_millis(random.below(300))),
                _ => {
                    if random.below(2) == 0 {
                        connection.execute_batch("CHECKPOINT").unwrap();
                    }
                    drop((database, connection));
                    (database, connection) = open(folder.path());
                }
            }
        }
        assert!(asked > 0 && computed_all < asked, "{computed_all} of {asked} refreshes were not incremental");
        let checked = lines(&mut connection, "CHECK DATABASE");
        assert!(checked.iter().all(|line| line.split(" | ").nth(2) == Some("NULL")), "{checked:?}");
        drop(database);
    }
}

/// Waits until a query returns `wanted`.
pub(crate) fn wait_for(connection: &mut Connection, sql: &str, wanted: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let found = text(connection, sql);
        if found == wanted {
            return;
        }
        assert!(Instant::now() < until, "{sql} is still: {found}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) const STATES: &str = "SELECT DISTINCT status FROM rowmill_materialized_views()";

#[test]
fn views_follow_commits_at_once_and_readers_see_only_whole_states() {
    let folder = tempfile::tempdir().unwrap();
    let (database, mut writer) = open(folder.path());
    writer.execute_batch("CREATE TABLE t (batch BIGINT, v BIGINT)").unwrap();
    // IMMEDIATE is the rule of a view that names none.
    writer
        .execute_batch("CREATE MATERIALIZED VIEW batches AS SELECT batch, count(*) AS n FROM t GROUP BY batch")
        .unwrap();
    let sizes = "SELECT n, count(*) AS of_them FROM batches GROUP BY n";
    writer.execute_batch(&format!("CREATE MATERIALIZED VIEW sizes REFRESH IMMEDIATE AS {sizes}")).unwrap();
    let mut reader = database.connect().unwrap();
    let reading = std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            // A batch is written and deleted by one commit, and so are the rows of its group.
            assert_eq!(text(&mut reader, "SELECT count(*) FROM batches WHERE n <> 10"), "0");
            assert_eq!(text(&mut reader, "SELECT count(*) FROM sizes WHERE n <> 10"), "0");
        }
    });
    for batch in 0..150 {
        writer.execute_batch(&format!("INSERT INTO t SELECT {batch}, x FROM generate_series(1, 10) g(x)")).unwrap();
        if batch % 3 == 0 {
            writer.execute_batch(&format!("DELETE FROM t WHERE batch = {}", batch / 2)).unwrap();
        }
    }
    reading.join().unwrap();
    wait_for(&mut writer, STATES, "current");
    check(&mut writer, "batches", "SELECT batch, count(*) FROM t GROUP BY batch", "all commits");
    check(&mut writer, "sizes", sizes, "all commits");
    // The views go on after the database was opened again, also for changes from before it was closed.
    writer.execute_batch("INSERT INTO t VALUES (1000, 1)").unwrap();
    drop((database, writer));
    let (database, mut writer) = open(folder.path());
    wait_for(&mut writer, STATES, "current");
    check(&mut writer, "sizes", sizes, "reopening");
    assert_eq!(text(&mut writer, "SELECT n FROM batches WHERE batch = 1000"), "1");
    drop(database);
    // A connection alone keeps the job going.
    writer.execute_batch("INSERT INTO t VALUES (1000, 2)").unwrap();
    wait_for(&mut writer, "SELECT n FROM batches WHERE batch = 1000", "2");
}

#[test]
fn views_are_refreshed_at_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let (_database, mut connection) = open(folder.path());
    connection.execute_batch("CREATE TABLE t (a BIGINT)").unwrap();
    let view = "CREATE MATERIALIZED VIEW v REFRESH EVERY 300ms AS SELECT a, count(*) AS n FROM t GROUP BY a";
    connection.execute_batch(view).unwrap();
    connection.execute_batch("CREATE MATERIALIZED VIEW clock REFRESH EVERY 100ms AS SELECT now() AS at").unwrap();
    connection.execute_batch("CREATE MATERIALIZED VIEW late REFRESH EVERY 2h AS SELECT count(*) AS n FROM t").unwrap();
    let first = text(&mut connection, "SELECT * FROM clock");
    connection.execute_batch("INSERT INTO t VALUES (1), (1), (2)").unwrap();
    wait_for(&mut connection, "SELECT count(*) FROM v", "2");
    connection.execute_batch("INSERT INTO t VALUES (3)").unwrap();
    wait_for(&mut connection, "SELECT count(*) FROM v", "3");
    // A query that reads the clock is computed again although no table has changed.
    wait_for(&mut connection, &format!("SELECT at > '{first}' FROM clock"), "true");
    assert_eq!(text(&mut connection, "SELECT * FROM late"), "0");
    let status = "SELECT status FROM rowmill_materialized_views() WHERE name = 'late'";
    assert_eq!(text(&mut connection, status), "behind");
}

#[test]
fn a_failed_refresh_keeps_the_rows_shows_its_error_and_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let (_database, mut connection) = open(folder.path());
    connection.execute_batch("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (2), (5)").unwrap();
    connection
        .execute_batch("CREATE MATERIALIZED VIEW v AS SELECT a, sum(CAST(10 AS BIGINT) / a) AS q FROM t GROUP BY a")
        .unwrap();
    connection.execute_batch("INSERT INTO t VALUES (0), (1)").unwrap();
    wait_for(&mut connection, STATES, "failed");
    assert_eq!(text(&mut connection, "SELECT * FROM v"), "2 | 5\n5 | 2");
    let error = text(&mut connection, "SELECT last_error FROM rowmill_materialized_views()");
    assert!(error.contains("zero"), "{error}");
    connection.execute_batch("DELETE FROM t WHERE a = 0").unwrap();
    wait_for(&mut connection, STATES, "current");
    assert_eq!(text(&mut connection, "SELECT * FROM v"), "1 | 10\n2 | 5\n5 | 2");
}

#[test]
fn an_appender_refuses_a_materialized_view() {
    let database = Database::memory().unwrap();
    let mut connection = database.connect().unwrap();
    connection.execute_batch("CREATE MATERIALIZED VIEW v AS SELECT 1 AS a").unwrap();
    let error = connection.appender("v").map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongObject);
}

#[test]
fn a_backup_has_the_views_and_refreshes_go_on_in_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (source, backup, copy) =
        (folder.path().join("source"), folder.path().join("backup"), folder.path().join("copy"));
    let (_database, mut connection) = open(&source);
    connection.execute_batch("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2)").unwrap();
    let query = "SELECT a, count(*) AS n FROM t GROUP BY a";
    connection.execute_batch(&format!("CREATE MATERIALIZED VIEW v REFRESH MANUAL AS {query}")).unwrap();
    connection.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    connection.execute_batch(&format!("BACKUP DATABASE TO '{}'", backup.display())).unwrap();
    connection.execute_batch(&format!("RESTORE DATABASE FROM '{}' TO '{}'", backup.display(), copy.display())).unwrap();
    let (_copy, mut connection) = open(&copy);
    assert_eq!(text(&mut connection, "SELECT * FROM v"), "1 | 1\n2 | 1");
    connection.execute_batch("INSERT INTO t VALUES (3); DELETE FROM t WHERE a = 1").unwrap();
    connection.execute_batch("REFRESH MATERIALIZED VIEW v").unwrap();
    check(&mut connection, "v", query, "the restore");
}
