//! Which layout suits a list, by what a sample says.
//!
//! Front coding is looked at first, FSST on what that leaves. Each is taken if it leaves 85 of 100 bytes at most. No
//! layout is slow: decoded to Arrow, a list of addresses comes at 8.6 GB/s as it is and at 3.6 GB/s with both, so what
//! saves a sixth or more is worth its time at once, in pages that are not read and stay in memory, and what saves less
//! is not. Storing both ways takes a third of the time that finding and ordering the values takes.

use fsst::Compressor;

use super::{ListLayout, front, fsst as symbols};

/// What a layout leaves of the bytes at most if it is taken, in percent.
const WORTH_PERCENT: usize = 85;

/// A list of fewer bytes than this is stored as it is.
const COMPRESSED_BYTES_MIN: usize = 2048;

/// Values that are looked at, and that a symbol table is trained on: about so many bytes of them, but not too few
/// values, and of a long one only so much.
const SAMPLED_VALUES_MIN: usize = 64;
const SAMPLED_VALUES_MAX: usize = 2048;
const SAMPLED_BYTES: usize = 128 << 10;
const SAMPLED_VALUE_BYTES_MAX: usize = 4096;

/// A layout, its symbol table, and the bytes that a list will about take in it.
pub(super) struct Choice {
    pub(super) layout: ListLayout,
    pub(super) compressor: Option<Compressor>,
    pub(super) bytes: usize,
}

impl Choice {
    /// The layout for `values`. Front coding is for ascending ones only.
    pub(super) fn of(values: &[&[u8]], ascending: bool) -> Choice {
        let total = bytes_of(values);
        let mut choice = Choice { layout: ListLayout::Raw, compressor: None, bytes: total };
        if total < COMPRESSED_BYTES_MIN {
            return choice;
        }
        let mut own = sample(values, false);
        let scale = total as f64 / bytes_of(&own).max(1) as f64;
        if ascending {
            let suffixes = sample(values, true);
            // A shared length takes about a byte.
            let bytes = scaled(bytes_of(&suffixes), scale) + values.len();
            if is_worth(bytes, total) {
                choice = Choice { layout: ListLayout::FrontCoded, bytes, ..choice };
                own = suffixes;
            }
        }
        choice.try_fsst(&own, scale);
        // And so does a length.
        choice.bytes += values.len();
        choice
    }

    /// Takes FSST if it is worth it. `own` is the sample of what would be compressed.
    fn try_fsst(&mut self, own: &Vec<&[u8]>, scale: f64) {
        let compressor = symbols::train(own);
        let (mut codes, mut table) = (Vec::new(), Vec::new());
        symbols::compress(&compressor, own, &mut codes, &mut Vec::new());
        symbols::write_table(&compressor, &mut table);
        let before = scaled(bytes_of(own), scale);
        let bytes = (self.bytes + scaled(codes.len(), scale) + table.len()).saturating_sub(before);
        if is_worth(bytes, self.bytes) {
            *self = Choice { layout: self.layout.with_fsst(), compressor: Some(compressor), bytes };
        }
    }
}

fn is_worth(bytes: usize, before: usize) -> bool {
    bytes as u64 * 100 <= (before * WORTH_PERCENT) as u64
}

fn scaled(bytes: usize, scale: f64) -> usize {
    (bytes as f64 * scale) as usize
}

/// Bytes of all values.
pub(super) fn bytes_of(values: &[&[u8]]) -> usize {
    values.iter().map(|value| value.len()).sum()
}

/// The beginnings of some of `values` from all over; with `front_coded`, of what they do not share with the one before.
pub(super) fn sample<'a>(values: &[&'a [u8]], front_coded: bool) -> Vec<&'a [u8]> {
    let average = bytes_of(values) / values.len().max(1);
    let enough = (SAMPLED_BYTES / average.max(1)).clamp(SAMPLED_VALUES_MIN, SAMPLED_VALUES_MAX);
    let taken = values.len().min(enough);
    let piece = |number: usize| {
        let index = number * values.len() / taken;
        let shared = match index.checked_sub(1) {
            Some(before) if front_coded => front::common_prefix(values[before], values[index]),
            _ => 0,
        };
        let own = &values[index][shared..];
        &own[..own.len().min(SAMPLED_VALUE_BYTES_MAX)]
    };
    (0..taken).map(piece).collect()
}
