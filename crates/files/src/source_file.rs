//! One file to be read, possibly several times and by several threads.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rowmill_base::{Cancel, Error, Result};

use crate::guard::damaged;
use crate::input_file::InputFile;
use crate::jobs::ReadProgress;
use crate::location::FileLocation;
use crate::options::Compression;
use crate::pattern::unreadable;

/// One file of a set.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// The path whose ending tells the format. For a URL, the URL without its query.
    pub(crate) path: PathBuf,
    /// The path as messages show it.
    pub(crate) name: String,
    pub(crate) compression: Compression,
    /// The size in bytes, as it is stored.
    pub(crate) bytes: u64,
    /// The number of lines at the start of a text that no reader sees.
    pub(crate) skipped_lines: usize,
    /// The open file, if it cannot be opened again by its path: a copy of what can be read only once, for example of a
    /// pipe, or a file over the network.
    opened: Option<Arc<InputFile>>,
}

/// How many bytes of a pipe or device are copied before the cancel flag is checked again.
const SPOOLED_AT_ONCE_BYTES: u64 = 1 << 20;

impl SourceFile {
    /// Examines the file. One that is not an ordinary file is first copied to a temporary file.
    pub(crate) fn new(location: &FileLocation, compression: Compression, cancel: &Cancel) -> Result<SourceFile> {
        let (path, name) = (location.path().to_owned(), location.name());
        let of_bytes = |bytes, opened| SourceFile { path, name, compression, bytes, skipped_lines: 0, opened };
        let mut stream: Box<dyn Read> = match location {
            FileLocation::Disk(path) => {
                let name = location.name();
                let found = std::fs::metadata(path).map_err(|error| unreadable(&name, &error))?;
                if found.is_file() {
                    return Ok(of_bytes(found.len(), None));
                }
                Box::new(File::open(path).map_err(|error| unreadable(&name, &error))?)
            }
            #[cfg(feature = "remote")]
            FileLocation::Remote(file) => match file.bytes() {
                Some(bytes) => {
                    return Ok(of_bytes(bytes, Some(Arc::new(InputFile::Remote(Arc::clone(file))))));
                }
                // The server sends the file only as a whole.
                None => Box::new(file.reader()),
            },
        };
        let (spool, bytes) = spooled(&mut stream, &location.name(), cancel)?;
        Ok(of_bytes(bytes, Some(Arc::new(InputFile::Disk(spool)))))
    }

    /// Opens the file for reading at given offsets.
    pub(crate) fn open(&self) -> Result<Arc<InputFile>> {
        match &self.opened {
            Some(file) => Ok(Arc::clone(file)),
            None => {
                let file = File::open(&self.path).map_err(|error| unreadable(&self.name, &error))?;
                Ok(Arc::new(InputFile::Disk(file)))
            }
        }
    }

    /// Opens the text of the file from its start, decompressed.
    pub(crate) fn open_text(&self, progress: &ReadProgress) -> Result<Box<dyn Read + Send>> {
        let file = self.open()?.reader(progress);
        Ok(match self.compression {
            Compression::None => file,
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
            Compression::Zstd => {
                Box::new(zstd::stream::read::Decoder::new(file).map_err(|error| damaged(&self.name, error))?)
            }
        })
    }
}

/// Copies a stream to a temporary file. Returns it with the number of its bytes.
fn spooled(stream: &mut dyn Read, name: &str, cancel: &Cancel) -> Result<(File, u64)> {
    // Files are read at arbitrary offsets and more than once, which a stream cannot do.
    let mut spool = unnamed_file()?;
    let mut bytes = 0;
    loop {
        // A pipe or a device may have no end, so the user must be able to cancel.
        cancel.check()?;
        let mut piece = Read::take(&mut *stream, SPOOLED_AT_ONCE_BYTES);
        match io::copy(&mut piece, &mut spool).map_err(|error| unreadable(name, &error))? {
            0 => return Ok((spool, bytes)),
            read => bytes += read,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_of_a_device_are_copied() {
        let device = FileLocation::Disk("/dev/null".into());
        let file = SourceFile::new(&device, Compression::None, &Cancel::new()).expect("there");
        assert!(file.opened.is_some());
        assert_eq!(file.bytes, 0);
        let mut text = String::new();
        let mut reader = file.open_text(&ReadProgress::default()).expect("opened");
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "");
    }
}
