//! What a server is told: its addresses and limits, checked once before anything is bound.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rowmill::{Error, ErrorKind, Result};

use crate::event::EventSink;
use crate::tls::TlsFiles;

/// Settings with which a database should be opened for a server, each as `NAME=VALUE`. Programs that were written for
/// PostgreSQL expect them: a statement sees everything that was committed before it, and waits for rows that other
/// transactions have written instead of failing.
pub const DEFAULT_SETTINGS: [&str; 2] = ["default_transaction_isolation=read committed", "wait_for_rows=true"];

/// The addresses and limits of a server.
#[derive(Clone, Default)]
pub struct ServerOptions {
    /// Where PostgreSQL's wire protocol is spoken. `None` turns it off. Port 0 takes any free port.
    pub pg: Option<SocketAddr>,
    /// Where HTTP is spoken. `None` turns it off. Port 0 takes any free port.
    pub http: Option<SocketAddr>,
    /// Where line protocol is taken over TCP. `None` turns it off. Port 0 takes any free port. The protocol has no
    /// login and no encryption, so it must be an address of this machine, and serves only databases without users.
    pub line: Option<SocketAddr>,
    /// The certificate. Without one, clients cannot use TLS; with one, HTTP is HTTPS only. A server that other machines
    /// reach should have one.
    pub tls: Option<TlsFiles>,
    /// Whether clients of the wire protocol without TLS are refused.
    pub requires_tls: bool,
    /// The folders whose files roles may read and write that are no superusers.
    pub folders: Vec<PathBuf>,
    /// The statements that are logged.
    pub logs: ServerLogs,
    /// The limits.
    pub limits: ServerLimits,
    /// Receives what the server reports. `None` drops the reports.
    pub events: Option<EventSink>,
}

/// The statements that a server logs. Logins, refusals, and changes of definitions and rights are logged anyway.
#[derive(Clone, Debug, Default)]
pub struct ServerLogs {
    /// Whether every statement is logged.
    pub all_statements: bool,
    /// Statements that take at least this time are logged.
    pub slow_statement: Option<Duration>,
}

/// The limits of a server. Each protects it from one kind of client.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// The most connections of each protocol at a time, with those that have not logged in. Each takes an open file, so
    /// the process should be allowed to open more files than this.
    pub connections_max: usize,
    /// The most statements that the engine runs at a time, over all protocols. More statements wait.
    pub running_max: usize,
    /// The most statements that wait. More statements fail.
    pub waiting_max: usize,
    /// How long an open transaction may wait for its next statement before its session ends. Zero is no limit.
    /// A server with many writers should have one, because an open transaction keeps its rows from others.
    pub idle_transaction_timeout: Duration,
    /// The most bytes of one message or request body.
    pub message_bytes_max: usize,
    /// How long a client may take to log in.
    pub login_timeout: Duration,
    /// How long a client may take to read its answer, or to send the next part of its COPY, before its connection ends.
    pub stalled_timeout: Duration,
    /// How long running statements may go on after the server was told to stop. It should be shorter than the time
    /// after which the supervisor of the process kills it.
    pub stop_patience: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            connections_max: 10_000,
            running_max: 512,
            waiting_max: 256,
            idle_transaction_timeout: Duration::ZERO,
            message_bytes_max: 256 << 20,
            login_timeout: Duration::from_secs(30),
            stalled_timeout: Duration::from_secs(60),
            stop_patience: Duration::from_secs(5),
        }
    }
}

impl ServerOptions {
    /// Checks that the options fit each other. It needs no database, so a host can call it before it opens one.
    pub fn check(&self) -> Result<()> {
        if self.pg.is_none() && self.http.is_none() && self.line.is_none() {
            return Err(Error::new(ErrorKind::InvalidParameter, "the server has no address to listen at")
                .hint("give it one: --pg 127.0.0.1:5432 or --http 127.0.0.1:8080"));
        }
        let invalid = |what: String| Error::new(ErrorKind::InvalidParameter, what);
        if self.requires_tls && self.tls.is_none() {
            return Err(invalid("TLS is required, but the server has no certificate".into())
                .hint("give it one: --tls-cert FILE --tls-key FILE"));
        }
        if let Some(address) = self.line.filter(|address| !address.ip().is_loopback()) {
            let what = format!("--line {address} is reachable from other machines, but line protocol has no login");
            return Err(invalid(what).hint("listen at 127.0.0.1 or [::1], or use line protocol over HTTP"));
        }
        // A password over HTTP is not hidden as one of SCRAM is.
        if let Some(address) = self.http.filter(|address| !address.ip().is_loopback() && self.tls.is_none()) {
            let what =
                format!("--http {address} is reachable from other machines, and would send passwords unencrypted");
            return Err(invalid(what).hint("give the server a certificate: --tls-cert FILE --tls-key FILE"));
        }
        Ok(())
    }

    /// Checks that the server may listen at its addresses. Without users, every client that reaches the server may do
    /// everything, so it must be reachable from this machine only.
    pub fn check_reach(&self, has_users: bool) -> Result<()> {
        if has_users {
            let Some(address) = self.line else { return Ok(()) };
            let what = format!("--line {address} would let in clients without a login, but the database has users");
            return Err(Error::new(ErrorKind::InvalidParameter, what)
                .hint("leave out --line; POST /write takes the same lines with a token or a password"));
        }
        for (name, address) in [("--pg", self.pg), ("--http", self.http)] {
            let Some(address) = address.filter(|address| !address.ip().is_loopback()) else { continue };
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("{name} {address} is reachable from other machines, but the database has no users"),
            )
            .hint(
                "make one in the shell: CREATE USER name PASSWORD '...' SUPERUSER; or listen at 127.0.0.1 or [::1]",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_users_only_addresses_of_this_machine_are_allowed() {
        let with = |pg: &str| ServerOptions { pg: pg.parse().ok(), ..ServerOptions::default() };
        assert!(with("127.0.0.1:5432").check_reach(false).is_ok());
        assert!(with("127.8.0.1:5432").check_reach(false).is_ok());
        assert!(with("[::1]:5432").check_reach(false).is_ok());
        for open in ["0.0.0.0:5432", "[::]:5432", "192.168.1.2:5432"] {
            let error = with(open).check_reach(false).expect_err("reachable from other machines");
            assert!(error.message().contains(open), "{error}");
            assert!(with(open).check_reach(true).is_ok());
        }
        assert!(ServerOptions::default().check().is_err());
        let line = |line: &str| ServerOptions { line: line.parse().ok(), ..ServerOptions::default() };
        assert!(line("127.0.0.1:9009").check().is_ok() && line("127.0.0.1:9009").check_reach(false).is_ok());
        assert!(line("127.0.0.1:9009").check_reach(true).is_err() && line("0.0.0.0:9009").check().is_err());
    }

    #[test]
    fn passwords_do_not_cross_the_network_unencrypted() {
        let open = ServerOptions { http: "0.0.0.0:8080".parse().ok(), ..ServerOptions::default() };
        assert!(open.check().is_err());
        let files = TlsFiles { certificate: "cert.pem".into(), key: "key.pem".into() };
        assert!(ServerOptions { tls: Some(files), ..open }.check().is_ok());
        let pg = "127.0.0.1:5432".parse().ok();
        assert!(ServerOptions { pg, requires_tls: true, ..ServerOptions::default() }.check().is_err());
    }
}
