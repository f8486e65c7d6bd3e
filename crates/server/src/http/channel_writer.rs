//! The channel between the thread of a statement and the network threads.

use std::io::{self, ErrorKind, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::timeout;

/// The most bytes of a chunk.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes an answer in chunks. Waits while the channel is full, at most for a time.
pub(super) struct ChannelWriter {
    chunks: Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
    stalled: Duration,
}

impl ChannelWriter {
    pub(super) fn new(chunks: Sender<io::Result<Bytes>>, stalled: Duration) -> ChannelWriter {
        ChannelWriter { chunks, buffer: Vec::new(), stalled }
    }

    fn send(&self, chunk: io::Result<Bytes>) -> io::Result<()> {
        // This is a session thread, so it may block.
        match Handle::current().block_on(timeout(self.stalled, self.chunks.send(chunk))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(ErrorKind::BrokenPipe, "the client has gone")),
            Err(_) => Err(io::Error::new(ErrorKind::TimedOut, "the client does not read its answer")),
        }
    }

    /// Ends the answer in the middle, so that the client cannot take it for a whole one.
    pub(super) fn break_off(&self, error: &rowmill::Error) {
        let _ = self.send(Err(io::Error::other(error.to_string())));
    }
}

impl Write for ChannelWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK_BYTES - self.buffer.len();
        let taken = bytes.len().min(room);
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == CHUNK_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.buffer) {
            empty if empty.is_empty() => Ok(()),
            full => self.send(Ok(Bytes::from(full))),
        }
    }
}

/// The chunks of an answer, as the body of a response reads them.
pub(super) struct ChunkStream(Receiver<io::Result<Bytes>>);

impl ChunkStream {
    pub(super) fn new(receiver: Receiver<io::Result<Bytes>>) -> ChunkStream {
        ChunkStream(receiver)
    }
}

impl Stream for ChunkStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
