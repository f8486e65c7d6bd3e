//! Reads a file over the network from front to back.
//!
//! One request sends the whole rest of the file. Its bytes wait in a queue of bounded size until the reader takes them.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use bytes::{Buf, Bytes};
use futures_util::TryStreamExt;
use object_store::{GetRange, ObjectMeta};
use rowmill_base::{Error, Result, StepMemory};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::failure::{Attempt, changed, failed, wrong_length};
use super::file::{RemoteFile, differs, get};
use super::runtime::{CANCEL_CHECK, spawn};
use super::store::RemoteObject;
use super::transport::UNKNOWN_BYTES;
use crate::guard::file_failure;

/// The bytes that wait for the reader, at most.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Reads a file from its start.
pub(crate) struct RemoteReader {
    file: Arc<RemoteFile>,
    at: u64,
    /// The rest of the last piece.
    piece: Bytes,
    incoming: Option<Incoming>,
    ended: bool,
    /// Counts the queue.
    memory: Option<StepMemory>,
}

/// The end of a queue that a request fills. `None` marks the end of the file, so that a task that dies is no end.
type Pieces = Receiver<Result<Option<Bytes>>>;

/// A request whose bytes come in.
struct Incoming {
    pieces: Pieces,
    /// The free bytes of the queue.
    free: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // A reader that leaves early must not receive the rest.
        self.task.abort();
    }
}

impl RemoteReader {
    pub(super) fn new(file: Arc<RemoteFile>) -> RemoteReader {
        let memory = file.memory.as_ref().map(|broker| broker.scratch("files over the network"));
        RemoteReader { file, at: 0, piece: Bytes::new(), incoming: None, ended: false, memory }
    }

    /// The next piece. `None` at the end of the file.
    fn next_piece(&mut self) -> Result<Option<Bytes>> {
        if self.file.bytes() == Some(self.at) {
            return Ok(None);
        }
        let incoming = match &mut self.incoming {
            Some(incoming) => incoming,
            none => {
                if let Some(memory) = &mut self.memory {
                    memory.grow(QUEUED_BYTES_MAX as u64)?;
                }
                none.insert(Incoming::start(&self.file, self.at)?)
            }
        };
        loop {
            self.file.cancel.check()?;
            match incoming.pieces.recv_timeout(CANCEL_CHECK) {
                Ok(piece) => {
                    let piece = piece?;
                    if let Some(piece) = &piece {
                        incoming.free.add_permits(permits(piece));
                    }
                    return Ok(piece);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Error::internal("a request panicked")),
            }
        }
    }
}

impl Drop for RemoteReader {
    fn drop(&mut self) {
        let Some(incoming) = &self.incoming else { return };
        // Types are guessed from the first rows by a reader that stops early. What it was sent beyond them must not be
        // sent again to the next reader.
        let mut at = self.at + self.piece.len() as u64;
        while let Ok(Ok(Some(piece))) = incoming.pieces.try_recv() {
            self.file.keep_start(at, &piece);
            at += piece.len() as u64;
        }
    }
}

impl Read for RemoteReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        if self.piece.is_empty() {
            // Once a request runs, its bytes follow; before that, another reader may have kept the start.
            let kept = if self.incoming.is_none() { self.file.read_start(buffer, self.at) } else { 0 };
            if kept > 0 {
                self.at += kept as u64;
                return Ok(kept);
            }
            match self.next_piece().map_err(file_failure)? {
                Some(piece) => {
                    self.file.keep_start(self.at, &piece);
                    self.piece = piece;
                }
                None => {
                    self.ended = true;
                    return Ok(0);
                }
            }
        }
        let length = self.piece.len().min(buffer.len());
        self.piece.copy_to_slice(&mut buffer[..length]);
        self.at += length as u64;
        Ok(length)
    }
}

impl Incoming {
    fn start(file: &Arc<RemoteFile>, at: u64) -> Result<Incoming> {
        let (sender, pieces) = channel();
        let free = Arc::new(Semaphore::new(QUEUED_BYTES_MAX));
        let (object, facts, space) = (file.object.clone(), file.facts().cloned(), Arc::clone(&free));
        let task = spawn(async move {
            // If the reader has gone, the result is not needed.
            let result = receive(&object, facts, at, &sender, &space).await;
            let _ = sender.send(result.map(|()| None));
        })?;
        Ok(Incoming { pieces, free, task })
    }
}

/// Sends the bytes of the file from `at` on to a reader.
async fn receive(
    object: &RemoteObject,
    facts: Option<ObjectMeta>,
    at: u64,
    sender: &Sender<Result<Option<Bytes>>>,
    free: &Semaphore,
) -> Result<()> {
    let range = (at > 0).then_some(GetRange::Offset(at));
    let result = get(object, range).await?;
    if facts.as_ref().is_some_and(|facts| differs(facts, &result.meta)) {
        return Err(changed(object));
    }
    let expected = result.meta.size;
    let mut received = at;
    let mut stream = result.into_stream();
    while let Some(piece) = stream.try_next().await.map_err(|error| failed(Attempt::Read, object, &error))? {
        received += piece.len() as u64;
        let taken = free.acquire_many(permits(&piece) as u32).await;
        taken.map_err(|error| Error::internal(error.to_string()))?.forget();
        if sender.send(Ok(Some(piece))).is_err() {
            return Ok(());
        }
    }
    match received == expected || expected == UNKNOWN_BYTES {
        true => Ok(()),
        false => Err(wrong_length(object, received, expected)),
    }
}

/// The part of the queue that a piece takes. A piece that is larger than the queue takes all of it.
fn permits(piece: &Bytes) -> usize {
    piece.len().min(QUEUED_BYTES_MAX)
}
