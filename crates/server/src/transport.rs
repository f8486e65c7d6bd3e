//! The bytes of a client before its session: plain or in TLS, on a network thread.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::tls::ServerTls;

/// A connection of a client.
pub(crate) enum ClientTransport {
    Plain(TcpStream),
    /// A handshake of TLS has begun and did not succeed.
    Closed,
    Tls {
        stream: Box<TlsStream<TcpStream>>,
        /// The hash of the certificate, if SCRAM can bind a login to it.
        end_point: Option<Arc<[u8]>>,
    },
}

impl ClientTransport {
    /// Does the handshake of TLS on a plain connection. No bytes of the client may be in a buffer: they would be from
    /// before the handshake, where a host on the way may have put them.
    pub(crate) async fn begin_tls(&mut self, tls: &ServerTls) -> io::Result<()> {
        let ClientTransport::Plain(stream) = std::mem::replace(self, ClientTransport::Closed) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the connection uses TLS already"));
        };
        let (acceptor, end_point) = tls.acceptor();
        let stream = Box::new(acceptor.accept(stream).await?);
        *self = ClientTransport::Tls { stream, end_point };
        Ok(())
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, ClientTransport::Tls { .. })
    }

    /// The hash of the certificate, if SCRAM can bind a login to it.
    pub(crate) fn end_point(&self) -> Option<Arc<[u8]>> {
        match self {
            ClientTransport::Plain(_) | ClientTransport::Closed => None,
            ClientTransport::Tls { end_point, .. } => end_point.clone(),
        }
    }

    /// The socket, and the state of TLS on top of it. `None` if the connection is closed.
    pub(crate) fn into_parts(self) -> Option<(TcpStream, Option<Box<ServerConnection>>)> {
        Some(match self {
            ClientTransport::Closed => return None,
            ClientTransport::Plain(stream) => (stream, None),
            ClientTransport::Tls { stream, .. } => {
                let (stream, connection) = stream.into_inner();
                (stream, Some(Box::new(connection)))
            }
        })
    }
}

impl AsyncRead for ClientTransport {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientTransport::Closed => Poll::Ready(Ok(())),
            ClientTransport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            ClientTransport::Tls { stream, .. } => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ClientTransport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            ClientTransport::Closed => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            ClientTransport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            ClientTransport::Tls { stream, .. } => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientTransport::Closed => Poll::Ready(Ok(())),
            ClientTransport::Plain(stream) => Pin::new(stream).poll_flush(context),
            ClientTransport::Tls { stream, .. } => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientTransport::Closed => Poll::Ready(Ok(())),
            ClientTransport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            ClientTransport::Tls { stream, .. } => Pin::new(stream).poll_shutdown(context),
        }
    }
}
