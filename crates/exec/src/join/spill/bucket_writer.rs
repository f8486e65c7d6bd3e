//! Writes rows of one side of a join to disk, into buckets by the hash of their keys.
//!
//! A writer gathers rows, and brings them into the order of their buckets when it has enough of them. So each bucket
//! gets a batch per flush, which should be large enough to compress well and to be read with one call. We write columns
//! that the join does not need as columns of NULLs without a type. They take no bytes, and all other columns keep their
//! positions.

use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use rowmill_base::{Error, Reservation, Result};
use rowmill_storage::spill::{BatchCodec, SpillWriter};

use super::super::columns::{own_bytes, without_unused_texts};
use super::super::long_keys::LongKeys;
use super::super::packing::NO_KEY;
use super::super::{HashJoin, OWNER};
use super::spilled_rows::SpilledBatch;
use crate::hash::mix;
use crate::key_filter::StreamedKeys;
use crate::partition_order::PartitionOrder;
use crate::share::batch_of;

/// A writer gathers this part of the memory that it may take for a step. A flush needs three times its bytes, and each
/// worker has a writer.
const GATHERED_PART: u64 = 16;
/// The least bytes that a writer gathers, so that a bucket gets some rows at once.
const GATHERED_BYTES_MIN: u64 = 1 << 16;

/// Makes the hash that chooses a bucket differ from the hashes of the index. Otherwise all rows of a bucket would be in
/// the same partitions of the index.
const BUCKET_SALT: u64 = 0x243f_6a88_85a3_08d3;

/// Writes rows into buckets.
#[derive(Debug)]
pub(in super::super) struct BucketWriter {
    schema: SchemaRef,
    codec: BatchCodec,
    /// The columns that are given to the writer, as positions in the schema.
    used: Vec<usize>,
    /// The keys, as positions in the schema.
    keys: Vec<usize>,
    nulls_equal: bool,
    bits: u32,
    /// The lowest bit of the hash that chooses a bucket.
    shift: u32,
    batch_bytes_max: u64,
    all_equal: bool,
    /// Whether rows that match nothing because of a NULL are needed.
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
    /// Filters for the other side, with the columns of their keys: in the schema, and on the other side.
    filters: Vec<(usize, usize, StreamedKeys)>,
    writer: SpillWriter,
    written: SpilledSide,
}

/// The rows of one side that were written to disk.
#[derive(Debug)]
pub(in super::super) struct SpilledSide {
    pub(super) buckets: Vec<Vec<SpilledBatch>>,
    /// All rows of the side, with those that no bucket needs.
    pub(super) rows: u64,
    /// Whether a row had a NULL in its key.
    pub(super) has_null: bool,
    /// Filters for the other side, with its columns.
    filters: Vec<(usize, StreamedKeys)>,
}

impl SpilledSide {
    /// Joins what all workers wrote.
    pub(in super::super) fn merge(parts: Vec<SpilledSide>) -> SpilledSide {
        let mut parts = parts.into_iter();
        let mut all = parts.next().expect("a phase ends with at least one worker");
        for part in parts {
            all.buckets.iter_mut().zip(part.buckets).for_each(|(all, part)| all.extend(part));
            all.rows += part.rows;
            all.has_null |= part.has_null;
            all.filters.iter_mut().zip(part.filters).for_each(|((_, all), (_, part))| all.merge(part));
        }
        all
    }

    /// Takes the filters for the other side, with its columns.
    pub(super) fn take_filters(&mut self) -> Vec<(usize, StreamedKeys)> {
        std::mem::take(&mut self.filters)
    }
}

impl BucketWriter {
    /// A writer for rows with the columns `used` of `schema`.
    pub(super) fn new(
        join: &HashJoin,
        schema: &SchemaRef,
        keys: Vec<usize>,
        used: &[usize],
        keeps_keyless: bool,
    ) -> Result<BucketWriter> {
        let (broker, bits) = (join.broker(), join.bucket_bits());
        let schema = spilled_schema(schema, used);
        let gathered = broker.step_share_bytes() / GATHERED_PART;
        Ok(BucketWriter {
            codec: BatchCodec::new(Arc::clone(&schema)),
            schema,
            used: used.to_vec(),
            keys,
            nulls_equal: join.request.nulls_equal,
            bits,
            shift: join.part.depth * join.sizes.bucket_bits,
            batch_bytes_max: join.sizes.batch_bytes_max,
            all_equal: join.hashing.are_equal(),
            keeps_keyless,
            is_wanted: vec![true; 1 << bits],
            next_keyless: 0,
            batches: Vec::new(),
            buckets: Vec::new(),
            order: PartitionOrder::default(),
            bytes: 0,
            bytes_max: gathered.max(GATHERED_BYTES_MIN).min(join.sizes.gathered_bytes_max),
            memory: broker.reservation(OWNER),
            hashes: Vec::new(),
            filters: Vec::new(),
            writer: join.request.temp.writer(OWNER, &broker),
            written: SpilledSide {
                buckets: vec![Vec::new(); 1 << bits],
                rows: 0,
                has_null: false,
                filters: Vec::new(),
            },
        })
    }

    /// Drops rows from now on if `other` has no rows in their bucket.
    pub(super) fn drop_rows_of_other_buckets(&mut self, other: &SpilledSide) {
        self.is_wanted = other.buckets.iter().map(|batches| !batches.is_empty()).collect();
    }

    /// Makes a filter of the keys in column `key` from now on, for column `other` of the other side.
    pub(super) fn filter_by(&mut self, key: usize, other: usize, keys: StreamedKeys) {
        self.filters.push((key, other, keys));
    }

    /// Adds `rows` rows. `columns` are those that the writer was made for.
    pub(in super::super) fn add(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let without_values: ArrayRef = Arc::new(NullArray::new(rows));
        let mut all = vec![without_values; self.schema.fields().len()];
        // Until the rows are written, they should not keep the texts of a whole block alive.
        self.used.iter().zip(columns).for_each(|(position, column)| all[*position] = without_unused_texts(&column));
        let batch = batch_of(OWNER, &self.schema, all, rows)?;
        self.choose_buckets(&batch)?;
        for (key, _, filter) in &mut self.filters {
            filter.add(batch.column(*key))?;
        }
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
                self.put(bucket, &taken(&self.schema, &rows, places)?)?;
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
    pub(in super::super) fn finish(mut self) -> Result<SpilledSide> {
        self.flush()?;
        self.writer.finish()?;
        self.written.filters = self.filters.into_iter().map(|(_, other, filter)| (other, filter)).collect();
        Ok(self.written)
    }
}

/// The schema of spilled rows, in which all columns but `used` have no type.
pub(super) fn spilled_schema(schema: &SchemaRef, used: &[usize]) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(position, field)| {
        let kind = if used.contains(&position) { field.data_type().clone() } else { DataType::Null };
        Field::new(field.name(), kind, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn taken(schema: &SchemaRef, rows: &RecordBatch, places: &[u32]) -> Result<RecordBatch> {
    let indices = UInt32Array::from(places.to_vec());
    let columns = rows.columns().iter().map(|column| take(column, &indices, None).map_err(failed));
    batch_of(OWNER, schema, columns.collect::<Result<_>>()?, places.len())
}

fn bytes_of(rows: &RecordBatch) -> u64 {
    rows.columns().iter().map(|column| own_bytes(column) as u64).sum()
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("the rows of a join for its temporary files: {error}"))
}
