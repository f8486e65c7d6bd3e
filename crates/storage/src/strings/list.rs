//! A sorted value list in its stored form.
//!
//! ```text
//!   layout u8 | log2 of the group size u8 | 0 u16 | values u32 | decoded bytes u32 | payload bytes u32
//!   payload: the values' own bytes, one after another, unchanged or as codes
//!   symbol table                      (FSST)
//!   length of each value's own bytes  (packed)
//!   shared length of each value       (packed; front coding)
//!   end of each group in the payload  u32..
//! ```
//!
//! A group starts with a whole value, so it can be decoded alone: [`super::cursor`] finds single values that way, and
//! [`super::windows`] decodes many of them. Lengths count decoded bytes. So all offsets are known, and checked against
//! the header, before we decode a byte or allocate memory for it.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::fsst::{self, SymbolTable};
use super::groups::TextGroups;
use super::packed::PackedInts;
use super::reader::{SectionReader, u32_at};
use super::{LIST_BYTES_MAX, front};

/// The size of the fixed part at the front.
pub(super) const HEADER_BYTES: usize = 16;

/// The maximum number of values of a group, as a power of two.
const GROUP_LOG2_MAX: u8 = 8;

/// The form of a list's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ListLayout {
    /// The values unchanged.
    Raw = 0,
    /// Only the bytes that differ from the value before. Each group starts with a whole value.
    FrontCoded = 1,
    /// The values as codes of an FSST symbol table.
    Fsst = 2,
    /// The bytes that differ from the value before, as FSST codes.
    FrontCodedFsst = 3,
}

impl ListLayout {
    /// All layouts, ordered by their stored number.
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

/// A stored list. Opening reads only its header and symbol table. Its bytes may be hostile.
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
    /// Opens the list in `bytes`, which must have exactly one list. `values` is the number of values according to the
    /// chunk.
    pub fn open(bytes: &'a [u8], values: usize) -> Result<StringList<'a>> {
        let mut section = SectionReader::new(bytes);
        let tag = section.u8()?;
        let group_log2 = section.u8()?;
        let reserved = section.bytes(2)?;
        let stored_values = section.u32()? as usize;
        let decoded_bytes = section.u32()? as usize;
        let payload_bytes = section.u32()? as usize;
        // Check the header before any of its numbers is used.
        let layout = ListLayout::ALL.get(usize::from(tag)).copied();
        let (Some(layout), true, [0, 0]) = (layout, group_log2 <= GROUP_LOG2_MAX, reserved) else {
            return Err(Error::corrupt(format!("a value list has layout {tag} and groups of 2^{group_log2} values")));
        };
        if stored_values != values || values > super::VALUES_MAX {
            return Err(Error::corrupt(format!("a list has {stored_values} values instead of {values}")));
        }
        // A code gives at most 8 bytes and a value shares at most 255. So a damaged header cannot claim much more than
        // the payload can decode to.
        let expansion_max = payload_bytes * fsst::SYMBOL_BYTES_MAX + values * front::SHARED_BYTES_MAX;
        if decoded_bytes > LIST_BYTES_MAX.min(expansion_max) {
            return Err(Error::corrupt(format!("{decoded_bytes} bytes of values from {payload_bytes} stored bytes")));
        }
        let payload = section.bytes(payload_bytes)?;
        // The parts are read in the order in which the writer stored them.
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
        // The last group must end with the payload, and nothing may follow the group ends.
        let (last, rest) = (list.group_start(list.groups()), section.rest().len());
        match last == payload_bytes && rest == 0 {
            true => Ok(list),
            false => {
                Err(Error::corrupt(format!("groups of {last} bytes, a payload of {payload_bytes}, {rest} extra bytes")))
            }
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.values
    }

    /// Whether the list has no values.
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// The form of the bytes.
    pub fn layout(&self) -> ListLayout {
        self.layout
    }

    /// The number of bytes of all decoded values, according to the header. Callers can reserve memory before decoding.
    pub(crate) fn decoded_bytes(&self) -> usize {
        self.decoded_bytes
    }

    /// The memory that [`StringList::decode`] and its array of views will take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        const OFFSET_AND_VIEW_BYTES: usize = 4 + 16;
        self.likely_bytes(self.values) + self.values * OFFSET_AND_VIEW_BYTES
    }

    /// The number of stored bytes of the values themselves.
    pub(super) fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// The number of values of a group.
    pub(super) fn group_values(&self) -> usize {
        1 << self.group_log2
    }

    /// The number of groups. Each can be decoded alone.
    pub fn groups(&self) -> usize {
        self.group_ends.len() / 4
    }

    /// The set of all groups.
    pub(crate) fn all_groups(&self) -> TextGroups {
        TextGroups::all(self.groups())
    }

    /// Keeps only those of `values` that are in some groups.
    pub(crate) fn retain_in(&self, groups: &TextGroups, values: &mut Vec<u32>) {
        values.retain(|value| groups.has(*value as usize >> self.group_log2));
    }

    /// The number of values of some groups.
    pub fn values_in(&self, groups: &TextGroups) -> usize {
        (groups.len() * self.group_values()).min(self.values)
    }

    /// The offset of a group in the payload. For the number of groups, returns the end of the last group.
    pub(super) fn group_start(&self, group: usize) -> usize {
        if group == 0 { 0 } else { u32_at(self.group_ends, group - 1) as usize }
    }

    /// The stored bytes of some groups' values.
    pub(super) fn payload_of(&self, groups: Range<usize>) -> Result<&'a [u8]> {
        let bytes = self.group_start(groups.start)..self.group_start(groups.end);
        self.payload
            .get(bytes.clone())
            .ok_or_else(|| Error::corrupt(format!("value groups are outside of the payload, at bytes {bytes:?}")))
    }

    /// The values of `groups`.
    pub(super) fn values_of(&self, groups: Range<usize>) -> Range<usize> {
        (groups.start << self.group_log2).min(self.values)..(groups.end << self.group_log2).min(self.values)
    }
}
