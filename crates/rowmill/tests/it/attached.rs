//! Attached directories: several connections, transactions, locks and restarts. `tests/slt/statements/attach.slt` has
//! the statements of one connection.

use std::path::Path;

use rowmill::{Connection, Database, ErrorKind, Options, Result};

fn number(connection: &mut Connection, sql: &str) -> Result<i64> {
    let rows = connection.query(sql)?.rows()?;
    rows[0].get(0)
}

fn attach(connection: &mut Connection, folder: &Path, name: &str, options: &str) -> Result<()> {
    connection.execute_batch(&format!("ATTACH '{}' AS {name} {options}", folder.display())).map(|_| ())
}

/// A database with one columnar and one keyed table.
fn filled(folder: &Path) -> Result<()> {
    let sql = "CREATE TABLE t AS SELECT n FROM range(1000) AS r(n);
               CREATE TABLE k (id INTEGER PRIMARY KEY, a TEXT);
               INSERT INTO k SELECT n, 'a' || n FROM range(1000) AS r(n)";
    Database::open(folder)?.connect()?.execute_batch(sql).map(|_| ())
}

#[test]
fn rows_written_to_an_attached_directory_are_there_when_it_is_opened_again() -> Result<()> {
    let (own, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let folder = other.path().join("other");
    {
        let database = Database::open(own.path())?;
        let mut connection = database.connect()?;
        attach(&mut connection, &folder, "other", "")?;
        connection.execute_batch("CREATE TABLE other.t (n BIGINT); INSERT INTO other.t VALUES (1), (2)")?;
        // All connections see it. The keyed table is written by a prepared statement, as a program would be.
        let mut second = database.connect()?;
        second.execute_batch("CREATE TABLE other.k (id BIGINT PRIMARY KEY)")?;
        for id in 0..3_i64 {
            second.execute("INSERT INTO other.k VALUES ($1)", (id,))?;
        }
        assert_eq!(number(&mut connection, "SELECT count(*) FROM other.k JOIN other.t ON id = n")?, 2);
        // The directory has its own lock.
        let error = Database::open(&folder).expect_err("this process has it open");
        assert_eq!(error.kind(), ErrorKind::Locked);
    }
    assert_eq!(number(&mut Database::open(&folder)?.connect()?, "SELECT sum(n) FROM t")?, 3);
    assert_eq!(number(&mut Database::open(&folder)?.connect()?, "SELECT count(*) FROM k")?, 3);
    Ok(())
}

#[test]
fn a_detached_directory_can_be_opened_by_others() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    filled(folder.path())?;
    let mut connection = Database::memory()?.connect()?;
    attach(&mut connection, folder.path(), "other", "")?;
    connection.execute_batch("CREATE TABLE own AS SELECT n FROM other.t; DETACH other")?;
    assert_eq!(number(&mut Database::open(folder.path())?.connect()?, "SELECT count(*) FROM t")?, 1000);
    Ok(())
}

#[test]
fn a_directory_attached_for_reading_follows_its_writer_and_refuses_writes() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    filled(folder.path())?;
    let mut connection = Database::memory()?.connect()?;
    attach(&mut connection, folder.path(), "other", "(READ_ONLY)")?;
    assert_eq!(number(&mut connection, "SELECT count(*) FROM other.k WHERE a LIKE 'a1%'")?, 111);
    let error = connection.execute("INSERT INTO other.t VALUES (1)", ()).expect_err("for reading");
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(error.to_string().contains("attached for reading only"), "{error}");
    Ok(())
}

#[test]
fn a_transaction_reads_several_databases_and_writes_one() -> Result<()> {
    let database = Database::memory()?;
    let (mut connection, mut other) = (database.connect()?, database.connect()?);
    connection.execute_batch("CREATE TABLE t (n BIGINT); ATTACH ':memory:' AS side; CREATE TABLE side.t (n BIGINT)")?;
    connection.execute_batch("BEGIN; INSERT INTO side.t VALUES (1); SAVEPOINT s; INSERT INTO side.t VALUES (2)")?;
    assert_eq!(number(&mut connection, "SELECT count(*) FROM side.t, (SELECT count(*) FROM t)")?, 2);
    assert_eq!(number(&mut other, "SELECT count(*) FROM side.t")?, 0);
    let error = connection.execute("INSERT INTO t VALUES (1)", ()).expect_err("a second database");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("writes one database"), "{error}");
    // Also with parameters, whose rows otherwise wait in the transaction.
    connection.execute("INSERT INTO t VALUES ($1)", (1_i64,)).expect_err("a second database");
    connection.execute_batch("ROLLBACK TO s; COMMIT")?;
    assert_eq!(number(&mut other, "SELECT count(*) FROM side.t")?, 1);

    // What a transaction has read of another database does not change until it ends.
    connection.execute_batch("BEGIN")?;
    assert_eq!(number(&mut connection, "SELECT count(*) FROM side.t")?, 1);
    other.execute_batch("INSERT INTO side.t VALUES (3)")?;
    assert_eq!(number(&mut connection, "SELECT count(*) FROM side.t")?, 1);
    let error = connection.execute("DETACH side", ()).expect_err("in use");
    assert!(error.to_string().contains("the open transaction reads"), "{error}");
    connection.execute_batch("ROLLBACK")?;
    assert_eq!(number(&mut connection, "SELECT count(*) FROM side.t")?, 2);

    connection.execute_batch("BEGIN; INSERT INTO side.t VALUES (4); ROLLBACK")?;
    assert_eq!(number(&mut other, "SELECT count(*) FROM side.t")?, 2);
    connection.execute_batch("BEGIN READ ONLY")?;
    assert_eq!(connection.execute("DELETE FROM side.t", ()).expect_err("for reading").kind(), ErrorKind::ReadOnly);
    connection.execute_batch("COMMIT")?;
    Ok(())
}

#[test]
fn tables_of_two_databases_with_the_same_numbers_are_not_mixed_up() -> Result<()> {
    // Both first tables have the same number, and both have a plan and a program that a cache could give to the other.
    let mut connection = Database::memory()?.connect()?;
    let table = "(id BIGINT PRIMARY KEY, a BIGINT)";
    connection
        .execute_batch(&format!("ATTACH ':memory:' AS side; CREATE TABLE t {table}; CREATE TABLE side.t {table}"))?;
    connection.execute_batch("INSERT INTO t VALUES (1, 10); INSERT INTO side.t VALUES (1, 20)")?;
    for _ in 0..3 {
        assert_eq!(number(&mut connection, "SELECT a FROM t WHERE id = 1")?, 10);
        assert_eq!(number(&mut connection, "SELECT a FROM side.t WHERE id = 1")?, 20);
        connection.execute("UPDATE side.t SET a = a + $1 WHERE id = $2", (0_i64, 1_i64))?;
        connection.execute_batch("USE side")?;
        assert_eq!(number(&mut connection, "SELECT a FROM t WHERE id = 1")?, 20);
        assert_eq!(number(&mut connection, "SELECT a FROM rowmill.t WHERE id = 1")?, 10);
        connection.execute_batch("USE rowmill")?;
    }
    let prepared = connection.prepare("SELECT a FROM side.t WHERE id = $1")?;
    for _ in 0..3 {
        assert_eq!(prepared.query(&mut connection, (1_i64,))?.rows()?[0].get::<i64>(0)?, 20);
    }
    Ok(())
}

#[test]
fn attached_databases_share_the_memory_of_the_first() -> Result<()> {
    let database = Database::memory_with(Options::new().set("memory_limit", "64MB")?)?;
    let mut connection = database.connect()?;
    connection.execute_batch("ATTACH ':memory:' AS side")?;
    let used = "SELECT used_bytes::BIGINT FROM rowmill_memory() WHERE resource = 'memory' AND holder IS NULL";
    let before = number(&mut connection, used)?;
    connection.execute_batch("CREATE TABLE side.t (id BIGINT PRIMARY KEY, text TEXT)")?;
    connection.execute_batch("INSERT INTO side.t SELECT n, 'row ' || n FROM range(20000) AS r(n)")?;
    assert!(number(&mut connection, used)? > before + 100_000);
    Ok(())
}
