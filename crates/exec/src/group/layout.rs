//! The layout of a group in memory. A group is one row of 64-bit words, so that it is found, moved and merged in one
//! place.
//!
//! ```text
//!   ┌─────────────────────────────────┬─────────────────────┬───────────────────────┐
//!   │ key columns of a fixed size and │ two words per text  │ words of aggregates   │
//!   │ the bits of NULLs, packed       │ or blob             │                       │
//!   └─────────────────────────────────┴─────────────────────┴───────────────────────┘
//! ```
//!
//! Columns are packed from the widest to the narrowest, so that no narrow column crosses a word. The bits of a NULL
//! value must be zero. Two keys are therefore equal exactly if their words are equal, except for the bytes of long
//! texts. A text is a marked view (texts.rs): its words tell it from nearly all others, so the key can be hashed
//! without reading the bytes.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Result};
use rowmill_plan::{Expr, GroupKey};

use super::VectorFunction;
use super::bits::{array_of, mix, width_of};
use super::rows::evaluate_in_pieces;
use super::texts::{TextStore, is_long, is_text, moved};

/// A bit of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bit {
    pub(super) word: usize,
    pub(super) shift: u32,
}

/// The place of a key column's values in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyValuePlace {
    /// Up to 64 bits from this bit on.
    Narrow { at: Bit, width: u32 },
    /// 128 bits: two words.
    Wide { word: usize },
    /// A view: two words.
    Text { word: usize },
}

/// A key column that is stored in rows.
#[derive(Debug)]
pub(super) struct KeyColumn {
    pub(super) expr: Expr,
    kind: DataType,
    pub(super) place: KeyValuePlace,
    /// The bit that is set where the column is NULL; `None` if it cannot be NULL.
    pub(super) null: Option<Bit>,
}

/// A key column of the result.
#[derive(Debug)]
enum KeyOutput {
    Held(usize),
    /// A function of stored columns. It is equal where these are equal, so it need not be stored.
    Computed {
        function: usize,
        of: Vec<usize>,
        kind: DataType,
    },
}

/// The layout of the keys of groups in rows.
#[derive(Debug)]
pub(super) struct GroupLayout {
    pub(super) columns: Vec<KeyColumn>,
    outputs: Vec<KeyOutput>,
    pub(super) shape: GroupKeyShape,
    /// Words before those of the aggregates.
    pub(super) key_words: usize,
    /// Words of a row.
    pub(super) stride: usize,
}

/// How the keys of rows are hashed and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupKeyShape {
    Empty(Empty),
    One(One),
    Two(Two),
    Long(Long),
}

impl GroupKeyShape {
    /// Words of a key.
    fn words(self) -> usize {
        match self {
            // Each row must have at least one word, even if it has neither keys nor aggregates.
            GroupKeyShape::Empty(_) | GroupKeyShape::One(_) => 1,
            GroupKeyShape::Two(_) => 2,
            GroupKeyShape::Long(Long { fixed, texts }) => fixed + 2 * texts,
        }
    }
}

/// Calls a generic function for the shape of a key.
macro_rules! with_shape {
    ($shape:expr, $name:ident => $call:expr) => {
        match $shape {
            $crate::group::layout::GroupKeyShape::Empty($name) => $call,
            $crate::group::layout::GroupKeyShape::One($name) => $call,
            $crate::group::layout::GroupKeyShape::Two($name) => $call,
            $crate::group::layout::GroupKeyShape::Long($name) => $call,
        }
    };
}
pub(super) use with_shape;

/// Hashes and compares keys. Rows are given from the first word of their key on.
pub(super) trait KeyShape: Copy {
    /// The hash of a row's key.
    fn hash(self, row: &[u64]) -> u64;

    /// The words of the texts of a key.
    fn texts(self) -> std::ops::Range<usize> {
        0..0
    }

    /// Whether two rows have the same key. `is_same_text` compares the views of the text with a given number.
    fn is_same(self, left: &[u64], right: &[u64], is_same_text: impl Fn(usize, u128, u128) -> bool) -> bool;
}

/// No keys: all rows are in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Empty;

/// A key of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct One;

/// A key of two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Two;

/// A key of any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Long {
    /// Words of columns of a fixed size.
    pub(super) fixed: usize,
    /// Texts after these words.
    pub(super) texts: usize,
}

impl KeyShape for Empty {
    fn hash(self, _: &[u64]) -> u64 {
        0
    }

    fn is_same(self, _: &[u64], _: &[u64], _: impl Fn(usize, u128, u128) -> bool) -> bool {
        true
    }
}

impl KeyShape for One {
    #[inline]
    fn hash(self, row: &[u64]) -> u64 {
        mix(row[0])
    }

    #[inline]
    fn is_same(self, left: &[u64], right: &[u64], _: impl Fn(usize, u128, u128) -> bool) -> bool {
        left[0] == right[0]
    }
}

impl KeyShape for Two {
    #[inline]
    fn hash(self, row: &[u64]) -> u64 {
        mix(row[0] ^ mix(row[1]))
    }

    #[inline]
    fn is_same(self, left: &[u64], right: &[u64], _: impl Fn(usize, u128, u128) -> bool) -> bool {
        left[0] == right[0] && left[1] == right[1]
    }
}

impl KeyShape for Long {
    #[inline]
    fn hash(self, row: &[u64]) -> u64 {
        let (fixed, texts) = row.split_at(self.fixed);
        let hash = fixed.iter().fold(0, |hash, word| mix(hash ^ word));
        texts.as_chunks().0.iter().take(self.texts).fold(hash, |hash, [first, second]| {
            // The second half of a long view says only where the bytes are stored, which equal texts need not share.
            let second = if is_long((*first).into()) { 0 } else { *second };
            mix(hash.rotate_left(32) ^ first ^ mix(second))
        })
    }

    fn texts(self) -> std::ops::Range<usize> {
        self.fixed..self.fixed + 2 * self.texts
    }

    #[inline]
    fn is_same(self, left: &[u64], right: &[u64], is_same_text: impl Fn(usize, u128, u128) -> bool) -> bool {
        left[..self.fixed] == right[..self.fixed]
            && (0..self.texts).all(|text| {
                let at = self.fixed + text * 2;
                is_same_text(text, view_at(left, at), view_at(right, at))
            })
    }
}

/// The view in two words of a row.
#[inline]
pub(super) fn view_at(row: &[u64], word: usize) -> u128 {
    u128::from(row[word]) | u128::from(row[word + 1]) << 64
}

/// Puts a view into two words of a row.
#[inline]
pub(super) fn put_view(row: &mut [u64], word: usize, view: u128) {
    (row[word], row[word + 1]) = (view as u64, (view >> 64) as u64);
}

impl GroupLayout {
    /// The layout of groups by `keys` with `words` words of aggregates. `columns_of` returns the columns that a
    /// function reads.
    pub(super) fn new<'f>(
        keys: &[GroupKey],
        columns_of: impl Fn(usize) -> &'f [usize],
        words: usize,
    ) -> Result<GroupLayout> {
        let mut held: Vec<&GroupKey> = Vec::new();
        let mut outputs = Vec::with_capacity(keys.len());
        for key in keys {
            // A key that is a function of other keys adds nothing to the identity of a group, so it is not stored.
            outputs.push(match computed(key, keys, &columns_of) {
                Some((function, of)) => {
                    let of = of.into_iter().map(|source| held_at(&mut held, source)).collect();
                    KeyOutput::Computed { function, of, kind: key.kind.clone() }
                }
                None => KeyOutput::Held(held_at(&mut held, key)),
            });
        }
        let (columns, shape) = places(&held, 0)?;
        let key_words = shape.words();
        Ok(GroupLayout { columns, outputs, shape, key_words, stride: key_words + words })
    }

    /// The layout of values after one word, which the caller uses for the group.
    pub(super) fn of_values(values: &[GroupKey]) -> Result<GroupLayout> {
        let mut held: Vec<&GroupKey> = Vec::new();
        let outputs = values.iter().map(|value| KeyOutput::Held(held_at(&mut held, value))).collect();
        let (columns, shape) = places(&held, 1)?;
        let key_words = 1 + shape.words();
        Ok(GroupLayout { columns, outputs, shape, key_words, stride: key_words })
    }

    /// Adds `more` to the buffer numbers of all texts in the keys of rows.
    pub(super) fn move_texts(&self, rows: &mut [u64], more: u32) {
        self.map_texts(rows, |view| moved(view, more));
    }

    /// Replaces the views of all texts in the keys of rows.
    pub(super) fn map_texts(&self, rows: &mut [u64], mut map: impl FnMut(u128) -> u128) {
        for column in &self.columns {
            if let KeyValuePlace::Text { word } = column.place {
                for row in rows.chunks_exact_mut(self.stride) {
                    put_view(row, word, map(view_at(row, word)));
                }
            }
        }
    }

    /// The key columns of the result for a reader that only asks whether texts are NULL: all texts come out empty. No
    /// key may be computed.
    pub(super) fn keys_without_texts(&self, rows: &[u64], texts: &TextStore) -> Result<Vec<ArrayRef>> {
        assert!(!self.computes(), "a computed key may need the texts");
        let of = |column: &KeyColumn| match column.place {
            KeyValuePlace::Text { .. } => {
                let views = rows.chunks_exact(self.stride).map(|_| 0);
                texts.array(&column.kind, views, column.nulls(rows, self.stride))
            }
            KeyValuePlace::Narrow { .. } | KeyValuePlace::Wide { .. } => column.array(rows, self.stride, texts),
        };
        (0..self.outputs.len()).filter_map(|output| self.held(output)).map(of).collect()
    }

    /// The key columns of the result for the groups in `rows`.
    pub(super) fn keys(
        &self,
        rows: &[u64],
        texts: &TextStore,
        functions: &[Arc<dyn VectorFunction>],
    ) -> Result<Vec<ArrayRef>> {
        let held = self.columns.iter().map(|column| column.array(rows, self.stride, texts));
        let held: Vec<ArrayRef> = held.collect::<Result<_>>()?;
        self.outputs(&held, rows.len() / self.stride, functions)
    }

    /// The key columns of the result for `groups` groups with these values of the stored columns.
    pub(super) fn outputs(
        &self,
        held: &[ArrayRef],
        groups: usize,
        functions: &[Arc<dyn VectorFunction>],
    ) -> Result<Vec<ArrayRef>> {
        let of = |output: &KeyOutput| match output {
            KeyOutput::Held(place) => Ok(Arc::clone(&held[*place])),
            KeyOutput::Computed { function, of, kind } => {
                let columns: Vec<ArrayRef> = of.iter().map(|place| Arc::clone(&held[*place])).collect();
                let values = evaluate_in_pieces(&*functions[*function], &columns, groups)?;
                match values.data_type() == kind {
                    true => Ok(values),
                    false => Err(Error::internal(format!("a key of {kind} was computed as {}", values.data_type()))),
                }
            }
        };
        self.outputs.iter().map(of).collect()
    }

    /// Whether some keys of the result are functions of others.
    pub(super) fn computes(&self) -> bool {
        self.outputs.iter().any(|output| matches!(output, KeyOutput::Computed { .. }))
    }

    /// The number of key columns of the result.
    pub(super) fn key_count(&self) -> usize {
        self.outputs.len()
    }

    /// The stored column of a key of the result; `None` if the key is computed.
    pub(super) fn held(&self, output: usize) -> Option<&KeyColumn> {
        match self.outputs[output] {
            KeyOutput::Held(place) => Some(&self.columns[place]),
            KeyOutput::Computed { .. } => None,
        }
    }
}

/// The function of a key and the other keys that it reads. `None` if the key is no function or reads anything else.
fn computed<'k, 'f>(
    key: &GroupKey,
    keys: &'k [GroupKey],
    columns_of: impl Fn(usize) -> &'f [usize],
) -> Option<(usize, Vec<&'k GroupKey>)> {
    let Expr::Function(function) = key.expr else { return None };
    let columns = columns_of(function);
    if columns.is_empty() {
        return None;
    }
    let of = columns.iter().map(|column| keys.iter().find(|key| key.expr == Expr::Column(*column)));
    Some((function, of.collect::<Option<_>>()?))
}

/// The index of a key among the stored ones. Adds the key if it is new.
fn held_at<'k>(held: &mut Vec<&'k GroupKey>, key: &'k GroupKey) -> usize {
    held.iter().position(|other| other.expr == key.expr).unwrap_or_else(|| {
        held.push(key);
        held.len() - 1
    })
}

/// Gives every column its place after the first `lead` words.
fn places(keys: &[&GroupKey], lead: usize) -> Result<(Vec<KeyColumn>, GroupKeyShape)> {
    let widths: Vec<Option<u32>> = keys.iter().map(|key| width_of(&key.kind)).collect();
    if let Some(key) = keys.iter().zip(&widths).find(|(key, width)| width.is_none() && !is_text(&key.kind)) {
        return Err(Error::internal(format!("values of type {} cannot be keys", key.0.kind)));
    }
    let texts = widths.iter().filter(|width| width.is_none()).count();
    let nulls = keys.iter().filter(|key| key.nullable).count();
    let bits = widths.iter().flatten().sum::<u32>() as usize + nulls;
    let fixed = bits.div_ceil(64);
    let shape = match (fixed, texts) {
        (0, 0) => GroupKeyShape::Empty(Empty),
        (1, 0) => GroupKeyShape::One(One),
        (2, 0) => GroupKeyShape::Two(Two),
        _ => GroupKeyShape::Long(Long { fixed, texts }),
    };
    let mut used = 0;
    let mut take = |width: u32| {
        let at = Bit { word: lead + used as usize / 64, shift: used % 64 };
        used += width;
        at
    };
    // Wide columns first: each size divides 64 bits or the size before, so none crosses a word.
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|key| std::cmp::Reverse(widths[*key]));
    let mut places = vec![None; keys.len()];
    let mut texts_placed = 0;
    for key in order {
        places[key] = Some(match widths[key] {
            Some(128) => KeyValuePlace::Wide { word: take(128).word },
            Some(width) => KeyValuePlace::Narrow { at: take(width), width },
            None => {
                texts_placed += 1;
                KeyValuePlace::Text { word: lead + fixed + 2 * (texts_placed - 1) }
            }
        });
    }
    let columns = keys.iter().zip(places).map(|(key, place)| KeyColumn {
        expr: key.expr,
        kind: key.kind.clone(),
        place: place.expect("every key has a place"),
        // The NULL bits follow the values of a fixed size.
        null: key.nullable.then(|| take(1)),
    });
    Ok((columns.collect(), shape))
}

impl KeyColumn {
    /// Whether the column is NULL in a row.
    #[inline]
    pub(super) fn is_null(&self, row: &[u64]) -> bool {
        self.null.is_some_and(|Bit { word, shift }| row[word] >> shift & 1 == 1)
    }

    /// The type of the values.
    pub(super) fn kind(&self) -> &DataType {
        &self.kind
    }

    /// The bits of a row's value of a fixed size, or the view of its text.
    #[inline]
    pub(super) fn bits(&self, row: &[u64]) -> u128 {
        match self.place {
            KeyValuePlace::Narrow { at: Bit { word, shift }, width } => {
                (row[word] >> shift & (u64::MAX >> (64 - width))).into()
            }
            KeyValuePlace::Wide { word } | KeyValuePlace::Text { word } => view_at(row, word),
        }
    }

    fn nulls(&self, rows: &[u64], stride: usize) -> Option<NullBuffer> {
        self.null?;
        let is_valid = |group: usize| !self.is_null(&rows[group * stride..][..stride]);
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(rows.len() / stride, is_valid));
        Some(nulls).filter(|nulls| nulls.null_count() > 0)
    }

    fn array(&self, rows: &[u64], stride: usize, texts: &TextStore) -> Result<ArrayRef> {
        let nulls = self.nulls(rows, stride);
        let values = rows.chunks_exact(stride).map(|row| self.bits(row));
        match self.place {
            KeyValuePlace::Text { .. } => texts.array(&self.kind, values, nulls),
            KeyValuePlace::Narrow { .. } | KeyValuePlace::Wide { .. } => array_of(&self.kind, values, nulls),
        }
    }
}
