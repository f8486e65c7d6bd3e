//! Front coding: of each value in a sorted list, only the bytes that differ from the value before are stored.
//!
//! ```text
//!   values            shared  suffix
//!   http://a.ru/1          0  http://a.ru/1     head of a group: whole
//!   http://a.ru/17        13  7
//!   http://a.ru/2         12  2
//! ```

use rowmill_base::{Error, Result};

/// The maximum number of bytes that a value shares with the one before. This bounds the decoded size of a stored list:
/// without it, ten thousand stored bytes could decode to gigabytes.
pub(super) const SHARED_BYTES_MAX: usize = 255;

/// The number of bytes that a buffer must have after the values expanded into it.
pub(super) const SLACK: usize = COPY_BYTES;

/// Short copies always move this many bytes, because that is a load and a store instead of a call.
const COPY_BYTES: usize = 32;

/// The number of bytes that each value shares with the one before. Every `group`-th value shares none.
pub(super) fn shared_lengths(values: &[&[u8]], group: usize) -> Vec<u32> {
    let mut before: &[u8] = &[];
    let shared = values.iter().enumerate().map(|(index, &value)| {
        let shared = if index % group == 0 { 0 } else { common_prefix(before, value) };
        before = value;
        shared as u32
    });
    shared.collect()
}

/// The length of the common prefix, at most [`SHARED_BYTES_MAX`].
pub(super) fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    // Eight bytes are compared at a time. The first difference is at the lowest bit that differs.
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
    u64::from_le_bytes(eight.try_into().expect("the chunk has eight bytes"))
}

/// Computes the offsets of the values from their shared and own lengths, beginning with 0. Checks that no value shares
/// more than the value before has, and that all values have at most `bytes_max` bytes. `bytes_max` must be less than
/// 2^32.
pub(super) fn offsets(shared: Option<&[u32]>, own: &[u32], bytes_max: usize, offsets: &mut Vec<u32>) -> Result<()> {
    offsets.clear();
    offsets.push(0);
    // Problems are collected in a flag, so that the loop needs no branch.
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
        false => Err(Error::corrupt(format!("damaged lengths: {end} bytes of values, at most {bytes_max} declared"))),
    }
}

/// Adds the shared length to the own length of each value. Checks that no value shares more than the value before has.
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

/// Puts the values together. `offsets` must come from [`offsets`], `suffixes` must have all own bytes, and `out` must
/// be [`SLACK`] bytes longer than the values.
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

/// Copies `len` bytes within `out` from `from` to `to`, which must be at least `len` bytes after `from`.
#[inline]
fn repeat(out: &mut [u8], from: usize, to: usize, len: usize) {
    let mut done = 0;
    while done < len {
        // The last block may copy too many bytes. The suffix or the next value overwrites them, or they are in the
        // slack.
        let block: [u8; COPY_BYTES] = out[from + done..][..COPY_BYTES].try_into().expect("the slice has that length");
        out[to + done..][..COPY_BYTES].copy_from_slice(&block);
        done += COPY_BYTES;
    }
}

/// Copies `len` bytes from `from` in `source` to the front of `out`, which must be [`SLACK`] bytes longer.
#[inline]
pub(super) fn copy(source: &[u8], from: usize, out: &mut [u8], len: usize) {
    if let (true, Some(block)) = (len <= COPY_BYTES, source.get(from..from + COPY_BYTES)) {
        out[..COPY_BYTES].copy_from_slice(block);
    } else {
        out[..len].copy_from_slice(&source[from..from + len]);
    }
}
