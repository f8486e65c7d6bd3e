//! Sketches of groups: how a log of their values stays short, and how it becomes sketches in the end.
//!
//! ```text
//!   values of groups with few rows      rows of the log
//!   values of groups with many rows     one live sketch for each group, which takes them at once
//!   live sketches, when groups leave    one row of the log for each, with the bytes of the sketch
//! ```
//!
//! A group that is seen once therefore takes one row, and a group of any number of rows takes one sketch. A value that
//! has become a few bytes (its hash, for example) and a sketch are both BLOBs, so that partitions, temporary files and
//! merges treat a log of sketches like any other. Sketches that meet in a merge become one.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Reservation, Result};
use rowmill_expr::sketch::{Sketch, SketchFunction};

use super::add::Grouped;
use crate::cache::L2_BYTES;
use crate::group::layout::{GroupLayout, KeyValuePlace, put_view, view_at};
use crate::group::rows::PartValues;
use crate::group::texts::{TextStore, texts_of};

/// The type of the rows of a log: items and sketches.
pub(super) const KIND: DataType = DataType::BinaryView;

/// The rows of a log after which groups with many of them get live sketches. They take twice the second-level cache, a
/// quarter of what makes a log leave the table of groups.
const LOG_ROWS_MAX: usize = 2 * L2_BYTES / (3 * size_of::<u64>());

/// The rows of a group that take as much memory as a sketch of their values.
const ROWS_OF_SKETCH_MIN: usize = 8;

/// The bytes of an item that takes as much memory as these rows. Most such items are sketches that are merged. Their
/// groups get live sketches at once, because the bytes of items stay in memory until the groups leave.
const ITEM_BYTES_MAX: usize = ROWS_OF_SKETCH_MIN * 3 * size_of::<u64>();

/// The items after which a sketch that is being merged accounts for its memory.
const ITEMS_AT_ONCE: usize = 1 << 10;

/// The way in which an aggregate makes the sketches of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::group) struct SketchRecipe {
    pub(super) function: &'static SketchFunction,
    /// The parameter of the call.
    pub(super) size: i64,
}

impl SketchRecipe {
    /// The values in the form that sketches take.
    pub(super) fn items(&self, values: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self.function.items {
            None => Arc::clone(values),
            Some(items) => Arc::new(items(values)?),
        })
    }

    fn take(&self, sketch: &mut dyn Sketch, item: &[u8], times: u64) -> Result<()> {
        self.function.take(sketch, item, times).map_err(|error| error.context(self.function.name))
    }

    /// The sketch of each group, whose items are between two neighbouring `starts`. NULL for a group without items.
    pub(super) fn sketches(&self, items: &ArrayRef, starts: &[usize], memory: &mut Reservation) -> Result<ArrayRef> {
        let items = items.as_binary_view_opt().ok_or_else(|| Error::internal("items of a sketch are no BLOBs"))?;
        let mut made = BinaryViewBuilder::with_capacity(starts.len() - 1);
        // The memory of the largest sketch so far: one is made after the other.
        let mut largest = memory.another();
        for ends in starts.windows(2) {
            if ends[0] == ends[1] {
                made.append_null();
                continue;
            }
            let mut sketch = self.function.start(self.size)?;
            for start in (ends[0]..ends[1]).step_by(ITEMS_AT_ONCE) {
                for place in start..(start + ITEMS_AT_ONCE).min(ends[1]) {
                    self.take(&mut *sketch, items.value(place), 1)?;
                }
                largest.grow(sketch.memory_bytes().saturating_sub(largest.bytes()))?;
            }
            let bytes = sketch.to_bytes()?;
            memory.grow(bytes.len() as u64)?;
            made.try_append_value(&bytes).map_err(|error| Error::internal(format!("a sketch: {error}")))?;
        }
        Ok(Arc::new(made.finish()))
    }
}

/// A sketch that takes the values of its group at once.
#[derive(Debug)]
struct LiveSketch {
    group: u32,
    sketch: Box<dyn Sketch>,
    /// The bytes that are accounted for.
    bytes: u64,
    /// Whether it has taken values since then.
    has_taken: bool,
}

/// The live sketches of a log.
#[derive(Debug)]
pub(super) struct LiveSketches {
    sketches: Vec<LiveSketch>,
    /// The number of a group's sketch plus one, or 0.
    of_groups: Vec<u32>,
    /// The sketches that have taken values since their memory was accounted for.
    taken: Vec<u32>,
    /// The rows of the log at which more groups get sketches.
    rows_max: usize,
    memory: Reservation,
}

/// Rows with their items.
pub(super) struct ItemRows<'a> {
    items: BinaryViewArray,
    codes: Option<&'a [u32]>,
    rows: &'a Grouped<'a>,
    ignores_duplicates: bool,
}

impl<'a> ItemRows<'a> {
    pub(super) fn new(items: &'a PartValues, rows: &'a Grouped<'a>, recipe: &SketchRecipe) -> Result<ItemRows<'a>> {
        let codes = items.codes.as_ref().map(|codes| codes.as_slice());
        let items = texts_of(&items.values).ok_or_else(|| Error::internal("items of a sketch are no BLOBs"))?;
        Ok(ItemRows { items, codes, rows, ignores_duplicates: recipe.function.ignores_duplicates })
    }

    #[inline]
    fn item(&self, place: usize) -> &[u8] {
        self.items.value(self.codes.map_or(place, |codes| codes[place] as usize))
    }

    #[inline]
    fn group(&self, place: usize) -> u32 {
        self.rows.groups.map_or(0, |groups| groups[place - self.rows.rows.start])
    }

    /// How often the item of a row counts.
    #[inline]
    fn times(&self, place: usize) -> u64 {
        if self.ignores_duplicates { 1 } else { self.rows.weights.map_or(1, |weights| weights[place]) }
    }
}

impl LiveSketches {
    pub(super) fn new(memory: Reservation) -> LiveSketches {
        LiveSketches { sketches: Vec::new(), of_groups: Vec::new(), taken: Vec::new(), rows_max: LOG_ROWS_MAX, memory }
    }

    /// Gives the items of the rows at `places` to the live sketches of their groups. Returns the other places, each as
    /// often as its item counts.
    pub(super) fn take(&mut self, recipe: &SketchRecipe, rows: &ItemRows<'_>, places: &[usize]) -> Result<Vec<usize>> {
        let mut left = Vec::new();
        for place in places {
            let (group, times, item) = (rows.group(*place), rows.times(*place), rows.item(*place));
            let number = match self.of_group(group) {
                Some(number) => number,
                None if times < ROWS_OF_SKETCH_MIN as u64 && item.len() < ITEM_BYTES_MAX => {
                    left.extend((0..times).map(|_| *place));
                    continue;
                }
                None => self.start(recipe, group)?,
            };
            self.give(number, recipe, item, times)?;
        }
        self.account().map(|()| left)
    }

    /// Gives the items of the rows at `places` to the sketch of the only group.
    pub(super) fn take_all(&mut self, recipe: &SketchRecipe, rows: &ItemRows<'_>, places: &[usize]) -> Result<()> {
        let number = match self.of_group(0) {
            Some(number) => number,
            // A group without values has no sketch.
            None if places.is_empty() => return Ok(()),
            None => self.start(recipe, 0)?,
        };
        // If rows share items, give each distinct item once.
        if let Some(codes) = rows.codes
            && rows.items.len() < places.len()
        {
            let mut times = vec![0; rows.items.len()];
            places.iter().for_each(|place| times[codes[*place] as usize] += rows.times(*place));
            for (code, times) in times.into_iter().enumerate().filter(|(_, times)| *times > 0) {
                self.give(number, recipe, rows.items.value(code), times)?;
            }
            return self.account();
        }
        for places in places.chunks(ITEMS_AT_ONCE) {
            for place in places {
                self.give(number, recipe, rows.item(*place), rows.times(*place))?;
            }
            self.account()?;
        }
        Ok(())
    }

    #[inline]
    fn of_group(&self, group: u32) -> Option<u32> {
        self.of_groups.get(group as usize)?.checked_sub(1)
    }

    /// Gives an item to a live sketch.
    #[inline]
    fn give(&mut self, number: u32, recipe: &SketchRecipe, item: &[u8], times: u64) -> Result<()> {
        let live = &mut self.sketches[number as usize];
        if !live.has_taken {
            live.has_taken = true;
            self.taken.push(number);
        }
        recipe.take(&mut *live.sketch, item, times)
    }

    /// Starts the sketch of a group, and returns its number.
    fn start(&mut self, recipe: &SketchRecipe, group: u32) -> Result<u32> {
        let number = self.sketches.len() as u32;
        if self.of_groups.len() <= group as usize {
            let groups = (group as usize + 1).next_power_of_two();
            self.memory.grow(((groups - self.of_groups.len()) * size_of::<u32>()) as u64)?;
            self.of_groups.resize(groups, 0);
        }
        self.of_groups[group as usize] = number + 1;
        let sketch = recipe.function.start(recipe.size)?;
        self.sketches.push(LiveSketch { group, sketch, bytes: 0, has_taken: false });
        Ok(number)
    }

    /// Accounts for the memory of the sketches that have taken values.
    fn account(&mut self) -> Result<()> {
        let mut more = 0;
        for number in self.taken.drain(..) {
            let live = &mut self.sketches[number as usize];
            let bytes = live.sketch.memory_bytes() + size_of::<LiveSketch>() as u64;
            more += bytes.saturating_sub(live.bytes);
            (live.bytes, live.has_taken) = (live.bytes.max(bytes), false);
        }
        self.memory.grow(more)
    }

    /// If a log has become long, moves the rows of groups with many rows into live sketches.
    pub(super) fn fold(
        &mut self,
        recipe: &SketchRecipe,
        layout: &GroupLayout,
        rows: &mut Vec<u64>,
        texts: &TextStore,
    ) -> Result<()> {
        let (stride, word) = (layout.stride, word_of_item(layout)?);
        if rows.len() / stride < self.rows_max {
            return Ok(());
        }
        let groups = rows.chunks_exact(stride).map(|row| row[0] as usize + 1).max().unwrap_or(0);
        let mut counts = vec![0_u32; groups];
        rows.chunks_exact(stride).for_each(|row| counts[row[0] as usize] += 1);
        let mut kept = 0;
        for at in (0..rows.len()).step_by(stride) {
            let group = rows[at] as u32;
            let number = match self.of_group(group) {
                None if counts[group as usize] < ROWS_OF_SKETCH_MIN as u32 => {
                    rows.copy_within(at..at + stride, kept);
                    kept += stride;
                    continue;
                }
                None => self.start(recipe, group)?,
                Some(number) => number,
            };
            self.give(number, recipe, texts.bytes(view_at(&rows[at..], word), &mut [0; 16]), 1)?;
        }
        rows.truncate(kept);
        // If few rows became sketches, the log must double before the next try.
        self.rows_max = LOG_ROWS_MAX.max(2 * kept / stride);
        self.account()
    }

    /// Makes rows of a log of all live sketches, and ends these.
    pub(super) fn settle(
        &mut self,
        recipe: &SketchRecipe,
        layout: &GroupLayout,
        rows: &mut Vec<u64>,
        (texts, memory): (&mut TextStore, &mut Reservation),
    ) -> Result<()> {
        let (needed, room) = (self.sketches.len() * layout.stride, rows.capacity() - rows.len());
        if needed > room {
            memory.grow(((needed - room) * size_of::<u64>()) as u64)?;
            rows.reserve_exact(needed);
        }
        let word = word_of_item(layout)?;
        for LiveSketch { group, mut sketch, .. } in self.sketches.drain(..) {
            let view = texts.push(&recipe.function.part(&mut *sketch)?)?;
            let at = rows.len();
            rows.resize(at + layout.stride, 0);
            rows[at] = group.into();
            put_view(&mut rows[at..], word, view);
        }
        self.clear();
        Ok(())
    }

    /// Ends all live sketches.
    pub(super) fn clear(&mut self) {
        self.sketches.clear();
        self.of_groups = Vec::new();
        self.taken.clear();
        self.rows_max = LOG_ROWS_MAX;
        self.memory.recount(0);
    }
}

/// The first word of the item in a row of a log.
fn word_of_item(layout: &GroupLayout) -> Result<usize> {
    match layout.columns.first().map(|column| column.place) {
        Some(KeyValuePlace::Text { word }) => Ok(word),
        _ => Err(Error::internal("a log of sketches has no items")),
    }
}
