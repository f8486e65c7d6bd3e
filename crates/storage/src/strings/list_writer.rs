//! Stores a value list, in the layout that suits it.

use fsst::Compressor;
use rowmill_base::{Error, Result};

use super::list::HEADER_BYTES;
use super::{LIST_BYTES_MAX, ListLayout, VALUES_MAX, front, fsst as symbols, packed};

/// Values of a group, as a power of two.
const GROUP_LOG2: u8 = 5;

/// Values that are stored at a time: as many as stay in the processor's cache between two passes over them.
const SLAB: usize = 32 << GROUP_LOG2;

/// Values that are looked at before a layout is chosen and that a symbol table is trained on: about so many bytes of
/// them, but not too few values, and of a long one only so much.
const SAMPLED_VALUES_MIN: usize = 64;
const SAMPLED_VALUES_MAX: usize = 2048;
const SAMPLED_BYTES: usize = 128 << 10;
const SAMPLED_VALUE_BYTES_MAX: usize = 4096;

/// A list of fewer bytes than this is stored as it is.
const COMPRESSED_BYTES_MIN: usize = 2048;

/// Front coding and FSST, each, are taken if they leave this share of the bytes at most. Even both together decode at
/// gigabytes a second, half as fast as no coding at all once the values are put behind one another and verified; where
/// they save less than this it is not worth that.
const WORTH_PERCENT: usize = 85;

/// Stores ascending `values` in the layout that suits them.
pub fn encode_list(values: &[&[u8]]) -> Result<Vec<u8>> {
    let Choice { layout, compressor, .. } = choose(values, true);
    write(values, layout, compressor.as_ref())
}

/// Stores values in any order, in the layout that suits them; that is none with front coding.
pub(super) fn encode_in_row_order(values: &[&[u8]]) -> Result<Vec<u8>> {
    let Choice { layout, compressor, .. } = choose(values, false);
    write(values, layout, compressor.as_ref())
}

/// Stores `values` in a given layout. Their order is up to the caller: a list of values is ascending, rows are not.
pub fn encode_list_as(values: &[&[u8]], layout: ListLayout) -> Result<Vec<u8>> {
    let compressor = layout.is_fsst().then(|| symbols::train(&sample(values, layout.is_front_coded())));
    write(values, layout, compressor.as_ref())
}

/// A layout, its symbol table, and the bytes that a list will about take in it.
pub(super) struct Choice {
    layout: ListLayout,
    compressor: Option<Compressor>,
    pub(super) bytes: usize,
}

/// Chooses by what a sample says.
pub(super) fn choose(values: &[&[u8]], ordered: bool) -> Choice {
    let total: usize = values.iter().map(|value| value.len()).sum();
    let whole = sample(values, false);
    let sampled = bytes_of(&whole).max(1);
    let scaled = |bytes: usize| (bytes as f64 * (total as f64 / sampled as f64)) as usize;
    let mut choice = Choice { layout: ListLayout::Raw, compressor: None, bytes: total };
    if total < COMPRESSED_BYTES_MIN {
        return choice;
    }
    let worth = |bytes: usize, of: usize| bytes * 100 <= of * WORTH_PERCENT;
    let mut own = whole;
    if ordered {
        let fronts = sample(values, true);
        // A byte for the shared length.
        let bytes = scaled(bytes_of(&fronts)) + values.len();
        if worth(bytes, choice.bytes) {
            (choice.layout, choice.bytes, own) = (ListLayout::FrontCoded, bytes, fronts);
        }
    }
    let compressor = symbols::train(&own);
    let (mut codes, mut table) = (Vec::new(), Vec::new());
    symbols::compress(&compressor, &own, &mut codes, &mut Vec::new());
    symbols::write_table(&compressor, &mut table);
    let saved = scaled(bytes_of(&own)).saturating_sub(scaled(codes.len()));
    let bytes = (choice.bytes + table.len()).saturating_sub(saved);
    if worth(bytes, choice.bytes) {
        choice.layout = choice.layout.with_fsst();
        (choice.compressor, choice.bytes) = (Some(compressor), bytes);
    }
    // Lengths: about a byte each.
    choice.bytes += values.len();
    choice
}

fn bytes_of(values: &[&[u8]]) -> usize {
    values.iter().map(|value| value.len()).sum()
}

/// The beginnings of some of `values` from all over; with `front_coded`, what they do not share with the one before.
fn sample<'a>(values: &[&'a [u8]], front_coded: bool) -> Vec<&'a [u8]> {
    let average = bytes_of(values) / values.len().max(1);
    let enough = (SAMPLED_BYTES / average.max(1)).clamp(SAMPLED_VALUES_MIN, SAMPLED_VALUES_MAX);
    let taken = values.len().min(enough);
    let piece = |number: usize| {
        let index = number * values.len() / taken;
        let shared = match index.checked_sub(1) {
            Some(before) if front_coded => front::shared_lengths(&[values[before], values[index]], 2)[1] as usize,
            _ => 0,
        };
        let own = &values[index][shared..];
        &own[..own.len().min(SAMPLED_VALUE_BYTES_MAX)]
    };
    (0..taken).map(piece).collect()
}

/// What is stored of values: what they share with the one before and what is their own.
struct Suffixes<'a> {
    shared: Vec<u32>,
    own: Vec<&'a [u8]>,
}

impl<'a> Suffixes<'a> {
    /// Those of whole groups.
    fn of(values: &[&'a [u8]], layout: ListLayout) -> Suffixes<'a> {
        if !layout.is_front_coded() {
            return Suffixes { shared: vec![], own: values.to_vec() };
        }
        let shared = front::shared_lengths(values, 1 << GROUP_LOG2);
        let own = values.iter().zip(&shared).map(|(value, &shared)| &value[shared as usize..]).collect();
        Suffixes { shared, own }
    }
}

fn write(values: &[&[u8]], layout: ListLayout, compressor: Option<&Compressor>) -> Result<Vec<u8>> {
    let total: usize = values.iter().map(|value| value.len()).sum();
    if total > LIST_BYTES_MAX || values.len() > VALUES_MAX {
        let asked = format!("{} values of {total} bytes in one list", values.len());
        return Err(Error::internal(format!("{asked}; at most {VALUES_MAX} of {LIST_BYTES_MAX} fit")));
    }
    let mut payload = Vec::with_capacity(total / 3);
    let (mut ends, mut lengths, mut shared) = (Vec::new(), Vec::new(), Vec::new());
    for slab in values.chunks(SLAB) {
        touch(slab);
        let suffixes = Suffixes::of(slab, layout);
        lengths.extend(suffixes.own.iter().map(|own| own.len() as u32));
        shared.extend(suffixes.shared);
        match compressor {
            Some(compressor) => symbols::compress(compressor, &suffixes.own, &mut payload, &mut ends),
            None => suffixes.own.iter().for_each(|own| {
                payload.extend_from_slice(own);
                ends.push(payload.len() as u64);
            }),
        }
    }
    if payload.len() > u32::MAX as usize {
        return Err(Error::internal(format!("{} bytes of codes for {total} bytes of values", payload.len())));
    }

    let mut out = Vec::with_capacity(HEADER_BYTES + payload.len() + values.len() * 2);
    out.extend_from_slice(&[layout as u8, GROUP_LOG2, 0, 0]);
    out.extend_from_slice(&(values.len() as u32).to_le_bytes());
    out.extend_from_slice(&(total as u32).to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    debug_assert_eq!(out.len(), HEADER_BYTES);
    if let Some(compressor) = compressor {
        symbols::write_table(compressor, &mut out);
    }
    packed::write(&lengths, &mut out);
    if layout.is_front_coded() {
        packed::write(&shared, &mut out);
    }
    for group in ends.chunks(1 << GROUP_LOG2) {
        out.extend_from_slice(&(group[group.len() - 1] as u32).to_le_bytes());
    }
    out.extend_from_slice(&payload);
    Ok(out)
}

/// Reads a byte of each cache line of the values. In byte order they lie scattered over memory; these loads do not wait
/// for one another, those of the passes that follow would.
fn touch(values: &[&[u8]]) {
    const LINE: usize = 64;
    const TOUCHED_LINES_MAX: usize = 8;
    let mut all = 0;
    for value in values {
        value.iter().step_by(LINE).take(TOUCHED_LINES_MAX).for_each(|byte| all ^= byte);
        all ^= value.last().unwrap_or(&0);
    }
    std::hint::black_box(all);
}
