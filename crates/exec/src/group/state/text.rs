//! Minimum and maximum of texts and blobs.
//!
//! We first find the best row of each group, by comparing codes alone where these have the order of the values. Only
//! the text of this row is compared with the group's text, and copied if it is better.

use std::cmp::Ordering;

use arrow::array::BinaryViewArray;
use rowmill_base::{Error, Result};

use super::add::{Grouped, Groups, ValuePlaces};
use super::numbers::StateNumbers;
use super::{Operation, StateCell, States};
use crate::group::layout::{put_view, view_at};
use crate::group::texts::{TextStore, moved, order_of_views};

/// No value yet.
const NONE: u32 = u32::MAX;

/// The best value of each group while rows are added.
#[derive(Debug, Default)]
pub(super) struct BestTexts {
    /// The index of the value, by group; all must be [`NONE`] between uses.
    best: Vec<u32>,
    /// Groups that have a best value.
    touched: Vec<u32>,
}

impl StateCell {
    /// Whether a text that compares to another one with this result is the better one.
    fn is_better(&self, order: Ordering) -> bool {
        match self.operation {
            Operation::LeastText => order == Ordering::Less,
            _ => order == Ordering::Greater,
        }
    }

    /// Adds the texts of rows. `is_list` says that the texts are sorted, so that their indexes have the same order.
    pub(super) fn add_texts(
        &self,
        (numbers, is_list): (&StateNumbers, bool),
        places: &ValuePlaces<'_>,
        rows: &Grouped<'_>,
        groups: &mut Groups<'_>,
        store: &mut TextStore,
        BestTexts { best, touched }: &mut BestTexts,
    ) -> Result<()> {
        let StateNumbers::Text(array) = numbers else {
            return Err(Error::internal("MIN or MAX of texts got other values"));
        };
        let count = groups.count();
        if best.len() < count {
            best.resize(count, NONE);
        }
        let views = &**array.views();
        places.each(&rows.rows, |row, place| {
            let group = rows.groups.map_or(0, |of_rows| of_rows[row]);
            let best = &mut best[group as usize];
            let is_better = match *best {
                NONE => {
                    touched.push(group);
                    true
                }
                other if is_list => self.is_better((place as u32).cmp(&other)),
                other => self.is_better(
                    order_of_views(views[place], views[other as usize])
                        .then_with(|| array.value(place).cmp(array.value(other as usize))),
                ),
            };
            if is_better {
                *best = place as u32;
            }
        });
        // Copy at most one text per group of this block or batch.
        for group in touched.drain(..) {
            let place = std::mem::replace(&mut best[group as usize], NONE) as usize;
            self.improve(groups.cell(group, self.offset), array, place, store)?;
        }
        Ok(())
    }

    /// Replaces the text of a group if the new text is better.
    fn improve(&self, words: &mut [u64], array: &BinaryViewArray, place: usize, store: &mut TextStore) -> Result<()> {
        let text = array.value(place);
        let new = match text_at(words, 0) {
            None => store.push(text)?,
            Some(old) => {
                // Compare the views first: most texts differ in their first bytes.
                let order =
                    order_of_views(array.views()[place], old).then_with(|| text.cmp(store.bytes(old, &mut [0; 16])));
                if !self.is_better(order) {
                    return Ok(());
                }
                store.replace(old, text)?
            }
        };
        // The complement is stored, because zero means no text.
        put_view(words, 0, !new);
        Ok(())
    }

    /// Replaces the texts of groups by the texts of `rows` where these are better.
    pub(super) fn merge_texts(
        &self,
        pairs: &[(u32, u32)],
        rows: &[u64],
        groups: &mut [u64],
        (stride, at): (usize, usize),
        store: &TextStore,
    ) {
        for (row, group) in pairs {
            let Some(new) = text_at(rows, *row as usize * stride + at) else { continue };
            let group = *group as usize * stride + at;
            if text_at(groups, group).is_none_or(|old| self.is_better(store.compare(new, old))) {
                put_view(groups, group, !new);
            }
        }
    }
}

/// The text in a cell. A cell stores the complement of the view, so that zero means no text.
#[inline]
pub(super) fn text_at(words: &[u64], at: usize) -> Option<u128> {
    match view_at(words, at) {
        0 => None,
        view => Some(!view),
    }
}

impl States {
    /// Adds `more` to the buffer numbers of all texts in the cells of rows.
    pub(in crate::group) fn move_texts(&self, rows: &mut [u64], place: (usize, usize), more: u32) {
        self.map_texts(rows, place, |view| moved(view, more));
    }

    /// Replaces the views of all texts in the cells of rows.
    pub(in crate::group) fn map_texts(
        &self,
        rows: &mut [u64],
        (stride, at): (usize, usize),
        mut map: impl FnMut(u128) -> u128,
    ) {
        for cell in self.cells.iter().filter(|cell| cell.operation.is_of_texts()) {
            for row in rows.chunks_exact_mut(stride) {
                if let Some(view) = text_at(row, at + cell.offset) {
                    put_view(row, at + cell.offset, !map(view));
                }
            }
        }
    }
}
