//! Clients that break the protocol, stall or come in crowds. The server stays up and says what was wrong.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rowmill_server::{ServerEvent, ServerLimits};

use crate::support::{TestServer, field};

/// Sends bytes as the first of a connection. Returns the message of the server's error, if it sends one.
fn start_with(server: &TestServer, bytes: &[u8]) -> Option<String> {
    let mut client = server.raw();
    client.send(bytes);
    let (kind, body) = client.message()?;
    assert_eq!(kind, b'E');
    assert_eq!(field(&body, b'S').as_deref(), Some("FATAL"));
    field(&body, b'M')
}

#[test]
fn a_start_that_is_malformed_is_refused() {
    let server = TestServer::start();
    for (bytes, message) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "invalid length of startup packet"),
        (b"\0\0\0\x04", "invalid length of startup packet"),
        (b"\xff\xff\xff\xff", "invalid length of startup packet"),
        (b"\0\0\0\x09\0\x02\0\0\0", "unsupported frontend protocol 2.0"),
        (b"\0\0\0\x0d\0\x03\0\0user\0", "invalid startup packet layout"),
        (b"\0\0\0\x09\0\x03\0\0\0", "no PostgreSQL user name"),
        (b"\0\0\0\x0c\x04\xd2\x16\x2e\0\0\0\0", "invalid startup packet"),
    ] {
        let told = start_with(&server, bytes);
        assert!(told.as_ref().is_some_and(|told| told.contains(message)), "{bytes:?}: {told:?}");
    }
    assert_eq!(server.raw().log_in().last().unwrap().0, b'Z');
}

#[test]
fn encryption_is_refused_and_the_login_goes_on() {
    let server = TestServer::start();
    let mut client = server.raw();
    for code in [80_877_103_u32, 80_877_104] {
        client.send(&8_u32.to_be_bytes());
        client.send(&code.to_be_bytes());
        let mut answer = [0];
        client.stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"N");
    }
    assert_eq!(client.log_in().last().unwrap().0, b'Z');
}

#[test]
fn a_newer_protocol_is_negotiated_down() {
    let server = TestServer::start();
    let mut client = server.raw();
    let body = b"\0\x03\0\x02user\0raw\0_pq_.x\0y\0\0";
    client.send(&(body.len() as u32 + 4).to_be_bytes());
    client.send(body);
    let messages = client.messages_until(b'Z');
    assert_eq!(messages[0].0, b'v');
}

#[test]
fn a_malformed_message_ends_its_connection_only() {
    let server = TestServer::start();
    for (bytes, message) in [
        (&b"z\0\0\0\x04"[..], "unknown type"),
        (b"Q\0\0\0\x03", "length"),
        (b"Q\x7f\xff\xff\xff", "length"),
        (b"Q\0\0\0\x07abc", "no end"),
        (b"P\0\0\0\x08\0\0\xff\xff", "ends too early"),
        (b"B\0\0\0\x10\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0", "ends too early"),
        (b"F\0\0\0\x04", "function calls"),
    ] {
        let mut client = server.raw();
        client.log_in();
        client.send(bytes);
        let (kind, body) = client.message().unwrap_or_else(|| panic!("no answer to {bytes:?}"));
        let told = field(&body, b'M').unwrap();
        assert!(kind == b'E' && told.contains(message), "{bytes:?}: {told}");
        assert_eq!(field(&body, b'C').as_deref(), Some("08P01"));
        assert_eq!(client.message(), None);
    }
    server.wait_for(|event| matches!(event, ServerEvent::ProtocolViolation { .. }));
    assert_eq!(server.raw().log_in().last().unwrap().0, b'Z');
}

#[test]
fn half_a_message_holds_nothing_up() {
    let server = TestServer::start();
    let mut halves = Vec::new();
    for _ in 0..20 {
        let mut client = server.raw();
        client.log_in();
        client.send(b"Q\0\0\0\x0dSELE");
        halves.push(client);
    }
    let mut other = server.raw();
    other.log_in();
    assert_eq!(other.query("SELECT 1"), "TDCZ");
    for mut client in halves {
        client.send(b"CT 1\0");
        assert_eq!(client.messages_until(b'Z').len(), 4);
    }
}

#[test]
fn a_thousand_half_open_logins_hold_nothing_up() {
    let server = TestServer::start();
    let halves: Vec<TcpStream> = (0..1_000)
        .filter_map(|_| {
            let mut stream = TcpStream::connect(server.address()).ok()?;
            stream.write_all(b"\0\0\0\x20\0\x03").ok()?;
            Some(stream)
        })
        .collect();
    // The process that runs the tests may not be able to open a thousand sockets twice.
    assert!(halves.len() > 100, "{} connections", halves.len());
    let mut client = server.raw();
    client.log_in();
    assert_eq!(client.query("SELECT 1"), "TDCZ");
}

#[test]
fn a_login_must_be_in_time_and_connections_are_limited() {
    let limits =
        ServerLimits { login_timeout: Duration::from_millis(100), connections_max: 2, ..ServerLimits::default() };
    let server = TestServer::with_limits(limits);
    let mut slow = server.raw();
    let (_, body) = slow.message().expect("a refusal");
    assert!(field(&body, b'M').unwrap().contains("too long"));
    drop(slow);
    std::thread::sleep(Duration::from_millis(100));
    let mut clients: Vec<_> = (0..2).map(|_| server.raw()).collect();
    clients.iter_mut().for_each(|client| drop(client.log_in()));
    let (_, body) = server.raw().message().expect("a refusal");
    assert_eq!(field(&body, b'C').as_deref(), Some("53300"));
}

#[test]
fn a_client_that_does_not_read_loses_its_connection() {
    let limits = ServerLimits { stalled_timeout: Duration::from_millis(300), ..ServerLimits::default() };
    let server = TestServer::with_limits(limits);
    let mut client = server.raw();
    client.log_in();
    client.send_message(b'Q', b"SELECT repeat('x', 1000) FROM range(1000000)\0");
    server.wait_for(|event| matches!(event, ServerEvent::Lost { .. }));
    let mut other = server.raw();
    other.log_in();
    assert_eq!(other.query("SELECT 1"), "TDCZ");
}

#[test]
fn a_client_that_goes_away_leaves_nothing_open() {
    let server = TestServer::start();
    for _ in 0..20 {
        let mut client = server.raw();
        client.log_in();
        client.send_message(b'Q', b"BEGIN\0");
        client.send(b"Q\0");
    }
    let mut other = server.raw();
    other.log_in();
    assert_eq!(other.query("CREATE TABLE t (a INTEGER)"), "CZ");
}
