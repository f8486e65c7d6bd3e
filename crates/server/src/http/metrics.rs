//! Counters of the server, and their text for Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::server::ServerShared;

/// What the server counts.
pub(crate) struct ServerMetrics {
    started: Instant,
    pg_statements: AtomicU64,
    http_statements: AtomicU64,
    errors: AtomicU64,
}

impl ServerMetrics {
    pub(crate) fn new() -> ServerMetrics {
        let zero = || AtomicU64::new(0);
        ServerMetrics { started: Instant::now(), pg_statements: zero(), http_statements: zero(), errors: zero() }
    }

    pub(crate) fn count_pg(&self) {
        self.pg_statements.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_http(&self) {
        self.http_statements.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters in Prometheus' text format.
pub(super) fn text(shared: &ServerShared) -> String {
    let metrics = &shared.metrics;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, help: &str, values: &[(&str, u64)]| {
        let _ = writeln!(text, "# HELP rowmill_{name} {help}\n# TYPE rowmill_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "rowmill_{name}{labels} {value}");
        }
    };
    let statements =
        [("{protocol=\"pg\"}", load(&metrics.pg_statements)), ("{protocol=\"http\"}", load(&metrics.http_statements))];
    add("statements_total", "counter", "Statements that were started.", &statements);
    add("errors_total", "counter", "Statements that have failed.", &[("", load(&metrics.errors))]);
    let connections = shared.connections.load(Ordering::Relaxed) as u64;
    add("connections", "gauge", "Open connections of the wire protocol.", &[("", connections)]);
    add("sessions", "gauge", "Sessions and requests that can run statements.", &[("", shared.cancels.len() as u64)]);
    let running = shared.database.running_statements().len() as u64;
    add("running_statements", "gauge", "Statements that the engine runs.", &[("", running)]);
    let load = shared.database.load();
    add("memory_bytes", "gauge", "Bytes of memory in use.", &[("", load.memory_bytes)]);
    add(
        "memory_peak_bytes",
        "gauge",
        "The most bytes that statements have held at once.",
        &[("", load.memory_peak_bytes)],
    );
    add("memory_limit_bytes", "gauge", "The limit of memory.", &[("", load.memory_limit_bytes)]);
    add("temporary_bytes", "gauge", "Bytes of temporary files.", &[("", load.temporary_bytes)]);
    add("temporary_limit_bytes", "gauge", "The limit of temporary files.", &[("", load.temporary_limit_bytes)]);
    add("commits_total", "counter", "Commits.", &[("", load.commits)]);
    add("log_bytes_total", "counter", "Bytes written to the log.", &[("", load.log_bytes)]);
    add("log_syncs_total", "counter", "Syncs of the log.", &[("", load.log_syncs)]);
    add("log_bytes_behind", "gauge", "Bytes of the log that wait for a checkpoint.", &[("", load.log_bytes_behind)]);
    add("checkpoints_total", "counter", "Checkpoints.", &[("", load.checkpoints)]);
    let uptime = metrics.started.elapsed().as_secs();
    add("uptime_seconds", "gauge", "Time since the server was started.", &[("", uptime)]);
    text
}
