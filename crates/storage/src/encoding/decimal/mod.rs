//! Floats as integers over a power of ten, with exceptions (`integers.rs` explains how). The integers are a sequence of
//! rows like those of other types, in the shortest layout.

mod integers;

use std::marker::PhantomData;

use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use rowmill_base::{Error, Result};

use super::exceptions::{self, Exceptions};
use super::scaled::Scaled;
use super::{Analysis, Cheapest, Encoding, NewColumn};
use crate::chunk::{Borders, Chunk, DecodedRows, FloatKind, Kind, Physical, kinds, read_stored, retain_stored};
use crate::encoding::new_column::FixedColumn;
use crate::row_mask::RowMask;
use crate::sequence::{self, SequenceLayout, Word, bounds};

pub(super) struct Decimal;

/// The price, in hundredths: that of a frame, and one division per value.
const HUNDREDTHS: usize = 100;

/// Runs `$body` with `$kind` as the type of `$physical`, or runs `$other` if it is no float.
macro_rules! with_float {
    ($physical:expr, $kind:ident => $body:expr, else $other:expr) => {
        match $physical {
            Physical::Float32 => {
                type $kind = kinds::Float32;
                $body
            }
            Physical::Float64 => {
                type $kind = kinds::Float64;
                $body
            }
            _ => $other,
        }
    };
}

impl Encoding for Decimal {
    fn number(&self) -> u8 {
        7
    }

    fn name(&self) -> &'static str {
        "decimal"
    }

    fn analyse(&self, column: &NewColumn<'_>, _: &Cheapest) -> Result<Option<Analysis>> {
        let NewColumn::Fixed(column) = column else { return Ok(None) };
        Ok(with_float!(column.facts.physical, K => analyse::<K>(column), else None))
    }

    fn read(&self, chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
        with_float!(chunk.physical(), K => read::<K>(chunk, rows), else Err(chunk.unsuited()))
    }

    fn check(&self, chunk: &Chunk) -> Result<()> {
        Exceptions::open(chunk)?.check(chunk.rows())
    }

    fn retain_keys(&self, chunk: &Chunk, keys: &Borders<u128>, mask: &mut RowMask) -> Result<()> {
        with_float!(chunk.physical(), K => retain::<K>(chunk, keys, mask), else Err(chunk.unsuited()))
    }
}

fn analyse<K: FloatKind>(column: &FixedColumn<'_>) -> Option<Analysis> {
    if column.array.is_empty() {
        return None;
    }
    let found = integers::find::<K>(column.array, column.nulls, column.is_forced)?;
    let (low, high) = bounds(&found.keys);
    let Scaled { base, factor, words } = Scaled::new(&found.keys, low, high);
    // Exceptions are rarely alike, so packing them would not pay.
    let keys = sequence::encode_as(SequenceLayout::Plain, &found.exception_keys).expect("plain values have a size");
    let aside = exceptions::encode(&found.exception_rows, keys);
    let aside_bytes: usize = aside.iter().map(|section| section.bytes.len()).sum();
    Some(Analysis::of(words.bytes() + aside_bytes + column.valid_bytes(), HUNDREDTHS, move |column| {
        let mut column = column.into_fixed();
        column.facts.digits = found.digits;
        Ok(column.in_row_order(words.rows(), (base, factor), aside))
    }))
}

fn read<K: FloatKind>(chunk: &Chunk, rows: DecodedRows<'_>) -> Result<ArrayRef> {
    let power = power_of(chunk)?;
    let mut natives = read_stored::<Integers<K>, _>(chunk, rows, |key| integers::value::<K>(key, power))?;
    Exceptions::open(chunk)?.for_each_of(rows, |place, key| natives[place] = K::native(key))?;
    K::array(Buffer::from_vec(natives), chunk.nulls(rows)?, &chunk.stored_kind().arrow())
}

fn retain<K: FloatKind>(chunk: &Chunk, keys: &Borders<u128>, mask: &mut RowMask) -> Result<()> {
    let power = power_of(chunk)?;
    // Translate the borders once instead of every stored integer to a float.
    let integers = keys.try_map(&u128::MAX, |key| Ok::<_, Error>(integers::integer_from::<K>(*key, power)))?;
    let before = mask.clone();
    // This also decides the exception rows, by integers that have no meaning. They are corrected below.
    retain_stored::<Integers<K>>(chunk, &integers, mask)?;
    Exceptions::open(chunk)?.correct(&before, mask, |key: K::Key| keys.contains(&key.widen()))
}

/// The power of ten that stored integers are divided by.
fn power_of(chunk: &Chunk) -> Result<f64> {
    match chunk.facts().digits {
        digits if digits > integers::DIGITS_MAX => {
            Err(Error::corrupt(format!("byte 69 of the chunk: {digits} decimal digits")))
        }
        digits => Ok(integers::power(digits)),
    }
}

/// The kind of the integers that decimals are stored as, for both float types.
struct Integers<K>(PhantomData<K>);

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
