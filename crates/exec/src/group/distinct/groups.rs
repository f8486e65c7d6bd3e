//! Numbers groups: first those of one worker while it notes pairs, then those of all workers.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::{Reservation, Result};

use crate::function::VectorFunction;
use crate::group::index::Index;
use crate::group::key_values::KeyValues;
use crate::group::layout::{GroupLayout, KeyShape, with_shape};
use crate::group::local;
use crate::group::rows::{PartRows, PartValues};
use crate::group::state::{Beside, Finished, Groups, States};
use crate::group::table::GroupTable;
use crate::group::texts::TextStore;

/// Groups whose keys are written at once. It bounds the scratch memory.
const GROUPS_AT_ONCE: usize = 1 << 12;

/// The groups of rows.
pub(super) struct RowGroups {
    /// The group of each row, as an index into `numbers`.
    pub(super) places: Arc<Vec<u32>>,
    /// The numbers of the groups.
    pub(super) numbers: Vec<u32>,
}

/// The groups that one worker met, with the other aggregates of its rows.
pub(super) struct Numbering<'a> {
    layout: &'a GroupLayout,
    states: &'a States,
    table: GroupTable,
    beside: Beside,
    chunk: Vec<u64>,
}

/// The result of a [`Numbering`].
pub(super) struct Numbered {
    table: GroupTable,
    texts: TextStore,
}

impl<'a> Numbering<'a> {
    /// Starts without groups. Takes memory from reservations that `memory` makes.
    pub(super) fn new(layout: &'a GroupLayout, states: &'a States, memory: impl Fn() -> Reservation) -> Numbering<'a> {
        let table = GroupTable::new(memory());
        Numbering { layout, states, table, beside: Beside::new(states, memory), chunk: Vec::new() }
    }

    /// The groups of at least one row; `None` if there are no keys. Adds the rows to the other aggregates.
    pub(super) fn number(&mut self, rows: &PartRows<'_>) -> Result<Option<RowGroups>> {
        let has_keys = !self.layout.columns.is_empty();
        let groups = match has_keys {
            true => self.groups_of(rows)?,
            false => {
                RowGroups { places: Arc::new(vec![0; rows.len()]), numbers: self.find(&[], std::iter::once(0), 1)? }
            }
        };
        let RowGroups { places, numbers } = &groups;
        let (stride, at) = (self.layout.stride, self.layout.key_words);
        let mut table = Groups { words: self.table.rows_mut(), stride, at };
        self.states.add_rows(rows, || places.to_vec(), numbers, &mut table, &mut self.beside)?;
        Ok(has_keys.then_some(groups))
    }

    fn groups_of(&mut self, rows: &PartRows<'_>) -> Result<RowGroups> {
        let mut keys: Vec<PartValues> =
            self.layout.columns.iter().map(|key| rows.values(key.expr)).collect::<Result<_>>()?;
        if let [key @ PartValues { codes: Some(_), is_list: true, .. }] = &mut *keys
            && rows.is_whole()
        {
            // The list of the only key already has each group once.
            let places = key.codes.take().unwrap_or_default();
            let listed = key.values.len();
            let numbers = self.find(&keys, 0..listed, listed)?;
            return Ok(RowGroups { places, numbers });
        }
        Ok(match local::group(&keys, rows.len())? {
            Some(local) => {
                let first_rows = local.first_rows.iter().map(|row| *row as usize);
                let numbers = self.find(&keys, first_rows, local.first_rows.len())?;
                RowGroups { places: Arc::new(local.groups), numbers }
            }
            None => {
                let numbers = self.find(&keys, 0..rows.len(), rows.len())?;
                RowGroups { places: Arc::new((0..rows.len() as u32).collect()), numbers }
            }
        })
    }

    /// The numbers of the groups with the keys at `places`, an iterator over `count` rows.
    fn find(
        &mut self,
        keys: &[PartValues],
        mut places: impl Iterator<Item = usize> + Clone,
        count: usize,
    ) -> Result<Vec<u32>> {
        let keys = KeyValues::new(self.layout, keys, count)?;
        let mut numbers = Vec::with_capacity(count);
        for start in (0..count).step_by(GROUPS_AT_ONCE) {
            let len = GROUPS_AT_ONCE.min(count - start);
            self.chunk.clear();
            self.chunk.resize(len * self.layout.stride, 0);
            if self.states.initial().iter().any(|word| *word != 0) {
                let rows = self.chunk.chunks_exact_mut(self.layout.stride);
                rows.for_each(|row| row[self.layout.key_words..].copy_from_slice(self.states.initial()));
            }
            keys.write(places.clone().take(len), &mut self.chunk);
            // Skip the places that were just written.
            places.nth(len - 1);
            self.table.find(self.layout, &self.chunk, &keys, &mut self.beside.texts, &mut numbers)?;
        }
        Ok(numbers)
    }

    pub(super) fn finish(self) -> Numbered {
        Numbered { table: self.table, texts: self.beside.texts }
    }
}

/// The groups of all workers.
pub(super) struct AllGroups {
    rows: Vec<u64>,
    len: usize,
    texts: TextStore,
    /// By worker, the number of each of its groups among all groups.
    of_workers: Vec<Vec<u32>>,
    _memory: Reservation,
}

impl AllGroups {
    /// Joins the groups of workers. Without keys there is one group, even if no row was met.
    pub(super) fn new(
        layout: &GroupLayout,
        states: &States,
        workers: Vec<Numbered>,
        mut memory: Reservation,
    ) -> Result<AllGroups> {
        let groups: usize = workers.iter().map(|worker| worker.table.len()).sum();
        let bytes = groups * (layout.stride * size_of::<u64>() + size_of::<u32>());
        memory.grow(bytes as u64 + Index::bytes_for(groups))?;
        let mut tables = Vec::with_capacity(workers.len());
        let mut stores = Vec::with_capacity(workers.len());
        for worker in workers {
            tables.push(worker.table);
            stores.push(worker.texts);
        }
        // From here on views of all workers refer to one store, so each worker's buffer numbers must be shifted.
        let (texts, bases) = TextStore::join(stores);
        let mut all = AllGroups { rows: Vec::new(), len: 0, texts, of_workers: Vec::new(), _memory: memory };
        let mut index = Index::with_room_for(groups);
        for (mut table, base) in tables.into_iter().zip(bases) {
            if base > 0 {
                layout.move_texts(table.rows_mut(), base);
                states.move_texts(table.rows_mut(), (layout.stride, layout.key_words), base);
            }
            with_shape!(layout.shape, shape => all.add(shape, layout, states, table.rows(), &mut index))?;
        }
        if layout.columns.is_empty() {
            // Without keys there is one group, even if no row was met. No pairs of a worker have its number.
            if all.len == 0 {
                all.rows.resize(layout.key_words, 0);
                all.rows.extend_from_slice(states.initial());
                all.len = 1;
            }
            all.of_workers.iter_mut().for_each(|numbers| numbers.resize(1, 0));
        }
        Ok(all)
    }

    fn add<S: KeyShape>(
        &mut self,
        shape: S,
        layout: &GroupLayout,
        states: &States,
        rows: &[u64],
        index: &mut Index,
    ) -> Result<()> {
        let stride = layout.stride;
        let (mut numbers, mut pairs) = (Vec::with_capacity(rows.len() / stride), Vec::new());
        for (place, row) in (0..).zip(rows.chunks_exact(stride)) {
            let found = index.find(shape.hash(row), |number| {
                let held = &self.rows[number as usize * stride..];
                shape.is_same(held, row, |_, held, view| self.texts.is_same(held, view))
            });
            // A new row becomes a group with its aggregates as they are.
            match found {
                Some(number) => pairs.push((place, number)),
                None => {
                    self.rows.extend_from_slice(row);
                    self.len += 1;
                }
            }
            numbers.push(found.unwrap_or(self.len as u32 - 1));
        }
        self.of_workers.push(numbers);
        states.merge(&pairs, rows, &mut self.rows, (stride, layout.key_words), &self.texts)
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// By worker, the number of each of its groups among all groups.
    pub(super) fn of_workers(&self) -> &[Vec<u32>] {
        &self.of_workers
    }

    /// The keys of some groups.
    pub(super) fn keys(
        &self,
        layout: &GroupLayout,
        groups: Range<usize>,
        functions: &[Arc<dyn VectorFunction>],
    ) -> Result<Vec<ArrayRef>> {
        layout.keys(self.rows_of(layout, groups), &self.texts, functions)
    }

    /// The other aggregates of some groups.
    pub(super) fn aggregates(
        &self,
        layout: &GroupLayout,
        states: &States,
        groups: Range<usize>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = self.rows_of(layout, groups);
        states.finish(Finished { rows, stride: layout.stride, at: layout.key_words }, &[], &self.texts)
    }

    fn rows_of(&self, layout: &GroupLayout, groups: Range<usize>) -> &[u64] {
        &self.rows[groups.start * layout.stride..groups.end * layout.stride]
    }
}
