//! Writes rows to disk, into buckets by the hash of their keys.
//!
//! A writer gathers rows, and brings them into the order of their buckets when it has enough of them. So each bucket
//! gets a batch per flush, which should be large enough to compress well and to be read with one call. We write columns
//! that the operator does not need as columns of NULLs without a type. They take no bytes, and all other columns keep
//! their positions.

use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use rowmill_base::{Broker, Error, Reservation, Result};
use rowmill_storage::spill::{BatchCodec, SpillWriter, TempSpace};

use super::SpillSizes;
use super::rows::SpilledBatch;
use crate::hash::mix;
use crate::join::{LongKeys, NO_KEY, own_bytes, without_unused_texts};
use crate::partition_order::PartitionOrder;
use crate::share::batch_of;

/// A writer gathers this part of the memory that it may take for a step. A flush needs three times its bytes, and each
/// worker has a writer.
const GATHERED_PART: u64 = 16;
/// The least bytes that a writer gathers, so that a bucket gets some rows at once.
const GATHERED_BYTES_MIN: u64 = 1 << 16;

/// Makes the hash that chooses a bucket differ from the hashes of a join's index. Otherwise all rows of a bucket would
/// be in the same partitions of the index.
const BUCKET_SALT: u64 = 0x243f_6a88_85a3_08d3;

/// The rows that go into buckets, and what chooses the bucket of a row.
#[derive(Debug)]
pub(crate) struct BucketRequest<'a> {
    /// The name of the operator in errors.
    pub(crate) owner: &'static str,
    pub(crate) schema: &'a SchemaRef,
    /// The columns that are given to the writer, as positions in the schema.
    pub(crate) used: &'a [usize],
    /// The keys, as positions in the schema. They must be among the used columns.
    pub(crate) keys: Vec<usize>,
    /// Whether NULL equals NULL in a key. Otherwise a row with a NULL matches nothing and may go into any bucket.
    pub(crate) nulls_equal: bool,
    /// Whether rows that match nothing because of a NULL are needed.
    pub(crate) keeps_keyless: bool,
    /// How often the rows were divided into buckets before.
    pub(crate) depth: u32,
    pub(crate) sizes: SpillSizes,
    /// Whether all rows go into the first bucket, as if all hashes were equal.
    pub(crate) all_equal: bool,
}

/// Writes rows into buckets.
#[derive(Debug)]
pub(crate) struct BucketWriter {
    owner: &'static str,
    schema: SchemaRef,
    codec: BatchCodec,
    used: Vec<usize>,
    keys: Vec<usize>,
    nulls_equal: bool,
    bits: u32,
    /// The lowest bit of the hash that chooses a bucket.
    shift: u32,
    batch_bytes_max: u64,
    all_equal: bool,
    keeps_keyless: bool,
    /// Whether rows of each bucket are needed.
    is_wanted: Vec<bool>,
    /// The bucket of the next row with a NULL. They match nothing, so they can go anywhere.
    next_keyless: usize,
    batches: Vec<RecordBatch>,
    /// The bucket of each gathered row. The number of buckets stands for no bucket.
    buckets: Vec<u32>,
    order: PartitionOrder,
    bytes: u64,
    bytes_max: u64,
    memory: Reservation,
    hashes: Vec<u64>,
    writer: SpillWriter,
    written: BucketRows,
}

/// Rows that were written to disk.
#[derive(Debug)]
pub(crate) struct BucketRows {
    pub(crate) buckets: Vec<Vec<SpilledBatch>>,
    /// All rows, with those that no bucket needs.
    pub(crate) rows: u64,
    /// Whether a row matches nothing because of a NULL in its key.
    pub(crate) has_null: bool,
}

impl BucketRows {
    /// Joins what all workers wrote.
    pub(crate) fn merge(parts: impl IntoIterator<Item = BucketRows>) -> BucketRows {
        let mut parts = parts.into_iter();
        let mut all = parts.next().expect("a phase ends with at least one worker");
        for part in parts {
            all.buckets.iter_mut().zip(part.buckets).for_each(|(all, part)| all.extend(part));
            all.rows += part.rows;
            all.has_null |= part.has_null;
        }
        all
    }
}

impl BucketWriter {
    /// Prepares to write the rows of `request`. `broker` grants the memory.
    pub(crate) fn new(request: BucketRequest<'_>, broker: &Broker, temp: &TempSpace) -> BucketWriter {
        let BucketRequest { owner, used, keys, nulls_equal, keeps_keyless, depth, sizes, all_equal, .. } = request;
        let schema = spilled_schema(request.schema, used);
        let gathered = broker.step_share_bytes() / GATHERED_PART;
        let bits = sizes.bucket_bits;
        BucketWriter {
            owner,
            codec: BatchCodec::new(Arc::clone(&schema)),
            schema,
            used: used.to_vec(),
            keys,
            nulls_equal,
            bits,
            shift: depth * bits,
            batch_bytes_max: sizes.batch_bytes_max,
            all_equal,
            keeps_keyless,
            is_wanted: vec![true; 1 << bits],
            next_keyless: 0,
            batches: Vec::new(),
            buckets: Vec::new(),
            order: PartitionOrder::default(),
            bytes: 0,
            bytes_max: gathered.max(GATHERED_BYTES_MIN).min(sizes.gathered_bytes_max),
            memory: broker.reservation(owner),
            hashes: Vec::new(),
            writer: temp.writer(owner, broker),
            written: BucketRows { buckets: vec![Vec::new(); 1 << bits], rows: 0, has_null: false },
        }
    }

    /// Drops rows from now on if `other` has no rows in their bucket.
    pub(crate) fn drop_rows_of_other_buckets(&mut self, other: &BucketRows) {
        self.is_wanted = other.buckets.iter().map(|batches| !batches.is_empty()).collect();
    }

    /// Adds `rows` rows. `columns` are those that the writer was made for.
    pub(crate) fn add(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let without_values: ArrayRef = Arc::new(NullArray::new(rows));
        let mut all = vec![without_values; self.schema.fields().len()];
        // Until the rows are written, they should not keep the texts of a whole block alive.
        self.used.iter().zip(columns).for_each(|(position, column)| all[*position] = without_unused_texts(&column));
        let batch = batch_of(self.owner, &self.schema, all, rows)?;
        self.choose_buckets(&batch)?;
        self.written.rows += rows as u64;
        self.bytes += bytes_of(&batch) + (rows * size_of::<u32>()) as u64;
        self.memory.recount(self.bytes);
        self.batches.push(batch);
        if self.bytes >= self.bytes_max { self.flush() } else { Ok(()) }
    }

    fn choose_buckets(&mut self, batch: &RecordBatch) -> Result<()> {
        let (rows, count) = (batch.num_rows(), 1_usize << self.bits);
        if self.bits == 0 {
            self.buckets.resize(self.buckets.len() + rows, 0);
            return Ok(());
        }
        let keys: Vec<ArrayRef> = self.keys.iter().map(|key| Arc::clone(batch.column(*key))).collect();
        LongKeys::of(&keys, rows, self.nulls_equal)?.hash(&mut self.hashes);
        let mask = count as u64 - 1;
        for hash in &self.hashes {
            let bucket = match *hash {
                NO_KEY => {
                    self.written.has_null = true;
                    self.next_keyless = (self.next_keyless + 1) % count;
                    if self.keeps_keyless { self.next_keyless } else { count }
                }
                _ if self.all_equal => 0,
                hash => (mix(hash ^ BUCKET_SALT) >> self.shift & mask) as usize,
            };
            let is_wanted = self.is_wanted.get(bucket).is_some_and(|is_wanted| *is_wanted);
            self.buckets.push(if is_wanted { bucket as u32 } else { count as u32 });
        }
        Ok(())
    }

    /// Writes the gathered rows.
    fn flush(&mut self) -> Result<()> {
        let (batches, buckets) = (std::mem::take(&mut self.batches), std::mem::take(&mut self.buckets));
        // The rows are copied twice: into one batch, and in the order of their buckets.
        self.memory.recount(3 * self.bytes);
        let rows = match &batches[..] {
            [] => return Ok(()),
            [only] => only.clone(),
            batches => concat_batches(&self.schema, batches).map_err(failed)?,
        };
        drop(batches);
        if self.bits == 0 {
            self.put(0, &rows)?;
        } else {
            let (count, mut order) = (self.written.buckets.len(), std::mem::take(&mut self.order));
            // Rows without a bucket come last.
            order.sort(&buckets, count + 1);
            for (bucket, places) in order.runs().take(count).enumerate().filter(|(_, places)| !places.is_empty()) {
                self.put(bucket, &taken(self.owner, &rows, places)?)?;
            }
            self.order = order;
        }
        self.bytes = 0;
        self.memory.recount(0);
        Ok(())
    }

    fn put(&mut self, bucket: usize, rows: &RecordBatch) -> Result<()> {
        let (count, bytes) = (rows.num_rows(), bytes_of(rows));
        if bytes > self.batch_bytes_max && count > 1 {
            let half = count / 2;
            self.put(bucket, &rows.slice(0, half))?;
            return self.put(bucket, &rows.slice(half, count - half));
        }
        self.codec.put(rows, &mut self.writer)?;
        let section = self.writer.end_section();
        self.written.buckets[bucket].push(SpilledBatch { section, rows: count, bytes });
        Ok(())
    }

    /// Writes the last rows. From then on, all rows can be read.
    pub(crate) fn finish(mut self) -> Result<BucketRows> {
        self.flush()?;
        self.writer.finish()?;
        Ok(self.written)
    }
}

/// The schema of spilled rows, in which all columns but `used` have no type.
pub(crate) fn spilled_schema(schema: &SchemaRef, used: &[usize]) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(position, field)| {
        let kind = if used.contains(&position) { field.data_type().clone() } else { DataType::Null };
        Field::new(field.name(), kind, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn taken(owner: &'static str, rows: &RecordBatch, places: &[u32]) -> Result<RecordBatch> {
    let indices = UInt32Array::from(places.to_vec());
    let columns = rows.columns().iter().map(|column| take(column, &indices, None).map_err(failed));
    batch_of(owner, rows.schema_ref(), columns.collect::<Result<_>>()?, places.len())
}

fn bytes_of(rows: &RecordBatch) -> u64 {
    rows.columns().iter().map(|column| own_bytes(column) as u64).sum()
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("cannot put rows into buckets of temporary files: {error}"))
}
