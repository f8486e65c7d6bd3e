//! Valid traffic with random changes: the server answers or ends the connection, and goes on serving others.
//!
//! Each case sends its bytes, closes its side and reads to the end, so that no case waits for a time limit.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rowmill::Database;
use rowmill_server::{ServerLimits, ServerOptions};

use crate::http::ask;
use crate::support::TestServer;

/// Cases of each kind of traffic.
const CASES: u32 = 96;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn startup(user: &str) -> Vec<u8> {
    let body = format!("\0\u{3}\0\0user\0{user}\0database\0any\0application_name\0test\0\0");
    [&(body.len() as u32 + 4).to_be_bytes(), body.as_bytes()].concat()
}

/// A session with all kinds of messages.
fn session() -> Vec<u8> {
    [
        startup("tester"),
        message(b'Q', b"CREATE TABLE IF NOT EXISTS m (a BIGINT, b TEXT); SELECT 1\0"),
        message(b'P', b"s\0SELECT $1 + 1, $2\0\0\x02\0\0\0\x14\0\0\0\x19"),
        message(b'D', b"Ss\0"),
        message(b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x01\0\0\0\x01x\0\x01\0\x01"),
        message(b'D', b"Pp\0"),
        message(b'E', b"p\0\0\0\0\x01"),
        message(b'H', b""),
        message(b'C', b"Pp\0"),
        message(b'S', b""),
        message(b'Q', b"COPY m FROM STDIN\0"),
        message(b'd', b"1\tx\n2\t\\N\n"),
        message(b'c', b""),
        message(b'Q', b"COPY m TO STDOUT (FORMAT binary)\0"),
        message(b'Q', b"BEGIN; DECLARE c CURSOR FOR SELECT * FROM m; FETCH 1 FROM c\0"),
        message(b'X', b""),
    ]
    .concat()
}

/// A login by SCRAM, whose proof is wrong.
fn login() -> Vec<u8> {
    let first = b"n,,n=,r=abcdefgh";
    let mut initial = b"SCRAM-SHA-256\0".to_vec();
    initial.extend((first.len() as u32).to_be_bytes());
    initial.extend(first);
    let last = b"c=biws,r=abcdefgh,p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    [startup("ann"), message(b'p', &initial), message(b'p', last)].concat()
}

fn request() -> Vec<u8> {
    let body = r#"{"sql": "SELECT $1 + 1, $2", "params": [41, "x"]}"#;
    let head = "POST /query?format=csv HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Authorization: Basic YW5uOnJpZ2h0\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

const LINES: &[u8] =
    b"cpu,host=a\\ b,zone=x usage=1.5,cores=4i,name=\"a\\\"b\" 1700000000000000000\nmem,host=a free=2u,ok=t\n# c\n";

/// A change of a few bytes.
#[derive(Clone, Debug)]
enum Change {
    Set(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Repeat(usize, usize),
    Cut(usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let byte = prop_oneof![Just(0_u8), Just(0xff), Just(0x7f), any::<u8>()];
    let change = prop_oneof![
        4 => (any::<usize>(), byte).prop_map(|(at, byte)| Change::Set(at, byte)),
        1 => (any::<usize>(), 1..20_usize).prop_map(|(at, count)| Change::Remove(at, count)),
        1 => (any::<usize>(), proptest::collection::vec(any::<u8>(), 1..20))
            .prop_map(|(at, more)| Change::Insert(at, more)),
        1 => (any::<usize>(), 1..60_usize).prop_map(|(at, count)| Change::Repeat(at, count)),
        1 => any::<usize>().prop_map(Change::Cut),
    ];
    proptest::collection::vec(change, 1..5)
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let length = bytes.len().max(1);
        let part = |at: usize, count: usize| {
            let at = at % length;
            at.min(bytes.len())..(at + count).min(bytes.len())
        };
        match change {
            Change::Set(at, byte) => {
                if let Some(place) = bytes.get_mut(at % length) {
                    *place = *byte;
                }
            }
            Change::Remove(at, count) => drop(bytes.drain(part(*at, *count))),
            Change::Insert(at, more) => {
                let at = at % (bytes.len() + 1);
                bytes.splice(at..at, more.iter().copied());
            }
            Change::Repeat(at, count) => {
                let more = bytes[part(*at, *count)].to_vec();
                bytes.extend(more);
            }
            Change::Cut(at) => bytes.truncate(at % length),
        }
    }
    bytes
}

/// Sends bytes and reads all answers.
fn exchange(address: SocketAddr, bytes: &[u8]) {
    exchange_after(None, address, bytes);
}

/// Sends a request of HTTP and reads the answer. The server cancels a request whose client has ended its side, so the
/// client waits a moment before it does.
fn request_once(address: SocketAddr, bytes: &[u8]) {
    exchange_after(Some(Duration::from_millis(50)), address, bytes);
}

fn exchange_after(wait: Option<Duration>, address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    // A server that refuses the first bytes may close before it reads the others.
    let _ = stream.write_all(bytes);
    if wait.is_some() {
        stream.set_read_timeout(wait).unwrap();
        let _ = stream.read(&mut [0]);
    }
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        let is_timeout = matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
        assert!(!is_timeout, "the server neither answers nor ends: {bytes:?}");
    }
}

fn run(send: impl Fn(&[Change])) {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(CASES) });
    runner
        .run(&changes(), |changes| {
            send(&changes);
            Ok(())
        })
        .unwrap();
}

fn limits() -> ServerLimits {
    let short = Duration::from_millis(500);
    ServerLimits { stop_patience: Duration::from_millis(200), stalled_timeout: short, ..ServerLimits::default() }
}

#[test]
fn changed_sessions_leave_the_server_standing() {
    let server = TestServer::with_limits(limits());
    run(|changes| exchange(server.address(), &changed(session(), changes)));
    assert_eq!(server.raw().log_in().last().unwrap().0, b'Z');
}

#[test]
fn changed_logins_and_requests_get_nobody_in() {
    let database = Database::memory().unwrap();
    database.connect().unwrap().execute_batch("CREATE USER ann PASSWORD 'other'; CREATE TABLE t (a BIGINT)").unwrap();
    let options = ServerOptions { limits: limits(), ..ServerOptions::default() };
    let server = TestServer::with_options(database, options);
    run(|changes| {
        exchange(server.address(), &changed(login(), changes));
        request_once(server.http_address(), &changed(request(), changes));
    });
    assert_eq!(ask(&server, "GET", "/health", &[], b"").status, 200);
    let logged_in = |event: &rowmill_server::ServerEvent| matches!(event, rowmill_server::ServerEvent::LoggedIn { .. });
    assert!(!server.events.lock().unwrap().iter().any(logged_in));
}

/// Imports, exports and lines, each with parameters.
fn file_requests() -> [Vec<u8>; 3] {
    let request = |method: &str, path: &str, body: &str| {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let import = "/import/m?format=csv&create=true&delimiter=%3B&null_string=-&on_error=skip";
    [
        request("POST", import, "a;b\n1;\"x;y\"\n2;-\n"),
        request("GET", "/export?query=SELECT%201%20AS+a&format=ndjson&compression=gzip", ""),
        request("POST", "/write?precision=ms&db=x", "cpu,host=a n=1i 1700000000000\n"),
    ]
}

#[test]
fn changed_files_leave_the_server_standing() {
    let server = TestServer::with_limits(limits());
    run(|changes| {
        file_requests().into_iter().for_each(|request| request_once(server.http_address(), &changed(request, changes)));
    });
    assert_eq!(ask(&server, "POST", "/query", &[], b"SELECT 1").status, 200);
}

#[test]
fn changed_lines_are_stored_or_rejected() {
    let line = Some("127.0.0.1:0".parse().unwrap());
    let options = ServerOptions { limits: limits(), line, ..ServerOptions::default() };
    let server = TestServer::with_options(Database::memory().unwrap(), options);
    run(|changes| {
        let answer = ask(&server, "POST", "/api/v2/write", &[], &changed(LINES.to_vec(), changes));
        assert!(matches!(answer.status, 204 | 400), "{}: {}", answer.status, answer.text());
        exchange(server.server().line_address().unwrap(), &changed(LINES.to_vec(), changes));
        request_once(server.http_address(), &changed(request(), changes));
    });
    assert_eq!(ask(&server, "POST", "/query", &[], b"SELECT 1").status, 200);
}
