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
