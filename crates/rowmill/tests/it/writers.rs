//! Writers that commit faster than checkpoints empty the memory. They wait, and none of them is refused.

use rowmill::{Database, ErrorKind, Options};

const MEMORY_LIMIT: u64 = 48_000_000;

fn small_database() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options::new().set("memory_limit", &MEMORY_LIMIT.to_string()).expect("a limit");
    let database = Database::open_with(folder.path(), options).expect("a new database");
    let mut connection = database.connect().expect("a connection");
    connection.execute("CREATE TABLE notes (id BIGINT PRIMARY KEY, size BIGINT, note TEXT)").expect("a table");
    (folder, database)
}

/// An INSERT of `rows` rows with about 110 bytes each, from id `first` on.
fn insert(first: u64, rows: u64) -> String {
    format!(
        "INSERT INTO notes SELECT x, x * 7 % 1000003, 'note ' || x || repeat(' and more of its text', 4)
         FROM generate_series({first}, {}) s(x)",
        first + rows - 1
    )
}

#[test]
fn writers_that_outrun_the_checkpoint_wait_for_it() {
    const WRITERS: u64 = 2;
    const COMMITS: u64 = 40;
    const ROWS: u64 = 20_000;
    let (_folder, database) = small_database();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut connection = database.connect().expect("a connection");
            scope.spawn(move || {
                for commit in 0..COMMITS {
                    let first = (writer * COMMITS + commit) * ROWS + 1;
                    connection.execute(&insert(first, ROWS)).unwrap_or_else(|error| panic!("commit {commit}: {error}"));
                }
            });
        }
    });
    let mut connection = database.connect().expect("a connection");
    let rows = connection.query("SELECT count(*), sum(id) FROM notes").and_then(|rows| rows.rows()).expect("rows");
    let count = (WRITERS * COMMITS * ROWS) as i64;
    assert_eq!(rows[0].get::<i64>(0).expect("a count"), count);
    let peak = database.memory_peak_bytes();
    assert!(peak <= MEMORY_LIMIT, "{peak} bytes were granted");
}

#[test]
fn versions_that_an_open_transaction_reads_fill_the_memory_and_are_freed_after_it() {
    let (_folder, database) = small_database();
    let (mut reader, mut writer) = (database.connect().expect("one"), database.connect().expect("another"));
    writer.execute(&insert(1, 10_000)).expect("room");
    reader.execute("BEGIN").expect("a transaction");
    let count = "SELECT count(*) FROM notes WHERE size >= 0";
    reader.query(count).and_then(|rows| rows.rows()).expect("rows");
    let refused = (1..100).find_map(|commit| writer.execute(&insert(commit * 20_000, 20_000)).err());
    let refused = refused.expect("versions fill the memory");
    assert_eq!(refused.kind(), ErrorKind::MemoryLimit);
    assert!(refused.message().contains("recent rows of keyed tables"), "{refused}");
    let rows = reader.query(count).and_then(|rows| rows.rows()).expect("rows");
    assert_eq!(rows[0].get::<i64>(0).expect("a count"), 10_000);
    reader.execute("COMMIT").expect("the end");
    for commit in 100..130 {
        writer.execute(&insert(commit * 20_000, 20_000)).unwrap_or_else(|error| panic!("commit {commit}: {error}"));
    }
}
