//! A process that is killed at any moment must leave exactly the statements that it had acknowledged.
//!
//! The test starts itself as the process that we kill ([`child`]). That process prints a line for each statement that
//! has succeeded. The statement in flight may be there afterwards or not, but it must not be there in part.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rowmill::{Connection, Database};

use crate::{killed_upserts, views_under_load};

/// The number of rows in the file that the child loads again and again.
const LOADED_ROWS: u64 = 20_000;

/// The environment variable that gives the child its order: a workload's name, the first step, the directory.
const CHILD: &str = "ROWMILL_KILLED_CHILD";

fn rounds() -> usize {
    if std::env::var_os("ROWMILL_LONG").is_some() { 500 } else { 50 }
}

#[test]
fn acknowledged_statements_of_every_kind_survive_a_kill() {
    let folder = prepared();
    let database = folder.path().join("database");
    let mut expected = State::default();
    let mut step = 0;
    for round in 0..rounds() {
        let acknowledged = run_and_kill(folder.path(), "every_kind", step, moment(round));
        for _ in 0..acknowledged {
            expected.apply(step);
            step += 1;
        }
        let seen = State::of(&mut Database::open(&database).expect("it opens").connect().expect("a connection"));
        // The statement in flight may have been committed before its acknowledgement was printed, so we also accept one
        // more step.
        if seen != expected {
            expected.apply(step);
            step += 1;
        }
        assert_eq!(seen, expected, "round {round}, killed before step {step} was acknowledged");
    }
    assert!(step > rounds() as u64, "the child did only {step} steps, so the test proves nothing");
    on_disk_is_what_is_named(&database);
}

#[test]
fn acknowledged_loads_survive_a_kill_beside_a_load_that_is_rolled_back() {
    let folder = prepared();
    let database = folder.path().join("database");
    let mut committed = 0;
    for round in 0..rounds() / 5 {
        committed += run_and_kill(folder.path(), "two_loads", 0, moment(round));
        let mut connection = Database::open(&database).expect("it opens").connect().expect("a connection");
        let seen = number(&mut connection, "SELECT count(*) FROM committed") / LOADED_ROWS;
        assert!((committed..=committed + 1).contains(&seen), "{seen} of {committed} loads, round {round}");
        committed = seen;
        assert_eq!(number(&mut connection, "SELECT count(*) FROM committed"), committed * LOADED_ROWS);
        assert_eq!(number(&mut connection, "SELECT count(*) FROM aborted"), 0);
        drop(connection);
        on_disk_is_what_is_named(&database);
    }
    assert!(committed > 0, "no load ended, so the test proves nothing");
}

/// Makes a folder with a database, its tables and the file to load.
fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = Database::open(folder.path().join("database")).expect("a new database");
    let mut connection = database.connect().expect("a connection");
    let file = folder.path().join("rows.parquet");
    connection
        .run(
            &format!(
                "CREATE TABLE log (n BIGINT, changes BIGINT);
                 CREATE TABLE events (n BIGINT, text TEXT);
                 COPY (SELECT value AS n, 'event ' || value AS text FROM generate_series(1, {LOADED_ROWS}))
                 TO '{}';
                 CREATE TABLE committed (n BIGINT, text TEXT);
                 CREATE TABLE aborted (n BIGINT, text TEXT)",
                file.display()
            ),
            |_| Ok(()),
        )
        .expect("tables");
    folder
}

/// Starts the child, kills it after `moment`, and returns the number of steps that it has acknowledged.
pub(crate) fn run_and_kill(folder: &Path, workload: &str, step: u64, moment: Duration) -> u64 {
    lines_until_killed(folder, workload, step, moment).iter().filter(|line| *line == "done").count() as u64
}

/// Starts the child, kills it after `moment`, and returns the lines that it has printed since it was ready.
pub(crate) fn lines_until_killed(folder: &Path, workload: &str, step: u64, moment: Duration) -> Vec<String> {
    let program = std::env::current_exe().expect("the test's own path");
    let mut child = Command::new(program)
        .args(["--exact", "kill::child", "--nocapture"])
        .env(CHILD, format!("{workload} {step} {}", folder.display()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test must be able to start itself");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
    let ready = lines.by_ref().map_while(Result::ok).any(|line| line.ends_with("ready"));
    assert!(ready, "the child did not begin to work: {:?}", child.wait());
    std::thread::sleep(moment);
    child.kill().expect("it was running");
    child.wait().expect("it is our child");
    lines.map_while(Result::ok).collect()
}

/// A random moment in the first quarter of a second, different in each run.
pub(crate) fn moment(round: usize) -> Duration {
    let noise = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), round);
    Duration::from_micros(noise % 250_000)
}

/// The process that we kill. It does nothing in an ordinary run of the tests.
#[test]
fn child() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let mut words = order.splitn(3, ' ');
    let mut word = || words.next().expect("workload, step, folder");
    let (workload, step, folder) = (word(), word().parse().expect("a step"), Path::new(word()));
    let path = folder.join("database");
    match workload {
        "every_kind" => do_every_kind(&ready(Database::open(path)), step, folder),
        "two_loads" => do_two_loads(&ready(Database::open(path)), folder),
        "upserts" => killed_upserts::work(&ready(killed_upserts::open(&path)), folder),
        "views" => views_under_load::work(&ready(views_under_load::open(&path)), step),
        _ => panic!("the child knows no workload {workload}"),
    }
}

/// Says that the work begins.
fn ready(database: rowmill::Result<Database>) -> Database {
    let database = database.expect("it opens");
    tell("ready");
    database
}

/// Prints a line with one write, so that a kill cannot leave half of it.
pub(crate) fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent reads our output");
}

fn load(folder: &Path, table: &str) -> String {
    format!("COPY {table} FROM '{}'", folder.join("rows.parquet").display())
}

fn do_every_kind(database: &Database, first: u64, folder: &Path) {
    let mut connection = database.connect().expect("a connection");
    for step in first.. {
        connection.run(&statement(step, folder), |_| Ok(())).unwrap_or_else(|error| panic!("step {step}: {error}"));
        tell("done");
    }
}

fn do_two_loads(database: &Database, folder: &Path) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = database.connect().expect("a connection");
            loop {
                connection.execute_batch("BEGIN").expect("begun");
                connection.execute_batch(&load(folder, "aborted")).expect("loaded");
                connection.execute_batch("ROLLBACK").expect("rolled back");
            }
        });
        let mut connection = database.connect().expect("a connection");
        loop {
            connection.execute_batch(&load(folder, "committed")).expect("loaded");
            tell("done");
        }
    });
}

/// The SQL of a step. The steps take all kinds of statements in turn.
fn statement(step: u64, folder: &Path) -> String {
    match step % 8 {
        0 => format!("CREATE TABLE made_{step} AS SELECT value AS n FROM generate_series(1, 5000)"),
        1 => format!("INSERT INTO log VALUES ({step}, 0)"),
        2 => load(folder, "events"),
        3 => format!("INSERT INTO log SELECT {step} + value, 0 FROM generate_series(1, 100)"),
        4 => format!("DELETE FROM events WHERE n <= {LOADED_ROWS} / 2"),
        5 => "UPDATE log SET changes = changes + 1".to_owned(),
        6 => format!("DROP TABLE made_{}", step - 6),
        _ => format!("BEGIN; INSERT INTO log VALUES ({step}, 0); {}; COMMIT; CHECKPOINT", load(folder, "events")),
    }
}

/// The contents of the database: expected after a number of steps, or read from the database.
#[derive(Debug, Default, PartialEq)]
struct State {
    made: BTreeSet<String>,
    /// The number of rows, the sum of their numbers, and the sum of their changes.
    log: [u64; 3],
    /// The number of rows with small numbers, and of the others.
    events: [u64; 2],
}

impl State {
    fn apply(&mut self, step: u64) {
        let half = LOADED_ROWS / 2;
        let mut log = |rows: u64, numbers: u64| {
            self.log[0] += rows;
            self.log[1] += numbers;
        };
        match step % 8 {
            0 => _ = self.made.insert(format!("made_{step}")),
            1 => log(1, step),
            2 => self.events = self.events.map(|rows| rows + half),
            3 => log(100, 100 * step + 5050),
            4 => self.events[0] = 0,
            5 => self.log[2] += self.log[0],
            6 => _ = self.made.remove(&format!("made_{}", step - 6)),
            _ => {
                log(1, step);
                self.events = self.events.map(|rows| rows + half);
            }
        }
    }

    fn of(connection: &mut Connection) -> State {
        let tables = connection
            .query("SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'made%'")
            .and_then(|rows| rows.rows())
            .expect("the tables");
        let made: BTreeSet<String> = tables.iter().map(|row| row.get(0).expect("a name")).collect();
        for table in &made {
            assert_eq!(number(connection, &format!("SELECT count(*) FROM {table}")), 5000, "{table} is whole");
        }
        let log = ["count(*)", "coalesce(sum(n), 0)", "coalesce(sum(changes), 0)"];
        let events = [format!("n <= {LOADED_ROWS} / 2"), format!("n > {LOADED_ROWS} / 2")];
        State {
            log: log.map(|sum| number(connection, &format!("SELECT {sum} FROM log"))),
            events: events.map(|rows| {
                number(connection, &format!("SELECT count(*) FROM events WHERE {rows} AND text = 'event ' || n"))
            }),
            made,
        }
    }
}

/// Returns the only value of a result, which must be a number.
pub(crate) fn number(connection: &mut Connection, sql: &str) -> u64 {
    let rows = connection.query(&format!("SELECT ({sql})::BIGINT")).and_then(|rows| rows.rows());
    let number: i64 = rows.and_then(|rows| rows[0].get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"));
    u64::try_from(number).expect("a count")
}

/// After a checkpoint, the column files must take exactly the space of the tables' chunks on disk.
fn on_disk_is_what_is_named(directory: &Path) {
    let database = Database::open(directory).expect("it opens");
    let mut connection = database.connect().expect("a connection");
    connection.execute_batch("CHECKPOINT").expect("a checkpoint");
    let tables = connection.query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'");
    let mut named = 0;
    for row in tables.and_then(|rows| rows.rows()).expect("the tables") {
        let table: String = row.get(0).expect("a name");
        named += number(&mut connection, &format!("SELECT coalesce(sum(bytes), 0) FROM rowmill_storage('{table}')"));
    }
    let (files, bytes) = files_below(&directory.join("tables"));
    // The file system uses one more page for the map of a fragmented file, and counts it.
    assert!((named..=named + files * 4096).contains(&bytes), "{bytes} bytes on disk, {named} are named");
}

/// Returns the number of files in a folder, and the bytes that they take on disk.
fn files_below(folder: &Path) -> (u64, u64) {
    // The folder is missing before the first block is written.
    let Ok(entries) = std::fs::read_dir(folder) else { return (0, 0) };
    entries.fold((0, 0), |(files, bytes), entry| {
        let entry = entry.expect("an entry");
        let meta = entry.metadata().expect("its size");
        let (more, taken) = if meta.is_dir() { files_below(&entry.path()) } else { (1, meta.blocks() * 512) };
        (files + more, bytes + taken)
    })
}
