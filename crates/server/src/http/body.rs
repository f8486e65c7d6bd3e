//! The body of a request, read to its end with limits of length and of time.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use axum::response::Response;
use futures_core::Stream;
use tokio::time::timeout;

use super::failure;

/// The most bytes that are set aside for a body before it comes. A client may claim a length and send nothing.
const RESERVED_BYTES_MAX: u64 = 4 << 20;

/// Why a body did not come whole.
#[derive(Debug)]
pub(super) enum BodyFault {
    /// It is longer than the limit.
    TooLong,
    /// The client sent no next part in time.
    Stalled,
    /// The connection or its framing broke.
    Broken(axum::Error),
}

impl BodyFault {
    /// The answer to the request.
    pub(super) fn answer(&self) -> Response {
        match self {
            BodyFault::TooLong => failure(StatusCode::PAYLOAD_TOO_LARGE, "54000", "the body is longer than the limit"),
            BodyFault::Stalled => failure(StatusCode::REQUEST_TIMEOUT, "57014", "the rest of the body did not come"),
            BodyFault::Broken(error) => {
                let message = format!("the body cannot be read to its end: {error}");
                failure(StatusCode::BAD_REQUEST, "08P01", &message)
            }
        }
    }
}

/// Reads a body of at most `bytes_max` bytes. Each part must come within `stalled`.
pub(super) async fn read_body(body: Body, bytes_max: usize, stalled: Duration) -> Result<Vec<u8>, BodyFault> {
    let claimed = usize::try_from(body.size_hint().lower().min(RESERVED_BYTES_MAX)).unwrap_or_default();
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::with_capacity(claimed.min(bytes_max));
    loop {
        let next = timeout(stalled, poll_fn(|context| Pin::new(&mut parts).poll_next(context))).await;
        match next {
            Err(_) => return Err(BodyFault::Stalled),
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(error))) => return Err(BodyFault::Broken(error)),
            Ok(Some(Ok(part))) if part.len() > bytes_max - bytes.len() => return Err(BodyFault::TooLong),
            Ok(Some(Ok(part))) => bytes.extend_from_slice(&part),
        }
    }
}
