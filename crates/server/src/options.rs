//! What a server is told: its addresses and limits, checked once before anything is bound.

use std::net::SocketAddr;
use std::time::Duration;

use rowmill::{Error, ErrorKind, Result};

use crate::event::EventSink;

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
    /// The limits.
    pub limits: ServerLimits,
    /// Receives what the server reports. `None` drops the reports.
    pub events: Option<EventSink>,
}

/// The limits of a server. Each protects it from one kind of client.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// The most connections of the wire protocol at a time, with those that have not logged in.
    pub connections_max: usize,
    /// The most statements that run at a time, over all protocols. More statements wait.
    pub running_max: usize,
    /// The most bytes of one message or request body.
    pub message_bytes_max: usize,
    /// How long a client may take to log in.
    pub login_timeout: Duration,
    /// How long a client may take to read its answer, or to send the next part of its COPY, before its connection ends.
    pub stalled_timeout: Duration,
    /// How long running statements may go on after the server was told to stop.
    pub stop_patience: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            connections_max: 10_000,
            running_max: 512,
            message_bytes_max: 256 << 20,
            login_timeout: Duration::from_secs(30),
            stalled_timeout: Duration::from_secs(60),
            stop_patience: Duration::from_secs(5),
        }
    }
}

impl ServerOptions {
    /// Checks that the server may listen at its addresses. There are no users yet, so every client that reaches the
    /// server may do everything: it must be reachable from this machine only.
    pub fn check(&self) -> Result<()> {
        if self.pg.is_none() && self.http.is_none() {
            return Err(Error::new(ErrorKind::InvalidParameter, "the server has no address to listen at")
                .hint("give it one: --pg 127.0.0.1:5432 or --http 127.0.0.1:8080"));
        }
        for (name, address) in [("--pg", self.pg), ("--http", self.http)] {
            let Some(address) = address.filter(|address| !address.ip().is_loopback()) else { continue };
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("{name} {address} is reachable from other machines, but the server has no users to check"),
            )
            .hint("listen at 127.0.0.1 or [::1], and let a tunnel or a proxy that checks users forward to it"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_allowed() {
        let with = |pg: &str| ServerOptions { pg: pg.parse().ok(), ..ServerOptions::default() };
        assert!(with("127.0.0.1:5432").check().is_ok());
        assert!(with("127.8.0.1:5432").check().is_ok());
        assert!(with("[::1]:5432").check().is_ok());
        for open in ["0.0.0.0:5432", "[::]:5432", "192.168.1.2:5432"] {
            let error = with(open).check().expect_err("reachable from other machines");
            assert!(error.message().contains(open), "{error}");
        }
        assert!(ServerOptions::default().check().is_err());
    }
}
