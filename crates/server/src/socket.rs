//! The socket of a session, as its thread uses it: blocking, with time limits.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pgwire::messages::{Message, PgWireFrontendMessage};
use rustix::net::RecvFlags;
use rustls::ServerConnection;

use crate::backend::{OUTPUT_BYTES, put};
use crate::end_signal::EndSignal;
use crate::frame::{BrokenFrame, next_message};
use crate::shutdown::StopSignal;
use crate::spin::WorkingSession;

/// How long a session thread waits for the next message before the connection goes back to the network threads. Moving
/// there and back costs about 20 µs, so that a client which sends a statement every few milliseconds should not pay it.
const LINGER: Duration = Duration::from_millis(10);

/// The bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Bytes.
    Bytes,
    /// Nothing, for as long as a session thread should wait.
    Nothing,
    /// The end: the client has closed its side.
    End,
}

/// A socket in blocking mode, plain or with TLS on top of it.
pub(crate) struct SessionSocket {
    stream: TcpStream,
    tls: Option<Box<ServerConnection>>,
    stalled: Duration,
    working: WorkingSession,
    /// The place into which bytes are read. Reading into the input itself would clear room for them at each message.
    arrived: Box<[u8]>,
}

impl SessionSocket {
    /// Takes a socket over from the network threads.
    pub(crate) fn blocking(
        stream: TcpStream,
        tls: Option<Box<ServerConnection>>,
        stalled: Duration,
        working: WorkingSession,
    ) -> io::Result<SessionSocket> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LINGER))?;
        stream.set_write_timeout(Some(stalled))?;
        let arrived = vec![0; READ_BYTES].into_boxed_slice();
        Ok(SessionSocket { stream, tls, stalled, working, arrived })
    }

    /// Gives the socket back to the network threads.
    pub(crate) fn into_nonblocking(self) -> io::Result<(TcpStream, Option<Box<ServerConnection>>)> {
        self.stream.set_nonblocking(true)?;
        Ok((self.stream, self.tls))
    }

    fn read_once(&mut self) -> io::Result<usize> {
        let bytes = &mut self.arrived[..];
        match &mut self.tls {
            None => self.stream.read(bytes),
            Some(tls) => match rustls::Stream::new(&mut **tls, &mut self.stream).read(bytes) {
                // Many clients close the socket without the end of TLS. The session ends in both cases.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }

    /// Reads what has arrived.
    pub(crate) fn read(&mut self, input: &mut BytesMut) -> io::Result<Arrival> {
        let spun = match self.tls {
            None => self.working.spin(&self.stream, &mut self.arrived, RecvFlags::empty()),
            Some(_) => {
                // The bytes are for TLS to read.
                self.working.spin(&self.stream, &mut [0], RecvFlags::PEEK);
                None
            }
        };
        let read = spun.unwrap_or_else(|| {
            loop {
                match self.read_once() {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    read => break read,
                }
            }
        });
        input.extend_from_slice(&self.arrived[..*read.as_ref().unwrap_or(&0)]);
        match read {
            Ok(0) => Ok(Arrival::End),
            Ok(_) => Ok(Arrival::Bytes),
            Err(error) if is_timeout(&error) => Ok(Arrival::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Reads bytes that must come, for example the next part of a COPY. Fails if the client stalls, if the server
    /// stops, or if another connection ends this one.
    fn read_more(&mut self, input: &mut BytesMut, stop: &StopSignal, ending: &EndSignal) -> io::Result<()> {
        let since = Instant::now();
        loop {
            match self.read(input)? {
                Arrival::Bytes => return Ok(()),
                Arrival::End => return Err(ErrorKind::UnexpectedEof.into()),
                Arrival::Nothing if stop.is_stopping() => {
                    return Err(io::Error::new(ErrorKind::ConnectionAborted, "the server stops"));
                }
                Arrival::Nothing if ending.is_given() => {
                    return Err(io::Error::new(ErrorKind::ConnectionAborted, "another connection has ended it"));
                }
                Arrival::Nothing if since.elapsed() > self.stalled => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "the client sends nothing"));
                }
                Arrival::Nothing => {}
            }
        }
    }

    /// Sends everything and empties the buffer.
    pub(crate) fn send(&mut self, output: &mut BytesMut) -> io::Result<()> {
        if output.is_empty() {
            return Ok(());
        }
        let sent = match &mut self.tls {
            None => self.stream.write_all(output),
            Some(tls) => {
                let mut stream = rustls::Stream::new(&mut **tls, &mut self.stream);
                stream.write_all(output).and_then(|()| stream.flush())
            }
        };
        output.clear();
        sent.map_err(|error| match is_timeout(&error) {
            true => io::Error::new(ErrorKind::TimedOut, "the client does not read its answer"),
            false => error,
        })
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A client, as the thread of its session sees it: messages in, messages out.
pub(crate) struct ClientStream {
    socket: SessionSocket,
    /// Bytes that have arrived and are no whole message yet.
    pub(crate) input: BytesMut,
    /// Answers that were not sent yet.
    pub(crate) output: BytesMut,
    message_bytes_max: usize,
}

/// Why no message comes from a client.
#[derive(Debug)]
pub(crate) enum NoMessage {
    /// The connection is lost.
    Lost(io::Error),
    /// The client broke the protocol.
    Broken(BrokenFrame),
}

impl From<io::Error> for NoMessage {
    fn from(error: io::Error) -> Self {
        NoMessage::Lost(error)
    }
}

impl From<BrokenFrame> for NoMessage {
    fn from(broken: BrokenFrame) -> Self {
        NoMessage::Broken(broken)
    }
}

impl ClientStream {
    pub(crate) fn new(socket: SessionSocket, input: BytesMut, message_bytes_max: usize) -> ClientStream {
        ClientStream { socket, input, output: BytesMut::new(), message_bytes_max }
    }

    /// Gives back the socket and the bytes of a message that has not arrived completely.
    pub(crate) fn into_parts(self) -> (SessionSocket, BytesMut) {
        // An idle connection should keep no buffer.
        let input = if self.input.is_empty() { BytesMut::new() } else { self.input };
        (self.socket, input)
    }

    /// Returns the next message if it has arrived completely.
    pub(crate) fn next_message(&mut self) -> Result<Option<PgWireFrontendMessage>, BrokenFrame> {
        next_message(&mut self.input, self.message_bytes_max)
    }

    /// Reads what has arrived.
    pub(crate) fn read(&mut self) -> io::Result<Arrival> {
        self.socket.read(&mut self.input)
    }

    /// Waits for a message that must come.
    pub(crate) fn wait_for_message(
        &mut self,
        stop: &StopSignal,
        ending: &EndSignal,
    ) -> Result<PgWireFrontendMessage, NoMessage> {
        loop {
            if let Some(message) = self.next_message()? {
                return Ok(message);
            }
            self.socket.read_more(&mut self.input, stop, ending)?;
        }
    }

    /// Appends a message to the answers.
    pub(crate) fn put(&mut self, message: &impl Message) {
        put(&mut self.output, message);
    }

    /// Sends the answers if there are many.
    pub(crate) fn send_full(&mut self) -> io::Result<()> {
        if self.output.len() < OUTPUT_BYTES {
            return Ok(());
        }
        self.send()
    }

    /// Sends the answers.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        self.socket.send(&mut self.output)
    }
}
