//! The list of the statements that run, over HTTP and in SQL.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_postgres::error::SqlState;

use crate::cancelling::LONG;
use crate::http::{ask, query};
use crate::support::{TestServer, runtime};

/// Waits for a statement of the list that begins with `text`.
fn listed(server: &TestServer, text: &str) -> Value {
    let started = Instant::now();
    loop {
        let list = ask(server, "GET", "/statements", &[], b"").json();
        let all = list["statements"].as_array().unwrap();
        if let Some(found) = all.iter().find(|found| found["text"].as_str().unwrap().starts_with(text)) {
            return found.clone();
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{text} is not listed: {list}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_statement_of_the_wire_protocol_is_listed_and_cancelled_over_http() {
    let server = TestServer::start();
    runtime().block_on(async {
        let client = server.client().await;
        let running = tokio::spawn(async move { client.batch_execute(LONG).await });
        let found = tokio::task::block_in_place(|| {
            let first = listed(&server, LONG);
            std::thread::sleep(Duration::from_millis(400));
            let later = listed(&server, LONG);
            assert!(later["seconds"].as_f64().unwrap() > first["seconds"].as_f64().unwrap());
            assert_eq!((&later["user"], &later["protocol"]), (&"tester".into(), &"pg".into()));
            assert!(later["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{later}");
            assert!(later["progress"]["rows_done"].is_u64(), "{later}");
            assert!(later["started"].as_str().unwrap().starts_with("20"), "{later}");
            let cancelled = ask(&server, "DELETE", &format!("/statements/{}", later["id"]), &[], b"");
            assert_eq!(cancelled.status, 204);
            later
        });
        let error = running.await.unwrap().unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        let again = ask(&server, "DELETE", &format!("/statements/{}", found["id"]), &[], b"");
        assert_eq!((again.status, again.json()["sqlstate"].as_str()), (404, Some("42704")));
        assert_eq!(ask(&server, "DELETE", "/statements/none", &[], b"").status, 404);
    });
}

#[test]
fn the_list_is_a_table_function() {
    let server = TestServer::start();
    let sql = "SELECT protocol, statement, seconds >= 0, started <= now() FROM rowmill_statements()";
    let found = query(&server, "/query", sql).json();
    assert_eq!(found["rows"], serde_json::json!([["http", sql, true, true]]));
    // The statement before has left the list.
    let count = query(&server, "/query", "SELECT count(*) FROM rowmill_statements()").json();
    assert_eq!(count["rows"], serde_json::json!([[1]]));
    assert_eq!(query(&server, "/query", "SELECT * FROM rowmill_statements(1)").status, 400);
}
