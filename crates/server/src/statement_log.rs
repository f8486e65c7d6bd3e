//! The log of statements, by `tracing`.
//!
//! | target | what |
//! | --- | --- |
//! | `rowmill::server` | start and stop, lost connections, violations of protocols |
//! | `rowmill::audit` | logins, refusals, and statements that change definitions, roles or rights |
//! | `rowmill::query` | statements, if the server was told to log them |
//!
//! Each line has fields: who, from where, how long. Passwords are left out of statements.

use std::net::SocketAddr;
use std::time::Instant;

use rowmill::text::{LexemeKind, lexemes, without_passwords};

use crate::event::ServerEvent;
use crate::options::ServerLogs;

/// The most bytes of a statement in the log.
const SHOWN_BYTES_MAX: usize = 4_096;
/// The statements that are in the audit log.
const AUDITED: [&str; 12] = [
    "CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT", "REVOKE", "BACKUP", "RESTORE", "VACUUM", "REINDEX", "COMMENT",
    "REASSIGN",
];

/// Who runs a statement, and when it began.
pub(crate) struct StatementClock<'s> {
    pub(crate) user: &'s str,
    pub(crate) client: Option<SocketAddr>,
    pub(crate) started: Instant,
}

impl ServerLogs {
    /// Logs a statement that has ended. `failure` is the SQLSTATE if it failed.
    pub(crate) fn statement(&self, clock: &StatementClock<'_>, sql: &str, failure: Option<&str>) {
        let took = clock.started.elapsed();
        let is_slow = self.slow_statement.is_some_and(|limit| took >= limit);
        let is_audited = is_audited(sql);
        if !(is_slow || is_audited || self.all_statements) {
            return;
        }
        let (ms, outcome) = (took.as_secs_f64() * 1_000.0, failure.unwrap_or("00000"));
        let client = clock.client.map(|client| client.to_string()).unwrap_or_default();
        let (user, shown) = (clock.user, shown(sql));
        if is_audited {
            tracing::info!(
                target: "rowmill::audit", user, client, ms, sqlstate = outcome, statement = shown, "definition"
            );
        }
        if is_slow {
            tracing::warn!(
                target: "rowmill::query", user, client, ms, sqlstate = outcome, statement = shown, "slow statement"
            );
        } else if self.all_statements {
            tracing::info!(
                target: "rowmill::query", user, client, ms, sqlstate = outcome, statement = shown, "statement"
            );
        }
    }
}

/// Whether a statement changes definitions, roles or rights.
fn is_audited(sql: &str) -> bool {
    let first = lexemes(sql).find(|lexeme| lexeme.is_code());
    first.is_some_and(|first| {
        first.kind == LexemeKind::Word && AUDITED.iter().any(|word| word.eq_ignore_ascii_case(first.text))
    })
}

/// A statement as the log shows it: without passwords, on one line, and not too long.
fn shown(sql: &str) -> String {
    let hidden = without_passwords(sql);
    let mut line = hidden.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > SHOWN_BYTES_MAX {
        let end = (0..=SHOWN_BYTES_MAX).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
        line.truncate(end);
        line.push_str("...");
    }
    line
}

/// Logs what the server reports.
pub(crate) fn event(event: &ServerEvent) {
    match event {
        ServerEvent::LoggedIn { .. } => tracing::info!(target: "rowmill::audit", "{event}"),
        ServerEvent::LoginRefused { .. } | ServerEvent::Refused { .. } | ServerEvent::CancelRefused { .. } => {
            tracing::warn!(target: "rowmill::audit", "{event}");
        }
        ServerEvent::ProtocolViolation { .. }
        | ServerEvent::Lost { .. }
        | ServerEvent::AcceptFailed { .. }
        | ServerEvent::CertificateRefused { .. } => tracing::warn!(target: "rowmill::server", "{event}"),
        _ => tracing::info!(target: "rowmill::server", "{event}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_shows_no_passwords_and_no_endless_lines() {
        assert_eq!(shown("CREATE USER a\n  PASSWORD 'secret'"), "CREATE USER a PASSWORD '***'");
        assert!(shown(&"é".repeat(10_000)).len() <= SHOWN_BYTES_MAX + 3);
    }

    #[test]
    fn changes_of_definitions_and_rights_are_audited() {
        for sql in ["-- a\ncreate table t (a INT)", "GRANT a TO b", "drop role x"] {
            assert!(is_audited(sql), "{sql}");
        }
        for sql in ["SELECT 1", "INSERT INTO created VALUES (1)", "'create'", ""] {
            assert!(!is_audited(sql), "{sql}");
        }
    }
}
