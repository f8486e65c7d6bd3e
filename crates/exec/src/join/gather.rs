//! The first step of a join: reading the build side.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use parking_lot::Mutex;
use rowmill_base::{Reservation, Result};

use super::columns::ColumnInParts;
use super::index::Partitioning;
use super::keys::{KeyForm, KeyValueRanges};
use super::spill::{SideWriter, SpilledSide};
use super::{HashJoin, JoinKind, OWNER};
use crate::ordered_join::first_position;

/// The rows of the build side that one worker read.
#[derive(Debug)]
pub(super) struct BuildRows {
    /// By [`super::layout::JoinLayout::gathered`].
    pub(super) columns: Vec<ColumnInParts>,
    /// The number of rows of each batch.
    pub(super) batches: Vec<usize>,
    pub(super) rows: usize,
    pub(super) ranges: KeyValueRanges,
    /// Memory for the index of the rows.
    pub(super) foreseen: Reservation,
    /// The writer that has all rows, if they do not fit into memory.
    pub(super) spilled: Option<SideWriter>,
}

/// The build side after the first step.
#[derive(Debug)]
pub(super) enum GatheredBuild {
    InMemory(BuildBatches),
    OnDisk(SpilledSide),
}

/// The build side, in batches.
#[derive(Debug)]
pub(super) struct BuildBatches {
    pub(super) rows: usize,
    pub(super) batches: Vec<BuildBatch>,
    /// The parts of all workers, by [`super::layout::JoinLayout::gathered`]. The worker that joins a column drops its
    /// parts, unless the column is a key.
    pub(super) columns: Vec<Mutex<Vec<ColumnInParts>>>,
    pub(super) form: KeyForm,
    pub(super) partitioning: Partitioning,
    /// The order in which the batches follow each other, as positions among those of all workers. `None` for the order
    /// in which the workers read them.
    pub(super) order: Option<Vec<usize>>,
    /// Keys for which the probe side accepts filters.
    pub(super) filtered: Vec<usize>,
    /// The next piece of work.
    pub(super) next: AtomicUsize,
}

/// A batch of the build side.
#[derive(Debug)]
pub(super) struct BuildBatch {
    pub(super) first_row: u32,
    pub(super) rows: usize,
    pub(super) keys: Vec<ArrayRef>,
    /// The rows that have a position, if the join is an ordered one and not all of them have one.
    pub(super) has_position: Option<NullBuffer>,
}

impl BuildRows {
    /// The bytes of the rows.
    pub(super) fn held_bytes(&self) -> u64 {
        self.columns.iter().map(ColumnInParts::bytes).sum()
    }
}

impl HashJoin {
    /// Reads batches of the build side until none are left.
    pub(super) fn gather(&self) -> Result<BuildRows> {
        let broker = self.broker();
        let mut read = BuildRows {
            columns: self.layout.gathered.iter().map(|_| ColumnInParts::new(&broker)).collect(),
            batches: Vec::new(),
            rows: 0,
            ranges: KeyValueRanges::new(&self.layout.key_kinds),
            foreseen: broker.reservation(OWNER),
            spilled: None,
        };
        for batch in Arc::clone(&self.build).worker() {
            self.request.cancel.check()?;
            if self.gathering.is_over() {
                break;
            }
            let batch = batch?;
            if batch.num_rows() > 0 {
                self.gather_batch(&batch, &mut read)?;
            }
        }
        // Another worker may have found that memory is short since this worker's last batch.
        if self.is_spilling.load(Ordering::Relaxed) {
            self.spill_gathered(&mut read)?;
        }
        Ok(read)
    }

    fn gather_batch(&self, batch: &RecordBatch, read: &mut BuildRows) -> Result<()> {
        let rows = batch.num_rows();
        let before = self.metrics.build_rows.fetch_add(rows as u64, Ordering::Relaxed);
        if let Some(writer) = &mut read.spilled {
            let columns = self.layout.gathered.iter().map(|column| Arc::clone(batch.column(*column)));
            return writer.add(columns.collect(), rows);
        }
        for (parts, column) in read.columns.iter_mut().zip(&self.layout.gathered) {
            // This accounts for the memory before the batch is kept.
            parts.push(batch.column(*column))?;
        }
        let key = |key: &usize| Arc::clone(batch.column(self.layout.gathered[*key]));
        let keys: Vec<ArrayRef> = self.layout.build_keys.iter().map(key).collect();
        read.ranges.add(&keys)?;
        read.batches.push(rows);
        read.rows += rows;
        // The count is shared by all workers, so the sum of their rows is checked.
        match self.must_spill(read, before + rows as u64) {
            true => self.spill_gathered(read),
            false => Ok(()),
        }
    }

    /// Joins the rows that all workers read.
    pub(super) fn gathered(&self, mut read: Vec<BuildRows>) -> Result<GatheredBuild> {
        if !self.is_spilling.load(Ordering::Relaxed) {
            return Ok(GatheredBuild::InMemory(self.gathered_in_memory(read)?));
        }
        // A worker may have left before another one found that memory is short.
        read.iter_mut().try_for_each(|read| self.spill_gathered(read))?;
        let writers = read.into_iter().filter_map(|read| read.spilled);
        let sides = writers.map(SideWriter::finish).collect::<Result<_>>()?;
        let mut side = SpilledSide::merge(sides);
        self.offer_filters(&mut side);
        Ok(GatheredBuild::OnDisk(side))
    }

    fn gathered_in_memory(&self, read: Vec<BuildRows>) -> Result<BuildBatches> {
        let mut ranges = KeyValueRanges::new(&self.layout.key_kinds);
        read.iter().for_each(|read| ranges.merge(&read.ranges));
        let position = self.layout.ordered.as_ref().map(|ordered| self.layout.stored[ordered.position]);
        let order = position.map(|column| batches_in_order(&read, column)).transpose()?;
        let all: Vec<(&BuildRows, usize)> =
            read.iter().flat_map(|read| (0..read.batches.len()).map(move |number| (read, number))).collect();
        let mut batches = Vec::with_capacity(all.len());
        let mut rows = 0;
        for place in 0..all.len() {
            let (read, number) = all[order.as_ref().map_or(place, |order| order[place])];
            let key = |key: &usize| Arc::clone(&read.columns[*key].parts()[number]);
            let keys = self.layout.build_keys.iter().map(key).collect();
            let positions = position.map(|column| &read.columns[column].parts()[number]);
            let has_position = positions.and_then(|positions| positions.logical_nulls());
            let has_position = has_position.filter(|nulls| nulls.null_count() > 0);
            let batch_rows = read.batches[number];
            batches.push(BuildBatch { first_row: rows as u32, rows: batch_rows, keys, has_position });
            rows += batch_rows;
        }
        let columns: Vec<Mutex<Vec<ColumnInParts>>> = self.layout.gathered.iter().map(|_| Mutex::default()).collect();
        for read in read {
            read.columns.into_iter().zip(&columns).for_each(|(parts, column)| column.lock().push(parts));
        }
        // Only now all values of the build side are known, so the form of the keys can be chosen.
        let form = self.key_form(&ranges);
        Ok(BuildBatches {
            rows,
            batches,
            order,
            columns,
            partitioning: Partitioning::new(rows, form.word_count(), self.hashing),
            form,
            filtered: self.filtered(),
            next: AtomicUsize::new(0),
        })
    }

    /// The form of keys with these ranges.
    pub(super) fn key_form(&self, ranges: &KeyValueRanges) -> KeyForm {
        let (by_columns, is_indexed) = (self.compares_uncertain_keys(), self.request.ordered.is_some());
        KeyForm::new(ranges, self.request.nulls_equal, by_columns, is_indexed)
    }

    /// Whether the probe side may leave out rows that match nothing.
    pub(super) fn may_leave_out(&self) -> bool {
        let kind = self.request.kind;
        // NOT IN must know whether the probe side has NULLs, and whether it has rows at all, so no row may be left out.
        let asks_for_all = kind == JoinKind::BuildAnti && self.request.is_uncertain();
        // A join that returns unmatched probe rows must see all of them.
        !kind.keeps_probe() && !asks_for_all
    }

    /// The keys by which the probe side may leave rows out.
    pub(super) fn filtered(&self) -> Vec<usize> {
        let may_leave_out = self.may_leave_out();
        let keys = self.layout.probe_keys.iter().enumerate();
        let wanted = keys.filter(|(_, column)| may_leave_out && self.probe.accepts(**column));
        wanted.map(|(key, _)| key).collect()
    }
}

/// The batches of all workers in the order of their first positions, which are in `column`. If the rows came in the
/// order of time, they are in this order again, however the workers shared the batches.
fn batches_in_order(read: &[BuildRows], column: usize) -> Result<Vec<usize>> {
    let firsts = read.iter().flat_map(|read| read.columns[column].parts()).map(first_position);
    let firsts = firsts.collect::<Result<Vec<_>>>()?;
    let mut order: Vec<usize> = (0..firsts.len()).collect();
    order.sort_by(|left, right| firsts[*left].cmp(&firsts[*right]));
    Ok(order)
}
