//! The record formats of entries and versions.
//!
//! ```text
//! entry    | commit of its newest version: u64 | place of that: u32 | bytes of the key: u32          | key |
//! version  | commit: u64                       | place of the older: u32 | bytes of the row, or DELETED: u32 | row |
//! ```
//!
//! Records that were taken over from a transaction have the commit of their chunk if that is later ([`Arena::at`]).
//! Numbers have the byte order of the processor, because records never leave memory.

use std::hint::black_box;

use rowmill_base::CommitId;

use super::arena::{Arena, ArenaOffset};

const HEAD_BYTES: usize = 16;
/// The length field of a version that deletes the key.
const DELETED: u32 = u32::MAX;

/// The head of an entry or a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryHead {
    pub(super) commit: CommitId,
    /// For an entry, its newest version. For a version, the next older one.
    pub(super) next: ArenaOffset,
    len: u32,
}

impl EntryHead {
    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.commit.0.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.next.0.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.len.to_ne_bytes());
        bytes
    }

    /// Parses the head of a record. `least` is the earliest commit of its chunk.
    #[inline]
    fn of((record, least): (&[u8], CommitId)) -> EntryHead {
        let head: &[u8; HEAD_BYTES] = record.first_chunk().expect("a record has a head");
        let half = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        EntryHead {
            commit: CommitId(u64::from_ne_bytes(*head.first_chunk().expect("16 bytes"))).max(least),
            next: ArenaOffset(half(8)),
            len: half(12),
        }
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.len == DELETED
    }

    /// The bytes of the key or the row.
    fn body_bytes(&self) -> usize {
        if self.is_deleted() { 0 } else { self.len as usize }
    }

    /// The bytes of the whole record.
    pub(super) fn record_bytes(&self) -> usize {
        HEAD_BYTES + self.body_bytes()
    }
}

/// Reads the head of the record at `place`.
#[inline]
pub(super) fn head(arena: &Arena, place: ArenaOffset) -> EntryHead {
    EntryHead::of(arena.at(place))
}

/// Reads the head of the record at `place`, and the key or row after it.
#[inline]
pub(super) fn record(arena: &Arena, place: ArenaOffset) -> (EntryHead, &[u8]) {
    let found = arena.at(place);
    let (head, bytes) = (EntryHead::of(found), found.0);
    (head, &bytes[HEAD_BYTES..HEAD_BYTES + head.body_bytes()])
}

/// The key of the entry at `place`.
#[inline]
pub(super) fn key_of(records: &Arena, place: ArenaOffset) -> &[u8] {
    record(records, place).1
}

/// Loads entries and their newest versions into the cache before the caller reads them one by one. These loads do not
/// depend on each other, so together they take about as long as one.
pub(super) fn touch(records: &Arena, entries: &[ArenaOffset]) {
    for newest in entries.iter().map(|entry| head(records, *entry).next).filter(|newest| *newest != ArenaOffset::NONE) {
        black_box(head(records, newest).commit);
    }
}

/// The length of an entry's record in bytes.
pub(super) fn entry_bytes(key: &[u8]) -> usize {
    HEAD_BYTES + key.len()
}

/// The length of a version's record in bytes.
pub(super) fn version_bytes(row: Option<&[u8]>) -> usize {
    HEAD_BYTES + row.map_or(0, <[u8]>::len)
}

/// Adds an entry and returns its place.
pub(super) fn push_entry(records: &mut Arena, key: &[u8], commit: CommitId, newest: ArenaOffset) -> ArenaOffset {
    let len = u32::try_from(key.len()).expect("keys are shorter than 4 GiB");
    records.push(&EntryHead { commit, next: newest, len }.to_bytes(), key)
}

/// Adds a version and returns its place. A `row` of `None` is a deletion.
pub(super) fn push_version(
    records: &mut Arena,
    row: Option<&[u8]>,
    commit: CommitId,
    older: ArenaOffset,
) -> ArenaOffset {
    let len = row.map_or(DELETED, |row| {
        // The largest length marks a deletion, so no row may have it.
        let len = u32::try_from(row.len()).ok().filter(|len| *len != DELETED);
        len.expect("rows are shorter than 4 GiB")
    });
    records.push(&EntryHead { commit, next: older, len }.to_bytes(), row.unwrap_or_default())
}

/// Sets the link of the record at `place`: an entry's newest version, or a version's older one.
pub(super) fn set_next(arena: &mut Arena, place: ArenaOffset, next: ArenaOffset) {
    arena.bytes_at_mut(place)[8..12].copy_from_slice(&next.0.to_ne_bytes());
}

/// Moves a record and returns its new place.
pub(super) fn move_record(arena: &mut Arena, place: ArenaOffset) -> ArenaOffset {
    let head = head(arena, place);
    let moved = arena.move_record(place, head.record_bytes());
    // The record leaves the chunk that gave it its commit, so the commit must be written into the record.
    set_commit(arena, moved, head.commit);
    moved
}

fn set_commit(arena: &mut Arena, place: ArenaOffset, commit: CommitId) {
    arena.bytes_at_mut(place)[..8].copy_from_slice(&commit.0.to_ne_bytes());
}

/// Sets the newest version of an entry and its commit.
pub(super) fn set_newest(records: &mut Arena, entry: ArenaOffset, commit: CommitId, newest: ArenaOffset) {
    set_commit(records, entry, commit);
    set_next(records, entry, newest);
}
