//! HTTP: statements in, results out, and what monitoring asks for.
//!
//! | request | answer |
//! | --- | --- |
//! | `POST /query` | the result of one statement, as JSON, lines of JSON, CSV, Arrow or Parquet |
//! | `POST /import/{table}` | loads the body into a table, as `COPY ... FROM` does |
//! | `GET /export` | a table or the result of a query, as a file |
//! | `GET /statements`, `DELETE /statements/{id}` | the statements that run; cancels one |
//! | `POST /write`, `/api/v2/write`, `/api/v3/write_lp` | rows as line protocol |
//! | `GET /settings` | what QuestDB's clients ask before they write |
//! | `GET /health` | whether the server takes statements |
//! | `GET /` | the console, a page for a browser |
//! | `GET /openapi.json` | a description of all of these requests |
//! | `GET /metrics` | counters in Prometheus' text format |
//!
//! A statement runs on a session thread and writes its result into a bounded channel, from which the network threads
//! send it. So a result of any size takes the same memory, and a client that goes away cancels its statement.
//!
//! Without users, a page of any site that a user of this machine visits could send statements: browsers let pages send
//! requests to other hosts. So a request whose `Origin` is another host is refused, and the `Host` must name this
//! machine, because a foreign name may be made to point to it.

mod answer_format;
mod answer_writer;
mod backup;
mod body;
mod channel_writer;
mod console;
mod entrance;
mod export;
mod import;
mod import_options;
mod metrics;
mod request;
mod result_writer;
mod statements;
mod tar_stream;
mod write;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use rowmill::output::WriteOptions;
use rowmill::{Connection, Error, ErrorKind, Outcome};
use serde_json::{Map, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::event::ServerEvent;
use crate::http::answer_format::AnswerFormat;
use crate::http::answer_writer::{AnswerWriter, ContentCoding};
use crate::http::body::read_body;
use crate::http::channel_writer::{ChannelWriter, ChunkStream};
use crate::http::entrance::{HttpConnections, HttpPeer, admit, login_of};
use crate::http::export::ExportFile;
use crate::http::request::QueryRequest;
use crate::http::result_writer::write_result;
use crate::login::ClientLogin;
use crate::registered_request::RegisteredRequest;
use crate::server::ServerShared;
use crate::statement_log::StatementClock;
use crate::wire_error::ADMIN_SHUTDOWN;

pub(crate) use metrics::ServerMetrics;

/// Tells whether a page of the same site made the browser send a request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The chunks of an answer that wait for the network threads. Each has at most 64 KiB.
const CHUNKS_MAX: usize = 4;

/// Serves HTTP until the server stops.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<ServerShared>) {
    let routes = routes().into_iter().fold(Router::new(), |router, (path, _, handler)| router.route(path, handler));
    let routes = routes
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn(refuse_foreign))
        .layer(from_fn_with_state(Arc::clone(&shared), admit))
        .with_state(Arc::clone(&shared))
        .into_make_service_with_connect_info::<HttpPeer>();
    let connections = match HttpConnections::start(listener, &shared) {
        Ok(connections) => connections,
        Err(error) => return shared.report(&ServerEvent::AcceptFailed { reason: error.to_string() }),
    };
    let served = axum::serve(connections, routes).with_graceful_shutdown(async move { shared.stop.stopping().await });
    // axum tries again by itself after an error of the socket, so the end is always the stop of the server.
    let _ = served.await;
}

/// A path, a method and the handler of its requests.
type Route = (&'static str, &'static str, MethodRouter<Arc<ServerShared>>);

/// All requests that the server answers. `http/openapi.json` describes each of them.
fn routes() -> Vec<Route> {
    vec![
        ("/", "get", get(console::page)),
        ("/console/{file}", "get", get(console::file)),
        ("/query", "post", post(query)),
        ("/import/{table}", "post", post(import::import)),
        ("/export", "get", get(export::export)),
        ("/backup", "get", get(backup::backup)),
        ("/statements", "get", get(statements::list)),
        ("/statements/{id}", "delete", delete(statements::cancel)),
        ("/write", "post", post(write::write_v1)),
        ("/api/v2/write", "post", post(write::write_v2)),
        ("/api/v3/write_lp", "post", post(write::write_v3)),
        ("/settings", "get", get(write::settings)),
        ("/health", "get", get(health)),
        ("/ping", "get", get(write::ping)),
        ("/metrics", "get", get(metrics)),
        ("/openapi.json", "get", get(openapi)),
    ]
}

/// Answers a request whose path exists with another method.
async fn wrong_method(request: Request) -> Response {
    let (path, method) = (request.uri().path(), request.method());
    let known = routes().into_iter().find(|(known, ..)| *known == path);
    let message = match known {
        Some(("/query", ..)) => {
            format!("{path} takes POST and not {method}: the body is the statement, as curl -d 'SELECT 1' sends it")
        }
        Some((_, takes, _)) => format!("{path} takes {} and not {method}", takes.to_uppercase()),
        None => format!("{path} does not take {method}; /openapi.json describes all requests"),
    };
    failure(StatusCode::METHOD_NOT_ALLOWED, "0A000", &message)
}

/// The description of all requests, in the form of OpenAPI.
const OPENAPI: &str = include_str!("http/openapi.json");

async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// Refuses requests that a page of another site may have sent.
async fn refuse_foreign(request: Request, next: Next) -> Response {
    // Those who watch the server from other machines ask this without a login, and learn nothing from it.
    if request.uri().path() == "/health" {
        return next.run(request).await;
    }
    let headers = request.headers();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or("?"));
    // Browsers send GET requests of pages without an Origin, but tell whether the page is one of another site.
    let is_of_page = header_text(headers, SEC_FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none");
    let is_host = |origin: &str| origin.strip_prefix("http://").or(origin.strip_prefix("https://")) == Some(host);
    let is_own = origin.map_or(!is_of_page, is_host);
    // A foreign name that points to this server does not make a browser send the password.
    let has_proof = request.extensions().get::<ClientLogin>().is_some_and(ClientLogin::has_proof);
    // Other sites may link to the console.
    let is_link = request.method() == Method::GET && request.uri().path() == "/";
    if (is_local(host) || has_proof) && (is_own || is_link) {
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
    start(request, AnswerShape::of_format(format, &head.headers), login_of(&head), shared).await
}

/// How the result of a statement is sent.
struct AnswerShape {
    format: AnswerFormat,
    coding: ContentCoding,
    /// The file of an export. Its statement must only read.
    download: Option<ExportFile>,
}

impl AnswerShape {
    fn of_format(format: AnswerFormat, headers: &HeaderMap) -> AnswerShape {
        let coding = match header_text(headers, ACCEPT_ENCODING) {
            Some(accept) if format.is_compressible() => ContentCoding::of_accept(accept),
            _ => ContentCoding::Identity,
        };
        AnswerShape { format, coding, download: None }
    }

    /// The headers of the answer.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.format.content_type()));
        headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        if let Some(coding) = self.coding.header() {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        if let Some(file) = &self.download
            && let Ok(disposition) = format!("attachment; filename=\"{}\"", file.name).parse()
        {
            headers.insert(CONTENT_DISPOSITION, disposition);
        }
        headers
    }
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn read_request(headers: &HeaderMap, query: Option<&str>, body: &[u8]) -> Result<(QueryRequest, AnswerFormat), String> {
    let request = QueryRequest::read(header_text(headers, CONTENT_TYPE), body)?;
    let wanted = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("format="));
    let format = match wanted.or(request.format.as_deref()) {
        Some(name) => AnswerFormat::of_name(name)?,
        None => AnswerFormat::of_accept(header_text(headers, ACCEPT).unwrap_or("*/*"))?,
    };
    Ok((request, format))
}

/// Starts a statement and answers with its result, which is sent while it is computed.
async fn start(request: QueryRequest, shape: AnswerShape, login: ClientLogin, shared: Arc<ServerShared>) -> Response {
    let (started, wait) = oneshot::channel();
    let (chunks, receiver) = mpsc::channel(CHUNKS_MAX);
    let headers = shape.headers();
    spawn_blocking(move || run(&request, &shape, &login, &shared, started, chunks));
    match wait.await {
        Ok(Ok(())) => {
            let body = Body::from_stream(ChunkStream::new(receiver));
            (headers, body).into_response()
        }
        Ok(Err(error)) => error_response(&error),
        Err(_) => error_response(&Error::internal("the statement ended without an answer")),
    }
}

/// Runs a statement on a session thread. Tells `started` when its result begins or that it failed.
fn run(
    request: &QueryRequest,
    shape: &AnswerShape,
    login: &ClientLogin,
    shared: &Arc<ServerShared>,
    started: oneshot::Sender<Result<(), Error>>,
    chunks: mpsc::Sender<Result<Bytes, std::io::Error>>,
) {
    let (mut connection, _registered) = match connect(shared, login, &request.sql) {
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
    let clock = StatementClock { user: &login.name, client: login.client, started: Instant::now() };
    let outcome = match shape.download {
        None => connection.run_values(&request.sql, request.params.as_slice()),
        Some(_) => run_reading(&request.sql, &mut connection),
    };
    let writer = AnswerWriter::new(ChannelWriter::new(chunks, shared.limits.stalled_timeout), shape.coding);
    let outcome = outcome.and_then(|outcome| {
        let writer = writer.map_err(|error| Error::io("starting the compression of the answer", &error))?;
        Ok((outcome, writer))
    });
    match outcome {
        Ok((outcome, writer)) => {
            if started.send(Ok(())).is_ok() {
                let notices = connection.take_notices();
                let mut options = connection.write_options();
                if let Some(file) = &shape.download {
                    options = WriteOptions { threads: options.threads, memory: options.memory, ..file.write.clone() };
                }
                write_result(outcome, &notices, shape.format, &options, writer);
            }
            shared.logs.statement(&clock, &request.sql, None);
        }
        Err(error) => {
            shared.metrics.count_error();
            shared.logs.statement(&clock, &request.sql, Some(error.sqlstate()));
            let _ = started.send(Err(error));
        }
    }
    watcher.abort();
}

/// Runs a query that can change nothing.
fn run_reading(sql: &str, connection: &mut Connection) -> rowmill::Result<Outcome> {
    let query = connection.parse(sql)?;
    if connection.shape(&query, &[])?.columns.is_none() {
        return Err(Error::new(ErrorKind::ReadOnly, "an export takes a query with rows")
            .hint("POST /query runs statements of any kind"));
    }
    connection.begin(true)?;
    connection.run_one(sql, &[])
}

/// Opens a connection for a request, registers and counts it. `what` is its statement, or its method and path.
fn connect<'s>(
    shared: &'s ServerShared,
    login: &ClientLogin,
    what: &str,
) -> rowmill::Result<(Connection, RegisteredRequest<'s>)> {
    let connected = RegisteredRequest::connect(shared, login, "http", what)?;
    shared.metrics.count_http();
    Ok(connected)
}

/// The status of an answer to a statement that failed.
fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::InsufficientPrivilege => StatusCode::FORBIDDEN,
        ErrorKind::InvalidAuthorization => StatusCode::UNAUTHORIZED,
        ErrorKind::UndefinedTable | ErrorKind::UndefinedFile => StatusCode::NOT_FOUND,
        ErrorKind::SerializationFailure | ErrorKind::UniqueViolation => StatusCode::CONFLICT,
        ErrorKind::Deadline => StatusCode::REQUEST_TIMEOUT,
        ErrorKind::MemoryLimit | ErrorKind::DiskFull | ErrorKind::Cancelled | ErrorKind::TooManyStatements => {
            StatusCode::SERVICE_UNAVAILABLE
        }
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
    fn the_description_names_every_request() {
        let described: serde_json::Value = serde_json::from_str(OPENAPI).expect("JSON");
        let paths = described["paths"].as_object().expect("paths");
        let methods = |(path, item): (&String, &serde_json::Value)| {
            let methods = item.as_object().expect("methods").keys().map(|method| (path.clone(), method.clone()));
            methods.collect::<Vec<_>>()
        };
        let mut described: Vec<(String, String)> = paths.iter().flat_map(methods).collect();
        let mut served: Vec<(String, String)> =
            routes().iter().map(|(path, method, _)| ((*path).to_owned(), (*method).to_owned())).collect();
        described.sort();
        served.sort();
        assert_eq!(described, served);
    }

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
