//! Orders the rows of each key by position and tie.
//!
//! In the usual case both sides come in the order of time, so that the rows of a key are in order already. Several
//! workers put rows into a partition, each a run of ascending rows. Sorting the numbers of the rows merges these runs,
//! and reads the positions from front to back. Only if the positions are not in order then, we sort by them.

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::take;
use arrow::datatypes::UInt64Type;
use rowmill_base::{Error, Reservation, Result};

use super::positions::{Positions, failed, values_at};
use crate::join::KeyGroups;

/// What orders the rows of the right side, by row.
#[derive(Debug)]
pub(crate) struct KeyOrder {
    positions: Positions,
    ties: Option<ScalarBuffer<u64>>,
    _memory: Reservation,
}

/// The rows of some keys in order: the keys of one partition of the index.
#[derive(Debug)]
pub(crate) struct OrderedPart {
    /// The rows of each key, one key after the other.
    pub(super) rows: Vec<u32>,
    /// Where the rows of each key end.
    pub(super) ends: Vec<u32>,
    /// The positions of the rows.
    pub(super) positions: Positions,
    /// The columns that aggregates read.
    pub(super) columns: Vec<ArrayRef>,
    pub(super) memory: Reservation,
}

impl KeyOrder {
    /// Prepares to order rows with these positions and ties.
    pub(crate) fn new(positions: &ArrayRef, ties: Option<&ArrayRef>, mut memory: Reservation) -> Result<KeyOrder> {
        memory.grow(positions.len() as u64 * Positions::bytes_of_row(positions.data_type()))?;
        let positions = Positions::of(positions)?;
        let ties = match ties {
            Some(ties) => Some(ties_of(ties, &mut memory)?),
            None => None,
        };
        Ok(KeyOrder { positions, ties, _memory: memory })
    }

    /// Orders the rows of `groups`. `columns` are the columns that aggregates read, by row.
    pub(crate) fn order(
        &self,
        groups: KeyGroups,
        columns: &[&ArrayRef],
        mut memory: Reservation,
    ) -> Result<OrderedPart> {
        let KeyGroups { mut rows, ends } = groups;
        memory.recount(((rows.capacity() + ends.capacity()) * size_of::<u32>()) as u64);
        let ties = self.ties.as_deref();
        let before = memory.bytes();
        let most = most_rows(&ends);
        let positions = match &self.positions {
            Positions::Narrow(of_rows) => {
                memory.grow((rows.len() * size_of::<u64>() + 2 * most * size_of::<(u64, u64, u32)>()) as u64)?;
                Positions::Narrow(order_numbers(&mut rows, &ends, of_rows, ties))
            }
            Positions::Wide(of_rows) => {
                memory.grow((rows.len() * size_of::<u128>() + 2 * most * size_of::<(u128, u64, u32)>()) as u64)?;
                Positions::Wide(order_numbers(&mut rows, &ends, of_rows, ties))
            }
            Positions::Bytes(of_rows) => {
                memory.grow((rows.len() * size_of::<u128>() + most * size_of::<u32>()) as u64)?;
                order_bytes(&mut rows, &ends, of_rows, ties);
                Positions::Bytes(values_at(of_rows, &rows)?)
            }
        };
        // The entries that were sorted are gone.
        memory.recount(before + positions.bytes());
        let places = UInt32Array::from(rows.clone());
        let columns = columns.iter().map(|column| {
            let column = take(*column, &places, None).map_err(failed)?;
            memory.grow(column.get_array_memory_size() as u64)?;
            Ok(column)
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(OrderedPart { rows, ends, positions, columns, memory })
    }
}

/// The ties by row. A NULL comes last.
fn ties_of(ties: &ArrayRef, memory: &mut Reservation) -> Result<ScalarBuffer<u64>> {
    let Some(ties) = ties.as_primitive_opt::<UInt64Type>() else {
        return Err(Error::internal(format!("a join cannot order rows by ties of {}", ties.data_type())));
    };
    if ties.null_count() == 0 {
        return Ok(ties.values().clone());
    }
    memory.grow((ties.len() * size_of::<u64>()) as u64)?;
    Ok(ties.iter().map(|tie| tie.unwrap_or(u64::MAX)).collect())
}

/// The number of rows of the key that has most of them.
fn most_rows(ends: &[u32]) -> usize {
    let starts = std::iter::once(&0).chain(ends);
    ends.iter().zip(starts).map(|(end, start)| end - start).max().unwrap_or_default() as usize
}

/// The ranges of the rows of all keys.
fn ranges(ends: &[u32]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let starts = std::iter::once(&0).chain(ends);
    starts.zip(ends).map(|(start, end)| *start as usize..*end as usize)
}

/// Orders the rows of each key. Returns their positions in this order.
fn order_numbers<N: Copy + Ord>(rows: &mut [u32], ends: &[u32], of_rows: &[N], ties: Option<&[u64]>) -> Vec<N> {
    let mut positions = Vec::with_capacity(rows.len());
    let mut entries: Vec<(N, u64, u32)> = Vec::new();
    for range in ranges(ends) {
        let rows = &mut rows[range.clone()];
        // This sort finds runs that are in order already and merges them.
        rows.sort();
        positions.extend(rows.iter().map(|row| of_rows[*row as usize]));
        let tie = |row: u32| ties.map_or(0, |ties| ties[row as usize]);
        let positions = &mut positions[range];
        if is_ordered(positions, rows, ties) {
            continue;
        }
        entries.clear();
        entries.extend(positions.iter().zip(&*rows).map(|(position, row)| (*position, tie(*row), *row)));
        entries.sort();
        for ((position, row), entry) in positions.iter_mut().zip(rows).zip(&entries) {
            (*position, _, *row) = *entry;
        }
    }
    positions
}

fn is_ordered<N: Copy + Ord>(positions: &[N], rows: &[u32], ties: Option<&[u64]>) -> bool {
    match ties {
        None => positions.is_sorted(),
        Some(ties) => positions.windows(2).zip(rows.windows(2)).all(|(positions, rows)| {
            let ordered_by_tie = || ties[rows[0] as usize] <= ties[rows[1] as usize];
            positions[0] < positions[1] || positions[0] == positions[1] && ordered_by_tie()
        }),
    }
}

/// Orders the rows of each key.
fn order_bytes(rows: &mut [u32], ends: &[u32], of_rows: &BinaryViewArray, ties: Option<&[u64]>) {
    let tie = |row: u32| ties.map_or(0, |ties| ties[row as usize]);
    let compare = |left: &u32, right: &u32| {
        let values = of_rows.value(*left as usize).cmp(of_rows.value(*right as usize));
        values.then_with(|| tie(*left).cmp(&tie(*right)))
    };
    for range in ranges(ends) {
        let rows = &mut rows[range];
        rows.sort();
        rows.sort_by(compare);
    }
}
