//! Reads text files as chunks of whole records.
//!
//! A source reads a file from front to back, decompresses it if necessary, and cuts it after the last complete record.
//! Cutting only searches for line ends and quotes, which touches few bytes. So it can run under a lock, while many
//! threads share the parsing of chunks. The bytes after the cut are carried over to the next chunk.
//!
//! ```text
//! file   ..., 17, "two\nlines"⏎18, plain⏎19, "cut he|re"⏎20, ...
//!        ◄────────────── chunk ────────────────►◄─ carried over
//! ```
//!
//! The end of a record depends on the format, see [`Boundary`]. A quote that is never closed would swallow the rest of
//! the file. So after [`RECORD_BYTES_MAX`] bytes, or at the end of the file, only its first line is handed out, and
//! reading continues after that line.

use std::io::Read;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use memchr::{memchr, memchr_iter, memrchr};
use parking_lot::Mutex;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::text::json::closing_quote;

use crate::guard::{damaged, own_error};
use crate::jobs::{Job, Jobs, ReadProgress};
use crate::mapping::{TargetColumn, schema_of};
use crate::options::Compression;
use crate::pattern::unreadable;
use crate::source_file::SourceFile;

/// The size of a chunk in bytes, unless its records are longer.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// The maximum size of a record in bytes.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;

/// The kind of record boundary of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// At every line end, for JSON lines and for CSV without quoting.
    Line,
    /// At line ends outside of quotes. A quote opens only at the start of a field.
    Quoted { delimiter: u8, quote: u8, escape: u8 },
    /// After a JSON value, for objects over several lines and for the items of an array.
    Value,
}

/// The result of searching the last boundary.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    /// The number of bytes in complete records.
    whole: usize,
    /// Whether the bytes end within quotes.
    open: bool,
}

impl Boundary {
    /// Finds the end of the last complete record in `bytes`, which must start at a record. `last` means that nothing
    /// follows, so that the end is a boundary too.
    fn cut(self, bytes: &[u8], last: bool) -> Cut {
        let cut = match self {
            Boundary::Line => Cut { whole: behind_last_line(bytes), open: false },
            Boundary::Quoted { delimiter, quote, escape } => cut_quoted(bytes, delimiter, quote, escape, last),
            Boundary::Value => cut_value(bytes),
        };
        if last && !cut.open { Cut { whole: bytes.len(), open: false } } else { cut }
    }
}

fn behind_last_line(bytes: &[u8]) -> usize {
    memrchr(b'\n', bytes).map_or(0, |at| at + 1)
}

fn cut_quoted(bytes: &[u8], delimiter: u8, quote: u8, escape: u8, last: bool) -> Cut {
    let mut whole = 0;
    // `outside` is a position outside of quotes. Line ends between it and the next opening quote are boundaries.
    let mut outside = 0;
    loop {
        let Some(found) = memchr(quote, &bytes[outside..]) else {
            let behind = behind_last_line(&bytes[outside..]);
            return Cut { whole: if behind > 0 { outside + behind } else { whole }, open: false };
        };
        let opening = outside + found;
        let behind = behind_last_line(&bytes[outside..opening]);
        if behind > 0 {
            whole = outside + behind;
        }
        let starts_field = opening == 0 || bytes[opening - 1] == b'\n' || bytes[opening - 1] == delimiter;
        if !starts_field {
            outside = opening + 1;
            continue;
        }
        match closing_quote(bytes, opening + 1, quote, escape) {
            // A quote at the very end may be the first of two, unless nothing follows.
            Some(closing) if closing + 1 < bytes.len() || last => outside = closing + 1,
            _ => return Cut { whole, open: true },
        }
    }
}

/// Cuts after the last object or array at depth 0, or after the last line at depth 0 for plain values.
fn cut_value(bytes: &[u8]) -> Cut {
    let mut whole = 0;
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    whole = at + 1;
                }
            }
            b'"' => match closing_quote(bytes, at + 1, b'"', b'\\') {
                Some(closing) => at = closing,
                None => return Cut { whole, open: false },
            },
            _ => {}
        }
        at += 1;
    }
    Cut { whole, open: false }
}

/// Whole records of one file.
#[derive(Debug)]
pub(crate) struct TextChunk {
    pub(crate) file: Arc<SourceFile>,
    pub(crate) bytes: Vec<u8>,
    /// The line number of the first record, counted from 1.
    pub(crate) first_line: u64,
    /// Whether this is the first chunk of the file, which has the header.
    pub(crate) first: bool,
    /// The kind of record boundary.
    pub(crate) boundary: Boundary,
}

/// A file that is cut into chunks.
pub(crate) struct TextSource {
    file: Arc<SourceFile>,
    reader: Box<dyn Read + Send>,
    boundary: Boundary,
    /// Bytes that were read but not yet handed out. They start at a record.
    carried: Vec<u8>,
    line: u64,
    first: bool,
    ended: bool,
    /// For a JSON array, whether its closing bracket is still ahead.
    array_open: bool,
}

impl TextSource {
    pub(crate) fn open(file: &Arc<SourceFile>, boundary: Boundary, progress: &ReadProgress) -> Result<TextSource> {
        let mut source = TextSource {
            file: Arc::clone(file),
            reader: file.open_text(progress)?,
            boundary,
            carried: Vec::new(),
            line: 1,
            first: true,
            ended: false,
            array_open: false,
        };
        source.skip_byte_order_mark()?;
        source.skip_lines(file.skipped_lines)?;
        if boundary == Boundary::Value {
            source.skip_array_bracket()?;
        }
        Ok(source)
    }

    fn skip_byte_order_mark(&mut self) -> Result<()> {
        self.fill(4)?;
        if self.carried.starts_with(b"\xEF\xBB\xBF") {
            self.carried.drain(..3);
        } else if self.carried.starts_with(b"\xFF\xFE") || self.carried.starts_with(b"\xFE\xFF") {
            return Err(Error::new(ErrorKind::BadFileFormat, format!("{} is encoded as UTF-16", self.file.name))
                .hint("convert it to UTF-8: iconv -f UTF-16 -t UTF-8"));
        }
        Ok(())
    }

    /// Passes over the lines that the statement leaves out.
    fn skip_lines(&mut self, lines: usize) -> Result<()> {
        for _ in 0..lines {
            let mut wanted = CHUNK_BYTES;
            let end = loop {
                self.fill(wanted)?;
                match memchr(b'\n', &self.carried) {
                    Some(at) => break at + 1,
                    None if self.ended => break self.carried.len(),
                    None => wanted = self.carried.len() * 2,
                }
            };
            self.carried.drain(..end);
            self.line += 1;
        }
        Ok(())
    }

    /// Replaces the opening bracket of an array by a blank, because its items are the records.
    fn skip_array_bracket(&mut self) -> Result<()> {
        self.fill(CHUNK_BYTES)?;
        let first = self.carried.iter_mut().find(|byte| !byte.is_ascii_whitespace());
        if let Some(bracket @ b'[') = first {
            *bracket = b' ';
            self.array_open = true;
        }
        Ok(())
    }

    /// Reads until at least `bytes` bytes are carried, or the file ends.
    fn fill(&mut self, bytes: usize) -> Result<()> {
        // A short read means the end, because `take` reads until its limit.
        let missing = bytes.saturating_sub(self.carried.len());
        if missing == 0 || self.ended {
            return Ok(());
        }
        let mut limited = (&mut self.reader).take(missing as u64);
        let read = limited.read_to_end(&mut self.carried).map_err(|error| self.failed(&error))?;
        self.ended = read < missing;
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        if let Some(own) = own_error(error) {
            return own;
        }
        match self.file.compression {
            Compression::None => unreadable(&self.file.name, error),
            _ => damaged(&self.file.name, error),
        }
    }

    /// The first `bytes` bytes of the text, or fewer if it is shorter, and whether the file has ended. Hands out
    /// nothing.
    pub(crate) fn preview(&mut self, bytes: usize) -> Result<(&[u8], bool)> {
        self.fill(bytes)?;
        Ok((&self.carried, self.ended))
    }

    /// The next records, about [`CHUNK_BYTES`]. `None` at the end of the file.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<TextChunk>> {
        let mut wanted = CHUNK_BYTES;
        loop {
            self.fill(wanted)?;
            if self.carried.is_empty() {
                return if self.array_open {
                    Err(damaged(&self.file.name, "its array has no closing bracket"))
                } else {
                    Ok(None)
                };
            }
            let cut = self.boundary.cut(&self.carried, self.ended);
            if cut.whole > 0 {
                return Ok(Some(self.hand_out(cut.whole)));
            }
            // A quote that nothing closes costs only its first line.
            if cut.open && (self.ended || self.carried.len() >= RECORD_BYTES_MAX) {
                let line = memchr(b'\n', &self.carried).map_or(self.carried.len(), |at| at + 1);
                return Ok(Some(self.hand_out(line)));
            }
            if self.carried.len() >= RECORD_BYTES_MAX {
                return Err(Error::new(
                    ErrorKind::BadFileFormat,
                    format!(
                        "{}, line {}: the record is longer than {} MiB",
                        self.file.name,
                        self.line,
                        RECORD_BYTES_MAX >> 20
                    ),
                )
                .hint("the file may be of another format; WITH (format ...) names one"));
            }
            // No record is complete yet, so read twice as much.
            wanted = (self.carried.len() * 2).clamp(CHUNK_BYTES, RECORD_BYTES_MAX);
        }
    }

    fn hand_out(&mut self, bytes: usize) -> TextChunk {
        let rest = self.carried.split_off(bytes);
        let bytes = std::mem::replace(&mut self.carried, rest);
        let first_line = self.line;
        // The closing bracket of the array ends its last chunk.
        self.array_open &= bytes.trim_ascii_end().last() != Some(&b']');
        self.line += count_lines(&bytes);
        let first = std::mem::take(&mut self.first);
        TextChunk { file: Arc::clone(&self.file), bytes, first_line, first, boundary: self.boundary }
    }
}

/// The chunks of several files, one file after another, for any number of threads.
pub(crate) struct ChunkQueue {
    progress: ReadProgress,
    files: Mutex<Files>,
}

struct Files {
    waiting: std::vec::IntoIter<(Arc<SourceFile>, Boundary)>,
    open: Option<TextSource>,
}

impl ChunkQueue {
    pub(crate) fn new(files: Vec<(Arc<SourceFile>, Boundary)>, progress: ReadProgress) -> ChunkQueue {
        ChunkQueue { progress, files: Mutex::new(Files { waiting: files.into_iter(), open: None }) }
    }

    /// The next chunk. `None` after the last file.
    pub(crate) fn next_chunk(&self) -> Result<Option<TextChunk>> {
        // The lock covers reading and cutting, so that chunks come in the order of the files.
        let mut files = self.files.lock();
        loop {
            if let Some(source) = &mut files.open {
                if let Some(chunk) = source.next_chunk()? {
                    return Ok(Some(chunk));
                }
                files.open = None;
            }
            match files.waiting.next() {
                Some((file, boundary)) => files.open = Some(TextSource::open(&file, boundary, &self.progress)?),
                None => return Ok(None),
            }
        }
    }
}

/// The way in which chunks become rows.
pub(crate) trait ChunkPlan: Send + Sync + 'static {
    /// The columns of the rows.
    fn target(&self) -> &[TargetColumn];

    /// Parses a chunk. The result has `schema`, which follows from the target.
    fn parse(&self, schema: &SchemaRef, chunk: TextChunk) -> Result<RecordBatch>;
}

/// Reads files chunk by chunk.
pub(crate) struct ChunkJobs<P> {
    plan: Arc<P>,
    schema: SchemaRef,
    chunks: ChunkQueue,
}

impl<P: ChunkPlan> ChunkJobs<P> {
    pub(crate) fn new(plan: P, chunks: ChunkQueue) -> ChunkJobs<P> {
        ChunkJobs { schema: schema_of(plan.target()), plan: Arc::new(plan), chunks }
    }
}

impl<P: ChunkPlan> Jobs for ChunkJobs<P> {
    fn next_job(&self) -> Result<Option<Job>> {
        let Some(chunk) = self.chunks.next_chunk()? else { return Ok(None) };
        let (plan, schema) = (Arc::clone(&self.plan), Arc::clone(&self.schema));
        Ok(Some(Box::new(move || plan.parse(&schema, chunk))))
    }
}

/// The number of line ends in `bytes`.
pub(crate) fn count_lines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// The text of a chunk, with bytes that are not UTF-8 replaced by blanks.
pub(crate) struct CheckedText {
    pub(crate) text: String,
    /// The position and value of each replaced byte, in order.
    pub(crate) invalid: Vec<(usize, u8)>,
}

impl CheckedText {
    /// Checks `bytes`. Positions do not change.
    pub(crate) fn new(bytes: Vec<u8>) -> CheckedText {
        let mut invalid = Vec::new();
        let mut from = 0;
        let mut bytes = bytes;
        loop {
            match String::from_utf8(bytes) {
                Ok(text) => return CheckedText { text, invalid },
                Err(error) => {
                    // All bad bytes are replaced at once. Then the whole text is checked again, which succeeds.
                    bytes = error.into_bytes();
                    blank_invalid(&mut bytes, &mut from, &mut invalid);
                }
            }
        }
    }
}

/// Replaces every byte from `from` on that is not part of a UTF-8 character by a blank.
fn blank_invalid(bytes: &mut [u8], from: &mut usize, invalid: &mut Vec<(usize, u8)>) {
    while let Err(error) = str::from_utf8(&bytes[*from..]) {
        let start = *from + error.valid_up_to();
        let end = error.error_len().map_or(bytes.len(), |length| start + length);
        for (at, byte) in bytes.iter_mut().enumerate().take(end).skip(start) {
            invalid.push((at, *byte));
            *byte = b' ';
        }
        *from = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::FileLocation;

    const CSV: Boundary = Boundary::Quoted { delimiter: b',', quote: b'"', escape: b'"' };
    const BACKSLASH: Boundary = Boundary::Quoted { delimiter: b',', quote: b'"', escape: b'\\' };

    fn whole(boundary: Boundary, text: &str) -> usize {
        boundary.cut(text.as_bytes(), false).whole
    }

    #[test]
    fn records_are_cut_only_outside_of_quotes() {
        assert_eq!(whole(CSV, "a,b\nc,d\ne"), 8);
        assert_eq!(whole(CSV, "a,\"b\nc\",d\ne"), 10);
        assert_eq!(whole(CSV, "a\nb,\"c\nd"), 2);
        assert_eq!(whole(CSV, "a\n\"b\"\"\n\"\nc"), 9);
        assert_eq!(whole(CSV, "it\"s\nb"), 5, "a quote inside of a field is a character");
        assert_eq!(whole(BACKSLASH, "\"a\\\"\n\"\nb"), 7);
        assert_eq!(whole(CSV, "abc"), 0);
        assert!(CSV.cut(b"a\n\"b", true).open);
        assert_eq!(CSV.cut(b"a\n\"b\"", true), Cut { whole: 5, open: false });
        assert!(CSV.cut(b"a\n\"b\"", false).open, "one more quote may follow");
        assert_eq!(whole(Boundary::Line, "{\"a\": \"\n\n{"), 9);
        assert_eq!(whole(Boundary::Value, "{\"a\": \"}\"}\n{\"b\""), 10);
    }

    #[test]
    fn an_array_returns_its_items_and_must_be_closed() {
        let items = chunks(b" [\n{\"a\": [1]},\n{\"a\": []}]\n", Boundary::Value);
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].bytes, b"  \n{\"a\": [1]},\n{\"a\": []}]\n");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.json");
        std::fs::write(&path, "[{\"a\": 1}, {\"a\": 2}").expect("written");
        let file = Arc::new(
            SourceFile::new(&FileLocation::Disk(path), Compression::None, &rowmill_base::Cancel::new()).expect("there"),
        );
        let mut source = TextSource::open(&file, Boundary::Value, &ReadProgress::default()).expect("opened");
        assert!(source.next_chunk().expect("items").is_some());
        assert_eq!(source.next_chunk().unwrap_err().kind(), ErrorKind::BadFileFormat);
    }

    fn chunks(text: &[u8], boundary: Boundary) -> Vec<TextChunk> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.csv");
        std::fs::write(&path, text).expect("written");
        let file = Arc::new(
            SourceFile::new(&FileLocation::Disk(path), Compression::None, &rowmill_base::Cancel::new()).expect("there"),
        );
        let mut source = TextSource::open(&file, boundary, &ReadProgress::default()).expect("opened");
        std::iter::from_fn(|| source.next_chunk().expect("read")).collect()
    }

    #[test]
    fn joined_chunks_equal_the_file_and_have_the_right_line_numbers() {
        let mut text = String::from("\u{feff}");
        for i in 0..200_000 {
            text.push_str(&format!("{i},\"line\nbreak {i}\"\n"));
        }
        let chunks = chunks(text.as_bytes(), CSV);
        assert!(chunks.len() > 2);
        let mut together = Vec::new();
        for chunk in &chunks {
            assert_eq!(chunk.first_line, 1 + count_lines(&together));
            assert_eq!(chunk.first, together.is_empty());
            together.extend_from_slice(&chunk.bytes);
        }
        assert_eq!(together, &text.as_bytes()[3..]);
    }

    #[test]
    fn an_unclosed_quote_costs_only_one_line() {
        let chunks = chunks(b"a,b\n1,\"x\n2,y\n3,z\n", CSV);
        let seen: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.bytes.as_slice()).collect();
        assert_eq!(seen, [&b"a,b\n"[..], b"1,\"x\n", b"2,y\n3,z\n"]);
        assert_eq!(chunks[2].first_line, 3);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_found_and_blanked() {
        let checked = CheckedText::new(b"gr\xFC\xDFe, \xC3\xA9, \xE2\x82".to_vec());
        assert_eq!(checked.text, "gr  e, é,   ");
        assert_eq!(checked.invalid, [(2, 0xFC), (3, 0xDF), (11, 0xE2), (12, 0x82)]);
        assert!(CheckedText::new("grün".into()).invalid.is_empty());
    }

    #[test]
    fn compressed_text_is_unpacked_and_damage_is_an_error() {
        use std::io::Write;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"a,b\n1,2\n").expect("packed");
        let packed = gzip.finish().expect("packed");
        let read = |bytes: &[u8], compression| {
            let path = folder.path().join("a.csv.gz");
            std::fs::write(&path, bytes).expect("written");
            let file = Arc::new(SourceFile::new(&FileLocation::Disk(path), compression, &rowmill_base::Cancel::new())?);
            let mut source = TextSource::open(&file, CSV, &ReadProgress::default())?;
            Ok::<_, Error>(source.next_chunk()?.expect("records").bytes)
        };
        assert_eq!(read(&packed, Compression::Gzip).expect("sound"), b"a,b\n1,2\n");
        assert_eq!(read(&packed[..packed.len() - 9], Compression::Gzip).unwrap_err().kind(), ErrorKind::BadFileFormat);
        let packed = zstd::encode_all(&b"a,b\n"[..], 1).expect("packed");
        assert_eq!(read(&packed, Compression::Zstd).expect("sound"), b"a,b\n");
        assert_eq!(read(b"not packed", Compression::Zstd).unwrap_err().kind(), ErrorKind::BadFileFormat);
        assert_eq!(read(b"\xFF\xFEa\0", Compression::None).unwrap_err().kind(), ErrorKind::BadFileFormat);
    }
}
