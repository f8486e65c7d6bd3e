//! `GET /backup`: one state of the database as a tar file, for superusers.
//!
//! The backup is made in a folder beside the database, as `BACKUP DATABASE` makes it, and sent from there. The folder
//! goes when the answer has been sent, or when the client goes away. We do not pack while we copy, because a slow
//! client would keep an old state in use for a long time.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use rowmill::{Connection, Error, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use super::channel_writer::{ChannelWriter, ChunkStream};
use super::entrance::login_of;
use super::tar_stream::write_folder;
use super::{CHUNKS_MAX, connect, error_response, failure};
use crate::login::ClientLogin;
use crate::server::ServerShared;
use crate::sql_words::quoted_text;
use crate::wire_error::ADMIN_SHUTDOWN;

/// The text that the list of connections shows.
const WHAT: &str = "GET /backup";
const HEADERS: [(HeaderName, &str); 2] =
    [(CONTENT_TYPE, "application/x-tar"), (CONTENT_DISPOSITION, "attachment; filename=\"rowmill-backup.tar\"")];

pub(super) async fn backup(State(shared): State<Arc<ServerShared>>, request: Request) -> Response {
    if shared.stop.is_stopping() {
        return failure(StatusCode::SERVICE_UNAVAILABLE, ADMIN_SHUTDOWN, "the server stops");
    }
    let (head, _) = request.into_parts();
    let login = login_of(&head);
    let (started, wait) = oneshot::channel();
    let (chunks, receiver) = mpsc::channel(CHUNKS_MAX);
    spawn_blocking(move || run(&login, &shared, started, chunks));
    match wait.await {
        Ok(Ok(())) => (HEADERS, Body::from_stream(ChunkStream::new(receiver))).into_response(),
        Ok(Err(error)) => error_response(&error),
        Err(_) => error_response(&Error::internal("the backup ended without an answer")),
    }
}

/// Makes a backup and sends it, on a session thread. Tells `started` when the first part can be sent.
fn run(
    login: &ClientLogin,
    shared: &Arc<ServerShared>,
    started: oneshot::Sender<Result<()>>,
    chunks: mpsc::Sender<std::io::Result<axum::body::Bytes>>,
) {
    let connected = connect(shared, login, WHAT);
    let (mut connection, registered) = match connected {
        Ok(connected) => connected,
        // If the receiver is gone, the client is gone too.
        Err(error) => return drop(started.send(Err(error))),
    };
    // A client that goes away ends the backup.
    let (handle, watched) = (connection.cancel_handle(), chunks.clone());
    let watcher = tokio::runtime::Handle::current().spawn(async move {
        watched.closed().await;
        handle.cancel();
    });
    let made = BackupFolder::make(shared, registered.number(), &mut connection);
    watcher.abort();
    let folder = match made {
        Ok(folder) => folder,
        Err(error) => {
            shared.metrics.count_error();
            return drop(started.send(Err(error)));
        }
    };
    if started.send(Ok(())).is_err() {
        return;
    }
    let mut out = ChannelWriter::new(chunks, shared.limits.stalled_timeout);
    let sent = write_folder(&folder.path, &mut out).and_then(|()| out.flush());
    if let Err(error) = sent {
        out.break_off(&Error::io("sending the backup", &error));
    }
}

/// A folder with a backup. It is removed when it is dropped.
struct BackupFolder {
    path: PathBuf,
}

impl BackupFolder {
    fn make(shared: &ServerShared, number: i32, connection: &mut Connection) -> Result<BackupFolder> {
        // The backup is as large as the database, so it goes to the same disk, if the database is on one.
        let beside = shared.database.path().and_then(Path::parent);
        let beside = beside.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let path = beside.join(format!(".rowmill-backup-{}-{number}", std::process::id()));
        let folder = BackupFolder { path };
        let target = quoted_text(&folder.path.display().to_string());
        connection.run_one(&format!("BACKUP DATABASE TO {target}"), &[])?;
        Ok(folder)
    }
}

impl Drop for BackupFolder {
    fn drop(&mut self) {
        // Without the right to make a backup, there is no folder.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
