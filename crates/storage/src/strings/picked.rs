//! Few values of a group of a stored list, without the rest of the group.
//!
//! ```text
//!   values            shared  own
//!   http://a.ru/1          0  http://a.ru/1
//!   http://a.ru/17        13  7
//!   http://a.ru/2         12  2             wanted: "2", then 12 bytes of the value before, none of which are its own,
//!   http://b.ru/          7   b.ru/         so that they come from the first
//! ```
//!
//! The own bytes of a group's values are decoded in one pass that ends with the last one wanted. A wanted value is then put
//! together from its end to its front: what it shares is looked for in the values before it, each of which has the bytes
//! behind those that it shares itself. Most have none of those that are still missing, and cost one comparison.

use rowmill_base::{Error, Result};

use super::windows::{StringWindow, grow};
use super::{StringList, front, fsst};

/// Bytes that are gathered at least before they are given on.
const GATHERED_BYTES: usize = 16 << 10;

/// Values of a group for each that is wanted, at least, where putting those together alone costs less than all.
const VALUES_PER_WANTED: usize = 3;

/// Values that were picked out of groups, and what that takes.
#[derive(Default)]
pub(super) struct Picked {
    /// The values behind one another; there may be more bytes behind them.
    bytes: Vec<u8>,
    offsets: Vec<u32>,
    /// Of the group: own and shared length of each value up to the last that is wanted, and where its own bytes end.
    lengths: Vec<u32>,
    shared: Vec<u32>,
    own_ends: Vec<u32>,
    own: Vec<u8>,
    /// Where in `own` the parts of a value are, the last one first.
    parts: Vec<(u32, u32)>,
    /// Patches of lengths that lie behind.
    length_patch: usize,
    shared_patch: usize,
}

impl Picked {
    /// Whether it is time to give the values on.
    pub(super) fn is_full(&self) -> bool {
        self.offsets.last().is_some_and(|end| *end as usize >= GATHERED_BYTES)
    }

    /// The values that were gathered, the first of which is number `first` of those asked for.
    pub(super) fn window(&self, first: usize) -> StringWindow<'_> {
        StringWindow::new(first, &self.bytes, &self.offsets)
    }

    /// Forgets the values that were gathered.
    pub(super) fn clear(&mut self) {
        self.offsets.clear();
    }

    /// Takes the values `wanted` of a slab that was decoded, whose first value is number `first`.
    pub(super) fn copy(&mut self, bytes: &[u8], offsets: &[u32], first: u32, wanted: &[u32]) {
        for run in wanted.chunk_by(|before, next| before + 1 == *next) {
            let (from, to) = ((run[0] - first) as usize, (run[0] - first) as usize + run.len());
            let copied = &bytes[offsets[from] as usize..offsets[to] as usize];
            let base = self.room(copied.len());
            self.bytes[base..base + copied.len()].copy_from_slice(copied);
            self.offsets.extend(offsets[from + 1..=to].iter().map(|end| end - offsets[from] + base as u32));
        }
    }

    /// Makes room for so many bytes more, and says where. A short copy may write behind them.
    fn room(&mut self, bytes: usize) -> usize {
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        let end = self.offsets[self.offsets.len() - 1] as usize;
        let needed = end + bytes + front::SLACK;
        if self.bytes.len() < needed {
            self.bytes.resize(needed.next_power_of_two(), 0);
        }
        end
    }
}

impl StringList<'_> {
    /// Whether so many values of a group are better picked than taken out of all of them.
    pub(super) fn is_picked(&self, wanted: usize) -> bool {
        wanted * VALUES_PER_WANTED <= self.group_values()
    }

    /// Adds the values `wanted` of `group` to `picked`; groups come in ascending order.
    pub(super) fn pick(&self, group: usize, wanted: &[u32], picked: &mut Picked) -> Result<()> {
        let first = self.values_of(group..group + 1).start;
        let Some(last) = wanted.last() else { return Ok(()) };
        let read = first..*last as usize + 1;
        picked.lengths.clear();
        self.lengths.unpack_behind(read.clone(), &mut picked.length_patch, &mut picked.lengths);
        picked.shared.clear();
        match &self.shared {
            Some(shared) => shared.unpack_behind(read, &mut picked.shared_patch, &mut picked.shared),
            None => picked.shared.resize(picked.lengths.len(), 0),
        }
        let payload = self.payload_of(group..group + 1)?;
        front::offsets(None, &picked.lengths, self.decoded_bytes(), &mut picked.own_ends)?;
        let total = picked.own_ends[picked.lengths.len()] as usize;
        let mut scratch = std::mem::take(&mut picked.own);
        let own = self.decode_own_front(payload, total, &mut scratch);
        let put =
            own.and_then(|own| wanted.iter().try_for_each(|value| self.put(*value as usize - first, own, picked)));
        picked.own = scratch;
        put
    }

    /// The first `total` bytes of the values' own that `payload` stands for; there may be more behind them.
    fn decode_own_front<'s>(&self, payload: &'s [u8], total: usize, scratch: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        let mismatch = || Error::corrupt(format!("{} payload bytes are less than {total} of values", payload.len()));
        let Some(symbols) = &self.symbols else {
            return if payload.len() >= total { Ok(payload) } else { Err(mismatch()) };
        };
        if total > payload.len() * fsst::SYMBOL_BYTES_MAX {
            return Err(mismatch());
        }
        grow(scratch, total + fsst::SLACK);
        symbols.decode_front(payload, &mut scratch[..total + fsst::SLACK]).ok_or_else(mismatch)?;
        Ok(scratch)
    }

    /// Adds value `index` of a group, whose own bytes up to its end are `own`.
    fn put(&self, index: usize, own: &[u8], picked: &mut Picked) -> Result<()> {
        let length = picked.shared[index] as usize + picked.lengths[index] as usize;
        let mut at = picked.room(length.min(self.decoded_bytes()));
        let (mut index, mut missing) = (index, length as u32);
        picked.parts.clear();
        loop {
            let (shared, start) = (picked.shared[index], picked.own_ends[index]);
            // What is missing of the value that was asked for is all of it; of one before, it has to have that much.
            if missing > shared {
                if missing - shared > picked.lengths[index] || length > self.decoded_bytes() {
                    return Err(shares_too_much(missing));
                }
                picked.parts.push((start, missing - shared));
                missing = shared;
            }
            if missing == 0 {
                break;
            }
            index = index
                .checked_sub(1)
                .filter(|_| missing as usize <= front::SHARED_BYTES_MAX)
                .ok_or_else(|| shares_too_much(missing))?;
        }
        for (from, len) in picked.parts.iter().rev() {
            front::copy(own, *from as usize, &mut picked.bytes[at..], *len as usize);
            at += *len as usize;
        }
        picked.offsets.push(at as u32);
        Ok(())
    }
}

fn shares_too_much(bytes: u32) -> Error {
    Error::corrupt(format!("a value shares {bytes} bytes, more than those before it have"))
}
