//! One file to be read, possibly several times and by several threads.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rowmill_base::{Cancel, Error, Result};

use crate::guard::damaged;
use crate::jobs::ReadProgress;
use crate::options::Compression;
use crate::pattern::unreadable;

/// One file of a set.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    /// The path as messages show it.
    pub(crate) name: String,
    pub(crate) compression: Compression,
    /// The size on disk in bytes.
    pub(crate) bytes: u64,
    /// The number of lines at the start of a text that no reader sees.
    pub(crate) skipped_lines: usize,
    /// The copied contents, if the path can be read only once, for example a pipe.
    spooled: Option<Arc<File>>,
}

/// How many bytes of a pipe or device are copied before the cancel flag is checked again.
const SPOOLED_AT_ONCE_BYTES: u64 = 1 << 20;

impl SourceFile {
    /// Examines the file. A path that is not an ordinary file is first copied to a temporary file.
    pub(crate) fn new(path: PathBuf, compression: Compression, cancel: &Cancel) -> Result<SourceFile> {
        let name = path.display().to_string();
        let found = std::fs::metadata(&path).map_err(|error| unreadable(&name, &error))?;
        if found.is_file() {
            return Ok(SourceFile { path, name, compression, bytes: found.len(), skipped_lines: 0, spooled: None });
        }
        let mut stream = File::open(&path).map_err(|error| unreadable(&name, &error))?;
        // Files are read at arbitrary offsets and more than once, which a pipe cannot do.
        let mut spool = unnamed_file()?;
        let mut bytes = 0;
        loop {
            // A pipe or a device may have no end, so the user must be able to cancel.
            cancel.check()?;
            let mut piece = stream.by_ref().take(SPOOLED_AT_ONCE_BYTES);
            match io::copy(&mut piece, &mut spool).map_err(|error| unreadable(&name, &error))? {
                0 => break,
                read => bytes += read,
            }
        }
        Ok(SourceFile { path, name, compression, bytes, skipped_lines: 0, spooled: Some(Arc::new(spool)) })
    }

    /// Opens the file for reading at given offsets.
    pub(crate) fn open(&self) -> Result<Arc<File>> {
        match &self.spooled {
            Some(file) => Ok(Arc::clone(file)),
            None => File::open(&self.path).map(Arc::new).map_err(|error| unreadable(&self.name, &error)),
        }
    }

    /// Opens the text of the file from its start, decompressed.
    pub(crate) fn open_text(&self, progress: &ReadProgress) -> Result<Box<dyn Read + Send>> {
        let file = FileReader::new(self.open()?, 0).counted(progress);
        Ok(match self.compression {
            Compression::None => Box::new(file),
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
            Compression::Zstd => {
                Box::new(zstd::stream::read::Decoder::new(file).map_err(|error| damaged(&self.name, error))?)
            }
        })
    }
}

/// Makes a file in the folder for temporary files. It disappears with its last handle.
fn unnamed_file() -> Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("rowmill-{}-{number}.tmp", std::process::id()));
    let opened = File::options().read(true).write(true).create_new(true).open(&path);
    let file = opened.map_err(|error| Error::io(format!("making '{}'", path.display()), &error))?;
    // We remove the name at once, so that the file cannot remain after a crash.
    std::fs::remove_file(&path).map_err(|error| Error::io(format!("removing '{}'", path.display()), &error))?;
    Ok(file)
}

/// Reads a shared file at a position of its own.
#[derive(Debug)]
pub(crate) struct FileReader {
    file: Arc<File>,
    at: u64,
    read: Option<Arc<AtomicU64>>,
}

impl FileReader {
    pub(crate) fn new(file: Arc<File>, at: u64) -> FileReader {
        FileReader { file, at, read: None }
    }

    /// Makes the reader count the bytes that it reads.
    fn counted(mut self, progress: &ReadProgress) -> FileReader {
        self.read = Some(Arc::clone(progress.counter()));
        self
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

impl Seek for FileReader {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let at = match to {
            io::SeekFrom::Start(at) => Some(at),
            // A seek moves only this reader. The shared file has no position.
            io::SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
            io::SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
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
        let file = SourceFile::new(path, Compression::None, &Cancel::new()).expect("there").open().expect("opened");
        let mut first = FileReader::new(Arc::clone(&file), 0);
        let mut second = FileReader::new(file, 5);
        let mut bytes = [0; 3];
        first.read_exact(&mut bytes).expect("read");
        assert_eq!(&bytes, b"012");
        second.read_exact(&mut bytes).expect("read");
        assert_eq!(&bytes, b"567");
        first.seek(io::SeekFrom::End(-2)).expect("inside");
        first.read_exact(&mut bytes[..2]).expect("read");
        assert_eq!(&bytes[..2], b"89");
        assert!(first.seek(io::SeekFrom::Current(-100)).is_err());
    }

    #[test]
    fn the_contents_of_a_device_are_copied() {
        let file = SourceFile::new("/dev/null".into(), Compression::None, &Cancel::new()).expect("there");
        assert!(file.spooled.is_some());
        assert_eq!(file.bytes, 0);
        let mut text = String::new();
        let mut reader = file.open_text(&ReadProgress::default()).expect("opened");
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "");
    }
}
