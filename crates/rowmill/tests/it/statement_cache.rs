//! A statement that is run again with the same text must see every change made in between.

use rowmill::{Connection, Database};

fn one(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query(sql).expect("a query").rows().expect("rows");
    let texts = rows.iter().map(|row| row.get::<String>(0).expect("a text"));
    texts.collect::<Vec<_>>().join(" ")
}

const SUM: &str = "SELECT CAST(sum(n) AS TEXT) FROM t";

#[test]
fn a_cached_statement_sees_added_and_removed_rows() {
    let database = Database::memory().expect("memory");
    let (mut connection, mut other) = (database.connect().expect("one"), database.connect().expect("another"));
    connection.execute_batch("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (1), (2)").expect("a table");
    assert_eq!(one(&mut connection, SUM), "3");
    other.execute_batch("INSERT INTO t VALUES (10)").expect("a row");
    assert_eq!(one(&mut connection, SUM), "13");
    connection.execute_batch("BEGIN; DELETE FROM t WHERE n = 1").expect("a transaction");
    assert_eq!(one(&mut connection, SUM), "12");
    assert_eq!(one(&mut other, SUM), "13");
    connection.execute_batch("ROLLBACK").expect("the end of it");
    assert_eq!(one(&mut connection, SUM), "13");
}

#[test]
fn a_cached_statement_sees_another_table_under_the_same_name() {
    let mut connection = Database::memory().expect("memory").connect().expect("one");
    connection.execute_batch("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (7)").expect("a table");
    assert_eq!(one(&mut connection, SUM), "7");
    connection
        .execute_batch("DROP TABLE t; CREATE TABLE t (m TEXT, n INTEGER); INSERT INTO t VALUES ('x', 8)")
        .expect("another");
    assert_eq!(one(&mut connection, SUM), "8");
    connection
        .execute_batch("ALTER TABLE t DROP COLUMN n; ALTER TABLE t ADD COLUMN n DECIMAL(4, 1) DEFAULT 2.5")
        .expect("one more");
    assert_eq!(one(&mut connection, SUM), "2.5");
    connection.execute_batch("BEGIN; DROP TABLE t").expect("a transaction");
    connection.query(SUM).map(|_| ()).expect_err("no table");
    connection.execute_batch("ROLLBACK").expect("the end of it");
    assert_eq!(one(&mut connection, SUM), "2.5");
}

#[test]
fn a_cached_statement_sees_another_view_under_the_same_name() {
    let mut connection = Database::memory().expect("memory").connect().expect("one");
    connection.execute_batch("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (7), (8)").expect("a table");
    connection.execute_batch("CREATE VIEW v AS SELECT n FROM t").expect("a view");
    let sql = "SELECT CAST(max(n) AS TEXT) FROM v";
    assert_eq!(one(&mut connection, sql), "8");
    connection.execute_batch("CREATE OR REPLACE VIEW v AS SELECT n * 2 AS n FROM t").expect("another");
    assert_eq!(one(&mut connection, sql), "16");
}

#[test]
fn a_cached_statement_sees_changed_settings_and_the_current_time() {
    let mut connection = Database::memory().expect("memory").connect().expect("one");
    connection.execute_batch("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (7), (8)").expect("a table");
    let plan = "EXPLAIN SELECT sum(n) FROM t";
    assert!(one(&mut connection, plan).contains("Group: sum(n)"));
    connection.execute_batch("SET batch_rows = 1").expect("a setting");
    assert_eq!(one(&mut connection, SUM), "15");
    connection.execute_batch("RESET batch_rows").expect("a setting");
    let now = "SELECT CAST(now() AS TEXT) || CAST(max(n) AS TEXT) FROM t";
    let first = one(&mut connection, now);
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_ne!(first, one(&mut connection, now));
}

#[test]
fn a_text_answers_alike_with_and_without_a_semicolon_and_with_parameters() {
    let mut connection = Database::memory().expect("memory").connect().expect("one");
    connection.execute_batch("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (7), (8)").expect("a table");
    for sql in [SUM, &format!("{SUM};"), &format!("  {SUM} ; "), SUM] {
        assert_eq!(one(&mut connection, sql), "15");
    }
    let sql = "SELECT CAST(count(*) AS TEXT) FROM t WHERE n > ?";
    for (bound, expected) in [(7_i64, "1"), (6, "2"), (7, "1")] {
        let rows = connection.query_with(sql, [bound]).expect("a query").rows().expect("a row");
        assert_eq!(rows[0].get::<String>(0).expect("a text"), expected);
    }
}

#[test]
fn a_connection_goes_on_with_the_statements_of_a_closed_one() {
    let database = Database::memory().expect("memory");
    let asked = |number: i64| {
        // The values of the parameters have other types than the columns.
        let sql = "SELECT name FROM t WHERE id = ?1 AND part IN (?2, 9)";
        let mut connection = database.connect().expect("a connection");
        let rows = connection.query_with(sql, [number, 2]).expect("a query").rows().expect("rows");
        rows.iter().map(|row| row.get::<String>("name").expect("a text")).collect::<Vec<_>>().join(" ")
    };
    let execute = |sql: &str| database.connect().expect("a connection").execute_batch(sql).expect(sql);
    execute("CREATE TABLE t (id SMALLINT, part TINYINT, name TEXT, PRIMARY KEY (id, part))");
    execute("INSERT INTO t VALUES (7, 2, 'a'), (7, 3, 'b'), (7, 9, 'c')");
    assert_eq!((asked(7), asked(7), asked(8)), ("a c".into(), "a c".into(), String::new()));
    // A number that is no SMALLINT is a value like any other.
    assert_eq!(asked(70_000), "");
    execute("INSERT INTO t VALUES (8, 2, 'd')");
    assert_eq!(asked(8), "d");
    execute("DROP TABLE t");
    execute("CREATE TABLE t (name TEXT, id BIGINT PRIMARY KEY, part BIGINT)");
    execute("INSERT INTO t VALUES ('e', 7, 9)");
    assert_eq!(asked(7), "e");
    // A setting of a connection must not outlive it.
    let mut connection = database.connect().expect("a connection");
    connection.execute_batch("SET statement_timeout_ms = 1").expect("a setting");
    drop(connection);
    let rows = database.connect().expect("a connection").query("SHOW statement_timeout_ms").expect("it").rows();
    assert_eq!(rows.expect("rows")[0].get::<String>(0).expect("a text"), "0");
}
