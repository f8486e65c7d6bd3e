//! Packs one vector: values of `width` bits one after another.
//!
//! A full vector is packed in the FastLanes layout (Afroozeh and Boncz, "The FastLanes Compression Layout", VLDB 2023).
//! It interleaves the values so that one instruction unpacks many. We choose lanes as narrow as the width allows (bytes
//! for up to 8 bits, two bytes for up to 16, and so on), for any type of values, because narrower lanes are more lanes
//! and each width then needs one kernel instead of four.
//!
//! The last vector of a sequence may have fewer values. It is packed in their order, least significant bit first, so
//! that three values do not take the space of 1,024.
//!
//! Packed words are read in place if their bytes are aligned, as in the chunks of whole blocks. Otherwise they are
//! copied to a buffer on the stack first.

use std::cell::RefCell;

use bytemuck::{AnyBitPattern, Pod};
use fastlanes::{BitPacking, FL_ORDER};

use super::VECTOR;
use super::bits::pack_flags;
use super::word::{Word, append};

/// The maximum width of a packed value in bits.
pub(crate) const WIDTH_MAX: u32 = 64;

/// The packed size in bytes of `count` values of `width` bits. `count` must be 1,024, or less in a last vector.
pub(crate) const fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Views bytes as words. `None` if they are not aligned, or if this processor is not little-endian.
fn words_of<L: AnyBitPattern, const WORDS: usize>(bytes: &[u8]) -> Option<&[L; WORDS]> {
    let words: &[L] = bytemuck::try_cast_slice(bytes).ok()?;
    words.try_into().ok().filter(|_| cfg!(target_endian = "little"))
}

macro_rules! kernels {
    ($pack:ident, $unpack:ident, $lane:ty, $($width:literal)*) => {
        fn $pack(width: u32, input: &[$lane; VECTOR], out: &mut Vec<u8>) {
            match width {
                $($width => {
                    const WORDS: usize = VECTOR * $width / <$lane>::BITS as usize;
                    let mut packed = [0; WORDS];
                    BitPacking::pack::<$width, WORDS>(input, &mut packed);
                    append(out, &packed);
                })*
                _ => unreachable!("the caller picks the lanes by the width"),
            }
        }

        fn $unpack(width: u32, bytes: &[u8], out: &mut [$lane; VECTOR]) {
            match width {
                $($width => {
                    const WORDS: usize = VECTOR * $width / <$lane>::BITS as usize;
                    if let Some(packed) = words_of::<$lane, WORDS>(bytes) {
                        return BitPacking::unpack::<$width, WORDS>(packed, out);
                    }
                    let mut packed = [0; WORDS];
                    for (word, bytes) in packed.iter_mut().zip(bytes.chunks_exact(<$lane>::BYTES)) {
                        *word = <$lane>::read(bytes);
                    }
                    BitPacking::unpack::<$width, WORDS>(&packed, out);
                })*
                _ => unreachable!("the caller picks the lanes by the width"),
            }
        }
    };
}

kernels!(pack_8, unpack_8, u8, 1 2 3 4 5 6 7 8);
kernels!(pack_16, unpack_16, u16, 9 10 11 12 13 14 15 16);
kernels!(pack_32, unpack_32, u32, 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
kernels!(pack_64, unpack_64, u64, 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60
    61 62 63 64);

thread_local! {
    /// The buffer that a vector is unpacked to before its values are converted. We keep it per thread, because zeroing
    /// it for each vector would take a good part of the unpacking time.
    static LANES: RefCell<[u64; VECTOR]> = const { RefCell::new([0; VECTOR]) };
}

/// Calls `work` with lanes of arbitrary content.
fn with_lanes<L: Pod, R>(work: impl FnOnce(&mut [L; VECTOR]) -> R) -> R {
    LANES.with_borrow_mut(|words| {
        let lanes: &mut [L] = bytemuck::cast_slice_mut(words);
        work(lanes.first_chunk_mut().expect("no lane is wider than a word"))
    })
}

/// Appends `values - base`. None of these may have more than `width` bits. At most 1,024 values.
pub(crate) fn pack<W: Word>(values: &[W], base: W, width: u32, out: &mut Vec<u8>) {
    // Only a full vector uses the interleaved layout.
    let Ok(values) = <&[W; VECTOR]>::try_from(values) else { return pack_tail(values, base, width, out) };
    match width {
        0 => {}
        1..=8 => pack_8(width, &values.map(|value| value.minus(base).low() as u8), out),
        9..=16 => pack_16(width, &values.map(|value| value.minus(base).low() as u16), out),
        17..=32 => pack_32(width, &values.map(|value| value.minus(base).low() as u32), out),
        _ => pack_64(width, &values.map(|value| value.minus(base).low()), out),
    }
}

/// Fills `out` with `base + packed value`. `bytes` must have the length that [`packed_bytes`] gives for `out.len()` and
/// `width`.
pub(crate) fn unpack<W: Word>(bytes: &[u8], base: W, width: u32, out: &mut [W]) {
    debug_assert_eq!(bytes.len(), packed_bytes(out.len(), width));
    let Ok(out) = <&mut [W; VECTOR]>::try_from(&mut *out) else { return unpack_tail(bytes, base, width, out) };
    match width {
        0 => out.fill(base),
        1..=8 => {
            with_lanes(|lanes| {
                unpack_8(width, bytes, lanes);
                rebase(lanes, base, out);
            });
        }
        9..=16 => {
            with_lanes(|lanes| {
                unpack_16(width, bytes, lanes);
                rebase(lanes, base, out);
            });
        }
        17..=32 => {
            with_lanes(|lanes| {
                unpack_32(width, bytes, lanes);
                rebase(lanes, base, out);
            });
        }
        _ => {
            with_lanes(|lanes| {
                unpack_64(width, bytes, lanes);
                rebase(lanes, base, out);
            });
        }
    }
}

fn rebase<L: Word, W: Word>(lanes: &[L; VECTOR], base: W, out: &mut [W; VECTOR]) {
    for (out, lane) in out.iter_mut().zip(lanes) {
        *out = base.plus(W::from_u64(lane.low()));
    }
}

/// A range of packed values, both ends inclusive.
pub(crate) type PackedSpan = (u64, u64);

/// For each packed value of a full vector, one bit: whether the value is in one of `spans`. The spans must be of values
/// of `width` bits, and `width` must not be 0.
pub(crate) fn find_packed(bytes: &[u8], width: u32, spans: &[PackedSpan]) -> [u64; VECTOR / 64] {
    match width {
        1..=8 => with_lanes(|lanes| {
            unpack_8(width, bytes, lanes);
            find(lanes, spans)
        }),
        9..=16 => with_lanes(|lanes| {
            unpack_16(width, bytes, lanes);
            find(lanes, spans)
        }),
        17..=32 => with_lanes(|lanes| {
            unpack_32(width, bytes, lanes);
            find(lanes, spans)
        }),
        _ => with_lanes(|lanes| {
            unpack_64(width, bytes, lanes);
            find(lanes, spans)
        }),
    }
}

fn find<L: Word>(lanes: &[L; VECTOR], spans: &[PackedSpan]) -> [u64; VECTOR / 64] {
    let mut flags = [0; VECTOR];
    for (low, high) in spans {
        let (low, width) = (L::from_u64(*low), L::from_u64(high - low));
        // One unsigned comparison checks both ends: a value below `low` wraps to a large one when `low` is subtracted.
        flags.iter_mut().zip(lanes).for_each(|(flag, lane)| *flag |= u8::from(lane.minus(low) <= width));
    }
    pack_flags(&flags)
}

/// The packed value at `index` of a vector of `count` values, without the base.
pub(crate) fn unpack_one(bytes: &[u8], count: usize, width: u32, index: usize) -> u64 {
    match width {
        0 => 0,
        _ if count < VECTOR => tail_value(bytes, width, index),
        1..=8 => lane_value::<u8>(bytes, width, index),
        9..=16 => lane_value::<u16>(bytes, width, index),
        17..=32 => lane_value::<u32>(bytes, width, index),
        _ => lane_value::<u64>(bytes, width, index),
    }
}

/// Calls `each` with every row of `rows` and its packed value, without the base. A row's position in its vector of
/// `count` values is the row modulo [`VECTOR`].
#[inline]
pub(crate) fn unpack_some(bytes: &[u8], count: usize, width: u32, rows: &[u32], mut each: impl FnMut(u32, u64)) {
    let place = |row: u32| row as usize % VECTOR;
    match width {
        0 => rows.iter().for_each(|row| each(*row, 0)),
        _ if count < VECTOR => rows.iter().for_each(|row| each(*row, tail_value(bytes, width, place(*row)))),
        1..=8 => rows.iter().for_each(|row| each(*row, lane_value::<u8>(bytes, width, place(*row)))),
        9..=16 => rows.iter().for_each(|row| each(*row, lane_value::<u16>(bytes, width, place(*row)))),
        17..=32 => rows.iter().for_each(|row| each(*row, lane_value::<u32>(bytes, width, place(*row)))),
        _ => rows.iter().for_each(|row| each(*row, lane_value::<u64>(bytes, width, place(*row)))),
    }
}

/// One value of a full vector. Value `index` is row `r` of lane `l`. The rows of a lane are packed one after another
/// into every `LANES`-th word.
#[inline(always)]
fn lane_value<L: Word>(bytes: &[u8], width: u32, index: usize) -> u64 {
    let lanes = VECTOR / L::BITS as usize;
    let lane = index % lanes;
    // The inverse of the FastLanes order: which row of its lane the value is.
    let row = FL_ORDER[(index % 128 - lane) / 16] * 8 + index / 128;
    let bit = row * width as usize;
    let (word, shift) = (bit / L::BITS as usize, (bit % L::BITS as usize) as u32);
    let at = |word: usize| L::read(&bytes[(word * lanes + lane) * L::BYTES..]).low();
    // Whether a value continues in the next word is unpredictable, so we always read that word instead of branching.
    // For the last word of a lane we read the same word again.
    let next = at((word + 1).min(width as usize - 1));
    (at(word) >> shift | next << 1 << (L::BITS - 1 - shift)) & low_bits(width)
}

/// The largest value of `width` bits. `width` must be at least 1.
pub(crate) const fn low_bits(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

fn pack_tail<W: Word>(values: &[W], base: W, width: u32, out: &mut Vec<u8>) {
    let start = out.len();
    pack_in_order(values.iter().map(|value| value.minus(base).low()), width, out);
    debug_assert_eq!(out.len() - start, packed_bytes(values.len(), width));
}

/// Appends `values` one after another, the first one in the lowest bits. No value may have more than `width` bits.
pub(crate) fn pack_in_order(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let mut pending: u128 = 0;
    let mut bits = 0;
    for value in values {
        pending |= u128::from(value) << bits;
        bits += width;
        while bits >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(pending as u8);
    }
}

fn unpack_tail<W: Word>(bytes: &[u8], base: W, width: u32, out: &mut [W]) {
    if width == 0 {
        return out.fill(base);
    }
    let mut pending: u128 = 0;
    let mut bits = 0;
    let mut bytes = bytes.iter();
    for out in out {
        // Refill byte by byte. 128 bits hold a value of 64 bits and the rest of a byte.
        while bits < width {
            pending |= u128::from(*bytes.next().expect("the caller gives all packed bytes")) << bits;
            bits += 8;
        }
        *out = base.plus(W::from_u64(pending as u64 & low_bits(width)));
        pending >>= width;
        bits -= width;
    }
}

fn tail_value(bytes: &[u8], width: u32, index: usize) -> u64 {
    let bit = index * width as usize;
    let mut window = [0; 16];
    let bytes = &bytes[bit / 8..];
    // A value of 64 bits that starts within a byte spans nine bytes.
    let taken = bytes.len().min(9);
    window[..taken].copy_from_slice(&bytes[..taken]);
    (u128::from_le_bytes(window) >> (bit % 8)) as u64 & low_bits(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<W: Word>(count: usize, width: u32) {
        let mut state = 1 + u64::from(width);
        let base = W::truncate(77);
        let values: Vec<W> = (0..count)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let offset = if width == 0 { 0 } else { (state ^ (state >> 29)) & low_bits(width) };
                base.plus(W::from_u64(offset))
            })
            .collect();
        let mut bytes = Vec::new();
        pack(&values, base, width, &mut bytes);
        assert_eq!(bytes.len(), packed_bytes(count, width));
        let mut out = vec![W::default(); count];
        unpack(&bytes, base, width, &mut out);
        assert_eq!(out, values, "{count} values of {width} bits");
        // Packed bytes that are not aligned must give the same values.
        let shifted = [&[0], &*bytes].concat();
        out.fill(W::default());
        unpack(&shifted[1..], base, width, &mut out);
        assert_eq!(out, values, "{count} values of {width} bits, shifted");
        for (index, value) in values.iter().enumerate() {
            assert_eq!(base.plus(W::from_u64(unpack_one(&bytes, count, width, index))), *value);
        }
    }

    #[test]
    fn every_width_unpacks_as_a_whole_and_one_by_one() {
        for count in [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 1023, 1024] {
            (0..=8).for_each(|width| check::<u8>(count, width));
            (0..=16).for_each(|width| check::<u16>(count, width));
            (0..=32).for_each(|width| check::<u32>(count, width));
            (0..=64).for_each(|width| check::<u64>(count, width));
            (0..=64).for_each(|width| check::<u128>(count, width));
        }
    }
}
