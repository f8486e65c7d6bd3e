//! Writes spill files.

use std::sync::Arc;
use std::time::Instant;

use rowmill_base::{DiskCharge, Reservation, Result};
use rowmill_io::{DiskFile, OpenMode};

use super::file::{FileOnDisk, SpillFile, SpilledBytes};
use super::folder::TempFolder;
use super::frame::FrameEncoder;
use super::section::SpillSection;
use super::space::TempSpace;

/// The bytes of one write to a file. Copying them takes 105 µs at 10 GB/s, and a system call about 1 µs, so larger
/// writes would save at most a hundredth.
const WRITE_BYTES: usize = 1 << 20;

/// Writes the spilled state of one worker of an operator.
///
/// The state is written in flushes. Each flush consists of sections, and each section of frames. Sections can be read
/// after the flush with them has ended and the writer has [finished](SpillWriter::finish).
#[derive(Debug)]
pub struct SpillWriter {
    space: TempSpace,
    owner: &'static str,
    file: Option<UnfinishedFile>,
    encoder: FrameEncoder,
    memory: Reservation,
    section_start: u64,
}

/// A file that is being written.
#[derive(Debug)]
struct UnfinishedFile {
    file: Arc<SpillFile>,
    /// The file on disk, once there is one.
    on_disk: Option<(Box<dyn DiskFile>, FileOnDisk)>,
    /// The bytes that are on disk.
    stored_bytes: u64,
    /// The bytes that follow.
    buffer: Vec<u8>,
}

impl UnfinishedFile {
    fn bytes(&self) -> u64 {
        self.stored_bytes + self.buffer.len() as u64
    }

    /// Writes the buffer to disk. Makes the file there first, if there is none.
    fn store(&mut self, space: &TempSpace, owner: &'static str) -> Result<()> {
        let (file, on_disk) = match &mut self.on_disk {
            Some(on_disk) => on_disk,
            None => {
                let folder = space.folder()?;
                let path = format!("{}.spill", self.file.number);
                let charge = space.quota().charge(owner);
                self.on_disk.insert(create(folder, path, charge)?)
            }
        };
        // The space must be charged before the bytes are written, so that the charge is never too low.
        let bytes = self.stored_bytes + self.buffer.len() as u64;
        if let Some(charge) = &mut on_disk.charge {
            charge.grow_to(bytes)?;
        }
        file.write_all_at(&self.buffer, self.stored_bytes)?;
        self.stored_bytes = bytes;
        self.buffer.clear();
        space.note(self.file.number, bytes, true);
        Ok(())
    }
}

fn create(folder: Arc<TempFolder>, path: String, charge: DiskCharge) -> Result<(Box<dyn DiskFile>, FileOnDisk)> {
    // The guard comes first, so that a file that was made although the call failed is removed.
    let on_disk = FileOnDisk { folder, path, charge: Some(charge) };
    let file = on_disk.folder.disk.open(&on_disk.path, OpenMode::Create)?;
    Ok((file, on_disk))
}

impl SpillWriter {
    pub(super) fn new(space: TempSpace, owner: &'static str, memory: Reservation) -> SpillWriter {
        let encoder = FrameEncoder::default();
        SpillWriter { space, owner, file: None, encoder, memory, section_start: 0 }
    }

    /// Adds a frame with `bytes` to the current section.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let (space, owner) = (&self.space, self.owner);
        let file = self.file.get_or_insert_with(|| UnfinishedFile {
            file: Arc::new(SpillFile::new(space.next_number(owner), space.clone())),
            on_disk: None,
            stored_bytes: 0,
            buffer: Vec::new(),
        });
        self.encoder.encode(bytes, space.is_scarce(), &mut file.buffer)?;
        let is_worth_a_file = file.on_disk.is_some() || file.bytes() >= space.file_bytes_min();
        if file.buffer.len() >= WRITE_BYTES && is_worth_a_file {
            let (bytes, begun) = (file.buffer.len() as u64, Instant::now());
            file.store(space, owner)?;
            self.encoder.note_write(bytes, begun.elapsed());
        }
        self.memory.recount(file.buffer.capacity() as u64);
        Ok(())
    }

    /// Ends the current section, which may be empty, and returns it.
    pub fn end_section(&mut self) -> SpillSection {
        let Some(file) = &self.file else { return SpillSection::empty() };
        let start = std::mem::replace(&mut self.section_start, file.bytes());
        SpillSection::new(Arc::clone(&file.file), start..self.section_start)
    }

    /// Ends the current flush. All its sections must have ended.
    pub fn end_flush(&mut self) -> Result<()> {
        match &self.file {
            Some(file) if file.on_disk.is_some() || file.bytes() >= self.space.file_bytes_min() => self.end_file(true),
            _ => Ok(()),
        }
    }

    /// Makes all sections readable. The writer can go on, with another file.
    pub fn finish(&mut self) -> Result<()> {
        self.end_flush()?;
        self.end_file(false)
    }

    fn end_file(&mut self, on_disk: bool) -> Result<()> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        self.section_start = 0;
        if on_disk && !file.buffer.is_empty() {
            file.store(&self.space, self.owner)?;
        }
        self.space.count(file.bytes(), file.on_disk.is_some());
        match file.on_disk {
            Some((_, on_disk)) => file.file.complete(SpilledBytes::Disk(on_disk)),
            None => {
                let bytes = file.buffer;
                self.space.note(file.file.number, bytes.len() as u64, false);
                // The bytes stay, and so does their memory. The next file starts with none.
                let next = self.memory.another();
                let memory = std::mem::replace(&mut self.memory, next);
                file.file.complete(SpilledBytes::Memory { bytes, _memory: memory });
            }
        }
        self.memory.recount(0);
        Ok(())
    }
}
