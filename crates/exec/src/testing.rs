//! Tables in memory, and seeds, for tests.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use roaring::RoaringBitmap;
use rowmill_base::{BlockId, Broker, Cancel, ColumnId, Result, RowNumber, SchemaId, SqlType, TableId};
use rowmill_io::{Disk, MemoryDisk};
use rowmill_storage::{
    Block, BlockOwner, BlockSource, ColumnDef, ColumnFile, ColumnTarget, FreedExtents, OpenRun, TableDef, TableSource,
    write_block,
};

/// The seeds of a random test: `count` of them, or `long_count` if `ROWMILL_LONG` is set. A failed seed can be run
/// alone with `ROWMILL_SEED`.
pub(crate) fn seeds(count: u64, long_count: u64) -> Range<u64> {
    let seed = std::env::var("ROWMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let is_long = std::env::var_os("ROWMILL_LONG").is_some();
    seed.map_or(0..if is_long { long_count } else { count }, |seed: u64| seed..seed + 1)
}

/// A table with sealed blocks only.
#[derive(Debug)]
pub(crate) struct TestTable {
    def: Arc<TableDef>,
    blocks: Vec<Arc<Block>>,
    /// The values of each block's columns.
    values: Vec<Vec<ArrayRef>>,
}

struct Columns<'a>(&'a [ArrayRef]);

impl BlockSource for Columns<'_> {
    fn rows(&self) -> usize {
        self.0[0].len()
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        Ok(Arc::clone(&self.0[index]))
    }
}

impl TestTable {
    /// Makes a table with columns of these types. Each block has the values of some first columns, and positions of
    /// deleted rows. For columns that a block does not have, its rows show `missing`.
    pub(crate) fn new(
        kinds: &[SqlType],
        missing: Option<&ArrayRef>,
        blocks: Vec<(Vec<ArrayRef>, RoaringBitmap)>,
    ) -> Arc<TestTable> {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let broker = Broker::new(1 << 40);
        let columns = kinds.iter().zip(0..).map(|(kind, id)| ColumnDef {
            id: ColumnId(id),
            name: format!("c{id}"),
            kind: kind.clone(),
            nullable: true,
            default: None,
            missing: missing.cloned(),
            part: None,
        });
        let def = Arc::new(TableDef {
            id: TableId(1),
            schema: SchemaId(0),
            name: "t".to_owned(),
            version: 1,
            columns: columns.collect(),
            next_column: ColumnId(kinds.len() as u32),
            keyed: None,
            time: None,
            rules: Default::default(),
        });
        let targets: Vec<ColumnTarget> = def
            .columns
            .iter()
            .map(|column| ColumnTarget {
                id: column.id,
                kind: column.kind.clone(),
                file: Arc::new(
                    ColumnFile::new(Arc::clone(&disk), broker.clone(), column.name.clone(), Vec::new())
                        .expect("a new file has no extents"),
                ),
            })
            .collect();
        let freed = Arc::new(FreedExtents::default());
        let mut table = TestTable { def, blocks: Vec::new(), values: Vec::new() };
        let mut next = 0;
        for (id, (values, deleted)) in blocks.into_iter().enumerate() {
            let rows = values[0].len();
            let owner = BlockOwner { table: table.def.id, block: BlockId(id as u64) };
            let targets = &targets[..values.len()];
            let chunks = write_block(owner, &Columns(&values), targets, &freed, 1, &Cancel::new(), &|_, _| Ok(()))
                .expect("a block in memory");
            let numbers = RowNumber(next)..RowNumber(next + rows as u64);
            let deleted = (!deleted.is_empty()).then(|| Arc::new(deleted));
            table.blocks.push(Arc::new(Block::new(owner.block, numbers, rows, chunks, deleted)));
            table.values.push(values);
            next += rows as u64;
        }
        Arc::new(table)
    }

    /// The same table, whose column at a position has no NULLs by its definition.
    pub(crate) fn without_nulls(self: Arc<TestTable>, column: usize) -> Arc<TestTable> {
        let mut def = TableDef::clone(&self.def);
        def.columns[column].nullable = false;
        Arc::new(TestTable { def: Arc::new(def), blocks: self.blocks.clone(), values: self.values.clone() })
    }

    /// The values of a block's column. `None` if the block is older than the column.
    pub(crate) fn values(&self, block: usize, column: usize) -> Option<&ArrayRef> {
        self.values[block].get(column)
    }
}

impl TableSource for TestTable {
    fn table(&self) -> &Arc<TableDef> {
        &self.def
    }

    fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &[]
    }
}
