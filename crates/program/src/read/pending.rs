//! Rows of a lookup that wait for their rows of the next lookup.
//!
//! A look-up in a large table mostly waits for memory, and several look-ups at once wait together. So if the next
//! lookup finds one row by a primary key, the loops collect some rows, look up the rows of all of them, and then go on
//! with one after the other.

use std::sync::Arc;

use rowmill_base::{Result, SqlType, recycled};
use rowmill_plan::program::LookupKind;
use rowmill_storage::keyed::ValueRef;

use super::{CompiledSource, Lookup, LoopLevel, Match, MatchTaker, ReadRun, RunTests};
use crate::access::{RowPace, RowTaker};
use crate::expr::Env;
use crate::result_rows::ResultRows;
use crate::texts::ComputedTexts;

/// Copies of the values of some rows.
#[derive(Debug, Default)]
pub(super) struct PendingRows {
    rows: ResultRows,
    /// The number of rows that wait at most.
    rows_max: usize,
    pace: RowPace,
    values: Vec<ValueRef<'static>>,
    /// For each row, the place of its key among those that are looked up, if it has one.
    places: Vec<Option<usize>>,
}

impl PendingRows {
    /// Removes all rows. The rows that follow have columns of the types `kinds`. `first` is the number of rows that the
    /// statement will probably need.
    pub(super) fn start(&mut self, kinds: &Arc<[SqlType]>, first: usize) {
        self.rows.start(kinds);
        self.pace = RowPace::new(first);
        self.rows_max = self.pace.next();
    }

    /// Adds a row. Returns whether it is time to go on with all rows.
    pub(super) fn push(&mut self, values: &[ValueRef<'_>]) -> bool {
        values.iter().for_each(|value| self.rows.push(*value));
        self.rows.end_row();
        self.rows.len() >= self.rows_max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Sets `values` to those of a row.
    fn read<'a>(rows: &'a ResultRows, row: usize, values: &mut Vec<ValueRef<'a>>) {
        values.clear();
        values.extend((0..rows.kinds().len()).map(|column| rows.get(row, column)));
    }
}

impl Lookup {
    /// Whether it finds at most one row, by a primary key.
    pub(super) fn finds_one_by_key(&self) -> bool {
        matches!(self.kind, LookupKind::Inner | LookupKind::Left)
            && matches!(&self.source, CompiledSource::Table(access) if access.is_one_point())
    }

    /// Whether the loop over it may have several rows that can wait.
    pub(super) fn gives_several(&self) -> bool {
        let is_one = matches!(&self.source, CompiledSource::Table(access) if access.is_one_row());
        matches!(self.kind, LookupKind::Inner | LookupKind::Left) && !is_one
    }
}

impl ReadRun<'_> {
    /// Continues the loops of `lookups` for all rows that wait, and empties them. Returns whether the sink wants more
    /// rows.
    pub(super) fn go_on(
        &mut self,
        pending: &mut PendingRows,
        lookups: &[Lookup],
        levels: &mut [LoopLevel],
    ) -> Result<bool> {
        let (lookup, lookups) = lookups.split_first().expect("rows wait only for a further lookup");
        let (level, levels) = levels.split_first_mut().expect("there is a level for each lookup");
        let CompiledSource::Table(access) = &lookup.source else {
            unreachable!("rows wait only for the rows of a table")
        };
        let PendingRows { rows, values, places, .. } = &mut *pending;
        let (parameters, reader) = (self.parameters, self.reader);
        let mut values: Vec<ValueRef<'_>> = recycled(std::mem::take(values));
        let mut found = std::mem::take(&mut level.access.lookups);
        found.clear();
        places.clear();
        for row in 0..rows.len() {
            PendingRows::read(rows, row, &mut values);
            let env = Env { columns: &values, parameters, texts: &ComputedTexts::default() };
            let key = access.find_point(env, &mut level.access)?;
            places.push(key.map(|key| {
                found.push(key);
                found.len() - 1
            }));
        }
        reader.look_up(&mut found)?;
        let mut goes_on = true;
        for (row, place) in places.iter().enumerate() {
            PendingRows::read(rows, row, &mut values);
            let mut matches = 0;
            if let Some((key, Some(row))) = place.map(|place| found.get(place)) {
                let LoopLevel { access: scratch, columns, texts, .. } = &mut *level;
                let each = |run: &mut Self, found: Match<'_>| {
                    matches += 1;
                    run.loop_over(lookups, levels, found.values)
                };
                let outer = &values[..];
                let of_run = RunTests::Unusable;
                let mut taker = MatchTaker { run: self, lookup, outer, asks_like: false, columns, texts, of_run, each };
                goes_on = taker.take(access.found_row(key, row, scratch), false)?;
            }
            if matches == 0 && lookup.kind == LookupKind::Left {
                goes_on =
                    self.without_values(lookup, level, &values, None, |run, row| run.loop_over(lookups, levels, row))?;
            }
            if !goes_on {
                break;
            }
        }
        level.access.lookups = found;
        pending.values = recycled(values);
        let rows_max = pending.pace.next();
        let kinds = Arc::clone(pending.rows.kinds());
        pending.rows.start(&kinds);
        pending.rows_max = rows_max;
        Ok(goes_on)
    }
}
