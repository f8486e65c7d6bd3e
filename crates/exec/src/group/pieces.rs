//! Totals of a block whose rows have few groups, computed piece by piece.
//!
//! ```text
//!   columns ── integers of a piece ── steps of all expressions ──┐
//!                                                                ├── a loop for each total and group: load, add
//!   groups  ── places of the rows of each group ─────────────────┘
//! ```
//!
//! A piece is small enough that all of it stays in a core's caches. Adding each row to the cell of its group would wait
//! until the previous sum there is stored. Sorting the rows of a piece by group costs only one more load per row,
//! whatever the groups are, and it is done once for all totals. Rows that are left out belong to no group. If most rows
//! of a piece are in, we compute all of them, so that no column is copied because of the few that are out.

use std::ops::Range;

use rowmill_base::{Error, Result};
use rowmill_storage::chunk::Chunk;

use super::rows::IntegerWords;
use crate::arithmetic::SharedSteps;
use crate::cache::L1_BYTES;

/// Rows of a piece. It must be a power of two and a multiple of the rows that are unpacked at once. The numbers of one
/// column should fit half of the first-level cache.
pub(super) const PIECE_ROWS: usize = L1_BYTES / 2 / size_of::<i64>();
const _: () = assert!(PIECE_ROWS.is_power_of_two() && PIECE_ROWS.is_multiple_of(1024));

/// The greatest number of groups that are added up this way. Each has a cell in each lane, and all rows of a piece are
/// sorted by group; with more groups a lane has only a few rows for each. Sorting by 32, 64 and 128 groups takes 0.6,
/// 0.7 and 1.1 ns per row.
pub(super) const GROUPS_MAX: usize = 32;

/// Neighbouring rows go into different lanes, because the next place in a lane depends on the row before. By 2
/// groups, a row takes 1.0, 0.8, 0.6 and 0.5 ns with 1, 2, 4 and 8 lanes, and by 32 groups 5.2, 2.6, 0.6 and 0.5.
const LANES: usize = 4;
const LANE_ROWS: usize = PIECE_ROWS / LANES;

/// Totals that are added up together. More do not fit the registers of a processor: with 1, 2, 4, 5, 6, 8 and 10 at
/// once, each takes 0.23, 0.14, 0.13, 0.12, 0.12, 0.14 and 0.16 ns per row.
const TOTALS_AT_ONCE: usize = 5;

/// All rows of a piece are computed if at least one in this many is in. At most one row is then computed in vain for
/// each one that is needed, and no row must be picked. With 1, 2 and 8, TPC-H's Q1 takes
/// 31, 26 and 26 ms.
const ALL_FROM_ONE_OF: usize = 2;

/// Expressions that are computed for one piece of a block at a time.
pub(super) struct WordPieces<'a> {
    /// The range of rows.
    pub(super) range: Range<usize>,
    /// The rows that are in; `None` if all are.
    pub(super) positions: Option<&'a [u32]>,
    pub(super) columns: Vec<(usize, &'a Chunk)>,
    pub(super) steps: SharedSteps,
    /// The index of the result by expression; `None` for an expression that is not computed in pieces.
    pub(super) results: Vec<Option<usize>>,
}

/// Some rows that are in, and the positions that must be read for them.
struct PieceRows<'a> {
    /// Their indexes among the rows that are in.
    rows: Range<usize>,
    read: PieceRead<'a>,
}

/// The positions of a block that are read.
enum PieceRead<'a> {
    All(Range<usize>),
    Some(&'a [u32]),
}

impl<'a> WordPieces<'a> {
    /// Adds an expression and returns the index of its result.
    pub(super) fn add(&mut self, words: &IntegerWords<'a>) -> usize {
        for (column, chunk) in &words.columns {
            if !self.columns.iter().any(|(known, _)| known == column) {
                self.columns.push((*column, *chunk));
            }
        }
        let place_of = |(column, _): &(usize, &Chunk)| self.columns.iter().position(|(known, _)| known == column);
        let places: Vec<usize> = words.columns.iter().filter_map(place_of).collect();
        self.steps.add(words.arithmetic, &places)
    }

    /// Calls `each` once per piece, with the piece's rows by group and the values of all results. There are `groups`
    /// groups. `of_rows` has the group of each row that is in.
    pub(super) fn for_each(
        &self,
        of_rows: &[u32],
        groups: usize,
        mut each: impl FnMut(&ByGroup, &[&[i64; PIECE_ROWS]]) -> Result<()>,
    ) -> Result<()> {
        if groups > GROUPS_MAX {
            return Err(Error::internal(format!("{groups} groups are too many to add in pieces")));
        }
        let mut columns: Vec<Vec<i64>> = self.columns.iter().map(|_| Vec::with_capacity(PIECE_ROWS)).collect();
        let mut computed = Vec::new();
        let mut by_group = ByGroup::new();
        let mut start = 0;
        while start < of_rows.len() {
            let PieceRows { rows, read } = self.piece(start, of_rows.len());
            start = rows.end;
            let count = match &read {
                PieceRead::All(range) => range.len(),
                PieceRead::Some(positions) => positions.len(),
            };
            for (out, (_, chunk)) in columns.iter_mut().zip(&self.columns) {
                out.clear();
                match &read {
                    PieceRead::All(range) => chunk.integers(range.clone(), out)?,
                    PieceRead::Some(positions) => chunk.take_integers(positions, out)?,
                }
                // A fixed length lets the loops over the results go without bounds checks.
                out.resize(PIECE_ROWS, 0);
            }
            self.steps.evaluate(&columns, count, &mut computed);
            computed.iter_mut().for_each(|values: &mut Vec<i64>| values.resize(PIECE_ROWS, 0));
            match (&read, self.positions) {
                (PieceRead::All(range), Some(positions)) => {
                    let places = positions[rows.clone()].iter().map(|row| *row as usize - range.start);
                    by_group.fill(&of_rows[rows], places);
                }
                _ => by_group.fill(&of_rows[rows.clone()], 0..rows.len()),
            }
            let result = |number: &usize| self.steps.result(*number, &columns, &computed).first_chunk();
            let results: Option<Vec<&[i64; PIECE_ROWS]>> = self.results.iter().flatten().map(result).collect();
            each(&by_group, &results.ok_or_else(|| Error::internal("a piece has too few rows"))?)?;
        }
        Ok(())
    }

    /// The next piece: the rows from `start` on, out of `rows` rows that are in.
    fn piece(&self, start: usize, rows: usize) -> PieceRows<'a> {
        let end = (start + PIECE_ROWS).min(rows);
        let Some(positions) = self.positions else {
            let all = self.range.start + start..self.range.start + end;
            return PieceRows { rows: start..end, read: PieceRead::All(all) };
        };
        let first = (positions[start] as usize / PIECE_ROWS * PIECE_ROWS).max(self.range.start);
        let all = first..(first / PIECE_ROWS * PIECE_ROWS + PIECE_ROWS).min(self.range.end);
        // Count the rows that are in this aligned piece, to compare it with reading single positions.
        let within = positions[start..end].partition_point(|row| (*row as usize) < all.end);
        match within * ALL_FROM_ONE_OF >= all.len() {
            true => PieceRows { rows: start..start + within, read: PieceRead::All(all) },
            false => PieceRows { rows: start..end, read: PieceRead::Some(&positions[start..end]) },
        }
    }
}

/// The places of rows within a piece, by group and lane.
pub(super) struct ByGroup {
    places: Box<[u16; GROUPS_MAX * PIECE_ROWS]>,
    lens: [usize; GROUPS_MAX * LANES],
}

impl ByGroup {
    fn new() -> ByGroup {
        let places = vec![0; GROUPS_MAX * PIECE_ROWS].into_boxed_slice();
        ByGroup { places: places.try_into().expect("the length is the same"), lens: [0; GROUPS_MAX * LANES] }
    }

    /// Replaces the rows of the previous piece by those of another.
    fn fill(&mut self, groups: &[u32], places: impl Iterator<Item = usize>) {
        self.lens.fill(0);
        for (row, (group, place)) in groups.iter().zip(places).enumerate() {
            // The modulos of group and length change nothing. They spare the bounds checks.
            let slot = *group as usize % GROUPS_MAX * LANES + row % LANES;
            let len = &mut self.lens[slot];
            self.places[slot * LANE_ROWS + *len % LANE_ROWS] = place as u16;
            *len += 1;
        }
    }

    /// The places of the rows of a group, lane by lane.
    fn lanes(&self, group: usize) -> impl Iterator<Item = &[u16]> {
        (group * LANES..(group + 1) * LANES).map(|slot| &self.places[slot * LANE_ROWS..][..self.lens[slot]])
    }

    /// The number of rows of a group.
    pub(super) fn count(&self, group: usize) -> usize {
        self.lens[group * LANES..(group + 1) * LANES].iter().sum()
    }

    /// Replaces `totals` by the totals of the values of a group's rows, one for each of `values`. A total must fit 64
    /// bits, though a part of it may wrap around.
    pub(super) fn totals(&self, group: usize, values: &[&[i64; PIECE_ROWS]], totals: &mut Vec<i64>) {
        totals.clear();
        // Several totals share the load of a place.
        let (chunks, rest) = values.as_chunks();
        chunks.iter().for_each(|values| totals.extend(self.totals_of::<TOTALS_AT_ONCE>(group, values)));
        match *rest {
            [a] => totals.extend(self.totals_of(group, &[a])),
            [a, b] => totals.extend(self.totals_of(group, &[a, b])),
            [a, b, c] => totals.extend(self.totals_of(group, &[a, b, c])),
            [a, b, c, d] => totals.extend(self.totals_of(group, &[a, b, c, d])),
            _ => {}
        }
    }

    fn totals_of<const N: usize>(&self, group: usize, values: &[&[i64; PIECE_ROWS]; N]) -> [i64; N] {
        let mut totals = [0_i64; N];
        for places in self.lanes(group) {
            for place in places {
                for (total, values) in totals.iter_mut().zip(values) {
                    *total = total.wrapping_add(values[*place as usize % PIECE_ROWS]);
                }
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_by_group_are_those_of_rows_one_by_one() {
        let mut by_group = ByGroup::new();
        let values: Vec<i64> = (0..PIECE_ROWS as i64).map(|row| row * row * 1_000_003 - 7).collect();
        let values: &[i64; PIECE_ROWS] = values.first_chunk().expect("a piece");
        for (rows, groups, step) in [(PIECE_ROWS, 1, 1), (PIECE_ROWS, 32, 1), (1_001, 5, 2), (3, 3, 600), (0, 1, 1)] {
            let of_rows: Vec<u32> = (0..rows).map(|row| (row * row % groups) as u32).collect();
            by_group.fill(&of_rows, (0..rows).map(|row| row * step));
            for group in 0..groups {
                let places: Vec<usize> =
                    (0..rows).filter(|row| of_rows[*row] as usize == group).map(|row| row * step).collect();
                assert_eq!(by_group.count(group), places.len());
                let mut totals = Vec::new();
                for values_count in [0, 3, 6] {
                    by_group.totals(group, &vec![values; values_count], &mut totals);
                    let total: i64 = places.iter().map(|place| values[*place]).sum();
                    assert_eq!(totals, vec![total; values_count]);
                }
            }
        }
    }
}
