//! Writers that commit faster than checkpoints empty the memory. They wait, and none of them is refused.

use rowmill::{Database, ErrorKind, Options};

const MEMORY_LIMIT: u64 = 48_000_000;

fn small_database() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options::new().set("memory_limit", &MEMORY_LIMIT.to_string()).expect("a limit");
    let database = Database::open_with(folder.path(), options).expect("a new database");
    let mut connection = database.connect().expect("a connection");
    connection.execute_batch("CREATE TABLE notes (id BIGINT PRIMARY KEY, size BIGINT, note TEXT)").expect("a table");
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
                    connection
                        .execute_batch(&insert(first, ROWS))
                        .unwrap_or_else(|error| panic!("commit {commit}: {error}"));
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
fn versions_that_an_open_transaction_reads_fill_memory_and_disk_and_are_freed_after_it() {
    let (_folder, database) = small_database();
    let mut settings = database.connect().expect("a connection");
    settings.execute_batch("SET temp_disk_limit = '64MB'").expect("a limit");
    let (mut reader, mut writer) = (database.connect().expect("one"), database.connect().expect("another"));
    writer.execute_batch(&insert(1, 10_000)).expect("room");
    reader.execute_batch("BEGIN").expect("a transaction");
    let count = "SELECT count(*) FROM notes WHERE size >= 0";
    reader.query(count).and_then(|rows| rows.rows()).expect("rows");
    let refused = (1..100).find_map(|commit| writer.execute_batch(&insert(commit * 20_000, 20_000)).err());
    let refused = refused.expect("versions fill memory and disk");
    assert!(matches!(refused.kind(), ErrorKind::MemoryLimit | ErrorKind::DiskFull), "{refused}");
    assert!(refused.message().contains("keyed"), "{refused}");
    let rows = reader.query(count).and_then(|rows| rows.rows()).expect("rows");
    assert_eq!(rows[0].get::<i64>(0).expect("a count"), 10_000);
    reader.execute_batch("COMMIT").expect("the end");
    for commit in 100..130 {
        writer
            .execute_batch(&insert(commit * 20_000, 20_000))
            .unwrap_or_else(|error| panic!("commit {commit}: {error}"));
    }
}

#[test]
fn a_transaction_writes_more_than_memory_holds() {
    const ROWS: u64 = 400_000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || {
        let options = Options::new().set("memory_limit", "24000000").expect("a limit");
        Database::open_with(folder.path(), options).expect("a database")
    };
    let numbers = |connection: &mut rowmill::Connection, sql: &str| {
        let rows = connection.query(sql).and_then(|rows| rows.rows()).expect(sql);
        (0..rows[0].len()).map(|at| rows[0].get::<i64>(at).expect("a number")).collect::<Vec<_>>()
    };
    const SUMS: &str = "SELECT count(*), sum(id), sum(size), sum(length(note)) FROM notes";
    let database = open();
    let mut connection = database.connect().expect("a connection");
    let mut run = |sql: &str| connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run("CREATE TABLE notes (id BIGINT PRIMARY KEY, size BIGINT, note TEXT)");
    run("CREATE INDEX by_size ON notes (size)");
    run("BEGIN");
    run(&insert(1, ROWS));
    // The second half of these rows exists, so that the statement is undone whole.
    let taken = connection.execute_batch(&insert(ROWS + 1 - 1_000, 2_000)).expect_err("taken keys");
    assert_eq!(taken.kind(), ErrorKind::UniqueViolation);
    let inserted = numbers(&mut connection, SUMS);
    assert_eq!(inserted[..2], [ROWS as i64, (ROWS * (ROWS + 1) / 2) as i64]);
    let mut run = |sql: &str| connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run("SAVEPOINT before_changes");
    run("UPDATE notes SET note = 'changed', size = size + 1 WHERE id % 2 = 0");
    run("DELETE FROM notes WHERE id % 5 = 0");
    run("ROLLBACK TO SAVEPOINT before_changes");
    assert_eq!(numbers(&mut connection, SUMS), inserted);
    let mut run = |sql: &str| connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run("UPDATE notes SET size = -id WHERE id % 4 = 1");
    run("COMMIT");
    let committed = numbers(&mut connection, SUMS);
    assert_eq!(committed[..2], inserted[..2]);
    let by_index = "SELECT count(*), sum(id) FROM notes WHERE size BETWEEN -1000 AND -1";
    assert_eq!(numbers(&mut connection, by_index), [250, 250 * 499]);
    let peak = database.memory_peak_bytes();
    assert!(peak <= 24_000_000 * 115 / 100, "{peak} bytes were granted");
    // All rows change, together with versions of them that are in memory.
    connection.execute_batch("UPDATE notes SET size = size + 7 WHERE id % 10 = 0").expect("changed");
    connection.execute_batch("UPDATE notes SET size = size + 1").expect("changed");
    let updated = numbers(&mut connection, SUMS);
    assert_eq!(updated[2], committed[2] + ROWS as i64 / 10 * 7 + ROWS as i64);
    drop((connection, database));

    let database = open();
    let mut connection = database.connect().expect("a connection");
    assert_eq!(numbers(&mut connection, SUMS), updated);
    let problems = connection.query("CHECK DATABASE").and_then(|rows| rows.rows()).expect("checked");
    assert!(problems.iter().all(|row| row.get::<Option<String>>(2).expect("a text").is_none()));
    connection.execute_batch("CHECKPOINT").expect("a checkpoint");
    let spills = numbers(&mut connection, "SELECT count(*) FROM rowmill_spills()");
    assert_eq!(spills, [0], "no temporary file is left");
}

#[test]
fn a_transaction_writes_on_while_others_hold_the_memory() {
    const ROWS: u64 = 200_000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options::new().set("memory_limit", "24000000").expect("a limit");
    let database = Database::open_with(folder.path(), options).expect("a database");
    let mut connection = database.connect().expect("a connection");
    let mut run = |sql: &str| connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    run("CREATE TABLE notes (id BIGINT PRIMARY KEY, size BIGINT, note TEXT)");
    run("CREATE TABLE source AS SELECT x AS id, x * 7 AS size, repeat('a note of some length ', 6) || x AS note
         FROM generate_series(1, 200000) s(x)");
    // After the first write, each statement reads its source to the end before it writes, so the source holds memory.
    run("BEGIN");
    run("INSERT INTO notes VALUES (0, 0, 'first')");
    run("INSERT INTO notes SELECT * FROM source WHERE id <= 100000");
    run("INSERT INTO notes SELECT * FROM source WHERE id > 100000");
    run("COMMIT");
    let rows = connection.query("SELECT count(*) FROM notes").and_then(|rows| rows.rows()).expect("rows");
    assert_eq!(rows[0].get::<i64>(0).expect("a count"), ROWS as i64 + 1);
}

#[test]
fn a_prepared_statement_that_finds_no_memory_names_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options::new().set("memory_limit", "17000000").expect("a limit");
    let options = options.set("temp_disk_limit", "1000000").expect("a limit");
    let database = Database::open_with(folder.path(), options).expect("a database");
    let mut connection = database.connect().expect("a connection");
    connection.execute_batch("CREATE TABLE notes (id BIGINT PRIMARY KEY, note TEXT); BEGIN").expect("made");
    let note = "x".repeat(100_000);
    let insert = connection.prepare("INSERT INTO notes VALUES (?, ?)").expect("a statement");
    let failed = (0..2_000).find_map(|id| {
        let values = [rowmill::Param::Integer(id), rowmill::Param::Text(&note)];
        insert.ask(&mut connection, &values).err()
    });
    let failed = failed.expect("the rows fill memory and disk");
    assert!(matches!(failed.kind(), ErrorKind::MemoryLimit | ErrorKind::DiskFull), "{failed}");
    assert!(failed.message().contains("in INSERT INTO notes VALUES (?, ?): "), "{failed}");
}
