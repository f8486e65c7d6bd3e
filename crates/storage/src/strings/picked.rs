//! Decodes few values of a group of a stored list, without the rest of the group.
//!
//! ```text
//!   values            shared  own
//!   http://a.ru/1          0  http://a.ru/1
//!   http://a.ru/17        13  7
//!   http://a.ru/2         12  2             wanted: its own "2", and 12 bytes of the value before, which does not
//!   http://b.ru/           7  b.ru/         own them either, so they come from the first
//! ```
//!
//! One pass decodes the own bytes of a group's values up to the last wanted one. A wanted value is then put together
//! from its end to its front: the bytes that it shares are searched in the values before it, each of which owns the
//! bytes after those that it shares itself. Most of those values own none of the missing bytes and cost one comparison.

use rowmill_base::{Error, Result};

use super::windows::{StringWindow, grow};
use super::{StringList, front, fsst};

/// The values are passed on once at least this many bytes are collected.
const GATHERED_BYTES: usize = 16 << 10;

/// If a group has at least this many values for each wanted one, picking is cheaper than decoding all.
const VALUES_PER_WANTED: usize = 3;

/// Values that were picked from groups, and the buffers for that.
#[derive(Default)]
pub(super) struct Picked {
    /// The values, one after another. There may be more bytes after them.
    bytes: Vec<u8>,
    offsets: Vec<u32>,
    /// For the current group: the own and the shared length of each value up to the last wanted one, and the end of its
    /// own bytes.
    lengths: Vec<u32>,
    shared: Vec<u32>,
    own_ends: Vec<u32>,
    own: Vec<u8>,
    /// The parts of a value in `own`, the last part first.
    parts: Vec<(u32, u32)>,
    /// The positions in the patches of the lengths, for ascending groups.
    length_patch: usize,
    shared_patch: usize,
}

impl Picked {
    /// Whether enough is collected to pass it on.
    pub(super) fn is_full(&self) -> bool {
        self.offsets.last().is_some_and(|end| *end as usize >= GATHERED_BYTES)
    }

    /// The collected values. `first` is the index of the first one among the wanted values.
    pub(super) fn window(&self, first: usize) -> StringWindow<'_> {
        StringWindow::new(first, &self.bytes, &self.offsets)
    }

    /// Forgets the collected values.
    pub(super) fn clear(&mut self) {
        self.offsets.clear();
    }

    /// Copies the values `wanted` from a decoded slab. `first` is the index of the slab's first value.
    pub(super) fn copy(&mut self, bytes: &[u8], offsets: &[u32], first: u32, wanted: &[u32]) {
        for run in wanted.chunk_by(|before, next| before + 1 == *next) {
            let (from, to) = ((run[0] - first) as usize, (run[0] - first) as usize + run.len());
            let copied = &bytes[offsets[from] as usize..offsets[to] as usize];
            let base = self.room(copied.len());
            self.bytes[base..base + copied.len()].copy_from_slice(copied);
            self.offsets.extend(offsets[from + 1..=to].iter().map(|end| end - offsets[from] + base as u32));
        }
    }

    /// Makes room for `bytes` more bytes and returns their offset. Leaves slack after them, because short copies may
    /// write more.
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
    /// Whether a group with this many wanted values should be picked from instead of being decoded.
    pub(super) fn is_picked(&self, wanted: usize) -> bool {
        wanted * VALUES_PER_WANTED <= self.group_values()
    }

    /// Adds the values `wanted` of `group` to `picked`. Groups must be passed in ascending order.
    pub(super) fn pick(&self, group: usize, wanted: &[u32], picked: &mut Picked) -> Result<()> {
        let first = self.values_of(group..group + 1).start;
        let Some(last) = wanted.last() else { return Ok(()) };
        // Values after the last wanted one are not needed.
        let read = first..*last as usize + 1;
        picked.lengths.clear();
        self.lengths.unpack_behind(read.clone(), &mut picked.length_patch, &mut picked.lengths);
        picked.shared.clear();
        match &self.shared {
            Some(shared) => shared.unpack_behind(read, &mut picked.shared_patch, &mut picked.shared),
            None => picked.shared.resize(picked.lengths.len(), 0),
        }
        let payload = self.payload_of(group..group + 1)?;
        // The list's size bounds the own bytes, so damaged lengths cannot ask for more memory.
        front::offsets(None, &picked.lengths, self.decoded_bytes(), &mut picked.own_ends)?;
        let total = picked.own_ends[picked.lengths.len()] as usize;
        // Taken out, because `put` needs `picked` mutably while it reads these bytes.
        let mut scratch = std::mem::take(&mut picked.own);
        let own = self.decode_own_front(payload, total, &mut scratch);
        let put =
            own.and_then(|own| wanted.iter().try_for_each(|value| self.put(*value as usize - first, own, picked)));
        picked.own = scratch;
        put
    }

    /// Decodes the first `total` own bytes of the values in `payload`. The result may have more bytes after them.
    fn decode_own_front<'s>(&self, payload: &'s [u8], total: usize, scratch: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        let mismatch = || Error::corrupt(format!("{} payload bytes hold less than {total} of values", payload.len()));
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

    /// Adds value `index` of a group. `own` has the group's own bytes at least up to the end of that value's.
    fn put(&self, index: usize, own: &[u8], picked: &mut Picked) -> Result<()> {
        let length = picked.shared[index] as usize + picked.lengths[index] as usize;
        let mut at = picked.room(length.min(self.decoded_bytes()));
        let (mut index, mut missing) = (index, length as u32);
        picked.parts.clear();
        loop {
            let (shared, start) = (picked.shared[index], picked.own_ends[index]);
            // At first the whole value is missing. For each value before, it must have as many bytes as are still
            // missing.
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
        // The parts were found from the end to the front.
        for (from, len) in picked.parts.iter().rev() {
            front::copy(own, *from as usize, &mut picked.bytes[at..], *len as usize);
            at += *len as usize;
        }
        picked.offsets.push(at as u32);
        Ok(())
    }
}

fn shares_too_much(bytes: u32) -> Error {
    Error::corrupt(format!("a value shares {bytes} bytes, but the values before it are shorter"))
}
