//! Stores a value list.
//!
//! In byte order the values lie scattered over memory, and waiting for it would take longer than compressing. So they
//! go through in slabs: one pass touches all of a slab, the passes after it find it in the processor's cache.

use fsst::Compressor;
use rowmill_base::{Error, Result};

use super::layout_choice::{Choice, bytes_of, sample};
use super::list::HEADER_BYTES;
use super::{LIST_BYTES_MAX, ListLayout, VALUES_MAX, front, fsst as symbols, packed};

/// Values of a group, as a power of two. Whole values at the heads of groups take 4 % of a list of addresses; reading
/// one value takes decoding half a group.
const GROUP_LOG2: u8 = 4;

/// Values that are decoded together.
pub const GROUP_VALUES: u32 = 1 << GROUP_LOG2;

/// Values of a slab.
const SLAB: usize = 64 << GROUP_LOG2;

/// Stores ascending `values` in the layout that suits them. More than one list may hold is a bug of the caller:
/// [`super::plan`] makes no such list.
pub fn encode_list(values: &[&[u8]]) -> Result<Vec<u8>> {
    let choice = Choice::of(values, true);
    write(values, choice.layout, choice.compressor.as_ref())
}

/// Stores values in any order, in the layout that suits them; that is none with front coding.
pub(super) fn encode_in_row_order(values: &[&[u8]]) -> Result<Vec<u8>> {
    let choice = Choice::of(values, false);
    write(values, choice.layout, choice.compressor.as_ref())
}

/// Stores `values` in a given layout. Their order is up to the caller: a list of values is ascending, rows are not.
pub fn encode_list_as(values: &[&[u8]], layout: ListLayout) -> Result<Vec<u8>> {
    let compressor = layout.is_fsst().then(|| symbols::train(&sample(values, layout.is_front_coded())));
    write(values, layout, compressor.as_ref())
}

fn write(values: &[&[u8]], layout: ListLayout, compressor: Option<&Compressor>) -> Result<Vec<u8>> {
    let total = bytes_of(values);
    if total > LIST_BYTES_MAX || values.len() > VALUES_MAX {
        let asked = format!("{} values of {total} bytes in one list", values.len());
        return Err(Error::internal(format!("{asked}; at most {VALUES_MAX} of {LIST_BYTES_MAX} fit")));
    }
    let mut out = Vec::with_capacity(HEADER_BYTES + if compressor.is_some() { total / 2 } else { total });
    out.resize(HEADER_BYTES, 0);
    let Stored { shared, lengths, ends } = write_payload(values, layout, compressor, &mut out);
    let Ok(payload_bytes) = u32::try_from(out.len() - HEADER_BYTES) else {
        return Err(Error::internal(format!("{} bytes of codes for {total} bytes of values", out.len())));
    };
    if let Some(compressor) = compressor {
        symbols::write_table(compressor, &mut out);
    }
    packed::write(&lengths, &mut out);
    if layout.is_front_coded() {
        packed::write(&shared, &mut out);
    }
    for group in ends.chunks(1 << GROUP_LOG2) {
        let end = group[group.len() - 1] as usize - HEADER_BYTES;
        out.extend_from_slice(&(end as u32).to_le_bytes());
    }
    out[..4].copy_from_slice(&[layout as u8, GROUP_LOG2, 0, 0]);
    out[4..8].copy_from_slice(&(values.len() as u32).to_le_bytes());
    out[8..12].copy_from_slice(&(total as u32).to_le_bytes());
    out[12..16].copy_from_slice(&payload_bytes.to_le_bytes());
    Ok(out)
}

/// What goes behind the payload: of each value, what it shares, the length of its own bytes, and where those end.
#[derive(Default)]
struct Stored {
    shared: Vec<u32>,
    lengths: Vec<u32>,
    ends: Vec<u64>,
}

fn write_payload(values: &[&[u8]], layout: ListLayout, compressor: Option<&Compressor>, out: &mut Vec<u8>) -> Stored {
    let mut stored = Stored::default();
    let mut own: Vec<&[u8]> = Vec::with_capacity(SLAB.min(values.len()));
    for slab in values.chunks(SLAB) {
        touch(slab);
        own.clear();
        if layout.is_front_coded() {
            let shared = front::shared_lengths(slab, 1 << GROUP_LOG2);
            own.extend(slab.iter().zip(&shared).map(|(value, &shared)| &value[shared as usize..]));
            stored.shared.extend(shared);
        } else {
            own.extend(slab);
        }
        stored.lengths.extend(own.iter().map(|own| own.len() as u32));
        match compressor {
            Some(compressor) => symbols::compress(compressor, &own, out, &mut stored.ends),
            None => own.iter().for_each(|own| {
                out.extend_from_slice(own);
                stored.ends.push(out.len() as u64);
            }),
        }
    }
    stored
}

/// Reads a byte of each cache line of the values: loads that do not wait for one another.
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
