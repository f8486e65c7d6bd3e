//! Writes a file to S3.
//!
//! The bytes go up in parts, several at a time. The object appears when all parts are there, so a failed statement
//! leaves nothing, and an older object with the name stays.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use parking_lot::Mutex;
use rowmill_base::{Broker, Cancel, Error, ErrorKind, Result, StepMemory};
use tokio::task::JoinHandle;

use super::failure::{Attempt, failed};
use super::listing::path_of;
use super::runtime::{spawn, wait};
use super::store::{Asker, RemoteObject, S3Url};
use crate::folders::FileFolders;
use crate::pattern::has_wildcard;
use crate::secret::Secrets;
use crate::url_name::without_query;

/// The size of a part. All but the last must be equal for some stores.
const PART_BYTES: usize = 16 << 20;
/// The parts that go up at the same time.
const PARTS_AT_ONCE: usize = 3;
/// The parts that S3 allows for an object.
const PARTS_MAX: usize = 10_000;
/// How long a failed statement waits until the store has forgotten its parts.
const ABORT_TIMEOUT: Duration = Duration::from_secs(10);

/// An object that is being written.
pub(crate) struct Upload {
    object: RemoteObject,
    cancel: Cancel,
    /// The bytes of the next part.
    part: Vec<u8>,
    parts: usize,
    upload: Option<Box<dyn MultipartUpload>>,
    under_way: VecDeque<JoinHandle<object_store::Result<()>>>,
    /// Counts the parts in memory.
    memory: Option<StepMemory>,
    bytes: u64,
}

impl Upload {
    /// Begins an object. Nothing is sent yet.
    pub(crate) fn start(
        url: &str,
        folders: &FileFolders,
        secrets: &Secrets,
        cancel: &Cancel,
        memory: Option<&Broker>,
    ) -> Result<Upload> {
        let Some(S3Url { bucket, key }) = S3Url::of(url)? else {
            let message = format!("'{}' cannot be written: files are written to disks and to S3", without_query(url));
            return Err(
                Error::new(ErrorKind::Unsupported, message).hint("write to a path or to 's3://bucket/file.parquet'")
            );
        };
        if has_wildcard(key) || key.ends_with('/') {
            return Err(Error::new(ErrorKind::InvalidParameter, format!("'{url}' does not name one file"))
                .hint("name the file without *, ? and [, and without a slash at the end"));
        }
        let object = Asker { folders, secrets }.s3(url, bucket, path_of(url, key)?)?;
        Ok(Upload {
            object,
            cancel: cancel.clone(),
            part: Vec::new(),
            parts: 0,
            upload: None,
            under_way: VecDeque::new(),
            memory: memory.map(|broker| broker.scratch("files over the network")),
            bytes: 0,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.part.capacity() == 0
            && let Some(memory) = &mut self.memory
            && self.parts <= PARTS_AT_ONCE
        {
            memory.grow(PART_BYTES as u64)?;
        }
        let (now, later) = bytes.split_at(bytes.len().min(PART_BYTES - self.part.len()));
        self.part.extend_from_slice(now);
        self.bytes += now.len() as u64;
        if self.part.len() == PART_BYTES {
            self.send_part()?;
        }
        if later.is_empty() { Ok(()) } else { self.write(later) }
    }

    fn send_part(&mut self) -> Result<()> {
        if self.parts == PARTS_MAX {
            let bytes = PARTS_MAX * PART_BYTES;
            let message = format!("'{}' cannot be written: it has more than {bytes} bytes", self.object.name);
            return Err(Error::new(ErrorKind::Unsupported, message).hint("write several files"));
        }
        if self.upload.is_none() {
            let object = self.object.clone();
            let started = wait(&self.cancel, async move { object.store.put_multipart(&object.path).await })?;
            self.upload = Some(started.map_err(|error| failed(Attempt::Write, &self.object, &error))?);
        }
        while self.under_way.len() >= PARTS_AT_ONCE {
            self.wait_for_part()?;
        }
        let upload = self.upload.as_mut().expect("the upload was started above");
        let part = upload.put_part(PutPayload::from(std::mem::take(&mut self.part)));
        self.under_way.push_back(spawn(part)?);
        self.parts += 1;
        Ok(())
    }

    fn wait_for_part(&mut self) -> Result<()> {
        let Some(part) = self.under_way.pop_front() else { return Ok(()) };
        let sent = wait(&self.cancel, part)?.map_err(|error| Error::internal(format!("a request failed: {error}")))?;
        sent.map_err(|error| failed(Attempt::Write, &self.object, &error))
    }

    /// Sends the rest and makes the object visible. Returns its size in bytes.
    pub(crate) fn publish(&mut self) -> Result<u64> {
        let sent = if self.upload.is_none() {
            let (object, payload) = (self.object.clone(), PutPayload::from(std::mem::take(&mut self.part)));
            wait(&self.cancel, async move { object.store.put(&object.path, payload).await.map(|_| ()) })?
        } else {
            if !self.part.is_empty() {
                self.send_part()?;
            }
            while !self.under_way.is_empty() {
                self.wait_for_part()?;
            }
            let mut upload = self.upload.take().expect("the upload was started");
            wait(&self.cancel, async move { upload.complete().await.map(|_| ()) })?
        };
        sent.map_err(|error| failed(Attempt::Write, &self.object, &error))?;
        Ok(self.bytes)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.under_way.drain(..).for_each(|part| part.abort());
        if let Some(mut upload) = self.upload.take() {
            // The statement has failed, perhaps because it was cancelled, so its own flag would end this too. If the
            // store cannot be reached, its rules for unfinished uploads remove the parts.
            let cancel = Cancel::new();
            cancel.set_deadline(ABORT_TIMEOUT);
            let _ = wait(&cancel, async move { upload.abort().await });
        }
    }
}

/// The stream into an upload, for an encoder. The upload's owner publishes it.
pub(crate) struct UploadStream(pub(crate) Arc<Mutex<Upload>>);

impl Write for UploadStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.lock().write(buffer).map_err(io::Error::other)?;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
