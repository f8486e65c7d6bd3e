//! A sorted value list as stored bytes.
//!
//! ```text
//!   layout u8 | log2 of the group size u8 | 0 u16 | values u32 | decoded bytes u32 | payload bytes u32
//!   symbol table                      (FSST)
//!   length of each suffix, decoded    (packed)
//!   shared length of each value       (packed; front coding)
//!   end of each group in the payload  u32..
//!   payload: suffixes, one behind the other, as bytes or as codes
//! ```
//!
//! A group starts with a whole value, so it decodes alone: [`super::cursor`] finds single values that way. Everything
//! at once goes through three flat passes: lengths to offsets, codes to bytes, suffixes to values. Lengths count
//! decoded bytes, so all offsets are known, and checked against the header, before the first byte is decoded and before
//! memory is allocated for it.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::fsst::{self, SymbolTable};
use super::packed::PackedInts;
use super::reader::{Reader, u32_at};
use super::{DecodedList, LIST_BYTES_MAX, StringKind, front};

/// Bytes of the fixed part in front.
pub(super) const HEADER_BYTES: usize = 16;

/// Values of a group at most, as a power of two.
const GROUP_LOG2_MAX: u8 = 10;

/// How the bytes of a list are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ListLayout {
    /// The values as they are.
    Raw = 0,
    /// Only what differs from the value before, in groups that start with a whole value.
    FrontCoded = 1,
    /// The values as codes of an FSST symbol table.
    Fsst = 2,
    /// What differs from the value before, as FSST codes.
    FrontCodedFsst = 3,
}

impl ListLayout {
    /// All of them, by their stored number.
    pub const ALL: [ListLayout; 4] =
        [ListLayout::Raw, ListLayout::FrontCoded, ListLayout::Fsst, ListLayout::FrontCodedFsst];

    pub(super) fn is_front_coded(self) -> bool {
        matches!(self, ListLayout::FrontCoded | ListLayout::FrontCodedFsst)
    }

    pub(super) fn is_fsst(self) -> bool {
        matches!(self, ListLayout::Fsst | ListLayout::FrontCodedFsst)
    }
}

/// A stored list. Opening reads only its header and symbol table; the bytes may be hostile.
#[derive(Clone, Debug)]
pub struct StringList<'a> {
    pub(super) layout: ListLayout,
    pub(super) group_log2: u8,
    pub(super) values: usize,
    decoded_bytes: usize,
    pub(super) symbols: Option<SymbolTable>,
    pub(super) lengths: PackedInts<'a>,
    pub(super) shared: Option<PackedInts<'a>>,
    group_ends: &'a [u8],
    payload: &'a [u8],
}

impl<'a> StringList<'a> {
    /// The list in `bytes`, which must hold exactly it: `values` is what the chunk says that it holds.
    pub fn open(bytes: &'a [u8], values: usize) -> Result<StringList<'a>> {
        let mut section = Reader::new(bytes);
        let tag = section.u8()?;
        let group_log2 = section.u8()?;
        let reserved = section.bytes(2)?;
        let stored_values = section.u32()? as usize;
        let decoded_bytes = section.u32()? as usize;
        let payload_bytes = section.u32()? as usize;
        let layout = ListLayout::ALL.get(usize::from(tag)).copied();
        let (Some(layout), true, [0, 0]) = (layout, group_log2 <= GROUP_LOG2_MAX, reserved) else {
            return Err(Error::corrupt(format!("a value list of layout {tag} in groups of 2^{group_log2}")));
        };
        if stored_values != values || values > super::VALUES_MAX {
            return Err(Error::corrupt(format!("a list of {stored_values} values where {values} are said")));
        }
        let expansion_max = payload_bytes * fsst::SYMBOL_BYTES_MAX + values * front::SHARED_BYTES_MAX;
        if decoded_bytes > LIST_BYTES_MAX.min(expansion_max) {
            return Err(Error::corrupt(format!("{decoded_bytes} bytes of values from {payload_bytes} stored ones")));
        }
        let list = StringList {
            layout,
            group_log2,
            values,
            decoded_bytes,
            symbols: layout.is_fsst().then(|| SymbolTable::read(&mut section)).transpose()?,
            lengths: PackedInts::read(&mut section, values)?,
            shared: layout.is_front_coded().then(|| PackedInts::read(&mut section, values)).transpose()?,
            group_ends: section.bytes(values.div_ceil(1 << group_log2) * 4)?,
            payload: section.rest(),
        };
        if list.payload.len() != payload_bytes || list.group_start(list.groups()) != payload_bytes {
            return Err(Error::corrupt(format!("{} payload bytes where {payload_bytes} are said", list.payload.len())));
        }
        Ok(list)
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.values
    }

    /// True without any value.
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// How the bytes are stored.
    pub fn layout(&self) -> ListLayout {
        self.layout
    }

    /// Bytes of all values once decoded, as the header says; memory can be asked for before decoding.
    pub fn decoded_bytes(&self) -> usize {
        self.decoded_bytes
    }

    /// All values.
    pub fn decode(&self, kind: StringKind) -> Result<DecodedList> {
        let (bytes, offsets) = self.decode_groups(0..self.groups())?;
        match bytes.len() == self.decoded_bytes {
            true => Ok(DecodedList::new(bytes, offsets, kind)),
            false => Err(Error::corrupt(format!("{} bytes of values, not {}", bytes.len(), self.decoded_bytes))),
        }
    }

    /// A range of the values, for work that is shared between threads. Panics if the list is shorter.
    pub fn decode_range(&self, values: Range<usize>, kind: StringKind) -> Result<DecodedList> {
        assert!(values.start <= values.end && values.end <= self.values, "{values:?} of {} values", self.values);
        let groups = values.start >> self.group_log2..values.end.div_ceil(1 << self.group_log2);
        let first = groups.start << self.group_log2;
        let (bytes, offsets) = self.decode_groups(groups)?;
        Ok(DecodedList::new(bytes, offsets, kind).slice(values.start - first..values.end - first))
    }

    pub(super) fn groups(&self) -> usize {
        self.group_ends.len() / 4
    }

    fn group_start(&self, group: usize) -> usize {
        if group == 0 { 0 } else { u32_at(self.group_ends, group - 1) as usize }
    }

    /// What is stored of some groups' values.
    pub(super) fn payload_of(&self, groups: Range<usize>) -> Result<&'a [u8]> {
        let bytes = self.group_start(groups.start)..self.group_start(groups.end);
        self.payload.get(bytes.clone()).ok_or_else(|| Error::corrupt(format!("value groups at payload bytes {bytes:?}")))
    }

    /// The values that `groups` hold.
    pub(super) fn values_of(&self, groups: Range<usize>) -> Range<usize> {
        (groups.start << self.group_log2).min(self.values)..(groups.end << self.group_log2).min(self.values)
    }

    /// The bytes of some groups' values and where each ends.
    fn decode_groups(&self, groups: Range<usize>) -> Result<(Vec<u8>, Vec<u32>)> {
        let payload = self.payload_of(groups.clone())?;
        let values = self.values_of(groups);
        let mut lengths = Vec::with_capacity(values.len());
        self.lengths.unpack(values.clone(), &mut lengths);
        let Some(shared) = &self.shared else {
            let offsets = front::offsets(&vec![0; lengths.len()], &lengths, self.decoded_bytes)?;
            let total = offsets[lengths.len()] as usize;
            let mut bytes = self.decode_suffixes(payload, total, 0)?;
            bytes.truncate(total);
            return Ok((bytes, offsets));
        };
        let mut shares = Vec::with_capacity(values.len());
        shared.unpack(values, &mut shares);
        let offsets = front::offsets(&shares, &lengths, self.decoded_bytes)?;
        let own: usize = lengths.iter().map(|&length| length as usize).sum();
        let suffixes = self.decode_suffixes(payload, own, front::SLACK)?;
        let total = offsets[lengths.len()] as usize;
        let mut bytes = vec![0; total + front::SLACK];
        front::expand(&suffixes, &shares, &offsets, &mut bytes);
        bytes.truncate(total);
        Ok((bytes, offsets))
    }

    /// The `total` bytes that `payload` stands for, and at least `slack` more.
    fn decode_suffixes(&self, payload: &[u8], total: usize, slack: usize) -> Result<Vec<u8>> {
        let mismatch = || Error::corrupt(format!("{} payload bytes are not {total} bytes of values", payload.len()));
        let Some(symbols) = &self.symbols else {
            if payload.len() != total {
                return Err(mismatch());
            }
            let mut bytes = Vec::with_capacity(total + slack);
            bytes.extend_from_slice(payload);
            bytes.resize(total + slack, 0);
            return Ok(bytes);
        };
        if total > payload.len() * fsst::SYMBOL_BYTES_MAX {
            return Err(mismatch());
        }
        let mut bytes = vec![0; total + fsst::SLACK.max(slack)];
        let room = total + fsst::SLACK;
        symbols.decode(payload, &mut bytes[..room]).ok_or_else(mismatch)?;
        Ok(bytes)
    }
}
