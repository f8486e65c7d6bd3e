//! psql, where it is installed.

use std::process::{Command, Output};

use crate::support::TestServer;

const PSQL: &str = "/usr/bin/psql";

/// Runs psql with arguments. `None`, with a message, where it is not installed.
pub(crate) fn psql(server: &TestServer, arguments: &[&str]) -> Option<Output> {
    if !std::path::Path::new(PSQL).exists() {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("skipped: {PSQL} is not installed");
        }
        return None;
    }
    let url = format!("host=127.0.0.1 port={} user=tester dbname=rowmill", server.address().port());
    let output = Command::new(PSQL).args(["-X", "-q", "-A", "-t", &url]).args(arguments).output();
    Some(output.expect("psql runs"))
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn psql_runs_statements_and_shows_errors() {
    let server = TestServer::start();
    let script = "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, NULL); SELECT * FROM t";
    let Some(output) = psql(&server, &["-c", script]) else { return };
    assert_eq!(text(&output), "1|x\n2|\n");

    let output = psql(&server, &["-c", "SELECT a,\n missing FROM t"]).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("LINE 2:  missing FROM t") && errors.contains('^'), "{errors}");

    let output = psql(&server, &["-v", "FETCH_COUNT=1000", "-c", "SELECT n FROM range(2500) AS r(n) ORDER BY n"]);
    assert_eq!(text(&output.unwrap()).lines().count(), 2_500);
}

#[test]
fn psql_runs_a_script_in_a_transaction() {
    let server = TestServer::start();
    let script =
        ["-1", "-c", "CREATE TABLE t (a INTEGER)", "-c", "INSERT INTO t VALUES (1)", "-c", "SELECT COUNT(*) FROM t"];
    let Some(output) = psql(&server, &script) else { return };
    assert_eq!(text(&output), "1\n");
    let bind = ["-c", "SELECT a FROM t WHERE a = 1", "-c", "\\gdesc"];
    assert_eq!(text(&psql(&server, &bind[..2]).unwrap()), "1\n");
}
