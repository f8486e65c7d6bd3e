//! The keys of the rows of a block, in order and compressed, to find the position of a row by its key.
//!
//! ```text
//! K.orders.0001  K.orders.0002  K.orders.0003  |  K.orders.0017  ...
//! whole          13 + "2"       13 + "3"       |  whole               every KEYS_PER_PART-th key is stored whole
//! ```

/// The number of keys of a part. The first one is stored whole. A search looks at half of them on average.
const KEYS_PER_PART: usize = 32;

/// The most bytes that a key shares with the one before it. The number must fit a byte.
const SHARED_MAX: usize = u8::MAX as usize;

/// Ascending keys.
#[derive(Debug, Default)]
pub(super) struct KeyList {
    /// For each key: the number of bytes that it shares with the key before (1 byte), the number of its other bytes (1
    /// byte, or 255 and then 4 bytes), and its other bytes.
    bytes: Vec<u8>,
    /// The start of each part.
    parts: Vec<u32>,
    keys: usize,
    last: Vec<u8>,
}

/// Says that a length has four bytes.
const LONG: u8 = u8::MAX;

impl KeyList {
    /// Adds a key, which must be greater than all keys before.
    pub(super) fn push(&mut self, key: &[u8]) {
        let is_whole = self.keys.is_multiple_of(KEYS_PER_PART);
        let shared = match is_whole {
            true => 0,
            false => self.last.iter().zip(key).take(SHARED_MAX).take_while(|(a, b)| a == b).count(),
        };
        if is_whole {
            self.parts.push(u32::try_from(self.bytes.len()).expect("the keys of a block have less than 4 GiB"));
        }
        let own = &key[shared..];
        self.bytes.push(shared as u8);
        match u8::try_from(own.len()).ok().filter(|len| *len != LONG) {
            Some(len) => self.bytes.push(len),
            None => {
                self.bytes.push(LONG);
                self.bytes.extend_from_slice(&(own.len() as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(own);
        self.last.clear();
        self.last.extend_from_slice(key);
        self.keys += 1;
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        self.keys
    }

    /// The first key. Empty if there are no keys.
    pub(super) fn first(&self) -> &[u8] {
        if self.parts.is_empty() { &[] } else { self.whole_key(0) }
    }

    /// The last key. Empty if there are no keys.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    /// The bytes of memory that the list takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.bytes.capacity() + self.parts.capacity() * size_of::<u32>() + self.last.capacity()) as u64
    }

    /// The position of a key.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        let part = self.parts_up_to(key).checked_sub(1)?;
        let mut at = self.parts[part] as usize;
        let end = self.parts.get(part + 1).map_or(self.bytes.len(), |end| *end as usize);
        // `equal` is the number of bytes that the key has in common with the key of the list before, which is less.
        let (mut position, mut equal) = (part * KEYS_PER_PART, 0);
        while at < end {
            let (shared, own, next) = self.entry(at);
            // A key that shares more with the one before than `key` does is less than `key`, too.
            if shared <= equal {
                let more = own.iter().zip(&key[shared..]).take_while(|(a, b)| a == b).count();
                equal = shared + more;
                match own[more..].first().cmp(&key.get(equal)) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal => return Some(position as u32),
                    std::cmp::Ordering::Greater => return None,
                }
            }
            (at, position) = (next, position + 1);
        }
        None
    }

    /// The number of parts that begin with `key` or a key before it.
    fn parts_up_to(&self, key: &[u8]) -> usize {
        let (mut from, mut to) = (0, self.parts.len());
        while from < to {
            let middle = from.midpoint(to);
            if self.whole_key(middle) <= key {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    fn whole_key(&self, part: usize) -> &[u8] {
        self.entry(self.parts[part] as usize).1
    }

    /// The entry at `at`: the number of shared bytes, the other bytes, and the place of the next entry.
    fn entry(&self, at: usize) -> (usize, &[u8], usize) {
        let (shared, len) = (usize::from(self.bytes[at]), self.bytes[at + 1]);
        let (start, len) = match len {
            LONG => {
                let bytes = self.bytes[at + 2..].first_chunk().expect("a long length has four bytes");
                (at + 6, u32::from_le_bytes(*bytes) as usize)
            }
            len => (at + 2, usize::from(len)),
        };
        (shared, &self.bytes[start..start + len], start + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    fn list<'k>(keys: impl IntoIterator<Item = &'k Vec<u8>>) -> KeyList {
        let mut list = KeyList::default();
        keys.into_iter().for_each(|key| list.push(key));
        list
    }

    #[test]
    fn neighbours_share_their_first_bytes() {
        let keys: Vec<Vec<u8>> = (0..1_000_u32).map(|key| [b"head", &key.to_be_bytes()[..]].concat()).collect();
        let list = list(&keys);
        assert_eq!((list.len(), list.first(), list.last()), (1_000, &keys[0][..], &keys[999][..]));
        assert!(list.bytes.len() < 4 * keys.len(), "{} bytes for 1,000 keys of 8", list.bytes.len());
    }

    #[test]
    fn long_keys_are_found() {
        let keys: Vec<Vec<u8>> = (0..100_u8).map(|key| [&[7; 300][..], &[key], &[key; 700]].concat()).collect();
        let list = list(&keys);
        for (position, key) in keys.iter().enumerate() {
            assert_eq!(list.find(key), Some(position as u32));
            assert_eq!(list.find(&key[..900]), None);
        }
    }

    proptest! {
        /// Few different bytes give keys that are prefixes of each other.
        #[test]
        fn exactly_the_keys_of_the_list_are_found(
            keys in btree_set(vec(0..3_u8, 0..8), 0..200),
            others in vec(vec(0..4_u8, 0..9), 50),
        ) {
            let list = list(&keys);
            for (position, key) in keys.iter().enumerate() {
                prop_assert_eq!(list.find(key), Some(position as u32));
            }
            for key in others {
                let position = keys.iter().position(|known| *known == key);
                prop_assert_eq!(list.find(&key), position.map(|position| position as u32));
            }
        }
    }
}
