//! A process that is killed while it writes a time table with DEDUP UPSERT KEYS must leave each key once, with the
//! newest value that was acknowledged.
//!
//! Two writers work at the same time, each on keys of its own. Each prints a line for every step that has succeeded.
//! The step in flight of each writer may be there afterwards or not, but it must not be there in part.

use std::collections::BTreeMap;
use std::path::Path;

use rowmill::{Connection, Database, ErrorKind, Options};

use crate::kill::{lines_until_killed, moment, tell};
use crate::materialized::Random;

/// The number of times that rows can have. They come again and again, so most rows replace others.
const SECONDS: i64 = 6_000;

/// The rows of a long INSERT. Their times differ, because the number of times is no multiple of [`STRIDE`].
const LONG: i64 = 600;
const STRIDE: i64 = 7;

const WRITERS: usize = 2;

fn rounds() -> usize {
    if std::env::var_os("ROWMILL_LONG").is_some() { 500 } else { 15 }
}

pub(crate) fn open(path: &Path) -> rowmill::Result<Database> {
    // Small blocks, so that rows are sealed and brought into the order of time while the writers work.
    Database::open_with(path, Options::new().set("rows_per_block", "2048")?.set("small_block_rows", "256")?)
}

#[test]
fn rows_that_replace_others_survive_a_kill_once_and_with_their_newest_values() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("database");
    open(&path)
        .and_then(|database| database.connect())
        .and_then(|mut connection| {
            connection.execute_batch(
                "CREATE TABLE t (ts TIMESTAMP, k BIGINT, step BIGINT, v BIGINT)
                 TIMESTAMP(ts) PARTITION BY HOUR DEDUP UPSERT KEYS (ts, k)",
            )
        })
        .expect("a table");
    let mut expected: [Rows; WRITERS] = Default::default();
    let mut steps = [0; WRITERS];
    let mut ahead = 0;
    for round in 0..rounds() {
        std::fs::write(folder.path().join("steps"), format!("{} {}", steps[0], steps[1])).expect("written");
        let lines = lines_until_killed(folder.path(), "upserts", 0, moment(round));
        let database = open(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let seen = rows_of(&mut database.connect().expect("a connection"));
        for writer in 0..WRITERS {
            let acknowledged = lines.iter().filter(|line| **line == format!("done {writer}")).count();
            for _ in 0..acknowledged {
                apply(&mut expected[writer], writer, steps[writer]);
                steps[writer] += 1;
            }
            if seen[writer] != expected[writer] {
                // The child was killed before it printed the acknowledgement.
                apply(&mut expected[writer], writer, steps[writer]);
                steps[writer] += 1;
                ahead += 1;
            }
            let wrong = difference(&seen[writer], &expected[writer]);
            assert!(wrong.is_none(), "round {round}, writer {writer}, step {}: {wrong:?}", steps[writer]);
        }
    }
    println!("{} kills, {steps:?} steps, {ahead} of them were there without an acknowledgement", rounds());
    assert!(steps.iter().all(|steps| *steps > rounds() as i64), "{steps:?} steps prove nothing");
    let mut connection = open(&path).expect("it opens").connect().expect("a connection");
    let checked = crate::materialized::lines(&mut connection, "CHECK DATABASE");
    assert!(checked.iter().all(|line| line.split(" | ").nth(2) == Some("NULL")), "{checked:?}");
}

/// The rows of one writer: the step and the value of each second and key.
type Rows = BTreeMap<(i64, i64), (i64, i64)>;

/// The first key at which two sets of rows differ, with both values.
fn difference(seen: &Rows, expected: &Rows) -> Option<String> {
    let mut keys = seen.keys().chain(expected.keys());
    let key = keys.find(|key| seen.get(key) != expected.get(key))?;
    Some(format!("{key:?} is {:?} and should be {:?}", seen.get(key), expected.get(key)))
}

fn rows_of(connection: &mut Connection) -> [Rows; WRITERS] {
    let query = "SELECT extract(epoch FROM ts - TIMESTAMP '2026-01-01')::BIGINT, k, step, v FROM t";
    let rows = connection.query(query).and_then(|rows| rows.rows()).expect("the rows");
    let mut seen: [Rows; WRITERS] = Default::default();
    for row in rows {
        let [second, key, step, value] = [0, 1, 2, 3].map(|place| row.get::<i64>(place).expect("a number"));
        let of = &mut seen[key as usize % WRITERS];
        let other = of.insert((second, key), (step, value));
        assert_eq!(other, None, "second {second} and key {key} are there twice, also with {:?}", (step, value));
    }
    seen
}

/// What one step of a writer does.
enum Step {
    /// Statements that insert rows: second, key, value. They are one transaction.
    Short(Vec<Vec<(i64, i64, i64)>>),
    /// One INSERT of many rows from a query, from this second on.
    Long(i64),
    /// Adds one to the values of some seconds.
    Update(i64),
    /// Moves rows of some seconds to the next second.
    Move(i64),
    Delete(i64),
}

/// How many seconds a change takes.
const CHANGED: i64 = 20;

fn step_of(writer: usize, step: i64) -> Step {
    let mut random = Random((step * 2 + writer as i64 + 1).cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.below(2);
    let head = step * 5 % SECONDS;
    let second = random.below(SECONDS as u64 - 2 * CHANGED as u64) as i64;
    let mut rows = |count: u64| -> Vec<(i64, i64, i64)> {
        (0..count as i64)
            .map(|value| {
                let late = if random.below(3) == 0 { random.below(500) as i64 } else { 0 };
                let key = random.below(3) as i64 * WRITERS as i64 + writer as i64;
                ((head + value / 4 - late).rem_euclid(SECONDS), key, value)
            })
            .collect()
    };
    match step % 10 {
        0..=4 => Step::Short(vec![rows(1 + step as u64 % 40)]),
        5 => {
            let first = rows(30);
            let again = first.iter().map(|(second, key, value)| (*second, *key, value + 1_000)).collect();
            Step::Short(vec![first, again])
        }
        6 => Step::Update(second),
        7 => Step::Move(second),
        8 if step % 3 == 0 => Step::Delete(second),
        _ => Step::Long(second),
    }
}

fn apply(rows: &mut Rows, writer: usize, step: i64) {
    match step_of(writer, step) {
        Step::Short(statements) => {
            for (second, key, value) in statements.into_iter().flatten() {
                rows.insert((second, key), (step, value));
            }
        }
        Step::Long(first) => {
            for place in 0..LONG {
                rows.insert(((first + place * STRIDE) % SECONDS, long_key(writer, place)), (step, place));
            }
        }
        Step::Update(first) => {
            for (_, (_, value)) in rows.range_mut((first, 0)..(first + CHANGED, 0)) {
                *value += 1;
            }
        }
        Step::Move(first) => {
            let moved: Vec<_> = rows.extract_if((first, 0)..(first + CHANGED, 0), |_, _| true).collect();
            rows.extend(moved.into_iter().map(|((second, key), value)| ((second + 1, key), value)));
        }
        Step::Delete(first) => rows.retain(|(second, _), _| !(first..first + CHANGED).contains(second)),
    }
}

fn long_key(writer: usize, place: i64) -> i64 {
    place % 3 * WRITERS as i64 + writer as i64
}

fn sql_of(writer: usize, step: i64) -> String {
    let time = |second: &dyn std::fmt::Display| format!("TIMESTAMP '2026-01-01' + ({second}) * INTERVAL '1 second'");
    let own = |first: i64| {
        let (from, to) = (time(&first), time(&(first + CHANGED)));
        format!("k % {WRITERS} = {writer} AND ts >= {from} AND ts < {to}")
    };
    match step_of(writer, step) {
        Step::Short(statements) => {
            let inserts: Vec<String> = statements
                .iter()
                .map(|rows| {
                    let row =
                        |(second, key, value): &(i64, i64, i64)| format!("({}, {key}, {step}, {value})", time(second));
                    format!("INSERT INTO t VALUES {}", rows.iter().map(row).collect::<Vec<_>>().join(", "))
                })
                .collect();
            match &inserts[..] {
                [only] => only.clone(),
                several => format!("BEGIN; {}; COMMIT", several.join("; ")),
            }
        }
        Step::Long(first) => format!(
            "INSERT INTO t SELECT {}, x % 3 * {WRITERS} + {writer}, {step}, x FROM generate_series(0, {LONG} - 1) g(x)",
            time(&format!("({first} + x * {STRIDE}) % {SECONDS}"))
        ),
        Step::Update(first) => format!("UPDATE t SET v = v + 1 WHERE {}", own(first)),
        Step::Move(first) => format!("UPDATE t SET ts = ts + INTERVAL '1 second' WHERE {}", own(first)),
        Step::Delete(first) => format!("DELETE FROM t WHERE {}", own(first)),
    }
}

/// The work of the process that is killed.
pub(crate) fn work(database: &Database, folder: &Path) {
    let steps = std::fs::read_to_string(folder.join("steps")).expect("the steps to begin with");
    let steps = steps.split(' ').map(|step| step.parse::<i64>().expect("a step"));
    std::thread::scope(|scope| {
        for (writer, first) in steps.enumerate() {
            let mut connection = database.connect().expect("a connection");
            scope.spawn(move || {
                for step in first.. {
                    run(&mut connection, &sql_of(writer, step));
                    tell(&format!("done {writer}"));
                    if writer == 0 && step % 50 == 49 {
                        connection.execute_batch("CHECKPOINT").expect("a checkpoint");
                    }
                }
            });
        }
    });
}

/// Runs a step until no other transaction is in its way.
fn run(connection: &mut Connection, sql: &str) {
    while let Err(error) = connection.run(sql, |_| Ok(())) {
        assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{sql}: {error}");
        let _ = connection.execute_batch("ROLLBACK");
    }
}
