//! Open connections as the catalog shows them, and their end by other connections.

use std::time::{Duration, Instant};

use futures_util::SinkExt;
use rowmill::Database;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::cancelling::LONG;
use crate::support::{TestServer, runtime};

/// The rows of a query as texts, values separated by bars.
async fn texts(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect::<Vec<_>>().join("|")).collect()
}

/// Waits until a query returns these rows.
async fn until(client: &Client, sql: &str, expected: &[&str]) {
    let started = Instant::now();
    loop {
        let found = texts(client, sql).await;
        if found == expected {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{sql}: {found:?} instead of {expected:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Connects as a user with a name for the program.
async fn client_of(server: &TestServer, user: &str, application: &str) -> Client {
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.address().port()).user(user).password("x").application_name(application);
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

#[test]
fn pg_stat_activity_shows_what_connections_do() {
    let server = TestServer::start();
    runtime().block_on(async {
        let (watcher, worker) = (server.client().await, client_of(&server, "ada", "nightly").await);
        let own =
            "SELECT state, query = 'x' OR query LIKE 'SELECT state%', pid = pg_backend_pid(), datname, backend_type,
            xact_start = query_start, wait_event FROM pg_stat_activity WHERE usename = 'tester'";
        assert_eq!(texts(&watcher, own).await, ["active|t|t|rowmill|client backend|t|NULL"]);
        let of_worker = "SELECT application_name, usename, client_addr, client_port > 0, state, query,
            xact_start IS NOT NULL, wait_event_type, wait_event, backend_start <= state_change
            FROM pg_stat_activity WHERE usename = 'ada'";
        until(&watcher, of_worker, &["nightly|ada|127.0.0.1|t|idle||f|Client|ClientRead|t"]).await;
        worker.batch_execute("BEGIN").await.unwrap();
        let expected = "nightly|ada|127.0.0.1|t|idle in transaction|BEGIN|t|Client|ClientRead|t";
        until(&watcher, of_worker, &[expected]).await;
        worker.batch_execute("SELECT nothing").await.unwrap_err();
        let expected = "nightly|ada|127.0.0.1|t|idle in transaction (aborted)|SELECT nothing|t|Client|ClientRead|t";
        until(&watcher, of_worker, &[expected]).await;
        worker.batch_execute("ROLLBACK; SET application_name = 'daily'").await.unwrap();
        worker.query("SELECT 1::int4 AS one", &[]).await.unwrap();
        until(&watcher, of_worker, &["daily|ada|127.0.0.1|t|idle|SELECT 1::int4 AS one|f|Client|ClientRead|t"]).await;
        drop(worker);
        until(&watcher, "SELECT usename FROM pg_stat_activity", &["tester"]).await;
        let counted = "SELECT numbackends, sessions >= 2, tup_returned FROM pg_stat_database";
        assert_eq!(texts(&watcher, counted).await, ["1|t|NULL"]);
    });
}

#[test]
fn pg_locks_shows_who_waits_for_whom() {
    let server = TestServer::with_default_settings();
    runtime().block_on(async {
        let (watcher, one, two) =
            (server.client().await, client_of(&server, "one", "").await, client_of(&server, "two", "").await);
        watcher
            .batch_execute("CREATE TABLE k (id BIGINT PRIMARY KEY, n BIGINT); INSERT INTO k VALUES (1, 0)")
            .await
            .unwrap();
        one.batch_execute("BEGIN; UPDATE k SET n = 1 WHERE id = 1").await.unwrap();
        let waiting = tokio::spawn(async move { two.batch_execute("UPDATE k SET n = 2 WHERE id = 1").await });
        let waits = "SELECT w.usename, w.wait_event_type, w.state, h.usename, h.state, b.waitstart IS NOT NULL
            FROM pg_locks b JOIN pg_locks a ON a.transactionid = b.transactionid AND a.granted
            JOIN pg_stat_activity w ON w.pid = b.pid JOIN pg_stat_activity h ON h.pid = a.pid WHERE NOT b.granted";
        until(&watcher, waits, &["two|Lock|active|one|idle in transaction|t"]).await;
        one.batch_execute("COMMIT").await.unwrap();
        waiting.await.unwrap().unwrap();
        until(&watcher, "SELECT * FROM pg_locks", &[]).await;
        assert_eq!(texts(&watcher, "SELECT n FROM k").await, ["2"]);
    });
}

#[test]
fn the_oldest_snapshot_names_its_reader() {
    let server = TestServer::start();
    runtime().block_on(async {
        let (watcher, reader) = (server.client().await, client_of(&server, "ada", "").await);
        watcher.batch_execute("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1)").await.unwrap();
        reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t").await.unwrap();
        watcher.batch_execute("INSERT INTO t VALUES (2)").await.unwrap();
        let oldest = "SELECT user_name, state, statement, commits_since >= 1, connection IS NOT NULL
            FROM rowmill_oldest_snapshot()";
        until(&watcher, oldest, &["ada|idle in transaction|SELECT * FROM t|t|t"]).await;
        reader.batch_execute("COMMIT").await.unwrap();
        until(&watcher, oldest, &[]).await;
    });
}

#[test]
fn pg_cancel_backend_ends_a_statement_and_pg_terminate_backend_a_connection() {
    let server = TestServer::start();
    runtime().block_on(async {
        let (watcher, worker) = (server.client().await, client_of(&server, "ada", "").await);
        let pid = texts(&worker, "SELECT pg_backend_pid()").await.remove(0);
        let running = tokio::spawn(async move { (worker.batch_execute(LONG).await, worker) });
        until(&watcher, "SELECT state FROM pg_stat_activity WHERE usename = 'ada'", &["active"]).await;
        assert_eq!(texts(&watcher, &format!("SELECT pg_cancel_backend({pid})")).await, ["t"]);
        let (ended, worker) = running.await.unwrap();
        assert_eq!(ended.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
        worker.batch_execute("BEGIN; CREATE TABLE gone (a BIGINT)").await.unwrap();
        assert_eq!(texts(&watcher, &format!("SELECT pg_terminate_backend({pid})")).await, ["t"]);
        until(&watcher, "SELECT usename FROM pg_stat_activity", &["tester"]).await;
        assert!(worker.batch_execute("SELECT 1").await.is_err());
        assert!(watcher.batch_execute("SELECT * FROM gone").await.is_err());
        // One that runs a statement ends, too.
        let worker = client_of(&server, "bob", "").await;
        let running = tokio::spawn(async move { worker.batch_execute(LONG).await });
        until(&watcher, "SELECT state FROM pg_stat_activity WHERE usename = 'bob'", &["active"]).await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'bob'";
        assert_eq!(texts(&watcher, end).await, ["t"]);
        assert_eq!(running.await.unwrap().unwrap_err().code(), Some(&SqlState::ADMIN_SHUTDOWN));
        assert_eq!(texts(&watcher, "SELECT pg_terminate_backend(0), pg_cancel_backend(NULL)").await, ["f|NULL"]);
        // EXPLAIN ends nothing.
        watcher.batch_execute("EXPLAIN SELECT pg_terminate_backend(pg_backend_pid())").await.unwrap();
    });
}

#[test]
fn a_role_sees_and_ends_only_what_it_may() {
    let database = Database::memory().unwrap();
    let users = "CREATE USER root PASSWORD 'x' SUPERUSER; CREATE USER ann PASSWORD 'x'; CREATE USER bob PASSWORD 'x'";
    database.connect().unwrap().execute_batch(users).unwrap();
    let server = TestServer::over(database, rowmill_server::ServerLimits::default());
    runtime().block_on(async {
        let root = client_of(&server, "root", "").await;
        let (ann, bob) = (client_of(&server, "ann", "").await, client_of(&server, "bob", "").await);
        let pid = texts(&bob, "SELECT pg_backend_pid()").await.remove(0);
        let seen = "SELECT usename, state, query FROM pg_stat_activity WHERE usename = 'bob'";
        assert_eq!(texts(&ann, seen).await, ["bob|NULL|<insufficient privilege>"]);
        until(&root, seen, &["bob|idle|SELECT pg_backend_pid()"]).await;
        bob.batch_execute("ALTER USER bob PASSWORD 'secret'").await.unwrap();
        until(&root, seen, &["bob|idle|ALTER USER bob PASSWORD '***'"]).await;
        for function in ["pg_cancel_backend", "pg_terminate_backend"] {
            let error = ann.batch_execute(&format!("SELECT {function}({pid})")).await.unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
        }
        assert!(ann.batch_execute("SELECT * FROM rowmill_oldest_snapshot()").await.is_err());
        // A role may cancel its own statement, for example this one. It may have ended by then.
        let own = bob.simple_query(&format!("SELECT pg_cancel_backend({pid})")).await;
        assert!(own.is_ok_and(|rows| rows.len() > 1) || texts(&bob, "SELECT 1").await == ["1"]);
        assert_eq!(texts(&root, &format!("SELECT pg_terminate_backend({pid})")).await, ["t"]);
        until(&root, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'bob'", &["0"]).await;
    });
}

#[test]
fn pg_terminate_backend_ends_a_copy_that_waits_for_its_client() {
    let server = TestServer::start();
    runtime().block_on(async {
        let (watcher, worker) = (server.client().await, client_of(&server, "ada", "").await);
        watcher.batch_execute("CREATE TABLE t (a BIGINT)").await.unwrap();
        let pid = texts(&worker, "SELECT pg_backend_pid()").await.remove(0);
        let mut copy = Box::pin(worker.copy_in::<_, bytes::Bytes>("COPY t FROM STDIN").await.unwrap());
        copy.send(bytes::Bytes::from_static(b"1\n2\n")).await.unwrap();
        assert_eq!(texts(&watcher, &format!("SELECT pg_terminate_backend({pid})")).await, ["t"]);
        until(&watcher, "SELECT usename FROM pg_stat_activity", &["tester"]).await;
        assert!(copy.as_mut().finish().await.is_err());
        assert_eq!(texts(&watcher, "SELECT count(*) FROM t").await, ["0"]);
    });
}
