//! HTTP: statements in, results out, and what monitoring asks for.
//!
//! | request | answer |
//! | --- | --- |
//! | `POST /query` | the result of one statement, as JSON, lines of JSON, CSV or Arrow |
//! | `POST /write`, `/api/v2/write`, `/api/v3/write_lp` | rows as line protocol |
//! | `GET /settings` | what QuestDB's clients ask before they write |
//! | `GET /health` | whether the server takes statements |
//! | `GET /metrics` | counters in Prometheus' text format |
//!
//! A statement runs on a session thread and writes its result into a bounded channel, from which the network threads
//! send it. So a result of any size takes the same memory, and a client that goes away cancels its statement.
//!
//! Without users, a page of any site that a user of this machine visits could send statements: browsers let pages send
//! requests to other hosts. So a request whose `Origin` is another host is refused, and the `Host` must name this
//! machine, because a foreign name may be made to point to it.

mod answer_format;
mod body;
mod channel_writer;
mod metrics;
mod request;
mod result_writer;
mod write;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use rowmill::{Connection, Error, ErrorKind, Param};
use serde_json::{Map, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::http::answer_format::AnswerFormat;
use crate::http::body::read_body;
use crate::http::channel_writer::{ChannelWriter, ChunkStream};
use crate::http::request::QueryRequest;
use crate::http::result_writer::write_result;
use crate::server::ServerShared;
use crate::wire_error::ADMIN_SHUTDOWN;

pub(crate) use metrics::ServerMetrics;

/// The chunks of an answer that wait for the network threads. Each has at most 64 KiB.
const CHUNKS_MAX: usize = 4;

/// Serves HTTP until the server stops.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<ServerShared>) {
    let routes = Router::new()
        .route("/query", post(query))
        .route("/write", post(write::write_v1))
        .route("/api/v2/write", post(write::write_v2))
        .route("/api/v3/write_lp", post(write::write_v3))
        .route("/settings", get(write::settings))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .layer(from_fn(refuse_foreign))
        .with_state(Arc::clone(&shared));
    let served = axum::serve(listener, routes).with_graceful_shutdown(async move { shared.stop.stopping().await });
    // axum tries again by itself after an error of the socket, so the end is always the stop of the server.
    let _ = served.await;
}

/// Refuses requests that a page of another site may have sent.
async fn refuse_foreign(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or("?"));
    let is_own = origin.is_none_or(|origin| origin.strip_prefix("http://") == Some(host));
    if is_local(host) && is_own {
        return next.run(request).await;
    }
    let message =
        "the request may come from a page of another site: its Host must be this machine, its Origin the same";
    failure(StatusCode::FORBIDDEN, "28000", message)
}

/// Whether the name of a host means this machine, whatever the port.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

async fn health(State(shared): State<Arc<ServerShared>>) -> Response {
    match shared.stop.is_stopping() {
        false => (StatusCode::OK, "ok\n").into_response(),
        true => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
    }
}

async fn metrics(State(shared): State<Arc<ServerShared>>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics::text(&shared)).into_response()
}

async fn query(State(shared): State<Arc<ServerShared>>, request: Request) -> Response {
    if shared.stop.is_stopping() {
        return failure(StatusCode::SERVICE_UNAVAILABLE, ADMIN_SHUTDOWN, "the server stops");
    }
    let (head, body) = request.into_parts();
    let body = match read_body(body, shared.limits.message_bytes_max, shared.limits.stalled_timeout).await {
        Ok(body) => body,
        Err(fault) => return fault.answer(),
    };
    let read = read_request(&head.headers, head.uri.query(), &body);
    let (request, format) = match read {
        Ok(read) => read,
        Err(message) => return failure(StatusCode::BAD_REQUEST, "22023", &message),
    };
    start(request, format, shared).await
}

fn read_request(headers: &HeaderMap, query: Option<&str>, body: &[u8]) -> Result<(QueryRequest, AnswerFormat), String> {
    let header = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let request = QueryRequest::read(header(CONTENT_TYPE), body)?;
    let wanted = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("format="));
    let format = match wanted.or(request.format.as_deref()) {
        Some(name) => AnswerFormat::of_name(name)?,
        None => AnswerFormat::of_accept(header(axum::http::header::ACCEPT).unwrap_or("*/*"))?,
    };
    Ok((request, format))
}

/// Starts a statement and answers with its result, which is sent while it is computed.
async fn start(request: QueryRequest, format: AnswerFormat, shared: Arc<ServerShared>) -> Response {
    let (started, wait) = oneshot::channel();
    let (chunks, receiver) = mpsc::channel(CHUNKS_MAX);
    spawn_blocking(move || run(&request, format, &shared, started, chunks));
    match wait.await {
        Ok(Ok(())) => {
            let body = Body::from_stream(ChunkStream::new(receiver));
            ([(CONTENT_TYPE, format.content_type())], body).into_response()
        }
        Ok(Err(error)) => error_response(&error),
        Err(_) => error_response(&Error::internal("the statement ended without an answer")),
    }
}

/// Runs a statement on a session thread. Tells `started` when its result begins or that it failed.
fn run(
    request: &QueryRequest,
    format: AnswerFormat,
    shared: &Arc<ServerShared>,
    started: oneshot::Sender<Result<(), Error>>,
    chunks: mpsc::Sender<Result<Bytes, std::io::Error>>,
) {
    let (mut connection, _registered) = match RegisteredRequest::connect(shared) {
        Ok(connected) => connected,
        // If the receiver is gone, the client is gone too.
        Err(error) => return drop(started.send(Err(error))),
    };
    // A client that goes away drops its end of the channel, which must end the statement even before its first row.
    let (handle, watched) = (connection.cancel_handle(), chunks.clone());
    let watcher = tokio::runtime::Handle::current().spawn(async move {
        watched.closed().await;
        handle.cancel();
    });
    let params: Vec<Param<'_>> = request.params.iter().map(Param::from).collect();
    let outcome = connection.run_one(&request.sql, &params);
    let writer = ChannelWriter::new(chunks, shared.limits.stalled_timeout);
    match outcome {
        Ok(outcome) => {
            if started.send(Ok(())).is_ok() {
                let notices = connection.take_notices();
                write_result(outcome, notices, format, writer);
            }
        }
        Err(error) => {
            shared.metrics.count_error();
            let _ = started.send(Err(error));
        }
    }
    watcher.abort();
}

/// A request whose statement can be cancelled when the server stops.
struct RegisteredRequest<'s> {
    shared: &'s ServerShared,
    number: i32,
}

impl<'s> RegisteredRequest<'s> {
    /// Opens a connection for a request, registers the request and counts it.
    fn connect(shared: &'s ServerShared) -> rowmill::Result<(Connection, RegisteredRequest<'s>)> {
        let connection = shared.database.connect()?;
        let key = shared.cancels.register(connection.cancel_handle())?;
        shared.metrics.count_http();
        Ok((connection, RegisteredRequest { shared, number: key.number }))
    }
}

impl Drop for RegisteredRequest<'_> {
    fn drop(&mut self) {
        self.shared.cancels.remove(self.number);
    }
}

/// The status of an answer to a statement that failed.
fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::UndefinedTable | ErrorKind::UndefinedFile => StatusCode::NOT_FOUND,
        ErrorKind::SerializationFailure | ErrorKind::UniqueViolation => StatusCode::CONFLICT,
        ErrorKind::Deadline => StatusCode::REQUEST_TIMEOUT,
        ErrorKind::MemoryLimit | ErrorKind::DiskFull | ErrorKind::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal | ErrorKind::Io | ErrorKind::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// An error as JSON: `{"sqlstate": ..., "message": ..., "line": ..., "column": ..., "hint": ...}`.
fn error_json(error: &Error) -> serde_json::Value {
    let mut fields = Map::new();
    fields.insert("sqlstate".to_owned(), error.sqlstate().into());
    fields.insert("message".to_owned(), error.message().into());
    if let Some(place) = error.position() {
        fields.insert("line".to_owned(), place.line.into());
        fields.insert("column".to_owned(), place.column.into());
    }
    if let Some(hint) = error.hint_text() {
        fields.insert("hint".to_owned(), hint.into());
    }
    fields.into()
}

fn error_response(error: &Error) -> Response {
    json_response(status(error.kind()), &error_json(error))
}

fn failure(status: StatusCode, sqlstate: &str, message: &str) -> Response {
    json_response(status, &json!({"sqlstate": sqlstate, "message": message}))
}

fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.3.0.1", "[::1]:8080", "[::1]"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["", "example.com", "localhost.example.com", "192.168.0.1:80", "127.0.0.1.example.com:80"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
