//! Shortens long keys of an index: the first bytes of the index's columns and a hash of all their bytes.
//!
//! ```text
//! columns of up to 1,024 bytes     columns                                     primary key
//! longer ones                      their first 1,024 bytes   hash (16 bytes)   primary key
//! ```
//!
//! Only the index's columns decide whether a key is shortened. So rows with the same values have the same bytes there,
//! whatever follows. The key itself tells which form it has. Columns that are stored whole end within the first 1,024
//! bytes. The first 1,024 bytes of shortened columns never contain their end, because no columns' bytes are a prefix of
//! other columns' bytes. For the same reason a shortened key sorts before or after all keys with other first bytes just
//! as the whole key would. Keys with the same first 1,024 bytes sort by their hashes, which means nothing. The bytes
//! after the hash are never those of the columns, so readers that need their values must read the row.
//!
//! The hash is SipHash-2-4 of 128 bits with a key of zeros. It is on disk, so it must never change. No result relies on
//! it: a lookup must compare the value with the row's. The last bit is not part of the hash: it says whether a column
//! is NULL, so that a unique index can tell from the key whether the key must occur at most once.

use std::hash::Hasher;

use rowmill_base::{Error, Result, SqlType};
use siphasher::sip128::{Hasher128, SipHasher24};

use super::key::KeyCodec;
use super::key_range::{KeyRange, key_behind_prefix};

/// Columns with more bytes than this are shortened to this many bytes and a hash.
pub const SHORT_PREFIX_BYTES: usize = 1024;

/// The size of the hash in bytes.
pub(crate) const SHORT_HASH_BYTES: usize = 16;

/// The size of shortened columns in bytes.
pub const SHORT_BYTES: usize = SHORT_PREFIX_BYTES + SHORT_HASH_BYTES;

/// The bytes after a string that end it.
const STRING_END_BYTES: usize = 2;

/// The bit of the last byte of the hash that is set if a column is NULL.
const HAS_NULL: u8 = 1 << 7;

/// The stored form of the first parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptParts {
    /// Stored whole, in this many bytes.
    Whole(usize),
    /// Stored shortened.
    Short,
}

/// The other keys that a range of stored keys may have besides the keys that were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeFit {
    /// No other keys.
    #[default]
    Exact,
    /// Keys with the same hash as the one value that was asked for. As long as the hash is good, no such key exists.
    OneValue,
    /// Keys with the same first bytes as one end of the range.
    Wider,
}

impl KeyCodec {
    /// Shortens the bytes after the first `head` bytes of `key` if they are too long, and returns whether they were.
    /// These bytes must be exactly the first `parts` parts.
    pub fn shorten(&self, parts: usize, head: usize, key: &mut Vec<u8>) -> Result<bool> {
        // Only the columns count. The head is the same for all keys of the index.
        if key.len() - head <= SHORT_PREFIX_BYTES {
            return Ok(false);
        }
        let hash = self.short_hash(parts, &key[head..])?;
        key.truncate(head + SHORT_PREFIX_BYTES);
        key.extend_from_slice(&hash);
        Ok(true)
    }

    /// Whether the first `parts` parts of any key may be too long to be stored whole.
    pub fn may_be_short(&self, parts: usize) -> bool {
        let widths = self.forms[..parts].iter().zip(&self.parts).map(|(form, part)| {
            let width = match part.kind {
                // A character has at most four bytes. That includes a zero, which is stored with a byte after it.
                SqlType::Text { chars_max: Some(chars) } => STRING_END_BYTES + 4 * chars as usize,
                _ => form.width()?,
            };
            // A nullable part begins with a byte of its own.
            Some(width + usize::from(part.nullable))
        });
        widths.sum::<Option<usize>>().is_none_or(|bytes| bytes > SHORT_PREFIX_BYTES)
    }

    /// The form of the first `parts` parts of `key`, which may be shortened. Returns a `Corrupt` error if the key ends
    /// too early.
    pub fn kept_parts(&self, parts: usize, key: &[u8]) -> Result<KeptParts> {
        match self.ends_within(parts, &key[..key.len().min(SHORT_PREFIX_BYTES)]) {
            Some(bytes) => Ok(KeptParts::Whole(bytes)),
            None if key.len() >= SHORT_BYTES => Ok(KeptParts::Short),
            None => Err(Error::corrupt(format!("a key of {} bytes ends too early", key.len()))),
        }
    }

    /// Whether the first `parts` parts of `key` are shortened.
    #[inline]
    pub fn is_short(&self, parts: usize, key: &[u8]) -> bool {
        key.len() >= SHORT_BYTES && self.ends_within(parts, &key[..SHORT_PREFIX_BYTES]).is_none()
    }

    /// Whether one of the parts of a shortened key is NULL.
    pub fn short_has_null(short: &[u8]) -> bool {
        short.get(SHORT_BYTES - 1).is_some_and(|last| last & HAS_NULL != 0)
    }

    /// Sets `kept` to a range of stored keys, whose first `parts` parts may be shortened. The range contains every key
    /// of `asked`, a range of whole keys. The result says which other keys it may contain. All keys have `head` bytes
    /// before their parts.
    pub fn kept_range(&self, parts: usize, head: usize, asked: &KeyRange, kept: &mut KeyRange) -> Result<RangeFit> {
        kept.start.clone_from(&asked.start);
        kept.end.clone_from(&asked.end);
        // Shortening changes no comparison with either end.
        if self.is_kept(parts, head, &asked.start) && self.is_kept(parts, head, &asked.end) {
            return Ok(RangeFit::Exact);
        }
        if let Some(columns) = self.one_value(parts, head, asked) {
            // The columns have one value, so we replace it by its shortened form. The ends after the columns stay as
            // they are.
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
        // The ends cut through long values. Only their first bytes say anything about stored keys, so we widen the
        // range to all keys with these bytes.
        if !self.is_kept(parts, head, &asked.start) {
            kept.start.truncate(head + SHORT_PREFIX_BYTES);
        }
        if !self.is_kept(parts, head, &asked.end) {
            kept.end.truncate(head + SHORT_PREFIX_BYTES);
            key_behind_prefix(&mut kept.end);
        }
        Ok(RangeFit::Wider)
    }

    /// Whether every key compares with `bound` in the same way, shortened or not.
    fn is_kept(&self, parts: usize, head: usize, bound: &[u8]) -> bool {
        bound.len() <= head + SHORT_PREFIX_BYTES
            || self.ends_within(parts, &bound[head..head + SHORT_PREFIX_BYTES]).is_some()
    }

    /// The head and the columns of all keys in a range, if these columns have only one value.
    fn one_value<'r>(&self, parts: usize, head: usize, range: &'r KeyRange) -> Option<&'r [u8]> {
        // The start of the range must contain all the columns, or the range has more than one value.
        let columns = &range.start[..head + self.ends_within(parts, range.start.get(head..)?)?];
        if range.end.starts_with(columns) {
            return Some(columns);
        }
        let mut behind = columns.to_vec();
        key_behind_prefix(&mut behind);
        (behind == range.end).then_some(columns)
    }

    /// The offset at which the first `parts` parts end in `key`. `None` if they do not.
    fn ends_within(&self, parts: usize, key: &[u8]) -> Option<usize> {
        let mut reader = self.reader(key);
        (0..parts).try_for_each(|_| reader.pass())?;
        Some(reader.position())
    }

    fn short_hash(&self, parts: usize, columns: &[u8]) -> Result<[u8; SHORT_HASH_BYTES]> {
        // Walk over the parts to learn whether any of them is NULL.
        let mut reader = self.reader(columns);
        let mut has_null = false;
        for _ in 0..parts {
            has_null |= reader.is_next_null()?;
            reader.skip()?;
        }
        let mut hash = hash_of(columns);
        // One bit of the hash is replaced by the NULL flag.
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
