//! Totals of a block whose rows have few groups, some rows at a time.
//!
//! ```text
//!   columns ── integers of a piece ── steps of all expressions ──┐
//!                                                                ├── a loop for each total and group: load, add
//!   groups  ── places of the rows of each group ─────────────────┘
//! ```
//!
//! A piece is small enough that all of it stays in a core's caches. To add each row to the cell of its group would wait for
//! what was added there before; rows that are put together by group first cost one load more, whatever the groups are, and that
//! is done once for all totals. Rows that are left out have no place in any group: where most rows are in, all are computed, and
//! no column is copied for the sake of a few that are not.

use std::ops::Range;

use rowmill_base::{Error, Result};
use rowmill_storage::chunk::Chunk;

use super::rows::Words;
use crate::arithmetic::SharedSteps;

/// Rows of a piece: a power of two, and a multiple of the rows that are unpacked at once.
pub(super) const PIECE_ROWS: usize = 1 << 11;

/// Groups that are few.
pub(super) const GROUPS_MAX: usize = 32;

/// Neighbours are put into lanes in turn: a lane's next place waits for that of the row before.
const LANES: usize = 4;
const LANE_ROWS: usize = PIECE_ROWS / LANES;

/// Of the rows of a piece one of so many has to be in for all to be computed.
const ALL_FROM_ONE_OF: usize = 2;

/// Expressions that are computed of some rows of a block at a time.
pub(super) struct WordPieces<'a> {
    /// The rows.
    pub(super) range: Range<usize>,
    /// Those that are in, where not all are.
    pub(super) positions: Option<&'a [u32]>,
    pub(super) columns: Vec<(usize, &'a Chunk)>,
    pub(super) steps: SharedSteps,
    /// By expression; none of those that are not computed so.
    pub(super) results: Vec<Option<usize>>,
}

/// Some rows that are in, and the values of the block that are read for them.
struct PieceRows<'a> {
    /// Their numbers among those that are in.
    rows: Range<usize>,
    read: Read<'a>,
}

/// The values that are read of a block.
enum Read<'a> {
    All(Range<usize>),
    Some(&'a [u32]),
}

impl<'a> WordPieces<'a> {
    /// Adds an expression and says the number of its result.
    pub(super) fn add(&mut self, words: &Words<'a>) -> usize {
        for (column, chunk) in &words.columns {
            if !self.columns.iter().any(|(known, _)| known == column) {
                self.columns.push((*column, *chunk));
            }
        }
        let place_of = |(column, _): &(usize, &Chunk)| self.columns.iter().position(|(known, _)| known == column);
        let places: Vec<usize> = words.columns.iter().filter_map(place_of).collect();
        self.steps.add(words.arithmetic, &places)
    }

    /// Calls `each` with the rows of each of `groups` groups in a piece and the values of all results there. `of_rows` has the
    /// group of each row that is in.
    pub(super) fn for_each(
        &self,
        of_rows: &[u32],
        groups: usize,
        mut each: impl FnMut(&ByGroup, &[&[i64; PIECE_ROWS]]) -> Result<()>,
    ) -> Result<()> {
        if groups > GROUPS_MAX {
            return Err(Error::internal(format!("{groups} groups are not few")));
        }
        let mut columns: Vec<Vec<i64>> = self.columns.iter().map(|_| Vec::with_capacity(PIECE_ROWS)).collect();
        let mut computed = Vec::new();
        let mut by_group = ByGroup::new();
        let mut start = 0;
        while start < of_rows.len() {
            let PieceRows { rows, read } = self.piece(start, of_rows.len());
            start = rows.end;
            let count = match &read {
                Read::All(range) => range.len(),
                Read::Some(positions) => positions.len(),
            };
            for (out, (_, chunk)) in columns.iter_mut().zip(&self.columns) {
                out.clear();
                match &read {
                    Read::All(range) => chunk.integers(range.clone(), out)?,
                    Read::Some(positions) => chunk.take_integers(positions, out)?,
                }
                out.resize(PIECE_ROWS, 0);
            }
            self.steps.evaluate(&columns, count, &mut computed);
            computed.iter_mut().for_each(|values: &mut Vec<i64>| values.resize(PIECE_ROWS, 0));
            match (&read, self.positions) {
                (Read::All(range), Some(positions)) => {
                    let places = positions[rows.clone()].iter().map(|row| *row as usize - range.start);
                    by_group.fill(&of_rows[rows], places);
                }
                _ => by_group.fill(&of_rows[rows.clone()], 0..rows.len()),
            }
            let result = |number: &usize| self.steps.result(*number, &columns, &computed).first_chunk();
            let results: Option<Vec<&[i64; PIECE_ROWS]>> = self.results.iter().flatten().map(result).collect();
            each(&by_group, &results.ok_or_else(|| Error::internal("a piece that is too short"))?)?;
        }
        Ok(())
    }

    /// The next rows from `start` of `rows` on.
    fn piece(&self, start: usize, rows: usize) -> PieceRows<'a> {
        let end = (start + PIECE_ROWS).min(rows);
        let Some(positions) = self.positions else {
            let all = self.range.start + start..self.range.start + end;
            return PieceRows { rows: start..end, read: Read::All(all) };
        };
        let first = (positions[start] as usize / PIECE_ROWS * PIECE_ROWS).max(self.range.start);
        let all = first..(first / PIECE_ROWS * PIECE_ROWS + PIECE_ROWS).min(self.range.end);
        let within = positions[start..end].partition_point(|row| (*row as usize) < all.end);
        match within * ALL_FROM_ONE_OF >= all.len() {
            true => PieceRows { rows: start..start + within, read: Read::All(all) },
            false => PieceRows { rows: start..end, read: Read::Some(&positions[start..end]) },
        }
    }
}

/// The places of rows of a piece, by group and lane.
pub(super) struct ByGroup {
    places: Box<[u16; GROUPS_MAX * PIECE_ROWS]>,
    lens: [usize; GROUPS_MAX * LANES],
}

impl ByGroup {
    fn new() -> ByGroup {
        let places = vec![0; GROUPS_MAX * PIECE_ROWS].into_boxed_slice();
        ByGroup { places: places.try_into().expect("as many as there are"), lens: [0; GROUPS_MAX * LANES] }
    }

    /// Takes the rows of another piece in place of those of the last.
    fn fill(&mut self, groups: &[u32], mut places: impl Iterator<Item = usize>) {
        self.lens.fill(0);
        let mut put = |lane: usize, group: u32, place: usize| {
            let slot = group as usize % GROUPS_MAX * LANES + lane;
            let len = &mut self.lens[slot];
            self.places[slot * LANE_ROWS + *len % LANE_ROWS] = place as u16;
            *len += 1;
        };
        let (chunks, rest) = groups.as_chunks::<LANES>();
        for groups in chunks {
            for (lane, group) in groups.iter().enumerate() {
                put(lane, *group, places.next().unwrap_or_default());
            }
        }
        for (lane, (group, place)) in rest.iter().zip(places).enumerate() {
            put(lane, *group, place);
        }
    }

    /// The places of a group, lane by lane.
    fn lanes(&self, group: usize) -> impl Iterator<Item = &[u16]> {
        (group * LANES..(group + 1) * LANES).map(|slot| &self.places[slot * LANE_ROWS..][..self.lens[slot]])
    }

    /// The rows of a group.
    pub(super) fn count(&self, group: usize) -> usize {
        self.lens[group * LANES..(group + 1) * LANES].iter().sum()
    }

    /// The total of the values of the rows of a group, which must fit.
    pub(super) fn total(&self, group: usize, values: &[i64; PIECE_ROWS]) -> i64 {
        let total = |places: &[u16]| {
            places.iter().fold(0_i64, |total, place| total.wrapping_add(values[*place as usize % PIECE_ROWS]))
        };
        self.lanes(group).map(total).fold(0, i64::wrapping_add)
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
                assert_eq!(by_group.total(group, values), places.iter().map(|place| values[*place]).sum::<i64>());
            }
        }
    }
}
