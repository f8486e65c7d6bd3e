//! A stored table in memory, which a join reads.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::SchemaRef;
use rowmill_base::{BlockId, Broker, Cancel, ColumnId, Result, RowNumber, SchemaId, SqlType, TableId};
use rowmill_exec::batch::{BatchSource, Batches};
use rowmill_exec::scan::{ScanRequest, TableScan};
use rowmill_io::MemoryDisk;
use rowmill_storage::{
    Block, BlockOwner, BlockSource, ColumnDef, ColumnFile, ColumnTarget, FreedExtents, OpenRun, ROWS_PER_BLOCK_MAX,
    TableDef, TableSource, write_block,
};

/// The blocks of a table of integers.
#[derive(Debug)]
pub(crate) struct Stored {
    table: Arc<TableDef>,
    blocks: Vec<Arc<Block>>,
}

impl TableSource for Stored {
    fn table(&self) -> &Arc<TableDef> {
        &self.table
    }

    fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &[]
    }
}

struct Columns(Vec<ArrayRef>);

impl BlockSource for Columns {
    fn rows(&self) -> usize {
        self.0[0].len()
    }

    fn column(&self, index: usize) -> Result<ArrayRef> {
        Ok(Arc::clone(&self.0[index]))
    }
}

impl Stored {
    /// Makes a table from columns of equal length.
    pub(crate) fn new(columns: &[Vec<i64>]) -> Arc<Stored> {
        let (disk, memory) = (Arc::new(MemoryDisk::new()), Broker::new(8 << 30));
        let definition = |index: usize| ColumnDef {
            id: ColumnId(index as u32),
            name: format!("c{index}"),
            kind: SqlType::Int64,
            nullable: true,
            default: None,
            missing: None,
            part: None,
        };
        let table = TableDef {
            id: TableId(1),
            schema: SchemaId(1),
            name: "items".into(),
            version: 1,
            columns: (0..columns.len()).map(definition).collect(),
            next_column: ColumnId(columns.len() as u32),
            keyed: None,
            time: None,
            rules: Default::default(),
        };
        let target = |column: &ColumnDef| ColumnTarget {
            id: column.id,
            kind: column.kind.clone(),
            file: Arc::new(
                ColumnFile::new(disk.clone(), memory.clone(), column.name.clone(), Vec::new()).expect("a new file"),
            ),
        };
        let targets: Vec<ColumnTarget> = table.columns.iter().map(target).collect();
        let freed = Arc::new(FreedExtents::default());
        let block = |start: usize| {
            let end = (start + ROWS_PER_BLOCK_MAX).min(columns[0].len());
            let part = |column: &Vec<i64>| Arc::new(Int64Array::from(column[start..end].to_vec())) as ArrayRef;
            let parts = Columns(columns.iter().map(part).collect());
            let owner = BlockOwner { table: table.id, block: BlockId(start as u64) };
            let chunks =
                write_block(owner, &parts, &targets, &freed, 2, &Cancel::new(), &|_, _| Ok(())).expect("memory");
            let numbers = RowNumber(start as u64)..RowNumber(end as u64);
            Arc::new(Block::new(owner.block, numbers, end - start, chunks, None))
        };
        let blocks = (0..columns[0].len()).step_by(ROWS_PER_BLOCK_MAX).map(block).collect();
        Arc::new(Stored { table: Arc::new(table), blocks })
    }

    /// Makes a scan of all columns that accepts filters only if `filters` is set.
    pub(crate) fn scan(self: &Arc<Self>, batch_rows: usize, filters: bool) -> Arc<dyn BatchSource> {
        let request = ScanRequest {
            columns: (0..self.table.columns.len()).collect(),
            predicates: Vec::new(),
            limit: None,
            top: None,
            batch_rows,
            row_numbers: false,
            cancel: Cancel::new(),
        };
        let scan = TableScan::new(Arc::clone(self) as Arc<dyn TableSource>, request).expect("a scan");
        if filters { scan } else { Arc::new(Unfiltered(scan)) }
    }
}

/// A scan that accepts no filters.
#[derive(Debug)]
struct Unfiltered(Arc<TableScan>);

impl BatchSource for Unfiltered {
    fn schema(&self) -> &SchemaRef {
        self.0.schema()
    }

    fn parallelism(&self) -> usize {
        self.0.parallelism()
    }

    fn worker(self: Arc<Self>) -> Batches {
        Arc::clone(&self.0).worker()
    }
}
