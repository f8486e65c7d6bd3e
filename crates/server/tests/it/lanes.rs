//! Short statements beside long ones, and transactions that wait too long.

use std::time::{Duration, Instant};

use rowmill::Database;
use rowmill_server::ServerLimits;
use tokio_postgres::error::SqlState;

use crate::cancelling::LONG;
use crate::http::ask;
use crate::support::{TestServer, field, runtime};

const KEYED: &str = "CREATE TABLE k (id BIGINT PRIMARY KEY, v BIGINT); INSERT INTO k VALUES (1, 0)";

#[test]
fn programs_run_while_all_lanes_of_the_engine_are_taken() {
    let database = Database::memory().unwrap();
    database.connect().unwrap().execute_batch(KEYED).unwrap();
    let limits = ServerLimits {
        running_max: 1,
        waiting_max: 1,
        stop_patience: Duration::from_millis(100),
        ..ServerLimits::default()
    };
    let server = TestServer::over(database, limits);
    runtime().block_on(async {
        let (long, waiting, short) = (server.client().await, server.client().await, server.client().await);
        let (stop_long, stop_waiting) = (long.cancel_token(), waiting.cancel_token());
        let update = short.prepare("UPDATE k SET v = v + 1 WHERE id = $1").await.unwrap();
        let get = short.prepare("SELECT v FROM k WHERE id = $1").await.unwrap();
        short.execute(&update, &[&1_i64]).await.unwrap();
        let long = tokio::spawn(async move { long.batch_execute(LONG).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        let waiting = tokio::spawn(async move { waiting.batch_execute(LONG).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        let started = Instant::now();
        for _ in 0..20 {
            short.execute(&update, &[&1_i64]).await.unwrap();
        }
        assert_eq!(short.query_one(&get, &[&1_i64]).await.unwrap().get::<_, i64>(0), 21);
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        // One statement runs and one waits, so another one of the engine is refused.
        let error = short.batch_execute("SELECT COUNT(*) FROM range(10)").await.unwrap_err();
        assert_eq!(error.code().map(SqlState::code), Some("53400"));
        stop_waiting.cancel_query(tokio_postgres::NoTls).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
        stop_long.cancel_query(tokio_postgres::NoTls).await.unwrap();
        assert_eq!(long.await.unwrap().unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
        short.batch_execute("SELECT COUNT(*) FROM range(10)").await.unwrap();
    });
    assert_eq!(ask(&server, "POST", "/query", &[], b"SELECT 1").status, 200);
}

#[test]
fn a_session_with_open_results_does_not_wait_for_itself() {
    let limits = ServerLimits {
        running_max: 1,
        waiting_max: 0,
        stop_patience: Duration::from_millis(100),
        ..ServerLimits::default()
    };
    let server = TestServer::with_limits(limits);
    let mut client = server.raw();
    client.log_in();
    assert_eq!(client.query("BEGIN; DECLARE c CURSOR FOR SELECT * FROM range(100000)"), "CCZ");
    assert_eq!(client.query("SELECT * FROM range(2)"), "TDDCZ");
    assert_eq!(client.query("FETCH 1 FROM c"), "TDCZ");
    assert_eq!(client.query("COMMIT"), "CZ");
}

#[test]
fn a_transaction_that_waits_too_long_ends_with_its_session() {
    let limits = ServerLimits {
        idle_transaction_timeout: Duration::from_millis(150),
        stop_patience: Duration::from_millis(100),
        ..ServerLimits::default()
    };
    let server = TestServer::with_limits(limits);
    let mut idle = server.raw();
    idle.log_in();
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(idle.query("SELECT 1"), "TDCZ");
    assert_eq!(idle.query("BEGIN"), "CZ");
    let (kind, body) = idle.message().unwrap();
    assert_eq!((kind, field(&body, b'C').as_deref()), (b'E', Some("25P03")));
    assert_eq!(idle.message(), None);

    let mut patient = server.raw();
    patient.log_in();
    assert_eq!(patient.query("SET idle_in_transaction_session_timeout = '1min'"), "CZ");
    patient.query("BEGIN");
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(patient.query("SELECT 1"), "TDCZ");
}
