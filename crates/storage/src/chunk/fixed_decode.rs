//! Reading a column of a type of fixed size.
//!
//! Inner loops work on one vector at a time: unpack, multiply and add, turn keys into natives. What a row shows for a
//! NULL is of no meaning.

use std::ops::Range;

use arrow::array::{ArrayRef, new_null_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::ArrowNativeType;
use rowmill_base::{Error, Result};

use super::borders::Borders;
use super::codes::Codes;
use super::decimals::{self, DIGITS_MAX};
use super::head::SectionKind;
use super::kinds::{FloatKind, Kind};
use super::{Chunk, Encoding};
use crate::encoding::{Ints, SortedCursor, Span, Word, pack_bits};
use crate::row_mask::RowMask;

/// Rows to decode: neighbours, or any.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    Range(&'a Range<usize>),
    List(&'a [u32]),
}

impl Rows<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Rows::Range(range) => range.len(),
            Rows::List(rows) => rows.len(),
        }
    }
}

/// A stored integer `v` is the key `base + factor * v`.
#[derive(Clone, Copy)]
struct Scale<W> {
    base: W,
    factor: W,
}

impl<W: Word> Scale<W> {
    fn of(chunk: &Chunk) -> Scale<W> {
        let facts = &chunk.head.facts;
        Scale { base: W::truncate(facts.base), factor: W::from_u64(facts.factor) }
    }

    /// The least stored integer whose key is not below `key`; `None` if there is none.
    fn stored_from(&self, key: u128) -> Option<W> {
        let distance = key.saturating_sub(self.base.widen());
        // A factor of 0 is never written.
        let stored = distance.div_ceil(self.factor.widen().max(1));
        (stored <= W::MAX.widen()).then(|| W::truncate(stored))
    }

    /// The stored integers whose keys lie in `keys`.
    fn spans(&self, keys: &Borders<u128>) -> Vec<Span<W>> {
        let span = |(low, end): (&u128, Option<&u128>)| {
            let low = self.stored_from(*low)?;
            let high = match end.and_then(|end| self.stored_from(*end)) {
                // The last one before the end.
                Some(end) => W::truncate(end.widen().checked_sub(1)?),
                None => W::MAX,
            };
            (low <= high).then_some((low, high))
        };
        keys.ranges().filter_map(span).collect()
    }

    /// Appends `finish(key)` for each stored integer.
    #[inline]
    fn apply<T>(&self, stored: &[W], out: &mut Vec<T>, finish: impl Fn(W) -> T) {
        if self.factor == W::from_u64(1) {
            out.extend(stored.iter().map(|value| finish(self.base.plus(*value))));
        } else {
            out.extend(stored.iter().map(|value| finish(self.base.plus(self.factor.times(*value)))));
        }
    }
}

/// The rows as an array.
pub(super) fn read<K: Kind>(chunk: &Chunk, rows: Rows<'_>) -> Result<ArrayRef> {
    let kind = chunk.kind.arrow();
    let facts = &chunk.head.facts;
    let (natives, nulls) = match facts.encoding {
        Encoding::Constant if facts.null_count > 0 => return Ok(new_null_array(&kind, rows.len())),
        Encoding::Constant => (vec![constant::<K>(chunk); rows.len()], None),
        Encoding::ListCodes | Encoding::ListRuns | Encoding::ListRows => from_list::<K>(chunk, rows)?,
        Encoding::Frame | Encoding::Delta | Encoding::Plain => {
            (stored::<K, _>(chunk, rows, K::native)?, chunk.nulls(rows)?)
        }
        Encoding::Decimal | Encoding::Rows | Encoding::Nested => return Err(chunk.unsuited()),
    };
    K::array(Buffer::from_vec(natives), nulls, &kind)
}

/// The rows of a float column as an array.
pub(super) fn read_floats<K: FloatKind>(chunk: &Chunk, rows: Rows<'_>) -> Result<ArrayRef> {
    if chunk.head.facts.encoding != Encoding::Decimal {
        return read::<K>(chunk, rows);
    }
    let power = decimal_power(chunk)?;
    let mut natives = stored::<Integers<K>, _>(chunk, rows, |key| decimals::value::<K>(key, power))?;
    patch::<K>(chunk, rows, &mut natives)?;
    K::array(Buffer::from_vec(natives), chunk.nulls(rows)?, &chunk.kind.arrow())
}

/// What integers are divided by.
fn decimal_power(chunk: &Chunk) -> Result<f64> {
    match chunk.head.facts.digits {
        digits if digits > DIGITS_MAX => Err(Error::corrupt(format!("byte 69 of the chunk: {digits} decimal digits"))),
        digits => Ok(decimals::power(digits)),
    }
}

/// What decimals are stored as, whatever the float.
struct Integers<K>(std::marker::PhantomData<K>);

impl<K: FloatKind> Kind for Integers<K> {
    type Key = u64;
    type Native = u64;

    fn key(native: u64) -> u64 {
        native
    }
    fn native(key: u64) -> u64 {
        key
    }
}

/// Puts the values that are no decimals where they belong.
fn patch<K: FloatKind>(chunk: &Chunk, rows: Rows<'_>, natives: &mut [K::Native]) -> Result<()> {
    match rows {
        Rows::Range(range) => for_each_exception::<K>(chunk, range, |row, key| {
            natives[row - range.start] = K::native(key);
        }),
        Rows::List(rows) => {
            let values = chunk.ints(SectionKind::ExceptionValues)?;
            let mut cursor = SortedCursor::new(chunk.ints(SectionKind::ExceptionRows)?);
            for (row, native) in rows.iter().zip(natives) {
                let (place, last) = cursor.at_most(*row)?;
                if last == Some(*row) {
                    *native = K::native(values.get(place - 1)?);
                }
            }
            Ok(())
        }
    }
}

/// Calls `each` with the rows of `range` whose value is no decimal, and their keys.
fn for_each_exception<K: FloatKind>(
    chunk: &Chunk,
    range: &Range<usize>,
    mut each: impl FnMut(usize, K::Key),
) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let places = chunk.ints(SectionKind::ExceptionRows)?;
    let values = chunk.ints(SectionKind::ExceptionValues)?;
    let mut cursor = SortedCursor::new(places);
    let first = if range.start == 0 { 0 } else { cursor.at_most(range.start as u32 - 1)?.0 };
    let behind = cursor.at_most(range.end as u32 - 1)?.0.max(first);
    let (places, values) = (places.read::<u32>(first..behind)?, values.read::<K::Key>(first..behind)?);
    for (place, value) in places.iter().zip(values) {
        if range.contains(&(*place as usize)) {
            each(*place as usize, value);
        }
    }
    Ok(())
}

/// A value list, decoded.
#[derive(Debug)]
pub(super) struct FixedList {
    /// The values, and one more that stands for NULL: the look-up of a code then never leaves the list.
    natives: Buffer,
    /// The values, over the same bytes.
    pub(super) array: ArrayRef,
}

/// Bytes of memory of [`list`].
pub(super) fn list_bytes<K: Kind>(chunk: &Chunk) -> usize {
    let values = chunk.distinct().unwrap_or_default().min(chunk.rows());
    (values + 1) * size_of::<K::Native>()
}

/// The distinct values.
pub(super) fn list<K: Kind>(chunk: &Chunk) -> Result<FixedList> {
    let facts = &chunk.head.facts;
    let mut natives = Vec::new();
    match facts.encoding {
        Encoding::Constant if facts.null_count < facts.rows => natives.push(constant::<K>(chunk)),
        Encoding::Constant => {}
        _ => {
            let values = chunk.ints(SectionKind::Values)?;
            natives.reserve_exact(values.len() + 1);
            append_keys::<K, _>(chunk, values, Rows::Range(&(0..values.len())), &mut natives, K::native)?;
        }
    }
    let value_bytes = natives.len() * size_of::<K::Native>();
    natives.push(K::Native::default());
    let natives = Buffer::from_vec(natives);
    let array = K::array(natives.slice_with_length(0, value_bytes), None, &chunk.kind.arrow())?;
    Ok(FixedList { natives, array })
}

/// The values of some codes.
pub(super) fn list_slice<K: Kind>(chunk: &Chunk, codes: Range<usize>) -> Result<ArrayRef> {
    let values = chunk.ints(SectionKind::Values)?;
    chunk.check_list(values.len())?;
    let mut natives = Vec::with_capacity(codes.len());
    append_keys::<K, _>(chunk, values, Rows::Range(&codes), &mut natives, K::native)?;
    K::array(Buffer::from_vec(natives), None, &chunk.kind.arrow())
}

/// The values of `codes`, which ascend.
pub(super) fn picked_list<K: Kind>(chunk: &Chunk, codes: &[u32]) -> Result<ArrayRef> {
    let values = chunk.ints(SectionKind::Values)?;
    chunk.check_list(values.len())?;
    let mut natives = Vec::with_capacity(codes.len());
    append_keys::<K, _>(chunk, values, Rows::List(codes), &mut natives, K::native)?;
    K::array(Buffer::from_vec(natives), None, &chunk.kind.arrow())
}

/// The key of the one value of a constant chunk.
pub(super) fn constant_key<K: Kind>(chunk: &Chunk) -> u128 {
    K::Key::truncate(chunk.head.facts.base).widen()
}

/// The places of `keys` in the value list, which has at least one value. Nothing but what the search meets is decoded.
pub(super) fn places<K: Kind>(chunk: &Chunk, keys: &Borders<u128>) -> Result<Borders<u32>> {
    let values = chunk.ints(SectionKind::Values)?;
    chunk.check_list(values.len())?;
    let scale = Scale::<K::Key>::of(chunk);
    let end = values.len() as u32;
    let mut search = values.search();
    keys.try_map(&end, |key| match scale.stored_from(*key) {
        Some(stored) => search.lower_bound(stored).map(|place| place as u32),
        None => Ok(end),
    })
}

/// Ranges that are compared one by one with packed values; of more, each value is searched for.
const SPANS_MAX: usize = 8;

/// Leaves the rows in `mask` whose key lies in `keys`, of an encoding that stores rows. What stands for NULL has a key too.
pub(super) fn retain<K: Kind>(chunk: &Chunk, keys: &Borders<u128>, mask: &mut RowMask) -> Result<()> {
    let rows = chunk.ints(SectionKind::Rows)?;
    let spans = Scale::<K::Key>::of(chunk).spans(keys);
    if spans.len() <= SPANS_MAX {
        return rows.retain(&spans, mask);
    }
    let is_in = |value: K::Key| {
        let behind = spans.partition_point(|(low, _)| *low <= value);
        behind > 0 && value <= spans[behind - 1].1
    };
    rows.retain_where(is_in, mask)
}

/// As [`retain`], of floats.
pub(super) fn retain_floats<K: FloatKind>(chunk: &Chunk, keys: &Borders<u128>, mask: &mut RowMask) -> Result<()> {
    if chunk.head.facts.encoding != Encoding::Decimal {
        return retain::<K>(chunk, keys, mask);
    }
    let power = decimal_power(chunk)?;
    let integers = keys.try_map(&u128::MAX, |key| Ok(decimals::integer_from::<K>(*key, power)))?;
    let before = mask.clone();
    retain::<Integers<K>>(chunk, &integers, mask)?;
    for_each_exception::<K>(chunk, &before.rows(), |row, key| {
        if before.contains(row) {
            match keys.contains(&key.widen()) {
                true => mask.insert(row),
                false => mask.remove(row),
            }
        }
    })
}

fn constant<K: Kind>(chunk: &Chunk) -> K::Native {
    K::native(K::Key::truncate(chunk.head.facts.base))
}

/// The rows of the section of rows.
fn stored<K: Kind, T>(chunk: &Chunk, rows: Rows<'_>, finish: impl Fn(K::Key) -> T) -> Result<Vec<T>> {
    let mut out = Vec::with_capacity(rows.len());
    append_keys::<K, T>(chunk, chunk.ints(SectionKind::Rows)?, rows, &mut out, finish)?;
    Ok(out)
}

/// Appends what `finish` makes of the keys of some of the stored integers.
fn append_keys<K: Kind, T>(
    chunk: &Chunk,
    ints: Ints<'_>,
    rows: Rows<'_>,
    out: &mut Vec<T>,
    finish: impl Fn(K::Key) -> T,
) -> Result<()> {
    // Words of 128 bits are slow to unpack, and what is stored is rarely that wide.
    if K::Key::BYTES > u64::BYTES && ints.word_bytes() <= u64::BYTES {
        let Scale { base, factor } = Scale::<K::Key>::of(chunk);
        let key = |stored: u64| base.plus(factor.times(K::Key::from_u64(stored)));
        for_each_of(ints, rows, |stored| out.extend(stored.iter().map(|stored| finish(key(*stored)))))
    } else {
        let scale = Scale::of(chunk);
        for_each_of(ints, rows, |keys| scale.apply(keys, out, &finish))
    }
}

/// Calls `each` with what is stored for the rows, some at a time.
fn for_each_of<W: Word>(ints: Ints<'_>, rows: Rows<'_>, each: impl FnMut(&[W])) -> Result<()> {
    match rows {
        Rows::Range(range) => ints.for_each(range.clone(), each),
        Rows::List(rows) => ints.gather(rows, each),
    }
}

/// How the low words of keys of 128 bits come of those of stored integers.
fn low_scale(chunk: &Chunk) -> Scale<u64> {
    Scale { base: chunk.head.facts.base as u64, factor: chunk.head.facts.factor }
}

/// The low words of a list of decimals.
pub(super) fn low_words(chunk: &Chunk, values: Ints<'_>) -> Result<Vec<i64>> {
    let scale = low_scale(chunk);
    let mut words = Vec::with_capacity(values.len());
    values.for_each(0..values.len(), |stored| scale.apply(stored, &mut words, |key| key as i64))?;
    Ok(words)
}

/// Appends the low 64 bits of rows of integers or decimals; those of NULL are of no meaning.
pub(super) fn integers<K: Kind>(chunk: &Chunk, rows: Rows<'_>, out: &mut Vec<i64>) -> Result<()> {
    /// Smaller integers keep their sign.
    fn low<K: Kind>(native: K::Native) -> i64 {
        native.as_usize() as i64
    }
    let facts = &chunk.head.facts;
    match facts.encoding {
        Encoding::Constant => {
            let value = if facts.null_count > 0 { 0 } else { low::<K>(constant::<K>(chunk)) };
            out.resize(out.len() + rows.len(), value);
            Ok(())
        }
        Encoding::ListCodes | Encoding::ListRuns | Encoding::ListRows if K::Key::BYTES > u64::BYTES => {
            let values = chunk.low_words()?;
            for_each_code(&chunk.row_codes()?, rows, |codes| {
                out.extend(codes.iter().map(|code| values.get(*code as usize).copied().unwrap_or_default()));
            })
        }
        Encoding::ListCodes | Encoding::ListRuns | Encoding::ListRows => {
            let values = chunk.fixed_list()?.natives.typed_data::<K::Native>();
            for_each_code(&chunk.row_codes()?, rows, |codes| {
                let value = |code: &u32| values.get(*code as usize).copied().unwrap_or_default();
                out.extend(codes.iter().map(|code| low::<K>(value(code))));
            })
        }
        // Without its high bits a decimal is what its key is without them, but for the sign, which is one of those.
        Encoding::Frame | Encoding::Delta | Encoding::Plain if K::Key::BYTES > u64::BYTES => {
            let scale = low_scale(chunk);
            for_each_of(chunk.ints(SectionKind::Rows)?, rows, |stored| scale.apply(stored, out, |key| key as i64))
        }
        Encoding::Frame | Encoding::Delta | Encoding::Plain => {
            let scale = Scale::of(chunk);
            let ints = chunk.ints(SectionKind::Rows)?;
            for_each_of(ints, rows, |stored| scale.apply(stored, out, |key| low::<K>(K::native(key))))
        }
        Encoding::Decimal | Encoding::Rows | Encoding::Nested => Err(chunk.unsuited()),
    }
}

fn from_list<K: Kind>(chunk: &Chunk, rows: Rows<'_>) -> Result<(Vec<K::Native>, Option<NullBuffer>)> {
    let list = chunk.fixed_list()?;
    let values = list.natives.typed_data::<K::Native>();
    let codes = chunk.row_codes()?;
    let mut natives = Vec::with_capacity(rows.len());
    // Hostile codes have no value.
    let value = |code: u32| values.get(code as usize).copied().unwrap_or_default();
    if chunk.head.facts.null_count == 0 {
        for_each_code(&codes, rows, |codes| natives.extend(codes.iter().map(|code| value(*code))))?;
        return Ok((natives, None));
    }
    let codes = read_codes(&codes, rows)?;
    natives.extend(codes.iter().map(|code| value(*code)));
    Ok((natives, nulls_of_codes(&codes, values.len() - 1)))
}

/// The code of each row.
pub(super) fn read_codes(codes: &Codes<'_>, rows: Rows<'_>) -> Result<Vec<u32>> {
    let mut out = Vec::with_capacity(rows.len());
    for_each_code(codes, rows, |codes| out.extend_from_slice(codes))?;
    Ok(out)
}

/// Calls `each` with the codes of the rows, some at a time.
fn for_each_code(codes: &Codes<'_>, rows: Rows<'_>, each: impl FnMut(&[u32])) -> Result<()> {
    match rows {
        Rows::Range(range) => codes.for_each(range.clone(), each),
        Rows::List(rows) => codes.gather(rows, each),
    }
}

/// The rows whose code is that of NULL.
pub(super) fn nulls_of_codes(codes: &[u32], null: usize) -> Option<NullBuffer> {
    let valid = pack_bits(codes, |code| code as usize != null);
    let nulls = NullBuffer::new(BooleanBuffer::new(valid.into(), 0, codes.len()));
    (nulls.null_count() > 0).then_some(nulls)
}
