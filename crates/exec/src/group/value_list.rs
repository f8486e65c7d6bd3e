//! The distinct values of a column in one block, as rows: each value represents the rows of the block that have it.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use rowmill_base::{Error, Result};
use rowmill_storage::chunk::{Chunk, CodeSet, ReadMeter, ValueSet};
use rowmill_storage::{Block, TableDef};

use super::rows::{PartRows, take};
use crate::scan::block_state::{BlockState, VALUES_PER_PICK, codes_that_pass, listed};
use crate::scan::each_position;
use crate::scan::filter::Filter;
use crate::scan::offered::BlockFilters;
use crate::scan::part::SharedBlock;

/// The values of the rows that are in. Clones share the data.
#[derive(Clone)]
pub(crate) struct ValueList {
    chunk: Arc<Chunk>,
    /// The codes of the values, ascending; `None` if all values are in.
    codes: Option<Arc<Vec<u32>>>,
    /// The number of rows that each value represents; `None` if the list's own counts hold.
    weights: Option<Arc<Vec<u64>>>,
    /// The number of rows that all values represent together, if no row was left out.
    rows: Option<u64>,
}

impl ValueList {
    /// The values of the only grouped column in the rows that are not deleted and pass `filter`. `None` if its chunk
    /// has no value list. `reads` counts the bytes that are read.
    pub(super) fn of_block(
        table: &TableDef,
        block: &Arc<Block>,
        filter: &Filter,
        column: usize,
        reads: &Arc<ReadMeter>,
    ) -> Result<Option<ValueList>> {
        let Some(chunk) = block.chunk(table, column)?.filter(Chunk::has_values) else { return Ok(None) };
        let chunk = Arc::new(chunk.metered(reads));
        // A filter on other columns selects rows, so the list alone cannot answer.
        if !filter.reads_only(column) {
            return ValueList::of_rows(table, block, filter, chunk, reads).map(Some);
        }
        let mut codes = match filter.is_empty() {
            true => None,
            false => match codes_that_pass(&chunk, filter)? {
                Some(codes) => Some(codes).filter(|codes| !codes.is_full()).map(|codes| codes.to_codes()),
                None => return Ok(None),
            },
        };
        let Some(deleted) = block.deleted() else {
            let rows = codes.is_none().then_some(block.rows() as u64);
            return Ok(Some(ValueList { chunk, codes: codes.map(Arc::new), weights: None, rows }));
        };
        // The list counts deleted rows too, so their codes must be subtracted. A value without remaining rows is
        // dropped.
        let codes_known = chunk.distinct().unwrap_or_default() + usize::from(chunk.null_count() > 0);
        let codes = codes.get_or_insert_with(|| (0..codes_known as u32).collect());
        let mut weights: Vec<u64> = chunk.take_counts(codes)?.into_iter().map(u64::from).collect();
        let mut positions = Vec::with_capacity(deleted.len() as usize);
        each_position(deleted, 0..block.rows(), |position| positions.push(position));
        let mut deleted_codes = Vec::new();
        chunk.take_codes(&positions, &mut deleted_codes)?;
        let too_many = || Error::corrupt("more rows have a value than the list says");
        let mut deleted_rows = vec![0_u64; codes_known];
        for code in deleted_codes {
            *deleted_rows.get_mut(code as usize).ok_or_else(too_many)? += 1;
        }
        for (code, weight) in codes.iter().zip(&mut weights) {
            *weight = weight.checked_sub(deleted_rows[*code as usize]).ok_or_else(too_many)?;
        }
        let mut left = weights.iter().map(|weight| *weight > 0);
        codes.retain(|_| left.next().unwrap_or(false));
        weights.retain(|weight| *weight > 0);
        Ok(Some(ValueList::of_counted(chunk, std::mem::take(codes), weights)))
    }

    /// The values of the rows that pass a filter on any columns.
    fn of_rows(
        table: &TableDef,
        block: &Arc<Block>,
        filter: &Filter,
        chunk: Arc<Chunk>,
        reads: &Arc<ReadMeter>,
    ) -> Result<ValueList> {
        let state = BlockState::new(block, table, filter, reads);
        let shared = Arc::new(SharedBlock { state, filters: BlockFilters::default() });
        let rows = PartRows::of_slice(table, &[], shared, filter, 0..block.rows())?;
        let (codes, weights) = counted(rows.codes_in(&chunk)?);
        Ok(ValueList::of_counted(chunk, codes, weights))
    }

    fn of_counted(chunk: Arc<Chunk>, codes: Vec<u32>, weights: Vec<u64>) -> ValueList {
        ValueList { chunk, codes: Some(Arc::new(codes)), weights: Some(Arc::new(weights)), rows: None }
    }

    /// The values of a chunk that has a list, without their rows. With `codes`, which must ascend, only those values.
    pub(crate) fn of_chunk(chunk: Arc<Chunk>, codes: Option<Vec<u32>>) -> ValueList {
        ValueList { chunk, codes: codes.map(Arc::new), weights: None, rows: None }
    }

    /// The values at `places`, which must ascend. `weights` has the number of rows that each represents.
    pub(super) fn at(&self, places: &[u32], weights: Vec<u64>) -> ValueList {
        let codes = match &self.codes {
            Some(codes) => places.iter().map(|place| codes[*place as usize]).collect(),
            None => places.to_vec(),
        };
        ValueList::of_counted(Arc::clone(&self.chunk), codes, weights)
    }

    /// The values that pass a filter, which must read this column alone.
    pub(super) fn only(&self, filter: &Filter) -> Result<ValueList> {
        let passing = codes_that_pass(&self.chunk, filter)?.ok_or_else(ValueList::none)?.to_codes();
        let Some(codes) = &self.codes else {
            return Ok(ValueList { codes: Some(Arc::new(passing)), rows: None, ..self.clone() });
        };
        let places: Vec<usize> = passing.iter().filter_map(|code| codes.binary_search(code).ok()).collect();
        let of_places = |weights: &Arc<Vec<u64>>| Arc::new(places.iter().map(|place| weights[*place]).collect());
        Ok(ValueList {
            chunk: Arc::clone(&self.chunk),
            weights: self.weights.as_ref().map(of_places),
            codes: Some(Arc::new(places.iter().map(|place| codes[*place]).collect())),
            rows: None,
        })
    }

    fn none() -> Error {
        Error::internal("a chunk without a value list")
    }

    /// The number of values that are in, including NULL.
    pub(crate) fn len(&self) -> usize {
        let all = self.chunk.distinct().unwrap_or_default() + usize::from(self.chunk.null_count() > 0);
        self.codes.as_ref().map_or(all, |codes| codes.len())
    }

    /// The number of values that are in, without NULL.
    pub(super) fn len_without_null(&self) -> usize {
        let all = self.chunk.distinct().unwrap_or_default();
        match &self.codes {
            Some(codes) => codes.len() - usize::from(codes.last().is_some_and(|last| *last as usize == all)),
            None => all,
        }
    }

    /// The number of rows that all values represent together, if no row was left out.
    pub(super) fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// Bytes of memory of the list itself.
    pub(super) fn bytes(&self) -> u64 {
        let codes = self.codes.as_ref().map_or(0, |codes| codes.capacity() * size_of::<u32>());
        let weights = self.weights.as_ref().map_or(0, |weights| weights.capacity() * size_of::<u64>());
        (codes + weights) as u64
    }

    /// Bytes that `values` of the values take in an array, approximately.
    pub(super) fn value_bytes(&self, values: usize) -> Result<usize> {
        self.chunk.value_bytes(values)
    }

    /// The number of values that are less than the bound of `set`.
    pub(super) fn places_below(&self, set: &ValueSet) -> Result<usize> {
        let below = self.chunk.codes_of(set)?.as_ref().map_or(0, CodeSet::count);
        Ok(self.codes.as_ref().map_or(below, |codes| codes.partition_point(|code| (*code as usize) < below)))
    }

    /// The values at `places`, which must ascend.
    pub(super) fn values_at(&self, places: &[u32]) -> Result<ArrayRef> {
        match &self.codes {
            Some(codes) => self.chunk.values_at(&places.iter().map(|place| codes[*place as usize]).collect::<Vec<_>>()),
            None => self.chunk.values_at(places),
        }
    }

    /// All values. Keeps the decoded list for the next call.
    pub(super) fn all_values(&self) -> Result<ArrayRef> {
        match &self.codes {
            Some(codes) => self.chunk.values_at(codes),
            None => listed(&self.chunk)?.ok_or_else(ValueList::none),
        }
    }

    /// Some of the values, without keeping anything. NULL is the last value.
    pub(crate) fn values(&self, places: Range<usize>) -> Result<ArrayRef> {
        let Some(codes) = &self.codes else { return self.chunk.values_in(places) };
        let ([first, .., last] | [first @ last]) = &codes[places.clone()] else { return self.chunk.values_in(0..0) };
        let (codes, span) = (&codes[places], (last - first) as usize + 1);
        // Decode a few scattered codes one by one, but dense codes as one range that is then thinned out.
        if codes.len() * VALUES_PER_PICK < span {
            return self.chunk.values_at(codes);
        }
        let values = self.chunk.values_in(*first as usize..*last as usize + 1)?;
        match codes.len() == span {
            true => Ok(values),
            false => take(&values, &codes.iter().map(|code| code - first).collect::<Vec<_>>()),
        }
    }

    /// Appends the numbers of rows that some of the values represent.
    pub(super) fn weights(&self, places: Range<usize>, weights: &mut Vec<u64>) -> Result<()> {
        let counts = match (&self.weights, &self.codes) {
            (Some(of_all), _) => {
                weights.extend_from_slice(&of_all[places]);
                return Ok(());
            }
            (None, Some(codes)) => match &codes[places] {
                [] => return Ok(()),
                codes @ ([first, .., last] | [first @ last]) => {
                    let span = (last - first) as usize + 1;
                    if span > codes.len() * VALUES_PER_PICK {
                        self.chunk.take_counts(codes)?
                    } else {
                        let counts = self.chunk.counts_in(*first as usize..*last as usize + 1)?;
                        match codes.len() == span {
                            true => counts,
                            false => codes.iter().map(|code| counts[(code - first) as usize]).collect(),
                        }
                    }
                }
            },
            (None, None) => self.chunk.counts_in(places)?,
        };
        weights.extend(counts.into_iter().map(u64::from));
        Ok(())
    }
}

/// The number of counter cells that can be filled in the time in which one code is sorted. With 4, 8 and 16 cells,
/// 100,000 codes take 8.6, 10.2 and 12.8 ns each, and 10.7 ns by sorting; 1,000 codes take 2.3, 3.3 and 5.4 ns, and 6.0
/// ns.
const CELLS_PER_CODE: usize = 8;

/// The distinct codes, ascending. Replaces each of `codes` by the index of its value among these.
pub(super) fn numbered(codes: &mut [u32]) -> Vec<u32> {
    let cells = codes.iter().max().map_or(0, |greatest| *greatest as usize + 1);
    if codes.len() * CELLS_PER_CODE < cells {
        let mut used = codes.to_vec();
        used.sort_unstable();
        used.dedup();
        codes.iter_mut().for_each(|code| *code = used.partition_point(|other| other < code) as u32);
        return used;
    }
    let mut places = vec![0_u32; cells];
    codes.iter().for_each(|code| places[*code as usize] = 1);
    let mut used = Vec::new();
    for (code, place) in (0..).zip(&mut places).filter(|(_, place)| **place > 0) {
        *place = used.len() as u32;
        used.push(code);
    }
    codes.iter_mut().for_each(|code| *code = places[*code as usize]);
    used
}

/// The distinct codes, ascending, and how often each occurs.
fn counted(mut codes: Vec<u32>) -> (Vec<u32>, Vec<u64>) {
    let cells = codes.iter().max().map_or(0, |greatest| *greatest as usize + 1);
    if codes.len() * CELLS_PER_CODE < cells {
        codes.sort_unstable();
        return codes.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64)).unzip();
    }
    let mut counts = vec![0_u32; cells];
    codes.iter().for_each(|code| counts[*code as usize] += 1);
    (0..).zip(counts).filter(|(_, count)| *count > 0).map(|(code, count)| (code, u64::from(count))).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_counted_by_cells_or_by_sorting() {
        assert_eq!(counted(vec![3, 1, 3]), (vec![1, 3], vec![1, 2]));
        assert_eq!(counted(vec![70_000, 1, 70_000]), (vec![1, 70_000], vec![1, 2]));
        assert_eq!(counted(Vec::new()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn codes_are_numbered_by_cells_or_by_sorting() {
        for (codes, used, numbers) in [
            (vec![3, 1, 3, 0], vec![0, 1, 3], vec![2, 1, 2, 0]),
            (vec![70_000, 1, 70_000], vec![1, 70_000], vec![1, 0, 1]),
            (vec![], vec![], vec![]),
        ] {
            let mut found = codes.clone();
            assert_eq!(numbered(&mut found), used);
            assert_eq!(found, numbers);
        }
    }
}
