//! Merges the groups of partitions that may have keys in common.

use std::mem::size_of;

use arrow::array::ArrayRef;
use rowmill_base::{Reservation, Result};

use super::index::Index;
use super::layout::{GroupLayout, KeyShape, view_at, with_shape};
use super::partition::Partition;
use super::state::{States, group_of, set_group};
use super::texts::{TextStore, is_long};
use crate::cache::LOOKUPS_AT_ONCE;

/// Groups for which a merge makes room at first. The table doubles as needed.
const GROUPS_MIN: usize = 1 << 8;

/// The groups of some partitions, each once.
pub(super) struct Merger<'a> {
    layout: &'a GroupLayout,
    states: &'a States,
    index: Index,
    rows: Vec<u64>,
    len: usize,
    /// Rows in all partitions.
    rows_max: usize,
    hashes: Vec<u64>,
    pairs: Vec<(u32, u32)>,
    /// The group of each row of one partition; only if there are logs.
    numbers: Vec<u32>,
    /// The pages of each log.
    logs: Vec<Vec<Vec<u64>>>,
}

/// Merged groups and the results of their logs.
pub(super) struct Merged {
    pub(super) rows: Vec<u64>,
    /// Columns by log, then by aggregate of the log.
    pub(super) logged: Vec<Vec<ArrayRef>>,
}

impl<'a> Merger<'a> {
    /// Starts a merge of at most `rows` rows. Takes its memory from `memory`.
    pub(super) fn new(
        layout: &'a GroupLayout,
        states: &'a States,
        rows: usize,
        memory: &mut Reservation,
    ) -> Result<Merger<'a>> {
        let words = rows.max(1) * layout.stride;
        memory.grow((words * size_of::<u64>()) as u64 + Index::bytes_for(rows.max(GROUPS_MIN)))?;
        let index = Index::with_room_for(rows.clamp(1, GROUPS_MIN));
        let pairs = Vec::with_capacity(LOOKUPS_AT_ONCE);
        Ok(Merger {
            layout,
            states,
            index,
            rows: Vec::with_capacity(words),
            len: 0,
            rows_max: rows,
            hashes: Vec::with_capacity(LOOKUPS_AT_ONCE),
            pairs,
            numbers: Vec::new(),
            logs: states.logs().iter().map(|_| Vec::new()).collect(),
        })
    }

    /// Makes room for `rows` more rows. Takes the memory from `memory`.
    pub(super) fn expect(&mut self, rows: usize, memory: &mut Reservation) -> Result<()> {
        let index_bytes = |rows: usize| Index::bytes_for(rows.max(GROUPS_MIN));
        memory.grow(index_bytes(self.rows_max + rows) - index_bytes(self.rows_max))?;
        self.rows_max += rows;
        let (needed, capacity) = (self.rows.len() + rows * self.layout.stride, self.rows.capacity());
        if needed > capacity {
            // Doubling keeps the cost of copying groups constant for each of them.
            let room = needed.max(2 * capacity);
            memory.grow(((room - capacity) * size_of::<u64>()) as u64)?;
            self.rows.reserve_exact(room - self.rows.len());
        }
        Ok(())
    }

    /// Adds the rows of a partition. The buffers of its texts have numbers that are higher by `more` in `texts`, which
    /// must also have the texts of all rows that were added before.
    pub(super) fn add(&mut self, partition: Partition, more: u32, texts: &TextStore) -> Result<()> {
        let (layout, states) = (self.layout, self.states);
        let Partition { groups, logs } = partition;
        for mut page in groups.pages {
            if more > 0 {
                layout.move_texts(&mut page, more);
                states.move_texts(&mut page, (layout.stride, layout.key_words), more);
            }
            with_shape!(layout.shape, shape => {
                for rows in page.chunks(LOOKUPS_AT_ONCE * layout.stride) {
                    self.add_rows(shape, rows, texts)?;
                }
            });
        }
        // All groups of the partition are merged now, so the rows of its logs can get the final numbers of their
        // groups.
        for ((number, log), pages) in states.logs().iter().enumerate().zip(logs) {
            for mut page in pages.pages {
                if more > 0 {
                    log.layout.move_texts(&mut page, more);
                }
                for row in page.chunks_exact_mut(log.layout.stride) {
                    set_group(row, self.numbers[group_of(row)]);
                }
                self.logs[number].push(page);
            }
        }
        self.numbers.clear();
        Ok(())
    }

    fn add_rows<S: KeyShape>(&mut self, shape: S, rows: &[u64], texts: &TextStore) -> Result<()> {
        let stride = self.layout.stride;
        // Growth is bounded by the rows of all partitions; `new` has accounted for an index of that size.
        if self.len + rows.len() / stride > self.index.room() {
            let room = (self.index.room() * 4).max(self.len + LOOKUPS_AT_ONCE).min(self.rows_max);
            self.index.grow(room, |group| shape.hash(&self.rows[group as usize * stride..]));
        }
        self.hashes.clear();
        self.hashes.extend(rows.chunks_exact(stride).map(|row| shape.hash(row)));
        // The texts of a whole batch are fetched while the hashes are at hand.
        self.glance_at_texts(shape, rows, texts);
        self.pairs.clear();
        for ((place, row), hash) in rows.chunks_exact(stride).enumerate().zip(&self.hashes) {
            let found = self.index.find(*hash, |group| {
                shape.is_same(&self.rows[group as usize * stride..], row, |_, held, view| texts.is_same(held, view))
            });
            // A new row becomes a group with its aggregates as they are. The others are added after the loop, cell by
            // cell.
            match found {
                Some(group) => self.pairs.push((place as u32, group)),
                None => {
                    self.rows.extend_from_slice(row);
                    self.len += 1;
                }
            }
            if !self.logs.is_empty() {
                self.numbers.push(found.unwrap_or(self.len as u32 - 1));
            }
        }
        let at = self.layout.key_words;
        self.states.merge(&self.pairs, rows, &mut self.rows, (stride, at), texts)
    }

    /// Makes the processor fetch the texts that will be compared.
    fn glance_at_texts<S: KeyShape>(&mut self, shape: S, rows: &[u64], texts: &TextStore) {
        let (stride, words) = (self.layout.stride, shape.texts());
        if words.is_empty() {
            return;
        }
        let mut glances = 0;
        for (row, hash) in rows.chunks_exact(stride).zip(&self.hashes) {
            let Some(group) = self.index.first(*hash) else { continue };
            let held = &self.rows[group as usize * stride..];
            for word in words.clone().step_by(2) {
                let (view, held) = (view_at(row, word), view_at(held, word));
                if view as u64 == held as u64 && is_long(view) {
                    glances ^= texts.glance(view) ^ texts.glance(held);
                }
            }
        }
        std::hint::black_box(glances);
    }

    /// The groups. If there is none and `always_one`, returns one empty group.
    pub(super) fn finish(mut self, always_one: bool, texts: &TextStore, memory: &mut Reservation) -> Result<Merged> {
        if always_one && self.len == 0 {
            // An aggregate without GROUP BY has one row even if its input is empty.
            self.rows.resize(self.layout.key_words, 0);
            self.rows.extend_from_slice(self.states.initial());
            self.len = 1;
        }
        let logs = self.states.logs().iter().zip(self.logs);
        let logged = logs.map(|(log, pages)| log.finish(pages, self.len, texts, memory));
        Ok(Merged { logged: logged.collect::<Result<_>>()?, rows: self.rows })
    }
}
