//! The zone map of a chunk: its least and its greatest value. Readers use it to skip chunks.
//!
//! Long strings are cut to their first bytes. A lower bound that is cut is still a lower bound. An upper bound is cut
//! and then rounded up. If that is impossible (all bytes are 0xFF), it is missing.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow::buffer::Buffer;
use rowmill_base::{Error, Result, SqlType};

use super::head::{StoredBound, StoredZone};
use super::kinds::{Kind, Physical, with_kind};
use crate::sequence::Word;
use crate::wide;

/// The maximum length of a bound of strings, in bytes.
pub(crate) const BOUND_BYTES_MAX: usize = 64;

/// A bound of a chunk's values.
#[derive(Clone, Debug)]
pub struct ZoneBound {
    /// One row of the column's type.
    pub value: ArrayRef,
    /// Whether a row has this value. Otherwise it was rounded outwards.
    pub exact: bool,
}

/// The bounds of a chunk's values, without NULLs.
///
/// Floats are ordered with NaN above everything.
#[derive(Clone, Debug)]
pub struct Zone {
    /// At most the least value of the chunk.
    pub min: ZoneBound,
    /// At least the greatest value of the chunk. `None` if no short string is that great.
    pub max: Option<ZoneBound>,
}

/// Makes the zone map of keys.
pub(crate) fn of_keys<K: Kind>(low: K::Key, high: K::Key) -> Option<StoredZone> {
    let bound = |key: K::Key| {
        let mut bytes = vec![0; K::Key::BYTES];
        key.write(&mut bytes);
        StoredBound { bytes, exact: true }
    };
    K::ORDERED.then(|| StoredZone { min: bound(low), max: Some(bound(high)) })
}

/// Makes the zone map of byte strings. `text` says whether they are text.
pub(crate) fn of_strings(low: &[u8], high: &[u8], text: bool) -> StoredZone {
    let exact = |value: &[u8]| StoredBound { bytes: value.to_vec(), exact: true };
    let min = match low.len() <= BOUND_BYTES_MAX {
        true => exact(low),
        false => StoredBound { bytes: low[..cut(low, text)].to_vec(), exact: false },
    };
    let max = match high.len() <= BOUND_BYTES_MAX {
        true => Some(exact(high)),
        false => {
            let start = &high[..cut(high, text)];
            // A cut value is less than the original, so the bound must be raised above everything that starts like it.
            let above = if text { above_text(start) } else { above_bytes(start) };
            above.map(|bytes| StoredBound { bytes, exact: false })
        }
    };
    StoredZone { min, max }
}

/// The length that a long string is cut to. Text must not be cut within a character.
fn cut(value: &[u8], text: bool) -> usize {
    let within = |end: usize| text && value[end] & 0xc0 == 0x80;
    (0..=BOUND_BYTES_MAX).rev().find(|end| !within(*end)).unwrap_or(0)
}

/// The shortest string above all strings that start with `bytes`.
fn above_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
    let last = bytes.iter().rposition(|byte| *byte != 0xff)?;
    let mut above = bytes[..=last].to_vec();
    above[last] += 1;
    Some(above)
}

/// The shortest text above all texts that start with `bytes`. The last character with a successor is replaced by it,
/// and the rest is dropped. Characters sort like their UTF-8 bytes.
fn above_text(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (at, next) = text.char_indices().rev().find_map(|(at, char)| {
        // The range of characters skips the surrogates.
        (char..=char::MAX).nth(1).map(|next| (at, next))
    })?;
    Some(format!("{}{next}", &text[..at]).into_bytes())
}

/// Decodes the zone map to arrays of the type `kind`.
pub(crate) fn decode(stored: &StoredZone, physical: Physical, kind: &SqlType) -> Result<Zone> {
    let bound = |stored: &StoredBound| {
        Ok(ZoneBound { value: decode_value(&stored.bytes, physical, kind)?, exact: stored.exact })
    };
    Ok(Zone { min: bound(&stored.min)?, max: stored.max.as_ref().map(bound).transpose()? })
}

fn decode_value(bytes: &[u8], physical: Physical, kind: &SqlType) -> Result<ArrayRef> {
    let damaged = || Error::corrupt("byte 66 of the chunk: a bound is not a value of the column's type");
    with_kind!(physical, K => decode_key::<K>(bytes, kind).ok_or_else(damaged)?, else match physical {
        Physical::Text => {
            let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
            Ok(Arc::new(StringViewArray::from(vec![text])))
        }
        Physical::Blob => Ok(Arc::new(BinaryViewArray::from(vec![bytes]))),
        Physical::Wide => wide::number_of_compact(bytes, &kind.arrow()).ok_or_else(damaged),
        _ => Err(damaged()),
    })
}

fn decode_key<K: Kind>(bytes: &[u8], kind: &SqlType) -> Option<Result<ArrayRef>> {
    (bytes.len() == K::Key::BYTES)
        .then(|| K::array(Buffer::from_vec(vec![K::native(K::Key::read(bytes))]), None, &kind.arrow()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bounds_that_are_cut_still_enclose_the_values() {
        let long = |last: &str| format!("{}{last}", "я".repeat(31)).into_bytes();
        let values = [vec![], b"a".to_vec(), long("яя"), long("\u{d7ff}x"), long("\u{10ffff}!"), vec![0x7f; 90]];
        for value in &values {
            let zone = of_strings(value, value, true);
            let max = zone.max.unwrap();
            assert!(zone.min.bytes <= *value && max.bytes >= *value);
            assert!(zone.min.bytes.len() <= BOUND_BYTES_MAX && max.bytes.len() <= BOUND_BYTES_MAX + 4);
            assert_eq!(zone.min.exact, zone.min.bytes == *value);
            assert_eq!(max.exact, max.bytes == *value);
            assert!(std::str::from_utf8(&zone.min.bytes).is_ok() && std::str::from_utf8(&max.bytes).is_ok());
        }
        assert!(of_strings(&[0xff; 65], &[0xff; 65], false).max.is_none());
        assert!(of_strings(&[], "\u{10ffff}".repeat(20).as_bytes(), true).max.is_none());
    }
}
