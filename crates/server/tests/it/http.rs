//! HTTP, with a client that is a few lines of code.

use std::io::{Cursor, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rowmill::arrow::ipc::reader::StreamReader;
use rowmill_server::ServerLimits;
use serde_json::{Value, json};

use crate::cancelling::LONG;
use crate::support::TestServer;

pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body has its end.
    is_whole: bool,
}

impl HttpAnswer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The head of the answer, in lower case.
    pub(crate) fn head(&self) -> &str {
        &self.head
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

fn send(server: &TestServer, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.http_address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "Host") {
        head.push_str("Host: localhost\r\n");
    }
    headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    // A server that refuses the head may close before it reads the body.
    let _ = stream.write_all(body);
    stream
}

pub(crate) fn ask(server: &TestServer, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpAnswer {
    let mut bytes = Vec::new();
    let _ = send(server, method, path, headers, body).read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let (body, is_whole) = match head.contains("transfer-encoding: chunked") {
        true => dechunked(&bytes[end..]),
        false => (bytes[end..].to_vec(), true),
    };
    HttpAnswer { status, head, body, is_whole }
}

fn dechunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return (body, true);
        }
        let Some(chunk) = rest.get(line + 2..line + 2 + length) else { break };
        body.extend(chunk);
        rest = rest.get(line + 4 + length..).unwrap_or_default();
    }
    (body, false)
}

pub(crate) fn query(server: &TestServer, path: &str, sql: &str) -> HttpAnswer {
    ask(server, "POST", path, &[], sql.as_bytes())
}

#[test]
fn a_result_comes_as_json() {
    let server = TestServer::start();
    let answer = query(&server, "/query", "SELECT 1 AS a, 'x\"y' AS b, NULL AS c, 1.50 AS d, [1, 2] AS e");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
    let answer = answer.json();
    assert_eq!(answer["rows"], json!([[1, "x\"y", null, 1.5, [1, 2]]]));
    assert_eq!(answer["row_count"], 1);
    assert_eq!(answer["columns"][1], json!({"name": "b", "type": "TEXT"}));
}

#[test]
fn values_of_parameters_come_in_json() {
    let server = TestServer::start();
    let headers = [("Content-Type", "application/json")];
    let ask_json = |body: Value| ask(&server, "POST", "/query", &headers, body.to_string().as_bytes());
    let created = ask_json(json!({"sql": "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)"}));
    assert_eq!(created.json(), json!({"tag": "CREATE TABLE"}));
    let inserted = ask_json(json!({"sql": "INSERT INTO t VALUES ($1, $2), ($3, $4)", "params": [1, "x", 2, null]}));
    assert_eq!(inserted.json(), json!({"tag": "INSERT", "rows_changed": 2}));
    let found = ask_json(json!({"sql": "SELECT b FROM t WHERE a = $1", "params": [1], "format": "ndjson"}));
    assert_eq!(found.text(), "{\"b\": \"x\"}\n");
    let twice = ask_json(json!({"sql": "INSERT INTO t VALUES (1, '')"}));
    assert_eq!((twice.status, twice.json()["sqlstate"].as_str()), (409, Some("23505")));
}

#[test]
fn the_format_follows_the_url_or_the_accept_header() {
    let server = TestServer::start();
    let sql = "SELECT n, 'row ' || n::TEXT AS s FROM range(100000) AS r(n) ORDER BY n";
    let csv = query(&server, "/query?format=csv", sql).text();
    assert_eq!((csv.lines().count(), csv.lines().last()), (100_001, Some("99999,row 99999")));
    let lines = ask(&server, "POST", "/query", &[("Accept", "application/x-ndjson")], sql.as_bytes()).text();
    assert_eq!(lines.lines().nth(1), Some("{\"n\": 1, \"s\": \"row 1\"}"));
    let accept = [("Accept", "application/vnd.apache.arrow.stream")];
    let arrow = ask(&server, "POST", "/query", &accept, sql.as_bytes());
    let reader = StreamReader::try_new(Cursor::new(arrow.body), None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 100_000);
    assert_eq!(query(&server, "/query?format=xml", sql).status, 400);
}

#[test]
fn a_result_comes_as_parquet() {
    let server = TestServer::start();
    let sql = "SELECT n, 'row ' || n::TEXT AS s FROM range(100000) AS r(n) ORDER BY n";
    let parquet = query(&server, "/query?format=parquet", sql);
    assert!(parquet.head.contains("content-type: application/vnd.apache.parquet"), "{}", parquet.head);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer.parquet");
    std::fs::write(&file, &parquet.body).unwrap();
    let read = query(&server, "/query?format=csv", &format!("SELECT count(*), max(s) FROM '{}'", file.display()));
    assert_eq!(read.text(), "count(*),max(s)\n100000,row 99999\n");
    let failing = query(&server, "/query?format=parquet", "SELECT 1 / (n - 900000) FROM range(1000000) AS r(n)");
    assert!(failing.status != 200 || !failing.is_whole);
}

#[test]
fn an_answer_is_compressed_as_the_client_accepts_it() {
    let server = TestServer::start();
    let sql = "SELECT n, 'row ' || n::TEXT AS s FROM range(100000) AS r(n) ORDER BY n";
    let plain = query(&server, "/query?format=csv", sql).body;
    let ask_for = |coding: &str, path: &str| ask(&server, "POST", path, &[("Accept-Encoding", coding)], sql.as_bytes());
    let gzip = ask_for("gzip, deflate", "/query?format=csv");
    assert!(gzip.head.contains("content-encoding: gzip") && gzip.body.len() < plain.len() / 2, "{}", gzip.head);
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(gzip.body.as_slice()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
    let zstd = ask_for("gzip, zstd", "/query?format=csv");
    assert!(zstd.head.contains("content-encoding: zstd"), "{}", zstd.head);
    assert_eq!(zstd::decode_all(zstd.body.as_slice()).unwrap(), plain);
    for path in ["/query", "/query?format=arrow", "/query?format=ndjson"] {
        let packed = ask_for("zstd", path);
        assert_eq!(zstd::decode_all(packed.body.as_slice()).unwrap(), query(&server, path, sql).body, "{path}");
    }
    assert!(!ask_for("zstd", "/query?format=parquet").head.contains("content-encoding"));
}

#[test]
fn errors_are_json_with_their_place() {
    let server = TestServer::start();
    let answer = query(&server, "/query", "SELECT\n missing FROM (SELECT 1 AS missin) AS t");
    assert_eq!(answer.status, 400);
    let error = answer.json();
    assert_eq!(error["sqlstate"], "42703");
    assert_eq!((error["line"].as_u64(), error["column"].as_u64()), (Some(2), Some(2)));
    assert!(error["hint"].as_str().unwrap().contains("missin"));
    for (path, body, status) in [("/query", "SELECT * FROM nowhere", 404), ("/query", "", 400), ("/nothing", "", 404)] {
        assert_eq!(query(&server, path, body).status, status, "{path} {body}");
    }
    let json_type = [("Content-Type", "application/json")];
    assert_eq!(ask(&server, "POST", "/query", &json_type, b"{").json()["sqlstate"], "22023");
    let wrong = ask(&server, "GET", "/query", &[], b"");
    assert_eq!(wrong.status, 405);
    assert!(wrong.json()["message"].as_str().unwrap().contains("/query takes POST and not GET"));
    let empty = ask(&server, "POST", "/query", &[], b" ");
    assert_eq!(empty.status, 400);
    assert!(empty.json()["message"].as_str().unwrap().contains("the body is empty"));
}

#[test]
fn an_error_in_the_middle_of_a_result_is_not_taken_for_its_end() {
    let server = TestServer::start();
    let sql = "SELECT 1000 / (n - 900000) FROM range(1000000) AS r(n)";
    let json = query(&server, "/query", sql);
    if json.status == 200 {
        assert_eq!(json.json()["error"]["sqlstate"], "22012");
        let lines = query(&server, "/query?format=ndjson", sql).text();
        assert!(lines.lines().last().unwrap().starts_with("{\"error\""));
        assert!(!query(&server, "/query?format=csv", sql).is_whole);
    }
}

#[test]
fn pages_of_other_sites_cannot_send_statements() {
    let server = TestServer::start();
    let with = |headers: &[(&str, &str)]| ask(&server, "POST", "/query", headers, b"SELECT 1").status;
    assert_eq!(with(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(with(&[("Origin", "null")]), 403);
    assert_eq!(with(&[("Host", "evil.example")]), 403);
    assert_eq!(with(&[("Host", "localhost:8080"), ("Origin", "http://localhost:8080")]), 200);
    assert_eq!(with(&[("Host", "127.0.0.1")]), 200);
}

#[test]
fn health_and_metrics_are_told() {
    let server = TestServer::start();
    assert_eq!(ask(&server, "GET", "/health", &[], b"").text(), "ok\n");
    query(&server, "/query", "SELECT 1");
    query(&server, "/query", "SELECT nonsense");
    let mut client = server.raw();
    client.log_in();
    client.query("SELECT 1");
    let metrics = ask(&server, "GET", "/metrics", &[], b"").text();
    for line in [
        "rowmill_statements_total{protocol=\"http\"} 2",
        "rowmill_statements_total{protocol=\"pg\"} 1",
        "rowmill_errors_total 1",
        "rowmill_connections 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}:\n{metrics}");
    }
}

#[test]
fn a_client_that_goes_away_cancels_its_statement() {
    let server = TestServer::start();
    let stream = send(&server, "POST", "/query", &[], LONG.as_bytes());
    let sessions = || {
        let metrics = ask(&server, "GET", "/metrics", &[], b"").text();
        metrics.lines().any(|line| line == "rowmill_sessions 1")
    };
    let started = Instant::now();
    while !sessions() {
        assert!(started.elapsed() < Duration::from_secs(10), "the statement did not start");
    }
    drop(stream);
    let started = Instant::now();
    while sessions() {
        assert!(started.elapsed() < Duration::from_secs(20), "the statement did not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until this number of sessions and requests can run statements.
pub(crate) fn wait_for_sessions(server: &TestServer, wanted: usize) {
    let (line, started) = (format!("rowmill_sessions {wanted}"), Instant::now());
    loop {
        let metrics = ask(server, "GET", "/metrics", &[], b"").text();
        if metrics.lines().any(|found| found == line) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{line}:\n{metrics}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_does_not_read_and_one_that_sends_too_much_are_stopped() {
    let limits = ServerLimits {
        stalled_timeout: Duration::from_millis(300),
        message_bytes_max: 1_000,
        ..ServerLimits::default()
    };
    let server = TestServer::with_limits(limits);
    let _stalled = send(&server, "POST", "/query?format=csv", &[], b"SELECT repeat('x', 1000) FROM range(1000000)");
    // The statement must have started before we wait for its end.
    wait_for_sessions(&server, 1);
    wait_for_sessions(&server, 0);
    let long = format!("SELECT '{}'", "x".repeat(2_000));
    assert_eq!(query(&server, "/query", &long).status, 413);
}
