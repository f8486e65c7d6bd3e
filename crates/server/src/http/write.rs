//! Requests that write lines, and their answers in the forms of InfluxDB and QuestDB.
//!
//! | request | clients | good lines beside bad ones, without `accept_partial` |
//! | --- | --- | --- |
//! | `POST /write` | InfluxDB 1, QuestDB | nothing is stored |
//! | `POST /api/v2/write` | InfluxDB 2 | are stored |
//! | `POST /api/v3/write_lp` | InfluxDB 3 | are stored |
//!
//! We take a whole body before the first line, because all lines of a request are one transaction, and a transaction
//! that waits for a slow client would hold its snapshot.

use std::io::Read;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::CONTENT_ENCODING;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::read::MultiGzDecoder;
use rowmill::{Error, ErrorKind};
use serde_json::{Value as Json, json};
use tokio::task::spawn_blocking;

use super::body::read_body;
use super::entrance::login_of;
use super::{connect, error_json, failure, json_response, status};
use crate::line::{LineOutcome, LinePrecision, LineRequest, REJECTED_MAX, RejectedLine, ingest};
use crate::login::ClientLogin;
use crate::server::ServerShared;
use crate::wire_error::ADMIN_SHUTDOWN;

/// The most bytes of an `Idempotency-Key`.
const KEY_BYTES_MAX: usize = 255;
/// The most characters of a rejected line that an answer repeats. The table of rejected lines has all of them.
const SHOWN_CHARS_MAX: usize = 200;

/// The product whose clients send a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteDialect {
    /// InfluxDB 1 and QuestDB.
    V1,
    /// InfluxDB 2.
    V2,
    /// InfluxDB 3.
    V3,
}

pub(super) async fn write_v1(State(shared): State<Arc<ServerShared>>, request: Request) -> Response {
    write(WriteDialect::V1, shared, request).await
}

pub(super) async fn write_v2(State(shared): State<Arc<ServerShared>>, request: Request) -> Response {
    write(WriteDialect::V2, shared, request).await
}

pub(super) async fn write_v3(State(shared): State<Arc<ServerShared>>, request: Request) -> Response {
    write(WriteDialect::V3, shared, request).await
}

/// Tells QuestDB's clients that they must send the text form of the protocol. Its binary forms are not supported.
pub(super) async fn settings() -> Response {
    let config = json!({"line.proto.support.versions": [1], "cairo.max.file.name.length": 127});
    json_response(StatusCode::OK, &json!({"config": config, "preferences.version": 0, "preferences": {}}))
}

async fn write(dialect: WriteDialect, shared: Arc<ServerShared>, request: Request) -> Response {
    if shared.stop.is_stopping() {
        return failure(StatusCode::SERVICE_UNAVAILABLE, ADMIN_SHUTDOWN, "the server stops");
    }
    let (head, body) = request.into_parts();
    let options = match LineWriteOptions::read(dialect, &head) {
        Ok(options) => options,
        Err(message) => return failure(StatusCode::BAD_REQUEST, "22023", &message),
    };
    let body = match read_body(body, shared.limits.message_bytes_max, shared.limits.stalled_timeout).await {
        Ok(body) => body,
        Err(fault) => return fault.answer(),
    };
    let login = login_of(&head);
    let written = spawn_blocking(move || run(&options, &body, &login, &shared)).await;
    written.unwrap_or_else(|_| json_response(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": "no answer"})))
}

/// What the head of a request asks for.
struct LineWriteOptions {
    dialect: WriteDialect,
    precision: LinePrecision,
    accepts_partial: bool,
    is_gzip: bool,
    key: Option<String>,
}

impl LineWriteOptions {
    fn read(dialect: WriteDialect, head: &Parts) -> Result<LineWriteOptions, String> {
        let mut options = LineWriteOptions {
            dialect,
            precision: match dialect {
                WriteDialect::V3 => LinePrecision::Auto,
                WriteDialect::V1 | WriteDialect::V2 => LinePrecision::NANOSECONDS,
            },
            accepts_partial: dialect != WriteDialect::V1,
            is_gzip: false,
            key: None,
        };
        // Other parameters name databases, buckets and the like, which a server of one database does not have.
        for pair in head.uri.query().unwrap_or_default().split('&') {
            match pair.split_once('=') {
                Some(("precision", name)) => options.precision = LinePrecision::of_name(name)?,
                Some(("accept_partial", "true")) => options.accepts_partial = true,
                Some(("accept_partial", "false")) => options.accepts_partial = false,
                Some(("accept_partial", _)) => return Err("accept_partial must be true or false".to_owned()),
                _ => {}
            }
        }
        options.is_gzip = match text_of(&head.headers, CONTENT_ENCODING.as_str())? {
            None | Some("identity") => false,
            Some("gzip") => true,
            Some(other) => return Err(format!("the encoding \"{other}\" of the body is unknown: use gzip")),
        };
        options.key = text_of(&head.headers, "idempotency-key")?.map(str::to_owned);
        match options.key.as_ref().is_some_and(|key| key.is_empty() || key.len() > KEY_BYTES_MAX) {
            true => Err(format!("Idempotency-Key must have 1 to {KEY_BYTES_MAX} bytes")),
            false => Ok(options),
        }
    }
}

/// Answers clients of InfluxDB, which ask whether the server is there.
pub(super) async fn ping() -> StatusCode {
    StatusCode::NO_CONTENT
}

fn text_of<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, String> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    value.to_str().map(Some).map_err(|_| format!("the header {name} must have printable ASCII characters only"))
}

/// Stores the lines on a session thread.
fn run(options: &LineWriteOptions, body: &[u8], login: &ClientLogin, shared: &Arc<ServerShared>) -> Response {
    let inflated;
    let body = match options.is_gzip {
        false => body,
        true => match inflate(body, shared.limits.message_bytes_max) {
            Ok(bytes) => {
                inflated = bytes;
                &inflated
            }
            Err(response) => return *response,
        },
    };
    let (mut connection, _registered) = match connect(shared, login, "POST /write") {
        Ok(connected) => connected,
        Err(error) => return fault_answer(&error),
    };
    let request = LineRequest {
        body,
        precision: options.precision,
        accepts_partial: options.accepts_partial,
        stops_at_error: false,
        key: options.key.as_deref(),
    };
    let outcome = ingest(&mut connection, &request);
    if !matches!(outcome, Ok(LineOutcome::Stored | LineOutcome::Repeated)) {
        shared.metrics.count_error();
    }
    match outcome {
        Ok(LineOutcome::Stored | LineOutcome::Repeated) => StatusCode::NO_CONTENT.into_response(),
        Ok(LineOutcome::Partial(lines)) => rejection(options.dialect, &lines, true),
        Ok(LineOutcome::Refused(lines)) => rejection(options.dialect, &lines, false),
        Err(error) => fault_answer(&error),
    }
}

/// Unpacks a body. A small body may have a very long content, so the limit holds for both.
fn inflate(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, Box<Response>> {
    let mut inflated = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    match MultiGzDecoder::new(body).take(limit.saturating_add(1)).read_to_end(&mut inflated) {
        Ok(_) if inflated.len() <= bytes_max => Ok(inflated),
        Ok(_) => {
            let message = "the content of the compressed body is longer than the limit";
            Err(Box::new(failure(StatusCode::PAYLOAD_TOO_LARGE, "54000", message)))
        }
        Err(error) => {
            let message = format!("the body is not gzip: {error}");
            Err(Box::new(failure(StatusCode::BAD_REQUEST, "22023", &message)))
        }
    }
}

/// The answer to an error of the engine. All products name the message `error` or `message`. A conflict that is left
/// after all attempts has the status 503, because their clients send a request again after it, and not after 409.
fn fault_answer(error: &Error) -> Response {
    let mut answer = error_json(error);
    answer["error"] = error.message().into();
    let status = match error.kind() {
        ErrorKind::SerializationFailure => StatusCode::SERVICE_UNAVAILABLE,
        kind => status(kind),
    };
    json_response(status, &answer)
}

/// The answer that names the rejected lines.
fn rejection(dialect: WriteDialect, lines: &[RejectedLine<'_>], is_partial: bool) -> Response {
    let shown = |line: &RejectedLine<'_>| line.text.chars().take(SHOWN_CHARS_MAX).collect::<String>();
    let stored = match is_partial {
        true => "the other lines are stored",
        false => "nothing is stored",
    };
    let more = if lines.len() == REJECTED_MAX { " or more" } else { "" };
    let mut message = format!("{}{more} lines were rejected, {stored}", lines.len());
    let first = lines.first();
    if let Some(first) = first {
        message.push_str(&format!("; line {}: {}", first.number, first.reason));
    }
    let answer = match dialect {
        WriteDialect::V3 => {
            let error = match is_partial {
                true => "partial write of line protocol occurred",
                false => "parsing failed for write_lp endpoint",
            };
            let data = lines.iter().map(
                |line| json!({"original_line": shown(line), "line_number": line.number, "error_message": line.reason}),
            );
            json!({"error": error, "data": data.collect::<Json>()})
        }
        WriteDialect::V1 | WriteDialect::V2 => {
            let rejected = lines
                .iter()
                .map(|line| json!({"line": line.number, "reason": line.reason, "text": shown(line)}))
                .collect::<Json>();
            let mut answer = json!({"code": "invalid", "message": message, "rejected": rejected});
            answer["line"] = first.map_or(Json::Null, |first| first.number.into());
            if dialect == WriteDialect::V1 {
                answer["error"] = answer["message"].clone();
            }
            answer
        }
    };
    json_response(StatusCode::BAD_REQUEST, &answer)
}
