//! Rows in the order of the window: whole partitions, one after the other.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{partition, take};
use rowmill_base::{Reservation, Result};
use rowmill_plan::SortKey;

use super::code::EntryLayout;
use super::entry::{WindowEntry, sort_entries};
use super::failed;
use super::held::{HeldPlace, HeldRows};
use crate::sort::{canonical, places_in_order};

/// The sorted rows of some partitions. A position counts the rows in this order.
#[derive(Debug, Default)]
pub(super) struct SortedRows {
    /// The places where the rows are held, by position.
    pub(super) places: Vec<HeldPlace>,
    /// The positions at which partitions start, followed by the end of the last one.
    pub(super) partitions: Vec<usize>,
    /// The positions at which groups of peers start, followed by the end of the last group. Empty if no call needs
    /// peers.
    pub(super) peers: Vec<usize>,
}

impl SortedRows {
    /// Makes one partition of all rows, in which all rows are peers.
    pub(super) fn of_all(held: &HeldRows) -> SortedRows {
        let places = held
            .batches
            .iter()
            .enumerate()
            .flat_map(|(number, batch)| (0..batch.num_rows()).map(move |row| (number, row)));
        SortedRows { places: places.collect(), partitions: vec![0, held.rows], peers: vec![0, held.rows] }
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The ranges of positions of the partitions.
    pub(super) fn each_partition(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.partitions.windows(2).map(|ends| ends[0]..ends[1])
    }
}

/// Sorts rows into the order of a window.
pub(super) struct Arranger<'a> {
    pub(super) held: &'a HeldRows,
    pub(super) layout: &'a EntryLayout,
    pub(super) partition: &'a [usize],
    pub(super) order: &'a [SortKey],
    /// Whether a call needs peers.
    pub(super) finds_peers: bool,
}

impl Arranger<'_> {
    /// Sorts the rows of `entries`, which must be all rows of some partitions. The highest `known_bits` of their
    /// partition codes must be equal.
    pub(super) fn arrange<E: WindowEntry>(
        &self,
        entries: &mut Vec<E>,
        scratch: &mut Vec<E>,
        known_bits: u32,
        memory: &mut Reservation,
    ) -> Result<SortedRows> {
        let layout = self.layout;
        sort_entries(entries, scratch, layout.place_bits, layout.bits() - known_bits);
        let mut starts = changes(entries, layout.partition_shift());
        let mut places = self.places(entries);
        if layout.is_hashed() {
            let exact = boundaries(&self.columns(self.partition.iter().copied(), &places)?, places.len())?;
            if exact.len() != starts.len() {
                // Some partitions have equal hashes. That is rare, so we simply sort again by the values themselves.
                starts = self.separate(entries, &places, memory)?;
                places = self.places(entries);
            }
        }
        if !layout.has_order() {
            return self.put_in_order(places, starts, memory);
        }
        let peers = match (self.finds_peers, layout.is_hashed()) {
            (false, _) => Vec::new(),
            (true, false) => changes(entries, layout.place_bits),
            // If hashes collide, rows of different partitions may have equal entries. The starts of partitions
            // separate them.
            (true, true) => union(&changes(entries, layout.place_bits), &starts),
        };
        Ok(SortedRows { places, partitions: starts, peers })
    }

    fn places<E: WindowEntry>(&self, entries: &[E]) -> Vec<HeldPlace> {
        entries.iter().map(|entry| self.held.place(entry.low())).collect()
    }

    fn columns(&self, columns: impl Iterator<Item = usize>, places: &[HeldPlace]) -> Result<Vec<ArrayRef>> {
        columns.map(|column| canonical(&self.held.gather(column, places)?)).collect()
    }

    /// Sorts entries by the values of their partitions. Returns the positions at which partitions start.
    fn separate<E: WindowEntry>(
        &self,
        entries: &mut Vec<E>,
        places: &[HeldPlace],
        memory: &mut Reservation,
    ) -> Result<Vec<usize>> {
        let columns = self.columns(self.partition.iter().copied(), places)?;
        let keys: Vec<SortKey> =
            (0..columns.len()).map(|column| SortKey { column, descending: false, nulls_first: true }).collect();
        let order = places_in_order(&columns, &keys, memory)?;
        *entries = order.iter().map(|place| entries[*place as usize]).collect();
        let starts = boundaries(&reordered(&columns, &order)?, entries.len())?;
        let bits = self.layout.partition_shift();
        for ends in starts.windows(2) {
            entries[ends[0]..ends[1]].sort_unstable_by_key(|entry| entry.below(bits));
        }
        Ok(starts)
    }

    /// Sorts the rows of partitions by an order that is not in the entries.
    fn put_in_order(&self, places: Vec<HeldPlace>, starts: Vec<usize>, memory: &mut Reservation) -> Result<SortedRows> {
        let number = |(number, ends): (usize, &[usize])| std::iter::repeat_n(number as u32, ends[1] - ends[0]);
        let numbers: UInt32Array = starts.windows(2).enumerate().flat_map(number).map(Some).collect();
        let mut columns: Vec<ArrayRef> = vec![Arc::new(numbers)];
        columns.extend(self.columns(self.order.iter().map(|key| key.column), &places)?);
        let keys = self.order.iter().zip(1..).map(|(key, column)| SortKey { column, ..*key });
        let by_partition = SortKey { column: 0, descending: false, nulls_first: true };
        let keys: Vec<SortKey> = std::iter::once(by_partition).chain(keys).collect();
        let order = places_in_order(&columns, &keys, memory)?;
        let peers = match self.finds_peers {
            true => boundaries(&reordered(&columns, &order)?, places.len())?,
            false => Vec::new(),
        };
        let places = order.iter().map(|place| places[*place as usize]).collect();
        Ok(SortedRows { places, partitions: starts, peers })
    }
}

fn reordered(columns: &[ArrayRef], order: &[u32]) -> Result<Vec<ArrayRef>> {
    let order = UInt32Array::from(order.to_vec());
    columns.iter().map(|column| take(column, &order, None).map_err(failed)).collect()
}

/// The positions at which the bits above `shift` change, with both ends.
fn changes<E: WindowEntry>(entries: &[E], shift: u32) -> Vec<usize> {
    let mut starts = vec![0];
    let pairs = entries.windows(2).zip(1..);
    starts.extend(pairs.filter(|(pair, _)| pair[0].above(shift) != pair[1].above(shift)).map(|(_, start)| start));
    starts.push(entries.len());
    starts
}

/// The positions at which rows of columns differ from the row before, with both ends. Floats must have one zero and one
/// NaN.
pub(super) fn boundaries(columns: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
    if columns.is_empty() || rows == 0 {
        return Ok(vec![0, rows]);
    }
    let ranges = partition(columns).map_err(failed)?.ranges();
    Ok(std::iter::once(0).chain(ranges.into_iter().map(|range| range.end)).collect())
}

/// Both lists of positions in one.
fn union(left: &[usize], right: &[usize]) -> Vec<usize> {
    let mut all: Vec<usize> = left.iter().chain(right).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}
