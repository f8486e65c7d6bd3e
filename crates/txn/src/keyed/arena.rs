//! Records in chunks of memory, or of a file that it overflows to. They are allocated one after the other and freed
//! chunk by chunk.
//!
//! Records of one commit are stored side by side, and the oldest records are usually freed first. So a chunk only
//! counts how many of its bytes are in use, and is freed with the last of them. If a few records keep a chunk that is
//! mostly unused, the owner moves them when it visits them ([`Arena::is_sparse`]). We need no free lists, and hold no
//! memory for record sizes that do not come again.

use allocator_api2::vec::Vec as PieceVec;
use rowmill_base::CommitId;
use rowmill_io::OverflowMemory;

/// The bytes of a chunk. A longer record gets a chunk of its own, which takes several consecutive numbers. On average
/// half of the last chunk of an index is unused, 32 KiB.
const CHUNK_BYTES: usize = 64 << 10;
/// The bytes of an arena's first chunk. It is small, because each index has an arena and most have few recent rows.
const FIRST_CHUNK_BYTES: usize = 4 << 10;
/// Records begin at multiples of this number of bytes.
const UNIT_BYTES: usize = 8;
const UNITS_PER_CHUNK: usize = CHUNK_BYTES / UNIT_BYTES;
/// The most chunks that a place can address: 32 GiB.
const CHUNKS_MAX: usize = (u32::MAX as usize + 1) / UNITS_PER_CHUNK;

const FULL: &str = "the recent rows of an index must not exceed 32 GiB";

/// The place of a record: the number of its chunk, and its unit in the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArenaOffset(pub(super) u32);

impl ArenaOffset {
    /// No record. Chunk 0 has none.
    pub(super) const NONE: ArenaOffset = ArenaOffset(0);

    /// The place at byte `at` of chunk `number`.
    fn of(number: usize, at: usize) -> ArenaOffset {
        ArenaOffset((number * UNITS_PER_CHUNK + at / UNIT_BYTES) as u32)
    }

    /// The place of the next record in the same chunk, if this one has `record_bytes` bytes.
    pub(super) fn behind(self, record_bytes: usize) -> ArenaOffset {
        ArenaOffset(self.0 + (whole_units(record_bytes) / UNIT_BYTES) as u32)
    }

    fn chunk(self) -> usize {
        self.0 as usize / UNITS_PER_CHUNK
    }

    fn at(self) -> usize {
        self.0 as usize % UNITS_PER_CHUNK * UNIT_BYTES
    }
}

#[derive(Debug)]
struct ArenaChunk {
    /// All bytes that the chunk may have, zeros at first. So adding a record needs only one check for room, and
    /// allocating the chunk brings its memory close to the processor.
    bytes: PieceVec<u8, OverflowMemory>,
    /// The length of the written part.
    len: usize,
    /// The bytes of records that are not freed.
    used: usize,
    /// The number of consecutive chunk numbers that it takes.
    numbers: usize,
    /// The earliest commit of its records. Records taken over from a transaction belong to this commit, whatever they
    /// say.
    least: CommitId,
}

/// Records in chunks of memory. A clone takes no more memory than its records need.
#[derive(Debug)]
pub(super) struct Arena {
    /// The chunks by number. Chunk 0 is never used.
    chunks: Vec<ArenaChunk>,
    /// The numbers of freed chunks.
    free: Vec<usize>,
    /// The number of the chunk that is written to; 0 if there is none.
    current: usize,
    allocated_bytes: usize,
    /// Where new chunks come from. Chunks of another arena keep their own memory.
    memory: OverflowMemory,
}

impl Clone for ArenaChunk {
    fn clone(&self) -> ArenaChunk {
        let mut bytes = PieceVec::with_capacity_in(self.len, self.bytes.allocator().clone());
        bytes.extend_from_slice(&self.bytes[..self.len]);
        ArenaChunk { bytes, ..*self }
    }
}

impl Clone for Arena {
    fn clone(&self) -> Arena {
        let chunks = self.chunks.clone();
        let allocated_bytes = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        let memory = self.memory.clone();
        Arena { chunks, free: self.free.clone(), current: self.current, allocated_bytes, memory }
    }
}

impl Default for ArenaChunk {
    /// A number without a chunk.
    fn default() -> ArenaChunk {
        let bytes = PieceVec::new_in(OverflowMemory::default());
        ArenaChunk { bytes, len: 0, used: 0, numbers: 0, least: CommitId(0) }
    }
}

impl ArenaChunk {
    /// Takes the next `record_bytes` bytes. Returns where they begin, and the bytes.
    #[inline]
    fn extend(&mut self, record_bytes: usize) -> (usize, &mut [u8]) {
        let at = self.len;
        self.len += record_bytes;
        self.used += record_bytes;
        (at, &mut self.bytes[at..self.len])
    }
}

fn whole_units(bytes: usize) -> usize {
    bytes.next_multiple_of(UNIT_BYTES)
}

impl Arena {
    pub(super) fn new(memory: OverflowMemory) -> Self {
        Arena { chunks: vec![ArenaChunk::default()], free: Vec::new(), current: 0, allocated_bytes: 0, memory }
    }

    /// Whether the arena never had a record.
    pub(super) fn is_unused(&self) -> bool {
        self.chunks.len() == 1
    }

    /// Bytes taken from the allocator, also those in a file.
    pub(super) fn allocated_bytes(&self) -> usize {
        let numbers = self.chunks.capacity() * size_of::<ArenaChunk>() + self.free.capacity() * size_of::<usize>();
        self.allocated_bytes + numbers
    }

    /// Removes all records, but keeps the current chunk.
    pub(super) fn clear(&mut self) {
        // Keep the current chunk for its memory. It becomes chunk 1.
        let mut kept = std::mem::take(&mut self.chunks[self.current]);
        (kept.used, kept.len, self.current) = (0, 0, 0);
        self.allocated_bytes = kept.bytes.len();
        self.free.clear();
        self.chunks.truncate(1);
        if self.allocated_bytes > 0 {
            self.chunks.push(kept);
            self.current = 1;
        }
    }

    /// Adds a record with `head` and `body`, and returns its place.
    #[inline]
    pub(super) fn push<const N: usize>(&mut self, head: &[u8; N], body: &[u8]) -> ArenaOffset {
        let record_bytes = whole_units(head.len() + body.len());
        let number = self.chunk_with_room(record_bytes);
        let (at, record) = self.chunks[number].extend(record_bytes);
        let (own_head, rest) = record.split_at_mut(head.len());
        own_head.copy_from_slice(head);
        rest[..body.len()].copy_from_slice(body);
        ArenaOffset::of(number, at)
    }

    /// The bytes from `place` to the end of its chunk, and the earliest commit of the chunk. The head of the record
    /// tells where the record ends.
    #[inline]
    pub(super) fn at(&self, place: ArenaOffset) -> (&[u8], CommitId) {
        let chunk = &self.chunks[place.chunk()];
        (&chunk.bytes[place.at()..], chunk.least)
    }

    /// The mutable bytes from `place` to the end of its chunk.
    #[inline]
    pub(super) fn bytes_at_mut(&mut self, place: ArenaOffset) -> &mut [u8] {
        &mut self.chunks[place.chunk()].bytes[place.at()..]
    }

    /// Frees a record of `bytes` bytes. Returns whether its memory can be reused before its chunk is freed.
    pub(super) fn free(&mut self, place: ArenaOffset, bytes: usize) -> bool {
        let bytes = whole_units(bytes);
        let number = place.chunk();
        let chunk = &mut self.chunks[number];
        chunk.used -= bytes;
        let is_last = place.at() + bytes == chunk.len;
        // The last record of a chunk can be cut off. Any other leaves a gap until the whole chunk is unused.
        if chunk.used > 0 {
            chunk.len -= if is_last { bytes } else { 0 };
            return is_last;
        }
        if number == self.current {
            chunk.len = 0;
            return true;
        }
        let chunk = std::mem::take(chunk);
        self.allocated_bytes -= chunk.bytes.len();
        self.free.extend((number..number + chunk.numbers).rev());
        true
    }

    /// Whether less than half of the record's chunk is in use, so that the record should be moved out of it.
    pub(super) fn is_sparse(&self, place: ArenaOffset) -> bool {
        let chunk = &self.chunks[place.chunk()];
        place.chunk() != self.current && chunk.numbers == 1 && chunk.used * 2 < chunk.bytes.len()
    }

    /// Moves a record of `bytes` bytes to the current chunk, and returns its new place.
    pub(super) fn move_record(&mut self, place: ArenaOffset, bytes: usize) -> ArenaOffset {
        let number = self.chunk_with_room(whole_units(bytes));
        let [from, to] = self
            .chunks
            .get_disjoint_mut([place.chunk(), number])
            .expect("a record must not be moved within the current chunk");
        let (at, record) = to.extend(whole_units(bytes));
        record.copy_from_slice(&from.bytes[place.at()..][..record.len()]);
        self.free(place, bytes);
        ArenaOffset::of(number, at)
    }

    /// Whether there are enough places to append records that end at `end`. We leave room for as many places again,
    /// because appended chunks always take new numbers, while the numbers of freed chunks are reused only one by one.
    pub(super) fn has_room_for(&self, end: u32) -> bool {
        u64::from(self.end()) + u64::from(end) <= u64::from(u32::MAX / 2)
    }

    /// Whether there are enough places to copy records that end at `end`. Copies may leave gaps at the ends of chunks.
    pub(super) fn has_room_to_copy(&self, end: u32) -> bool {
        u64::from(self.end()) + 2 * u64::from(end) <= u64::from(u32::MAX)
    }

    /// Where appended records begin: their places must be shifted by this number.
    pub(super) fn end(&self) -> u32 {
        ((self.chunks.len() - 1) * UNITS_PER_CHUNK) as u32
    }

    /// Adds all records of `other` without a copy, and assigns them to `commit`. Their places must count from
    /// [`Arena::end`].
    pub(super) fn append(&mut self, mut other: Arena, commit: CommitId) {
        let before = self.chunks.len() - 1;
        assert!(before + other.chunks.len() <= CHUNKS_MAX, "{FULL}");
        let mut appended = 0;
        for chunk in &mut other.chunks {
            chunk.least = commit;
            appended += chunk.bytes.len();
        }
        // The appended chunks never become the current one, because a later record in them would belong to `commit`
        // too.
        self.chunks.extend(other.chunks.drain(1..));
        self.free.extend(other.free.iter().map(|number| number + before));
        self.allocated_bytes += appended;
    }

    /// The number of a chunk with room for a record of `bytes` bytes.
    #[inline]
    fn chunk_with_room(&mut self, bytes: usize) -> usize {
        let current = &self.chunks[self.current];
        match current.bytes.len() - current.len >= bytes {
            true => self.current,
            false => self.another_chunk(bytes),
        }
    }

    #[cold]
    fn another_chunk(&mut self, bytes: usize) -> usize {
        if bytes > CHUNK_BYTES / 4 {
            // Give it a chunk of its own, so that the rest of the current chunk is not lost.
            return self.add_chunk(bytes);
        }
        let is_first = self.chunks.len() == 1 && bytes <= FIRST_CHUNK_BYTES;
        self.current = self.add_chunk(if is_first { FIRST_CHUNK_BYTES } else { CHUNK_BYTES });
        self.current
    }

    fn add_chunk(&mut self, bytes: usize) -> usize {
        let numbers = bytes.div_ceil(CHUNK_BYTES);
        let mut zeros = PieceVec::with_capacity_in(bytes, self.memory.clone());
        zeros.resize(bytes, 0);
        let chunk = ArenaChunk { bytes: zeros, len: 0, used: 0, numbers, least: CommitId(0) };
        self.allocated_bytes += bytes;
        // A record with several numbers needs consecutive ones, so only a single number can be reused.
        match self.free.pop_if(|_| numbers == 1) {
            Some(number) => {
                self.chunks[number] = chunk;
                number
            }
            None => {
                let number = self.chunks.len();
                assert!(number + numbers <= CHUNKS_MAX, "{FULL}");
                self.chunks.push(chunk);
                self.chunks.resize_with(number + numbers, ArenaChunk::default);
                number
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_freed_with_its_last_record() {
        let mut arena = Arena::new(OverflowMemory::default());
        let records: Vec<_> = (0..5000_u32).map(|i| arena.push(&i.to_le_bytes(), &[7; 100])).collect();
        let full = arena.allocated_bytes();
        assert!(full >= 5000 * 104);
        for (i, place) in (0_u32..).zip(&records) {
            assert_eq!(arena.at(*place).0[..4], i.to_le_bytes());
            assert_eq!(arena.at(*place).0[4..104], [7; 100]);
        }
        for place in &records {
            arena.free(*place, 104);
        }
        assert!(arena.allocated_bytes() < 2 * CHUNK_BYTES, "{}", arena.allocated_bytes());
        // The numbers of freed chunks should be reused.
        let numbers = arena.chunks.len();
        for _ in 0..5000 {
            arena.push(&[1; 4], &[7; 100]);
        }
        assert_eq!(arena.chunks.len(), numbers);
    }

    #[test]
    fn a_cleared_arena_keeps_one_chunk_and_clones_are_independent() {
        let mut arena = Arena::new(OverflowMemory::default());
        for _ in 0..5000 {
            arena.push(&[1; 4], &[7; 100]);
        }
        arena.clear();
        assert_eq!(arena.allocated_bytes, CHUNK_BYTES);
        let place = arena.push(b"head", b"body");
        let mut copy = arena.clone();
        let behind = copy.push(b"more", b"");
        assert_eq!((&copy.at(place).0[..8], &copy.at(behind).0[..4]), (&b"headbody"[..], &b"more"[..]));
        arena.clear();
        arena.push(b"other", b"");
        assert_eq!(arena.allocated_bytes, CHUNK_BYTES);
        assert_eq!(copy.at(place).0[..8], *b"headbody");
    }

    #[test]
    fn records_may_be_longer_than_a_chunk() {
        let mut arena = Arena::new(OverflowMemory::default());
        let small = arena.push(b"small", b"");
        let long = vec![9; 5 * CHUNK_BYTES / 2];
        let place = arena.push(b"head", &long);
        let other = arena.push(b"other", b"");
        assert_eq!(other.chunk(), small.chunk());
        assert_eq!(arena.at(place).0[..4 + long.len()], [&b"head"[..], &long].concat());
        assert!(!arena.is_sparse(place));
        arena.free(place, 4 + long.len());
        assert_eq!(arena.free.len(), 3);
        assert!(arena.allocated_bytes() < 2 * CHUNK_BYTES);
        assert_eq!(arena.at(other).0[..5], *b"other");
    }

    #[test]
    fn records_move_out_of_sparse_chunks() {
        let mut arena = Arena::new(OverflowMemory::default());
        let records: Vec<_> = (0..5000_u32).map(|i| arena.push(&i.to_le_bytes(), &[7; 60])).collect();
        let (kept, freed): (Vec<_>, Vec<_>) = (0..5000).partition(|i| i % 10 == 0);
        for i in &freed {
            arena.free(records[*i], 64);
        }
        let moved: Vec<_> = kept
            .iter()
            .map(|i| if arena.is_sparse(records[*i]) { arena.move_record(records[*i], 64) } else { records[*i] })
            .collect();
        for (i, place) in kept.iter().zip(moved) {
            assert_eq!(arena.at(place).0[..4], (*i as u32).to_le_bytes());
        }
        assert!(arena.allocated_bytes() < 3 * CHUNK_BYTES, "{}", arena.allocated_bytes());
    }
}
