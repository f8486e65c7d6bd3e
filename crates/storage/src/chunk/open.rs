//! An opened chunk: the questions that a scan asks of a stored column.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use parking_lot::Mutex;
use rowmill_base::{Error, Result, Scratch, SqlType};

use super::codes::Codes;
use super::fixed_decode::{FixedList, Rows};
use super::head::{Head, SectionKind};
use super::kinds::{Physical, with_kind};
use super::nulls::Nulls;
use super::read_meter::{ChunkReads, ReadMeter};
use super::zone::{self, Zone};
use super::{ChunkBytes, Encoding, fixed_decode, kinds, nested, text};
use crate::encoding::Ints;
use crate::strings::{DecodedList, LengthUnit, StringList};

/// Sees to it that no code is above the highest one: callers look codes up without asking again.
struct CodeCheck {
    highest: u32,
    signs: u32,
}

impl CodeCheck {
    fn see(&mut self, codes: &[u32]) {
        // A code above the highest sets the sign of the difference, or has one itself.
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
/// What it decodes of the value list it keeps until it is dropped, in memory that is counted; rows it does not keep.
#[derive(Debug)]
pub struct Chunk {
    pub(super) bytes: ChunkBytes,
    pub(super) head: Arc<Head>,
    pub(super) kind: SqlType,
    verified: AtomicBool,
    fixed: OnceLock<FixedList>,
    /// The low words of the value list of a type of 128 bits, where no caller asked for more.
    low_words: OnceLock<Vec<i64>>,
    pub(super) strings: OnceLock<DecodedList>,
    /// Values of the list that could have been decoded in the time that picking single strings took.
    pub(super) picked: AtomicUsize,
    inner: OnceLock<Vec<Chunk>>,
    /// Held while the value list is decoded, so that it is decoded once.
    decoding: Mutex<()>,
    /// For the value list. `None` where nobody counts.
    memory: Option<Mutex<Scratch>>,
    /// `None` where nobody counts.
    reads: Option<ChunkReads>,
}

/// The head of a chunk, to be kept for the next time that it is opened. Clones share it.
#[derive(Clone, Debug)]
pub struct ChunkHead(Arc<Head>);

impl ChunkHead {
    /// Reads and checks the head at the start of `bytes`.
    pub fn read(bytes: &ChunkBytes) -> Result<ChunkHead> {
        Head::parse(bytes).map(|head| ChunkHead(Arc::new(head)))
    }

    /// The mark of whom the chunk belongs to; 0 if it does not say.
    pub(crate) fn owner(&self) -> u32 {
        self.0.owner
    }
}

impl Chunk {
    /// Opens the chunk of a column of type `kind` at the start of `bytes`; what is behind it must be zeros. Checks the
    /// head only. Errors name the byte of the chunk at which something is wrong.
    pub fn open(bytes: ChunkBytes, kind: &SqlType) -> Result<Chunk> {
        let head = ChunkHead::read(&bytes)?;
        Chunk::with_head(bytes, head, kind)
    }

    /// The same with the head that was read of these bytes before.
    pub fn with_head(bytes: ChunkBytes, ChunkHead(head): ChunkHead, kind: &SqlType) -> Result<Chunk> {
        if head.facts.physical != Physical::of(kind) {
            return Err(Error::corrupt(format!("byte 7 of the chunk: {:?} instead of {kind}", head.facts.physical)));
        }
        Ok(Chunk {
            bytes,
            head,
            kind: kind.clone(),
            verified: AtomicBool::new(false),
            fixed: OnceLock::new(),
            low_words: OnceLock::new(),
            strings: OnceLock::new(),
            picked: AtomicUsize::new(0),
            inner: OnceLock::new(),
            decoding: Mutex::new(()),
            memory: None,
            reads: None,
        })
    }

    /// The same chunk, which counts what it keeps in `memory`.
    #[must_use]
    pub fn with_memory(self, memory: Scratch) -> Chunk {
        Chunk { memory: Some(Mutex::new(memory)), ..self }
    }

    /// The same chunk, before anything of it was read, which counts what is read of it and the memory of what it keeps in
    /// `meter`.
    #[must_use]
    pub fn metered(self, meter: &Arc<ReadMeter>) -> Chunk {
        let values = if self.has_values() { self.distinct().unwrap_or_default() } else { 0 };
        let memory = self.memory.as_ref().map(|memory| Mutex::new(memory.lock().metered(meter.memory())));
        Chunk { memory, reads: Some(ChunkReads::new(Arc::clone(meter), values)), ..self }
    }

    /// `inner`, a chunk within this one, counted where this one is.
    pub(super) fn share_accounts(&self, mut inner: Chunk) -> Chunk {
        if let Some(memory) = &self.memory {
            inner = inner.with_memory(memory.lock().another());
        }
        match &self.reads {
            Some(reads) => inner.metered(reads.meter()),
            None => inner,
        }
    }

    /// So many values of the list are decoded.
    pub(super) fn count_decoded(&self, values: usize) {
        if let Some(reads) = &self.reads {
            reads.decoded(values);
        }
    }

    /// Asks for the memory of a value list.
    pub(super) fn need_memory(&self, bytes: usize) -> Result<()> {
        match &self.memory {
            Some(memory) => memory.lock().grow(bytes as u64),
            None => Ok(()),
        }
    }

    /// Rows, NULLs among them.
    pub fn rows(&self) -> usize {
        self.head.facts.rows
    }

    /// NULLs.
    pub fn null_count(&self) -> usize {
        self.head.facts.null_count
    }

    /// Distinct values without NULL, where they are known.
    pub fn distinct(&self) -> Option<usize> {
        self.head.facts.distinct
    }

    /// How the rows are stored.
    pub fn encoding(&self) -> Encoding {
        self.head.facts.encoding
    }

    /// The name of [`Chunk::encoding`].
    pub fn encoding_name(&self) -> &'static str {
        self.encoding().name()
    }

    /// The type of the values.
    pub fn kind(&self) -> &SqlType {
        &self.kind
    }

    /// Bytes without the padding.
    pub fn stored_bytes(&self) -> usize {
        self.head.body.end
    }

    /// The least and the greatest value that is not NULL; `None` if there is none, or the type has no order.
    pub fn zone(&self) -> Option<Zone> {
        // The head's checksum was right, so that a bound that is no value was never written as one.
        self.head.facts.zone.as_ref().and_then(|zone| zone::decode(zone, self.head.facts.physical, &self.kind).ok())
    }

    /// Compares the whole chunk with its checksums, once.
    pub fn verify(&self) -> Result<()> {
        if !self.verified.load(Ordering::Acquire) {
            self.head.verify(&self.bytes)?;
            self.assume_verified();
        }
        Ok(())
    }

    /// Looks for the last of the bytes on the disk, with an error where reading them would be a signal: of a file that was cut
    /// it is the last that goes first.
    pub fn look_for(&self) -> Result<()> {
        let len = self.bytes.len();
        self.bytes.fetch(len.saturating_sub(1)..len).map(|_| ())
    }

    /// Skips the checksums, for a caller that knows that these bytes were verified before.
    pub fn assume_verified(&self) {
        self.verified.store(true, Ordering::Release);
    }

    /// The rows of a range, as an array of the column's Arrow type.
    pub fn read(&self, rows: Range<usize>) -> Result<ArrayRef> {
        self.check_range(&rows)?;
        self.decode(Rows::Range(&rows))
    }

    /// Single rows, ascending, as an array of the column's Arrow type.
    pub fn take(&self, rows: &[u32]) -> Result<ArrayRef> {
        self.check_rows(rows)?;
        self.decode(Rows::List(rows))
    }

    /// Appends the rows of a range as integers of 64 bits, those of decimals without their point: of what is wider the low
    /// bits, and anything for NULL. An error for other types.
    pub fn integers(&self, rows: Range<usize>, out: &mut Vec<i64>) -> Result<()> {
        self.check_range(&rows)?;
        self.decode_integers(Rows::Range(&rows), out)
    }

    /// As [`Chunk::integers`], of single rows, ascending.
    pub fn take_integers(&self, rows: &[u32], out: &mut Vec<i64>) -> Result<()> {
        self.check_rows(rows)?;
        self.decode_integers(Rows::List(rows), out)
    }

    fn decode_integers(&self, rows: Rows<'_>, out: &mut Vec<i64>) -> Result<()> {
        self.verify()?;
        let physical = self.head.facts.physical;
        let not_integers = || Error::internal(format!("values of {physical:?} are no integers"));
        if matches!(physical, Physical::Float32 | Physical::Float64 | Physical::Uuid | Physical::Interval) {
            return Err(not_integers());
        }
        with_kind!(physical, K => fixed_decode::integers::<K>(self, rows, out), else Err(not_integers()))
    }

    /// The distinct values without NULL, ascending, if the encoding has them. Decoded once.
    pub fn values(&self) -> Result<Option<ArrayRef>> {
        if !self.has_values() {
            return Ok(None);
        }
        match self.head.facts.physical {
            Physical::Text | Physical::Blob => Ok(Some(self.string_list()?.array().clone())),
            _ => Ok(Some(self.fixed_list()?.array.clone())),
        }
    }

    /// The list of strings behind [`Chunk::values`], for work on its bytes. `None` if the encoding has none.
    pub fn strings(&self) -> Result<Option<&DecodedList>> {
        match self.head.facts.physical {
            Physical::Text | Physical::Blob if self.has_values() => self.string_list().map(Some),
            _ => Ok(None),
        }
    }

    /// The length of each of [`Chunk::values`], which are only decoded as far as they have to be. `None` if the encoding has
    /// no list of strings, or characters are asked for of what is not text.
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
            return Ok(Some(list.lengths(unit)));
        }
        let lengths = self.stored_strings()?.lengths(unit);
        lengths.map(Some).map_err(|error| self.in_section(SectionKind::Values, error))
    }

    /// Rows of each of [`Chunk::values`].
    pub fn counts(&self) -> Result<Option<Vec<u32>>> {
        let facts = &self.head.facts;
        if !self.has_values() {
            return Ok(None);
        }
        if facts.encoding == Encoding::Constant {
            let valid = facts.rows - facts.null_count;
            return Ok(Some(if valid > 0 { vec![valid as u32] } else { Vec::new() }));
        }
        let counts = self.ints(SectionKind::Counts)?;
        self.check_list(counts.len())?;
        counts.read(0..counts.len()).map(Some)
    }

    /// Rows of the values of `codes`, which ascend. The last may be that of NULL, which is the number of values.
    pub fn take_counts(&self, codes: &[u32]) -> Result<Vec<u32>> {
        let values = self.distinct().unwrap_or_default();
        let (listed, null) = match codes.split_last() {
            Some((last, listed)) if *last as usize == values => (listed, Some(self.null_count() as u32)),
            _ => (codes, None),
        };
        let mut taken = Vec::with_capacity(codes.len());
        if self.encoding() == Encoding::Constant {
            taken.resize(listed.len(), (self.rows() - self.null_count()) as u32);
        } else {
            let counts = self.ints(SectionKind::Counts)?;
            self.check_list(counts.len())?;
            counts.gather(listed, |counts| taken.extend_from_slice(counts))?;
        }
        taken.extend(null);
        Ok(taken)
    }

    /// Appends the place of each row's value in [`Chunk::values`]; for NULL, their number. An error if the encoding has
    /// no value list.
    pub fn codes(&self, rows: Range<usize>, out: &mut Vec<u32>) -> Result<()> {
        self.check_range(&rows)?;
        out.reserve(rows.len());
        let mut check = self.code_check();
        self.row_codes()?.for_each(rows, |codes| {
            check.see(codes);
            out.extend_from_slice(codes);
        })?;
        check.finish()
    }

    /// As [`Chunk::codes`], of single rows, ascending.
    pub fn take_codes(&self, rows: &[u32], out: &mut Vec<u32>) -> Result<()> {
        self.check_rows(rows)?;
        out.reserve(rows.len());
        let mut check = self.code_check();
        self.row_codes()?.gather(rows, |codes| {
            check.see(codes);
            out.extend_from_slice(codes);
        })?;
        check.finish()
    }

    /// Whether [`Chunk::values`], [`Chunk::counts`] and [`Chunk::codes`] have an answer.
    pub fn has_values(&self) -> bool {
        let facts = &self.head.facts;
        facts.encoding.has_list() || (facts.encoding == Encoding::Constant && facts.physical != Physical::Nested)
    }

    pub(super) fn decode(&self, rows: Rows<'_>) -> Result<ArrayRef> {
        self.verify()?;
        match self.head.facts.physical {
            Physical::Float32 => fixed_decode::read_floats::<kinds::Float32>(self, rows),
            Physical::Float64 => fixed_decode::read_floats::<kinds::Float64>(self, rows),
            Physical::Text | Physical::Blob => text::read(self, rows),
            Physical::Nested => nested::read(self, rows),
            physical => with_kind!(physical, K => fixed_decode::read::<K>(self, rows), else Err(self.unsuited())),
        }
    }

    /// The chunks within this one, opened once.
    pub(super) fn inner(&self) -> Result<&[Chunk]> {
        if let Some(inner) = self.inner.get() {
            return Ok(inner);
        }
        let inner = nested::open_inner(self)?;
        Ok(self.inner.get_or_init(|| inner))
    }

    pub(super) fn fixed_list(&self) -> Result<&FixedList> {
        if let Some(list) = self.fixed.get() {
            return Ok(list);
        }
        let _decoding = self.decoding.lock();
        if let Some(list) = self.fixed.get() {
            return Ok(list);
        }
        self.verify()?;
        let list = with_kind!(
            self.head.facts.physical,
            K => {
                self.need_memory(fixed_decode::list_bytes::<K>(self))?;
                fixed_decode::list::<K>(self)?
            },
            else return Err(self.unsuited())
        );
        self.check_list(list.array.len())?;
        self.count_decoded(list.array.len());
        Ok(self.fixed.get_or_init(|| list))
    }

    /// The low words of the value list of a type of 128 bits.
    pub(super) fn low_words(&self) -> Result<&[i64]> {
        if let Some(words) = self.low_words.get() {
            return Ok(words);
        }
        let _decoding = self.decoding.lock();
        if let Some(words) = self.low_words.get() {
            return Ok(words);
        }
        self.verify()?;
        let values = self.ints(SectionKind::Values)?;
        self.check_list(values.len())?;
        self.need_memory(values.len() * size_of::<i64>())?;
        let words = fixed_decode::low_words(self, values)?;
        self.count_decoded(words.len());
        Ok(self.low_words.get_or_init(|| words))
    }

    pub(super) fn string_list(&self) -> Result<&DecodedList> {
        if let Some(list) = self.strings.get() {
            return Ok(list);
        }
        let _decoding = self.decoding.lock();
        if let Some(list) = self.strings.get() {
            return Ok(list);
        }
        let stored = self.stored_strings()?;
        self.need_memory(stored.memory_bytes())?;
        self.count_decoded(stored.len());
        let list = stored.decode(text::kind_of(self.head.facts.physical));
        let list = list.map_err(|error| self.in_section(SectionKind::Values, error))?;
        Ok(self.strings.get_or_init(|| list))
    }

    pub(super) fn is_string(&self) -> bool {
        matches!(self.head.facts.physical, Physical::Text | Physical::Blob)
    }

    /// Whether the value list was decoded before.
    pub(super) fn is_list_decoded(&self) -> bool {
        self.fixed.get().is_some() || self.strings.get().is_some()
    }

    /// The list of strings as it is stored.
    pub(super) fn stored_strings(&self) -> Result<StringList<'_>> {
        let (bytes, _) = self.section_bytes(SectionKind::Values)?;
        let values = self.head.section(SectionKind::Values)?.count as usize;
        self.check_list(values)?;
        StringList::open(bytes, values).map_err(|error| self.in_section(SectionKind::Values, error))
    }

    /// Says where in the chunk an error is.
    pub(super) fn in_section(&self, kind: SectionKind, error: Error) -> Error {
        match self.head.find(kind) {
            Some(section) => error.context(format_args!("byte {} of the chunk", section.offset)),
            None => error,
        }
    }

    pub(super) fn check_list(&self, values: usize) -> Result<()> {
        match self.head.facts.distinct {
            Some(distinct) if distinct == values => Ok(()),
            distinct => {
                Err(Error::corrupt(format!("byte 16 of the chunk: {distinct:?} distinct values, but {values} listed")))
            }
        }
    }

    pub(super) fn row_codes(&self) -> Result<Codes<'_>> {
        self.verify()?;
        Ok(match self.head.facts.encoding {
            Encoding::Constant if self.has_values() => Codes::Constant,
            Encoding::ListCodes => Codes::Packed(self.ints(SectionKind::Codes)?),
            Encoding::ListRuns => {
                Codes::Runs { ends: self.ints(SectionKind::RunEnds)?, codes: self.ints(SectionKind::RunCodes)? }
            }
            Encoding::ListRows => Codes::Rows {
                common: self.head.facts.common,
                rows: self.ints(SectionKind::SingleRows)?,
                row_codes: self.ints(SectionKind::SingleCodes)?,
                starts: self.ints(SectionKind::RunStarts)?,
                lengths: self.ints(SectionKind::RunLengths)?,
                run_codes: self.ints(SectionKind::RunCodes)?,
            },
            encoding => return Err(Error::internal(format!("a chunk stored as {} has no codes", encoding.name()))),
        })
    }

    fn code_check(&self) -> CodeCheck {
        let values = self.head.facts.distinct.unwrap_or_default();
        // Without NULLs their code does not occur.
        CodeCheck { highest: if self.null_count() > 0 { values } else { values.saturating_sub(1) } as u32, signs: 0 }
    }

    pub(super) fn nulls(&self, rows: Rows<'_>) -> Result<Option<NullBuffer>> {
        if self.null_count() == 0 {
            return Ok(None);
        }
        let nulls = match self.head.find(SectionKind::ValidRuns) {
            Some(_) => Nulls::Runs { ends: self.ints(SectionKind::ValidRuns)?, rows: self.rows() },
            None => {
                let (bytes, at) = self.section_bytes(SectionKind::ValidBits)?;
                Nulls::bits(bytes, at, self.rows())?
            }
        };
        match rows {
            Rows::Range(range) => nulls.read(range.clone()),
            Rows::List(rows) => nulls.take(rows),
        }
    }

    /// The sequence of integers in a section.
    pub(super) fn ints(&self, kind: SectionKind) -> Result<Ints<'_>> {
        let (bytes, at) = self.section_bytes(kind)?;
        Ints::open(bytes, at, self.head.section(kind)?.count as usize)
    }

    /// The verified bytes of a section, and where they start.
    pub(super) fn section_bytes(&self, kind: SectionKind) -> Result<(&[u8], usize)> {
        self.verify()?;
        let section = self.head.section(kind)?;
        if let Some(reads) = &self.reads {
            reads.section(section);
        }
        Ok((self.bytes.get(section.offset..section.offset + section.len)?, section.offset))
    }

    pub(super) fn unsuited(&self) -> Error {
        let facts = &self.head.facts;
        let (physical, encoding) = (facts.physical, facts.encoding.name());
        Error::corrupt(format!("byte 6 of the chunk: values of {physical:?} are never stored as {encoding}"))
    }

    pub(super) fn check_range(&self, rows: &Range<usize>) -> Result<()> {
        match rows.start <= rows.end && rows.end <= self.rows() {
            true => Ok(()),
            false => Err(Error::internal(format!("rows {rows:?} of a chunk of {}", self.rows()))),
        }
    }

    fn check_rows(&self, rows: &[u32]) -> Result<()> {
        // Without a branch for each row.
        let ascend =
            rows.iter().zip(&rows[rows.len().min(1)..]).fold(true, |ascend, (row, next)| ascend & (row < next));
        match rows.last() {
            Some(row) if *row as usize >= self.rows() => {
                Err(Error::internal(format!("row {row} of a chunk of {}", self.rows())))
            }
            _ if !ascend => Err(Error::internal("rows of a chunk that do not ascend, each once")),
            _ => Ok(()),
        }
    }
}
