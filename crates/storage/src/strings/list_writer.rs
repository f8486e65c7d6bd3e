//! Writes a value list.
//!
//! In byte order the values are scattered over memory, and waiting for memory would take longer than compressing. So we
//! process them in slabs: the first pass touches all values of a slab, and later passes find them in the processor's
//! cache.

use fsst::Compressor;
use rowmill_base::{Error, Result};

use super::layout_choice::{LayoutChoice, bytes_of};
use super::list::HEADER_BYTES;
use super::{LIST_BYTES_MAX, ListLayout, VALUES_MAX, front, fsst as symbols, packed};

/// The number of values of a group, as a power of two. The whole values at the heads of groups take 4 % of a list of
/// addresses. Reading one value means decoding half a group on average. With groups of 32 values, and without reading
/// ahead (`GROUPS_AT_ONCE` in `windows.rs`), ClickBench's Q38 took 8.0 ms instead of 5.4, and the directory was 1.2 %
/// smaller.
const GROUP_LOG2: u8 = 4;

/// The number of values that are decoded together.
pub(crate) const GROUP_VALUES: u32 = 1 << GROUP_LOG2;

/// The number of values of a slab.
const SLAB: usize = 64 << GROUP_LOG2;

/// Encodes ascending `values` in the layout that suits them best. Values beyond the limits of a list are a bug of the
/// caller: [`super::plan`] chooses no such list.
pub fn encode_list(values: &[&[u8]]) -> Result<Vec<u8>> {
    let choice = LayoutChoice::of(values, true);
    write(values, choice.layout, choice.compressor.as_ref())
}

/// Encodes values in any order, in the layout that suits them best, but never with front coding.
pub(super) fn encode_in_row_order(values: &[&[u8]]) -> Result<Vec<u8>> {
    let choice = LayoutChoice::of(values, false);
    write(values, choice.layout, choice.compressor.as_ref())
}

/// Encodes `values` in a given layout. The values of a list must ascend. Rows need not.
#[cfg(test)]
pub(super) fn encode_list_as(values: &[&[u8]], layout: ListLayout) -> Result<Vec<u8>> {
    let sample = || super::layout_choice::sample(values, layout.is_front_coded());
    let compressor = layout.is_fsst().then(|| symbols::train(&sample()));
    write(values, layout, compressor.as_ref())
}

fn write(values: &[&[u8]], layout: ListLayout, compressor: Option<&Compressor>) -> Result<Vec<u8>> {
    let total = bytes_of(values);
    if total > LIST_BYTES_MAX || values.len() > VALUES_MAX {
        let asked = format!("{} values of {total} bytes in one list", values.len());
        return Err(Error::internal(format!("{asked}; at most {VALUES_MAX} values of {LIST_BYTES_MAX} bytes fit")));
    }
    let mut out = Vec::with_capacity(HEADER_BYTES + if compressor.is_some() { total / 2 } else { total });
    out.resize(HEADER_BYTES, 0);
    let StoredValues { shared, lengths, ends } = write_payload(values, layout, compressor, &mut out);
    // Bad input can double in size when it is compressed.
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

/// The parts after the payload: for each value its shared length, the length of its own bytes, and the end of these.
#[derive(Default)]
struct StoredValues {
    shared: Vec<u32>,
    lengths: Vec<u32>,
    ends: Vec<u64>,
}

fn write_payload(
    values: &[&[u8]],
    layout: ListLayout,
    compressor: Option<&Compressor>,
    out: &mut Vec<u8>,
) -> StoredValues {
    let mut stored = StoredValues::default();
    let mut own: Vec<&[u8]> = Vec::with_capacity(SLAB.min(values.len()));
    for slab in values.chunks(SLAB) {
        // Load the whole slab into the cache first.
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

/// Touches every cache line of the values, with loads that do not wait for each other.
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
