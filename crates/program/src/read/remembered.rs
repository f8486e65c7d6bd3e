//! The rows that nested reads gave for earlier outer rows.
//!
//! Many outer rows often have few different values, for example the kinds of a member's entries. So from some runs on
//! we keep the rows of each run with the outer values that it had. If few look-ups find their values, we stop, because
//! each of them has a cost and saves no read.

use std::collections::HashMap;
use std::ops::Range;

use rowmill_storage::keyed::ValueRef;

use super::outer_columns::OuterColumns;
use crate::result_rows::ResultRows;

/// Runs before the rows of further runs are kept. A read with fewer outer rows pays nothing.
const RUNS_BEFORE: usize = 8;

/// Further runs after which the look-ups must have saved at least a quarter as many.
const RUNS_TRIED: usize = 32;

/// A run with more rows is not kept, because its rows must be copied.
const ROWS_MAX: usize = 16;

/// With more bytes of kept rows, all are forgotten. It is half of a first-level cache.
const BYTES_MAX: usize = 16 << 10;

/// Rows of some runs of nested reads, by the values of the outer columns to which the reads refer.
#[derive(Debug, Default)]
pub(super) struct RememberedRows {
    runs: usize,
    found: usize,
    /// The number of a kept run, by the hash of its outer values.
    by_hash: HashMap<u64, usize>,
    /// The outer values of each kept run.
    outer: ResultRows,
    /// The place in `rows` of the rows of each kept run.
    places: Vec<Range<usize>>,
    rows: ResultRows,
    key: Vec<u8>,
}

impl RememberedRows {
    /// Forgets all rows, because they are those of another snapshot or of other parameters.
    pub(super) fn clear(&mut self) {
        if self.runs > 0 {
            (self.runs, self.found) = (0, 0);
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.by_hash.clear();
        self.places.clear();
    }

    /// The kept rows of all runs.
    pub(super) fn rows(&self) -> &ResultRows {
        &self.rows
    }

    fn keeps(&self, columns: &OuterColumns) -> bool {
        let pays = self.runs < RUNS_BEFORE + RUNS_TRIED || self.found * 4 >= self.runs;
        self.runs >= RUNS_BEFORE && pays && columns.are_ordered()
    }

    /// The place in [`rows`](Self::rows) of the rows for an outer row with these values, if they are kept.
    pub(super) fn find(&mut self, columns: &OuterColumns, values: &[ValueRef<'_>]) -> Option<Range<usize>> {
        if !self.keeps(columns) {
            return None;
        }
        let run = *self.by_hash.get(&columns.hash(values, &mut self.key))?;
        // Other values may have the same hash.
        if !columns.are_those_of(&self.outer, run, values) {
            return None;
        }
        self.found += 1;
        Some(self.places[run].clone())
    }

    /// Notes a run for an outer row with these values, which gave `rows`.
    pub(super) fn note_run(&mut self, columns: &OuterColumns, values: &[ValueRef<'_>], rows: &ResultRows) {
        self.runs += 1;
        if !self.keeps(columns) || rows.len() > ROWS_MAX {
            return;
        }
        if self.rows.bytes() + self.outer.bytes() > BYTES_MAX {
            self.forget();
        }
        if self.places.is_empty() {
            self.rows.start(rows.kinds());
            columns.start(&mut self.outer);
        }
        self.by_hash.insert(columns.hash(values, &mut self.key), self.places.len());
        columns.append(values, &mut self.outer);
        let start = self.rows.len();
        self.rows.append(rows);
        self.places.push(start..self.rows.len());
    }
}
