//! The places of rows in a columnar table: the part of the table, and the row in it. With a place, an operator can read
//! a column of the row later, from the same snapshot.

use rowmill_storage::{Block, OpenRun, TableSource};

/// A block or an open run of a table. Blocks come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TablePart(u32);

/// The rows of a part.
pub(crate) enum PartOfTable<'a> {
    Block(&'a Block),
    Run(&'a OpenRun),
}

/// The place of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TablePlace {
    pub(crate) part: TablePart,
    pub(crate) row: u32,
}

impl TablePart {
    /// The block with a number.
    pub(crate) fn block(number: usize) -> TablePart {
        TablePart(number as u32)
    }

    /// The open run of `table` with a number.
    pub(crate) fn run(table: &dyn TableSource, number: usize) -> TablePart {
        TablePart((table.blocks().len() + number) as u32)
    }

    /// The number among all parts of the table.
    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }

    /// The rows of this part of `table`.
    pub(crate) fn of(self, table: &dyn TableSource) -> PartOfTable<'_> {
        let blocks = table.blocks();
        match blocks.get(self.number()) {
            Some(block) => PartOfTable::Block(block),
            None => PartOfTable::Run(&table.runs()[self.number() - blocks.len()]),
        }
    }
}

impl TablePlace {
    /// The place as a number. Numbers sort by part and then by row.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.part.0) << u32::BITS | u64::from(self.row)
    }

    /// The place with this number.
    pub(crate) fn of_bits(bits: u64) -> TablePlace {
        TablePlace { part: TablePart((bits >> u32::BITS) as u32), row: bits as u32 }
    }
}
