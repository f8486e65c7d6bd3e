//! A server that is killed while it stores lines must have each acknowledged request once, and no request in part.
//!
//! The test runs itself as a child process, which serves a directory. We send requests of several tables and columns to
//! it until we kill it, and send the request without an answer again to the next server, with its key.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rowmill::Database;
use rowmill_server::{Server, ServerOptions};

/// The variable that makes a process the child: the directory that it serves.
const CHILD: &str = "ROWMILL_LINES_CHILD";
/// The rows of each of two tables that a request stores.
const ROWS: u64 = 50;

fn rounds() -> u64 {
    if std::env::var_os("ROWMILL_LONG").is_some() { 100 } else { 8 }
}

#[test]
fn acknowledged_lines_survive_a_kill_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut request = 0;
    for round in 0..rounds() {
        let (mut child, address) = start(directory.path());
        // The first request of a server must be answered, so that the tables are there to be checked.
        assert!(send(&address, request), "a new server answers");
        request += 1;
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50 + round * 37 % 250));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        while send(&address, request) {
            request += 1;
        }
        killer.join().unwrap();
        check(directory.path(), request);
    }
    assert!(request > 2 * rounds(), "{request} requests prove nothing");
}

/// Serves a directory until it is killed, if the variable asks for it. In a normal run it does nothing.
#[test]
fn the_child_serves_lines() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let options = ServerOptions { http: Some("127.0.0.1:0".parse().unwrap()), ..ServerOptions::default() };
    let server = Server::start(Database::open(Path::new(&directory)).unwrap(), options).unwrap();
    println!("\nserving {}", server.http_address().unwrap());
    // The limit ends a child whose parent has died.
    std::thread::sleep(Duration::from_secs(60));
}

fn start(directory: &Path) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["line_kills::the_child_serves_lines", "--exact", "--nocapture"])
        .env(CHILD, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("serving ").map(str::to_owned));
    (child, address.expect("the child serves"))
}

/// Sends a request with its key. Returns whether it was acknowledged.
fn send(address: &str, request: u64) -> bool {
    // Every tenth request brings a new column.
    let lines = (0..ROWS).map(|row| {
        let (time, column) = (request * ROWS + row, request / 10);
        format!("first,host=h{row} request={request}i {time}\nsecond c{column}=1i,request={request}i {time}\n")
    });
    let body: String = lines.collect();
    let head = format!(
        "POST /write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nIdempotency-Key: k{request}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut answer = String::new();
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    if sent.and_then(|()| stream.read_to_string(&mut answer)).is_err() || answer.is_empty() {
        return false;
    }
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    true
}

/// Checks that the requests before `next` are there once, and that the request `next` is there as a whole or not at
/// all.
fn check(directory: &Path, next: u64) {
    let database = Database::open(directory).unwrap();
    let mut connection = database.connect().unwrap();
    let mut count = |sql: &str| {
        let rows = connection.query(sql).unwrap().rows().unwrap();
        u64::try_from(rows[0].get::<i64>(0).unwrap()).unwrap()
    };
    let keys = count("SELECT count(*) FROM rowmill_applied_requests");
    assert!(keys == next || keys == next + 1, "{keys} keys after {next} answers");
    for table in ["first", "second"] {
        assert_eq!(count(&format!("SELECT count(*) FROM {table}")), keys * ROWS, "{table}");
        let wrong = format!("SELECT request FROM {table} GROUP BY request HAVING count(*) <> {ROWS}");
        assert_eq!(count(&format!("SELECT count(*) FROM ({wrong}) AS w")), 0, "{table}");
    }
}
