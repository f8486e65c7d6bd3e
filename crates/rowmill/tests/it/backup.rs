//! Statements that back up, restore and vacuum a database.

use rowmill::Database;

#[test]
fn a_restored_backup_has_the_rows_of_the_moment_of_the_backup() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path in UTF-8").to_owned();
    let database = Database::open(path("first")).expect("a database");
    let mut connection = database.connect().expect("a connection");
    connection
        .execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT);
             CREATE TABLE events (at INTEGER, t INTEGER);
             INSERT INTO t SELECT n, 'name ' || n FROM generate_series(1, 1000) AS s(n);
             INSERT INTO events SELECT n, n % 1000 FROM generate_series(1, 5000) AS s(n);
             DELETE FROM t WHERE id > 900",
        )
        .expect("filled");
    let (backup, restored) = (path("backup"), path("restored"));
    connection.execute_batch(&format!("BACKUP DATABASE TO '{backup}'")).expect("backed up");
    connection.execute_batch("DELETE FROM t; VACUUM").expect("emptied");
    let again = connection.execute_batch(&format!("BACKUP DATABASE TO '{backup}'")).expect_err("the folder is taken");
    assert!(again.to_string().contains("backup"), "{again}");
    connection.execute_batch(&format!("RESTORE DATABASE FROM '{backup}' TO '{restored}'")).expect("restored");

    let copy = Database::open(&restored).expect("a database");
    let mut copied = copy.connect().expect("a connection");
    let count = |connection: &mut rowmill::Connection, sql: &str| {
        connection.query(sql).and_then(|rows| rows.rows()).expect("rows")[0].get::<i64>(0).expect("a number")
    };
    assert_eq!(count(&mut copied, "SELECT count(*) FROM t JOIN events ON events.t = t.id"), 4500);
    assert_eq!(count(&mut connection, "SELECT count(*) FROM t"), 0);
}
