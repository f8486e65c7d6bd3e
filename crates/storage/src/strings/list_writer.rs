//! Stores a value list, in the layout that suits it.

use fsst::Compressor;
use rowmill_base::{Error, Result};

use super::list::HEADER_BYTES;
use super::{LIST_BYTES_MAX, ListLayout, VALUES_MAX, front, fsst as symbols, packed};

/// Values of a group, as a power of two.
const GROUP_LOG2: u8 = 5;

/// Stores ascending `values` in the layout that suits them.
pub fn encode_list(values: &[&[u8]]) -> Result<Vec<u8>> {
    encode_list_as(values, ListLayout::FrontCodedFsst)
}

/// Stores `values` in a given layout. Their order is up to the caller: a list of values is ascending, rows are not.
pub fn encode_list_as(values: &[&[u8]], layout: ListLayout) -> Result<Vec<u8>> {
    let total: usize = values.iter().map(|value| value.len()).sum();
    if total > LIST_BYTES_MAX || values.len() > VALUES_MAX {
        let asked = format!("{} values of {total} bytes in one list", values.len());
        return Err(Error::internal(format!("{asked}; at most {VALUES_MAX} of {LIST_BYTES_MAX} fit")));
    }
    let group = 1 << GROUP_LOG2;
    let shared = if layout.is_front_coded() { front::shared_lengths(values, group) } else { vec![0; values.len()] };
    let suffixes: Vec<&[u8]> = values.iter().zip(&shared).map(|(value, &shared)| &value[shared as usize..]).collect();
    let compressor = layout.is_fsst().then(|| symbols::train(&suffixes));
    let (payload, group_ends) = store(&suffixes, compressor.as_ref(), group);
    if payload.len() > u32::MAX as usize {
        return Err(Error::internal(format!("{} bytes of codes for {total} bytes of values", payload.len())));
    }

    let mut out = Vec::with_capacity(HEADER_BYTES + payload.len() + values.len() * 4);
    out.extend_from_slice(&[layout as u8, GROUP_LOG2, 0, 0]);
    out.extend_from_slice(&(values.len() as u32).to_le_bytes());
    out.extend_from_slice(&(total as u32).to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    debug_assert_eq!(out.len(), HEADER_BYTES);
    if let Some(compressor) = &compressor {
        symbols::write_table(compressor, &mut out);
    }
    let lengths: Vec<u32> = suffixes.iter().map(|suffix| suffix.len() as u32).collect();
    packed::write(&lengths, &mut out);
    if layout.is_front_coded() {
        packed::write(&shared, &mut out);
    }
    group_ends.iter().for_each(|end| out.extend_from_slice(&end.to_le_bytes()));
    out.extend_from_slice(&payload);
    Ok(out)
}

/// The payload, and where each group ends in it.
fn store(suffixes: &[&[u8]], compressor: Option<&Compressor>, group: usize) -> (Vec<u8>, Vec<u32>) {
    let mut payload = Vec::new();
    let mut ends: Vec<u64> = Vec::with_capacity(suffixes.len());
    match compressor {
        Some(compressor) => symbols::compress(compressor, suffixes, &mut payload, &mut ends),
        None => {
            payload.reserve(suffixes.iter().map(|suffix| suffix.len()).sum());
            for suffix in suffixes {
                payload.extend_from_slice(suffix);
                ends.push(payload.len() as u64);
            }
        }
    }
    let group_ends = ends.chunks(group).map(|ends| ends[ends.len() - 1] as u32).collect();
    (payload, group_ends)
}
