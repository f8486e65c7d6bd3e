//! Adds rows to cells.
//!
//! Rows are taken a thousand at a time: numbers that come as codes are looked up, rows that do not count are dropped,
//! and the remaining numbers go through one short loop.

use std::ops::Range;

use arrow::buffer::BooleanBuffer;
use rowmill_base::{Error, Reservation, Result};

use super::log::LogRows;
use super::numbers::StateNumbers;
use super::text::BestTexts;
use super::{Inputs, StateCell, States};
use crate::aggregate::{Count, Fold, add_to_many, add_to_one};
use crate::cache::L1_BYTES;
use crate::group::texts::TextStore;

/// The rows whose numbers are looked up or written at once. The numbers have up to 16 bytes and fit half of the
/// first-level cache.
pub(super) const ROWS_AT_ONCE: usize = L1_BYTES / 2 / size_of::<i128>();

/// Rows of a block or batch that go into groups.
#[derive(Clone)]
pub(crate) struct Grouped<'a> {
    /// Their positions.
    pub(in crate::group) rows: Range<usize>,
    /// The group of each row; `None` if all rows belong to the first group.
    pub(in crate::group) groups: Option<&'a [u32]>,
    /// The number of rows that each row of the block or batch represents.
    pub(in crate::group) weights: Option<&'a [u64]>,
}

/// Groups in memory: rows of `stride` words, with the words of the aggregates at `at`.
pub(crate) struct Groups<'a> {
    pub(in crate::group) words: &'a mut [u64],
    pub(in crate::group) stride: usize,
    pub(in crate::group) at: usize,
}

impl Groups<'_> {
    /// The number of groups.
    pub(super) fn count(&self) -> usize {
        self.words.len() / self.stride
    }

    /// The words of a cell of one group from `offset` on.
    #[inline(always)]
    pub(super) fn cell(&mut self, group: u32, offset: usize) -> &mut [u64] {
        &mut self.words[group as usize * self.stride + self.at + offset..]
    }
}

/// The data that groups keep outside of their words, and the buffers that adding rows needs.
#[derive(Debug)]
pub(in crate::group) struct Beside {
    pub(in crate::group) texts: TextStore,
    pub(in crate::group) logs: Vec<LogRows>,
    best: BestTexts,
}

impl Beside {
    /// Makes empty stores. Each takes its memory from a reservation that `memory` makes.
    pub(in crate::group) fn new(states: &States, memory: impl Fn() -> Reservation) -> Beside {
        Beside {
            texts: TextStore::new(memory()),
            logs: states.logs.iter().map(|_| LogRows::new(memory())).collect(),
            best: BestTexts::default(),
        }
    }
}

impl States {
    /// Adds rows to some parts of their groups.
    pub(in crate::group) fn add(
        &self,
        parts: impl Iterator<Item = usize>,
        inputs: &Inputs<'_>,
        rows: &Grouped<'_>,
        groups: &mut Groups<'_>,
        beside: &mut Beside,
    ) -> Result<()> {
        let Beside { texts, logs, best } = beside;
        for part in parts {
            // Parts after the cells are logs.
            let Some(cell) = self.cells.get(part) else {
                let number = part - self.cells.len();
                let log = &self.logs[number];
                let mask = log.reads().mask.and_then(|mask| inputs.masks[mask].as_ref());
                let Some(values) = &inputs.logged[number] else {
                    return Err(Error::internal("a log reads an argument that was not prepared"));
                };
                logs[number].add(log, values, mask, rows, groups.count(), texts)?;
                continue;
            };
            match cell.operation.is_of_texts() {
                true => self.add_texts(cell, inputs, rows, groups, (texts, best))?,
                false => self.add_numbers(cell, inputs, rows, groups)?,
            }
        }
        Ok(())
    }

    /// Adds rows to a cell that keeps no texts.
    pub(super) fn add_numbers(
        &self,
        cell: &StateCell,
        inputs: &Inputs<'_>,
        rows: &Grouped<'_>,
        groups: &mut Groups<'_>,
    ) -> Result<()> {
        let Some((numbers, places, _)) = self.operand(cell, inputs)? else {
            cell.count(cell.mask.and_then(|mask| inputs.masks[mask].as_ref()), rows, groups);
            return Ok(());
        };
        let Some(fold) = cell.operation.fold() else { return Err(Error::internal("texts are no numbers")) };
        let is_bad = fold.add(numbers, &places, rows, groups, cell.offset)?;
        if is_bad { Err(cell.total_out_of_range()) } else { Ok(()) }
    }

    fn add_texts(
        &self,
        cell: &StateCell,
        inputs: &Inputs<'_>,
        rows: &Grouped<'_>,
        groups: &mut Groups<'_>,
        (texts, best): (&mut TextStore, &mut BestTexts),
    ) -> Result<()> {
        match self.operand(cell, inputs)? {
            Some((numbers, places, is_list)) => cell.add_texts((numbers, is_list), &places, rows, groups, texts, best),
            None => Err(Error::internal("MIN or MAX of texts got other values")),
        }
    }

    /// The numbers that a cell takes, where they are, and whether they form a value list; `None` if the cell only
    /// counts.
    fn operand<'i>(
        &self,
        cell: &StateCell,
        inputs: &'i Inputs<'_>,
    ) -> Result<Option<(&'i StateNumbers, ValuePlaces<'i>, bool)>> {
        let Some(operand) = cell.operand else { return Ok(None) };
        let (Some(values), Some(numbers)) = (&inputs.values[self.operands[operand].argument], &inputs.numbers[operand])
        else {
            return Err(Error::internal("an aggregate reads an argument that was not prepared"));
        };
        let mask = cell.mask.and_then(|mask| inputs.masks[mask].as_ref());
        let codes = values.codes.as_ref().map(|codes| codes.as_slice());
        Ok(Some((numbers, ValuePlaces { codes, mask }, values.is_list)))
    }
}

impl StateCell {
    /// Counts the rows that are in the mask.
    fn count(&self, mask: Option<&BooleanBuffer>, rows: &Grouped<'_>, groups: &mut Groups<'_>) {
        let start = rows.rows.start;
        let group = |row: usize| rows.groups.map_or(0, |groups| groups[row - start]);
        let weight = |row: usize| rows.weights.map_or(1, |weights| weights[row]);
        match (mask, rows.groups, rows.weights) {
            (None, None, None) => groups.cell(0, self.offset)[0] += rows.rows.len() as u64,
            // Counting takes numbers without content, so this vector needs no memory.
            (None, Some(of_rows), None) => {
                let rows = vec![(); of_rows.len()];
                add_to_many::<Count>(&rows, of_rows, groups.words, groups.stride, groups.at + self.offset);
            }
            (None, ..) => rows.rows.clone().for_each(|row| groups.cell(group(row), self.offset)[0] += weight(row)),
            (Some(mask), ..) => mask
                .slice(start, rows.rows.len())
                .set_indices()
                .for_each(|row| groups.cell(group(start + row), self.offset)[0] += weight(start + row)),
        }
    }
}

/// Says where the values of rows are, and which rows count.
pub(crate) struct ValuePlaces<'a> {
    pub(super) codes: Option<&'a [u32]>,
    pub(super) mask: Option<&'a BooleanBuffer>,
}

impl ValuePlaces<'_> {
    /// Calls `take` for each row that counts, with its distance from the start of `rows` and the index of its value.
    #[inline(always)]
    pub(super) fn each(&self, rows: &Range<usize>, mut take: impl FnMut(usize, usize)) {
        let start = rows.start;
        let place = |row: usize| self.codes.map_or(row, |codes| codes[row] as usize);
        match self.mask {
            None => rows.clone().for_each(|row| take(row - start, place(row))),
            Some(mask) => {
                mask.slice(start, rows.len()).set_indices().for_each(|row| take(row, place(start + row)));
            }
        }
    }

    /// Adds the numbers of rows to the cells at `offset` of their groups. Returns whether a total left its type.
    pub(crate) fn add<F: Fold>(
        &self,
        numbers: &[F::Number],
        rows: &Grouped<'_>,
        groups: &mut Groups<'_>,
        offset: usize,
    ) -> bool {
        let Grouped { rows: range, groups: of_rows, weights } = rows;
        if let Some(weights) = weights {
            let mut is_bad = false;
            self.each(range, |row, place| {
                let words = groups.cell(of_rows.map_or(0, |of_rows| of_rows[row]), offset);
                let mut cell = F::load(words);
                // One step per weight: for example, the value of a list entry with weight 5 counts five times.
                is_bad |= cell.take_times(numbers[place], weights[range.start + row]);
                cell.store(words);
            });
            return is_bad;
        }
        // All values in row order: no lookups are needed.
        if self.codes.is_none() && self.mask.is_none() {
            return add_all::<F>(&numbers[range.clone()], *of_rows, groups, offset);
        }
        let mut is_bad = false;
        // First gather the numbers of up to a thousand rows into an array. The loop that adds them then needs no
        // lookups.
        let (mut some, mut of_some) = ([F::Number::default(); ROWS_AT_ONCE], [0; ROWS_AT_ONCE]);
        for first in range.clone().step_by(ROWS_AT_ONCE) {
            let rows = first..(first + ROWS_AT_ONCE).min(range.end);
            let of_rows = of_rows.map(|of_rows| &of_rows[first - range.start..]);
            if let (Some(codes), None) = (self.codes, self.mask) {
                some.iter_mut().zip(&codes[rows.clone()]).for_each(|(number, code)| *number = numbers[*code as usize]);
                let of_rows = of_rows.map(|of_rows| &of_rows[..rows.len()]);
                is_bad |= add_all::<F>(&some[..rows.len()], of_rows, groups, offset);
                continue;
            }
            let mut count = 0;
            self.each(&rows, |row, place| {
                some[count] = numbers[place];
                of_some[count] = of_rows.map_or(0, |of_rows| of_rows[row]);
                count += 1;
            });
            is_bad |= add_all::<F>(&some[..count], of_rows.map(|_| &of_some[..count]), groups, offset);
        }
        is_bad
    }
}

fn add_all<F: Fold>(numbers: &[F::Number], of_numbers: Option<&[u32]>, groups: &mut Groups<'_>, offset: usize) -> bool {
    match of_numbers {
        None => add_to_one::<F>(numbers, groups.cell(0, offset)),
        Some(of_numbers) => add_to_many::<F>(numbers, of_numbers, groups.words, groups.stride, groups.at + offset),
    }
}
