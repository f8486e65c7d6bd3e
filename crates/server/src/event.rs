//! What the server reports while it runs. A host writes the reports to its log; tests look for them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Receives what the server reports. It is called on the server's threads, so it should return soon.
pub type EventSink = Arc<dyn Fn(&ServerEvent) + Send + Sync>;

/// Something that an operator of the server may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// The server listens at an address.
    Listening {
        /// The protocol that it speaks there.
        protocol: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// A client has logged in, or was let in because there are no users.
    LoggedIn {
        /// The address of the client.
        client: SocketAddr,
        /// The name that it has logged in with.
        user: String,
        /// The protocol.
        protocol: &'static str,
    },
    /// A client was not let in.
    LoginRefused {
        /// The address of the client.
        client: SocketAddr,
        /// The name that it gave.
        user: String,
        /// Why. The client does not learn it.
        reason: &'static str,
    },
    /// The certificate was read again.
    CertificateLoaded,
    /// The certificate could not be read again; the one of before stays.
    CertificateRefused {
        /// Why.
        reason: String,
    },
    /// A connection was refused before it could run a statement.
    Refused {
        /// The address of the client.
        client: SocketAddr,
        /// Why.
        reason: String,
    },
    /// A request to cancel a statement named no connection, or not the connection's key.
    CancelRefused {
        /// The address of the client.
        client: SocketAddr,
        /// The number of the connection that the client named.
        connection: i32,
    },
    /// A client sent bytes that do not follow the protocol. Its connection has ended.
    ProtocolViolation {
        /// The address of the client.
        client: SocketAddr,
        /// The rule that the client broke.
        reason: String,
    },
    /// A connection ended because the client did not read, or because the system reported an error.
    Lost {
        /// The address of the client.
        client: SocketAddr,
        /// Why.
        reason: String,
    },
    /// Accepting connections failed for a moment. The server tries again.
    AcceptFailed {
        /// Why.
        reason: String,
    },
    /// The server stops: it refuses new statements.
    Stopping,
    /// The server cancels the statements that were still running.
    Cancelling {
        /// The number of open connections.
        connections: usize,
    },
    /// The server has stopped.
    Stopped,
}

impl fmt::Display for ServerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerEvent::Listening { protocol, address } => write!(f, "listening for {protocol} at {address}"),
            ServerEvent::LoggedIn { client, user, protocol } => {
                write!(f, "{client}: \"{user}\" logged in by {protocol}")
            }
            ServerEvent::LoginRefused { client, user, reason } => {
                write!(f, "{client}: login of \"{user}\" refused: {reason}")
            }
            ServerEvent::CertificateLoaded => f.write_str("the certificate was read again"),
            ServerEvent::CertificateRefused { reason } => write!(f, "the certificate stays as it was: {reason}"),
            ServerEvent::Refused { client, reason } => write!(f, "{client}: connection refused: {reason}"),
            ServerEvent::CancelRefused { client, connection } => {
                write!(f, "{client}: cancel request for connection {connection} refused: the key is wrong")
            }
            ServerEvent::ProtocolViolation { client, reason } => write!(f, "{client}: protocol violation: {reason}"),
            ServerEvent::Lost { client, reason } => write!(f, "{client}: connection lost: {reason}"),
            ServerEvent::AcceptFailed { reason } => write!(f, "accepting a connection failed: {reason}"),
            ServerEvent::Stopping => f.write_str("stopping: new statements are refused"),
            ServerEvent::Cancelling { connections } => {
                write!(f, "cancelling the statements of {connections} connections")
            }
            ServerEvent::Stopped => f.write_str("stopped"),
        }
    }
}
