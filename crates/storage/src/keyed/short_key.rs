//! Keys of an index that are too long to be kept, shortened: the first bytes of the index's columns and a hash of all of them.
//!
//! ```text
//! columns of 1,024 bytes at most   columns                                     primary key
//! longer ones                      their first 1,024 bytes   hash (16 bytes)   primary key
//! ```
//!
//! Whether a key is shortened depends on the index's columns alone, so that rows with the same values have the same bytes
//! there, whatever follows. Which of both it is says the key itself: columns that are kept as they are end within the first
//! 1,024 bytes, and of shortened ones these bytes are the beginning of something longer, which never ends there, as no
//! columns' bytes are the beginning of other columns' bytes. For the same reason a shortened key lies before or behind all
//! keys with other first bytes as the whole key would. Among those with the same first bytes order is that of hashes, which
//! means nothing, and the bytes behind the hash are never those of the columns: who needs their values asks the row.
//!
//! The hash is SipHash-2-4 of 128 bits with a key of zeros: fixed forever, as it is on disk. Nothing relies on it: who looks
//! for a value compares it with the row's. Its last bit is not the hash's and says that a column is NULL, so that a unique
//! index tells from the key whether it may be there once.

use std::hash::Hasher;

use rowmill_base::{Error, Result};
use siphasher::sip128::{Hasher128, SipHasher24};

use super::key::KeyCodec;
use super::key_range::{KeyRange, key_behind_prefix};

/// Columns of more bytes are shortened, to so many and a hash.
pub const SHORT_PREFIX_BYTES: usize = 1024;

/// Bytes of the hash.
pub const SHORT_HASH_BYTES: usize = 16;

/// Bytes of shortened columns.
pub const SHORT_BYTES: usize = SHORT_PREFIX_BYTES + SHORT_HASH_BYTES;

/// Of the last byte of the hash: some column is NULL.
const HAS_NULL: u8 = 1 << 7;

/// How the first parts of a key are kept, and in how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptParts {
    /// As they are.
    Whole(usize),
    /// Shortened.
    Short,
}

/// What a range of shortened keys has beside those that are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeFit {
    /// None.
    #[default]
    Exact,
    /// Keys with the same hash as the one value that is asked for: none, as long as hashes are good.
    OneValue,
    /// Keys with the same first bytes as an end of the range.
    Wider,
}

impl KeyCodec {
    /// Shortens the key behind the first `head` bytes of `key`, of the first `parts` parts and nothing behind them, if it is too
    /// long; whether it was.
    pub fn shorten(&self, parts: usize, head: usize, key: &mut Vec<u8>) -> Result<bool> {
        if key.len() - head <= SHORT_PREFIX_BYTES {
            return Ok(false);
        }
        let hash = self.short_hash(parts, &key[head..])?;
        key.truncate(head + SHORT_PREFIX_BYTES);
        key.extend_from_slice(&hash);
        Ok(true)
    }

    /// Whether the first `parts` parts of some key are too long to be kept as they are.
    pub fn may_be_short(&self, parts: usize) -> bool {
        let widths = self.forms[..parts].iter().zip(&self.parts).map(|(form, part)| {
            // A nullable part begins with a byte of its own.
            Some(form.width()? + usize::from(part.nullable))
        });
        widths.sum::<Option<usize>>().is_none_or(|bytes| bytes > SHORT_PREFIX_BYTES)
    }

    /// How the first `parts` parts of `key` are kept, which was perhaps shortened. `Corrupt` if it ends too early.
    pub fn kept_parts(&self, parts: usize, key: &[u8]) -> Result<KeptParts> {
        match self.ends_within(parts, &key[..key.len().min(SHORT_PREFIX_BYTES)]) {
            Some(bytes) => Ok(KeptParts::Whole(bytes)),
            None if key.len() >= SHORT_BYTES => Ok(KeptParts::Short),
            None => Err(Error::corrupt(format!("a key of {} bytes ends too early", key.len()))),
        }
    }

    /// Whether the first parts of `key`, which was perhaps shortened, were.
    #[inline]
    pub fn is_short(&self, parts: usize, key: &[u8]) -> bool {
        key.len() >= SHORT_BYTES && self.ends_within(parts, &key[..SHORT_PREFIX_BYTES]).is_none()
    }

    /// Whether one of the parts of a shortened key is NULL.
    pub fn short_has_null(short: &[u8]) -> bool {
        short.get(SHORT_BYTES - 1).is_some_and(|last| last & HAS_NULL != 0)
    }

    /// Sets `kept` to a range of keys as they are kept, of which the first `parts` parts are shortened where they are too long. It
    /// has all of `asked`, a range of whole keys; what else is the result. Keys are those behind `head` bytes.
    pub fn kept_range(&self, parts: usize, head: usize, asked: &KeyRange, kept: &mut KeyRange) -> Result<RangeFit> {
        kept.start.clone_from(&asked.start);
        kept.end.clone_from(&asked.end);
        if self.is_kept(parts, head, &asked.start) && self.is_kept(parts, head, &asked.end) {
            return Ok(RangeFit::Exact);
        }
        if let Some(columns) = self.one_value(parts, head, asked) {
            // Behind the columns the range is what it was.
            let mut short = columns.to_vec();
            self.shorten(parts, head, &mut short)?;
            let behind = asked.end.strip_prefix(columns);
            kept.start.splice(..columns.len(), short.iter().copied());
            kept.end.clone_from(&short);
            match behind {
                Some(behind) => kept.end.extend_from_slice(behind),
                None => key_behind_prefix(&mut kept.end),
            }
            return Ok(RangeFit::OneValue);
        }
        if !self.is_kept(parts, head, &asked.start) {
            kept.start.truncate(head + SHORT_PREFIX_BYTES);
        }
        if !self.is_kept(parts, head, &asked.end) {
            kept.end.truncate(head + SHORT_PREFIX_BYTES);
            key_behind_prefix(&mut kept.end);
        }
        Ok(RangeFit::Wider)
    }

    /// Whether keys lie on the same side of `bound` whether they are shortened or not.
    fn is_kept(&self, parts: usize, head: usize, bound: &[u8]) -> bool {
        bound.len() <= head + SHORT_PREFIX_BYTES
            || self.ends_within(parts, &bound[head..head + SHORT_PREFIX_BYTES]).is_some()
    }

    /// The head and the columns that all keys of a range have, if those have one value.
    fn one_value<'r>(&self, parts: usize, head: usize, range: &'r KeyRange) -> Option<&'r [u8]> {
        let columns = &range.start[..head + self.ends_within(parts, range.start.get(head..)?)?];
        if range.end.starts_with(columns) {
            return Some(columns);
        }
        let mut behind = columns.to_vec();
        key_behind_prefix(&mut behind);
        (behind == range.end).then_some(columns)
    }

    /// Where the first `parts` parts end in `key`, if they do.
    fn ends_within(&self, parts: usize, key: &[u8]) -> Option<usize> {
        let mut reader = self.reader(key);
        (0..parts).try_for_each(|_| reader.pass())?;
        Some(reader.position())
    }

    fn short_hash(&self, parts: usize, columns: &[u8]) -> Result<[u8; SHORT_HASH_BYTES]> {
        let mut reader = self.reader(columns);
        let mut has_null = false;
        for _ in 0..parts {
            has_null |= reader.is_next_null()?;
            reader.skip()?;
        }
        let mut hash = hash_of(columns);
        let last = &mut hash[SHORT_HASH_BYTES - 1];
        *last = if has_null { *last | HAS_NULL } else { *last & !HAS_NULL };
        Ok(hash)
    }
}

fn hash_of(columns: &[u8]) -> [u8; SHORT_HASH_BYTES] {
    let mut hasher = SipHasher24::new();
    hasher.write(columns);
    let hash = hasher.finish128();
    let mut bytes = [0; SHORT_HASH_BYTES];
    bytes[..8].copy_from_slice(&hash.h1.to_le_bytes());
    bytes[8..].copy_from_slice(&hash.h2.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests;
