//! An open file that is read at given offsets, by any number of threads: on disk or over the network.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ahead::AheadBytes;
use crate::jobs::ReadProgress;
#[cfg(feature = "remote")]
use crate::remote::RemoteFile;

/// An open file.
#[derive(Debug)]
pub(crate) enum InputFile {
    Disk(File),
    #[cfg(feature = "remote")]
    Remote(Arc<RemoteFile>),
}

impl InputFile {
    /// Reads bytes at `at`: at least one, unless the file ends there or `buffer` is empty.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            InputFile::Disk(file) => file.read_at(buffer, at),
            #[cfg(feature = "remote")]
            InputFile::Remote(file) => file.read_at(buffer, at),
        }
    }

    /// Fills `buffer` with the bytes at `at`.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            InputFile::Disk(file) => file.read_exact_at(buffer, at),
            #[cfg(feature = "remote")]
            InputFile::Remote(file) => match file.read_at(buffer, at)? {
                read if read == buffer.len() => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            },
        }
    }

    /// Reads the file from its start. `progress` counts the bytes.
    pub(crate) fn reader(self: &Arc<Self>, progress: &ReadProgress) -> Box<dyn Read + Send> {
        let read = Some(Arc::clone(progress.counter()));
        match &**self {
            InputFile::Disk(_) => Box::new(FileReader { file: Arc::clone(self), at: 0, read }),
            #[cfg(feature = "remote")]
            InputFile::Remote(file) => Box::new(CountedReader { reader: file.reader(), read }),
        }
    }

    /// Whether a read takes so long that what will be needed should be read ahead.
    pub(crate) fn is_remote(&self) -> bool {
        !matches!(self, InputFile::Disk(_))
    }

    /// Reads `ranges` ahead, which are in order and apart. `None` for a file on disk, where the system does that.
    ///
    /// If `at_once`, a reader will need all of them at the same time. Otherwise it will read one after the other.
    #[cfg_attr(not(feature = "remote"), expect(unused_variables, reason = "files on disk are not read ahead"))]
    pub(crate) fn read_ahead(
        &self,
        ranges: Vec<std::ops::Range<u64>>,
        at_once: bool,
    ) -> rowmill_base::Result<Option<Arc<dyn AheadBytes>>> {
        match self {
            InputFile::Disk(_) => Ok(None),
            #[cfg(feature = "remote")]
            InputFile::Remote(file) => crate::remote::read_ahead(file, ranges, at_once).map(Some),
        }
    }
}

/// Reads a shared file at a position of its own.
#[derive(Debug)]
pub(crate) struct FileReader {
    file: Arc<InputFile>,
    at: u64,
    read: Option<Arc<AtomicU64>>,
}

impl FileReader {
    pub(crate) fn new(file: Arc<InputFile>, at: u64) -> FileReader {
        FileReader { file, at, read: None }
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read_at(buffer, self.at)?;
        self.at += bytes as u64;
        if let Some(read) = &self.read {
            read.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        Ok(bytes)
    }
}

/// Counts the bytes of a reader.
#[cfg(feature = "remote")]
struct CountedReader<R> {
    reader: R,
    read: Option<Arc<AtomicU64>>,
}

#[cfg(feature = "remote")]
impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.reader.read(buffer)?;
        if let Some(read) = &self.read {
            read.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_one_file_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "0123456789").expect("written");
        let file = Arc::new(InputFile::Disk(File::open(path).expect("opened")));
        let mut first = FileReader::new(Arc::clone(&file), 0);
        let mut second = FileReader::new(Arc::clone(&file), 5);
        let mut bytes = [0; 3];
        first.read_exact(&mut bytes).expect("read");
        assert_eq!(&bytes, b"012");
        second.read_exact(&mut bytes).expect("read");
        assert_eq!(&bytes, b"567");
        let progress = ReadProgress::default();
        let mut text = String::new();
        file.reader(&progress).read_to_string(&mut text).expect("read");
        assert_eq!((text.as_str(), progress.bytes_read()), ("0123456789", 10));
        assert!(file.read_exact_at(&mut bytes, 8).is_err() && !file.is_remote());
    }
}
