//! Decodes the values of a stored list a window at a time, in memory that is reused for the next window.
//!
//! Groups are decoded in slabs that fit into the processor's cache, and each slab in flat passes: lengths to offsets,
//! codes to bytes, suffixes to values. Touching memory for the first time costs more than all the decoding. So all
//! slabs share one scratch buffer, and a caller that only looks at the values never needs memory for more than one
//! window.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::groups::TextGroups;
use super::picked::Picked;
use super::{StringList, front, fsst};

/// The maximum number of values and of stored bytes of a slab. A slab always has at least one group.
const SLAB_VALUES_MAX: usize = 2048;
const SLAB_PAYLOAD_MAX: usize = 64 << 10;

/// The number of groups whose bytes are fetched together.
const GROUPS_AT_ONCE: usize = 32;

/// Values that are stored one after another in memory.
#[derive(Clone, Copy, Debug)]
pub struct StringWindow<'w> {
    first: usize,
    bytes: &'w [u8],
    offsets: &'w [u32],
}

impl<'w> StringWindow<'w> {
    /// A window of values. `first` is the index of its first value among the wanted ones.
    pub(super) fn new(first: usize, bytes: &'w [u8], offsets: &'w [u32]) -> StringWindow<'w> {
        StringWindow { first, bytes, offsets }
    }

    /// The index of the first value among the wanted ones.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Returns this window for a caller that wanted `values` more values before.
    pub(super) fn behind(self, values: usize) -> StringWindow<'w> {
        StringWindow { first: self.first + values, ..self }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether the window has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that [`Self::offsets`] refers to. Bytes before the first value and after the last one are arbitrary.
    pub fn bytes(&self) -> &'w [u8] {
        self.bytes
    }

    /// The offsets of the values: value `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    pub fn offsets(&self) -> &'w [u32] {
        self.offsets
    }

    /// The bytes of one value. Panics if the window has fewer values.
    pub fn value(&self, index: usize) -> &'w [u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }
}

/// The own bytes of some values, without the bytes that they share, one after another.
pub(super) struct OwnBytes<'a> {
    pub(super) bytes: &'a [u8],
    /// The own bytes of value `i` are `bytes[offsets[i]..offsets[i + 1]]`.
    pub(super) offsets: &'a [u32],
    /// The number of bytes that each value shares with the value before. `None` if no value shares any. The first value
    /// shares none.
    pub(super) shared: Option<&'a [u32]>,
}

/// The buffers for decoding one slab, kept for the next one.
#[derive(Default)]
pub(super) struct SlabScratch {
    /// The own and the shared length of each value, and the end of each value.
    lengths: Vec<u32>,
    shared: Vec<u32>,
    offsets: Vec<u32>,
    /// The decoded own bytes of the values.
    own: Vec<u8>,
    /// The whole values.
    values: Vec<u8>,
}

impl StringList<'_> {
    /// Calls `each` with windows of a range of the values, in order. Panics if the list is shorter.
    pub fn for_each_window(
        &self,
        values: Range<usize>,
        mut each: impl FnMut(StringWindow<'_>) -> Result<()>,
    ) -> Result<()> {
        assert!(values.start <= values.end && values.end <= self.len(), "{values:?} of {} values", self.len());
        let mut scratch = SlabScratch::default();
        // `room` is what the header still allows. It bounds the memory that damaged lengths can ask for.
        let mut room = self.decoded_bytes();
        let end = values.end.div_ceil(self.group_values());
        let mut group = values.start / self.group_values();
        while group < end {
            let slab = self.slab(group..end);
            group = slab.end;
            let held = self.values_of(slab.clone());
            // The slab has whole groups, so its first and last values may be outside of the range.
            let wanted = held.start.max(values.start)..held.end.min(values.end);
            let (bytes, offsets) = self.decode_slab(slab, &mut scratch, room)?;
            room -= offsets[offsets.len() - 1] as usize;
            let offsets = &offsets[wanted.start - held.start..=wanted.end - held.start];
            each(StringWindow { first: wanted.start - values.start, bytes, offsets })?;
        }
        Ok(())
    }

    /// Calls `each` with windows of the values of some groups, in order.
    pub(crate) fn for_each_window_of(
        &self,
        groups: &TextGroups,
        mut each: impl FnMut(StringWindow<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut scratch = SlabScratch::default();
        let mut room = self.decoded_bytes();
        for slab in self.slabs(groups) {
            let first = self.values_of(slab.clone()).start;
            let (bytes, offsets) = self.decode_slab(slab, &mut scratch, room)?;
            room -= offsets[offsets.len() - 1] as usize;
            each(StringWindow { first, bytes, offsets })?;
        }
        Ok(())
    }

    /// Calls `each` with windows of the values with the indexes `wanted`, which must ascend and be distinct. Decodes
    /// only groups that have a wanted value, and no more of them than necessary. Panics if the list is shorter.
    pub(crate) fn for_each_wanted(
        &self,
        wanted: &[u32],
        mut each: impl FnMut(StringWindow<'_>) -> Result<()>,
    ) -> Result<()> {
        debug_assert!(wanted.is_sorted_by(|a, b| a < b), "the wanted values must ascend, each at most once");
        let (mut scratch, mut picked) = (SlabScratch::default(), Picked::default());
        let mut room = self.decoded_bytes();
        // The values from `given` to `first` are collected, and the bytes of those before `fetched` were requested from
        // memory.
        let (mut given, mut first, mut fetched) = (0, 0, 0);
        while let Some(&value) = wanted.get(first) {
            assert!((value as usize) < self.len(), "value {value} of {}", self.len());
            if first >= fetched {
                fetched = first + self.fetch(&wanted[first..]);
            }
            let group = value as usize / self.group_values();
            let here = self.wanted_of(group, &wanted[first..]);
            // Few wanted values of the group are put together one by one. Otherwise we decode whole groups and copy.
            if self.is_picked(here) {
                self.pick(group, &wanted[first..first + here], &mut picked)?;
                first += here;
            } else {
                let slab = self.slab(group..self.dense_end(group, here, &wanted[first..]));
                let held = self.values_of(slab.clone());
                let here = wanted[first..].partition_point(|value| (*value as usize) < held.end);
                let (bytes, offsets) = self.decode_slab(slab, &mut scratch, room)?;
                room -= offsets[offsets.len() - 1] as usize;
                picked.copy(bytes, offsets, held.start as u32, &wanted[first..first + here]);
                first += here;
            }
            if picked.is_full() || first == wanted.len() {
                each(picked.window(given))?;
                picked.clear();
                given = first;
            }
        }
        Ok(())
    }

    /// Touches the bytes of the next groups that have one of `wanted`, so that these loads run in parallel. For groups
    /// that are far from each other, waiting for memory takes longer than decoding. Returns how many of `wanted` are in
    /// these groups.
    fn fetch(&self, wanted: &[u32]) -> usize {
        let (mut held, mut glances) = (0, 0);
        for _ in 0..GROUPS_AT_ONCE {
            let Some(value) = wanted.get(held) else { break };
            let group = *value as usize / self.group_values();
            held += self.wanted_of(group, &wanted[held..]);
            glances ^= self.glance(group);
        }
        std::hint::black_box(glances);
        held
    }

    /// Touches each cache line of the stored bytes of a group.
    fn glance(&self, group: usize) -> u8 {
        const CACHE_LINE_BYTES: usize = 64;
        // Damage is reported by the decoder, not here.
        let payload = self.payload_of(group..group + 1).unwrap_or_default();
        payload.iter().step_by(CACHE_LINE_BYTES).fold(0, |glances, byte| glances ^ byte)
    }

    /// The number of values at the front of `wanted` that are in `group`. The first one must be at or after the start
    /// of the group.
    fn wanted_of(&self, group: usize, wanted: &[u32]) -> usize {
        let end = self.values_of(group..group + 1).end;
        wanted.iter().take_while(|value| (**value as usize) < end).count()
    }

    /// The end of the run of groups from `group` on that have too many wanted values for picking. The first group has
    /// `here` of them.
    fn dense_end(&self, group: usize, here: usize, wanted: &[u32]) -> usize {
        let (mut end, mut behind) = (group + 1, here);
        // Extend the slab as long as the next group also has many wanted values.
        while end < self.groups() && (end - group) * self.group_values() < SLAB_VALUES_MAX {
            let here = self.wanted_of(end, &wanted[behind..]);
            if here == 0 || self.is_picked(here) {
                break;
            }
            behind += here;
            end += 1;
        }
        end
    }

    /// Splits some groups into slabs. Before short runs, touches their bytes together, like [`Self::fetch`].
    pub(super) fn slabs<'s>(&'s self, groups: &'s TextGroups) -> impl Iterator<Item = Range<usize>> + 's {
        let mut run = 0..0;
        let mut fetched = 0;
        std::iter::from_fn(move || {
            if run.is_empty() {
                run = groups.run_from(run.end)?;
            }
            if run.start >= fetched {
                fetched = self.fetch_runs(run.clone(), groups);
            }
            let slab = self.slab(run.clone());
            run.start = slab.end;
            Some(slab)
        })
    }

    /// Touches the bytes of `run` and of the runs after it, up to a long run. Returns the end of the last one.
    fn fetch_runs(&self, mut run: Range<usize>, groups: &TextGroups) -> usize {
        let (mut end, mut fetched, mut glances) = (run.end, 0, 0);
        while fetched < GROUPS_AT_ONCE && run.len() < GROUPS_AT_ONCE {
            (end, fetched) = (run.end, fetched + run.len());
            glances = run.fold(glances, |glances, group| glances ^ self.glance(group));
            match groups.run_from(end) {
                Some(next) => run = next,
                None => break,
            }
        }
        std::hint::black_box(glances);
        end
    }

    /// The groups of the next slab: as many of `groups` as fit, from the first on.
    pub(super) fn slab(&self, groups: Range<usize>) -> Range<usize> {
        // A group is never split. One that is larger than a slab is decoded alone.
        let most = groups.len().min(SLAB_VALUES_MAX / self.group_values()).max(1);
        let start = self.group_start(groups.start);
        let fitting = (1..=most)
            .rev()
            .find(|&taken| self.group_start(groups.start + taken).saturating_sub(start) <= SLAB_PAYLOAD_MAX);
        groups.start..groups.start + fitting.unwrap_or(1)
    }

    /// Decodes the values of a slab, at most `room` bytes. Returns the bytes and the offsets of the values.
    pub(super) fn decode_slab<'s>(
        &self,
        groups: Range<usize>,
        scratch: &'s mut SlabScratch,
        room: usize,
    ) -> Result<(&'s [u8], &'s [u32])>
    where
        Self: 's,
    {
        let payload = self.payload_of(groups.clone())?;
        let is_whole = !self.read_lengths(groups, scratch);
        let SlabScratch { lengths, shared, offsets, own, values: whole } = scratch;
        // If no value shares bytes, the own bytes are the values.
        if is_whole {
            front::offsets(None, lengths, room, offsets)?;
            let own = self.decode_own(payload, offsets[lengths.len()] as usize, own)?;
            return Ok((own, offsets));
        }
        // All offsets are computed and checked before any byte is decoded.
        front::offsets(Some(shared), lengths, room, offsets)?;
        let own_bytes: usize = lengths.iter().map(|&length| length as usize).sum();
        let own = self.decode_own(payload, own_bytes, own)?;
        grow(whole, offsets[lengths.len()] as usize + front::SLACK);
        front::expand(own, shared, offsets, whole);
        Ok((whole, offsets))
    }

    /// Decodes only the own bytes of a slab's values.
    pub(super) fn own_of_slab<'s>(&self, groups: Range<usize>, scratch: &'s mut SlabScratch) -> Result<OwnBytes<'s>>
    where
        Self: 's,
    {
        let payload = self.payload_of(groups.clone())?;
        let is_shared = self.read_lengths(groups, scratch);
        let SlabScratch { lengths, shared, offsets, own, .. } = scratch;
        front::offsets(None, lengths, self.decoded_bytes(), offsets)?;
        let total = offsets[lengths.len()] as usize;
        let bytes = &self.decode_own(payload, total, own)?[..total];
        Ok(OwnBytes { bytes, offsets, shared: is_shared.then_some(&**shared) })
    }

    /// Reads the own and shared lengths of the values of `groups`. Returns whether values share bytes.
    fn read_lengths(&self, groups: Range<usize>, scratch: &mut SlabScratch) -> bool {
        let values = self.values_of(groups);
        scratch.lengths.clear();
        self.lengths.unpack(values.clone(), &mut scratch.lengths);
        let Some(shared) = &self.shared else { return false };
        scratch.shared.clear();
        shared.unpack(values, &mut scratch.shared);
        true
    }

    /// Decodes `payload` to exactly `total` bytes. The result may have more bytes after them.
    fn decode_own<'s>(&self, payload: &'s [u8], total: usize, scratch: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        let mismatch = || Error::corrupt(format!("{} payload bytes are not {total} bytes of values", payload.len()));
        // Without a symbol table, the payload is the bytes themselves.
        let Some(symbols) = &self.symbols else {
            return if payload.len() == total { Ok(payload) } else { Err(mismatch()) };
        };
        // A code gives at most 8 bytes. We check that before we allocate.
        if total > payload.len() * fsst::SYMBOL_BYTES_MAX {
            return Err(mismatch());
        }
        grow(scratch, total + fsst::SLACK);
        symbols.decode(payload, &mut scratch[..total + fsst::SLACK]).ok_or_else(mismatch)?;
        Ok(scratch)
    }
}

/// Makes `bytes` at least `len` long. Its content may be lost.
pub(super) fn grow(bytes: &mut Vec<u8>, len: usize) {
    if bytes.len() < len {
        bytes.clear();
        bytes.resize(len, 0);
    }
}
