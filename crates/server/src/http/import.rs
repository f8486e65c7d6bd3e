//! `POST /import/{table}`: loads the body of a request into a table.
//!
//! The body goes to a temporary file, part by part, and `COPY` loads the file: it looks at the beginning of a file
//! before it reads the whole, and may read it with several threads. So a body of any length takes the same memory.
//!
//! ```text
//! network thread                      session thread
//! parts of the body ──► channel ──► temporary file ──► CREATE TABLE if asked for, COPY ──► answer
//! ```

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::EXPECT;
use axum::response::Response;
use futures_core::Stream;
use rowmill::{Connection, Error, ErrorKind, Outcome, Result};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::body::BodyFault;
use super::entrance::login_of;
use super::import_options::{ImportOptions, quoted_table, without_place};
use super::{connect, error_json, failure, json_response, status};
use crate::login::ClientLogin;
use crate::server::ServerShared;
use crate::sql_words::quoted_text;
use crate::wire_error::ADMIN_SHUTDOWN;

/// The parts of a body that wait for the session thread.
const PARTS_MAX: usize = 4;

/// A step of a body.
enum BodyPart {
    Bytes(Bytes),
    /// The body is whole. Without it, the client has gone, and nothing must be loaded.
    End,
}

/// What an import has done.
struct Imported {
    rows: u64,
    is_created: bool,
    notices: Vec<String>,
}

pub(super) async fn import(
    State(shared): State<Arc<ServerShared>>,
    Path(table): Path<String>,
    request: Request,
) -> Response {
    if shared.stop.is_stopping() {
        return failure(StatusCode::SERVICE_UNAVAILABLE, ADMIN_SHUTDOWN, "the server stops");
    }
    let (head, body) = request.into_parts();
    let options = match ImportOptions::read(&table, &head) {
        Ok(options) => options,
        Err(error) => return answer(Err(error)),
    };
    let stalled = shared.limits.stalled_timeout;
    let (parts, receiver) = mpsc::channel(PARTS_MAX);
    // If the client goes away, this future is dropped, and with it the sender, which cancels the statement.
    let (_alive, gone) = oneshot::channel::<()>();
    let (ready, is_ready) = oneshot::channel();
    let unread_max = shared.limits.message_bytes_max;
    let login = login_of(&head);
    let work = spawn_blocking(move || run(&options, ImportInput { ready, parts: receiver, gone }, &login, &shared));
    // A client that expects an answer before it sends a long body gets the error of a wrong request in its place.
    let is_refused = is_ready.await.is_err() && head.headers.contains_key(EXPECT);
    let fault = match is_refused {
        true => None,
        false => feed(&mut body.into_data_stream(), &parts, stalled, unread_max).await.err(),
    };
    drop(parts);
    let done = work.await.unwrap_or_else(|_| Err(Error::internal("the import ended without an answer")));
    match (done, fault) {
        (_, Some(fault)) => fault.answer(),
        (done, None) => answer(done),
    }
}

/// What the session thread gets from the connection.
struct ImportInput {
    /// Is told when the request has been checked, so that the body may come.
    ready: oneshot::Sender<()>,
    parts: mpsc::Receiver<BodyPart>,
    /// Ends when the client goes away.
    gone: oneshot::Receiver<()>,
}

/// Sends the parts of a body to the session thread. If that has ended early, reads up to `unread_max` further bytes all
/// the same: many clients read no answer before they have sent all of their request.
async fn feed<S>(
    body: &mut S,
    parts: &mpsc::Sender<BodyPart>,
    stalled: Duration,
    unread_max: usize,
) -> Result<(), BodyFault>
where
    S: Stream<Item = Result<Bytes, axum::Error>> + Unpin,
{
    let mut unread = 0;
    loop {
        match timeout(stalled, poll_fn(|context| Pin::new(&mut *body).poll_next(context))).await {
            Err(_) => return Err(BodyFault::Stalled),
            Ok(Some(Err(error))) => return Err(BodyFault::Broken(error)),
            Ok(Some(Ok(part))) => {
                let length = part.len();
                if parts.send(BodyPart::Bytes(part)).await.is_err() {
                    unread += length;
                }
                if unread > unread_max {
                    return Ok(());
                }
            }
            Ok(None) => {
                let _ = parts.send(BodyPart::End).await;
                return Ok(());
            }
        }
    }
}

/// Runs an import on a session thread.
fn run(
    options: &ImportOptions,
    input: ImportInput,
    login: &ClientLogin,
    shared: &Arc<ServerShared>,
) -> Result<Imported> {
    let ImportInput { ready, parts, gone } = input;
    let (mut connection, _registered) = connect(shared, login, "POST /import")?;
    let handle = connection.cancel_handle();
    let watcher = tokio::runtime::Handle::current().spawn(async move {
        // The sender sends nothing. It is dropped when the client goes away.
        let _ = gone.await;
        handle.cancel();
    });
    let imported = load(options, ready, parts, &mut connection);
    watcher.abort();
    if imported.is_err() {
        shared.metrics.count_error();
    }
    imported
}

fn load(
    options: &ImportOptions,
    ready: oneshot::Sender<()>,
    mut parts: mpsc::Receiver<BodyPart>,
    connection: &mut Connection,
) -> Result<Imported> {
    // A wrong name is reported before the body is stored.
    let is_created = options.is_to_create(connection)?;
    connection.check_append(&options.name)?;
    // If the receiver is gone, the client is gone too, and the channel of parts ends.
    let _ = ready.send(());
    let mut spool = connection.temporary_file("POST /import")?;
    loop {
        match parts.blocking_recv() {
            Some(BodyPart::Bytes(bytes)) => spool.write(&bytes)?,
            Some(BodyPart::End) => break,
            None => return Err(Error::new(ErrorKind::Cancelled, "the client has gone before the end of its rows")),
        }
    }
    let path = spool.finish()?.display().to_string();
    connection.begin(false)?;
    // The connection ends with the request, which rolls back the transaction unless it is committed here.
    let rows = copy(options, &path, is_created, connection).map_err(|error| of_the_body(&error, &path))?;
    connection.commit()?;
    Ok(Imported { rows, is_created, notices: connection.take_notices() })
}

fn copy(options: &ImportOptions, path: &str, is_created: bool, connection: &mut Connection) -> Result<u64> {
    if is_created {
        connection.execute_batch(&options.definition(path)?)?;
    }
    let sql = format!("COPY {} FROM {} {}", options.target(), quoted_text(path), options.clause());
    let loaded = connection.run_one(&sql, &[])?;
    if let Some(table) = options.reject_table() {
        // The path of the temporary file means nothing once the file is gone.
        let (table, name, path) = (quoted_table(table), quoted_text("the body"), quoted_text(path));
        let renamed = connection.run_one(&format!("UPDATE {table} SET file = {name} WHERE file = {path}"), &[]);
        // A role that may only add rows to the table leaves the path there.
        renamed.map(drop).or_else(|error| match error.kind() {
            ErrorKind::InsufficientPrivilege => Ok(()),
            _ => Err(error),
        })?;
    }
    match loaded {
        Outcome::Changed { rows, .. } => Ok(rows),
        Outcome::Done { .. } | Outcome::Rows(_) => Ok(0),
    }
}

/// Returns the error without the path of the temporary file and without a place in our own statement. The client knows
/// neither of them.
fn of_the_body(error: &Error, path: &str) -> Error {
    let error = without_place(error);
    let message = error.message().replace(&format!("'{path}'"), "the body").replace(path, "the body");
    let renamed = Error::new(error.kind(), message);
    match error.hint_text() {
        Some(hint) => renamed.hint(hint.replace(path, "the body")),
        None => renamed,
    }
}

fn answer(imported: Result<Imported>) -> Response {
    match imported {
        Ok(Imported { rows, is_created, notices }) => {
            let mut answer = json!({"rows": rows, "created": is_created});
            if !notices.is_empty() {
                answer["notices"] = notices.into();
            }
            json_response(StatusCode::OK, &answer)
        }
        Err(error) => json_response(status(error.kind()), &error_json(&error)),
    }
}
