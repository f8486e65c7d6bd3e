//! pgbench, where it is installed: it fills its tables and runs its scripts.

use std::path::Path;
use std::process::Command;

use crate::support::{TestServer, runtime};

const PGBENCH: &str = "/usr/bin/pgbench";

/// Runs pgbench with arguments, and returns what it writes. `None`, with a message, where it is not installed.
fn pgbench(server: &TestServer, arguments: &[&str]) -> Option<String> {
    if !Path::new(PGBENCH).exists() {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("skipped: {PGBENCH} is not installed");
        }
        return None;
    }
    let port = server.address().port().to_string();
    let address = ["-h", "127.0.0.1", "-p", &port, "-U", "tester"];
    let output = Command::new(PGBENCH).args(address).args(arguments).arg("rowmill").output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "pgbench {arguments:?}: {out}\n{errors}");
    assert!(!errors.contains("error") && !errors.contains("aborted"), "pgbench {arguments:?}: {errors}");
    Some(out.into_owned())
}

#[test]
fn pgbench_fills_its_tables_and_runs_its_scripts() {
    let server = TestServer::with_default_settings();
    if pgbench(&server, &["-i", "-q"]).is_none() {
        return;
    }
    for arguments in [
        &["-S", "-T", "1", "-c", "2"][..],
        &["-T", "1", "-c", "2"],
        &["-T", "1", "-c", "2", "-M", "prepared"],
        &["-N", "-T", "1", "-c", "2", "-M", "extended"],
        // Filling the tables again, on the side of the server.
        &["-i", "-q", "-I", "dtGvp"],
        &["-T", "1", "-M", "prepared"],
    ] {
        let out = pgbench(&server, arguments).unwrap();
        assert!(arguments[0] == "-i" || out.contains("number of failed transactions: 0 "), "{out}");
    }
    runtime().block_on(async {
        let client = server.client().await;
        let counts = "SELECT (SELECT count(*) FROM pgbench_accounts), (SELECT count(*) FROM pgbench_history),
            (SELECT sum(abalance) FROM pgbench_accounts) - (SELECT sum(delta) FROM pgbench_history),
            (SELECT sum(bbalance) FROM pgbench_branches) - (SELECT sum(tbalance) FROM pgbench_tellers)";
        let row = &client.simple_query(counts).await.unwrap()[1];
        let tokio_postgres::SimpleQueryMessage::Row(row) = row else { panic!("{row:?}") };
        assert_eq!((row.get(0), row.get(2), row.get(3)), (Some("100000"), Some("0"), Some("0")));
        assert!(row.get(1).unwrap().parse::<u64>().unwrap() > 0);
    });
}
