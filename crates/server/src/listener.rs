//! Accepts connections of the wire protocol and moves each between the network threads and the session threads.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::event::ServerEvent;
use crate::server::ServerShared;
use crate::session::{ActivityEnd, PgSession, stopping};
use crate::socket::{ClientStream, SessionSocket};
use crate::startup::{LoginRequest, StartFault, StartRequest, read_request, refuse};
use crate::wire_error::WireError;

/// How long the server waits after a failed accept, for example because the process cannot open more files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the server stops.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<ServerShared>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.stopping() => return,
        };
        match accepted {
            Ok((stream, client)) => {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move { serve(stream, client, shared).await });
            }
            Err(error) => {
                shared.report(&ServerEvent::AcceptFailed { reason: error.to_string() });
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Counts an open connection as long as it exists.
struct CountedConnection<'s>(&'s AtomicUsize);

impl<'s> CountedConnection<'s> {
    /// Returns `None` if there are `max` connections already.
    fn new(open: &'s AtomicUsize, max: usize) -> Option<CountedConnection<'s>> {
        let counted = CountedConnection(open);
        (open.fetch_add(1, Ordering::Relaxed) < max).then_some(counted)
    }
}

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve(mut stream: TcpStream, client: SocketAddr, shared: Arc<ServerShared>) {
    let limits = &shared.limits;
    let Some(_counted) = CountedConnection::new(&shared.connections, limits.connections_max) else {
        let error = WireError::new("53300", "sorry, too many clients already");
        shared.report(&ServerEvent::Refused { client, reason: error.message.clone() });
        return refuse(&mut stream, &error).await;
    };
    // Answers are sent when they are complete, so waiting for more bytes only delays them.
    let _ = stream.set_nodelay(true);
    let request = tokio::select! {
        request = timeout(limits.login_timeout, read_request(&mut stream)) => request,
        () = shared.stop.stopping() => return refuse(&mut stream, &stopping()).await,
    };
    let login = match request {
        Ok(Ok(StartRequest::Login(login))) => login,
        Ok(Ok(StartRequest::Cancel(request))) => {
            if !shared.cancels.cancel(request.pid, &request.secret_key) {
                shared.report(&ServerEvent::CancelRefused { client, connection: request.pid });
            }
            return;
        }
        Ok(Err(StartFault::Refused(error))) => {
            shared.report(&ServerEvent::ProtocolViolation { client, reason: error.message.clone() });
            return refuse(&mut stream, &error).await;
        }
        // A client that connects and goes is none of the operator's business: it may only look whether the server runs.
        Ok(Err(StartFault::Lost(error))) if error.kind() == io::ErrorKind::UnexpectedEof => return,
        Ok(Err(StartFault::Lost(error))) => {
            return shared.report(&ServerEvent::Lost { client, reason: error.to_string() });
        }
        Err(_) => {
            let error = WireError::new("57014", "the login took too long");
            shared.report(&ServerEvent::Refused { client, reason: error.message.clone() });
            return refuse(&mut stream, &error).await;
        }
    };
    match log_in(login, client, &shared).await {
        Ok((session, answer)) => {
            if stream.write_all(&answer).await.is_ok() {
                run(stream, session, &shared).await;
            }
        }
        Err(error) => {
            shared.report(&ServerEvent::Refused { client, reason: error.message.clone() });
            refuse(&mut stream, &error).await;
        }
    }
}

/// Makes a session for a client that logs in, and the answer to its login.
async fn log_in(
    login: LoginRequest,
    client: SocketAddr,
    shared: &Arc<ServerShared>,
) -> Result<(PgSession, BytesMut), WireError> {
    let shared = Arc::clone(shared);
    let made = spawn_blocking(move || {
        let (mut session, key) = PgSession::new(shared, client).map_err(|error| WireError::of(&error))?;
        let answer = login.answer(&mut session, &key)?;
        Ok((session, answer))
    });
    made.await.unwrap_or_else(|error| Err(WireError::new("XX000", format!("the login failed: {error}"))))
}

/// Runs a session until its end: waits for bytes here, and lets a session thread work on them.
async fn run(mut stream: TcpStream, mut session: PgSession, shared: &Arc<ServerShared>) {
    let mut input = BytesMut::new();
    loop {
        tokio::select! {
            ready = stream.readable() => if ready.is_err() {
                break;
            },
            () = shared.stop.stopping() => {
                refuse(&mut stream, &stopping()).await;
                break;
            }
        }
        let (stalled, bytes_max) = (shared.limits.stalled_timeout, shared.limits.message_bytes_max);
        let worked = spawn_blocking(move || {
            let socket = SessionSocket::blocking(stream.into_std()?, stalled)?;
            let mut client = ClientStream::new(socket, input, bytes_max);
            if session.run_while_active(&mut client) == ActivityEnd::Closed {
                return Ok(None);
            }
            let (socket, input) = client.into_parts();
            io::Result::Ok(Some((socket.into_nonblocking()?, session, input)))
        });
        let Ok(Ok(Some((idle, back, rest)))) = worked.await else { return };
        (session, input) = (back, rest);
        stream = match TcpStream::from_std(idle) {
            Ok(stream) => stream,
            Err(_) => break,
        };
    }
    // Rolling back and forgetting the statements is the engine's work.
    let _ = spawn_blocking(move || drop(session)).await;
}
