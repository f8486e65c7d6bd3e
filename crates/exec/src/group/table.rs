//! The groups of one worker. Rows are added to them in place as long as the groups fit a cache.

use std::mem::size_of;

use rowmill_base::{Reservation, Result};

use super::index::Index;
use super::key_values::KeyValues;
use super::layout::{GroupLayout, KeyShape, with_shape};
use super::texts::{TextStore, is_long};

/// Groups for which there is room at first. The table doubles as needed.
const GROUPS_MIN: usize = 1 << 8;

/// Groups, each once, with an index to find them by their keys.
#[derive(Debug)]
pub(super) struct GroupTable {
    index: Index,
    rows: Vec<u64>,
    len: usize,
    memory: Reservation,
}

impl GroupTable {
    /// An empty table that takes its memory from `memory`.
    pub(super) fn new(memory: Reservation) -> GroupTable {
        GroupTable { index: Index::with_room_for(0), rows: Vec::new(), len: 0, memory }
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The rows of the groups.
    pub(super) fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// The rows of the groups, to be changed.
    pub(super) fn rows_mut(&mut self) -> &mut [u64] {
        &mut self.rows
    }

    /// The rows of the groups, and the memory that they hold.
    pub(super) fn into_rows(self) -> (Vec<u64>, Reservation) {
        (self.rows, self.memory)
    }

    /// Appends the number of the group of each of `rows`. These rows must have their keys, also given by `keys`, and
    /// empty aggregates. A row with a new key becomes a group.
    pub(super) fn find(
        &mut self,
        layout: &GroupLayout,
        rows: &[u64],
        keys: &KeyValues<'_>,
        texts: &mut TextStore,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        self.make_room(layout, rows.len() / layout.stride)?;
        with_shape!(layout.shape, shape => self.find_all(shape, layout.stride, rows, keys, texts, numbers))
    }

    fn find_all<S: KeyShape>(
        &mut self,
        shape: S,
        stride: usize,
        rows: &[u64],
        keys: &KeyValues<'_>,
        texts: &mut TextStore,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        for row in rows.chunks_exact(stride) {
            let found = self.index.find(shape.hash(row), |group| {
                shape.is_same(&self.rows[group as usize * stride..], row, |text, held, view| {
                    // The low halves have length and mark. If those differ or the text is inline, the views alone
                    // decide.
                    if held as u64 != view as u64 || !is_long(view) {
                        return held == view;
                    }
                    keys.bytes(text, view, &mut [0; 16]) == texts.bytes(held, &mut [0; 16])
                })
            });
            numbers.push(match found {
                Some(group) => group,
                None => {
                    let at = self.rows.len();
                    self.rows.extend_from_slice(row);
                    // Only texts of new groups are copied.
                    keys.settle(&mut self.rows[at..], texts)?;
                    self.len += 1;
                    self.len as u32 - 1
                }
            });
        }
        Ok(())
    }

    /// Makes room for `more` further groups.
    pub(super) fn make_room(&mut self, layout: &GroupLayout, more: usize) -> Result<()> {
        let (stride, groups) = (layout.stride, self.len + more);
        if groups * stride > self.rows.capacity() {
            let room = (groups.next_power_of_two().max(GROUPS_MIN)) * stride;
            self.memory.grow(((room - self.rows.capacity()) * size_of::<u64>()) as u64)?;
            self.rows.reserve_exact(room - self.rows.len());
        }
        if groups > self.index.room() {
            let room = groups.next_power_of_two().max(GROUPS_MIN);
            self.memory.grow(Index::bytes_for(room) - Index::bytes_for(self.index.room()))?;
            with_shape!(layout.shape, shape => {
                self.index.grow(room, |group| shape.hash(&self.rows[group as usize * stride..]));
            });
        }
        Ok(())
    }

    /// Removes all groups.
    pub(super) fn clear(&mut self) {
        self.index.clear();
        self.rows.clear();
        self.len = 0;
    }
}
