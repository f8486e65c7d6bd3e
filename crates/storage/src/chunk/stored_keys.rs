//! Reads the values of a type with a fixed size, which are stored as integers: `v` stands for the key
//! `base + factor * v`.
//!
//! The inner loops work on one vector at a time: unpack, multiply and add, turn keys into natives. The native of a NULL
//! row is arbitrary.

use std::ops::Range;

use arrow::datatypes::ArrowNativeType;
use rowmill_base::Result;

use super::Chunk;
use super::borders::Borders;
use super::head::SectionKind;
use super::kinds::Kind;
use crate::row_mask::RowMask;
use crate::sequence::{Ints, Span, Word};

/// The rows to decode: a range, or a list in ascending order.
#[derive(Clone, Copy)]
pub(crate) enum DecodedRows<'a> {
    Range(&'a Range<usize>),
    List(&'a [u32]),
}

impl DecodedRows<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            DecodedRows::Range(range) => range.len(),
            DecodedRows::List(rows) => rows.len(),
        }
    }
}

/// A stored integer `v` is the key `base + factor * v`.
#[derive(Clone, Copy)]
pub(crate) struct Scale<W> {
    base: W,
    factor: W,
}

impl<W: Word> Scale<W> {
    pub(crate) fn of(chunk: &Chunk) -> Scale<W> {
        let facts = &chunk.head.facts;
        Scale { base: W::truncate(facts.base), factor: W::from_u64(facts.factor) }
    }

    /// The key of a stored integer.
    #[inline]
    pub(crate) fn key(&self, stored: W) -> W {
        self.base.plus(self.factor.times(stored))
    }

    /// The least stored integer whose key is not below `key`. `None` if no stored integer is that large.
    pub(super) fn stored_from(&self, key: u128) -> Option<W> {
        let distance = key.saturating_sub(self.base.widen());
        // No writer stores a factor of 0, but damaged bytes may have one.
        let stored = distance.div_ceil(self.factor.widen().max(1));
        (stored <= W::MAX.widen()).then(|| W::truncate(stored))
    }

    /// The ranges of stored integers whose keys are in `keys`.
    fn spans(&self, keys: &Borders<u128>) -> Vec<Span<W>> {
        let span = |(low, end): (&u128, Option<&u128>)| {
            let low = self.stored_from(*low)?;
            let high = match end.and_then(|end| self.stored_from(*end)) {
                // The last stored integer below the end. If the end is the least one, the range is empty.
                Some(end) => W::truncate(end.widen().checked_sub(1)?),
                None => W::MAX,
            };
            (low <= high).then_some((low, high))
        };
        keys.ranges().filter_map(span).collect()
    }

    /// Appends `finish(key)` for each stored integer.
    #[inline]
    pub(super) fn apply<T>(&self, stored: &[W], out: &mut Vec<T>, finish: impl Fn(W) -> T) {
        // Most columns have no factor. The loop without a multiplication is faster.
        if self.factor == W::from_u64(1) {
            out.extend(stored.iter().map(|value| finish(self.base.plus(*value))));
        } else {
            out.extend(stored.iter().map(|value| finish(self.key(*value))));
        }
    }
}

/// The key of the one value of a constant chunk.
pub(crate) fn constant_key<K: Kind>(chunk: &Chunk) -> K::Key {
    K::Key::truncate(chunk.head.facts.base)
}

/// Up to this many ranges are compared with packed values one by one. With more, we search them for each value.
const SPANS_MAX: usize = 8;

/// Leaves the rows in `mask` whose key is in `keys`, by the section of rows.
pub(crate) fn retain_stored<K: Kind>(chunk: &Chunk, keys: &Borders<u128>, mask: &mut RowMask) -> Result<()> {
    let rows = chunk.ints(SectionKind::Rows)?;
    let spans = Scale::<K::Key>::of(chunk).spans(keys);
    if spans.len() <= SPANS_MAX {
        return rows.retain(&spans, mask);
    }
    let is_in = |value: K::Key| {
        // The last span that starts at or below the value is the only one that may contain it.
        let behind = spans.partition_point(|(low, _)| *low <= value);
        behind > 0 && value <= spans[behind - 1].1
    };
    rows.retain_where(is_in, mask)
}

/// Decodes the section of rows: returns the result of `finish` for the key of each row.
pub(crate) fn read_stored<K: Kind, T>(
    chunk: &Chunk,
    rows: DecodedRows<'_>,
    finish: impl Fn(K::Key) -> T,
) -> Result<Vec<T>> {
    let mut out = Vec::with_capacity(rows.len());
    append_keys::<K, T>(chunk, chunk.ints(SectionKind::Rows)?, rows, &mut out, finish)?;
    Ok(out)
}

/// Appends the result of `finish` for the keys of some of the stored integers.
pub(super) fn append_keys<K: Kind, T>(
    chunk: &Chunk,
    ints: Ints<'_>,
    rows: DecodedRows<'_>,
    out: &mut Vec<T>,
    finish: impl Fn(K::Key) -> T,
) -> Result<()> {
    // Unpacking 128-bit words is slow, and the stored integers are rarely that wide.
    if K::Key::BYTES > u64::BYTES && ints.word_bytes() <= u64::BYTES {
        let Scale { base, factor } = Scale::<K::Key>::of(chunk);
        let key = |stored: u64| base.plus(factor.times(K::Key::from_u64(stored)));
        for_each_of(ints, rows, |stored| out.extend(stored.iter().map(|stored| finish(key(*stored)))))
    } else {
        let scale = Scale::of(chunk);
        for_each_of(ints, rows, |keys| scale.apply(keys, out, &finish))
    }
}

/// Calls `each` with the stored integers of the rows, a piece at a time.
pub(crate) fn for_each_of<W: Word>(ints: Ints<'_>, rows: DecodedRows<'_>, each: impl FnMut(&[W])) -> Result<()> {
    match rows {
        DecodedRows::Range(range) => ints.for_each(range.clone(), each),
        DecodedRows::List(rows) => ints.gather(rows, each),
    }
}

/// The scale between the low words of stored integers and the low words of 128-bit keys.
pub(super) fn low_scale(chunk: &Chunk) -> Scale<u64> {
    Scale { base: chunk.head.facts.base as u64, factor: chunk.head.facts.factor }
}

/// Appends the low 64 bits of integers or decimals, by the section of rows. A NULL row appends an arbitrary integer.
pub(crate) fn append_integers<K: Kind>(chunk: &Chunk, rows: DecodedRows<'_>, out: &mut Vec<i64>) -> Result<()> {
    let ints = chunk.ints(SectionKind::Rows)?;
    if K::Key::BYTES > u64::BYTES {
        // A decimal and its key differ only in the sign bit, which is a high bit. So the low word of the key is the low
        // word of the decimal.
        let scale = low_scale(chunk);
        return for_each_of(ints, rows, |stored| scale.apply(stored, out, |key| key as i64));
    }
    let scale = Scale::of(chunk);
    // Natives of fewer bits are sign-extended.
    for_each_of(ints, rows, |stored| scale.apply(stored, out, |key| K::native(key).as_usize() as i64))
}
