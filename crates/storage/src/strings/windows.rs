//! Values of a stored list, some at a time, in memory that is used again for the next ones.
//!
//! Groups go through in slabs that stay in the processor's cache, each in flat passes: lengths to offsets, codes to
//! bytes, suffixes to values. Memory that is touched for the first time costs more than all of the decoding, so there is
//! one scratch for all slabs, and whoever only looks at the values never pays for more than a window of them.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::groups::Groups;
use super::picked::Picked;
use super::{StringList, front, fsst};

/// Values of a slab at most, and stored bytes: one group at least.
const SLAB_VALUES_MAX: usize = 2048;
const SLAB_PAYLOAD_MAX: usize = 64 << 10;

/// Groups whose bytes are fetched together.
const GROUPS_AT_ONCE: usize = 32;

/// Values that lie behind one another in memory.
#[derive(Clone, Copy, Debug)]
pub struct StringWindow<'w> {
    first: usize,
    bytes: &'w [u8],
    offsets: &'w [u32],
}

impl<'w> StringWindow<'w> {
    /// Values from number `first` on.
    pub(super) fn new(first: usize, bytes: &'w [u8], offsets: &'w [u32]) -> StringWindow<'w> {
        StringWindow { first, bytes, offsets }
    }

    /// The number of the first value among those that were asked for.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The same window where `values` more were asked for before.
    pub(super) fn behind(self, values: usize) -> StringWindow<'w> {
        StringWindow { first: self.first + values, ..self }
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True without any value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that [`Self::offsets`] are about; what lies before the first and behind the last value means nothing.
    pub fn bytes(&self) -> &'w [u8] {
        self.bytes
    }

    /// Value `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    pub fn offsets(&self) -> &'w [u32] {
        self.offsets
    }

    /// One value. Panics if there is none of that number.
    pub fn value(&self, index: usize) -> &'w [u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }
}

/// The bytes of some values that those before do not have, behind one another.
pub(super) struct OwnBytes<'a> {
    pub(super) bytes: &'a [u8],
    /// Own bytes of value `i` are `bytes[offsets[i]..offsets[i + 1]]`.
    pub(super) offsets: &'a [u32],
    /// Bytes that each value shares with the one before, if any does; the first has none.
    pub(super) shared: Option<&'a [u32]>,
}

/// What one slab needs, kept for the next.
#[derive(Default)]
pub(super) struct Scratch {
    /// Own and shared length of each value, and where the values end.
    lengths: Vec<u32>,
    shared: Vec<u32>,
    offsets: Vec<u32>,
    /// The values' own bytes, decoded.
    own: Vec<u8>,
    /// The values, put together.
    values: Vec<u8>,
}

impl StringList<'_> {
    /// Calls `each` with a range of the values, in their order. Panics if the list is shorter.
    pub fn for_each_window(
        &self,
        values: Range<usize>,
        mut each: impl FnMut(StringWindow<'_>) -> Result<()>,
    ) -> Result<()> {
        assert!(values.start <= values.end && values.end <= self.len(), "{values:?} of {} values", self.len());
        let mut scratch = Scratch::default();
        let mut room = self.decoded_bytes();
        let end = values.end.div_ceil(self.group_values());
        let mut group = values.start / self.group_values();
        while group < end {
            let slab = self.slab(group..end);
            group = slab.end;
            let held = self.values_of(slab.clone());
            let wanted = held.start.max(values.start)..held.end.min(values.end);
            let (bytes, offsets) = self.decode_slab(slab, &mut scratch, room)?;
            room -= offsets[offsets.len() - 1] as usize;
            let offsets = &offsets[wanted.start - held.start..=wanted.end - held.start];
            each(StringWindow { first: wanted.start - values.start, bytes, offsets })?;
        }
        Ok(())
    }

    /// Calls `each` with the values of some groups, in their order.
    pub fn for_each_window_of(
        &self,
        groups: &Groups,
        mut each: impl FnMut(StringWindow<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut scratch = Scratch::default();
        let mut room = self.decoded_bytes();
        for slab in self.slabs(groups) {
            let first = self.values_of(slab.clone()).start;
            let (bytes, offsets) = self.decode_slab(slab, &mut scratch, room)?;
            room -= offsets[offsets.len() - 1] as usize;
            each(StringWindow { first, bytes, offsets })?;
        }
        Ok(())
    }

    /// Calls `each` with the values of the numbers `wanted`, which ascend, each once. Only groups that hold one are decoded,
    /// and only as far as they have to be. Panics if there is no such value.
    pub fn for_each_wanted(&self, wanted: &[u32], mut each: impl FnMut(StringWindow<'_>) -> Result<()>) -> Result<()> {
        debug_assert!(wanted.is_sorted_by(|a, b| a < b), "values are asked for in ascending order, each once");
        let (mut scratch, mut picked) = (Scratch::default(), Picked::default());
        let mut room = self.decoded_bytes();
        // The values from `given` to `first` are gathered, and the bytes of those before `fetched` are on their way.
        let (mut given, mut first, mut fetched) = (0, 0, 0);
        while let Some(&value) = wanted.get(first) {
            assert!((value as usize) < self.len(), "value {value} of {}", self.len());
            if first >= fetched {
                fetched = first + self.fetch(&wanted[first..]);
            }
            let group = value as usize / self.group_values();
            let here = self.wanted_of(group, &wanted[first..]);
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

    /// Looks at the bytes of the next groups that hold one of `wanted`, so that they come from memory together and not each when
    /// it is decoded: groups that are far from each other are waited for longer than decoding them takes. Says how many of
    /// `wanted` those groups hold.
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

    /// Looks at each cache line of what is stored of a group's values.
    fn glance(&self, group: usize) -> u8 {
        const CACHE_LINE_BYTES: usize = 64;
        // Whoever decodes it says what is wrong with it.
        let payload = self.payload_of(group..group + 1).unwrap_or_default();
        payload.iter().step_by(CACHE_LINE_BYTES).fold(0, |glances, byte| glances ^ byte)
    }

    /// How many of `wanted`, which ascend from a value of `group`, that group has.
    fn wanted_of(&self, group: usize, wanted: &[u32]) -> usize {
        let end = self.values_of(group..group + 1).end;
        wanted.iter().take_while(|value| (**value as usize) < end).count()
    }

    /// The end of the groups from `group` on that hold too many of `wanted` for these to be picked; the first one has `here`.
    fn dense_end(&self, group: usize, here: usize, wanted: &[u32]) -> usize {
        let (mut end, mut behind) = (group + 1, here);
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

    /// Some groups as slabs. The bytes of short runs are looked at before, as [`Self::fetch`] does.
    pub(super) fn slabs<'s>(&'s self, groups: &'s Groups) -> impl Iterator<Item = Range<usize>> + 's {
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

    /// Looks at the bytes of `run` and of those behind it, up to one that is long, and says where the last of them ends.
    fn fetch_runs(&self, mut run: Range<usize>, groups: &Groups) -> usize {
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

    /// As many of `groups`, from the first on, as make a slab.
    pub(super) fn slab(&self, groups: Range<usize>) -> Range<usize> {
        let most = groups.len().min(SLAB_VALUES_MAX / self.group_values()).max(1);
        let start = self.group_start(groups.start);
        let fitting = (1..=most)
            .rev()
            .find(|&taken| self.group_start(groups.start + taken).saturating_sub(start) <= SLAB_PAYLOAD_MAX);
        groups.start..groups.start + fitting.unwrap_or(1)
    }

    /// The bytes of a slab's values, `room` at most, and where each ends.
    pub(super) fn decode_slab<'s>(
        &self,
        groups: Range<usize>,
        scratch: &'s mut Scratch,
        room: usize,
    ) -> Result<(&'s [u8], &'s [u32])>
    where
        Self: 's,
    {
        let payload = self.payload_of(groups.clone())?;
        let is_whole = !self.read_lengths(groups, scratch);
        let Scratch { lengths, shared, offsets, own, values: whole } = scratch;
        if is_whole {
            front::offsets(None, lengths, room, offsets)?;
            let own = self.decode_own(payload, offsets[lengths.len()] as usize, own)?;
            return Ok((own, offsets));
        }
        front::offsets(Some(shared), lengths, room, offsets)?;
        let own_bytes: usize = lengths.iter().map(|&length| length as usize).sum();
        let own = self.decode_own(payload, own_bytes, own)?;
        grow(whole, offsets[lengths.len()] as usize + front::SLACK);
        front::expand(own, shared, offsets, whole);
        Ok((whole, offsets))
    }

    /// What is the own of a slab's values.
    pub(super) fn own_of_slab<'s>(&self, groups: Range<usize>, scratch: &'s mut Scratch) -> Result<OwnBytes<'s>>
    where
        Self: 's,
    {
        let payload = self.payload_of(groups.clone())?;
        let is_shared = self.read_lengths(groups, scratch);
        let Scratch { lengths, shared, offsets, own, .. } = scratch;
        front::offsets(None, lengths, self.decoded_bytes(), offsets)?;
        let total = offsets[lengths.len()] as usize;
        let bytes = &self.decode_own(payload, total, own)?[..total];
        Ok(OwnBytes { bytes, offsets, shared: is_shared.then_some(&**shared) })
    }

    /// Reads own and shared lengths of the values of `groups`, and says whether they share any bytes.
    fn read_lengths(&self, groups: Range<usize>, scratch: &mut Scratch) -> bool {
        let values = self.values_of(groups);
        scratch.lengths.clear();
        self.lengths.unpack(values.clone(), &mut scratch.lengths);
        let Some(shared) = &self.shared else { return false };
        scratch.shared.clear();
        shared.unpack(values, &mut scratch.shared);
        true
    }

    /// The `total` bytes that `payload` stands for; there may be more behind them.
    fn decode_own<'s>(&self, payload: &'s [u8], total: usize, scratch: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        let mismatch = || Error::corrupt(format!("{} payload bytes are not {total} bytes of values", payload.len()));
        let Some(symbols) = &self.symbols else {
            return if payload.len() == total { Ok(payload) } else { Err(mismatch()) };
        };
        if total > payload.len() * fsst::SYMBOL_BYTES_MAX {
            return Err(mismatch());
        }
        grow(scratch, total + fsst::SLACK);
        symbols.decode(payload, &mut scratch[..total + fsst::SLACK]).ok_or_else(mismatch)?;
        Ok(scratch)
    }
}

/// Makes `bytes` at least `len` long; what is in it does not matter.
pub(super) fn grow(bytes: &mut Vec<u8>, len: usize) {
    if bytes.len() < len {
        bytes.clear();
        bytes.resize(len, 0);
    }
}
