//! Drivers of other languages, where they can be installed: each runs a script of `clients/` against a new server.
//!
//! Python's drivers go into a virtual environment, and those of Node and Java into folders, below `target/clients`.
//! They are installed once. Without the interpreter or the network, a test says so and is skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rowmill::Database;
use rowmill_server::ServerOptions;

use crate::support::TestServer;

/// A network without answers must not hold up the suite for longer.
const INSTALL_TIME_MAX: Duration = Duration::from_secs(60);

/// Only one test at a time may install something.
static INSTALLING: Mutex<()> = Mutex::new(());

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients")
}

fn installed() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.join("clients")
}

fn skip(what: &str) {
    #[allow(clippy::print_stderr)]
    {
        eprintln!("skipped: {what}");
    }
}

/// Runs a program of an installation. Returns whether it ended well and in time.
fn runs(program: &Path, arguments: &[&str], folder: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut running) = command.spawn() else { return false };
    let since = Instant::now();
    loop {
        match running.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if since.elapsed() < INSTALL_TIME_MAX => sleep(Duration::from_millis(50)),
            Ok(None) | Err(_) => {
                let _ = running.kill();
                let _ = running.wait();
                return false;
            }
        }
    }
}

/// Makes the folder `name` with `install`, unless an earlier run has done so. `None`, with a message, if it cannot be
/// made.
fn installation(name: &str, install: impl FnOnce(&Path) -> bool) -> Option<PathBuf> {
    let _installing = INSTALLING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = installed().join(name);
    let done = folder.join("installed");
    if !done.exists() {
        std::fs::create_dir_all(&folder).ok()?;
        if !install(&folder) {
            skip(&format!("{name} cannot be installed"));
            return None;
        }
        std::fs::write(done, "").ok()?;
    }
    Some(folder)
}

fn check(output: std::io::Result<Output>) {
    let output = output.unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{errors}");
}

fn port(server: &TestServer) -> String {
    server.address().port().to_string()
}

/// Runs a script with the packages that it needs. Its argument is the port of the wire protocol.
fn python(script: &str, packages: &[&str]) {
    let server = TestServer::start();
    python_with(script, packages, &[port(&server)]);
}

/// Runs a script with the packages and the arguments that it needs.
fn python_with(script: &str, packages: &[&str], arguments: &[String]) {
    let installed = installation(script, |folder| {
        let pip = folder.join("venv/bin/pip");
        let arguments =
            [&["install", "-q", "--disable-pip-version-check", "--retries=1", "--timeout=10"], packages].concat();
        runs(Path::new("python3"), &["-m", "venv", "venv"], folder) && runs(&pip, &arguments, folder)
    });
    let Some(folder) = installed else { return };
    let script = scripts().join(format!("{script}.py"));
    check(Command::new(folder.join("venv/bin/python")).arg(script).args(arguments).output());
}

#[test]
fn psycopg_works() {
    python("psycopg_client", &["psycopg[binary]==3.3.9"]);
}

#[test]
fn asyncpg_works() {
    python("asyncpg_client", &["asyncpg==0.32.0"]);
}

#[test]
fn pg8000_works() {
    python("pg8000_client", &["pg8000==1.31.6"]);
}

#[test]
fn sqlalchemy_and_pandas_work() {
    python("sqlalchemy_client", &["psycopg[binary]==3.3.9", "sqlalchemy==2.1.9", "pandas==3.1.1"]);
}

#[test]
fn clients_of_questdb_send_lines_over_http_and_tcp() {
    let line = Some("127.0.0.1:0".parse().unwrap());
    let options = ServerOptions { line, ..ServerOptions::default() };
    let server = TestServer::with_options(Database::memory().unwrap(), options);
    let ports =
        [server.http_address(), server.server().line_address().unwrap()].map(|address| address.port().to_string());
    python_with("questdb_client", &["questdb==6.0.0"], &ports);
}

#[test]
fn clients_of_influxdb_send_lines() {
    let server = TestServer::start();
    let packages = ["influxdb-client==1.50.0", "influxdb3-python==0.21.0"];
    python_with("influxdb_clients", &packages, &[server.http_address().port().to_string()]);
}

#[test]
fn node_postgres_works() {
    let installed = installation("node", |folder| {
        runs(Path::new("npm"), &["init", "-y"], folder) && runs(Path::new("npm"), &["install", "pg@8.23.1"], folder)
    });
    let Some(folder) = installed else { return };
    let server = TestServer::start();
    let mut node = Command::new("node");
    node.arg(scripts().join("node_client.js")).arg(port(&server)).env("NODE_PATH", folder.join("node_modules"));
    check(node.output());
}

#[test]
fn jdbc_works() {
    const DRIVER: &str = "postgresql-42.7.7.jar";
    let installed = installation("java", |folder| {
        let from = "-Dartifact=org.postgresql:postgresql:42.7.7";
        let copy = ["-q", "dependency:copy", from, "-DoutputDirectory=."];
        runs(Path::new("java"), &["-version"], folder)
            && runs(Path::new("mvn"), &copy, folder)
            && folder.join(DRIVER).exists()
    });
    let Some(folder) = installed else { return };
    let server = TestServer::start();
    let mut java = Command::new("java");
    java.arg("-cp").arg(folder.join(DRIVER)).arg(scripts().join("JdbcClient.java")).arg(port(&server));
    check(java.output());
}
