//! A stored table with columns of different shapes, and batches of its rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::*;
use arrow::datatypes::{Field, Schema, SchemaRef};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{BlockId, Broker, Cancel, ColumnId, Result, RowNumber, SchemaId, SqlType, TableId};
use rowmill_exec::batch::{BatchSource, Batches};
use rowmill_io::{Disk, MemoryDisk};
use rowmill_storage::{
    Block, BlockOwner, BlockSource, ColumnDef, ColumnFile, ColumnTarget, FreedExtents, OpenRun, TableDef, TableSource,
    write_block,
};

/// The most rows of a batch.
pub(crate) const BATCH_ROWS: usize = 8_192;

/// The columns of the table, by their positions.
pub(crate) mod column {
    /// 20 values, stored as packed codes.
    pub(crate) const FEW: usize = 0;
    /// 100,000 values of 4 bytes.
    pub(crate) const SMALL: usize = 1;
    /// 100,000 values of 8 bytes, far from each other.
    pub(crate) const WIDE: usize = 2;
    /// 100,000 UUIDs.
    pub(crate) const UUID: usize = 3;
    /// 100,000 texts.
    pub(crate) const TEXT: usize = 4;
    /// A different number for nearly every row.
    pub(crate) const UNIQUE: usize = 5;
}

/// The types of the columns.
pub(crate) const KINDS: [SqlType; 6] =
    [SqlType::Int16, SqlType::Int32, SqlType::Int64, SqlType::Uuid, SqlType::TEXT, SqlType::Int64];

/// A table of one block.
#[derive(Debug)]
pub(crate) struct Table {
    definition: Arc<TableDef>,
    blocks: Vec<Arc<Block>>,
    values: Vec<ArrayRef>,
}

impl TableSource for Table {
    fn table(&self) -> &Arc<TableDef> {
        &self.definition
    }

    fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    fn runs(&self) -> &[Arc<OpenRun>] {
        &[]
    }
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

fn values(rows: usize) -> Vec<ArrayRef> {
    const VALUES: u64 = 100_000;
    let rng = &mut SmallRng::seed_from_u64(9);
    let picks: Vec<u64> = (0..rows).map(|_| rng.random_range(0..VALUES)).collect();
    let spread = |pick: &u64| pick.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let few: Int16Array = (0..rows).map(|_| Some(rng.random_range(0..20))).collect();
    let small: Int32Array = picks.iter().map(|pick| Some(*pick as i32)).collect();
    let wide: Int64Array = picks.iter().map(|pick| Some(spread(pick) as i64)).collect();
    let uuids = picks.iter().map(|pick| (u128::from(spread(pick)) << 64 | u128::from(*pick)).to_be_bytes());
    let texts: StringViewArray =
        picks.iter().map(|pick| Some(format!("http://example.com/section/{}/{pick}", pick % 50))).collect();
    let unique: Int64Array = (0..rows).map(|_| Some(rng.random_range(0..1 << 40))).collect();
    vec![
        Arc::new(few),
        Arc::new(small),
        Arc::new(wide),
        Arc::new(FixedSizeBinaryArray::try_from_iter(uuids).unwrap()),
        Arc::new(texts),
        Arc::new(unique),
    ]
}

impl Table {
    /// Makes a table of `rows` rows, which must fit one block.
    pub(crate) fn new(rows: usize) -> Arc<Table> {
        let (disk, memory): (Arc<dyn Disk>, _) = (Arc::new(MemoryDisk::new()), Broker::new(1 << 40));
        let columns = KINDS.iter().zip(0..).map(|(kind, id)| ColumnDef {
            id: ColumnId(id),
            name: format!("c{id}"),
            kind: kind.clone(),
            nullable: false,
            default: None,
            missing: None,
            part: None,
        });
        let definition = TableDef {
            id: TableId(1),
            schema: SchemaId(0),
            name: "t".to_owned(),
            version: 1,
            columns: columns.collect(),
            next_column: ColumnId(KINDS.len() as u32),
            keyed: None,
            time: None,
            rules: Default::default(),
        };
        let target = |column: &ColumnDef| ColumnTarget {
            id: column.id,
            kind: column.kind.clone(),
            file: Arc::new(
                ColumnFile::new(Arc::clone(&disk), memory.clone(), column.name.clone(), Vec::new()).unwrap(),
            ),
        };
        let targets: Vec<ColumnTarget> = definition.columns.iter().map(target).collect();
        let values = values(rows);
        let freed = Arc::new(FreedExtents::default());
        let owner = BlockOwner { table: definition.id, block: BlockId(1) };
        let chunks =
            write_block(owner, &Columns(&values), &targets, &freed, 1, &Cancel::new(), &|_, _| Ok(())).unwrap();
        let block = Block::new(owner.block, RowNumber(0)..RowNumber(rows as u64), rows, chunks, None);
        Arc::new(Table { definition: Arc::new(definition), blocks: vec![Arc::new(block)], values })
    }

    /// Returns some of the columns as batches in memory.
    pub(crate) fn batches(&self, columns: &[usize]) -> Memory {
        let fields: Vec<Field> =
            columns.iter().map(|column| Field::new(format!("c{column}"), KINDS[*column].arrow(), false)).collect();
        let schema = Arc::new(Schema::new(fields));
        let arrays = columns.iter().map(|column| Arc::clone(&self.values[*column])).collect();
        let whole = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
        let batch = |start: usize| whole.slice(start, BATCH_ROWS.min(whole.num_rows() - start));
        let batches = (0..whole.num_rows()).step_by(BATCH_ROWS).map(batch).collect();
        Memory { schema, batches, next: AtomicUsize::new(0) }
    }
}

/// Batches that can be read any number of times.
#[derive(Debug)]
pub(crate) struct Memory {
    schema: SchemaRef,
    batches: Arc<[RecordBatch]>,
    next: AtomicUsize,
}

impl Memory {
    /// Makes a source of the first `batches` batches.
    pub(crate) fn first(&self, batches: usize) -> Arc<Memory> {
        let batches = self.batches[..batches.min(self.batches.len())].into();
        Arc::new(Memory { schema: Arc::clone(&self.schema), batches, next: AtomicUsize::new(0) })
    }

    /// Makes a source of all batches.
    pub(crate) fn all(&self) -> Arc<Memory> {
        self.first(usize::MAX)
    }
}

impl BatchSource for Memory {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn parallelism(&self) -> usize {
        self.batches.len()
    }

    fn worker(self: Arc<Self>) -> Batches {
        Box::new(std::iter::from_fn(move || {
            self.batches.get(self.next.fetch_add(1, Ordering::Relaxed)).cloned().map(Ok)
        }))
    }
}

/// Reads an operator with one worker. Returns the number of rows.
pub(crate) fn drain(source: Arc<dyn BatchSource>) -> usize {
    source.worker().map(|batch| batch.unwrap().num_rows()).sum()
}
