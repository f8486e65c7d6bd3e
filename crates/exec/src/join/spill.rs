//! Joins whose build side does not fit into memory.
//!
//! ```text
//! gather    memory is short: the build rows so far and all others go to disk, into buckets by the hash of their keys
//! scatter   all probe rows go to disk too, into buckets by the same hash                              side_writer.rs
//! stages    buckets are joined in turn, each by a join of its own that all workers share                   stages.rs
//! ```
//!
//! Rows with equal keys are in the same bucket, so the joins of all buckets together give the result. A stage joins
//! some buckets that fit into memory together. A bucket that does not fit is joined by a join that spills again, with
//! other bits of the hash. If that would not divide it, for example because most of its rows have one key, we join its
//! build rows in pieces: each piece is joined with all probe rows of the bucket, and we note which probe rows had a
//! match, so that later pieces know (match_notes.rs).
//!
//! Some joins compare rows with different keys, for example joins without keys, and `NOT IN` over several columns. They
//! have a single bucket, which we join in pieces.
//!
//! A join should spill as late as possible: as long as memory suffices, the only difference is that we ask for the
//! memory of the index while the build rows are gathered.

mod match_notes;
mod side_writer;
mod stages;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rowmill_base::{Broker, Result, SpillableMemory};

pub(super) use self::match_notes::PieceNotes;
pub(super) use self::side_writer::{SideWriter, SpilledSide};
pub(super) use self::stages::{StageShare, Stages};
use super::gather::BuildRows;
use super::index::{Partitioning, ROWS_MAX};
use super::keys::KeyForm;
use super::{HashJoin, JoinKind, OWNER};
use crate::key_filter::StreamedKeys;
use crate::spill_buckets::{BucketRequest, BucketWriter, SpillSizes};

/// The part of a larger join that a join computes. The default is a whole join.
#[derive(Clone, Debug, Default)]
pub(super) struct JoinPart {
    /// How often the rows were divided into buckets.
    depth: u32,
    /// Whether the build side fits into memory by its planned size, so that it must not be spilled again.
    stays_in_memory: bool,
    /// Facts about all rows of the larger join.
    pub(super) whole: Option<WholeJoin>,
    /// Notes on the probe rows, if the build side is a piece.
    pub(super) notes: Option<PieceNotes>,
}

/// Facts about all rows of a join that was spilled. Its build side has rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeJoin {
    pub(super) build_has_null: bool,
    pub(super) probe_has_rows: bool,
    pub(super) probe_has_null: bool,
}

/// One of the inputs of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinSide {
    Build,
    Probe,
}

/// A worker makes a filter for the probe side in this part of the memory that it may take for a step.
const FILTER_PART: u64 = 16;
/// The most bytes of a filter. One of more bytes would not fit any cache.
const FILTER_BYTES_MAX: u64 = 24 << 20;

/// The bytes that a row of the build side needs while it is put into a partition of the index.
const SCATTERED_ROW_BYTES: u64 = 24;
/// The bytes that a row needs in a hash table of the index: two slots and a place in a list.
const HASHED_ROW_BYTES: u64 = 36;
/// The bytes that a row needs in a direct or ranked table.
const DIRECT_ROW_BYTES: u64 = 20;
/// The bytes that a row needs in an ordered join: its number and its position in order, and its position by row.
const ORDERED_ROW_BYTES: u64 = 40;
/// The bytes that a row needs for an aggregate of an ordered join: a running count and a running total.
const AGGREGATE_ROW_BYTES: u64 = 24;
/// The bytes of a column of a long key, which exists twice while the keys of all batches are joined.
const LONG_COLUMN_BYTES: u64 = 2 * size_of::<u128>() as u64;

/// The bytes that `rows` build rows need for their index, and for copies of their `bytes` bytes while it is made.
fn index_bytes(rows: u64, bytes: u64, is_hashed: bool, long_columns: usize) -> u64 {
    let table = if is_hashed { HASHED_ROW_BYTES } else { DIRECT_ROW_BYTES };
    // The columns are copied one after the other, and each original is freed after its copy.
    bytes / 2 + rows * (SCATTERED_ROW_BYTES + table + long_columns as u64 * LONG_COLUMN_BYTES)
}

impl HashJoin {
    /// The memory of the build side. It is registered as memory that can be spilled from the first call on, until the
    /// join lets go of it.
    pub(super) fn memory(&self) -> Arc<SpillableMemory> {
        Arc::clone(self.memory.lock().get_or_insert_with(|| Arc::new(self.request.broker.spillable())))
    }

    /// Grants the memory of the build side.
    pub(super) fn broker(&self) -> Broker {
        self.memory().broker().clone()
    }

    /// The bits of a hash that choose a bucket.
    fn bucket_bits(&self) -> u32 {
        // We may compare rows whose keys differ, so they must meet.
        if self.request.on.is_empty() || self.compares_uncertain_keys() { 0 } else { self.sizes.bucket_bits }
    }

    /// Whether the build side must be written to disk, after a worker has added rows to `read`. Once this is true, it
    /// is true for all workers.
    pub(super) fn must_spill(&self, read: &mut BuildRows, rows_of_all: u64) -> bool {
        if self.part.stays_in_memory {
            return false;
        }
        if self.is_spilling.load(Ordering::Relaxed) {
            return true;
        }
        // The memory for the index is taken now. Otherwise we would find out too late that it does not fit.
        let form = self.key_form(&read.ranges);
        let foreseen = match &form {
            KeyForm::Every => read.held_bytes() / 2,
            form => {
                let table = Partitioning::new(read.rows, form.word_count(), self.hashing);
                let long = if matches!(form, KeyForm::Long { .. }) { self.request.on.len() } else { 0 };
                index_bytes(read.rows as u64, read.held_bytes(), table.is_hashed(), long)
            }
        };
        read.foreseen.recount(foreseen + self.ordered_bytes(read.rows as u64, read.held_bytes()));
        // An index cannot have more rows either.
        let must = rows_of_all > ROWS_MAX as u64 || self.memory().must_spill();
        if must {
            self.is_spilling.store(true, Ordering::Relaxed);
        }
        must
    }

    /// The bytes that an ordered join needs to bring `rows` rows of `bytes` bytes into order.
    pub(super) fn ordered_bytes(&self, rows: u64, bytes: u64) -> u64 {
        let Some(ordered) = &self.request.ordered else { return 0 };
        // Rows and positions by place, and the positions by row. Columns that aggregates read exist twice.
        let aggregates = ordered.aggregate_kinds().count() as u64;
        let columns = if aggregates > 0 { bytes } else { 0 };
        columns + rows * (ORDERED_ROW_BYTES + aggregates * AGGREGATE_ROW_BYTES)
    }

    /// A writer of rows of one side.
    pub(super) fn side_writer(&self, side: JoinSide) -> Result<SideWriter> {
        let (source, keys, used) = match side {
            JoinSide::Build => (&self.build, self.layout.build_key_columns(), &self.layout.gathered),
            JoinSide::Probe => (&self.probe, self.layout.probe_keys.clone(), &self.layout.probe_used),
        };
        let (broker, bucket_bits) = (self.broker(), self.bucket_bits());
        let rows = BucketRequest {
            owner: OWNER,
            schema: source.schema(),
            used,
            keys,
            nulls_equal: self.request.nulls_equal,
            keeps_keyless: self.keeps_without_match(side),
            depth: self.part.depth,
            sizes: SpillSizes { bucket_bits, ..self.sizes },
            all_equal: self.hashing.are_equal(),
        };
        let mut writer = SideWriter::new(BucketWriter::new(rows, &broker, &self.request.temp));
        if side == JoinSide::Build {
            let bytes = (broker.step_share_bytes() / FILTER_PART).min(FILTER_BYTES_MAX);
            for key in self.filtered() {
                let keys = StreamedKeys::new(&self.layout.key_kinds[key], bytes, broker.reservation(OWNER))?;
                writer.filter_by(self.layout.build_keys[key], self.layout.probe_keys[key], keys);
            }
        }
        Ok(writer)
    }

    /// Offers filters of all build keys to the probe side, so that it leaves out rows before they are written.
    pub(super) fn offer_filters(&self, build: &mut SpilledSide) {
        for (column, keys) in build.take_filters() {
            let filter = keys.finish(self.request.nulls_equal, Arc::clone(&self.metrics.filters));
            self.probe.offer(column, &Arc::new(filter));
        }
    }

    /// Whether rows of a side are in the result even if nothing matches them.
    fn keeps_without_match(&self, side: JoinSide) -> bool {
        match side {
            JoinSide::Build => self.request.kind.marks_build() && self.request.kind != JoinKind::BuildSemi,
            JoinSide::Probe => self.request.kind.keeps_probe(),
        }
    }

    /// Writes all rows that a worker has gathered to disk, if that did not happen yet.
    pub(super) fn spill_gathered(&self, read: &mut BuildRows) -> Result<()> {
        if read.spilled.is_some() {
            return Ok(());
        }
        let mut writer = self.side_writer(JoinSide::Build)?;
        let mut parts: Vec<_> = read.columns.drain(..).map(super::columns::ColumnInParts::into_parts).collect();
        let mut columns: Vec<_> = parts.iter_mut().map(|(parts, _)| std::mem::take(parts).into_iter()).collect();
        read.foreseen.recount(0);
        for rows in std::mem::take(&mut read.batches) {
            self.request.cancel.check()?;
            // Each array is freed as soon as it is written.
            let next = columns.iter_mut().map(|parts| parts.next().expect("each column has a part per batch"));
            let next: Vec<_> = next.collect();
            writer.add(next, rows)?;
        }
        read.spilled = Some(writer);
        Ok(())
    }

    /// Writes the probe side to disk, together with other workers, and plans the stages. `None` if another worker
    /// failed or the join is done.
    pub(super) fn scattered(&self, build: &SpilledSide) -> Result<Option<Arc<Stages>>> {
        let work = || self.scatter_probe(build);
        let make = |parts: Vec<SpilledSide>| {
            let probe = SpilledSide::merge(parts);
            self.plan_stages(build, &probe)
        };
        let stages = self.scattering.run(&self.request.cancel, work, make)?;
        // The stages have joins of their own, which account for their memory.
        self.gathering.end();
        self.memory.lock().take();
        Ok(stages)
    }

    fn scatter_probe(&self, build: &SpilledSide) -> Result<SpilledSide> {
        let mut writer = self.side_writer(JoinSide::Probe)?;
        if !self.request.kind.keeps_probe() {
            writer.drop_rows_of_other_buckets(build);
        }
        for batch in Arc::clone(&self.probe).worker() {
            self.request.cancel.check()?;
            if self.scattering.is_over() {
                break;
            }
            let batch = batch?;
            super::metrics::add(&self.metrics.probe_rows, batch.num_rows());
            let used = self.layout.probe_used.iter().map(|column| Arc::clone(batch.column(*column)));
            writer.add(used.collect(), batch.num_rows())?;
        }
        writer.finish()
    }
}
