//! Runs the statements of a file on a server of PostgreSQL's wire protocol, and reports their times.
//!
//! The client only counts the bytes of an answer: a driver that decodes rows would add its own time, which has nothing
//! to do with the server. Statements go by the simple protocol, as psql sends them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use rowmill_base::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use crate::run::statements;

/// Version 3.0 of the protocol.
const PROTOCOL: i32 = 3 << 16;
/// The bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// The parameters of a run.
pub struct WireRun<'a> {
    /// The address of the server, for example `127.0.0.1:5432`. It must let the user in without a password.
    pub address: &'a str,
    /// The name of the user and of the database.
    pub user: &'a str,
    /// The statements, one per line.
    pub statements: &'a str,
    /// The number of times that each statement runs.
    pub runs: usize,
}

/// Runs every statement and makes the report. If a statement fails, we report its error and run the next one.
pub fn run(run: &WireRun<'_>) -> Result<Value> {
    let mut client = WireClient::connect(run.address, run.user)?;
    let mut times = Vec::new();
    let mut bytes = Vec::new();
    for statement in statements(run.statements) {
        let (mut seconds, mut answered) = (Vec::new(), 0);
        let mut failure = None;
        for _ in 0..run.runs {
            let started = Instant::now();
            let answer = client.ask(statement)?;
            seconds.push((started.elapsed().as_secs_f64() * 1e6).round() / 1e6);
            answered = answer.bytes;
            failure = failure.or(answer.failure);
        }
        times.push(failure.map_or(json!(seconds), |error| json!({ "error": error })));
        bytes.push(answered);
    }
    Ok(json!({ "engine": "wire", "times": times, "answer_bytes": bytes }))
}

/// A connection that was let in.
struct WireClient {
    stream: TcpStream,
    address: String,
    /// The bytes of one read.
    part: Vec<u8>,
    /// Bytes that have arrived and are not passed yet.
    pending: Vec<u8>,
}

/// The size of an answer, and the fields of its error.
struct WireAnswer {
    bytes: usize,
    failure: Option<String>,
}

impl WireClient {
    fn connect(address: &str, user: &str) -> Result<WireClient> {
        let failed = |error| Error::io(format!("connecting to {address}"), &error);
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let body = format!("user\0{user}\0database\0{user}\0\0");
        let mut start = ((body.len() + 8) as i32).to_be_bytes().to_vec();
        start.extend_from_slice(&PROTOCOL.to_be_bytes());
        start.extend_from_slice(body.as_bytes());
        let mut client =
            WireClient { stream, address: address.to_owned(), part: vec![0; READ_BYTES], pending: Vec::new() };
        client.send(&start)?;
        client.answer()?;
        Ok(client)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).map_err(|error| Error::io(format!("sending to {}", self.address), &error))
    }

    fn ask(&mut self, sql: &str) -> Result<WireAnswer> {
        let mut message = vec![b'Q'];
        message.extend_from_slice(&((sql.len() + 5) as i32).to_be_bytes());
        message.extend_from_slice(sql.as_bytes());
        message.push(0);
        self.send(&message)?;
        self.answer()
    }

    /// Reads messages up to the one that says that the server is ready, or that it ends the connection.
    fn answer(&mut self) -> Result<WireAnswer> {
        let mut answer = WireAnswer { bytes: 0, failure: None };
        loop {
            let mut at = 0;
            while let Some((kind, body, length)) = message(&self.pending[at..]) {
                at += length;
                match kind {
                    b'E' => answer.failure = Some(String::from_utf8_lossy(body).replace('\0', " ")),
                    b'R' if body != [0; 4] => {
                        let what = format!("{} asks for a password", self.address);
                        return Err(
                            Error::new(ErrorKind::InvalidAuthorization, what).hint("use a database without users")
                        );
                    }
                    b'Z' => {
                        self.pending.drain(..at);
                        return Ok(answer);
                    }
                    _ => {}
                }
            }
            self.pending.drain(..at);
            let read = self.stream.read(&mut self.part);
            let read = read.map_err(|error| Error::io(format!("reading from {}", self.address), &error))?;
            if read == 0 {
                let why = answer.failure.unwrap_or_default();
                return Err(Error::new(ErrorKind::Io, format!("{} has closed the connection {why}", self.address)));
            }
            answer.bytes += read;
            self.pending.extend_from_slice(&self.part[..read]);
        }
    }
}

/// The type, the body and the length with its head of the first message, if it is complete.
fn message(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let length = u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?) as usize;
    Some((bytes[0], bytes.get(5..length + 1)?, length + 1))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_message_counts_when_it_is_complete() {
        let bytes = b"Z\0\0\0\x05IC\0\0";
        assert_eq!(message(bytes), Some((b'Z', &b"I"[..], 6)));
        assert_eq!(message(&bytes[..5]), None);
        assert_eq!(message(&bytes[6..]), None);
    }

    #[test]
    fn statements_are_timed_and_errors_are_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let ready = b"Z\0\0\0\x05I";
            let answers = [&b"R\0\0\0\x08\0\0\0\0"[..], b"C\0\0\0\x05\0", b"E\0\0\0\x08bad\0"];
            for answer in answers {
                assert!(stream.read(&mut [0; 100]).expect("a message") > 0);
                stream.write_all(&[answer, ready].concat()).expect("a client that reads");
            }
        });
        let wire = WireRun { address: &address, user: "tester", statements: "SELECT 1;\nSELECT x", runs: 1 };
        let report = run(&wire).expect("a report");
        server.join().expect("a server");
        assert!(report["times"][0][0].as_f64().is_some_and(|seconds| seconds > 0.0), "{report}");
        assert_eq!(report["times"][1]["error"], "bad ");
        assert_eq!(report["answer_bytes"], json!([12, 15]));
    }
}
