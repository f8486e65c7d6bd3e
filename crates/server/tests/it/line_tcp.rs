//! Line protocol over TCP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rowmill::Database;
use rowmill_server::{ServerEvent, ServerOptions};

use crate::http::query;
use crate::support::TestServer;

fn server() -> TestServer {
    let line = Some("127.0.0.1:0".parse().unwrap());
    TestServer::with_options(Database::memory().unwrap(), ServerOptions { line, ..ServerOptions::default() })
}

fn connect(server: &TestServer) -> TcpStream {
    let stream = TcpStream::connect(server.server().line_address().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Waits until a query returns these rows, as JSON.
fn until(server: &TestServer, sql: &str, expected: &str) {
    let started = Instant::now();
    loop {
        let found = query(server, "/query", sql);
        let rows = found.json()["rows"].to_string();
        if found.status == 200 && rows == expected {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{sql}: {} instead of {expected}", found.text());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads to the end of a connection that the server closes.
fn wait_for_end(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    let is_closed = read.as_ref().is_ok_and(|bytes| *bytes == 0)
        || read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset);
    assert!(is_closed, "{read:?}");
}

#[test]
fn lines_are_stored_while_the_connection_is_open() {
    let server = server();
    let mut stream = connect(&server);
    stream.write_all(b"cpu,host=a usage=1.5 1700000000000000000\ncpu,host=b usage=2 17000000").unwrap();
    until(&server, "SELECT host, usage FROM cpu", "[[\"a\",1.5]]");
    stream.write_all(b"01000000000\ncpu,host=c note=\"two\nlines\" 1700000002000000000\n").unwrap();
    until(&server, "SELECT count(*), max(note) FROM cpu", "[[3,\"two\\nlines\"]]");
    // A client that closes after a whole line has done nothing wrong.
    stream.write_all(b"cpu,host=d usage=4\n").unwrap();
    drop(stream);
    until(&server, "SELECT count(*) FROM cpu", "[[4]]");
    let is_report = |event: &ServerEvent| matches!(event, ServerEvent::ProtocolViolation { .. });
    assert!(!server.events.lock().unwrap().iter().any(is_report));
}

#[test]
fn the_first_rejected_line_ends_the_connection_and_is_kept() {
    let server = server();
    let mut stream = connect(&server);
    stream.write_all(b"cpu usage=1\ncpu usage=\ncpu usage=3\n").unwrap();
    wait_for_end(&mut stream);
    until(&server, "SELECT usage FROM cpu", "[[1.0]]");
    until(&server, "SELECT line, line_number FROM rowmill_rejected_lines", "[[\"cpu usage=\",2]]");
    server.wait_for(|event| {
        matches!(event, ServerEvent::ProtocolViolation { reason, .. } if reason.contains("a line was rejected: column"))
    });
    // Another client is served.
    connect(&server).write_all(b"cpu usage=5\n").unwrap();
    until(&server, "SELECT count(*) FROM cpu", "[[2]]");
}

#[test]
fn a_request_of_http_stores_nothing() {
    let server = server();
    let mut stream = connect(&server);
    stream.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\ncpu usage=1\n").unwrap();
    wait_for_end(&mut stream);
    assert_eq!(query(&server, "/query", "SELECT * FROM cpu").status, 404);
}

#[test]
fn a_line_without_its_end_is_not_stored() {
    let server = server();
    let mut stream = connect(&server);
    stream.write_all(b"cpu usage=1\ncpu usage=2 17000").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    wait_for_end(&mut stream);
    until(&server, "SELECT usage FROM cpu", "[[1.0]]");
    server
        .wait_for(|event| matches!(event, ServerEvent::ProtocolViolation { reason, .. } if reason.contains("dropped")));
}

#[test]
fn users_end_the_protocol_without_a_login() {
    let server = server();
    let mut stream = connect(&server);
    stream.write_all(b"cpu usage=1\n").unwrap();
    until(&server, "SELECT count(*) FROM cpu", "[[1]]");
    assert_eq!(query(&server, "/query", "CREATE USER root PASSWORD 'x' SUPERUSER").status, 200);
    stream.write_all(b"cpu usage=2\n").unwrap();
    wait_for_end(&mut stream);
    server.wait_for(|event| matches!(event, ServerEvent::Refused { reason, .. } if reason.contains("no login")));
}

#[test]
fn many_lines_of_many_clients_are_all_stored() {
    let server = server();
    std::thread::scope(|scope| {
        for client in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut stream = connect(server);
                for part in 0..20 {
                    let lines: String = (0..500)
                        .map(|n| format!("m,client=c{client} n={}i {}\n", part * 500 + n, 1_700_000_000 + n))
                        .collect();
                    stream.write_all(lines.as_bytes()).unwrap();
                }
            });
        }
    });
    until(&server, "SELECT count(*), count(DISTINCT client), sum(n) FROM m", "[[40000,4,199980000]]");
}
