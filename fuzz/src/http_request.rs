//! Bytes of a client of HTTP: heads, parameters of URLs, and bodies of all kinds.

use crate::served::{FIRST_ANSWER, exchange, server};

/// Sends the bytes as requests.
pub fn run(data: &[u8]) {
    exchange(server().http_address(), data, FIRST_ANSWER);
}
