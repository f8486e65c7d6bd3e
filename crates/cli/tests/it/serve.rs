//! `rowmill serve`: its start, its refusal to be reachable, and its stop by a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::SHELL;

fn serve(arguments: &[&str]) -> Child {
    let mut command = Command::new(SHELL);
    command.arg("serve").args(arguments).stderr(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("the program starts")
}

#[test]
fn an_address_that_others_can_reach_is_refused_before_the_database_is_made() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().join("db");
    let output = serve(&[dir.to_str().expect("UTF-8"), "--pg", "0.0.0.0:0"]).wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("reachable from other machines"), "{errors}");
    assert!(!dir.exists());
}

/// A server in a process of its own, over a database in a temporary folder.
pub(crate) struct ServerProcess {
    child: Child,
    /// The thread that reads the log. A server whose log fills the pipe waits for its reader.
    log: std::thread::JoinHandle<String>,
    pub(crate) pg: String,
    pub(crate) http: String,
}

impl ServerProcess {
    pub(crate) fn start(dir: &str, arguments: &[&str]) -> ServerProcess {
        let addresses = [dir, "--pg", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let mut child = serve(&[&addresses[..], arguments].concat());
        let mut log = BufReader::new(child.stderr.take().expect("the error output"));
        let mut lines = String::new();
        while !lines.contains("HTTP at ") {
            assert!(log.read_line(&mut lines).expect("a log in UTF-8") > 0, "{lines}");
        }
        let address =
            |line: usize| lines.trim().lines().nth(line).and_then(|line| line.rsplit(' ').next()).map(str::to_owned);
        let (pg, http) = (address(0).expect("an address"), address(1).expect("an address"));
        let log = std::thread::spawn(move || {
            log.read_to_string(&mut lines).expect("a log in UTF-8");
            lines
        });
        ServerProcess { child, log, pg, http }
    }

    fn ask(&self, headers: &str, sql: &str) -> String {
        let mut client = TcpStream::connect(&self.http).expect("the server listens");
        let head = format!("POST /query HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}", self.http);
        let request = format!("{head}Content-Length: {}\r\n\r\n{sql}", sql.len());
        client.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// The bytes of memory that the process holds.
    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a process of Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the memory of the process");
        let kib: u64 = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
        kib << 10
    }

    /// Stops the server. Returns its log.
    pub(crate) fn stop(mut self) -> String {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill runs");
        assert!(killed.success());
        let log = self.log.join().expect("the log was read");
        assert!(self.child.wait().expect("it ends").success(), "{log}");
        log
    }
}

#[test]
fn the_log_has_logins_refusals_definitions_and_statements_without_passwords() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().join("db").to_string_lossy().into_owned();
    let server = ServerProcess::start(&dir, &["--log-queries", "--slow-query-ms", "0"]);
    assert!(server.ask("", "CREATE USER root PASSWORD 'hunter2' SUPERUSER").starts_with("HTTP/1.1 200"));
    assert!(server.ask("", "SELECT 1").starts_with("HTTP/1.1 401"));
    // root:hunter2
    let root = "Authorization: Basic cm9vdDpodW50ZXIy\r\n";
    assert!(server.ask(root, "SELECT 4711").starts_with("HTTP/1.1 200"));
    assert!(server.ask(root, "SELECT missing").starts_with("HTTP/1.1 400"));
    let log = server.stop();
    for part in [
        "rowmill::audit",
        "CREATE USER root PASSWORD '***' SUPERUSER",
        "refused: no password and no token was given",
        "SELECT 4711",
        "user=\"root\"",
        "sqlstate=\"42703\"",
        "slow statement",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn settings_come_from_file_environment_and_flags() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("serve.toml");
    std::fs::write(&file, "connections = 7\nrequest_bytes = \"1MiB\"\n").expect("written");
    let mut command = Command::new(SHELL);
    command.args(["serve", "/no/such/folder", "--check", "--stop-patience", "1s", "--config"]).arg(&file);
    let output = command.env("ROWMILL_SERVE_CONNECTIONS", "8").output().expect("it ends");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines =
        ["connections = 8  (environment)", "request_bytes = 1048576 bytes  (file)", "stop_patience = 1s  (flag)"];
    lines.iter().for_each(|line| assert!(shown.contains(line), "{line}: {shown}"));
    assert!(!std::path::Path::new("/no/such/folder").exists());
    let output = command.env("ROWMILL_SERVE_NONSENSE", "8").output().expect("it ends");
    assert!(!output.status.success());
}

/// With the variable ROWMILL_IDLE_CONNECTIONS, more connections are opened.
#[test]
fn idle_connections_take_little_memory() {
    const BYTES_MAX: u64 = 64 << 10;
    let given = std::env::var("ROWMILL_IDLE_CONNECTIONS").ok().and_then(|number| number.parse().ok());
    let count: u64 = given.unwrap_or(1000);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().join("db").to_string_lossy().into_owned();
    let server = ServerProcess::start(&dir, &[]);
    let connect = || {
        let mut client = TcpStream::connect(&server.pg).expect("the server listens");
        let start = b"\0\0\0\x13\0\x03\0\0user\0idle\0\0";
        client.write_all(start).and_then(|()| client.write_all(b"Q\0\0\0\x0dSELECT 1\0")).expect("sent");
        let mut answers = Vec::new();
        let mut part = [0; 1024];
        // The end of the answer to the statement.
        while answers.windows(6).filter(|six| *six == b"Z\0\0\0\x05I").count() < 2 {
            let read = client.read(&mut part).expect("an answer");
            assert!(read > 0, "{answers:?}");
            answers.extend_from_slice(&part[..read]);
        }
        client
    };
    let mut clients: Vec<TcpStream> = (0..50).map(|_| connect()).collect();
    let mut added = || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let before = server.resident_bytes();
        clients.extend((0..count / 5).map(|_| connect()));
        std::thread::sleep(std::time::Duration::from_millis(300));
        server.resident_bytes().saturating_sub(before) / (count / 5)
    };
    // The heaps of the session threads, which all connections share, grow while new threads start. The system decides
    // which threads run, so a busy machine starts more of them and starts them later. The second smallest step neither
    // has many new threads nor reuses the memory that an earlier step freed. A busy machine gets more steps.
    let mut steps: Vec<u64> = Vec::new();
    while steps.len() < 5 || (steps.len() < 12 && steps[1] >= BYTES_MAX) {
        steps.push(added());
        steps.sort_unstable();
    }
    let each = steps[1];
    assert!(each < BYTES_MAX, "an idle connection takes {each} bytes");
    #[allow(clippy::print_stderr)]
    {
        eprintln!("{count} idle connections take {each} bytes each");
    }
    drop(clients);
    server.stop();
}

#[test]
fn a_signal_ends_the_server_and_closes_the_database() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().join("db");
    let dir = dir.to_str().expect("UTF-8");
    let mut server = serve(&[dir, "--pg", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    let mut log = BufReader::new(server.stderr.take().expect("the error output"));
    let mut lines = String::new();
    while !lines.contains("HTTP at ") {
        assert!(log.read_line(&mut lines).expect("a log in UTF-8") > 0, "{lines}");
    }
    let address = lines.trim().rsplit(' ').next().expect("an address");
    let mut client = TcpStream::connect(address).expect("the server listens");
    let sql = "CREATE TABLE t AS SELECT 7 AS a";
    let head = format!(
        "POST /query HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        sql.len()
    );
    client.write_all(head.as_bytes()).expect("sent");
    client.write_all(sql.as_bytes()).expect("sent");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let killed = Command::new("kill").args(["-TERM", &server.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    log.read_to_string(&mut lines).expect("a log in UTF-8");
    assert!(server.wait().expect("it ends").success(), "{lines}");
    assert!(lines.trim_end().ends_with("stopped"), "{lines}");
    let output = Command::new(SHELL).args([dir, "SELECT a FROM t"]).output().expect("the shell runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a\n7\n");
}
