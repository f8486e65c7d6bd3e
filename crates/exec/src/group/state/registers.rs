//! Estimates the number of distinct values with HyperLogLog.
//!
//! The highest bits of a value's hash choose one of 2^14 registers. The number of zeros that follow gives its rank: for
//! example, rank 3 if the next bits are 001. A register keeps the greatest rank that it met. The registers of parts can
//! be joined into those of the whole, however the rows were divided, so an estimate depends on the values alone. Its
//! standard error is 1.04 / √2^14, less than 1 %; small numbers of values are counted nearly exactly.
//!
//! A log has one row for each register of a group that is not empty, so a group takes only the memory that it needs.
//!
//! Flajolet, Fusy, Gandouet, Meunier: HyperLogLog (2007). Statistics use the same estimate ([`cardinality`]). We keep
//! registers of our own because Apache's datasketches hide theirs and put each group's on the heap.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, UInt64Array};
use arrow::datatypes::DataType;
use rowmill_base::{Reservation, Result};
use rowmill_storage::cardinality;

use crate::cache::L2_BYTES;
use crate::group::bits::{Bits, bits_of};
use crate::group::index::Index;
use crate::group::rows::PartValues;
use crate::group::texts::texts_of;
use crate::hash::{mix, stable_hash, stable_hash_of_bytes};

/// Bits of a hash that choose a register.
pub(super) const SLOT_BITS: u32 = 14;
/// Low bits of a register's row word that hold its rank.
const RANK_BITS: u32 = 6;
/// The greatest rank: that of a hash whose bits after the slot are all zero.
const RANK_MAX: usize = (u64::BITS - SLOT_BITS + 1) as usize;

/// The type that holds a register's number and rank.
pub(super) const KIND: DataType = DataType::UInt32;

/// Words of a row: the group, then the number and rank of a register.
pub(super) const STRIDE: usize = 2;

/// The register of a hash: its number in the high bits, its rank in the low bits.
fn register(hash: u64) -> u32 {
    let slot = (hash >> (u64::BITS - SLOT_BITS)) as u32;
    let rank = ((hash << SLOT_BITS).leading_zeros() + 1).min(RANK_MAX as u32);
    slot << RANK_BITS | rank
}

/// Maps values to their registers. Equal values must map to the same register and rank.
pub(super) fn registers(PartValues { values, codes, .. }: &PartValues) -> Result<PartValues> {
    let registers: UInt32Array = match texts_of(values) {
        Some(texts) => {
            let of = |place: usize| {
                // The hash must be stable, so that estimates are the same on every run.
                register(stable_hash_of_bytes(if texts.is_null(place) { b"" } else { texts.value(place) }))
            };
            (0..texts.len()).map(of).collect::<Vec<u32>>().into()
        }
        None => match bits_of(values)? {
            Bits::Narrow { numbers, .. } => {
                numbers.iter().map(|bits| register(stable_hash(*bits))).collect::<Vec<u32>>().into()
            }
            Bits::Wide(numbers) => {
                let of = |bits: &u128| register(stable_hash(*bits as u64 ^ stable_hash((bits >> 64) as u64)));
                numbers.iter().map(of).collect::<Vec<u32>>().into()
            }
        },
    };
    Ok(PartValues { values: Arc::new(registers), codes: codes.clone(), is_list: false })
}

/// Whether two rows are of the same register of the same group.
#[inline]
fn is_same(left: &[u64], right: &[u64]) -> bool {
    left[0] == right[0] && left[1] >> RANK_BITS == right[1] >> RANK_BITS
}

/// The hash of a row's group and register.
#[inline]
pub(super) fn hash(row: &[u64]) -> u64 {
    mix(row[0] ^ mix(row[1] >> RANK_BITS))
}

/// Puts a row into `rows`, whose registers `index` finds. A known register keeps the greater rank; a new one is
/// appended.
#[inline]
pub(super) fn put(row: &[u64], rows: &mut Vec<u64>, first: usize, index: &mut Index) {
    let held = |number: u32| first + number as usize * STRIDE;
    match index.find(hash(row), |number| is_same(&rows[held(number)..], row)) {
        None => rows.extend_from_slice(row),
        Some(number) => {
            let rank = &mut rows[held(number) + 1];
            *rank = (*rank).max(row[1]);
        }
    }
}

/// The registers of a few groups, a byte for each, so that a rank needs no index to find its register.
#[derive(Debug, Default)]
pub(super) struct FewRegisters {
    /// The ranks by group and number; 0 for an empty register.
    ranks: Vec<u8>,
}

/// Most groups whose registers are bytes, so that they fit the second-level cache.
const FEW_GROUPS_MAX: usize = L2_BYTES >> SLOT_BITS;

/// With fewer rows for each register, bytes would cost more to clear and to look through than the index costs.
const REGISTERS_PER_ROW_MAX: usize = 64;

impl FewRegisters {
    /// Makes room for the registers of `groups` groups if that is worth it for `rows` more rows. Returns whether there
    /// is room.
    pub(super) fn make_room(&mut self, groups: usize, rows: usize, memory: &mut Reservation) -> Result<bool> {
        let wanted = groups << SLOT_BITS;
        if wanted > self.ranks.len() {
            if groups > FEW_GROUPS_MAX || wanted / REGISTERS_PER_ROW_MAX > rows {
                return Ok(false);
            }
            memory.grow((wanted - self.ranks.len()) as u64)?;
            self.ranks.resize(wanted, 0);
        }
        Ok(true)
    }

    /// Puts rows of groups for which there is room.
    pub(super) fn put(&mut self, rows: &[u64]) {
        for row in rows.as_chunks::<STRIDE>().0 {
            let (slot, rank) = (row[1] as usize >> RANK_BITS, row[1] as u8 & ((1 << RANK_BITS) - 1));
            let held = &mut self.ranks[(row[0] as usize) << SLOT_BITS | slot];
            *held = (*held).max(rank);
        }
    }

    /// The number of registers that are not empty.
    pub(super) fn used(&self) -> usize {
        self.ranks.iter().filter(|rank| **rank > 0).count()
    }

    /// Appends a row for each register that is not empty, and empties all registers.
    pub(super) fn drain_to(&mut self, rows: &mut Vec<u64>) {
        for (place, rank) in self.ranks.iter_mut().enumerate().filter(|(_, rank)| **rank > 0) {
            let (group, slot) = ((place >> SLOT_BITS) as u64, (place % (1 << SLOT_BITS)) as u64);
            rows.extend([group, slot << RANK_BITS | u64::from(std::mem::take(rank))]);
        }
    }
}

/// The estimate for each group. The registers of a group are the rows between two neighbouring `starts`.
pub(super) fn estimates(rows: &[u64], starts: &[usize]) -> ArrayRef {
    let of = |ends: &[usize]| {
        let mut counts = [0; RANK_MAX + 1];
        // Registers that have no row are empty.
        counts[0] = (1 << SLOT_BITS) - (ends[1] - ends[0]);
        for row in rows[ends[0] * STRIDE..ends[1] * STRIDE].chunks_exact(STRIDE) {
            counts[(row[1] % (1 << RANK_BITS)) as usize] += 1;
        }
        cardinality(&counts).round() as u64
    };
    Arc::new(UInt64Array::from_iter_values(starts.windows(2).map(of)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::{UInt32Type, UInt64Type};
    use rowmill_base::Broker;

    #[test]
    fn registers_of_few_groups_keep_the_ranks_that_rows_keep() {
        let mut memory = Broker::new(1 << 24).reservation("test");
        let rows: Vec<u64> =
            (0..40_000_u64).flat_map(|value| [mix(value) % 5, register(stable_hash(value % 9_000)).into()]).collect();
        let (mut index, mut by_index) = (Index::with_room_for(5 << SLOT_BITS), Vec::new());
        rows.chunks_exact(STRIDE).for_each(|row| put(row, &mut by_index, 0, &mut index));
        let (mut few, mut drained) = (FewRegisters::default(), Vec::new());
        assert!(!few.make_room(5, 100, &mut memory).expect("memory"), "too few rows");
        assert!(!few.make_room(FEW_GROUPS_MAX + 1, 1 << 30, &mut memory).expect("memory"), "too many groups");
        assert!(few.make_room(5, rows.len() / STRIDE, &mut memory).expect("memory"));
        few.put(&rows);
        assert_eq!(few.used() * STRIDE, by_index.len());
        few.drain_to(&mut drained);
        let in_order = |rows: &[u64]| {
            let mut rows = rows.as_chunks::<STRIDE>().0.to_vec();
            rows.sort_unstable();
            rows
        };
        assert_eq!(in_order(&drained), in_order(&by_index));
        assert_eq!(few.used(), 0);
    }

    /// The estimate for the distinct values of an array, taken as one group.
    fn estimated(values: ArrayRef) -> u64 {
        let values = registers(&PartValues { values, codes: None, is_list: false }).expect("registers").values;
        let mut index = Index::with_room_for(1 << SLOT_BITS);
        let mut rows = Vec::new();
        for register in values.as_primitive::<UInt32Type>().values() {
            put(&[0, u64::from(*register)], &mut rows, 0, &mut index);
        }
        estimates(&rows, &[0, rows.len() / STRIDE]).as_primitive::<UInt64Type>().value(0)
    }

    #[test]
    fn estimates_are_within_four_standard_errors() {
        for step in [1, 3, 1_000_003, 1 << 33] {
            for count in [0_i64, 1, 2, 10, 100, 1_000, 20_000, 70_000, 1_000_000] {
                let numbers = Int64Array::from_iter_values((0..count).map(|number| number.wrapping_mul(step)));
                let error = estimated(Arc::new(numbers)).abs_diff(count as u64);
                assert!(
                    error as f64 <= (count as f64 * 0.0325).max(0.5 + count as f64 / 50.0),
                    "{count} of {step}: {error}"
                );
            }
        }
        for count in [1, 2, 50, 5_000, 300_000] {
            let texts =
                StringViewArray::from_iter_values((0..count * 2).map(|n| format!("a text of number {}", n / 2)));
            let error = estimated(Arc::new(texts)).abs_diff(count);
            assert!(error as f64 <= (count as f64 * 0.0325).max(1.0), "{count} texts: {error}");
        }
    }
}
