//! LMDB's table of readers: which processes read which state.
//!
//! LMDB keeps the table in the lock file beside the data. Every process that has the data open maps it, and LMDB
//! consults it before it reuses a page. We need it for the same purpose, but LMDB's interface only prints it, so we
//! read the file.
//!
//! ```text
//! header, 64-byte lines   magic (u32) | format (u32) | last transaction (u64) | slots in use (u32) | locks
//! slot, 64 bytes          transaction (u64) | process (i32) | thread         one per possible reader, to the end
//! ```
//!
//! A slot without a process is free. A slot with the transaction 2^64 - 1 has no state yet. The length of the header
//! depends on the platform's locks, so we compute it: it is the part of the file before the slots. To prove it, we look
//! up a read of our own once.
//!
//! A reader stores its transaction and then checks that it is still the last one. So a look at the table after a commit
//! sees every reader of an older state.
//!
//! The file must be opened once and must stay open as long as the environment. LMDB tells living processes from dead
//! ones by POSIX locks on it, and a process loses all of those when it closes any descriptor of the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rowmill_base::{Error, Result};

const MAGIC: u32 = 0xBEEF_C0DE;
const SLOT_LEN: u64 = 64;
const SLOTS_IN_USE_AT: usize = 16;
const HEADER_LEN_MAX: u64 = 1 << 10;
const NO_STATE: u64 = u64::MAX;

/// The table of readers of an open environment.
#[derive(Debug)]
pub(super) struct ReaderTable {
    file: File,
    slots_at: u64,
}

impl ReaderTable {
    /// Opens the table in the lock file at `path`, which has `slots` slots. `known` is a transaction that this process
    /// reads during the call.
    pub(super) fn open(path: &Path, slots: u32, known: u64) -> Result<ReaderTable> {
        let failed = |e: &io::Error| Error::io(format_args!("read {}", path.display()), e);
        let file = File::open(path).map_err(|e| failed(&e))?;
        let len = file.metadata().map_err(|e| failed(&e))?.len();
        let slots_at = len.saturating_sub(u64::from(slots) * SLOT_LEN);
        let table = ReaderTable { file, slots_at };
        // The slots fill the end of the file, so the rest is the header. It must consist of complete lines.
        if !(SLOT_LEN..=HEADER_LEN_MAX).contains(&slots_at) || !slots_at.is_multiple_of(SLOT_LEN) {
            return Err(unknown_layout(path));
        }
        // The caller's read must be in the table. If it is not, this LMDB arranges the file in another way.
        if !table.holds(known).map_err(|e| failed(&e))? {
            return Err(unknown_layout(path));
        }
        Ok(table)
    }

    /// The oldest transaction that any process reads. Readers of dead processes count until LMDB clears them.
    pub(super) fn oldest(&self) -> io::Result<Option<u64>> {
        Ok(self.slots()?.map(|(transaction, _)| transaction).min())
    }

    /// The transaction and the process of each reader.
    pub(super) fn all(&self) -> io::Result<Vec<(u64, u32)>> {
        Ok(self.slots()?.collect())
    }

    fn holds(&self, transaction: u64) -> io::Result<bool> {
        let process = std::process::id();
        Ok(self.slots()?.any(|slot| slot == (transaction, process)))
    }

    /// The transaction and the process of each used slot.
    fn slots(&self) -> io::Result<impl Iterator<Item = (u64, u32)>> {
        let mut header = [0; SLOT_LEN as usize];
        self.file.read_exact_at(&mut header, 0)?;
        if u32_at(&header, 0) != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is not a lock file of LMDB"));
        }
        // The count may include slots of readers that have ended. Those are filtered out below.
        let mut slots = vec![0; u32_at(&header, SLOTS_IN_USE_AT) as usize * SLOT_LEN as usize];
        self.file.read_exact_at(&mut slots, self.slots_at)?;
        let (slots, _) = slots.as_chunks::<{ SLOT_LEN as usize }>();
        let used: Vec<_> = slots.iter().map(|slot| (u64_at(slot, 0), u32_at(slot, 8))).collect();
        Ok(used.into_iter().filter(|(transaction, process)| *process != 0 && *transaction != NO_STATE))
    }
}

fn unknown_layout(path: &Path) -> Error {
    Error::internal(format!("{}: the table of readers has an unknown layout", path.display()))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(*bytes[at..].first_chunk().expect("the field is inside the buffer"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(*bytes[at..].first_chunk().expect("the field is inside the buffer"))
}
