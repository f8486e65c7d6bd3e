//! A key of a leaf, in the parts that the leaf stores.
//!
//! ```text
//! order:7:0001:a     common bytes  order:7:     head  0001     rest  :a
//! ```
//!
//! Reads and writes of a tree pass such keys on as they are. They copy one together only where whole bytes are needed.

use std::cmp::Ordering;

use super::page::head_of;
use crate::key_bytes::{common_bytes, compare};

/// The most bytes of a key's head.
pub(super) const HEAD_BYTES: usize = size_of::<u32>();

/// A key in parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyParts<'m> {
    common: &'m [u8],
    /// The bytes after the common ones. The bytes that the key does not have are zeros.
    head: [u8; HEAD_BYTES],
    head_len: usize,
    /// The bytes after the head.
    rest: &'m [u8],
}

impl<'m> KeyParts<'m> {
    /// A key in one part.
    #[inline]
    pub(super) fn whole(key: &'m [u8]) -> KeyParts<'m> {
        KeyParts { common: &[], head: [0; HEAD_BYTES], head_len: 0, rest: key }
    }

    /// A key of `len` bytes, which must be at least the length of `common`.
    #[inline]
    pub(super) fn new(common: &'m [u8], head: u32, rest: &'m [u8], len: usize) -> KeyParts<'m> {
        KeyParts { common, head: head.to_be_bytes(), head_len: (len - common.len()).min(HEAD_BYTES), rest }
    }

    fn parts(&self) -> [&[u8]; 3] {
        [self.common, &self.head[..self.head_len], self.rest]
    }

    /// The length of the key.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.common.len() + self.head_len + self.rest.len()
    }

    /// Appends the key to `out`.
    #[inline]
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.common);
        // A whole head has a constant length, and many keys end in their head. Both spare a call that copies bytes.
        match self.head_len {
            HEAD_BYTES => out.extend_from_slice(&self.head),
            len => out.extend_from_slice(&self.head[..len]),
        }
        if !self.rest.is_empty() {
            out.extend_from_slice(self.rest);
        }
    }

    /// Replaces the content of `out` with the key.
    #[inline]
    pub(super) fn copy_to(&self, out: &mut Vec<u8>) {
        out.clear();
        self.append_to(out);
    }

    /// The key in one piece.
    pub(super) fn to_vec(self) -> Vec<u8> {
        self.parts().concat()
    }

    /// The first `len` bytes of the key, which must have them.
    pub(super) fn first_bytes(&self, len: usize) -> KeyParts<'m> {
        let common = &self.common[..len.min(self.common.len())];
        let head_len = self.head_len.min(len - common.len());
        let mut head = [0; HEAD_BYTES];
        head[..head_len].copy_from_slice(&self.head[..head_len]);
        KeyParts { common, head, head_len, rest: &self.rest[..len - common.len() - head_len] }
    }

    /// Compares the key with another one.
    #[inline]
    pub(super) fn compare(&self, mut key: &[u8]) -> Ordering {
        for part in [self.common, &self.head[..self.head_len]] {
            let (of_part, rest) = key.split_at(part.len().min(key.len()));
            match compare(part, of_part) {
                Ordering::Equal => key = rest,
                order => return order,
            }
        }
        compare(self.rest, key)
    }

    /// The number of bytes with which this key and `key` begin.
    pub(super) fn common_bytes(&self, mut key: &[u8]) -> usize {
        let mut common = 0;
        for part in self.parts() {
            let more = common_bytes(part, key);
            common += more;
            if more < part.len() {
                break;
            }
            key = &key[more..];
        }
        common
    }

    /// The head of the key in a page whose keys have `common` bytes in common, which this key must have.
    #[inline]
    pub(super) fn head_after(&self, common: usize) -> u32 {
        if common == self.common.len() && self.head_len > 0 {
            return u32::from_be_bytes(self.head);
        }
        let (mut head, mut len) = ([0; HEAD_BYTES], 0);
        let mut skipped = common;
        for part in self.parts() {
            let bytes = part.get(skipped..).unwrap_or_default();
            skipped = skipped.saturating_sub(part.len());
            let taken = bytes.len().min(HEAD_BYTES - len);
            head[len..len + taken].copy_from_slice(&bytes[..taken]);
            len += taken;
        }
        head_of(&head)
    }

    /// Writes the bytes of the key from `skipped` on to `out`, and returns how many there are.
    #[inline]
    pub(super) fn write_after(&self, mut skipped: usize, out: &mut [u8]) -> usize {
        let mut written = 0;
        for part in self.parts() {
            let bytes = part.get(skipped..).unwrap_or_default();
            skipped = skipped.saturating_sub(part.len());
            out[written..written + bytes.len()].copy_from_slice(bytes);
            written += bytes.len();
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_act_like_the_whole_key() {
        let keys: Vec<Vec<u8>> = (0..14_u8)
            .flat_map(|len| [0, 1, 9].map(|last| [vec![7; usize::from(len)], vec![last]].concat()))
            .chain([vec![], vec![7; 3], vec![7, 0], vec![7, 0, 0]])
            .collect();
        for key in &keys {
            for common in 0..=key.len() {
                let rest = key.get(common + HEAD_BYTES..).unwrap_or_default();
                let parts = KeyParts::new(&key[..common], head_of(&key[common..]), rest, key.len());
                assert_eq!((parts.len(), &parts.to_vec()), (key.len(), key));
                for other in &keys {
                    assert_eq!(parts.compare(other), key.cmp(other), "{key:?} {other:?}");
                    assert_eq!(parts.common_bytes(other), common_bytes(key, other), "{key:?} {other:?}");
                }
                for from in 0..=key.len() {
                    assert_eq!(parts.head_after(from), head_of(&key[from..]), "{key:?} after {from}");
                    let mut out = vec![0; key.len()];
                    let len = parts.write_after(from, &mut out);
                    assert_eq!(&out[..len], &key[from..]);
                }
                assert_eq!(parts.write_after(key.len() + 3, &mut []), 0);
                (0..=key.len()).for_each(|len| assert_eq!(parts.first_bytes(len).to_vec(), key[..len]));
            }
        }
    }
}
