//! The work of one worker on the rows that it takes: finds their groups, adds the rows to them, and puts the groups
//! into partitions.
//!
//! ```text
//!   a block      groups by codes ── few ──┐                    ┌── when full, and at the end ──┐
//!                       │                 ├── table of groups ─┤                               ├── partitions
//!   batches with texts ─┤                 │                    │                               │
//!   a batch ────────────┼── rows ─────────┘                    └── alike rows are rare ────────┤
//!                       ├── many, or one per row ──────────────────────────────────────────────┘
//!                       └── many, of the only block ── complete groups (complete.rs)
//! ```
//!
//! The table is small enough for a cache, so rows of few groups never leave it, and rows with sorted keys are grouped
//! as they come. If hardly any two rows share a group, the worker bypasses the table for a while.

use std::mem::size_of;
use std::ops::Range;

use rowmill_base::{Broker, Reservation, Result, SpillableMemory};
use rowmill_storage::spill::TempSpace;

use super::OWNER;
use super::complete::CompleteGroups;
use super::key_values::KeyValues;
use super::layout::GroupLayout;
use super::local::{self, LocalGroups};

use super::partition::{Homes, Partition, Partitions};
use super::rows::{PartRows, PartValues};
use super::spilled::{GroupSpiller, SpilledPiece};
use super::state::{Beside, Grouped, Groups, Inputs, States};
use super::table::GroupTable;
use super::texts::TextStore;
use crate::cache::{L2_BYTES, ROWS_PARTITIONED_AT_ONCE};
use crate::forced::{GroupWay, forced};
use crate::scan::FRAME_ROWS_MAX;

/// Says when the table is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Groups of a full table.
    pub(super) groups_max: usize,
    /// Rows per group from which the table is worth its time.
    pub(super) rows_per_group_min: usize,
    /// Rows that bypass the table once the rows per group fall below that.
    pub(super) rows_past_table: usize,
    /// Least number of rows of a slice of a block. Slices of a frame take no longer than shorter ones; with twice and
    /// four times as many rows, groups of TPC-H's customers and sums of its orders take 0.4 and 3.0 ms instead of 0.2
    /// and 2.1, because workers wait.
    pub(super) slice_rows_min: usize,
    /// Bytes of a range of values whose groups are found separately; `None` if ranges are not grouped.
    pub(super) range_bytes: Option<usize>,
}

impl Policy {
    /// The rows that are added need the other half.
    const TABLE_BYTES_MAX: usize = L2_BYTES / 2;

    /// A range is a little larger than the cache. With half of it, the search for the borders of ranges takes longer
    /// than the nearer cache saves. With a quarter of this and with eight times as much, ClickBench's Q6 takes 62 and
    /// 106 ms instead of 49.
    const RANGE_BYTES: usize = 2 * L2_BYTES;

    /// Small enough that tests with little data have several ranges.
    const RANGE_BYTES_FORCED: usize = 1 << 7;

    /// Words of a log above which it goes into partitions, together with the groups of the table. They take eight times
    /// the second-level cache. With a quarter, half, double and four times as many, distinct counts by region and
    /// system take 355, 336, 390 and 389 ms instead of 310, and medians by region as long as with this.
    const LOG_WORDS_MAX: usize = 8 * L2_BYTES / size_of::<u64>();

    pub(super) fn new(layout: &GroupLayout) -> Policy {
        let bytes_per_group = (layout.stride + 1) * size_of::<u64>();
        let (groups_max, rows_per_group_min, range_bytes) = match forced().group {
            None => (Policy::TABLE_BYTES_MAX / bytes_per_group, 2, Some(Policy::RANGE_BYTES)),
            Some(GroupWay::Table) => (usize::MAX, 0, None),
            Some(GroupWay::SmallTable) => (4, 0, Some(Policy::RANGE_BYTES_FORCED)),
            Some(GroupWay::PastTable) => (0, 2, None),
        };
        let slice_rows_min = if forced().group.is_some() { 1 } else { FRAME_ROWS_MAX };
        Policy { groups_max, rows_per_group_min, rows_past_table: 1 << 20, slice_rows_min, range_bytes }
    }
}

/// How keys and aggregates are gathered; all workers share it.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) layout: GroupLayout,
    pub(super) states: States,
    pub(super) partitions: usize,
    pub(super) policy: Policy,
    /// The number of groups after which a worker may stop; `None` if it must find all groups.
    pub(super) enough: Option<usize>,
}

/// The result of one worker.
#[derive(Debug)]
pub(super) struct WorkerGroups {
    pub(super) partitions: Vec<Partition>,
    pub(super) texts: TextStore,
    pub(super) memory: Reservation,
    /// The groups on disk, by partition; `None` if all are in memory.
    pub(super) spilled: Option<Vec<Vec<SpilledPiece>>>,
    /// The groups of the only part. There are no others then.
    pub(super) complete: Option<CompleteGroups>,
}

impl WorkerGroups {
    /// Writes the groups that are still in memory to disk.
    pub(super) fn spill(&mut self, recipe: &Recipe, broker: &Broker, temp: &TempSpace) -> Result<()> {
        let mut spiller = GroupSpiller::new(recipe.partitions, temp, broker);
        spiller.write(recipe, &self.partitions, &self.texts)?;
        self.partitions.clear();
        self.texts = TextStore::new(broker.reservation(OWNER));
        self.memory.recount(0);
        self.spilled = Some(spiller.finish()?);
        Ok(())
    }
}

/// A worker's groups while it gathers.
pub(super) struct Gatherer<'a> {
    recipe: &'a Recipe,
    table: GroupTable,
    /// Rows in the table.
    rows_taken: usize,
    /// Rows that should still bypass the table.
    rows_past_table: usize,
    beside: Beside,
    partitions: Partitions,
    homes: Homes,
    /// The row of a group that has taken no value.
    empty: Vec<u64>,
    chunk: Vec<u64>,
    numbers: Vec<u32>,
    memory: Reservation,
    /// Everything above. `None` if it must stay in memory.
    held: Option<SpillableMemory>,
    /// Grants all of it.
    broker: Broker,
    temp: &'a TempSpace,
    spiller: Option<GroupSpiller>,
    /// Whether the next rows are all rows of the grouping.
    has_only_part: bool,
    complete: Option<CompleteGroups>,
}

impl<'a> Gatherer<'a> {
    pub(super) fn new(recipe: &'a Recipe, broker: &Broker, temp: &'a TempSpace) -> Gatherer<'a> {
        // A worker that may stop after some groups holds only these. The only group of a grouping without keys must be
        // merged in memory, so writing its parts to disk would only delay the refusal.
        let can_spill = recipe.enough.is_none() && !recipe.layout.columns.is_empty();
        let held = can_spill.then(|| broker.spillable());
        let broker = held.as_ref().map_or(broker, SpillableMemory::broker).clone();
        let mut empty = vec![0; recipe.layout.key_words];
        empty.extend_from_slice(recipe.states.initial());
        Gatherer {
            recipe,
            table: GroupTable::new(broker.reservation(OWNER)),
            rows_taken: 0,
            rows_past_table: 0,
            beside: Beside::new(&recipe.states, || broker.reservation(OWNER)),
            partitions: Partitions::new(recipe.partitions, recipe.states.logs().len(), broker.reservation(OWNER)),
            homes: Homes::new(),
            empty,
            chunk: Vec::new(),
            numbers: Vec::new(),
            memory: broker.reservation(OWNER),
            held,
            broker,
            temp,
            spiller: None,
            has_only_part: false,
            complete: None,
        }
    }

    /// Tells the gatherer that no rows but the next ones will be added, by no worker.
    pub(super) fn expect_only_part(&mut self) {
        self.has_only_part = true;
    }

    /// Adds rows to their groups.
    pub(super) fn add(&mut self, rows: &PartRows<'_>) -> Result<()> {
        if rows.len() == 0 {
            return Ok(());
        }
        if self.must_spill() {
            self.spill()?;
        }
        let Recipe { layout, states, .. } = self.recipe;
        let all = 0..states.parts();
        if layout.columns.is_empty() {
            return self.add_to_one(rows, all);
        }
        let keys: Vec<PartValues> = layout.columns.iter().map(|key| rows.key(key.expr)).collect::<Result<_>>()?;
        if !rows.has_codes() || self.recipe.enough.is_some() {
            return self.add_by_rows(rows, &keys, &states.inputs(rows, all)?);
        }
        let few_groups_max = self.recipe.policy.groups_max / 2;
        if self.has_only_part && CompleteGroups::are_possible(self.recipe, &keys) {
            let local = local::group_all(&keys, rows.len())?;
            // Few groups are added faster through the table.
            return match local.first_rows.len() > few_groups_max {
                true => {
                    self.complete = Some(CompleteGroups::of(self.recipe, &local, &keys, rows, &self.broker)?);
                    Ok(())
                }
                false => self.add_groups(local, &keys, rows),
            };
        }
        match local::group(&keys, rows.len())? {
            None => {
                let inputs = states.inputs(rows, all)?;
                let mut keys = KeyValues::new(layout, &keys, rows.len())?;
                keys.adopt(0..rows.len(), &mut self.beside.texts)?;
                self.put_rows(0..rows.len(), &keys, &inputs, rows.weights())
            }
            // A block with few groups goes through the table, which joins them with those of earlier blocks. Many
            // groups would only flush the table, so we put them into partitions at once.
            Some(local) if local.first_rows.len() <= few_groups_max => self.add_groups(local, &keys, rows),
            Some(local) => {
                let keys = KeyValues::new(layout, &keys, local.first_rows.len())?;
                self.put_groups(&local, keys, &states.inputs(rows, all)?, rows)
            }
        }
    }

    /// Groups rows that no other worker shares groups with, and returns the groups.
    pub(super) fn group(mut self, rows: &PartRows<'_>) -> Result<(GroupTable, TextStore)> {
        let Recipe { layout, states, .. } = self.recipe;
        let inputs = states.inputs(rows, 0..states.parts())?;
        let keys: Vec<PartValues> = layout.columns.iter().map(|key| rows.values(key.expr)).collect::<Result<_>>()?;
        let mut keys = KeyValues::new(layout, &keys, rows.len())?;
        keys.adopt(0..rows.len(), &mut self.beside.texts)?;
        self.table.make_room(layout, rows.len())?;
        let mut groups = Vec::with_capacity(rows.len());
        for start in (0..rows.len()).step_by(ROWS_PARTITIONED_AT_ONCE) {
            let range = start..(start + ROWS_PARTITIONED_AT_ONCE).min(rows.len());
            self.fill_chunk(range.len(), |chunk| keys.write(range, chunk))?;
            self.table.find(layout, &self.chunk, &keys, &mut self.beside.texts, &mut groups)?;
        }
        self.add_to_table(0..rows.len(), &groups, &inputs, rows.weights())?;
        Ok((self.table, self.beside.texts))
    }

    /// Adds groups without rows. `keys` has the values of the layout's columns.
    pub(super) fn add_empty(&mut self, keys: &[PartValues], groups: usize) -> Result<()> {
        let layout = &self.recipe.layout;
        let keys = KeyValues::new(layout, keys, groups)?;
        self.fill_chunk(groups, |chunk| keys.write(0..groups, chunk))?;
        keys.settle(&mut self.chunk, &mut self.beside.texts)?;
        self.partitions.scatter(layout, &self.chunk, None)
    }

    /// Adds rows to some parts of the only group of a grouping without keys.
    pub(super) fn add_to_one(&mut self, rows: &PartRows<'_>, parts: impl Iterator<Item = usize> + Clone) -> Result<()> {
        let Recipe { layout, states, .. } = self.recipe;
        self.flush_if_full()?;
        // After a flush the only group must be made again, so that the merge can join it.
        if self.table.len() == 0 {
            let keys = KeyValues::new(layout, &[], 1)?;
            self.table.find(layout, &self.empty, &keys, &mut self.beside.texts, &mut self.numbers)?;
        }
        let mut groups = Groups { words: self.table.rows_mut(), stride: layout.stride, at: layout.key_words };
        states.add_parts(parts, rows, None, &mut groups, &mut self.beside)
    }

    /// Adds rows one by one, to the table or, if it does not pay, directly to partitions.
    fn add_by_rows(&mut self, rows: &PartRows<'_>, keys: &[PartValues], inputs: &Inputs<'_>) -> Result<()> {
        let layout = &self.recipe.layout;
        let mut keys = KeyValues::new(layout, keys, rows.len())?;
        let mut adopted = false;
        for start in (0..rows.len()).step_by(ROWS_PARTITIONED_AT_ONCE) {
            let range = start..(start + ROWS_PARTITIONED_AT_ONCE).min(rows.len());
            if self.has_enough() {
                break;
            }
            self.flush_if_full()?;
            if self.rows_past_table == 0 && self.recipe.policy.groups_max > 0 || self.recipe.enough.is_some() {
                self.fill_chunk(range.len(), |chunk| keys.write(range.clone(), chunk))?;
                self.numbers.clear();
                self.table.find(layout, &self.chunk, &keys, &mut self.beside.texts, &mut self.numbers)?;
                self.rows_taken += range.len();
                let numbers = std::mem::take(&mut self.numbers);
                let added = self.add_to_table(range, &numbers, inputs, rows.weights());
                self.numbers = numbers;
                added?;
                continue;
            }
            // We adopt buffers only when rows first bypass the table, because the table copies its few texts.
            if !adopted {
                keys.adopt(start..rows.len(), &mut self.beside.texts)?;
                adopted = true;
            }
            self.rows_past_table = self.rows_past_table.saturating_sub(range.len());
            self.put_rows(range, &keys, inputs, rows.weights())?;
        }
        Ok(())
    }

    /// Adds all rows of a block, whose groups within the block are known.
    fn add_groups(&mut self, local: LocalGroups, keys: &[PartValues], rows: &PartRows<'_>) -> Result<()> {
        let Recipe { layout, states, .. } = self.recipe;
        let keys = KeyValues::new(layout, keys, local.first_rows.len())?;
        let LocalGroups { groups, first_rows } = local;
        self.flush_if_full()?;
        self.numbers.clear();
        for first_rows in first_rows.chunks(ROWS_PARTITIONED_AT_ONCE) {
            let places = first_rows.iter().map(|row| *row as usize);
            self.fill_chunk(first_rows.len(), |chunk| keys.write(places, chunk))?;
            self.table.find(layout, &self.chunk, &keys, &mut self.beside.texts, &mut self.numbers)?;
        }
        // Alike rows within a block say nothing about rows of several blocks, so only the block's groups count.
        self.rows_taken += first_rows.len() * self.recipe.policy.rows_per_group_min;
        let mut table = Groups { words: self.table.rows_mut(), stride: layout.stride, at: layout.key_words };
        states.add_rows(rows, || groups, &self.numbers, &mut table, &mut self.beside)
    }

    fn add_to_table(
        &mut self,
        rows: Range<usize>,
        groups: &[u32],
        inputs: &Inputs<'_>,
        weights: Option<&[u64]>,
    ) -> Result<()> {
        let Recipe { layout, states, .. } = self.recipe;
        let grouped = Grouped { rows, groups: Some(groups), weights };
        let mut groups = Groups { words: self.table.rows_mut(), stride: layout.stride, at: layout.key_words };
        states.add(0..states.parts(), inputs, &grouped, &mut groups, &mut self.beside)
    }

    /// Puts the groups of a block into partitions.
    fn put_groups(
        &mut self,
        local: &LocalGroups,
        mut keys: KeyValues<'_>,
        inputs: &Inputs<'_>,
        rows: &PartRows<'_>,
    ) -> Result<()> {
        self.flush_logged()?;
        let Recipe { layout, states, .. } = self.recipe;
        let stride = layout.stride;
        keys.adopt(local.first_rows.iter().map(|row| *row as usize), &mut self.beside.texts)?;
        let mut words = std::mem::take(&mut self.chunk);
        self.fill(&mut words, local.first_rows.len())?;
        let grouped = Grouped { rows: 0..rows.len(), groups: Some(&local.groups), weights: rows.weights() };
        let mut groups = Groups { words: &mut words, stride, at: layout.key_words };
        states.add(0..states.parts(), inputs, &grouped, &mut groups, &mut self.beside)?;
        for (words, first_rows) in
            words.chunks_mut(ROWS_PARTITIONED_AT_ONCE * stride).zip(local.first_rows.chunks(ROWS_PARTITIONED_AT_ONCE))
        {
            keys.write(first_rows.iter().map(|row| *row as usize), words);
            keys.settle(words, &mut self.beside.texts)?;
            let homes = (!self.beside.logs.is_empty()).then_some(&mut self.homes);
            self.partitions.scatter(layout, words, homes)?;
        }
        self.scatter_logs()?;
        // We free the words of a block's groups because they are many. Those of chunks are few and kept.
        self.chunk = Vec::new();
        self.memory.recount(0);
        Ok(())
    }

    /// Puts each row into a partition as a group of its own.
    fn put_rows(
        &mut self,
        rows: Range<usize>,
        keys: &KeyValues<'_>,
        inputs: &Inputs<'_>,
        weights: Option<&[u64]>,
    ) -> Result<()> {
        self.flush_logged()?;
        let Recipe { layout, states, .. } = self.recipe;
        self.numbers.clear();
        self.numbers.extend(0..ROWS_PARTITIONED_AT_ONCE.min(rows.len()) as u32);
        for start in rows.clone().step_by(ROWS_PARTITIONED_AT_ONCE) {
            let rows = start..(start + ROWS_PARTITIONED_AT_ONCE).min(rows.end);
            self.fill_chunk(rows.len(), |chunk| keys.write(rows.clone(), chunk))?;
            let grouped = Grouped { groups: Some(&self.numbers[..rows.len()]), rows, weights };
            let mut groups = Groups { words: &mut self.chunk, stride: layout.stride, at: layout.key_words };
            states.add(0..states.parts(), inputs, &grouped, &mut groups, &mut self.beside)?;
            keys.settle(&mut self.chunk, &mut self.beside.texts)?;
            let homes = (!self.beside.logs.is_empty()).then_some(&mut self.homes);
            self.partitions.scatter(layout, &self.chunk, homes)?;
            self.scatter_logs()?;
        }
        Ok(())
    }

    /// Puts the rows of logs into the partitions of their groups.
    fn scatter_logs(&mut self) -> Result<()> {
        for (number, log) in self.recipe.states.logs().iter().enumerate() {
            let rows = &mut self.beside.logs[number];
            rows.settle(log, &mut self.beside.texts)?;
            self.partitions.scatter_log(number, rows.rows(), log.layout.stride, &self.homes)?;
            rows.clear();
        }
        self.homes.clear();
        Ok(())
    }

    /// Fills the chunk with `rows` empty groups, and calls `write` to put the keys there.
    fn fill_chunk(&mut self, rows: usize, write: impl FnOnce(&mut [u64])) -> Result<()> {
        let mut chunk = std::mem::take(&mut self.chunk);
        self.fill(&mut chunk, rows)?;
        write(&mut chunk);
        self.chunk = chunk;
        Ok(())
    }

    fn fill(&mut self, words: &mut Vec<u64>, rows: usize) -> Result<()> {
        let len = rows * self.empty.len();
        words.clear();
        if let Some(more) = len.checked_sub(words.capacity()) {
            self.memory.grow((more * size_of::<u64>()) as u64)?;
            words.reserve_exact(len);
        }
        // Filling with zeros is much faster than copying rows, and most cells start with zero.
        if self.empty.iter().all(|word| *word == 0) {
            words.resize(len, 0);
            return Ok(());
        }
        (0..rows).for_each(|_| words.extend_from_slice(&self.empty));
        Ok(())
    }

    /// Puts the groups of the table into partitions if it is full.
    fn flush_if_full(&mut self) -> Result<()> {
        let policy = &self.recipe.policy;
        let is_log_long = self.beside.logs.iter().any(|log| log.rows().len() > Policy::LOG_WORDS_MAX);
        if (self.table.len() <= policy.groups_max || self.recipe.enough.is_some()) && !is_log_long {
            return Ok(());
        }
        // Too few rows shared a group: the table did not pay, so let the next rows bypass it.
        if !is_log_long && self.rows_taken < self.table.len() * policy.rows_per_group_min {
            self.rows_past_table = policy.rows_past_table;
        }
        self.flush()
    }

    /// Empties the table if it may have rows in logs. Rows of a log name their group by number, and the groups that
    /// bypass the table use the same numbers, so both must never be in the logs together.
    fn flush_logged(&mut self) -> Result<()> {
        match self.table.len() > 0 && !self.recipe.states.logs().is_empty() {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let homes = (!self.beside.logs.is_empty()).then_some(&mut self.homes);
        // The groups must go first: the rows of logs follow them to their homes.
        self.partitions.scatter(&self.recipe.layout, self.table.rows(), homes)?;
        self.scatter_logs()?;
        self.table.clear();
        self.rows_taken = 0;
        Ok(())
    }

    /// Whether what was gathered must go to disk, because memory is short.
    fn must_spill(&self) -> bool {
        self.held.as_ref().is_some_and(SpillableMemory::must_spill)
    }

    /// Writes everything that was gathered to disk.
    fn spill(&mut self) -> Result<()> {
        self.flush()?;
        let spiller =
            self.spiller.get_or_insert_with(|| GroupSpiller::new(self.recipe.partitions, self.temp, &self.broker));
        spiller.write(self.recipe, self.partitions.all(), &self.beside.texts)?;
        self.partitions.clear();
        // No group is left, so no view refers to these texts. The tables that remember rows of logs were cleared with
        // the logs.
        self.beside.texts = TextStore::new(self.broker.reservation(OWNER));
        Ok(())
    }

    /// Whether rows bypass the table, because hardly any two of them shared a group.
    pub(super) fn is_past_table(&self) -> bool {
        self.rows_past_table > 0
    }

    /// Whether the worker has gathered enough groups.
    pub(super) fn has_enough(&self) -> bool {
        self.recipe.enough.is_some_and(|enough| self.table.len() >= enough)
    }

    /// The result: everything that was gathered, in partitions.
    pub(super) fn finish(mut self) -> Result<WorkerGroups> {
        self.flush()?;
        // Groups on disk and groups in memory are not merged together, because their texts are in different stores. The
        // last rows may have taken more memory than there is for the merge.
        if self.complete.is_none() && (self.spiller.is_some() || self.must_spill()) {
            self.spill()?;
        }
        let spilled = self.spiller.map(GroupSpiller::finish).transpose()?;
        let (partitions, memory) = self.partitions.finish();
        Ok(WorkerGroups { partitions, texts: self.beside.texts, memory, spilled, complete: self.complete })
    }
}
