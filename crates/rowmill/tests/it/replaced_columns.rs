//! An UPDATE of a columnar table keeps the columns that it does not assign. Random changes of all rows, of some rows
//! and from another table must leave the rows that SQLite has after the same changes, and damage of a kept column must
//! be found before it is copied.

use std::path::Path;

use rowmill::arrow::array::ArrayRef;
use rowmill::text::format_value;
use rowmill::{Connection, Database, ErrorKind, Options};

use crate::differential::Random;

fn seed() -> u64 {
    std::env::var("ROWMILL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_201)
}

fn statements() -> usize {
    if std::env::var_os("ROWMILL_LONG").is_some() { 6_000 } else { 300 }
}

/// Blocks are small, so that a table has some of them, and both whole and partly changed ones.
fn open(path: &Path) -> Database {
    let options = [("rows_per_block", "64"), ("small_block_rows", "8")];
    let options = options.iter().try_fold(Options::new(), |options, (name, value)| options.set(name, value));
    Database::open_with(path, options.unwrap()).unwrap()
}

/// A statement that both engines understand. `added` is the number of rows that were ever added.
fn statement(random: &mut Random, added: &mut usize) -> String {
    let value = random.below(50);
    let condition = match random.below(8) {
        0..3 => String::new(),
        3 => format!(" WHERE id % 3 = {}", random.below(3)),
        4 => format!(" WHERE id < {}", random.below(*added + 1)),
        5 => format!(" WHERE a > {value}"),
        6 => format!(" WHERE id / 64 = {}", random.below(*added / 64 + 1)),
        _ => format!(" WHERE id = {}", random.below(*added + 1)),
    };
    match random.below(16) {
        0..2 => {
            let (first, rows) = (*added, 1 + random.below(200));
            *added += rows;
            let row = |id: usize| format!("({id}, {}, 'text {}', {}, NULL)", id % 23, id % 40, id % 7);
            let rows: Vec<String> = (first..first + rows).map(row).collect();
            format!("INSERT INTO t VALUES {}", rows.join(", "))
        }
        2 => format!("DELETE FROM t WHERE id % 29 = {}", random.below(29)),
        3..6 => format!("UPDATE t SET a = a + {value}{condition}"),
        6 => format!("UPDATE t SET a = NULL{condition}"),
        7..9 => format!("UPDATE t SET b = b || '{value}'{condition}"),
        9 => format!("UPDATE t SET b = 'w', c = a{condition}"),
        10 => format!("UPDATE t SET c = id, a = c{condition}"),
        11 => format!("UPDATE t SET late = {value}{condition}"),
        12..14 => format!(
            "UPDATE t SET a = other.v FROM (SELECT id AS k, a AS v FROM t WHERE id % 2 = {}) AS other
             WHERE t.id = other.k + 1",
            random.below(2)
        ),
        _ => format!("UPDATE t SET a = (SELECT max(id) FROM t), late = length(b){condition}"),
    }
}

fn rows_of(connection: &mut Connection) -> Vec<String> {
    let sql = "SELECT id, a, b, c, late FROM t ORDER BY id";
    let batches = connection.query(sql).unwrap().batches().unwrap();
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let value = |column: &ArrayRef| format_value(column, row).unwrap().unwrap_or_else(|| "NULL".to_owned());
            rows.push(batch.columns().iter().map(value).collect::<Vec<_>>().join(" | "));
        }
    }
    rows
}

fn rows_of_sqlite(sqlite: &rusqlite::Connection) -> Vec<String> {
    let mut rows = sqlite.prepare("SELECT id, a, b, c, late FROM t ORDER BY id").unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        let value = |column| match row.get_unwrap(column) {
            rusqlite::types::Value::Null => "NULL".to_owned(),
            rusqlite::types::Value::Integer(value) => value.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => panic!("{other:?}"),
        };
        Ok((0..5).map(value).collect::<Vec<_>>().join(" | "))
    };
    rows.query_map([], row).unwrap().map(Result::unwrap).collect()
}

#[test]
fn random_changes_leave_the_rows_that_sqlite_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = open(folder.path());
    let mut connection = database.connect().unwrap();
    let sqlite = rusqlite::Connection::open_in_memory().unwrap();
    let (seed, mut random, mut added) = (seed(), Random(seed()), 0);
    let table = "CREATE TABLE t (id BIGINT NOT NULL, a BIGINT, b TEXT, c BIGINT, late BIGINT)";
    connection.execute(table, ()).unwrap();
    sqlite.execute(table, ()).unwrap();
    for number in 0..statements() {
        if number == 20 {
            // From here on, earlier blocks have no chunk of the column.
            let columns = ["ALTER TABLE t DROP COLUMN late", "ALTER TABLE t ADD COLUMN late BIGINT DEFAULT 5"];
            for sql in columns {
                connection.execute(sql, ()).unwrap();
                sqlite.execute(sql, ()).unwrap();
            }
        }
        let in_transaction = random.below(3) == 0;
        let changes: Vec<String> = match in_transaction {
            true => (0..1 + random.below(4)).map(|_| statement(&mut random, &mut added)).collect(),
            false => vec![statement(&mut random, &mut added)],
        };
        let end = match in_transaction {
            true => Some(if random.below(3) == 0 { "ROLLBACK" } else { "COMMIT" }),
            false => None,
        };
        for sql in end.map(|_| "BEGIN").into_iter().chain(changes.iter().map(String::as_str)).chain(end) {
            let changed = connection.execute(sql, ()).unwrap_or_else(|error| panic!("seed {seed}: {sql}: {error}"));
            let wanted = sqlite.execute(sql, ()).unwrap_or_else(|error| panic!("seed {seed}: {sql}: {error}"));
            if !matches!(sql, "BEGIN" | "ROLLBACK" | "COMMIT") {
                assert_eq!(changed, wanted as u64, "seed {seed}, statement {number}: {sql}");
            }
        }
        assert_eq!(rows_of(&mut connection), rows_of_sqlite(&sqlite), "seed {seed}, statement {number}: {changes:?}");
        if number % 50 == 49 {
            drop(connection);
            drop(database);
            database = open(folder.path());
            connection = database.connect().unwrap();
            assert_eq!(rows_of(&mut connection), rows_of_sqlite(&sqlite), "seed {seed}: opened again");
            connection.execute_batch("CHECK DATABASE").unwrap();
        }
    }
}

#[test]
fn a_damaged_column_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    let mut connection = database.connect().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t (a BIGINT, b BIGINT);
             INSERT INTO t SELECT value, value * value FROM generate_series(1, 640) AS s(value);
             CHECKPOINT",
        )
        .unwrap();
    drop(connection);
    drop(database);
    let kept = std::fs::read_dir(folder.path().join("tables/0")).unwrap().map(|entry| entry.unwrap().path());
    let mut kept: Vec<_> = kept.collect();
    kept.sort();
    let file = kept.iter().find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('1')));
    let file = file.unwrap_or_else(|| panic!("a file of the second column: {kept:?}"));
    let mut bytes = std::fs::read(file).unwrap();
    // The end of a chunk is padding, so the damage is in the middle of the first one.
    bytes[300] ^= 1;
    std::fs::write(file, bytes).unwrap();
    let mut connection = open(folder.path()).connect().unwrap();
    let error = connection.execute("UPDATE t SET a = a + 1", ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let sum = connection.query("SELECT sum(a) FROM t").unwrap().batches().unwrap();
    assert_eq!(format_value(sum[0].column(0), 0).unwrap().as_deref(), Some("205120"), "the statement changed nothing");
}
