//! Transactions as PostgreSQL's clients expect them.

use tokio_postgres::error::SqlState;

use crate::support::{TestServer, runtime, with_client};

#[test]
fn after_an_error_a_transaction_only_ends() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (a INTEGER)").await.unwrap();
        client.batch_execute("BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
        assert!(client.batch_execute("SELECT nonsense").await.is_err());
        let refused = client.batch_execute("INSERT INTO t VALUES (2)").await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
        let refused = client.query("SELECT 1", &[]).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
        client.batch_execute("COMMIT").await.unwrap();
        assert!(client.query("SELECT * FROM t", &[]).await.unwrap().is_empty());
    });
}

#[test]
fn a_savepoint_saves_a_failed_transaction() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (a INTEGER)").await.unwrap();
        client.batch_execute("BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; INSERT INTO t VALUES (2)").await.unwrap();
        assert!(client.batch_execute("SELECT nonsense").await.is_err());
        client.batch_execute("ROLLBACK TO SAVEPOINT s").await.unwrap();
        client.batch_execute("INSERT INTO t VALUES (3); RELEASE s; COMMIT").await.unwrap();
        let rows = client.query("SELECT a FROM t ORDER BY a", &[]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1, 3]);
    });
}

#[test]
fn the_statements_of_one_text_are_one_transaction() {
    with_client(|client| async move {
        client.batch_execute("CREATE TABLE t (a INTEGER)").await.unwrap();
        assert!(client.batch_execute("INSERT INTO t VALUES (1); SELECT nonsense").await.is_err());
        assert!(client.query("SELECT * FROM t", &[]).await.unwrap().is_empty());
        client.batch_execute("INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2); COMMIT").await.unwrap();
        assert_eq!(client.query("SELECT * FROM t", &[]).await.unwrap().len(), 2);
        assert!(client.batch_execute("INSERT INTO t VALUES (3); COMMIT; SELECT nonsense").await.is_err());
        assert_eq!(client.query("SELECT * FROM t", &[]).await.unwrap().len(), 3);
    });
}

#[test]
fn ready_for_query_reports_the_state() {
    let server = TestServer::start();
    let mut client = server.raw();
    client.log_in();
    for (sql, state) in [
        ("SELECT 1", b'I'),
        ("BEGIN", b'T'),
        ("BEGIN", b'T'),
        ("SELECT nonsense", b'E'),
        ("ROLLBACK", b'I'),
        ("COMMIT", b'I'),
        ("START TRANSACTION READ ONLY", b'T'),
        ("END", b'I'),
    ] {
        client.send_message(b'Q', format!("{sql}\0").as_bytes());
        let messages = client.messages_until(b'Z');
        assert_eq!(messages.last().unwrap().1, [state], "{sql}");
    }
}

#[test]
fn transactions_of_a_driver_commit_and_roll_back() {
    let server = TestServer::start();
    runtime().block_on(async {
        let mut client = server.client().await;
        client.batch_execute("CREATE TABLE t (a INTEGER PRIMARY KEY)").await.unwrap();
        let transaction = client.transaction().await.unwrap();
        transaction.execute("INSERT INTO t VALUES ($1)", &[&1_i32]).await.unwrap();
        transaction.commit().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        transaction.execute("INSERT INTO t VALUES ($1)", &[&2_i32]).await.unwrap();
        transaction.rollback().await.unwrap();
        let transaction = client.build_transaction().read_only(true).start().await.unwrap();
        let error = transaction.execute("INSERT INTO t VALUES (3)", &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
        transaction.rollback().await.unwrap();
        assert_eq!(client.query("SELECT * FROM t", &[]).await.unwrap().len(), 1);

        let other = server.client().await;
        let transaction = client.transaction().await.unwrap();
        transaction.execute("UPDATE t SET a = 5 WHERE a = 1", &[]).await.unwrap();
        other.execute("UPDATE t SET a = 6 WHERE a = 1", &[]).await.unwrap();
        let error = transaction.commit().await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
    });
}

#[test]
fn a_session_may_only_read_by_default() {
    with_client(|client| async move {
        let shown = async |name: &str| -> String {
            let row = &client.simple_query(&format!("SHOW {name}")).await.unwrap()[1];
            let tokio_postgres::SimpleQueryMessage::Row(row) = row else { panic!("{row:?}") };
            row.get(0).unwrap().to_owned()
        };
        let refused = async |sql: &str| {
            let error = client.batch_execute(sql).await.unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION), "{sql}: {error:?}");
        };
        client.batch_execute("CREATE TABLE t (a BIGINT); SET default_transaction_read_only = on").await.unwrap();
        refused("INSERT INTO t VALUES (1)").await;
        refused("SELECT 1; INSERT INTO t VALUES (1)").await;
        let error = client.execute("INSERT INTO t VALUES ($1)", &[&1_i64]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
        assert_eq!(shown("transaction_read_only").await, "on");
        client.batch_execute("BEGIN").await.unwrap();
        refused("INSERT INTO t VALUES (1)").await;
        client.batch_execute("ROLLBACK; BEGIN READ WRITE; INSERT INTO t VALUES (1); COMMIT").await.unwrap();
        client.batch_execute("BEGIN; SET TRANSACTION READ WRITE; INSERT INTO t VALUES (2); COMMIT").await.unwrap();
        client.batch_execute("SET default_transaction_read_only = off; INSERT INTO t VALUES (3)").await.unwrap();
        assert_eq!(client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0), 3);
        client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE; SET transaction_read_only = on").await.unwrap();
        assert_eq!(shown("transaction_isolation").await, "serializable");
        assert_eq!(shown("transaction_read_only").await, "on");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(shown("transaction_read_only").await, "off");
    });
}
