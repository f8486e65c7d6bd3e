//! Bytes of a client of HTTP: heads, parameters of URLs, and bodies of all kinds.

use crate::served::{exchange, server};

/// Sends the bytes as requests.
pub fn run(data: &[u8]) {
    exchange(server().http_address(), data);
}
