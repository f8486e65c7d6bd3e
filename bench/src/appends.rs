//! Rows that come one by one into a columnar table: by an appender, and by a prepared INSERT within a transaction,
//! beside a prepared INSERT into a table with a primary key.

use std::fs;
use std::path::Path;
use std::time::Instant;

use rowmill::{Connection, Database, Options, Param};
use rowmill_base::{Error, Result};
use serde_json::{Map, Value, json};

const TABLES: &str = "CREATE TABLE columnar (id BIGINT, name TEXT, amount DOUBLE);
    CREATE TABLE keyed (id BIGINT PRIMARY KEY, name TEXT, amount DOUBLE)";

/// The names of the rows: a column of few values, as most texts of events are.
const NAMES: [&str; 8] = ["attic", "hall", "kitchen", "cellar", "garden", "roof", "garage", "bath"];

/// Puts rows with the numbers in a range into a table, and makes them permanent.
type Way = fn(&mut Connection, std::ops::Range<i64>) -> Result<()>;

/// The ways in, by the name that the report shows.
const WAYS: &[(&str, Way)] = &[
    ("appender_borrowed", borrowed),
    ("appender_tuples", tuples),
    ("prepared_columnar", |connection, ids| prepared(connection, "columnar", ids)),
    ("prepared_keyed", |connection, ids| prepared(connection, "keyed", ids)),
];

fn values(id: i64) -> (i64, &'static str, f64) {
    (id, NAMES[(id % 8) as usize], (id * 7 % 1000) as f64 / 8.0)
}

fn borrowed(connection: &mut Connection, ids: std::ops::Range<i64>) -> Result<()> {
    let mut appender = connection.appender("columnar")?;
    for id in ids {
        let (id, name, amount) = values(id);
        appender.push(&[Param::Integer(id), Param::Text(name), Param::Double(amount)])?;
    }
    appender.finish().map(drop)
}

fn tuples(connection: &mut Connection, ids: std::ops::Range<i64>) -> Result<()> {
    let mut appender = connection.appender("columnar")?;
    for id in ids {
        appender.append_row(values(id))?;
    }
    appender.finish().map(drop)
}

fn prepared(connection: &mut Connection, table: &str, ids: std::ops::Range<i64>) -> Result<()> {
    let insert = connection.prepare(&format!("INSERT INTO {table} VALUES (?, ?, ?)"))?;
    let mut transaction = connection.transaction()?;
    for id in ids {
        let (id, name, amount) = values(id);
        insert.ask(&mut transaction, &[Param::Integer(id), Param::Text(name), Param::Double(amount)])?;
    }
    transaction.commit()
}

/// Runs the measurement with `rows` rows of each way, in turns. The report has the best rate of each, in rows a second.
/// `directory` is made again for each turn.
pub fn run(directory: &Path, rows: i64, turns: usize) -> Result<Map<String, Value>> {
    let failed = |error| Error::io(directory.display(), &error);
    let mut best = vec![0.0_f64; WAYS.len()];
    for _ in 0..turns {
        for ((_, way), best) in WAYS.iter().zip(&mut best) {
            if directory.exists() {
                fs::remove_dir_all(directory).map_err(failed)?;
            }
            let database = Database::open_with(directory, Options::new().set("durability", "relaxed")?)?;
            let mut connection = database.connect()?;
            connection.execute_batch(TABLES)?;
            let begun = Instant::now();
            way(&mut connection, 0..rows)?;
            *best = best.max(rows as f64 / begun.elapsed().as_secs_f64());
        }
    }
    Ok(WAYS.iter().zip(best).map(|((name, _), rate)| ((*name).to_owned(), json!(rate.round()))).collect())
}
