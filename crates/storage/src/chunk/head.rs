//! The head of a chunk: the facts about its rows, the offsets of its sections, and the checksums of the whole chunk.
//!
//! ```text
//!   0  magic "RWCH"                 4      48  bytes after the head          8
//!   4  format version               2      56  bytes of the rest of the head 4
//!   6  encoding                     1      60  CRC-32 of that rest           4
//!   7  physical type                1      64  sections                      2
//!   8  rows                         4      66  zone flags                    1
//!  12  NULL rows                    4      67  bytes of the least value      1
//!  16  distinct values, or 2^32-1   4      68  bytes of the greatest value   1
//!  20  the common code              4      69  decimal digits                1
//!  24  base                        16      70  zero                          2
//!  40  factor                       8      72  owner of the chunk            4
//!                                          76  CRC-32 of bytes 0 to 75       4
//!  80  rest: least value, greatest value, zeros to a multiple of 8; per section its kind (1), zero (3), number of
//!      values (4), offset in the chunk (8), bytes (8); per 64 KiB of bytes after the head a CRC-32 (4); zeros to a
//!      multiple of 8
//! ```
//!
//! The two checksums of the head must have fixed offsets: otherwise a damaged length could point to a checksum that
//! happens to fit. Exactly one of the three kinds of checksums covers each byte of the chunk, including the gaps
//! between sections.

use std::ops::Range;

use rowmill_base::{Error, Result};

use super::ROWS_MAX;
use super::bytes::ChunkBytes;
use super::kinds::Physical;
use crate::encoding::{ENCODINGS, EncodingRef, encoding_of, newest_since};
use crate::sequence::Word;

const MAGIC: [u8; 4] = *b"RWCH";
/// The version of the chunks that we write, unless their encoding is newer.
const VERSION: u16 = 2;
/// Chunks of version 1 have no grams.
const OLDEST_VERSION: u16 = 1;

/// The size in bytes of the part of the head that every chunk has.
pub(super) const FIXED_BYTES: usize = 80;
/// The size in bytes of a section's entry in the head.
const ENTRY_BYTES: usize = 24;
/// The number of bytes that one checksum covers.
pub(super) const PIECE_BYTES: usize = 64 << 10;

const _: () = assert!(FIXED_BYTES == 4 + 2 + 1 + 1 + 4 * 4 + 16 + 8 + 8 + 4 + 4 + 2 + 1 + 2 + 1 + 2 + 4 + 4);
const _: () = assert!(ENTRY_BYTES == 1 + 3 + 4 + 8 + 8);

/// The offset of the owner's checksum.
const OWNER_AT: usize = 72;

const DISTINCT_UNKNOWN: u32 = u32::MAX;
const ZONE: u8 = 1;
const ZONE_MAX: u8 = 2;
const MIN_EXACT: u8 = 4;
const MAX_EXACT: u8 = 8;

macro_rules! sections {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The content of a section.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum SectionKind { $($(#[$doc])* $name = $number,)* }

        impl SectionKind {
            fn from_number(number: u8) -> Option<SectionKind> {
                match number { $($number => Some(SectionKind::$name),)* _ => None }
            }
        }
    };
}

sections! {
    /// The distinct values in ascending order: integers, or a list of strings.
    Values = 1,
    /// Rows of each distinct value.
    Counts = 2,
    /// A code per row.
    Codes = 3,
    /// For each run, the row after its last one.
    RunEnds = 4,
    /// The first row of each run, where the rows between runs are stored elsewhere.
    RunStarts = 5,
    /// Rows of each run.
    RunLengths = 6,
    /// The code of each run.
    RunCodes = 7,
    /// Rows that belong to no listed run.
    SingleRows = 8,
    /// The code of each single row.
    SingleCodes = 9,
    /// The value of each row: integers or strings.
    Rows = 10,
    /// Which rows are not NULL, as bits.
    ValidBits = 11,
    /// Ends of runs of rows, alternating between rows that are not NULL and rows that are.
    ValidRuns = 12,
    /// Rows whose value is not a decimal.
    ExceptionRows = 13,
    /// The values of the exception rows.
    ExceptionValues = 14,
    /// A chunk: a field of a struct, or items of a list.
    Inner = 15,
    /// For each row, the number of items up to the end of its own.
    ListEnds = 16,
    /// For each gram, the groups of the value list that contain it.
    Grams = 17,
    /// The paths of the parts of documents.
    Paths = 18,
}

/// The location of a section.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) kind: SectionKind,
    /// The number of values in the section.
    pub(crate) count: u32,
    /// The offset from the start of the chunk.
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

/// A stored bound of the values: the bytes of a value, or the first bytes of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredBound {
    pub(super) bytes: Vec<u8>,
    pub(super) exact: bool,
}

/// The bounds of the values. The upper bound is missing if the greatest string was cut and cannot be rounded up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredZone {
    pub(super) min: StoredBound,
    pub(super) max: Option<StoredBound>,
}

/// The facts in the head, without the locations of the sections.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) encoding: EncodingRef,
    pub(crate) physical: Physical,
    pub(crate) rows: usize,
    pub(crate) null_count: usize,
    pub(crate) distinct: Option<usize>,
    /// The code of all rows that are in no list.
    pub(crate) common: u32,
    /// A stored integer `v` means `base + factor * v`.
    pub(crate) base: u128,
    pub(crate) factor: u64,
    /// Decimal digits after the point.
    pub(crate) digits: u8,
    pub(crate) zone: Option<StoredZone>,
}

impl Facts {
    /// The facts that are known before an encoding is chosen.
    pub(crate) fn new(physical: Physical, rows: usize, null_count: usize) -> Facts {
        Facts {
            // The choice of an encoding replaces this one.
            encoding: ENCODINGS[0],
            physical,
            rows,
            null_count,
            distinct: None,
            common: 0,
            base: 0,
            factor: 1,
            digits: 0,
            zone: None,
        }
    }
}

/// A parsed head.
#[derive(Clone, Debug)]
pub(crate) struct ParsedHead {
    pub(crate) facts: Facts,
    pub(crate) sections: Vec<Section>,
    /// The bytes that the piece checksums cover.
    pub(crate) body: Range<usize>,
    /// The checksum of the ids of the owning table, column and block; 0 if the chunk names no owner.
    pub(crate) owner: u32,
    /// The location of the piece checksums.
    checksums: Range<usize>,
}

/// A section to be written.
pub(crate) struct NewSection {
    pub(crate) kind: SectionKind,
    pub(crate) count: usize,
    pub(crate) bytes: Vec<u8>,
}

const fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}

/// Builds a whole chunk from its facts and sections.
pub(crate) fn assemble(facts: &Facts, sections: Vec<NewSection>) -> Vec<u8> {
    // All sizes must be known first, because the directory has the final offsets.
    let body_bytes: usize = sections.iter().map(|section| padded(section.bytes.len())).sum();
    let bounds = facts.zone.as_ref().map_or(&[][..], |zone| &zone.min.bytes);
    let upper = facts.zone.as_ref().and_then(|zone| zone.max.as_ref()).map_or(&[][..], |bound| &bound.bytes);
    let pieces = body_bytes.div_ceil(PIECE_BYTES);
    let directory_bytes = sections.len() * ENTRY_BYTES;
    let rest_bytes = padded(padded(bounds.len() + upper.len()) + directory_bytes + 4 * pieces);

    let mut out = Vec::with_capacity(FIXED_BYTES + rest_bytes + body_bytes);
    out.resize(FIXED_BYTES, 0);
    out.extend_from_slice(bounds);
    out.extend_from_slice(upper);
    out.resize(padded(out.len()), 0);
    let mut offset = FIXED_BYTES + rest_bytes;
    for section in &sections {
        let mut entry = [0; ENTRY_BYTES];
        entry[0] = section.kind as u8;
        (section.count as u32).write(&mut entry[4..]);
        (offset as u64).write(&mut entry[8..]);
        (section.bytes.len() as u64).write(&mut entry[16..]);
        out.extend_from_slice(&entry);
        offset += padded(section.bytes.len());
    }
    // The checksums come before the bytes that they cover, so we leave room for them and fill it in at the end.
    let checksums = out.len();
    out.resize(FIXED_BYTES + rest_bytes, 0);
    let section_count = sections.len();
    for section in sections {
        out.extend_from_slice(&section.bytes);
        out.resize(padded(out.len()), 0);
    }
    let (head, body) = out.split_at_mut(FIXED_BYTES + rest_bytes);
    for (checksum, piece) in head[checksums..].chunks_exact_mut(4).zip(body.chunks(PIECE_BYTES)) {
        crc32fast::hash(piece).write(checksum);
    }
    // The fixed part must be last, because it has the checksum of the rest of the head.
    write_fixed(head, facts, body_bytes, section_count);
    out
}

fn write_fixed(head: &mut [u8], facts: &Facts, body_bytes: usize, sections: usize) {
    let (fixed, rest) = head.split_at_mut(FIXED_BYTES);
    fixed[..4].copy_from_slice(&MAGIC);
    VERSION.max(facts.encoding.since()).write(&mut fixed[4..]);
    fixed[6] = facts.encoding.number();
    fixed[7] = facts.physical as u8;
    (facts.rows as u32).write(&mut fixed[8..]);
    (facts.null_count as u32).write(&mut fixed[12..]);
    facts.distinct.map_or(DISTINCT_UNKNOWN, |distinct| distinct as u32).write(&mut fixed[16..]);
    facts.common.write(&mut fixed[20..]);
    facts.base.write(&mut fixed[24..]);
    facts.factor.write(&mut fixed[40..]);
    (body_bytes as u64).write(&mut fixed[48..]);
    (rest.len() as u32).write(&mut fixed[56..]);
    crc32fast::hash(rest).write(&mut fixed[60..]);
    (sections as u16).write(&mut fixed[64..]);
    if let Some(zone) = &facts.zone {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let max_exact = zone.max.as_ref().is_some_and(|bound| bound.exact);
        fixed[66] =
            ZONE | flag(zone.max.is_some(), ZONE_MAX) | flag(zone.min.exact, MIN_EXACT) | flag(max_exact, MAX_EXACT);
        fixed[67] = zone.min.bytes.len() as u8;
        fixed[68] = zone.max.as_ref().map_or(0, |bound| bound.bytes.len() as u8);
    }
    fixed[69] = facts.digits;
    seal(fixed);
}

/// Writes the checksum of the fixed part. Every change to the fixed part must be followed by this.
fn seal(fixed: &mut [u8]) {
    let checksum = crc32fast::hash(&fixed[..FIXED_BYTES - 4]);
    checksum.write(&mut fixed[FIXED_BYTES - 4..]);
}

/// Writes the checksum of the owner's ids into a whole chunk.
pub(crate) fn set_owner(chunk: &mut [u8], owner: u32) {
    let fixed = &mut chunk[..FIXED_BYTES];
    owner.write(&mut fixed[OWNER_AT..]);
    seal(fixed);
}

fn damaged(at: usize, what: &str) -> Error {
    Error::corrupt(format!("byte {at} of the chunk: {what}"))
}

/// Hands out the parts of the rest of the head, one after another.
struct HeadReader<'a> {
    rest: &'a [u8],
    taken: usize,
}

impl<'a> HeadReader<'a> {
    fn next(&mut self, len: usize) -> Result<&'a [u8]> {
        let part = self.rest.get(self.taken..).and_then(|rest| rest.get(..len));
        self.taken += len;
        part.ok_or_else(|| damaged(FIXED_BYTES, "the head is shorter than the parts that it declares"))
    }
}

impl ParsedHead {
    /// Reads and checks the head. Does not touch the bytes after it.
    pub(super) fn parse(bytes: &ChunkBytes) -> Result<ParsedHead> {
        let fixed = bytes.fetch(0..FIXED_BYTES)?;
        if fixed[..4] != MAGIC {
            return Err(damaged(0, "this is not the start of a chunk"));
        }
        // We verify the checksum before we use any length in the head. The version comes after it, because a newer
        // format must keep this checksum where it is.
        if u32::read(&fixed[FIXED_BYTES - 4..]) != crc32fast::hash(&fixed[..FIXED_BYTES - 4]) {
            return Err(damaged(0, "the checksum of the head does not fit"));
        }
        let version = u16::read(&fixed[4..]);
        let newest = VERSION.max(newest_since());
        if !(OLDEST_VERSION..=newest).contains(&version) {
            let message = format!("a chunk of format version {version}; this program reads versions up to {newest}");
            return Err(Error::newer_format(message));
        }
        let rest_bytes = u32::read(&fixed[56..]) as usize;
        let body = FIXED_BYTES + rest_bytes;
        let rest = bytes.fetch(FIXED_BYTES..body)?;
        if u32::read(&fixed[60..]) != crc32fast::hash(rest) {
            return Err(damaged(FIXED_BYTES, "the checksum of the head's second part does not fit"));
        }
        // Nothing after the head may be read beyond the extent, so the length of the body is checked here.
        let body_end = usize::try_from(u64::read(&fixed[48..])).ok().and_then(|len| body.checked_add(len));
        let body_end = body_end.filter(|end| *end <= bytes.len());
        let body = body..body_end.ok_or_else(|| damaged(48, "the chunk is longer than its extent"))?;

        let mut parts = HeadReader { rest, taken: 0 };
        let zone = parse_zone(fixed, &mut parts)?;
        let facts = parse_facts(fixed, zone)?;
        let mut sections = Vec::new();
        for _ in 0..u16::read(&fixed[64..]) {
            sections.push(parse_section(parts.next(ENTRY_BYTES)?, &body)?);
        }
        let checksums = FIXED_BYTES + parts.taken;
        let checksums = checksums..checksums + 4 * body.len().div_ceil(PIECE_BYTES);
        if checksums.end > body.start {
            return Err(damaged(FIXED_BYTES, "the head is shorter than its checksums"));
        }
        Ok(ParsedHead { facts, sections, body, owner: u32::read(&fixed[OWNER_AT..]), checksums })
    }

    /// Compares every byte after the head with its checksum, and checks that the padding after the chunk is zero.
    pub(super) fn verify(&self, bytes: &ChunkBytes) -> Result<()> {
        let all = bytes.fetch(0..bytes.len())?;
        let checksums = all[self.checksums.clone()].chunks_exact(4);
        // `parse` checked that there is a checksum for each piece, so `zip` drops none.
        for (index, (checksum, piece)) in checksums.zip(all[self.body.clone()].chunks(PIECE_BYTES)).enumerate() {
            if u32::read(checksum) != crc32fast::hash(piece) {
                let at = self.body.start + index * PIECE_BYTES;
                let end = at + piece.len();
                return Err(damaged(at, &format!("the checksum of the bytes up to {end} does not fit")));
            }
        }
        // The padding has no checksum, so it must be zero. Otherwise damage there would go unnoticed.
        match all[self.body.end..].iter().position(|byte| *byte != 0) {
            Some(index) => Err(damaged(self.body.end + index, "the padding after the chunk is not zero")),
            None => Ok(()),
        }
    }

    /// The section of a kind. Returns an error if the chunk has none.
    pub(crate) fn section(&self, kind: SectionKind) -> Result<&Section> {
        self.find(kind).ok_or_else(|| damaged(64, &format!("the chunk has no section {kind:?}")))
    }

    /// The section of a kind, if the chunk has one.
    pub(crate) fn find(&self, kind: SectionKind) -> Option<&Section> {
        self.sections.iter().find(|section| section.kind == kind)
    }
}

fn parse_facts(fixed: &[u8], zone: Option<StoredZone>) -> Result<Facts> {
    let version = u16::read(&fixed[4..]);
    let encoding = encoding_of(fixed[6]).filter(|encoding| encoding.since() <= version);
    let encoding = encoding.ok_or_else(|| damaged(6, "unknown encoding"))?;
    let physical = Physical::from_number(fixed[7]).ok_or_else(|| damaged(7, "unknown type"))?;
    let rows = u32::read(&fixed[8..]) as usize;
    let null_count = u32::read(&fixed[12..]) as usize;
    let distinct = u32::read(&fixed[16..]);
    let distinct = (distinct != DISTINCT_UNKNOWN).then_some(distinct as usize);
    // Readers allocate by these counts, so they must agree with each other before any reader sees them.
    let fits = rows <= ROWS_MAX
        && null_count <= rows
        && distinct.is_none_or(|distinct| distinct <= rows - null_count && (distinct == 0) == (null_count == rows));
    let facts = Facts {
        encoding,
        physical,
        rows,
        null_count,
        distinct,
        common: u32::read(&fixed[20..]),
        base: u128::read(&fixed[24..]),
        factor: u64::read(&fixed[40..]),
        digits: fixed[69],
        zone,
    };
    match fits && encoding.fits(&facts) {
        true => Ok(facts),
        false => Err(damaged(8, "the numbers of rows, NULLs and distinct values contradict each other")),
    }
}

fn parse_zone(fixed: &[u8], parts: &mut HeadReader<'_>) -> Result<Option<StoredZone>> {
    let flags = fixed[66];
    let (min, max) = (usize::from(fixed[67]), usize::from(fixed[68]));
    let bytes = parts.next(padded(min + max))?;
    let bound = |bytes: &[u8], exact: u8| StoredBound { bytes: bytes.to_vec(), exact: flags & exact != 0 };
    Ok((flags & ZONE != 0).then(|| StoredZone {
        min: bound(&bytes[..min], MIN_EXACT),
        max: (flags & ZONE_MAX != 0).then(|| bound(&bytes[min..min + max], MAX_EXACT)),
    }))
}

fn parse_section(entry: &[u8], body: &Range<usize>) -> Result<Section> {
    let kind = SectionKind::from_number(entry[0]).ok_or_else(|| damaged(FIXED_BYTES, "unknown section"))?;
    let count = u32::read(&entry[4..]);
    let (offset, len) = (u64::read(&entry[8..]), u64::read(&entry[16..]));
    // Readers slice by these numbers without another check.
    let inside = offset >= body.start as u64 && offset.checked_add(len).is_some_and(|end| end <= body.end as u64);
    if count as usize > ROWS_MAX {
        return Err(damaged(FIXED_BYTES, &format!("the section {kind:?} has {count} values")));
    }
    match inside {
        true => Ok(Section { kind, count, offset: offset as usize, len: len as usize }),
        false => Err(damaged(FIXED_BYTES, &format!("the section {kind:?} is outside of the chunk"))),
    }
}
