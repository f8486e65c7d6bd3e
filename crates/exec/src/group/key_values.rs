//! The values of the key columns of a block or batch, before they are written into rows.

use std::sync::Arc;

use arrow::array::{Array, BinaryViewArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use rowmill_base::{Error, Result};

use super::bits::{Bits, bits_of, hash_of_bytes};
use super::layout::{Bit, GroupLayout, KeyValuePlace, put_view, view_at};
use super::rows::PartValues;
use super::texts::{TextStore, bytes_in, is_long, len_of, marked, moved, texts_of};
use crate::cache::LOOKUPS_AT_ONCE;

/// The values of all key columns.
pub(super) struct KeyValues<'a> {
    layout: &'a GroupLayout,
    columns: Vec<KeptKeyColumn>,
}

struct KeptKeyColumn {
    part: KeyValuesPart,
    codes: Option<Arc<Vec<u32>>>,
    nulls: Option<(NullBuffer, Bit)>,
}

enum KeyValuesPart {
    Narrow(ScalarBuffer<u64>, Bit),
    Wide(ScalarBuffer<u128>, usize),
    Text(KeyTexts),
}

struct KeyTexts {
    array: BinaryViewArray,
    /// The first word of the view in a row.
    word: usize,
    /// The marked view of each value; only if rows share values.
    marked: Option<Vec<u128>>,
    /// The number to add to buffer numbers of views, if the store adopted the array's buffers.
    adopted: Option<u32>,
}

impl<'a> KeyValues<'a> {
    /// Takes the values of the layout's columns, to be read for `rows` rows.
    pub(super) fn new(layout: &'a GroupLayout, values: &[PartValues], rows: usize) -> Result<KeyValues<'a>> {
        let is_null = |values: &PartValues| values.values.logical_null_count() > 0;
        if layout.columns.iter().zip(values).any(|(column, values)| column.null.is_none() && is_null(values)) {
            return Err(Error::internal("a key that is never NULL is NULL"));
        }
        KeyValues::of_some(layout, values, rows)
    }

    /// Takes the values of the layout's columns, to be read for `rows` rows. Other than [`KeyValues::new`], allows
    /// NULLs in columns that have no NULL bit, because the caller will not read them.
    pub(super) fn of_some(layout: &'a GroupLayout, values: &[PartValues], rows: usize) -> Result<KeyValues<'a>> {
        let columns = layout.columns.iter().zip(values).map(|(column, values)| {
            let codes = values.codes.clone();
            let part = match column.place {
                KeyValuePlace::Text { word } => KeyValuesPart::Text(KeyTexts::new(values, word, rows)?),
                KeyValuePlace::Narrow { at, .. } => match bits_of(&values.values)? {
                    Bits::Narrow { numbers, .. } => KeyValuesPart::Narrow(numbers, at),
                    Bits::Wide(_) => return Err(unlike(values)),
                },
                KeyValuePlace::Wide { word } => match bits_of(&values.values)? {
                    Bits::Wide(numbers) => KeyValuesPart::Wide(numbers, word),
                    Bits::Narrow { .. } => return Err(unlike(values)),
                },
            };
            let nulls = values.values.logical_nulls().filter(|nulls| nulls.null_count() > 0).zip(column.null);
            Ok(KeptKeyColumn { part, codes, nulls })
        });
        Ok(KeyValues { layout, columns: columns.collect::<Result<_>>()? })
    }

    /// Writes the keys of the rows at `places` into `rows`, one after the other. The words of their keys must be zero.
    /// Until [`KeyValues::settle`], the views refer to the arrays.
    pub(super) fn write(&self, places: impl Iterator<Item = usize> + Clone, rows: &mut [u64]) {
        let stride = self.layout.stride;
        for column in &self.columns {
            match &column.codes {
                Some(codes) => column.write(places.clone().map(|place| codes[place] as usize), rows, stride),
                None => column.write(places.clone(), rows, stride),
            }
        }
    }

    /// The bytes of a view that is not settled yet. `text` is the number of the text in the key.
    #[inline]
    pub(super) fn bytes<'b>(&'b self, text: usize, view: u128, inline: &'b mut [u8; 16]) -> &'b [u8] {
        let mut texts = self.texts();
        let array = texts.nth(text).map(|texts| &texts.array).expect("a view belongs to a text");
        bytes_in(array, view, inline)
    }

    fn texts(&self) -> impl Iterator<Item = &KeyTexts> {
        self.columns.iter().filter_map(|column| match &column.part {
            KeyValuesPart::Text(texts) => Some(texts),
            _ => None,
        })
    }

    /// Lets `store` keep the buffers of a text column if most of their bytes are wanted for the rows at `places`.
    pub(super) fn adopt(&mut self, places: impl Iterator<Item = usize> + Clone, store: &mut TextStore) -> Result<()> {
        for column in &mut self.columns {
            let KeyValuesPart::Text(texts) = &mut column.part else { continue };
            let (codes, views) = (&column.codes, texts.array.views());
            let view = |place: usize| views[codes.as_ref().map_or(place, |codes| codes[place] as usize)];
            let wanted = places.clone().map(view).filter(|view| is_long(*view)).map(len_of).sum();
            texts.adopted = store.adopt(&texts.array, wanted)?;
        }
        Ok(())
    }

    /// Makes the views of rows refer to `store`, copying texts whose buffers were not adopted.
    pub(super) fn settle(&self, rows: &mut [u64], store: &mut TextStore) -> Result<()> {
        for texts in self.texts() {
            for row in rows.chunks_exact_mut(self.layout.stride) {
                let view = view_at(row, texts.word);
                if !is_long(view) {
                    continue;
                }
                // The lower half has the length and the mark, which stay as they are.
                let settled = match texts.adopted {
                    Some(base) => moved(view, base),
                    None => store.push(bytes_in(&texts.array, view, &mut [0; 16]))?,
                };
                row[texts.word + 1] = (settled >> 64) as u64;
            }
        }
        Ok(())
    }
}

fn unlike(values: &PartValues) -> Error {
    Error::internal(format!("values of {} for a key of another type", values.values.data_type()))
}

impl KeptKeyColumn {
    /// Writes the values at `places` into rows.
    fn write(&self, places: impl Iterator<Item = usize> + Clone, rows: &mut [u64], stride: usize) {
        let with_places = rows.chunks_exact_mut(stride).zip(places.clone());
        match &self.part {
            KeyValuesPart::Narrow(numbers, Bit { word, shift }) => {
                with_places.for_each(|(row, place)| row[*word] |= numbers[place] << shift);
            }
            KeyValuesPart::Wide(numbers, word) => {
                with_places.for_each(|(row, place)| put_view(row, *word, numbers[place]))
            }
            KeyValuesPart::Text(texts) => match &texts.marked {
                Some(marked) => with_places.for_each(|(row, place)| put_view(row, texts.word, marked[place])),
                None => {
                    let mut left = places.clone();
                    for rows in rows.chunks_mut(stride * LOOKUPS_AT_ONCE) {
                        // `black_box` must keep the compiler from dropping these reads.
                        std::hint::black_box(texts.glance(left.clone().take(LOOKUPS_AT_ONCE)));
                        let with_places = rows.chunks_exact_mut(stride).zip(left.by_ref());
                        with_places.for_each(|(row, place)| put_view(row, texts.word, texts.marked(place)));
                    }
                }
            },
        }
        let Some((nulls, Bit { word, shift })) = &self.nulls else { return };
        let with_places = rows.chunks_exact_mut(stride).zip(places);
        with_places.filter(|(_, place)| nulls.is_null(*place)).for_each(|(row, _)| {
            row[*word] |= 1 << shift;
            if let KeyValuesPart::Text(texts) = &self.part {
                put_view(row, texts.word, 0);
            }
        });
    }
}

impl KeyTexts {
    fn new(values: &PartValues, word: usize, rows: usize) -> Result<KeyTexts> {
        let Some(array) = texts_of(&values.values) else { return Err(unlike(values)) };
        let is_shared = values.codes.is_some() && array.len() < rows;
        let mut texts = KeyTexts { array, word, marked: None, adopted: None };
        // If rows share values, hash each value once and not once per row.
        if is_shared {
            texts.marked = Some((0..texts.array.len()).map(|place| texts.marked(place)).collect());
        }
        Ok(texts)
    }

    /// Touches both ends of long texts, so that the processor fetches all of them at the same time. They are rarely in
    /// a cache, and hashing one takes too long for the processor to reach the next.
    fn glance(&self, places: impl Iterator<Item = usize>) -> u8 {
        let long = places.filter(|place| is_long(self.array.views()[*place]));
        long.fold(0, |glances, place| {
            let text = self.array.value(place);
            glances ^ text.first().copied().unwrap_or_default() ^ text.last().copied().unwrap_or_default()
        })
    }

    /// The marked view of a value.
    #[inline]
    fn marked(&self, place: usize) -> u128 {
        marked(self.array.views()[place], || hash_of_bytes(self.array.value(place), 0))
    }
}
