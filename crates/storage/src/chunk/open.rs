//! An opened chunk answers the questions that a scan asks of a stored column.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use parking_lot::Mutex;
use rowmill_base::{Error, LengthUnit, Result, SqlType, StepMemory};

use super::fixed_list::{FixedList, LowWords};
use super::head::{Facts, ParsedHead, SectionKind};
use super::kinds::{Physical, with_kind};
use super::nulls::Nulls;
use super::read_meter::{ChunkReads, ReadMeter};
use super::stored_keys::DecodedRows;
use super::zone::{self, Zone};
use super::{ChunkBytes, fixed_list};
use crate::documents::PathDirectory;
use crate::encoding::{EncodingRef, ListPlace, directory, open_inner, open_part};
use crate::sequence::Ints;
use crate::strings::{DecodedList, StringKind, StringList};
use crate::wide::{self, WIDE_BYTES};

/// Checks that no code is above the highest valid one. Callers index into arrays by code, so an invalid code must be
/// found here.
struct CodeCheck {
    highest: u32,
    signs: u32,
}

impl CodeCheck {
    fn see(&mut self, codes: &[u32]) {
        // If a code is above the highest, the difference wraps and its top bit is set. A code of 2^31 or more has the
        // bit itself. We only collect the bits, because a branch per code would cost more than the check.
        let highest = self.highest;
        self.signs |= codes.iter().fold(0, |signs, code| signs | (highest.wrapping_sub(*code) | *code));
    }

    fn finish(self) -> Result<()> {
        match self.signs >> 31 {
            0 => Ok(()),
            _ => Err(Error::corrupt(format!("byte 16 of the chunk: a code above {}", self.highest))),
        }
    }
}

/// A stored column of a block, opened for reading.
///
/// Keeps the decoded parts of the value list until it is dropped, in memory that it accounts for. Decoded rows are not
/// kept.
#[derive(Debug)]
pub struct Chunk {
    pub(crate) bytes: ChunkBytes,
    pub(crate) head: Arc<ParsedHead>,
    /// The type of the values as the encodings read them.
    pub(super) kind: SqlType,
    /// The type of the column, if that has 256 bits and the chunk stores its values in 128 bits.
    widened: Option<SqlType>,
    verified: AtomicBool,
    fixed: OnceLock<FixedList>,
    /// Low words of the values of a 128-bit type, decoded while no caller has needed the whole values.
    low_words: OnceLock<LowWords>,
    pub(super) strings: OnceLock<DecodedList>,
    /// The value list of a column with 256 bits, made of its strings.
    wide: OnceLock<ArrayRef>,
    /// Values that could have been decoded in the time already spent on single strings. When it reaches the length of
    /// the list, decoding the whole list is cheaper.
    pub(super) picked: AtomicUsize,
    inner: OnceLock<Vec<Chunk>>,
    /// Held while the value list is decoded, so that only one thread decodes it.
    decoding: Mutex<()>,
    /// The memory account of the value list. `None` if nothing accounts for it.
    memory: Option<Mutex<StepMemory>>,
    /// Counts the reads. `None` if nothing counts them.
    reads: Option<ChunkReads>,
}

/// The parsed head of a chunk, which a caller can keep for the next time it opens the chunk. Clones share it.
#[derive(Clone, Debug)]
pub struct ChunkHead(Arc<ParsedHead>);

impl ChunkHead {
    /// Reads and checks the head at the start of `bytes`.
    pub fn read(bytes: &ChunkBytes) -> Result<ChunkHead> {
        ParsedHead::parse(bytes).map(|head| ChunkHead(Arc::new(head)))
    }

    /// The checksum of the ids of the owning table, column and block; 0 if the chunk names no owner.
    pub(crate) fn owner(&self) -> u32 {
        self.0.owner
    }
}

impl Chunk {
    /// Opens the chunk of a column of type `kind` at the start of `bytes`. The bytes after the chunk must be zeros.
    /// Checks only the head. Errors name the damaged byte of the chunk.
    pub fn open(bytes: ChunkBytes, kind: &SqlType) -> Result<Chunk> {
        let head = ChunkHead::read(&bytes)?;
        Chunk::with_head(bytes, head, kind)
    }

    /// Opens a chunk whose head the caller already read from these bytes.
    pub(crate) fn with_head(bytes: ChunkBytes, ChunkHead(head): ChunkHead, kind: &SqlType) -> Result<Chunk> {
        let (kind, widened) = match (head.facts.physical, Physical::of(kind)) {
            (stored, wanted) if stored == wanted => (kind, None),
            (Physical::Decimal, Physical::Wide) => (&wide::NARROW_KIND, Some(kind.clone())),
            (stored, _) => return Err(Error::corrupt(format!("byte 7 of the chunk: {stored:?} instead of {kind}"))),
        };
        Ok(Chunk {
            bytes,
            head,
            kind: kind.clone(),
            widened,
            verified: AtomicBool::new(false),
            fixed: OnceLock::new(),
            low_words: OnceLock::new(),
            strings: OnceLock::new(),
            wide: OnceLock::new(),
            picked: AtomicUsize::new(0),
            inner: OnceLock::new(),
            decoding: Mutex::new(()),
            memory: None,
            reads: None,
        })
    }

    /// Returns this chunk with an account: the memory it keeps is counted in `memory`.
    #[must_use]
    pub(crate) fn with_memory(self, memory: StepMemory) -> Chunk {
        Chunk { memory: Some(Mutex::new(memory)), ..self }
    }

    /// Returns this chunk with a meter: `meter` counts its reads and the memory that it keeps. Must be called before
    /// the first read.
    #[must_use]
    pub fn metered(self, meter: &Arc<ReadMeter>) -> Chunk {
        // Only a chunk with a value list can skip values.
        let values = if self.has_values() { self.distinct().unwrap_or_default() } else { 0 };
        let memory = self.memory.as_ref().map(|memory| Mutex::new(memory.lock().metered(meter.memory())));
        Chunk { memory, reads: Some(ChunkReads::new(Arc::clone(meter), values)), ..self }
    }

    /// Makes `inner`, a chunk within this one, use the accounts of this one.
    pub(crate) fn share_accounts(&self, mut inner: Chunk) -> Chunk {
        if let Some(memory) = &self.memory {
            inner = inner.with_memory(memory.lock().another());
        }
        match &self.reads {
            Some(reads) => inner.metered(reads.meter()),
            None => inner,
        }
    }

    /// Counts `values` decoded values of the list.
    pub(super) fn count_decoded(&self, values: usize) {
        if let Some(reads) = &self.reads {
            reads.decoded(values);
        }
    }

    /// Reserves memory for a value list. Returns an error if the memory limit does not allow it.
    pub(super) fn need_memory(&self, bytes: usize) -> Result<()> {
        match &self.memory {
            Some(memory) => memory.lock().grow(bytes as u64),
            None => Ok(()),
        }
    }

    /// The number of rows, including NULLs.
    pub fn rows(&self) -> usize {
        self.head.facts.rows
    }

    /// The number of NULLs.
    pub fn null_count(&self) -> usize {
        self.head.facts.null_count
    }

    /// The number of distinct values without NULL, if it is known.
    pub fn distinct(&self) -> Option<usize> {
        self.head.facts.distinct
    }

    /// How the rows are stored.
    pub(crate) fn encoding(&self) -> EncodingRef {
        self.head.facts.encoding
    }

    /// The name of the encoding, for reports.
    pub fn encoding_name(&self) -> &'static str {
        self.encoding().name()
    }

    /// Whether a condition on codes reads a code for each row. Runs and listed rows take less time.
    pub fn has_code_per_row(&self) -> bool {
        self.encoding().has_code_per_row()
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.head.facts
    }

    pub(crate) fn physical(&self) -> Physical {
        self.head.facts.physical
    }

    /// The type of the values.
    pub fn kind(&self) -> &SqlType {
        self.widened.as_ref().unwrap_or(&self.kind)
    }

    /// The type of the values that encodings read. [`Chunk::finished`] turns them into those of the column.
    pub(crate) fn stored_kind(&self) -> &SqlType {
        &self.kind
    }

    /// Whether the chunk stores values of 256 bits in 128 bits.
    pub(super) fn is_widened(&self) -> bool {
        self.widened.is_some()
    }

    /// The least and the greatest value that is not NULL. `None` if all rows are NULL or the type has no order.
    pub fn zone(&self) -> Option<Zone> {
        // An invalid bound under a valid checksum was written that way. We ignore such a zone map: it is only a hint.
        let zone = self.head.facts.zone.as_ref()?;
        let Zone { mut min, mut max } = zone::decode(zone, self.head.facts.physical, &self.kind).ok()?;
        for bound in std::iter::once(&mut min).chain(&mut max) {
            bound.value = self.finished(ArrayRef::clone(&bound.value)).ok()?;
        }
        Some(Zone { min, max })
    }

    /// Compares the whole chunk with its checksums. Only the first call does the work.
    pub fn verify(&self) -> Result<()> {
        if !self.verified.load(Ordering::Acquire) {
            self.head.verify(&self.bytes)?;
            self.assume_verified();
        }
        Ok(())
    }

    /// Checks that the file still has the last byte of the chunk. A read beyond the end of a mapped file would raise a
    /// signal. If the file was truncated, the last byte is the first to go, so one check is enough.
    pub(crate) fn look_for(&self) -> Result<()> {
        let len = self.bytes.len();
        self.bytes.fetch(len.saturating_sub(1)..len).map(|_| ())
    }

    /// Skips the checksums. The caller must know that these bytes were verified before.
    pub(crate) fn assume_verified(&self) {
        self.verified.store(true, Ordering::Release);
    }

    /// Reads a range of rows as an array of the column's Arrow type.
    pub fn read(&self, rows: Range<usize>) -> Result<ArrayRef> {
        self.check_range(&rows)?;
        self.decode(DecodedRows::Range(&rows))
    }

    /// Reads single rows as an array of the column's Arrow type. The rows must ascend.
    pub fn take(&self, rows: &[u32]) -> Result<ArrayRef> {
        self.check_rows(rows)?;
        self.decode(DecodedRows::List(rows))
    }

    /// Appends a range of rows as 64-bit integers, and decimals without their point. Wider values keep only their low
    /// bits. A NULL row appends an arbitrary integer. Returns an error for other types.
    pub fn integers(&self, rows: Range<usize>, out: &mut Vec<i64>) -> Result<()> {
        self.check_range(&rows)?;
        self.decode_integers(DecodedRows::Range(&rows), out)
    }

    /// Appends single rows as 64-bit integers, like [`Chunk::integers`]. The rows must ascend.
    pub fn take_integers(&self, rows: &[u32], out: &mut Vec<i64>) -> Result<()> {
        self.check_rows(rows)?;
        self.decode_integers(DecodedRows::List(rows), out)
    }

    fn decode_integers(&self, rows: DecodedRows<'_>, out: &mut Vec<i64>) -> Result<()> {
        self.verify()?;
        let physical = self.head.facts.physical;
        let not_integers = || Error::internal(format!("values of {physical:?} cannot be read as integers"));
        match physical {
            Physical::Float32 | Physical::Float64 | Physical::Uuid | Physical::Interval => Err(not_integers()),
            Physical::Text | Physical::Blob | Physical::Wide | Physical::Nested => Err(not_integers()),
            _ => self.encoding().integers(self, rows, out),
        }
    }

    /// The distinct values without NULL, ascending, if the encoding has a value list. Decoded once.
    pub fn values(&self) -> Result<Option<ArrayRef>> {
        if !self.has_values() {
            return Ok(None);
        }
        match self.head.facts.physical {
            Physical::Text | Physical::Blob => Ok(Some(self.string_list()?.array().clone())),
            Physical::Wide => self.wide_list().map(|list| Some(ArrayRef::clone(list))),
            _ if self.is_widened() => self.wide_list().map(|list| Some(ArrayRef::clone(list))),
            _ => Ok(Some(self.fixed_list()?.array.clone())),
        }
    }

    /// Whether both chunks store their value lists with the same bytes, so that the lists are equal. Decodes neither.
    /// Equal lists can have different bytes, for example if the encodings of the chunks differ.
    pub fn has_list_of(&self, other: &Chunk) -> Result<bool> {
        if self.list_place() != ListPlace::Section || other.list_place() != ListPlace::Section {
            return Ok(false);
        }
        let of_list = |chunk: &Chunk| {
            let Facts { encoding, physical, distinct, base, factor, digits, .. } = &chunk.head.facts;
            (encoding.name(), *physical, *distinct, *base, *factor, *digits, chunk.kind.clone())
        };
        if of_list(self) != of_list(other) {
            return Ok(false);
        }
        Ok(self.section_bytes(SectionKind::Values)?.0 == other.section_bytes(SectionKind::Values)?.0)
    }

    /// The decoded list of strings of [`Chunk::values`], for work on its bytes. `None` if the chunk has no list of
    /// strings.
    pub fn strings(&self) -> Result<Option<&DecodedList>> {
        match self.head.facts.physical {
            Physical::Text | Physical::Blob if self.has_values() => self.string_list().map(Some),
            _ => Ok(None),
        }
    }

    /// The length of each of [`Chunk::values`]. Decodes no more of the strings than the lengths need. `None` if the
    /// chunk has no list of strings, or if `unit` is characters and the column is not text.
    pub fn lengths(&self, unit: LengthUnit) -> Result<Option<Vec<u32>>> {
        let is_counted = match self.head.facts.physical {
            Physical::Text => true,
            Physical::Blob => unit == LengthUnit::Bytes,
            _ => false,
        };
        if !is_counted || !self.has_values() {
            return Ok(None);
        }
        if let Some(list) = self.strings.get() {
            // The list is decoded already, so its offsets give the lengths.
            return Ok(Some(list.lengths(unit)));
        }
        let lengths = self.stored_strings()?.lengths(unit);
        lengths.map(Some).map_err(|error| self.in_section(SectionKind::Values, error))
    }

    /// The number of rows of each of [`Chunk::values`].
    pub fn counts(&self) -> Result<Option<Vec<u32>>> {
        if !self.has_values() {
            return Ok(None);
        }
        let values = self.distinct().unwrap_or_default();
        let mut counts = Vec::new();
        self.encoding().counts(self, DecodedRows::Range(&(0..values)), &mut |piece| counts.extend_from_slice(piece))?;
        Ok(Some(counts))
    }

    /// The number of rows of each of `codes`, which must ascend. The last one may be the code of NULL, which equals the
    /// number of values.
    pub fn take_counts(&self, codes: &[u32]) -> Result<Vec<u32>> {
        let values = self.distinct().unwrap_or_default();
        // NULL's count is not stored with the others. It comes from the head.
        let (listed, null) = match codes.split_last() {
            Some((last, listed)) if *last as usize == values => (listed, Some(self.null_count() as u32)),
            _ => (codes, None),
        };
        let mut taken = Vec::with_capacity(codes.len());
        self.encoding().counts(self, DecodedRows::List(listed), &mut |counts| taken.extend_from_slice(counts))?;
        taken.extend(null);
        Ok(taken)
    }

    /// Appends the code of each row: the position of its value in [`Chunk::values`], or their number for NULL. Returns
    /// an error if the encoding has no value list.
    pub fn codes(&self, rows: Range<usize>, out: &mut Vec<u32>) -> Result<()> {
        self.check_range(&rows)?;
        self.append_codes(DecodedRows::Range(&rows), out)
    }

    /// Appends the codes of single rows, like [`Chunk::codes`]. The rows must ascend.
    pub fn take_codes(&self, rows: &[u32], out: &mut Vec<u32>) -> Result<()> {
        self.check_rows(rows)?;
        self.append_codes(DecodedRows::List(rows), out)
    }

    fn append_codes(&self, rows: DecodedRows<'_>, out: &mut Vec<u32>) -> Result<()> {
        self.verify()?;
        out.reserve(rows.len());
        let mut check = self.code_check();
        self.encoding().codes(self, rows, &mut |codes| {
            check.see(codes);
            out.extend_from_slice(codes);
        })?;
        check.finish()
    }

    /// Whether [`Chunk::values`], [`Chunk::counts`] and [`Chunk::codes`] have an answer for this encoding.
    pub fn has_values(&self) -> bool {
        self.list_place() != ListPlace::Missing
    }

    pub(super) fn list_place(&self) -> ListPlace {
        self.encoding().list_place(self.physical())
    }

    pub(crate) fn decode(&self, rows: DecodedRows<'_>) -> Result<ArrayRef> {
        self.verify()?;
        self.finished(self.encoding().read(self, rows)?)
    }

    /// Turns decoded values into those of the column: byte strings and numbers of 128 bits into numbers of 256 bits if
    /// the column has these.
    pub(super) fn finished(&self, values: ArrayRef) -> Result<ArrayRef> {
        match (values.data_type(), &self.widened) {
            (DataType::BinaryView, None) if self.physical() == Physical::Wide => {
                wide::numbers_of_compact(&values, &self.kind.arrow())
            }
            (DataType::Decimal128(..), Some(column)) => Ok(wide::widened(&values, &column.arrow())),
            _ => Ok(values),
        }
    }

    /// A chunk of `rows` rows that are all NULL.
    pub(crate) fn of_nulls(rows: usize, kind: &SqlType) -> Result<Chunk> {
        let bytes = super::encode(&*new_null_array(&kind.arrow(), 1), kind)?;
        let mut chunk = Chunk::open(ChunkBytes::memory(bytes), kind)?;
        // A constant column has the same bytes for any number of rows.
        let mut head = ParsedHead::clone(&chunk.head);
        (head.facts.rows, head.facts.null_count) = (rows, rows);
        chunk.head = Arc::new(head);
        Ok(chunk)
    }

    /// The paths of documents that are stored by path. `None` for other chunks.
    pub(crate) fn paths(&self) -> Result<Option<PathDirectory>> {
        match self.head.find(SectionKind::Paths) {
            Some(_) => directory(self).map(Some),
            None => Ok(None),
        }
    }

    /// Opens a part of documents by its number. Checks only its head.
    pub(crate) fn part(&self, part: usize, kind: &SqlType) -> Result<Chunk> {
        open_part(self, part, kind)
    }

    /// The chunks within this one. Opened once.
    pub(crate) fn inner(&self) -> Result<&[Chunk]> {
        if let Some(inner) = self.inner.get() {
            return Ok(inner);
        }
        let inner = open_inner(self)?;
        // Two threads may both open them. The first one wins and the other result is dropped.
        Ok(self.inner.get_or_init(|| inner))
    }

    pub(crate) fn fixed_list(&self) -> Result<&FixedList> {
        if let Some(list) = self.fixed.get() {
            return Ok(list);
        }
        let _decoding = self.decoding.lock();
        // Another thread may have decoded the list while this one waited for the lock.
        if let Some(list) = self.fixed.get() {
            return Ok(list);
        }
        self.verify()?;
        let list = with_kind!(
            self.head.facts.physical,
            K => {
                self.need_memory(fixed_list::list_bytes::<K>(self))?;
                fixed_list::list::<K>(self)?
            },
            else return Err(self.unsuited())
        );
        self.check_list(list.array.len())?;
        self.count_decoded(list.array.len());
        Ok(self.fixed.get_or_init(|| list))
    }

    /// The low words of the value list of a 128-bit type. Decoded once.
    pub(crate) fn low_words(&self) -> Result<&LowWords> {
        if let Some(words) = self.low_words.get() {
            return Ok(words);
        }
        let _decoding = self.decoding.lock();
        // Another thread may have decoded the words while this one waited for the lock.
        if let Some(words) = self.low_words.get() {
            return Ok(words);
        }
        self.verify()?;
        let values = self.ints(SectionKind::Values)?;
        self.check_list(values.len())?;
        self.need_memory(values.len() * size_of::<i64>())?;
        let words = fixed_list::low_words(self, values)?;
        self.count_decoded(words.words.len());
        Ok(self.low_words.get_or_init(|| words))
    }

    pub(crate) fn string_list(&self) -> Result<&DecodedList> {
        if let Some(list) = self.strings.get() {
            return Ok(list);
        }
        let _decoding = self.decoding.lock();
        // Another thread may have decoded the list while this one waited for the lock.
        if let Some(list) = self.strings.get() {
            return Ok(list);
        }
        let stored = self.stored_strings()?;
        // We reserve the memory before we decode, so that a list that does not fit is never allocated.
        self.need_memory(stored.memory_bytes())?;
        self.count_decoded(stored.len());
        let list = stored.decode(self.string_kind()?);
        let list = list.map_err(|error| self.in_section(SectionKind::Values, error))?;
        Ok(self.strings.get_or_init(|| list))
    }

    /// The value list of a column with 256 bits. Decoded once.
    fn wide_list(&self) -> Result<&ArrayRef> {
        if let Some(list) = self.wide.get() {
            return Ok(list);
        }
        let stored = match self.is_widened() {
            true => &self.fixed_list()?.array,
            false => self.string_list()?.array(),
        };
        self.need_memory(stored.len() * WIDE_BYTES)?;
        let list = self.finished(ArrayRef::clone(stored))?;
        Ok(self.wide.get_or_init(|| list))
    }

    /// Whether the values are stored as byte strings.
    pub(super) fn is_string(&self) -> bool {
        matches!(self.head.facts.physical, Physical::Text | Physical::Blob | Physical::Wide)
    }

    /// The kind of array that the strings decode to. Returns an error if the values are no strings.
    pub(crate) fn string_kind(&self) -> Result<StringKind> {
        match self.physical() {
            Physical::Text => Ok(StringKind::Text),
            Physical::Blob | Physical::Wide => Ok(StringKind::Binary),
            _ => Err(self.unsuited()),
        }
    }

    /// Whether the value list is already decoded.
    pub(crate) fn is_list_decoded(&self) -> bool {
        self.fixed.get().is_some() || self.strings.get().is_some()
    }

    /// Opens the list of strings in its stored form, without decoding it.
    pub(super) fn stored_strings(&self) -> Result<StringList<'_>> {
        let (bytes, _) = self.section_bytes(SectionKind::Values)?;
        let values = self.head.section(SectionKind::Values)?.count as usize;
        self.check_list(values)?;
        StringList::open(bytes, values).map_err(|error| self.in_section(SectionKind::Values, error))
    }

    /// Adds the section's byte offset to an error.
    pub(crate) fn in_section(&self, kind: SectionKind, error: Error) -> Error {
        match self.head.find(kind) {
            Some(section) => error.context(format_args!("byte {} of the chunk", section.offset)),
            None => error,
        }
    }

    pub(crate) fn check_list(&self, values: usize) -> Result<()> {
        match self.head.facts.distinct {
            Some(distinct) if distinct == values => Ok(()),
            distinct => {
                Err(Error::corrupt(format!("byte 16 of the chunk: {distinct:?} distinct values, but {values} listed")))
            }
        }
    }

    fn code_check(&self) -> CodeCheck {
        let values = self.head.facts.distinct.unwrap_or_default();
        // A column without NULLs must not contain the code of NULL.
        CodeCheck { highest: if self.null_count() > 0 { values } else { values.saturating_sub(1) } as u32, signs: 0 }
    }

    pub(crate) fn nulls(&self, rows: DecodedRows<'_>) -> Result<Option<NullBuffer>> {
        if self.null_count() == 0 {
            return Ok(None);
        }
        let nulls = match self.head.find(SectionKind::ValidRuns) {
            // The writer stored either runs or bits, whichever is shorter.
            Some(_) => Nulls::Runs { ends: self.ints(SectionKind::ValidRuns)?, rows: self.rows() },
            None => {
                let (bytes, at) = self.section_bytes(SectionKind::ValidBits)?;
                Nulls::bits(bytes, at, self.rows())?
            }
        };
        match rows {
            DecodedRows::Range(range) => nulls.read(range.clone()),
            DecodedRows::List(rows) => nulls.take(rows),
        }
    }

    /// Opens the sequence of integers in a section.
    pub(crate) fn ints(&self, kind: SectionKind) -> Result<Ints<'_>> {
        let (bytes, at) = self.section_bytes(kind)?;
        Ints::open(bytes, at, self.head.section(kind)?.count as usize)
    }

    /// The verified bytes of a section and its offset in the chunk.
    pub(crate) fn section_bytes(&self, kind: SectionKind) -> Result<(&[u8], usize)> {
        self.verify()?;
        let section = self.head.section(kind)?;
        if let Some(reads) = &self.reads {
            reads.section(section);
        }
        Ok((self.bytes.get(section.offset..section.offset + section.len)?, section.offset))
    }

    pub(crate) fn unsuited(&self) -> Error {
        let facts = &self.head.facts;
        let (physical, encoding) = (facts.physical, facts.encoding.name());
        Error::corrupt(format!("byte 6 of the chunk: values of {physical:?} are never stored as {encoding}"))
    }

    pub(super) fn check_range(&self, rows: &Range<usize>) -> Result<()> {
        match rows.start <= rows.end && rows.end <= self.rows() {
            true => Ok(()),
            false => Err(Error::internal(format!("rows {rows:?} are outside of a chunk of {} rows", self.rows()))),
        }
    }

    fn check_rows(&self, rows: &[u32]) -> Result<()> {
        // The fold has no branch per row, so the compiler can vectorise it.
        let ascend =
            rows.iter().zip(&rows[rows.len().min(1)..]).fold(true, |ascend, (row, next)| ascend & (row < next));
        match rows.last() {
            Some(row) if *row as usize >= self.rows() => {
                Err(Error::internal(format!("row {row} is outside of a chunk of {} rows", self.rows())))
            }
            _ if !ascend => Err(Error::internal("the rows asked of a chunk must ascend, each at most once")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::super::encode_as;
    use super::*;
    use crate::encoding::encoding_named;

    fn listed(column: ArrayRef, kind: &SqlType) -> Chunk {
        let bytes = encode_as(&*column, kind, Some(encoding_named("list+codes")));
        let bytes = bytes.expect("it can be stored").expect("as a list");
        Chunk::open(ChunkBytes::memory(bytes), kind).expect("the chunk was just encoded")
    }

    #[test]
    fn lists_are_compared_without_their_rows() {
        let texts = |text: fn(i64) -> i64| {
            let texts = (0..1_000).map(|row| format!("text {}", text(row)));
            listed(Arc::new(StringViewArray::from_iter_values(texts)), &SqlType::Text { chars_max: None })
        };
        let numbers = |number: fn(i64) -> i64| {
            listed(Arc::new(Int64Array::from_iter_values((0..1_000).map(number))), &SqlType::Int64)
        };
        for chunks in [
            [texts(|row| row % 10), texts(|row| row * 7 % 10), texts(|row| row % 10 * 2)],
            [numbers(|row| row % 10), numbers(|row| row * 7 % 10), numbers(|row| row % 10 * 2)],
            // The lists differ only in the base and the factor of their numbers.
            [numbers(|row| row % 10), numbers(|row| 9 - row % 10), numbers(|row| row % 10 + 500)],
        ] {
            let [one, same, other] = &chunks;
            assert!(one.has_list_of(same).expect("lists"), "{:?}", one.values());
            assert!(!one.has_list_of(other).expect("lists"), "{:?}", one.values());
            assert_eq!(one.values().expect("a list"), same.values().expect("a list"));
        }
        assert!(!texts(|row| row % 10).has_list_of(&numbers(|row| row % 10)).expect("lists"));
    }
}
