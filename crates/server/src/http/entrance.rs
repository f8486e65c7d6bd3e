//! The entrance of HTTP: connections with or without TLS, and who a client is.
//!
//! | header | login |
//! | --- | --- |
//! | `Authorization: Basic ...` | the name and the password of a role |
//! | `Authorization: Bearer ...`, `Authorization: Token ...` | a token of a role; clients of InfluxDB write `Token` |
//!
//! A connection ends if none of its requests was let in within the time for a login. So clients that never finish a
//! request, or never prove who they are, hold no connection for long.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Sleep, sleep, timeout};

use super::{error_response, failure};
use crate::event::ServerEvent;
use crate::listener::accept_each;
use crate::login::{ClientLogin, LoginFault};
use crate::server::ServerShared;
use crate::transport::ClientTransport;

/// Connections whose handshake is done and that wait for the HTTP code.
const WAITING_MAX: usize = 64;

/// Accepts connections, and does the handshakes of TLS side by side.
pub(super) struct HttpConnections {
    address: SocketAddr,
    ready: mpsc::Receiver<(HttpStream, SocketAddr)>,
}

/// An open connection, which counts as long as it exists.
pub(super) struct HttpStream {
    transport: ClientTransport,
    shared: Arc<ServerShared>,
    /// Whether a request of the connection was let in.
    is_admitted: Arc<AtomicBool>,
    /// The end of the time for a login.
    login_ends: Pin<Box<Sleep>>,
}

/// The client of a connection.
#[derive(Clone, Debug)]
pub(super) struct HttpPeer {
    address: SocketAddr,
    is_admitted: Arc<AtomicBool>,
}

impl HttpConnections {
    pub(super) fn start(listener: TcpListener, shared: &Arc<ServerShared>) -> io::Result<HttpConnections> {
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(WAITING_MAX);
        tokio::spawn(accept(listener, Arc::clone(shared), sender));
        Ok(HttpConnections { address, ready })
    }
}

async fn accept(listener: TcpListener, shared: Arc<ServerShared>, sender: mpsc::Sender<(HttpStream, SocketAddr)>) {
    let receive = |stream, client| receive(stream, client, Arc::clone(&shared), sender.clone());
    accept_each(listener, &shared, receive).await;
}

async fn receive(
    stream: TcpStream,
    client: SocketAddr,
    shared: Arc<ServerShared>,
    sender: mpsc::Sender<(HttpStream, SocketAddr)>,
) {
    let open = shared.http_connections.fetch_add(1, Ordering::Relaxed);
    let _ = stream.set_nodelay(true);
    let mut stream = HttpStream {
        transport: ClientTransport::Plain(stream),
        shared: Arc::clone(&shared),
        is_admitted: Arc::default(),
        login_ends: Box::pin(sleep(shared.limits.login_timeout)),
    };
    if open >= shared.limits.connections_max {
        let reason = "there are too many connections of HTTP already".to_owned();
        return shared.report(&ServerEvent::Refused { client, reason });
    }
    if let Some(tls) = &shared.tls {
        let reason = match timeout(shared.limits.login_timeout, stream.transport.begin_tls(tls)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("no TLS: {error}")),
            Err(_) => Some("the handshake of TLS took too long".to_owned()),
        };
        if let Some(reason) = reason {
            return shared.report(&ServerEvent::Refused { client, reason });
        }
    }
    // Without a receiver the server stops.
    let _ = sender.send((stream, client)).await;
}

impl Listener for HttpConnections {
    type Io = HttpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (HttpStream, SocketAddr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // The server stops, so no further connection comes.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Connected<IncomingStream<'_, HttpConnections>> for HttpPeer {
    fn connect_info(stream: IncomingStream<'_, HttpConnections>) -> HttpPeer {
        HttpPeer { address: *stream.remote_addr(), is_admitted: Arc::clone(&stream.io().is_admitted) }
    }
}

impl Drop for HttpStream {
    fn drop(&mut self) {
        self.shared.http_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let HttpStream { transport, is_admitted, login_ends, .. } = self.get_mut();
        let read = Pin::new(transport).poll_read(context, buffer);
        let mut is_late = || !is_admitted.load(Ordering::Relaxed) && login_ends.as_mut().poll(context).is_ready();
        if read.is_pending() && is_late() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no request was let in in time")));
        }
        read
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().transport).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().transport).poll_shutdown(context)
    }
}

/// Lets a request in if its client may use the server, and notes who the client is. Only the question whether the
/// server is healthy is open to all.
pub(super) async fn admit(
    State(shared): State<Arc<ServerShared>>,
    ConnectInfo(HttpPeer { address: client, is_admitted }): ConnectInfo<HttpPeer>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.uri().path() == "/health" {
        return next.run(request).await;
    }
    let credentials = Credentials::of(request.headers());
    let name = credentials.as_ref().map_or("", Credentials::name).to_owned();
    let checker = Arc::clone(&shared);
    let checked = spawn_blocking(move || check(&checker, client, credentials)).await;
    match checked {
        Ok(Ok(Ok(mut login))) => {
            login.client = Some(client);
            is_admitted.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(login);
            next.run(request).await
        }
        Ok(Ok(Err(fault))) => {
            shared.report(&ServerEvent::LoginRefused { client, user: name.clone(), reason: fault.reason() });
            // A token cannot be guessed, so only names are counted.
            if fault.is_of_password() && !name.is_empty() {
                sleep(shared.doorkeeper.throttle.failed(client.ip(), &name)).await;
            }
            unauthorized(fault)
        }
        Ok(Err(error)) => error_response(&error),
        Err(_) => failure(StatusCode::INTERNAL_SERVER_ERROR, "XX000", "the login failed"),
    }
}

fn check(
    shared: &ServerShared,
    client: SocketAddr,
    credentials: Result<Credentials, LoginFault>,
) -> rowmill::Result<Result<ClientLogin, LoginFault>> {
    let (keeper, database) = (&shared.doorkeeper, &shared.database);
    if let Some(guest) = keeper.guest(database, "rowmill", client.ip())? {
        return Ok(guest);
    }
    match credentials {
        Err(fault) => Ok(Err(fault)),
        Ok(Credentials::Password { name, password }) => keeper.check_password(database, client.ip(), &name, &password),
        Ok(Credentials::Token(token)) => keeper.check_token(database, &token),
    }
}

/// The login of a request that was let in.
pub(super) fn login_of(head: &Parts) -> ClientLogin {
    head.extensions.get::<ClientLogin>().cloned().expect("a request that was let in has a login")
}

fn unauthorized(fault: LoginFault) -> Response {
    let message = match fault {
        LoginFault::Missing => "a name and a password or a token are needed (Authorization: Basic or Bearer)",
        LoginFault::Locked => "too many logins of this name from this address have failed: try again later",
        LoginFault::NoUsers => "the server has no users, so it lets in clients of its own machine only",
        _ => "the name and the password, or the token, are wrong",
    };
    let mut response = failure(StatusCode::UNAUTHORIZED, "28P01", message);
    let challenge = HeaderValue::from_static("Basic realm=\"rowmill\", charset=\"UTF-8\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// What a client gives to prove who it is.
#[derive(Debug, PartialEq, Eq)]
enum Credentials {
    Password { name: String, password: String },
    Token(String),
}

impl Credentials {
    fn of(headers: &HeaderMap) -> Result<Credentials, LoginFault> {
        let header = headers.get(AUTHORIZATION).ok_or(LoginFault::Missing)?;
        let header = header.to_str().map_err(|_| LoginFault::Malformed)?;
        let (scheme, value) = header.split_once(' ').ok_or(LoginFault::Malformed)?;
        let value = value.trim();
        if scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token") {
            return Ok(Credentials::Token(value.to_owned()));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(LoginFault::Malformed);
        }
        let decoded = STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or(LoginFault::Malformed)?;
        let (name, password) = decoded.split_once(':').ok_or(LoginFault::Malformed)?;
        Ok(Credentials::Password { name: name.to_owned(), password: password.to_owned() })
    }

    /// The name for the log. A token has none, and must not get into the log.
    fn name(&self) -> &str {
        match self {
            Credentials::Password { name, .. } => name,
            Credentials::Token(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_and_tokens_are_read() {
        let read = |value: &'static str| {
            Credentials::of(&HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]))
        };
        let password = |name: &str, password: &str| {
            Ok(Credentials::Password { name: name.to_owned(), password: password.to_owned() })
        };
        assert_eq!(read("Basic YW5uOmE6Yg=="), password("ann", "a:b"));
        assert_eq!(read("Bearer rmt_x"), Ok(Credentials::Token("rmt_x".to_owned())));
        assert_eq!(read("Token rmt_x"), Ok(Credentials::Token("rmt_x".to_owned())));
        for wrong in ["", "Basic", "Basic !", "Basic YW5u", "Digest x", "Basic //8="] {
            assert_eq!(read(wrong), Err(LoginFault::Malformed), "{wrong}");
        }
        assert_eq!(Credentials::of(&HeaderMap::new()), Err(LoginFault::Missing));
    }
}
