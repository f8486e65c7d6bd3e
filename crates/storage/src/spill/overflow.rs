//! Memory that overflows to a temporary file.

use std::sync::Arc;

use rowmill_base::{DiskCharge, Error, Result};
use rowmill_io::{FileMemory, OverflowFile, OverflowFiles, OverflowMemory};

use super::file::FileOnDisk;
use super::space::TempSpace;

impl TempSpace {
    /// Memory for `owner` that takes at most `heap_bytes_max` bytes of the heap before it overflows to a temporary
    /// file. The space of the file counts in the quota.
    pub fn overflow_memory(&self, owner: &'static str, heap_bytes_max: u64) -> OverflowMemory {
        OverflowMemory::new(Box::new(TempFiles { space: self.clone(), owner }), heap_bytes_max)
    }
}

/// Opens temporary files.
#[derive(Debug)]
struct TempFiles {
    space: TempSpace,
    owner: &'static str,
}

/// A temporary file whose bytes are memory. It is removed on drop.
#[derive(Debug)]
struct TempMemory {
    // The memory is dropped before the file is removed.
    memory: Arc<FileMemory>,
    on_disk: FileOnDisk,
    space: TempSpace,
    number: u64,
}

impl OverflowFiles for TempFiles {
    fn open(&self) -> Result<Box<dyn OverflowFile>> {
        let space = self.space.clone();
        let folder = space.folder()?;
        let number = space.next_number(self.owner);
        let charge = space.quota().charge(self.owner);
        // The guard comes first, so that a file that was made although the call failed is removed.
        let on_disk = FileOnDisk { folder, path: format!("{number}.memory"), charge: Some(charge) };
        match on_disk.folder.disk.file_memory(&on_disk.path) {
            Ok(memory) => Ok(Box::new(TempMemory { memory: Arc::new(memory), on_disk, space, number })),
            Err(error) => {
                space.forget(number);
                Err(error)
            }
        }
    }
}

impl OverflowFile for TempMemory {
    fn memory(&self) -> &Arc<FileMemory> {
        &self.memory
    }

    fn charge(&mut self, bytes: u64) -> Result<()> {
        let lost = || Error::internal("the charge of a temporary file is gone");
        self.on_disk.charge.as_mut().ok_or_else(lost).and_then(|charge: &mut DiskCharge| charge.grow_to(bytes))?;
        self.space.note(self.number, bytes, true);
        Ok(())
    }
}

impl Drop for TempMemory {
    fn drop(&mut self) {
        self.space.count(self.on_disk.charge.as_ref().map_or(0, DiskCharge::bytes), true);
        self.space.forget(self.number);
    }
}

#[cfg(test)]
mod tests {
    use allocator_api2::vec::Vec as PieceVec;
    use rowmill_base::ErrorKind;
    use rowmill_io::{Call, Fault, FaultyDisk, MemoryDisk, RealDisk};

    use super::super::tests::bytes_on_disk;
    use super::*;

    const PIECE_BYTES: usize = 300_000;

    fn piece(memory: &OverflowMemory, value: u8) -> PieceVec<u8, OverflowMemory> {
        let mut piece = PieceVec::with_capacity_in(PIECE_BYTES, memory.clone());
        piece.resize(PIECE_BYTES, value);
        piece
    }

    #[test]
    fn the_space_of_memory_in_a_file_is_charged_and_listed() {
        let dir = tempfile::tempdir().expect("a folder");
        let disk = RealDisk::new(dir.path());
        let space = TempSpace::on_disk(disk.clone(), 4 << 20);
        let memory = space.overflow_memory("rows", 0);
        let mut pieces = Vec::new();
        let failure = loop {
            pieces.push(piece(&memory, pieces.len() as u8));
            assert_eq!(space.quota().used_bytes(), bytes_on_disk(&disk));
            if let Some(failure) = memory.take_failure() {
                break failure;
            }
        };
        assert_eq!((failure.kind(), pieces.len()), (ErrorKind::DiskFull, 14));
        assert!(failure.message().starts_with("rows must write"), "{failure}");
        let files = space.files();
        assert_eq!((files.len(), files[0].owner, files[0].is_on_disk), (1, "rows", true));
        assert_eq!(files[0].bytes, space.quota().used_bytes());
        assert!(pieces.iter().zip(0..).all(|(piece, value)| piece.iter().all(|byte| *byte == value)));
        drop(pieces);
        assert_eq!((space.quota().used_bytes(), bytes_on_disk(&disk), space.files().len()), (0, 0, 0));
    }

    #[test]
    fn a_failure_of_any_call_loses_no_piece_and_no_charge() {
        for call in [Call::Open, Call::Write, Call::Sync, Call::Remove] {
            for nth in 1..5 {
                let dir = tempfile::tempdir().expect("a folder");
                let real = RealDisk::new(dir.path());
                let disk = FaultyDisk::new(Arc::new(real.clone()));
                let plan = disk.plan().clone();
                plan.fail(call, nth, Fault::Io);
                let space = TempSpace::on_disk(disk, 1 << 30);
                let memory = space.overflow_memory("rows", 0);
                let pieces: Vec<_> = (0..12).map(|value| piece(&memory, value)).collect();
                let is_noticed = memory.take_failure().is_some() || memory.sync().is_err();
                assert_eq!(is_noticed, plan.count(call) >= nth && call != Call::Remove, "{call:?} {nth}");
                assert!(pieces.iter().zip(0..).all(|(piece, value)| piece.iter().all(|byte| *byte == value)));
                assert!(space.quota().used_bytes() >= bytes_on_disk(&real));
                drop(pieces);
                assert_eq!(space.quota().used_bytes(), bytes_on_disk(&real), "{call:?} {nth}");
            }
        }
    }

    #[test]
    fn a_page_that_was_lost_is_reported_by_every_sync() {
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        let plan = disk.plan().clone();
        let memory = TempSpace::on_disk(disk, 1 << 30).overflow_memory("rows", 0);
        let _piece = piece(&memory, 1);
        memory.sync().expect("stored");
        plan.fail(Call::Sync, 1, Fault::Io);
        for _ in 0..3 {
            assert_eq!(memory.sync().expect_err("lost").kind(), ErrorKind::Io);
        }
    }
}
