//! A temporary file with a path, for readers that take one.
//!
//! It is in the folder of the process and counts in the quota, as spilled state does. So a long one cannot fill the
//! disk, and the next process removes the files of one that has crashed.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowmill_base::{DiskCharge, Error, Result};

use super::folder::TempFolder;
use super::space::TempSpace;

/// The bytes of one write to the file. Copying them takes 26 µs at 10 GB/s, and a system call about 1 µs, so larger
/// writes would save at most a twenty-fifth.
const WRITE_BYTES: usize = 256 << 10;

/// A temporary file that one writer fills. It disappears when it is dropped.
#[derive(Debug)]
pub struct NamedTempFile {
    space: TempSpace,
    number: u64,
    path: PathBuf,
    file: File,
    /// `None` once the file is gone.
    charge: Option<DiskCharge>,
    stored_bytes: u64,
    /// The bytes that follow.
    buffer: Vec<u8>,
    _folder: Arc<TempFolder>,
}

impl NamedTempFile {
    pub(super) fn new(space: &TempSpace, owner: &'static str) -> Result<NamedTempFile> {
        let folder = space.folder()?;
        let number = space.next_number(owner);
        let name = format!("{}.rows", number);
        let path = match folder.path() {
            Some(folder) => folder.join(name),
            // The space is in memory, for a test. The file needs a path all the same.
            None => std::env::temp_dir().join(format!("rowmill-{}-{name}", std::process::id())),
        };
        // Other users of the machine must not read the rows.
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(|error| {
            space.forget(number);
            Error::io(format_args!("making '{}'", path.display()), &error)
        })?;
        let charge = Some(space.quota().charge(owner));
        let (space, buffer) = (space.clone(), Vec::new());
        Ok(NamedTempFile { space, number, path, file, charge, stored_bytes: 0, buffer, _folder: folder })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES { self.store() } else { Ok(()) }
    }

    /// Writes the rest. Returns the path.
    pub fn finish(&mut self) -> Result<&Path> {
        self.store()?;
        Ok(&self.path)
    }

    fn store(&mut self) -> Result<()> {
        let bytes = self.stored_bytes + self.buffer.len() as u64;
        // The space must be charged before the bytes are written, so that the charge is never too low.
        if let Some(charge) = &mut self.charge {
            charge.grow_to(bytes)?;
        }
        let written = self.file.write_all(&self.buffer);
        written.map_err(|error| Error::io(format_args!("writing '{}'", self.path.display()), &error))?;
        self.stored_bytes = bytes;
        self.buffer.clear();
        self.space.note(self.number, bytes, true);
        Ok(())
    }
}

impl Drop for NamedTempFile {
    fn drop(&mut self) {
        self.space.forget(self.number);
        if let (Err(_), Some(charge)) = (std::fs::remove_file(&self.path), self.charge.take()) {
            charge.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use rowmill_base::ErrorKind;

    use super::*;

    #[test]
    fn a_file_counts_in_the_quota_until_it_is_dropped() {
        let root = tempfile::tempdir().expect("a folder");
        let space = TempSpace::in_folder(root.path(), 1 << 20);
        let mut file = space.named_file("a test").expect("a file");
        (0..10).for_each(|_| file.write(&[b'x'; 50_000]).expect("room"));
        let path = file.finish().expect("room").to_owned();
        assert_eq!(std::fs::read(&path).expect("the file").len(), 500_000);
        assert!(path.starts_with(root.path()) && space.quota().used_bytes() >= 500_000);
        assert_eq!(space.files()[0].bytes, 500_000);
        let full = (0..20).try_for_each(|_| file.write(&[b'x'; 50_000])).expect_err("the quota is reached");
        assert_eq!(full.kind(), ErrorKind::DiskFull);
        drop(file);
        assert!(!path.exists() && space.quota().used_bytes() == 0 && space.files().is_empty());
    }
}
