//! Numbers of texts that a worker has looked up before: entries of the index of a join, or codes of the keys of a
//! grouping.
//!
//! A column of a dimension has few texts, and the rows of a fact table repeat them. The view of a text has its length
//! and the text itself, or where it is:
//!
//! ```text
//! up to 12 bytes   length, the text                                  the same in all batches
//! longer           length, first bytes, number of a buffer, offset   the same while the buffers are the same
//! ```
//!
//! All rows with one value of a block's list have the same view. So a text need not be hashed and compared for each
//! row: the table of a worker says which number the view had last time. Texts that are not in it are looked up by their
//! bytes, and replace those that were in their place.

use arrow::array::{Array, ArrayRef, AsArray, MAX_INLINE_VIEW_LEN};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;

use crate::hash::mix;

/// The most places for texts. Their views and entries take two thirds of the second-level cache.
const PLACES_MAX: usize = if cfg!(test) { 1 << 3 } else { 1 << 15 };
/// Places for each row of the build side, so that few texts have one place.
const PLACES_PER_ROW: usize = 4;
/// After this number of rows the table must have known half of their texts, or it is not asked again.
const TRIAL_ROWS: usize = if cfg!(test) { 1 << 5 } else { 1 << 16 };

/// The entry of a row whose text is not known.
const UNKNOWN: u32 = u32::MAX;

/// No text has this view, because none is so long.
const FREE: u128 = u128::MAX;

/// The entries of the texts that were looked up last, by a hash of their views.
#[derive(Debug)]
pub(crate) struct TextMemo {
    views: Vec<u128>,
    entries: Vec<u32>,
    /// The buffers of the last batch. Keeping them alive keeps their addresses from being used for other texts.
    buffers: Vec<Buffer>,
    /// Whether some view belongs to a text in `buffers`.
    has_long: bool,
    /// The entry of NULL, if NULL was looked up.
    null_entry: Option<u32>,
    rows: usize,
    rows_known: usize,
}

impl TextMemo {
    /// The bytes of a table for a build side of `rows` rows.
    pub(crate) fn bytes(rows: usize) -> u64 {
        (places(rows) * (size_of::<u128>() + size_of::<u32>())) as u64
    }

    pub(crate) fn new(rows: usize) -> TextMemo {
        let places = places(rows);
        TextMemo {
            views: vec![FREE; places],
            entries: vec![UNKNOWN; places],
            buffers: Vec::new(),
            has_long: false,
            null_entry: None,
            rows: 0,
            rows_known: 0,
        }
    }

    /// Whether most texts were known so far.
    pub(crate) fn is_useful(&self) -> bool {
        self.rows < TRIAL_ROWS || self.rows_known * 2 > self.rows
    }

    /// Puts the entry of each row of `texts` into `entries`. Returns the rows whose text is not known.
    pub(crate) fn look_up(&mut self, texts: &ViewedTexts<'_>, entries: &mut Vec<u32>) -> Vec<u32> {
        self.change_buffers(texts.buffers);
        let rows = texts.views.len();
        entries.clear();
        entries.resize(rows, UNKNOWN);
        let (mut unknown, mut count) = (vec![0; rows + 1], 0);
        for (row, (view, entry)) in texts.views.iter().zip(entries).enumerate() {
            let place = self.place(*view);
            let is_null = texts.nulls.is_some_and(|nulls| nulls.is_null(row));
            let (is_known, of_row) = match is_null {
                true => (self.null_entry.is_some(), self.null_entry.unwrap_or(UNKNOWN)),
                false => (self.views[place] == *view, self.entries[place]),
            };
            *entry = if is_known { of_row } else { UNKNOWN };
            // Each row is written, and the next one overwrites it if it is known, because no branch could be predicted.
            unknown[count] = row as u32;
            count += usize::from(!is_known);
        }
        unknown.truncate(count);
        self.rows += rows;
        self.rows_known += rows - count;
        unknown
    }

    /// Remembers the entry of a row of the last batch.
    pub(crate) fn note(&mut self, texts: &ViewedTexts<'_>, row: u32, entry: u32) {
        let view = texts.views[row as usize];
        if texts.nulls.is_some_and(|nulls| nulls.is_null(row as usize)) {
            self.null_entry = Some(entry);
            return;
        }
        self.has_long |= view as u32 > MAX_INLINE_VIEW_LEN;
        let place = self.place(view);
        (self.views[place], self.entries[place]) = (view, entry);
    }

    /// Forgets all texts if views of long ones belong to other buffers than `buffers`.
    fn change_buffers(&mut self, buffers: &[Buffer]) {
        let is_same = |(one, other): (&Buffer, &Buffer)| one.as_ptr() == other.as_ptr() && one.len() == other.len();
        if self.buffers.len() == buffers.len() && self.buffers.iter().zip(buffers).all(is_same) {
            return;
        }
        self.buffers = buffers.to_vec();
        if std::mem::take(&mut self.has_long) {
            self.views.fill(FREE);
        }
    }

    #[inline]
    fn place(&self, view: u128) -> usize {
        // The upper half tells short texts apart that begin alike, and long ones by their offsets.
        let hash = mix(view as u64 ^ (view >> 64) as u64);
        (hash >> 32) as usize & (self.views.len() - 1)
    }
}

fn places(rows: usize) -> usize {
    (rows * PLACES_PER_ROW).clamp(1, PLACES_MAX).next_power_of_two()
}

/// Texts or blobs by their views.
pub(crate) struct ViewedTexts<'a> {
    views: &'a [u128],
    buffers: &'a [Buffer],
    nulls: Option<&'a NullBuffer>,
}

impl<'a> ViewedTexts<'a> {
    /// The texts of a column; `None` if it has no views.
    pub(crate) fn of(column: &'a ArrayRef) -> Option<ViewedTexts<'a>> {
        let (views, buffers) = match column.data_type() {
            DataType::Utf8View => (column.as_string_view().views(), column.as_string_view().data_buffers()),
            DataType::BinaryView => (column.as_binary_view().views(), column.as_binary_view().data_buffers()),
            _ => return None,
        };
        Some(ViewedTexts { views, buffers, nulls: column.nulls() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use arrow::array::StringViewArray;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn known_entries_are_those_of_the_texts() {
        let random = &mut SmallRng::seed_from_u64(5);
        let text = |number: u32| match number % 3 {
            0 => format!("s{number}"),
            1 => format!("a text that is longer than a view, {number}"),
            _ => String::new(),
        };
        let mut numbers: HashMap<Option<String>, u32> = HashMap::new();
        for rows in [0, 1, 40] {
            let mut memo = TextMemo::new(rows);
            let mut entries = Vec::new();
            // Batches have buffers of their own, so that equal views stand for different long texts.
            for _ in 0..200 {
                let texts: Vec<Option<String>> =
                    (0..20).map(|_| random.random_bool(0.9).then(|| text(random.random_range(0..12)))).collect();
                let array: ArrayRef = Arc::new(StringViewArray::from_iter(texts.iter().map(Option::as_ref)));
                let viewed = ViewedTexts::of(&array).expect("views");
                for _ in 0..2 {
                    let unknown = memo.look_up(&viewed, &mut entries);
                    for (row, text) in texts.iter().enumerate() {
                        let known = !unknown.contains(&(row as u32));
                        let expected = numbers.get(text).copied();
                        assert!(!known || Some(entries[row]) == expected, "{text:?}");
                    }
                    for row in &unknown {
                        let next = numbers.len() as u32;
                        let entry = *numbers.entry(texts[*row as usize].clone()).or_insert(next);
                        memo.note(&viewed, *row, entry);
                    }
                }
            }
        }
    }
}
