//! Lines of InfluxDB's protocol, over HTTP and over TCP.

use crate::served::{FIRST_ANSWER, exchange, server};

/// Sends the bytes as the body of a request, and as a stream of lines.
pub fn run(data: &[u8]) {
    let head = format!(
        "POST /api/v2/write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        data.len()
    );
    exchange(server().http_address(), &[head.as_bytes(), data].concat(), FIRST_ANSWER);
    exchange(server().line_address(), data, None);
}
