//! Line protocol over TCP, as QuestDB speaks it: a client sends lines and gets no answer.
//!
//! Lines that have come together are one transaction. The first line that is rejected ends the connection, because the
//! client cannot be told in another way: the lines before it are stored, the line itself is kept in the table of
//! rejected lines, and those after it are dropped. So a page in a browser that sends a request of HTTP here stores
//! nothing.
//!
//! The protocol has no login. So clients are let in only as long as the database has no users, and only from this
//! machine.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::splitter::LineSplitter;
use super::{LineOutcome, LinePrecision, LineRequest, ingest};
use crate::event::ServerEvent;
use crate::listener::{CountedConnection, accept_each};
use crate::login::{ClientLogin, LoginFault};
use crate::registered_request::RegisteredRequest;
use crate::server::ServerShared;

/// The name of clients, which have none of their own.
const NAME: &str = "line";
/// Lines are stored when this many bytes have come.
const BATCH_BYTES: usize = 1 << 20;
/// The most bytes that are read at a time.
const READ_BYTES: usize = 1 << 18;
/// Lines are stored when no further bytes come for this time.
const PAUSE: Duration = Duration::from_millis(20);

/// Accepts connections until the server stops.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<ServerShared>) {
    accept_each(listener, &shared, |stream, client| serve(stream, client, Arc::clone(&shared))).await;
}

async fn serve(stream: TcpStream, client: SocketAddr, shared: Arc<ServerShared>) {
    let Some(_counted) = CountedConnection::new(&shared.line_connections, shared.limits.connections_max) else {
        let reason = "there are too many connections of the line protocol already".to_owned();
        return shared.report(&ServerEvent::Refused { client, reason });
    };
    if let Err(end) = store_lines(stream, client, &shared).await {
        shared.report(&end.event(client));
    }
}

/// Why a connection ended before its client has closed it.
enum LineEnd {
    NotAdmitted(String),
    Lost(io::Error),
    /// A line was rejected, or the lines could not be stored.
    Refused(String),
}

impl LineEnd {
    fn event(self, client: SocketAddr) -> ServerEvent {
        match self {
            LineEnd::NotAdmitted(reason) => ServerEvent::Refused { client, reason },
            LineEnd::Lost(error) => ServerEvent::Lost { client, reason: error.to_string() },
            LineEnd::Refused(reason) => ServerEvent::ProtocolViolation { client, reason },
        }
    }
}

impl From<io::Error> for LineEnd {
    fn from(error: io::Error) -> Self {
        LineEnd::Lost(error)
    }
}

/// Stores the lines of a client until it closes its connection or the server stops.
async fn store_lines(mut stream: TcpStream, client: SocketAddr, shared: &Arc<ServerShared>) -> Result<(), LineEnd> {
    let mut lines = WaitingLines::default();
    loop {
        let has_lines = lines.complete > 0;
        let read = tokio::select! {
            read = timeout(if has_lines { PAUSE } else { Duration::MAX }, lines.read_from(&mut stream)) => read.ok(),
            () = shared.stop.stopping() => Some(Ok(0)),
        };
        let has_paused = read.is_none();
        let is_end = match read {
            None => false,
            Some(read) => read? == 0,
        };
        if lines.complete >= BATCH_BYTES || is_end || has_paused {
            lines.store(client, shared).await?;
        }
        if is_end {
            return match lines.bytes.len() {
                0 => Ok(()),
                // The beginning of a line may look like a whole one, with other digits.
                rest => Err(LineEnd::Refused(format!("the last line has no line break; its {rest} bytes are dropped"))),
            };
        }
        if lines.bytes.len() - lines.complete > shared.limits.message_bytes_max {
            let max = shared.limits.message_bytes_max;
            return Err(LineEnd::Refused(format!("a line is longer than {max} bytes")));
        }
    }
}

/// Bytes that have come and are not stored yet.
#[derive(Default)]
struct WaitingLines {
    bytes: BytesMut,
    /// The bytes of the lines that are complete.
    complete: usize,
    splitter: LineSplitter,
}

impl WaitingLines {
    /// Reads what has come, or waits for more. Returns 0 at the end of the connection. Nothing is lost if the future is
    /// dropped.
    async fn read_from(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
        let before = self.bytes.len();
        self.bytes.reserve(READ_BYTES);
        let read = stream.read_buf(&mut self.bytes).await?;
        if let Some(end) = self.splitter.read(&self.bytes[before..]) {
            self.complete = before + end;
        }
        Ok(read)
    }

    /// Stores the lines that are complete.
    async fn store(&mut self, client: SocketAddr, shared: &Arc<ServerShared>) -> Result<(), LineEnd> {
        let lines = self.bytes.split_to(std::mem::take(&mut self.complete)).freeze();
        if lines.is_empty() {
            return Ok(());
        }
        let shared = Arc::clone(shared);
        let stored = spawn_blocking(move || store(&lines, client, &shared)).await;
        stored.unwrap_or_else(|error| Err(LineEnd::Refused(format!("storing lines failed: {error}"))))
    }
}

/// Stores lines in a transaction. Runs on a session thread.
fn store(lines: &Bytes, client: SocketAddr, shared: &ServerShared) -> Result<(), LineEnd> {
    let login = admit(client, shared)?;
    let refused = |error: rowmill::Error| LineEnd::Refused(format!("lines were not stored: {}", error.message()));
    let (mut connection, _registered) = RegisteredRequest::connect(shared, &login, "line", "lines").map_err(refused)?;
    let request = LineRequest {
        body: lines,
        precision: LinePrecision::NANOSECONDS,
        accepts_partial: true,
        stops_at_error: true,
        key: None,
    };
    let rejected = match ingest(&mut connection, &request).map_err(refused)? {
        LineOutcome::Stored | LineOutcome::Repeated => return Ok(()),
        LineOutcome::Partial(rejected) | LineOutcome::Refused(rejected) => rejected,
    };
    shared.metrics.count_error();
    let reasons: Vec<&str> = rejected.iter().map(|line| line.reason.as_str()).collect();
    Err(LineEnd::Refused(format!("a line was rejected: {}", reasons.join("; "))))
}

/// Lets a client in if it needs no login. A user may have been made since its last lines.
fn admit(client: SocketAddr, shared: &ServerShared) -> Result<ClientLogin, LineEnd> {
    let guest = shared.doorkeeper.guest(&shared.database, NAME, client.ip());
    match guest.map_err(|error| LineEnd::Refused(error.message().to_owned()))? {
        Some(Ok(login)) => Ok(ClientLogin { client: Some(client), ..login }),
        Some(Err(fault)) => Err(LineEnd::NotAdmitted(fault.reason().to_owned())),
        None => {
            let reason = LoginFault::Missing.reason();
            Err(LineEnd::NotAdmitted(format!("{reason}: line protocol over TCP has no login, use HTTP")))
        }
    }
}
