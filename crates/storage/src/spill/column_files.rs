//! Temporary column files: blocks that are gone with the process.
//!
//! They are in the folder of the process and count in the quota, as spilled state does. Their blocks are read through
//! the same mapping as those of tables.

use std::sync::Arc;

use rowmill_base::{Broker, DiskCharge, Result};

use super::folder::TempFolder;
use super::space::TempSpace;
use crate::block_writer::ColumnTarget;
use crate::column_file::ColumnFile;
use crate::schema::ColumnDef;

/// The column files of one set of blocks, in a folder of their own. The folder is removed when this is dropped, so the
/// readers of the blocks must hold it.
#[derive(Debug)]
pub struct TempColumnFiles {
    space: TempSpace,
    number: u64,
    folder: Arc<TempFolder>,
    path: String,
    targets: Vec<ColumnTarget>,
    /// `None` once the folder is gone.
    charge: Option<DiskCharge>,
}

impl TempColumnFiles {
    pub(super) fn new<'c>(
        space: &TempSpace,
        owner: &'static str,
        columns: impl Iterator<Item = &'c ColumnDef>,
        memory: &Broker,
    ) -> Result<TempColumnFiles> {
        let folder = space.folder()?;
        let number = space.next_number(owner);
        let path = format!("{number}.columns");
        let target = |column: &ColumnDef| {
            let file = format!("{path}/{}.col", column.id);
            let file = Arc::new(ColumnFile::new(Arc::clone(&folder.disk), memory.clone(), file, Vec::new())?);
            Ok(ColumnTarget { id: column.id, kind: column.kind.clone(), file })
        };
        let targets = columns.map(target).collect::<Result<Vec<_>>>();
        let made = targets.and_then(|targets| folder.disk.create_dir(&path).map(|()| targets));
        let targets = made.inspect_err(|_| space.forget(number))?;
        let charge = Some(space.quota().charge(owner));
        Ok(TempColumnFiles { space: space.clone(), number, folder, path, targets, charge })
    }

    /// The files, for [`write_block`](crate::write_block).
    pub fn targets(&self) -> &[ColumnTarget] {
        &self.targets
    }

    /// The bytes that are charged.
    pub fn bytes(&self) -> u64 {
        self.charge.as_ref().map_or(0, DiskCharge::bytes)
    }

    /// Charges room for `bytes` more bytes. Must be called before they are written. Returns `DiskFull` if that would
    /// pass the quota.
    pub fn reserve(&mut self, bytes: u64) -> Result<()> {
        let all = self.bytes() + bytes;
        self.charge.as_mut().map_or(Ok(()), |charge| charge.grow_to(all))
    }

    /// Charges exactly `bytes` bytes, which all files together have.
    pub fn settle(&mut self, bytes: u64) -> Result<()> {
        if let Some(charge) = &mut self.charge {
            charge.shrink_to(bytes);
            charge.grow_to(bytes)?;
        }
        self.space.note(self.number, bytes, true);
        Ok(())
    }
}

impl Drop for TempColumnFiles {
    fn drop(&mut self) {
        self.space.forget(self.number);
        // The space is free only when the files are gone. After a failed removal, the charge must stay.
        if let (Err(_), Some(charge)) = (self.folder.disk.remove_dir(&self.path), self.charge.take()) {
            charge.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, FreedExtents};
    use crate::schema::{ColumnSpec, TableDef};
    use crate::{BlockOwner, BlockSource, write_block};
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use rowmill_base::{BlockId, Cancel, ColumnId, ErrorKind, RowNumber, SchemaId, SqlType, TableId};

    struct Numbers;

    impl BlockSource for Numbers {
        fn rows(&self) -> usize {
            1_000
        }

        fn column(&self, _: usize) -> Result<ArrayRef> {
            Ok(Arc::new(Int64Array::from_iter_values((0..1_000).map(|row| row * row))))
        }
    }

    fn table() -> TableDef {
        let spec = ColumnSpec { name: "a".into(), kind: SqlType::Int64, nullable: false, default: None, missing: None };
        TableDef {
            id: TableId(1),
            schema: SchemaId(1),
            name: "t".into(),
            version: 1,
            columns: vec![ColumnDef::from_spec(ColumnId(3), spec)],
            next_column: ColumnId(4),
            keyed: None,
            time: None,
            rules: Default::default(),
        }
    }

    #[test]
    fn blocks_are_read_until_the_files_are_dropped() {
        let root = tempfile::tempdir().expect("a folder");
        let space = TempSpace::in_folder(root.path(), 1 << 20);
        let (table, memory) = (table(), Broker::new(u64::MAX));
        let mut files = space.column_files("a test", table.columns.iter(), &memory).expect("files");
        files.reserve(100_000).expect("room");
        assert_eq!(files.reserve(2 << 20).expect_err("the quota is reached").kind(), ErrorKind::DiskFull);
        let (owner, freed) = (BlockOwner { table: TableId(1), block: BlockId(1) }, Arc::<FreedExtents>::default());
        let chunks = write_block(owner, &Numbers, files.targets(), &freed, 1, &Cancel::new(), &|_, _| Ok(()));
        let block = Block::new(BlockId(1), RowNumber(0)..RowNumber(1_000), 1_000, chunks.expect("written"), None);
        files.settle(block.chunk_bytes(ColumnId(3))).expect("less than was reserved");
        assert_eq!(space.quota().used_bytes(), block.chunk_bytes(ColumnId(3)));
        assert_eq!(space.files()[0].bytes, space.quota().used_bytes());
        let chunk = block.chunk(&table, 0).expect("whole").expect("a column");
        let values = chunk.read(0..1_000).expect("values");
        assert_eq!(values.as_primitive::<Int64Type>().value(999), 999 * 999);
        drop((chunk, block, files));
        assert!(space.quota().used_bytes() == 0 && space.files().is_empty());
        let left = std::fs::read_dir(root.path())
            .expect("the folder")
            .flat_map(|folder| std::fs::read_dir(folder.expect("a folder").path()).expect("a folder of the process"));
        assert_eq!(left.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_dir())).count(), 0);
    }
}
