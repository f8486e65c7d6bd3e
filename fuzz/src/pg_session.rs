//! Bytes of a client of PostgreSQL's wire protocol, from its first message on.

use crate::served::{exchange, server};

/// Sends the bytes as a session.
pub fn run(data: &[u8]) {
    exchange(server().pg_address(), data, None);
}
