//! Front coding: of each value in a sorted list, only what differs from the value before it.
//!
//! ```text
//!   values            shared  suffix
//!   http://a.ru/1          0  http://a.ru/1     head of a group: whole
//!   http://a.ru/17        13  7
//!   http://a.ru/2         12  2
//! ```

use rowmill_base::{Error, Result};

/// Bytes shared with the value before at most. What a stored list can decode to is bounded by it: without a limit,
/// ten thousand stored bytes could stand for gigabytes.
pub(super) const SHARED_BYTES_MAX: usize = 255;

/// Bytes that a buffer must have behind the values that are expanded into it.
pub(super) const SLACK: usize = COPY_BYTES;

/// Short copies move this many bytes, however few are meant: that is a load and a store instead of a call.
const COPY_BYTES: usize = 32;

/// How many bytes each value shares with the one before; none at every `group`-th.
pub(super) fn shared_lengths(values: &[&[u8]], group: usize) -> Vec<u32> {
    let mut before: &[u8] = &[];
    let shared = values.iter().enumerate().map(|(index, &value)| {
        let shared = if index % group == 0 { 0 } else { common_prefix(before, value) };
        before = value;
        shared as u32
    });
    shared.collect()
}

/// Bytes that both begin with, as far as they are counted.
pub(super) fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    let len = left.len().min(right.len()).min(SHARED_BYTES_MAX);
    let (left, right) = (&left[..len], &right[..len]);
    for (index, (l, r)) in left.chunks_exact(8).zip(right.chunks_exact(8)).enumerate() {
        let differ = word(l) ^ word(r);
        if differ != 0 {
            return index * 8 + (differ.trailing_zeros() / 8) as usize;
        }
    }
    let tail = len / 8 * 8;
    tail + left[tail..].iter().zip(&right[tail..]).take_while(|(l, r)| l == r).count()
}

fn word(eight: &[u8]) -> u64 {
    u64::from_le_bytes(eight.try_into().expect("the chunk is eight bytes long"))
}

/// Where each value ends, from what it shares and what is its own; starts with a 0. Checks that no value shares more
/// than the one before has, and that all together are at most `bytes_max` long, 2^32 - 1 at most.
pub(super) fn offsets(shared: Option<&[u32]>, own: &[u32], bytes_max: usize, offsets: &mut Vec<u32>) -> Result<()> {
    offsets.clear();
    offsets.push(0);
    let (mut before, mut end, mut honest) = (0u64, 0u64, true);
    let mut add = |shared: u32, own: u32| {
        honest &= u64::from(shared) <= before && shared as usize <= SHARED_BYTES_MAX;
        before = u64::from(shared) + u64::from(own);
        end += before;
        offsets.push(end as u32);
    };
    match shared {
        Some(shared) => shared.iter().zip(own).for_each(|(&shared, &own)| add(shared, own)),
        None => own.iter().for_each(|&own| add(0, own)),
    }
    match honest && end <= bytes_max as u64 {
        true => Ok(()),
        false => Err(Error::corrupt(format!("values of {end} bytes where at most {bytes_max} are said"))),
    }
}

/// Makes the own length of each value the whole one, which is that and what it shares. Checks that no value shares more than
/// the one before has.
pub(super) fn add_shared(shared: &[u32], lengths: &mut [u32]) -> Result<()> {
    let (mut before, mut honest) = (0, true);
    for (length, shared) in lengths.iter_mut().zip(shared) {
        honest &= *shared <= before && *shared as usize <= SHARED_BYTES_MAX;
        *length = length.saturating_add(*shared);
        before = *length;
    }
    match honest {
        true => Ok(()),
        false => Err(Error::corrupt("a value shares more bytes than the one before it has")),
    }
}

/// Puts the values together again. `offsets` come from [`offsets`], `suffixes` holds all that is the values' own,
/// `out` is [`SLACK`] longer than the values.
pub(super) fn expand(suffixes: &[u8], shared: &[u32], offsets: &[u32], out: &mut [u8]) {
    let (mut before, mut from) = (0, 0);
    for (&shared, ends) in shared.iter().zip(offsets.windows(2)) {
        let (start, end, shared) = (ends[0] as usize, ends[1] as usize, shared as usize);
        repeat(out, before, start, shared);
        let suffix = end - start - shared;
        copy(suffixes, from, &mut out[start + shared..], suffix);
        from += suffix;
        before = start;
    }
}

/// Copies `len` bytes within `out` from `from` to `to`, which lies at least `len` behind.
#[inline]
fn repeat(out: &mut [u8], from: usize, to: usize, len: usize) {
    let mut done = 0;
    while done < len {
        let block: [u8; COPY_BYTES] = out[from + done..][..COPY_BYTES].try_into().expect("the slice is that long");
        out[to + done..][..COPY_BYTES].copy_from_slice(&block);
        done += COPY_BYTES;
    }
}

/// Copies `len` bytes from `from` in `source` to the front of `out`, which is [`SLACK`] longer.
#[inline]
pub(super) fn copy(source: &[u8], from: usize, out: &mut [u8], len: usize) {
    if let (true, Some(block)) = (len <= COPY_BYTES, source.get(from..from + COPY_BYTES)) {
        out[..COPY_BYTES].copy_from_slice(block);
    } else {
        out[..len].copy_from_slice(&source[from..from + len]);
    }
}
