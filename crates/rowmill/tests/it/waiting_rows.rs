//! Rows of prepared INSERT statements that wait within a transaction: whatever comes next must see them, or undo them,
//! as if they had been stored at once.

use rowmill::{Connection, ErrorKind, Param, Result, Statement};

fn opened(definitions: &str) -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(definitions).unwrap();
    connection
}

fn numbers(connection: &mut Connection) -> Vec<i64> {
    connection.query_as("SELECT n FROM t ORDER BY n", ()).unwrap()
}

fn insert(connection: &mut Connection) -> Statement {
    connection.prepare("INSERT INTO t (n) VALUES (?)").unwrap()
}

const TABLE: &str = "CREATE TABLE t (n BIGINT NOT NULL, s VARCHAR(3) DEFAULT 'abc')";

#[test]
fn the_next_statement_sees_them() -> Result<()> {
    let mut connection = opened(TABLE);
    let insert = insert(&mut connection);
    let mut other = connection.transaction()?;
    for n in 0..40_000 {
        assert_eq!(insert.execute(&mut other, [n])?, 1);
    }
    assert_eq!(
        other.query_as::<(i64, i64)>("SELECT count(*), sum(n) FROM t WHERE s = 'abc'", ())?,
        [(40_000, 799_980_000)]
    );
    assert_eq!(insert.ask(&mut other, &[Param::Integer(7)])?.changed(), 1);
    assert_eq!(other.execute("UPDATE t SET n = -1 WHERE n = 7", ())?, 2);
    insert.execute(&mut other, [8])?;
    assert_eq!(other.execute("DELETE FROM t WHERE n > -1", ())?, 40_000);
    other.commit()?;
    assert_eq!(numbers(&mut connection), [-1, -1]);
    Ok(())
}

#[test]
fn savepoints_and_rollbacks_undo_them() -> Result<()> {
    let mut connection = opened(TABLE);
    let insert = insert(&mut connection);
    let mut transaction = connection.transaction()?;
    insert.execute(&mut transaction, [1])?;
    transaction.execute("SAVEPOINT a", ())?;
    insert.execute(&mut transaction, [2])?;
    transaction.execute("ROLLBACK TO a", ())?;
    insert.execute(&mut transaction, [3])?;
    let mut savepoint = transaction.savepoint()?;
    insert.execute(&mut savepoint, [4])?;
    savepoint.rollback()?;
    let mut savepoint = transaction.savepoint()?;
    insert.execute(&mut savepoint, [5])?;
    savepoint.commit()?;
    transaction.commit()?;
    assert_eq!(numbers(&mut connection), [1, 3, 5]);
    let mut transaction = connection.transaction()?;
    insert.execute(&mut transaction, [6])?;
    drop(transaction);
    assert_eq!(numbers(&mut connection), [1, 3, 5]);
    Ok(())
}

#[test]
fn a_wrong_value_fails_at_once_and_leaves_the_other_rows() -> Result<()> {
    let mut connection = opened(TABLE);
    let insert = connection.prepare("INSERT INTO t VALUES ($2, $1)")?;
    let mut transaction = connection.transaction()?;
    insert.execute(&mut transaction, ("a", 1))?;
    assert_eq!(insert.execute(&mut transaction, ("b", None::<i64>)).unwrap_err().kind(), ErrorKind::NotNullViolation);
    assert_eq!(insert.execute(&mut transaction, ("long", 2)).unwrap_err().kind(), ErrorKind::StringTooLong);
    assert!(insert.execute(&mut transaction, ("c", "no number")).is_err());
    assert!(insert.execute(&mut transaction, ("c",)).is_err());
    // Numbers are rounded, as by any other INSERT.
    insert.execute(&mut transaction, (5, 2.5))?;
    insert.execute(&mut transaction, (None::<String>, "3"))?;
    transaction.commit()?;
    let rows: Vec<(i64, Option<String>)> = connection.query_as("SELECT n, s FROM t ORDER BY n", ())?;
    assert_eq!(rows, [(1, Some("a".to_owned())), (2, Some("5".to_owned())), (3, None)]);
    Ok(())
}

#[test]
fn definitions_follow_them() -> Result<()> {
    let mut connection = opened(TABLE);
    let insert = insert(&mut connection);
    let mut transaction = connection.transaction()?;
    insert.execute(&mut transaction, [1])?;
    transaction.execute("ALTER TABLE t ADD COLUMN more BIGINT DEFAULT 9", ())?;
    insert.execute(&mut transaction, [2])?;
    let rows = transaction.query_as::<(i64, i64)>("SELECT n, more FROM t ORDER BY n", ())?;
    assert_eq!(rows, [(1, 9), (2, 9)]);
    insert.execute(&mut transaction, [3])?;
    transaction.execute("TRUNCATE t", ())?;
    insert.execute(&mut transaction, [4])?;
    transaction.execute("CREATE TABLE copy AS SELECT n FROM t", ())?;
    insert.execute(&mut transaction, [5])?;
    transaction.execute("DROP TABLE t", ())?;
    assert!(insert.execute(&mut transaction, [6]).is_err());
    transaction.commit()?;
    assert_eq!(connection.query_as::<i64>("SELECT n FROM copy", ())?, [4]);
    Ok(())
}

#[test]
fn two_tables_and_keyed_rows_take_turns() -> Result<()> {
    let mut connection = opened(&format!("{TABLE}; CREATE TABLE u (n BIGINT); CREATE TABLE k (n BIGINT PRIMARY KEY)"));
    let into = ["t (n)", "u", "k"].map(|table| connection.prepare(&format!("INSERT INTO {table} VALUES (?)")).unwrap());
    connection.execute("SET default_transaction_isolation = 'read committed'", ())?;
    let mut transaction = connection.transaction()?;
    for n in 0..300 {
        into.iter().try_for_each(|insert| insert.execute(&mut transaction, [n]).map(drop))?;
    }
    assert_eq!(into[2].execute(&mut transaction, [7]).unwrap_err().kind(), ErrorKind::UniqueViolation);
    transaction.commit()?;
    let sql = "SELECT count(*) FROM t JOIN u ON t.n = u.n JOIN k ON k.n = u.n";
    assert_eq!(connection.query_as::<i64>(sql, ())?, [300]);
    Ok(())
}

#[test]
fn only_plain_inserts_wait() -> Result<()> {
    let mut connection = opened(
        "CREATE TABLE t (n BIGINT, at TIMESTAMP DEFAULT now(), r DOUBLE DEFAULT random());
         CREATE TABLE d (ts TIMESTAMP, k TEXT, v BIGINT) TIMESTAMP(ts) DEDUP UPSERT KEYS (ts, k)",
    );
    let mut transaction = connection.transaction()?;
    for n in 0..3 {
        transaction.execute("INSERT INTO t (n) VALUES (?)", [n])?;
        assert_eq!(transaction.query_as::<i64>("INSERT INTO t (n) VALUES (?) RETURNING n + 1", [n])?, [n + 1]);
        transaction.execute("INSERT INTO t (n) VALUES (?), (?)", [n, n])?;
        transaction.execute("INSERT INTO t (n) VALUES (? + 1)", [n])?;
        transaction.execute("INSERT INTO t (n) SELECT ?", [n])?;
        transaction.execute("INSERT INTO d VALUES (?, ?, ?)", ("2024-01-01 00:00:00", "k", n))?;
    }
    transaction.commit()?;
    assert_eq!(connection.query_as::<(i64, i64)>("SELECT count(*), count(DISTINCT r) FROM t", ())?, [(18, 18)]);
    assert_eq!(connection.query_as::<(i64, i64)>("SELECT count(*), max(v) FROM d", ())?, [(1, 2)]);
    let mut reading = connection.transaction_with(rowmill::TransactionOptions::new().read_only(true))?;
    assert_eq!(reading.execute("INSERT INTO t (n) VALUES (?)", [1]).unwrap_err().kind(), ErrorKind::ReadOnly);
    Ok(())
}
