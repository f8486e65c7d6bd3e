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

use crate::authentication::authenticate;
use crate::end_signal::terminated;
use crate::event::ServerEvent;
use crate::login::ClientLogin;
use crate::server::ServerShared;
use crate::session::{ActivityEnd, PgSession, stopping};
use crate::socket::{ClientStream, SessionSocket};
use crate::spin::WorkingSession;
use crate::startup::{LoginRequest, StartFault, StartRequest, read_request, refuse};
use crate::transport::ClientTransport;
use crate::wire_error::WireError;

/// How long the server waits after a failed accept, for example because the process cannot open more files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections of the wire protocol until the server stops.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<ServerShared>) {
    accept_each(listener, &shared, |stream, client| serve(stream, client, Arc::clone(&shared))).await;
}

/// Accepts connections until the server stops, and serves each in a task of its own.
pub(crate) async fn accept_each<S>(
    listener: TcpListener,
    shared: &ServerShared,
    serve: impl Fn(TcpStream, SocketAddr) -> S,
) where
    S: Future<Output = ()> + Send + 'static,
{
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.stopping() => return,
        };
        match accepted {
            Ok((stream, client)) => drop(tokio::spawn(serve(stream, client))),
            Err(error) => {
                shared.report(&ServerEvent::AcceptFailed { reason: error.to_string() });
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Counts an open connection as long as it exists.
pub(crate) struct CountedConnection<'s>(&'s AtomicUsize);

impl<'s> CountedConnection<'s> {
    /// Returns `None` if there are `max` connections already.
    pub(crate) fn new(open: &'s AtomicUsize, max: usize) -> Option<CountedConnection<'s>> {
        let counted = CountedConnection(open);
        (open.fetch_add(1, Ordering::Relaxed) < max).then_some(counted)
    }
}

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve(stream: TcpStream, client: SocketAddr, shared: Arc<ServerShared>) {
    // Answers are sent when they are complete, so waiting for more bytes only delays them.
    let _ = stream.set_nodelay(true);
    let mut stream = ClientTransport::Plain(stream);
    let limits = &shared.limits;
    let Some(_counted) = CountedConnection::new(&shared.connections, limits.connections_max) else {
        let error = WireError::new("53300", "sorry, too many clients already");
        shared.report(&ServerEvent::Refused { client, reason: error.message.clone() });
        return refuse(&mut stream, &error).await;
    };
    let request = tokio::select! {
        // In a box, so that an idle connection does not hold the memory of its login.
        request = timeout(limits.login_timeout, Box::pin(start(&mut stream, client, &shared))) => request,
        () = shared.stop.stopping() => return refuse(&mut stream, &stopping()).await,
    };
    let login = match request {
        Ok(Ok(Some(admitted))) => admitted,
        Ok(Ok(None)) => return,
        Ok(Err(StartFault::NotAdmitted(error))) => return refuse(&mut stream, &error).await,
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
            if stream.write_all(&answer).await.is_ok() && stream.flush().await.is_ok() {
                run(stream, session, &shared).await;
            }
        }
        Err(error) => {
            shared.report(&ServerEvent::Refused { client, reason: error.message.clone() });
            refuse(&mut stream, &error).await;
        }
    }
}

/// Reads what a client wants, and checks who it is. `None` if it only wanted to cancel a statement.
async fn start(
    stream: &mut ClientTransport,
    client: SocketAddr,
    shared: &Arc<ServerShared>,
) -> Result<Option<AdmittedClient>, StartFault> {
    let request = match read_request(stream, shared.tls.as_deref()).await? {
        StartRequest::Login(request) => request,
        StartRequest::Cancel(request) => {
            if !shared.cancels.cancel(request.pid, &request.secret_key) {
                shared.report(&ServerEvent::CancelRefused { client, connection: request.pid });
            }
            return Ok(None);
        }
    };
    if shared.requires_tls && !stream.is_tls() {
        let error = WireError::new("28000", "connections must use TLS: the server runs with --tls-required")
            .hint("sslmode=require makes clients use it");
        shared.report(&ServerEvent::Refused { client, reason: error.message.clone() });
        return Err(StartFault::NotAdmitted(error));
    }
    let user = request.user().map_err(StartFault::Refused)?.to_owned();
    let (login, proof) = authenticate(stream, &user, client, shared).await?;
    shared.report(&ServerEvent::LoggedIn { client, user, protocol: "PostgreSQL's protocol" });
    Ok(Some(AdmittedClient { request, login, proof }))
}

/// A client whose login was checked.
struct AdmittedClient {
    request: LoginRequest,
    login: ClientLogin,
    /// The messages that prove the server to the client. They come before the answer to the login.
    proof: BytesMut,
}

/// Makes a session for a client that logs in, and the answer to its login.
async fn log_in(
    admitted: AdmittedClient,
    client: SocketAddr,
    shared: &Arc<ServerShared>,
) -> Result<(Box<PgSession>, BytesMut), WireError> {
    let shared = Arc::clone(shared);
    let made = spawn_blocking(move || {
        let AdmittedClient { request, login, mut proof } = admitted;
        let (mut session, key) = PgSession::new(shared, client, &login).map_err(|error| WireError::of(&error))?;
        proof.extend_from_slice(&request.answer(&mut session, &login, &key)?);
        Ok((Box::new(session), proof))
    });
    made.await.unwrap_or_else(|error| Err(WireError::new("XX000", format!("the login failed: {error}"))))
}

/// Runs a session until its end: waits for bytes here, and lets a session thread work on them.
async fn run(transport: ClientTransport, mut session: Box<PgSession>, shared: &Arc<ServerShared>) {
    let Some((mut stream, mut tls)) = transport.into_parts() else { return };
    let mut input = BytesMut::new();
    let ending = Arc::clone(&session.ending);
    // What the handshake has read of the first message is in the state of TLS already, not in the socket.
    let mut has_bytes = tls.is_some();
    loop {
        let idle_limit = session.idle_limit();
        let end = tokio::select! {
            biased;
            () = std::future::ready(()), if has_bytes => None,
            ready = stream.readable() => match ready {
                Ok(()) => None,
                Err(_) => break,
            },
            () = shared.stop.stopping() => Some(stopping()),
            () = ending.wait() => Some(terminated()),
            () = tokio::time::sleep(idle_limit.unwrap_or_default()), if idle_limit.is_some() => {
                let message = "terminating connection due to idle-in-transaction timeout";
                Some(WireError::new("25P03", message))
            }
        };
        has_bytes = false;
        let (stalled, bytes_max) = (shared.limits.stalled_timeout, shared.limits.message_bytes_max);
        let working = WorkingSession::new(&shared.working);
        let worked = spawn_blocking(move || {
            let socket = SessionSocket::blocking(stream.into_std()?, tls, stalled, working)?;
            let mut client = ClientStream::new(socket, input, bytes_max);
            if let Some(error) = end {
                client.put(&error.response("FATAL"));
                client.send()?;
                return Ok(None);
            }
            if session.run_while_active(&mut client) == ActivityEnd::Closed {
                return Ok(None);
            }
            let (socket, input) = client.into_parts();
            io::Result::Ok(Some((socket.into_nonblocking()?, session, input)))
        });
        let Ok(Ok(Some(((idle, tls_back), back, rest)))) = worked.await else { return };
        (session, input, tls) = (back, rest, tls_back);
        stream = match TcpStream::from_std(idle) {
            Ok(stream) => stream,
            Err(_) => break,
        };
    }
    // Rolling back and forgetting the statements is the engine's work.
    let _ = spawn_blocking(move || drop(session)).await;
}
