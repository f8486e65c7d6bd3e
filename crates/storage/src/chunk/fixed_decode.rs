//! Reading a column of a type of fixed size.
//!
//! Inner loops work on one vector at a time: unpack, multiply and add, turn keys into natives. What a row shows for a
//! NULL is of no meaning.

use std::ops::Range;

use arrow::array::{ArrayRef, new_null_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use rowmill_base::{Error, Result};

use super::codes::Codes;
use super::decimals::{self, DIGITS_MAX};
use super::head::SectionKind;
use super::kinds::{FloatKind, Kind};
use super::{Chunk, Encoding};
use crate::encoding::{SortedCursor, Word, pack_bits};

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
    let digits = chunk.head.facts.digits;
    if digits > DIGITS_MAX {
        return Err(Error::corrupt(format!("byte 69 of the chunk: {digits} decimal digits")));
    }
    let power = decimals::power(digits);
    let mut natives = stored::<Integers<K>, _>(chunk, rows, |key| decimals::value::<K>(key, power))?;
    patch::<K>(chunk, rows, &mut natives)?;
    K::array(Buffer::from_vec(natives), chunk.nulls(rows)?, &chunk.kind.arrow())
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
    let places = chunk.ints(SectionKind::ExceptionRows)?;
    let values = chunk.ints(SectionKind::ExceptionValues)?;
    let mut cursor = SortedCursor::new(places);
    match rows {
        Rows::Range(range) if !range.is_empty() => {
            let first = if range.start == 0 { 0 } else { cursor.at_most(range.start as u32 - 1)?.0 };
            let behind = cursor.at_most(range.end as u32 - 1)?.0.max(first);
            let (places, values) = (places.read::<u32>(first..behind)?, values.read::<K::Key>(first..behind)?);
            for (place, value) in places.iter().zip(values) {
                if let Some(native) = (*place as usize).checked_sub(range.start).and_then(|row| natives.get_mut(row)) {
                    *native = K::native(value);
                }
            }
        }
        Rows::Range(_) => {}
        Rows::List(rows) => {
            for (row, native) in rows.iter().zip(natives) {
                let (place, last) = cursor.at_most(*row)?;
                if last == Some(*row) {
                    *native = K::native(values.get(place - 1)?);
                }
            }
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
            let scale = Scale::of(chunk);
            natives.reserve_exact(values.len() + 1);
            values.for_each(0..values.len(), |keys| scale.apply(keys, &mut natives, K::native))?;
        }
    }
    let value_bytes = natives.len() * size_of::<K::Native>();
    natives.push(K::Native::default());
    let natives = Buffer::from_vec(natives);
    let array = K::array(natives.slice_with_length(0, value_bytes), None, &chunk.kind.arrow())?;
    Ok(FixedList { natives, array })
}

fn constant<K: Kind>(chunk: &Chunk) -> K::Native {
    K::native(K::Key::truncate(chunk.head.facts.base))
}

/// The rows of the section of rows.
fn stored<K: Kind, T>(chunk: &Chunk, rows: Rows<'_>, finish: impl Fn(K::Key) -> T) -> Result<Vec<T>> {
    let ints = chunk.ints(SectionKind::Rows)?;
    let scale = Scale::of(chunk);
    let mut out = Vec::with_capacity(rows.len());
    match rows {
        Rows::Range(range) => ints.for_each(range.clone(), |keys| scale.apply(keys, &mut out, &finish))?,
        Rows::List(rows) => ints.gather(rows, |key| scale.apply(&[key], &mut out, &finish))?,
    }
    Ok(out)
}

fn from_list<K: Kind>(chunk: &Chunk, rows: Rows<'_>) -> Result<(Vec<K::Native>, Option<NullBuffer>)> {
    let list = chunk.fixed_list()?;
    let values = list.natives.typed_data::<K::Native>();
    let codes = chunk.row_codes()?;
    let mut natives = Vec::with_capacity(rows.len());
    // Hostile codes have no value.
    let value = |code: u32| values.get(code as usize).copied().unwrap_or_default();
    if chunk.head.facts.null_count == 0 {
        match rows {
            Rows::Range(range) => codes.for_each(range.clone(), |codes| {
                natives.extend(codes.iter().map(|code| value(*code)));
            })?,
            Rows::List(rows) => codes.gather(rows, |code| natives.push(value(code)))?,
        }
        return Ok((natives, None));
    }
    let codes = read_codes(&codes, rows)?;
    natives.extend(codes.iter().map(|code| value(*code)));
    Ok((natives, nulls_of_codes(&codes, values.len() - 1)))
}

/// The code of each row.
pub(super) fn read_codes(codes: &Codes<'_>, rows: Rows<'_>) -> Result<Vec<u32>> {
    let mut out = Vec::with_capacity(rows.len());
    match rows {
        Rows::Range(range) => codes.for_each(range.clone(), |codes| out.extend_from_slice(codes))?,
        Rows::List(rows) => codes.gather(rows, |code| out.push(code))?,
    }
    Ok(out)
}

/// The rows whose code is that of NULL.
pub(super) fn nulls_of_codes(codes: &[u32], null: usize) -> Option<NullBuffer> {
    let valid = pack_bits(codes, |code| code as usize != null);
    let nulls = NullBuffer::new(BooleanBuffer::new(valid.into(), 0, codes.len()));
    (nulls.null_count() > 0).then_some(nulls)
}
