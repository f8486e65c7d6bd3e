//! Inserts rows into a table with a primary key by prepared statement: many in one transaction, then some in a commit
//! each without waiting for the disk. Rowmill and SQLite take turns, because a machine's speed changes from minute to
//! minute.

use std::fs;
use std::path::Path;
use std::time::Instant;

use rowmill::{Database, Options, Param};
use rowmill_base::{Error, Result};
use serde_json::{Map, Value, json};

const TABLE: &str = "CREATE TABLE rows_of (id BIGINT PRIMARY KEY, name TEXT NOT NULL, amount BIGINT, moment BIGINT)";
const INSERT: &str = "INSERT INTO rows_of VALUES (?, ?, ?, ?)";

/// The parameters of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Inserts<'a> {
    /// The directory of both databases, which we make again for each turn.
    pub directory: &'a Path,
    /// The rows of the single transaction.
    pub rows: i64,
    /// The rows after these that are committed one by one.
    pub commits: i64,
    /// The turns of each engine.
    pub turns: usize,
}

/// Rates in rows per second.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    transaction: f64,
    commits: f64,
}

impl Rates {
    fn best(self, other: Rates) -> Rates {
        Rates { transaction: self.transaction.max(other.transaction), commits: self.commits.max(other.commits) }
    }
}

/// Runs the measurement. The report has the best of all turns, and the quotients.
pub fn run(inserts: &Inserts<'_>) -> Result<Map<String, Value>> {
    let failed = |error| Error::io(inserts.directory.display(), &error);
    let (mut ours, mut theirs) = (Rates::default(), Rates::default());
    for _ in 0..inserts.turns {
        for name in ["rowmill", "sqlite"] {
            let folder = inserts.directory.join(name);
            // Each turn starts with an empty folder, because the size of a tree changes the time of an insert.
            if folder.exists() {
                fs::remove_dir_all(&folder).map_err(failed)?;
            }
            fs::create_dir_all(&folder).map_err(failed)?;
            match name {
                "rowmill" => ours = ours.best(rowmill(&folder, inserts)?),
                _ => theirs = theirs.best(sqlite(&folder.join("db"), inserts).map_err(sqlite_error)?),
            }
        }
    }
    let of = |rates: Rates| {
        json!({
            "one_transaction_rows_per_second": rates.transaction.round(),
            "one_row_commits_per_second": rates.commits.round(),
        })
    };
    let quotient = |ours: f64, theirs: f64| json!((ours / theirs * 100.0).round() / 100.0);
    Ok(Map::from_iter([
        ("rowmill".to_owned(), of(ours)),
        ("sqlite".to_owned(), of(theirs)),
        ("one_transaction".to_owned(), quotient(ours.transaction, theirs.transaction)),
        ("one_row_commits".to_owned(), quotient(ours.commits, theirs.commits)),
    ]))
}

/// Writes the name of a row.
fn name(id: i64, name: &mut String) {
    use std::fmt::Write;
    name.clear();
    let _ = write!(name, "the name of row {id}");
}

fn rowmill(folder: &Path, inserts: &Inserts<'_>) -> Result<Rates> {
    let database = Database::open_with(folder, Options::new().set("durability", "relaxed")?)?;
    let mut connection = database.connect()?;
    connection.execute_batch(TABLE)?;
    let insert = connection.prepare(INSERT)?;
    let mut text = String::new();
    let mut one = |connection: &mut _, id: i64| -> Result<()> {
        name(id, &mut text);
        let amount = Param::Integer(id * 7 % 1_000);
        insert.ask(connection, &[Param::Integer(id), Param::Text(&text), amount, Param::Integer(id)]).map(drop)
    };
    let begun = Instant::now();
    connection.begin(false)?;
    (0..inserts.rows).try_for_each(|id| one(&mut connection, id))?;
    connection.commit()?;
    let transaction = inserts.rows as f64 / begun.elapsed().as_secs_f64();
    // These rows follow the rows of the transaction, so both engines append to a tree of the same size.
    let begun = Instant::now();
    (0..inserts.commits).try_for_each(|id| one(&mut connection, inserts.rows + id))?;
    Ok(Rates { transaction, commits: inserts.commits as f64 / begun.elapsed().as_secs_f64() })
}

fn sqlite(path: &Path, inserts: &Inserts<'_>) -> rusqlite::Result<Rates> {
    let connection = rusqlite::Connection::open(path)?;
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -1048576;")?;
    connection.execute_batch(&TABLE.replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY"))?;
    let mut insert = connection.prepare(INSERT)?;
    let mut text = String::new();
    let mut one = |id: i64| -> rusqlite::Result<()> {
        name(id, &mut text);
        insert.execute(rusqlite::params![id, text, id * 7 % 1_000, id]).map(drop)
    };
    let begun = Instant::now();
    connection.execute_batch("BEGIN")?;
    (0..inserts.rows).try_for_each(&mut one)?;
    connection.execute_batch("COMMIT")?;
    let transaction = inserts.rows as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    (0..inserts.commits).try_for_each(|id| one(inserts.rows + id))?;
    Ok(Rates { transaction, commits: inserts.commits as f64 / begun.elapsed().as_secs_f64() })
}

fn sqlite_error(error: rusqlite::Error) -> Error {
    Error::internal(format!("SQLite: {error}"))
}
