//! Requests to cancel.

use std::time::{Duration, Instant};

use rowmill_server::ServerEvent;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::support::{TestServer, runtime};

/// A query that takes long, whatever the machine.
pub(crate) const LONG: &str = "SELECT COUNT(*) FROM range(3000000) AS a(x), range(3000000) AS b(y) WHERE x * y % 7 = 3";

#[test]
fn a_request_with_the_key_cancels_the_statement() {
    let server = TestServer::start();
    runtime().block_on(async {
        let client = server.client().await;
        let token = client.cancel_token();
        let started = Instant::now();
        let canceller = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            token.cancel_query(NoTls).await.unwrap();
        });
        let error = client.batch_execute(LONG).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        assert!(started.elapsed() < Duration::from_secs(20));
        canceller.await.unwrap();
        assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i64>(0), 1);
    });
}

#[test]
fn a_request_with_a_wrong_key_is_refused_and_reported() {
    let server = TestServer::start();
    let mut victim = server.raw();
    let login = victim.log_in();
    let key = &login.iter().find(|(kind, _)| *kind == b'K').expect("a key").1;
    let mut wrong = key.clone();
    wrong[7] ^= 1;
    let mut attacker = server.raw();
    attacker.send(&16_u32.to_be_bytes());
    attacker.send(&80_877_102_u32.to_be_bytes());
    attacker.send(&wrong);
    assert_eq!(attacker.message(), None);
    server.wait_for(|event| matches!(event, ServerEvent::CancelRefused { .. }));
    assert_eq!(victim.query("SELECT 1"), "TDCZ");
}

#[test]
fn a_statement_ends_at_its_timeout() {
    let server = TestServer::start();
    runtime().block_on(async {
        let client = server.client().await;
        client.batch_execute("SET statement_timeout = '200ms'").await.unwrap();
        let error = client.batch_execute(LONG).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
    });
}
