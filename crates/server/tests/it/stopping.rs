//! The graceful stop.

use std::time::{Duration, Instant};

use rowmill_server::ServerEvent;
use tokio_postgres::error::SqlState;

use crate::cancelling::LONG;
use crate::support::{TestServer, field, runtime};

#[test]
fn idle_connections_are_told_that_the_server_stops() {
    let mut server = TestServer::start();
    let mut client = server.raw();
    client.log_in();
    std::thread::sleep(Duration::from_millis(50));
    server.stop();
    let (kind, body) = client.message().expect("a last message");
    assert_eq!((kind, field(&body, b'C').as_deref()), (b'E', Some("57P01")));
    assert_eq!(client.message(), None);
    server.wait_for(|event| *event == ServerEvent::Stopped);
}

#[test]
fn a_statement_that_runs_on_is_cancelled() {
    let mut server = TestServer::start();
    let runtime = runtime();
    let client = runtime.block_on(server.client());
    let running = runtime.spawn(async move { client.batch_execute(LONG).await });
    std::thread::sleep(Duration::from_millis(300));
    let started = Instant::now();
    server.stop();
    assert!(started.elapsed() < Duration::from_secs(15));
    let error = runtime.block_on(running).unwrap().unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
    server.wait_for(|event| matches!(event, ServerEvent::Cancelling { connections: 1 }));
}

#[test]
fn a_short_statement_ends_in_peace() {
    let mut server = TestServer::start();
    let runtime = runtime();
    let client = runtime.block_on(server.client());
    let running = runtime.spawn(async move { client.query_one("SELECT COUNT(*) FROM range(300000)", &[]).await });
    std::thread::sleep(Duration::from_millis(20));
    server.stop();
    // The statement may have come too late; then it was refused.
    match runtime.block_on(running).unwrap() {
        Ok(row) => assert_eq!(row.get::<_, i64>(0), 300_000),
        Err(error) => assert!(error.code().is_none_or(|code| *code == SqlState::ADMIN_SHUTDOWN), "{error:?}"),
    }
}
