//! The temporary file that the rows of a COPY or of an import go to before the engine loads them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rowmill::{Error, Result};

/// A temporary file. It disappears when it is dropped.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    path: PathBuf,
    out: BufWriter<File>,
}

impl SpoolFile {
    /// Makes a file whose name has this ending.
    pub(crate) fn new(ending: &str) -> Result<SpoolFile> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("rowmill-copy-{}-{number}.{ending}", std::process::id()));
        // Other users of the machine must not read the rows.
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| Error::io(format!("making '{}'", path.display()), &error))?;
        Ok(SpoolFile { path, out: BufWriter::with_capacity(1 << 18, file) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| self.failed(&error))
    }

    /// Writes the rest. Returns the path.
    pub(crate) fn finish(&mut self) -> Result<String> {
        self.out.flush().map_err(|error| self.failed(&error))?;
        Ok(self.path.display().to_string())
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::io(format!("writing '{}'", self.path.display()), error)
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        // If the file cannot be removed, no caller can do anything about it.
        let _ = std::fs::remove_file(&self.path);
    }
}
