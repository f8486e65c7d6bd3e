//! Gathered groups on disk.
//!
//! A worker that is short of memory writes all its partitions, each as one section, and goes on with empty ones. A
//! section has the rows of the partition's groups, followed by the rows of their logs. Both come in frames:
//!
//! ```text
//!   ┌──────────────┬──────┬───────────────┬──────────────────────────────────┐
//!   │ log, or none │ rows │ words of rows │ bytes of the long texts of these │
//!   └──────────────┴──────┴───────────────┴──────────────────────────────────┘
//! ```
//!
//! Views of long texts refer to the bytes of their frame. We do not combine equal keys before we write them, because
//! the merge must combine them anyway.
//!
//! A partition may be too large to be merged in memory. It is then merged in several passes. Each pass reads all
//! sections of the partition, and takes the groups whose hash has certain bits after those of the partition's number.

use arrow::array::ByteView;
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::ToByteSlice;
use rowmill_base::{Broker, Error, Result};
use rowmill_storage::spill::{SpillSection, SpillWriter, TempSpace};

use super::OWNER;
use super::gather::Recipe;
use super::layout::{KeyShape, with_shape};
use super::partition::{Pages, Partition};
use super::state::{group_of, set_group};
use super::texts::{TextStore, copied_to, moved};

/// The words and bytes that a frame should have: enough to be compressed well, and few enough for the second-level
/// cache.
const FRAME_BYTES: usize = 1 << 18;

/// The number that stands for groups where frames of logs have the number of their log.
const GROUPS: u32 = u32::MAX;

/// Words before the rows of a frame.
const HEAD_WORDS: usize = 1;

/// The groups of one partition and one flush.
#[derive(Clone, Debug)]
pub(super) struct SpilledPiece {
    section: SpillSection,
    /// The number of groups.
    pub(super) groups: usize,
    /// The bytes that the groups and their logs take in memory.
    pub(super) bytes: u64,
}

/// One of several passes over a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MergePass {
    /// The bits of the hash that are decided by the partition.
    partition_bits: u32,
    /// The bits after these that are decided by the pass.
    bits: u32,
    number: u64,
}

impl MergePass {
    /// The only pass over partitions that fit memory together.
    pub(super) const ALL: MergePass = MergePass { partition_bits: 0, bits: 0, number: 0 };

    /// The passes over a partition of `bytes` bytes. Each pass should take at most `bytes_max` of them.
    /// `partition_bits` is the number of bits in the numbers of partitions.
    pub(super) fn of(partition_bits: u32, bytes: u64, bytes_max: u64) -> impl Iterator<Item = MergePass> {
        /// More passes would take longer than any user waits.
        const BITS_MAX: u32 = 12;
        let bits = bytes.div_ceil(bytes_max.max(1)).next_power_of_two().ilog2().min(BITS_MAX);
        (0..1 << bits).map(move |number| MergePass { partition_bits, bits, number })
    }

    /// Whether the pass takes all groups.
    fn takes_all(self) -> bool {
        self.bits == 0
    }

    /// Whether the pass takes the groups with this hash.
    fn takes(self, hash: u64) -> bool {
        // We shift twice because one shift by all 64 bits is not allowed.
        self.takes_all() || hash << self.partition_bits >> (63 - self.bits) >> 1 == self.number
    }
}

/// Writes the groups of one worker.
#[derive(Debug)]
pub(super) struct GroupSpiller {
    writer: SpillWriter,
    /// By partition.
    pieces: Vec<Vec<SpilledPiece>>,
    rows: Vec<u64>,
    texts: Vec<u8>,
    frame: Vec<u8>,
}

impl GroupSpiller {
    pub(super) fn new(partitions: usize, temp: &TempSpace, broker: &Broker) -> GroupSpiller {
        GroupSpiller {
            writer: temp.writer(OWNER, broker),
            pieces: (0..partitions).map(|_| Vec::new()).collect(),
            rows: Vec::new(),
            texts: Vec::new(),
            frame: Vec::new(),
        }
    }

    /// Writes partitions, whose texts are in `texts`.
    pub(super) fn write(&mut self, recipe: &Recipe, partitions: &[Partition], texts: &TextStore) -> Result<()> {
        let Recipe { layout, states, .. } = recipe;
        for (number, Partition { groups, logs }) in partitions.iter().enumerate().filter(|(_, of)| of.groups.len() > 0)
        {
            let mut bytes = 0;
            bytes += self.put(GROUPS, groups, layout.stride, |rows, copied| {
                layout.map_texts(rows, |view| texts.copy_to(view, copied));
                states.map_texts(rows, (layout.stride, layout.key_words), |view| texts.copy_to(view, copied));
            })?;
            for ((log, pages), of) in (0..).zip(logs).zip(states.logs()) {
                bytes += self.put(log, pages, of.layout.stride, |rows, copied| {
                    of.layout.map_texts(rows, |view| texts.copy_to(view, copied));
                })?;
            }
            let section = self.writer.end_section();
            self.pieces[number].push(SpilledPiece { section, groups: groups.len(), bytes });
        }
        self.writer.end_flush()
    }

    /// Writes rows. `move_texts` copies their texts and makes their views refer to the copies. Returns the bytes of the
    /// rows and their texts.
    fn put(
        &mut self,
        kind: u32,
        pages: &Pages,
        stride: usize,
        mut move_texts: impl FnMut(&mut [u64], &mut Vec<u8>),
    ) -> Result<u64> {
        let mut bytes = 0;
        for page in &pages.pages {
            // A page may have long texts, so it is looked at in small parts.
            for rows in page.chunks(ROWS_AT_ONCE * stride) {
                let at = self.rows.len();
                self.rows.extend_from_slice(rows);
                move_texts(&mut self.rows[at..], &mut self.texts);
                if self.rows.len() * size_of::<u64>() + self.texts.len() >= FRAME_BYTES {
                    bytes += self.put_frame(kind, stride)?;
                }
            }
        }
        Ok(bytes + self.put_frame(kind, stride)?)
    }

    fn put_frame(&mut self, kind: u32, stride: usize) -> Result<u64> {
        if self.rows.is_empty() {
            return Ok(0);
        }
        let rows = self.rows.len() / stride;
        self.frame.clear();
        self.frame.extend_from_slice((u64::from(kind) << 32 | rows as u64).to_byte_slice());
        self.frame.extend_from_slice(self.rows.to_byte_slice());
        self.frame.extend_from_slice(&self.texts);
        self.writer.put(&self.frame)?;
        self.rows.clear();
        self.texts.clear();
        Ok(self.frame.len() as u64)
    }

    /// The pieces of each partition.
    pub(super) fn finish(mut self) -> Result<Vec<Vec<SpilledPiece>>> {
        self.writer.finish()?;
        Ok(self.pieces)
    }
}

/// Rows whose texts are copied together.
const ROWS_AT_ONCE: usize = 64;

impl SpilledPiece {
    /// Reads the groups that `pass` takes, with their logs. Puts their texts into `texts`.
    pub(super) fn read(&self, recipe: &Recipe, pass: MergePass, texts: &mut TextStore) -> Result<Partition> {
        let Recipe { layout, states, .. } = recipe;
        let logs = states.logs();
        let mut partition =
            Partition { groups: Pages::default(), logs: logs.iter().map(|_| Pages::default()).collect() };
        // For each group of the piece its number among those that are taken. The frames of logs come after all groups.
        let (mut numbers, mut taken) = (Vec::new(), 0..);
        let mut reader = self.section.reader();
        while let Some(frame) = reader.next_frame()? {
            let (kind, rows) = head(&frame)?;
            if kind == GROUPS {
                let mut frame = FrameRows::new(&frame, rows, layout.stride)?;
                if !pass.takes_all() {
                    with_shape!(layout.shape, shape => frame.retain(layout.stride, |row| {
                        let is_taken = pass.takes(shape.hash(row));
                        numbers.push(if is_taken { taken.next() } else { None });
                        is_taken
                    }));
                }
                frame.map_texts(texts, |rows, map| {
                    layout.map_texts(rows, &mut *map);
                    states.map_texts(rows, (layout.stride, layout.key_words), map);
                })?;
                partition.groups.push(frame.words, layout.stride);
                continue;
            }
            let (of, pages) = logs
                .get(kind as usize)
                .zip(partition.logs.get_mut(kind as usize))
                .ok_or_else(|| Error::corrupt(format!("spilled groups have no log {kind}")))?;
            let mut frame = FrameRows::new(&frame, rows, of.layout.stride)?;
            if !pass.takes_all() {
                frame.retain(of.layout.stride, |row| matches!(numbers.get(group_of(row)), Some(Some(_))));
                for row in frame.words.chunks_exact_mut(of.layout.stride) {
                    set_group(row, numbers[group_of(row)].unwrap_or_default());
                }
            }
            frame.map_texts(texts, |rows, map| of.layout.map_texts(rows, map))?;
            pages.push(frame.words, of.layout.stride);
        }
        Ok(partition)
    }
}

/// The kind and the number of rows of a frame.
fn head(frame: &Buffer) -> Result<(u32, usize)> {
    let (head, _) = frame.split_first_chunk().ok_or_else(|| Error::corrupt("a frame of spilled groups has no head"))?;
    let head = u64::from_ne_bytes(*head);
    Ok(((head >> 32) as u32, head as u32 as usize))
}

/// The rows of a frame.
struct FrameRows {
    words: Vec<u64>,
    texts: Buffer,
    /// Whether the texts of some rows are not needed.
    has_more: bool,
}

impl FrameRows {
    fn new(frame: &Buffer, rows: usize, stride: usize) -> Result<FrameRows> {
        let words = rows * stride;
        let end = (HEAD_WORDS + words) * size_of::<u64>();
        if end > frame.len() {
            return Err(Error::corrupt(format!("a frame of {} bytes has no {rows} groups", frame.len())));
        }
        let held = ScalarBuffer::<u64>::new(frame.clone(), HEAD_WORDS, words);
        Ok(FrameRows { words: held.to_vec(), texts: frame.slice(end), has_more: false })
    }

    /// Keeps the rows that are taken.
    fn retain(&mut self, stride: usize, mut is_taken: impl FnMut(&[u64]) -> bool) {
        let mut kept = 0;
        for at in (0..self.words.len()).step_by(stride) {
            if is_taken(&self.words[at..at + stride]) {
                self.words.copy_within(at..at + stride, kept);
                kept += stride;
            }
        }
        self.has_more |= kept < self.words.len();
        self.words.truncate(kept);
    }

    /// Moves the texts of the rows into `store`. `map_views` replaces the views of the rows.
    fn map_texts(
        &mut self,
        store: &mut TextStore,
        map_views: impl Fn(&mut [u64], &mut dyn FnMut(u128) -> u128),
    ) -> Result<()> {
        if self.texts.is_empty() || self.words.is_empty() {
            return Ok(());
        }
        let (texts, mut is_damaged) = (self.texts.clone(), false);
        let mut text_of = |of: ByteView| {
            let text = texts.get(of.offset as usize..of.offset as usize + of.length as usize);
            is_damaged |= text.is_none();
            text.unwrap_or_default()
        };
        if self.has_more {
            // Most texts of the frame may belong to rows that are not taken. Their memory must not be kept.
            let mut copies = Vec::new();
            map_views(&mut self.words, &mut |view| {
                copied_to(view, |of| {
                    let offset = copies.len();
                    copies.extend_from_slice(text_of(of));
                    offset
                })
            });
            self.texts = Buffer::from_vec(copies);
        } else {
            map_views(&mut self.words, &mut |view| {
                copied_to(view, |of| {
                    text_of(of);
                    of.offset as usize
                })
            });
        }
        if is_damaged {
            return Err(Error::corrupt("a text of spilled groups is outside of its frame"));
        }
        let number = store.keep(self.texts.clone())?;
        map_views(&mut self.words, &mut |view| moved(view, number));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_belongs_to_one_pass() {
        for (bytes, bits) in [(0, 0), (100, 0), (101, 1), (1_000, 4), (u64::MAX, 12)] {
            let passes: Vec<MergePass> = MergePass::of(3, bytes, 100).collect();
            assert_eq!(passes.len(), 1 << bits, "{bytes} bytes");
            for group in 0..1_000_u64 {
                let hash = group.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                assert_eq!(passes.iter().filter(|pass| pass.takes(hash)).count(), 1);
            }
        }
    }
}
