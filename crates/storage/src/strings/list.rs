//! A sorted value list as stored bytes.
//!
//! ```text
//!   layout u8 | log2 of the group size u8 | 0 u16 | values u32 | decoded bytes u32 | payload bytes u32
//!   payload: the values' own bytes, one behind the other, as they are or as codes
//!   symbol table                      (FSST)
//!   length of each value's own bytes  (packed)
//!   shared length of each value       (packed; front coding)
//!   end of each group in the payload  u32..
//! ```
//!
//! A group starts with a whole value, so it decodes alone; [`super::cursor`] finds single values that way, and
//! [`super::windows`] goes over many of them. Lengths count decoded bytes: all offsets are known, and checked against the
//! header, before the first byte is decoded and before memory is allocated for it.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::fsst::{self, SymbolTable};
use super::groups::Groups;
use super::packed::PackedInts;
use super::reader::{Reader, u32_at};
use super::{LIST_BYTES_MAX, front};

/// Bytes of the fixed part in front.
pub(super) const HEADER_BYTES: usize = 16;

/// Values of a group at most, as a power of two.
const GROUP_LOG2_MAX: u8 = 8;

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

    pub(super) fn with_fsst(self) -> ListLayout {
        if self.is_front_coded() { ListLayout::FrontCodedFsst } else { ListLayout::Fsst }
    }

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
        let payload = section.bytes(payload_bytes)?;
        let list = StringList {
            layout,
            group_log2,
            values,
            decoded_bytes,
            symbols: layout.is_fsst().then(|| SymbolTable::read(&mut section)).transpose()?,
            lengths: PackedInts::read(&mut section, values)?,
            shared: layout.is_front_coded().then(|| PackedInts::read(&mut section, values)).transpose()?,
            group_ends: section.bytes(values.div_ceil(1 << group_log2) * 4)?,
            payload,
        };
        let (last, rest) = (list.group_start(list.groups()), section.rest().len());
        match last == payload_bytes && rest == 0 {
            true => Ok(list),
            false => {
                Err(Error::corrupt(format!("groups of {last} bytes in {payload_bytes}, {rest} bytes behind them")))
            }
        }
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

    /// Bytes of memory that [`StringList::decode`] and its array of views will take.
    pub fn memory_bytes(&self) -> usize {
        const OFFSET_AND_VIEW_BYTES: usize = 4 + 16;
        self.likely_bytes(self.values) + self.values * OFFSET_AND_VIEW_BYTES
    }

    /// Bytes that are stored of the values themselves.
    pub(super) fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Values of a group.
    pub(super) fn group_values(&self) -> usize {
        1 << self.group_log2
    }

    /// Groups of values, each of which decodes alone.
    pub fn groups(&self) -> usize {
        self.group_ends.len() / 4
    }

    /// All groups.
    pub fn all_groups(&self) -> Groups {
        Groups::all(self.groups())
    }

    /// Leaves those of `values` that are in some groups.
    pub fn retain_in(&self, groups: &Groups, values: &mut Vec<u32>) {
        values.retain(|value| groups.has(*value as usize >> self.group_log2));
    }

    /// Values of some groups.
    pub fn values_in(&self, groups: &Groups) -> usize {
        (groups.len() * self.group_values()).min(self.values)
    }

    /// Where a group starts in the payload; that of the last but one is its end.
    pub(super) fn group_start(&self, group: usize) -> usize {
        if group == 0 { 0 } else { u32_at(self.group_ends, group - 1) as usize }
    }

    /// What is stored of some groups' values.
    pub(super) fn payload_of(&self, groups: Range<usize>) -> Result<&'a [u8]> {
        let bytes = self.group_start(groups.start)..self.group_start(groups.end);
        self.payload
            .get(bytes.clone())
            .ok_or_else(|| Error::corrupt(format!("value groups at payload bytes {bytes:?}")))
    }

    /// The values that `groups` hold.
    pub(super) fn values_of(&self, groups: Range<usize>) -> Range<usize> {
        (groups.start << self.group_log2).min(self.values)..(groups.end << self.group_log2).min(self.values)
    }
}
