//! Temporary tables of several connections. `tests/slt/statements/temporary_table.slt` has what one connection sees.

use rowmill::{Connection, Database, ErrorKind, Result};

fn numbers(connection: &mut Connection, sql: &str) -> Result<Vec<i64>> {
    connection.query(sql)?.rows()?.iter().map(|row| row.get(0)).collect()
}

#[test]
fn a_temporary_table_belongs_to_its_connection_and_ends_with_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = Database::open(folder.path()).expect("opens");
    let (mut one, mut two) = (database.connect().expect("connects"), database.connect().expect("connects"));
    one.execute_batch("CREATE TABLE t AS SELECT 1 AS a; CREATE TEMP TABLE t AS SELECT 2 AS a").expect("made");
    two.execute_batch("CREATE TEMP TABLE own (a INTEGER); INSERT INTO own VALUES (3)").expect("made");
    assert_eq!(numbers(&mut one, "SELECT a FROM t").expect("read"), [2]);
    assert_eq!(numbers(&mut two, "SELECT a FROM t").expect("read"), [1]);
    let error = numbers(&mut one, "SELECT a FROM own").expect_err("a table of another connection");
    assert_eq!(error.kind(), ErrorKind::UndefinedTable);
    assert!(!error.to_string().contains("pg_temp_"), "{error}");
    // Statements that one connection has prepared do not reach another one.
    drop(one);
    let mut three = database.connect().expect("connects");
    assert_eq!(numbers(&mut three, "SELECT a FROM t").expect("read"), [1]);
    drop(two);
    let left = "SELECT count(*) FROM information_schema.tables WHERE table_schema LIKE 'pg_temp%'";
    assert_eq!(numbers(&mut three, left).expect("read"), [0]);
}

#[test]
fn a_temporary_view_belongs_to_its_connection_and_ends_with_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = Database::open(folder.path()).expect("opens");
    let (mut one, mut two) = (database.connect().expect("connects"), database.connect().expect("connects"));
    one.execute_batch("CREATE TABLE t AS SELECT 1 AS a; CREATE TEMP TABLE u AS SELECT 2 AS a").expect("made");
    one.execute_batch("CREATE TEMP VIEW t AS SELECT t.a + u.a AS a FROM t, u").expect("made");
    assert_eq!(numbers(&mut one, "SELECT a FROM t").expect("read"), [3]);
    assert_eq!(numbers(&mut two, "SELECT a FROM t").expect("read"), [1]);
    drop(one);
    assert_eq!(numbers(&mut two, "SELECT a FROM t").expect("read"), [1]);
    let left = "SELECT count(*) FROM information_schema.views WHERE table_schema LIKE 'pg_temp%'";
    assert_eq!(numbers(&mut two, left).expect("read"), [0]);
}

#[test]
fn a_connection_that_closes_in_a_transaction_drops_its_temporary_tables() {
    let database = Database::memory().expect("opens");
    let mut one = database.connect().expect("connects");
    one.execute_batch("CREATE TEMP TABLE t (a INTEGER); BEGIN; INSERT INTO t VALUES (1)").expect("made");
    drop(one);
    let mut two = database.connect().expect("connects");
    assert_eq!(
        numbers(&mut two, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pg_temp%'").expect("read"),
        [0]
    );
}

#[test]
fn a_connection_can_drop_its_temporary_tables_and_make_others() -> Result<()> {
    let mut connection = Database::memory()?.connect()?;
    connection.drop_temporary_tables()?;
    connection.execute_batch("CREATE TEMP TABLE k (id INTEGER PRIMARY KEY)")?;
    connection.execute_batch("CREATE TEMP TABLE child (id SERIAL, k INTEGER)")?;
    connection.drop_temporary_tables()?;
    connection.drop_temporary_tables()?;
    assert_eq!(numbers(&mut connection, "SELECT id FROM k").unwrap_err().kind(), ErrorKind::UndefinedTable);
    connection.execute_batch("CREATE TEMP TABLE k AS SELECT 5 AS id")?;
    assert_eq!(numbers(&mut connection, "SELECT id FROM k")?, [5]);
    Ok(())
}

#[test]
fn temporary_tables_of_a_crashed_process_are_dropped_at_the_next_opening() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = Database::open(folder.path()).expect("opens");
    let mut transaction = database.engine().begin().expect("begins");
    let schema = transaction.create_schema("pg_temp_77").expect("made");
    let columns = vec![rowmill_txn::ColumnSpec::new("a", rowmill_base::SqlType::Int64)];
    transaction.create_table(schema, "left", columns).expect("made");
    transaction.commit().expect("commits");
    drop(database);
    let database = Database::open(folder.path()).expect("opens again");
    assert!(database.engine().snapshot().expect("a snapshot").catalog().schema("pg_temp_77").is_none());
}

#[test]
fn prepared_statements_and_appenders_find_temporary_tables() {
    let database = Database::memory().expect("opens");
    let mut connection = database.connect().expect("connects");
    connection.execute_batch("CREATE TEMP TABLE t (id INTEGER PRIMARY KEY, v TEXT)").expect("made");
    let insert = connection.prepare("INSERT INTO t VALUES (?, ?)").expect("prepared");
    for id in 0..3 {
        assert_eq!(insert.execute(&mut connection, (id, "x")).expect("inserted"), 1);
    }
    let mut appender = connection.appender("t").expect("an appender");
    appender.append_row((3, "y")).expect("appended");
    appender.finish().expect("finished");
    // A schema before the name means that table, whatever hides it.
    connection.execute_batch("CREATE TABLE main.t (n BIGINT)").expect("made");
    let mut appender = connection.appender("main.t").expect("an appender");
    appender.append_row((7,)).expect("appended");
    appender.finish().expect("finished");
    assert_eq!(numbers(&mut connection, "SELECT n FROM main.t").expect("read"), [7]);
    assert_eq!(numbers(&mut connection, "SELECT id FROM t ORDER BY id").expect("read"), [0, 1, 2, 3]);
    assert_eq!(numbers(&mut connection, "SELECT id FROM t WHERE v = 'y'").expect("read"), [3]);
}
