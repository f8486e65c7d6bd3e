//! Reads a column whose type has a fixed size.
//!
//! The inner loops work on one vector at a time: unpack, multiply and add, turn keys into natives. The native of a NULL
//! row is arbitrary.

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

/// The rows to decode: a range, or a list in ascending order.
#[derive(Clone, Copy)]
pub(super) enum DecodedRows<'a> {
    Range(&'a Range<usize>),
    List(&'a [u32]),
}

impl DecodedRows<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            DecodedRows::Range(range) => range.len(),
            DecodedRows::List(rows) => rows.len(),
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

    /// The least stored integer whose key is not below `key`. `None` if no stored integer is that large.
    fn stored_from(&self, key: u128) -> Option<W> {
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
    fn apply<T>(&self, stored: &[W], out: &mut Vec<T>, finish: impl Fn(W) -> T) {
        // Most columns have no factor. The loop without a multiplication is faster.
        if self.factor == W::from_u64(1) {
            out.extend(stored.iter().map(|value| finish(self.base.plus(*value))));
        } else {
            out.extend(stored.iter().map(|value| finish(self.base.plus(self.factor.times(*value)))));
        }
    }
}

/// Reads the rows as an array.
pub(super) fn read<K: Kind>(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
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

/// Reads the rows of a float column as an array.
pub(super) fn read_floats<K: FloatKind>(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
    if chunk.head.facts.encoding != Encoding::Decimal {
        return read::<K>(chunk, rows);
    }
    let power = decimal_power(chunk)?;
    let mut natives = stored::<Integers<K>, _>(chunk, rows, |key| decimals::value::<K>(key, power))?;
    patch::<K>(chunk, rows, &mut natives)?;
    K::array(Buffer::from_vec(natives), chunk.nulls(rows)?, &chunk.kind.arrow())
}

/// The power of ten that stored integers are divided by.
fn decimal_power(chunk: &Chunk) -> Result<f64> {
    match chunk.head.facts.digits {
        digits if digits > DIGITS_MAX => Err(Error::corrupt(format!("byte 69 of the chunk: {digits} decimal digits"))),
        digits => Ok(decimals::power(digits)),
    }
}

/// The kind of the integers that decimals are stored as, for both float types.
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

/// Overwrites the rows whose value is not a decimal with the stored exceptions.
fn patch<K: FloatKind>(chunk: &Chunk, rows: DecodedRows<'_>, natives: &mut [K::Native]) -> Result<()> {
    match rows {
        DecodedRows::Range(range) => for_each_exception::<K>(chunk, range, |row, key| {
            natives[row - range.start] = K::native(key);
        }),
        DecodedRows::List(rows) => {
            let values = chunk.ints(SectionKind::ExceptionValues)?;
            // Both lists ascend, so a cursor walks through the exceptions once.
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

/// Calls `each` with the rows of `range` whose value is not a decimal, and with their keys.
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
    // The positions after all exceptions before the range, and after all exceptions in it.
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

/// A decoded value list.
#[derive(Debug)]
pub(super) struct FixedList {
    /// The values, and one more for NULL, so that looking up the code of NULL stays within the list.
    natives: Buffer,
    /// The values, in the same memory.
    pub(super) array: ArrayRef,
}

/// The memory that [`list`] takes, in bytes.
pub(super) fn list_bytes<K: Kind>(chunk: &Chunk) -> usize {
    let values = chunk.distinct().unwrap_or_default().min(chunk.rows());
    (values + 1) * size_of::<K::Native>()
}

/// Decodes the distinct values.
pub(super) fn list<K: Kind>(chunk: &Chunk) -> Result<FixedList> {
    let facts = &chunk.head.facts;
    let mut natives = Vec::new();
    match facts.encoding {
        Encoding::Constant if facts.null_count < facts.rows => natives.push(constant::<K>(chunk)),
        Encoding::Constant => {}
        _ => {
            let values = chunk.ints(SectionKind::Values)?;
            natives.reserve_exact(values.len() + 1);
            append_keys::<K, _>(chunk, values, DecodedRows::Range(&(0..values.len())), &mut natives, K::native)?;
        }
    }
    let value_bytes = natives.len() * size_of::<K::Native>();
    // This last native is for the code of NULL. The array must not include it.
    natives.push(K::Native::default());
    let natives = Buffer::from_vec(natives);
    let array = K::array(natives.slice_with_length(0, value_bytes), None, &chunk.kind.arrow())?;
    Ok(FixedList { natives, array })
}

/// Decodes the values of a range of codes.
pub(super) fn list_slice<K: Kind>(chunk: &Chunk, codes: Range<usize>) -> Result<ArrayRef> {
    let values = chunk.ints(SectionKind::Values)?;
    chunk.check_list(values.len())?;
    let mut natives = Vec::with_capacity(codes.len());
    append_keys::<K, _>(chunk, values, DecodedRows::Range(&codes), &mut natives, K::native)?;
    K::array(Buffer::from_vec(natives), None, &chunk.kind.arrow())
}

/// Decodes the values of `codes`, which must ascend.
pub(super) fn picked_list<K: Kind>(chunk: &Chunk, codes: &[u32]) -> Result<ArrayRef> {
    let values = chunk.ints(SectionKind::Values)?;
    chunk.check_list(values.len())?;
    let mut natives = Vec::with_capacity(codes.len());
    append_keys::<K, _>(chunk, values, DecodedRows::List(codes), &mut natives, K::native)?;
    K::array(Buffer::from_vec(natives), None, &chunk.kind.arrow())
}

/// The key of the one value of a constant chunk.
pub(super) fn constant_key<K: Kind>(chunk: &Chunk) -> u128 {
    K::Key::truncate(chunk.head.facts.base).widen()
}

/// Finds the positions of `keys` in the value list, which must not be empty. Decodes only the values that the search
/// meets.
pub(super) fn places<K: Kind>(chunk: &Chunk, keys: &Borders<u128>) -> Result<Borders<u32>> {
    let values = chunk.ints(SectionKind::Values)?;
    chunk.check_list(values.len())?;
    let scale = Scale::<K::Key>::of(chunk);
    let end = values.len() as u32;
    let mut search = values.search();
    keys.try_map(&end, |key| match scale.stored_from(*key) {
        // No stored value is that large, so the border is after the last one.
        Some(stored) => search.lower_bound(stored).map(|place| place as u32),
        None => Ok(end),
    })
}

/// Up to this many ranges are compared with packed values one by one. With more, we search them for each value.
const SPANS_MAX: usize = 8;

/// Leaves the rows in `mask` whose key is in `keys`. Only for encodings that store rows. A NULL row has an arbitrary
/// key, so the caller must handle NULLs.
pub(super) fn retain<K: Kind>(chunk: &Chunk, keys: &Borders<u128>, mask: &mut RowMask) -> Result<()> {
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

/// Leaves the rows in `mask` whose key is in `keys`, in a float column.
pub(super) fn retain_floats<K: FloatKind>(chunk: &Chunk, keys: &Borders<u128>, mask: &mut RowMask) -> Result<()> {
    if chunk.head.facts.encoding != Encoding::Decimal {
        return retain::<K>(chunk, keys, mask);
    }
    let power = decimal_power(chunk)?;
    // Translate the borders once instead of every stored integer to a float.
    let integers = keys.try_map(&u128::MAX, |key| Ok(decimals::integer_from::<K>(*key, power)))?;
    let before = mask.clone();
    // This also decides the exception rows, by integers that have no meaning. They are corrected below.
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

/// Decodes the section of rows.
fn stored<K: Kind, T>(chunk: &Chunk, rows: DecodedRows<'_>, finish: impl Fn(K::Key) -> T) -> Result<Vec<T>> {
    let mut out = Vec::with_capacity(rows.len());
    append_keys::<K, T>(chunk, chunk.ints(SectionKind::Rows)?, rows, &mut out, finish)?;
    Ok(out)
}

/// Appends the result of `finish` for the keys of some of the stored integers.
fn append_keys<K: Kind, T>(
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
fn for_each_of<W: Word>(ints: Ints<'_>, rows: DecodedRows<'_>, each: impl FnMut(&[W])) -> Result<()> {
    match rows {
        DecodedRows::Range(range) => ints.for_each(range.clone(), each),
        DecodedRows::List(rows) => ints.gather(rows, each),
    }
}

/// The scale between the low words of stored integers and the low words of 128-bit keys.
fn low_scale(chunk: &Chunk) -> Scale<u64> {
    Scale { base: chunk.head.facts.base as u64, factor: chunk.head.facts.factor }
}

/// Decodes the low words of a list of decimals.
pub(super) fn low_words(chunk: &Chunk, values: Ints<'_>) -> Result<Vec<i64>> {
    let scale = low_scale(chunk);
    let mut words = Vec::with_capacity(values.len());
    values.for_each(0..values.len(), |stored| scale.apply(stored, &mut words, |key| key as i64))?;
    Ok(words)
}

/// Appends the low 64 bits of rows of integers or decimals. A NULL row appends an arbitrary integer.
pub(super) fn integers<K: Kind>(chunk: &Chunk, rows: DecodedRows<'_>, out: &mut Vec<i64>) -> Result<()> {
    /// The low bits of a native. Natives of fewer bits are sign-extended.
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
        // A decimal and its key differ only in the sign bit, which is a high bit. So the low word of the key is the low
        // word of the decimal.
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

fn from_list<K: Kind>(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<(Vec<K::Native>, Option<NullBuffer>)> {
    let list = chunk.fixed_list()?;
    let values = list.natives.typed_data::<K::Native>();
    let codes = chunk.row_codes()?;
    let mut natives = Vec::with_capacity(rows.len());
    // Damaged codes may be above the list. They get a default value.
    let value = |code: u32| values.get(code as usize).copied().unwrap_or_default();
    if chunk.head.facts.null_count == 0 {
        for_each_code(&codes, rows, |codes| natives.extend(codes.iter().map(|code| value(*code))))?;
        return Ok((natives, None));
    }
    // NULLs are found by their code, so the codes are needed as a whole.
    let codes = read_codes(&codes, rows)?;
    natives.extend(codes.iter().map(|code| value(*code)));
    Ok((natives, nulls_of_codes(&codes, values.len() - 1)))
}

/// Reads the code of each row.
pub(super) fn read_codes(codes: &Codes<'_>, rows: DecodedRows<'_>) -> Result<Vec<u32>> {
    let mut out = Vec::with_capacity(rows.len());
    for_each_code(codes, rows, |codes| out.extend_from_slice(codes))?;
    Ok(out)
}

/// Calls `each` with the codes of the rows, a piece at a time.
fn for_each_code(codes: &Codes<'_>, rows: DecodedRows<'_>, each: impl FnMut(&[u32])) -> Result<()> {
    match rows {
        DecodedRows::Range(range) => codes.for_each(range.clone(), each),
        DecodedRows::List(rows) => codes.gather(rows, each),
    }
}

/// Marks the rows as NULL whose code is `null`. Returns `None` if no row is.
pub(super) fn nulls_of_codes(codes: &[u32], null: usize) -> Option<NullBuffer> {
    let valid = pack_bits(codes, |code| code as usize != null);
    let nulls = NullBuffer::new(BooleanBuffer::new(valid.into(), 0, codes.len()));
    (nulls.null_count() > 0).then_some(nulls)
}
