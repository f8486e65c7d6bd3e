//! Queries that do not fit the memory limit: they finish, give the right answers, and leave no file.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rowmill::arrow::compute::concat_batches;
use rowmill::{Connection, Database, ErrorKind};

/// The environment variable that gives the directory to the process that is killed.
const CHILD: &str = "ROWMILL_SPILLING_CHILD";

/// A database with some wide rows: most keys are rare, a few are frequent.
fn prepared(rows: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = Database::open(folder.path()).expect("a new database");
    let mut connection = database.connect().expect("a connection");
    connection
        .run(
            &format!(
                "CREATE TABLE events (id BIGINT, customer BIGINT, page TEXT, amount DECIMAL(12, 2), at TIMESTAMP);
                 INSERT INTO events SELECT value, CASE WHEN value % 7 = 0 THEN 1 ELSE value * 7919 % 90001 END,
                     'https://shop.example.org/a/rather/long/path/' || (value * 104729 % 150001), value % 1000 / 4,
                     TIMESTAMP '2026-01-01 00:00:00' + (value * 31 % 500000) * INTERVAL '1 second'
                 FROM generate_series(1, {rows})"
            ),
            |_| Ok(()),
        )
        .expect("a table");
    folder
}

/// Queries over all rows. Each has one answer only.
const QUERIES: [&str; 19] = [
    "SELECT count(*), sum(n), max(page)
         FROM (SELECT page, customer, count(*) AS n FROM events GROUP BY page, customer)",
    "SELECT count(*), sum(n) FROM (SELECT customer, count(DISTINCT page) AS n FROM events GROUP BY customer)",
    "SELECT count(*), sum(length(pages)) FROM (SELECT customer, string_agg(page, ',' ORDER BY id) AS pages FROM events
         GROUP BY customer)",
    "SELECT count(*), sum(m) FROM (SELECT customer, median(id) AS m FROM events WHERE customer > 1 GROUP BY customer)",
    "SELECT count(*), sum(hll_sketch_estimate(pages)), sum(theta_sketch_estimate(ids)), sum(kll_sketch_count(amounts))
         FROM (SELECT customer, hll_sketch_agg(page) AS pages, theta_sketch_agg(id) AS ids,
         kll_sketch_agg(amount) AS amounts FROM events GROUP BY customer)",
    "SELECT id, page FROM events ORDER BY page DESC, id OFFSET 150000 LIMIT 5",
    "SELECT count(*), max(id) FROM (SELECT * FROM events ORDER BY at, id LIMIT 100000)",
    "SELECT sum(r * id % 1000), max(total) FROM (SELECT id, row_number() OVER (PARTITION BY customer ORDER BY at, id) r,
         sum(amount) OVER (PARTITION BY customer ORDER BY at, id) total FROM events)",
    "SELECT count(*), sum(r), sum(n * r % 1000) FROM (SELECT rank() OVER (PARTITION BY
         CASE WHEN id % 30 > 0 THEN page END ORDER BY id) r, count(*) OVER (PARTITION BY
         CASE id % 16 WHEN 0 THEN '0.0'::DOUBLE WHEN 1 THEN '-0.0'::DOUBLE
         WHEN 2 THEN 'NaN'::DOUBLE ELSE id::DOUBLE END) n FROM events)",
    "SELECT count(*), sum(id), max(page) FROM (SELECT id, page, row_number() OVER (PARTITION BY page ORDER BY id DESC) r
         FROM events) WHERE r <= 2",
    "SELECT sum(n * id % 1000), sum(r), sum(d) FROM (SELECT id, row_number() OVER (ORDER BY page, id) n,
         rank() OVER (ORDER BY at) r, dense_rank() OVER (ORDER BY at) d FROM events)",
    "SELECT count(*), sum(total), max(page), min(first) FROM (SELECT sum(amount) OVER w total, max(page) OVER w page,
         first_value(id) OVER (ORDER BY amount DESC, id) first FROM events WINDOW w AS (ORDER BY at))",
    "SELECT count(*), sum(total), sum(before), sum(length(after)) FROM (SELECT sum(amount) OVER (ORDER BY customer, id
         ROWS BETWEEN 7 PRECEDING AND 2 FOLLOWING) total, lag(id, 3) OVER (ORDER BY customer, id) before,
         lead(page, 5, 'none') OVER (PARTITION BY customer > 9 ORDER BY customer, id) after FROM events)",
    "SELECT count(*), sum(n), max(c), min(total), max(last) FROM (SELECT row_number() OVER () n, count(*) OVER () c,
         sum(amount) OVER () total, max(page) OVER () last FROM events)",
    "SELECT sum(tile * id % 1000), max(share), max(total), max(last) FROM (SELECT id,
         ntile(7) OVER (PARTITION BY customer > 9 ORDER BY at, id) tile, percent_rank() OVER (ORDER BY at, id) share,
         sum(amount) OVER (PARTITION BY customer > 9) total, last_value(page) OVER (ORDER BY id
         ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) last FROM events)",
    "SELECT count(*), sum(id), max(page) FROM (SELECT id, page FROM events WHERE id % 3 > 0
         EXCEPT ALL SELECT id, page FROM events WHERE id % 2 = 0)",
    "SELECT count(*), max(page), count(at), sum(customer) FROM (SELECT page, customer,
         CASE WHEN id % 3 = 0 THEN at END at FROM events
         INTERSECT ALL SELECT page, customer, CASE WHEN id % 4 = 0 THEN at END FROM events)",
    "SELECT count(*), sum(a.id + b.id), max(a.page) FROM events a JOIN events b ON a.page = b.page AND a.id <= b.id",
    "SELECT count(*), sum(b.id) FROM events a LEFT JOIN events b ON a.id = b.customer AND b.customer <> 1",
];

/// The columns of a query as text. The few rows may come in several batches, because a merge gives them in steps.
fn answer(connection: &mut Connection, sql: &str) -> Vec<String> {
    let batches =
        connection.query(sql).and_then(|rows| rows.batches()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let first = batches.first().expect("each query has rows");
    let all = concat_batches(&first.schema(), &batches).expect("batches of one schema");
    all.columns().iter().map(|column| format!("{column:?}")).collect()
}

fn number(connection: &mut Connection, sql: &str) -> u64 {
    let rows = connection.query(sql).and_then(|rows| rows.rows()).expect("an answer");
    rows[0].get::<i64>(0).expect("a number").try_into().expect("not negative")
}

fn used(connection: &mut Connection, column: &str) -> u64 {
    number(
        connection,
        &format!("SELECT CAST({column} AS BIGINT) FROM rowmill_memory() WHERE resource = 'temporary files'"),
    )
}

/// The names of all files in the folder for temporary files, at any depth.
fn temporary_files(database: &Path) -> Vec<String> {
    let Ok(folders) = std::fs::read_dir(database.join("temp")) else { return Vec::new() };
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.expect("a folder").path()).expect("a folder"));
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".spill")).collect()
}

/// Waits until a statement that ended has left nothing. Its other workers notice the end at their next batch.
fn wait_for_removal(connection: &mut Connection, database: &Path) {
    let ended = Instant::now();
    while used(connection, "used_bytes") > 0 || !temporary_files(database).is_empty() {
        assert!(ended.elapsed() < Duration::from_secs(2), "the files must go");
    }
}

#[test]
fn queries_that_do_not_fit_the_memory_limit_give_the_same_answers() {
    let folder = prepared(300_000);
    let database = Database::open(folder.path()).expect("it opens");
    let mut connection = database.connect().expect("a connection");
    let expected: Vec<_> = QUERIES.iter().map(|query| answer(&mut connection, query)).collect();
    assert_eq!(used(&mut connection, "peak_bytes"), 0, "enough memory needs no file");
    connection.execute_batch("SET memory_limit = '16MiB'").expect("the least limit");
    for (query, expected) in QUERIES.iter().zip(&expected) {
        assert_eq!(answer(&mut connection, query), *expected, "{query}");
        wait_for_removal(&mut connection, folder.path());
        assert_eq!(number(&mut connection, "SELECT count(*) FROM rowmill_spills()"), 0, "{query}");
    }
    assert!(used(&mut connection, "peak_bytes") > 1 << 20, "little memory needs files");
}

#[test]
fn the_progress_of_a_statement_tells_what_it_spills() {
    let folder = prepared(2_000_000);
    let database = Database::open(folder.path()).expect("it opens");
    let mut connection = database.connect().expect("a connection");
    connection.execute_batch("SET memory_limit = '16MiB'").expect("the least limit");
    let spilled = Arc::new(AtomicU64::new(0));
    let most = Arc::clone(&spilled);
    connection.set_progress(Some(Arc::new(move |progress| {
        most.fetch_max(progress.spilled_bytes, Ordering::Relaxed);
    })));
    // Progress is reported ten times a second, so the rows are many and the query may run again.
    let begun = Instant::now();
    while spilled.load(Ordering::Relaxed) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the bytes must be reported");
        answer(&mut connection, QUERIES[0]);
    }
}

#[test]
fn a_statement_spills_at_its_own_limit() {
    let folder = prepared(200_000);
    let database = Database::open(folder.path()).expect("it opens");
    let mut connection = database.connect().expect("a connection");
    let expected = answer(&mut connection, QUERIES[0]);
    assert_eq!(used(&mut connection, "peak_bytes"), 0);
    connection.execute_batch("SET statement_memory_limit = '8MiB'").expect("a setting");
    assert_eq!(answer(&mut connection, QUERIES[0]), expected);
    assert!(used(&mut connection, "peak_bytes") > 0, "little memory needs files");
    let one_list = "SELECT length(string_agg(page, ',')) FROM events";
    let error = connection.query(one_list).and_then(|rows| rows.rows()).expect_err("one group cannot spill");
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
    assert!(error.message().contains("statement_memory_limit are in use; the largest holders"), "{error}");
    assert!(number(&mut connection, "SELECT count(*) FROM rowmill_memory() WHERE holder = 'GROUP BY'") == 1);
}

#[test]
fn an_exhausted_disk_limit_ends_the_statement_and_leaves_nothing() {
    let folder = prepared(200_000);
    let database = Database::open(folder.path()).expect("it opens");
    let mut connection = database.connect().expect("a connection");
    connection.execute_batch("SET memory_limit = '16MiB'; SET temp_disk_limit = '1MiB'").expect("settings");
    // A sort of the table's own rows writes little, because the texts stay in the table.
    let large_sort =
        "SELECT a.id, page FROM events a, generate_series(1, 20) ORDER BY page DESC, a.id OFFSET 3000000 LIMIT 5";
    for query in [QUERIES[0], large_sort] {
        let error = connection.query(query).and_then(|rows| rows.rows()).expect_err("one MiB is too little");
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{query}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains("temp_disk_limit")), "{error:?}");
        wait_for_removal(&mut connection, folder.path());
    }
    connection.execute_batch("SET temp_disk_limit = '1GiB'").expect("a setting");
    assert_eq!(answer(&mut connection, QUERIES[5]).len(), 2);
}

#[test]
fn two_statements_share_the_disk_limit_and_only_one_of_them_fails() {
    let folder = prepared(300_000);
    let database = Database::open(folder.path()).expect("it opens");
    let mut connection = database.connect().expect("a connection");
    let large =
        "SELECT a.id, page FROM events a, generate_series(1, 60) ORDER BY page DESC, a.id OFFSET 17000000 LIMIT 5";
    let small = QUERIES[1];
    let expected = answer(&mut connection, small);
    connection.execute_batch("SET memory_limit = '16MiB'").expect("the least limit");
    answer(&mut connection, small);
    let needed = used(&mut connection, "peak_bytes");
    // The sort never has enough, and the other query has room while the sort has little.
    connection.execute_batch(&format!("SET temp_disk_limit = '{}'", needed * 3 / 2)).expect("a limit");
    let mut other = database.connect().expect("another connection");
    let is_done = AtomicU64::new(0);
    let mut failures = 0;
    std::thread::scope(|scope| {
        let fails = scope.spawn(|| {
            let mut failures = 0;
            while is_done.load(Ordering::Relaxed) == 0 {
                let error = other.query(large).and_then(|rows| rows.rows()).expect_err("the limit is too low");
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                assert!(error.message().starts_with("in SELECT a.id, page FROM events"), "{error}");
                assert!(error.message().contains("ORDER BY must write"), "{error}");
                failures += 1;
            }
            failures
        });
        // A query that meets the end of the disk while the other one holds it fails too. It then runs again.
        let succeeded = (0..20).filter(|_| match connection.query(small).and_then(|rows| rows.batches()) {
            Ok(batches) => {
                let all = concat_batches(&batches[0].schema(), &batches).expect("batches of one schema");
                assert_eq!(all.columns().iter().map(|column| format!("{column:?}")).collect::<Vec<_>>(), expected);
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                false
            }
        });
        assert!(succeeded.count() > 0, "the smaller query succeeds beside the larger one");
        is_done.store(1, Ordering::Relaxed);
        failures = fails.join().expect("the other thread ends");
    });
    assert!(failures > 0);
    wait_for_removal(&mut connection, folder.path());
    assert_eq!(answer(&mut connection, small), expected);
}

#[test]
fn a_cancelled_statement_leaves_no_temporary_file() {
    let folder = prepared(200_000);
    let database = Database::open(folder.path()).expect("it opens");
    let mut connection = database.connect().expect("a connection");
    connection.execute_batch("SET memory_limit = '16MiB'").expect("the least limit");
    for milliseconds in [20, 60, 120, 200] {
        let handle = connection.cancel_handle();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(milliseconds));
            handle.cancel();
        });
        if let Err(error) = connection.query(QUERIES[0]).and_then(|rows| rows.rows()) {
            assert_eq!(error.kind(), ErrorKind::Cancelled);
        }
        canceller.join().expect("the canceller ran");
        wait_for_removal(&mut connection, folder.path());
    }
}

#[test]
fn the_next_opening_removes_the_files_of_a_killed_process() {
    let folder = prepared(200_000);
    let rounds = if std::env::var_os("ROWMILL_LONG").is_some() { 200 } else { 10 };
    let mut left = 0;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().expect("the test's own path"))
            .args(["--exact", "spilling::child", "--nocapture"])
            .env(CHILD, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the test can start itself");
        std::thread::sleep(Duration::from_millis(100 + 37 * (round % 10)));
        child.kill().expect("killed");
        child.wait().expect("ended");
        left += temporary_files(folder.path()).len();
        let database = Database::open(folder.path()).expect("it opens");
        assert_eq!(temporary_files(folder.path()), Vec::<String>::new(), "round {round}");
        drop(database);
    }
    assert!(left > 0, "no file was left by a killed process, so the test proves nothing");
}

/// The process that is killed while it spills. It does nothing in an ordinary run of the tests.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let database = Database::open(path).expect("it opens");
    let mut connection = database.connect().expect("a connection");
    connection.execute_batch("SET memory_limit = '16MiB'; SET spill_file_bytes_min = 0").expect("settings");
    loop {
        answer(&mut connection, QUERIES[0]);
        answer(&mut connection, QUERIES[5]);
    }
}
