//! Reads JSON lines into record batches.
//!
//! A chunk is walked once. The walk checks it and notes the position of each value of each column. Then it is parsed
//! column by column, like CSV. Objects usually have the same keys in the same order. So we compare a key with the one
//! at the same position in the object before, and look it up only if it differs.
//!
//! | JSON | column |
//! | --- | --- |
//! | `null`, key missing | NULL; the column's default if the key is missing |
//! | string | the text form of the column's type |
//! | number, `true`, `false` | its own text, read as the column's type |
//! | array, object | list, struct; as JSON in TEXT |
//! | every value but `null` | the value itself, in JSON |

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Result, SqlType};

use crate::bad_rows::{BadRows, BlockTexts, Nulls};
use crate::jobs::ReadProgress;
use crate::kept_rows::KeptRows;
use crate::mapping::{TargetColumn, batch_of, unknown_column};
use crate::options::{OnError, ReadOptions, SampleSize};
use crate::report::{Complaint, Quoted, Reporter};
use crate::source_file::SourceFile;
use crate::text_source::{Boundary, CheckedText, ChunkPlan, TextChunk, TextSource, count_lines};
use crate::type_guess::{Guess, plain_key};
use rowmill_expr::session_zone::with_session_zone;
use rowmill_expr::text::column_builder::{BuilderTexts, ColumnBuilder};
use rowmill_expr::text::json::{JsonKind, NotJson, Scanner, next_member_in, unescape};
use rowmill_expr::text::writer::format_value;

/// The number of bytes that are examined to find out how a file is laid out.
const PREVIEW_BYTES: usize = 256 << 10;
/// The number of values that are noted before they are parsed.
const VALUES_PER_BLOCK: usize = 1 << 15;
/// The maximum number of records that are noted before they are parsed.
const RECORDS_PER_BLOCK: usize = 1 << 13;

/// The layout, keys and types of a file.
#[derive(Clone, Debug)]
pub(crate) struct JsonShape {
    pub(crate) boundary: Boundary,
    /// The keys of the objects in the order of their first occurrence, with the types of their values.
    pub(crate) keys: Vec<(String, Guess)>,
    /// The number of objects that the types were guessed from.
    pub(crate) sampled: usize,
}

impl JsonShape {
    /// Examines the beginning of a file.
    pub(crate) fn learn(file: &Arc<SourceFile>, options: &ReadOptions, size: SampleSize) -> Result<JsonShape> {
        let boundary = find_boundary(file)?;
        let mut shape = JsonShape { boundary, keys: Vec::new(), sampled: 0 };
        let mut source = TextSource::open(file, boundary, &ReadProgress::default())?;
        let mut bytes = 0;
        while size.rows_left(shape.sampled, bytes) > 0 {
            let Some(chunk) = source.next_chunk()? else { break };
            let rows_max = size.rows_left(shape.sampled, bytes);
            bytes += chunk.bytes.len();
            shape.add(&CheckedText::new(chunk.bytes).text, options.all_text, rows_max);
        }
        Ok(shape)
    }

    /// Adds the objects of a chunk, at most `rows_max`.
    fn add(&mut self, text: &str, all_text: bool, rows_max: usize) {
        let mut objects = Objects::new(text, self.boundary);
        let end = self.sampled.saturating_add(rows_max);
        while self.sampled < end {
            let Some((place, mut scanner)) = objects.next_object() else { return };
            let mut started = false;
            let mut number = 0;
            // Text that is not JSON ends the loop. The reader reports it later.
            while let Ok(Some((key, value))) = next_member_in(&mut scanner, &mut started) {
                let guess = self.guess_of(number, key);
                if all_text {
                    *guess = Guess::Text;
                } else {
                    guess.add_json(value);
                }
                number += 1;
            }
            objects.pass(&place, &scanner);
            self.sampled += 1;
        }
    }

    /// The guess for the values of a key. The key probably has the same number in this object as in earlier ones.
    fn guess_of(&mut self, number: usize, key: &str) -> &mut Guess {
        let known = match self.keys.get(number) {
            Some((known, _)) if known == key => Some(number),
            _ => {
                let plain = plain_key(key);
                self.keys.iter().position(|(known, _)| *known == plain)
            }
        };
        let place = known.unwrap_or_else(|| {
            self.keys.push((plain_key(key), Guess::Nothing));
            self.keys.len() - 1
        });
        &mut self.keys[place].1
    }

    /// Adds the keys and types of `other`.
    pub(crate) fn merge(&mut self, other: JsonShape) {
        self.sampled += other.sampled;
        for (key, guess) in other.keys {
            match self.keys.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => *known = std::mem::take(known).widen(guess),
                None => self.keys.push((key, guess)),
            }
        }
    }
}

/// Decides whether each object is on a line of its own, or objects may span lines.
fn find_boundary(file: &Arc<SourceFile>) -> Result<Boundary> {
    let mut source = TextSource::open(file, Boundary::Line, &ReadProgress::default())?;
    let (bytes, _) = source.preview(PREVIEW_BYTES)?;
    let text = CheckedText::new(bytes.to_vec()).text;
    let text = text.trim_start();
    if text.starts_with('[') {
        return Ok(Boundary::Value);
    }
    let line = text.lines().next().unwrap_or_default();
    // Only a complete object over several lines shows that layout. A broken line does not.
    let spans_lines = Scanner::new(text, 0).value().is_ok_and(|value| value.len() > line.len());
    Ok(if spans_lines { Boundary::Value } else { Boundary::Line })
}

/// The location of an object.
#[derive(Clone, Copy, Debug)]
struct JsonPosition {
    start: usize,
    /// The end of its line if the object has a line of its own, otherwise the end of the object.
    end: usize,
    line: u64,
}

/// Iterates over the objects of a text.
struct Objects<'a> {
    text: &'a str,
    boundary: Boundary,
    at: usize,
    /// The line of `at`, counted from 0.
    line: u64,
}

impl<'a> Objects<'a> {
    fn new(text: &'a str, boundary: Boundary) -> Objects<'a> {
        Objects { text, boundary, at: 0, line: 0 }
    }

    /// The location of the next object, and a scanner in front of it. [`Objects::pass`] must be called afterwards.
    #[inline]
    fn next_object(&mut self) -> Option<(JsonPosition, Scanner<'a>)> {
        match self.boundary {
            Boundary::Value => self.next_value(),
            _ => self.next_line(),
        }
    }

    #[inline]
    fn next_line(&mut self) -> Option<(JsonPosition, Scanner<'a>)> {
        loop {
            let rest = self.text.as_bytes().get(self.at..).filter(|rest| !rest.is_empty())?;
            let (start, line) = (self.at, self.line);
            self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            self.line += 1;
            let mut scanner = Scanner::new(&self.text[..self.at], start);
            if scanner.peek().is_some() {
                return Some((JsonPosition { start, end: self.at, line }, scanner));
            }
        }
    }

    fn next_value(&mut self) -> Option<(JsonPosition, Scanner<'a>)> {
        let mut scanner = Scanner::new(self.text, self.at);
        // Skip the commas and the closing bracket of an array of objects.
        while scanner.pass(b',') || scanner.pass(b']') {}
        scanner.peek()?;
        let start = scanner.position();
        self.line += count_lines(&self.text.as_bytes()[self.at..start]);
        self.at = start;
        Some((JsonPosition { start, end: self.text.len(), line: self.line }, scanner))
    }

    /// Continues after the object that `scanner` has walked over.
    #[inline]
    fn pass(&mut self, place: &JsonPosition, scanner: &Scanner<'_>) {
        if self.boundary == Boundary::Value {
            // We advance by at least one byte, even if the value is invalid, so that the loop ends.
            let end = scanner.position().max(place.start + 1).min(self.text.len());
            let end = (end..=self.text.len()).find(|at| self.text.is_char_boundary(*at)).unwrap_or(end);
            self.line += count_lines(&self.text.as_bytes()[self.at..end]);
            self.at = end;
        }
    }
}

/// The plan for reading the files of a set into a target.
pub(crate) struct JsonPlan {
    pub(crate) target: Vec<TargetColumn>,
    /// The target column of each key in the sample. `None` means that the key is left out.
    keys: HashMap<String, Option<usize>>,
    /// The target column of each lower-case name, for keys that were not in the sample.
    names: HashMap<String, usize>,
    /// The text of each column's default.
    missing: Vec<Option<String>>,
    ignore_unknown: bool,
    reporter: Reporter,
    guess_hint: Option<String>,
}

impl JsonPlan {
    /// Makes a plan. `keys` maps the keys of the files to the target columns that they are read into.
    pub(crate) fn new(
        target: &[TargetColumn],
        keys: HashMap<String, Option<usize>>,
        ignore_unknown: bool,
        reporter: Reporter,
        guess_hint: Option<String>,
    ) -> Result<JsonPlan> {
        let missing = target.iter().map(|column| match &column.missing {
            Some(value) => format_value(value, 0),
            None => Ok(None),
        });
        Ok(JsonPlan {
            keys,
            names: target.iter().enumerate().map(|(i, column)| (column.name.to_lowercase(), i)).collect(),
            missing: missing.collect::<Result<_>>()?,
            target: target.to_vec(),
            ignore_unknown,
            reporter,
            guess_hint,
        })
    }

    /// The column of a key. `Ok(None)` means that the value is left out, and an error that the column does not exist.
    fn column(&self, key: &str) -> Result<Option<usize>, ()> {
        if let Some(column) = self.keys.get(key) {
            return Ok(*column);
        }
        match self.names.get(&key.to_lowercase()) {
            Some(column) => Ok(Some(*column)),
            None if self.ignore_unknown => Ok(None),
            None => Err(()),
        }
    }
}

impl ChunkPlan for JsonPlan {
    fn target(&self) -> &[TargetColumn] {
        &self.target
    }

    fn parse(&self, schema: &SchemaRef, chunk: TextChunk) -> Result<RecordBatch> {
        JsonChunkParser::parse(self, schema, chunk)
    }
}

/// The position of a value. Empty if its key is missing.
#[derive(Clone, Copy, Default)]
struct JsonSpan {
    start: u32,
    end: u32,
}

/// The state of parsing one chunk.
struct JsonChunkParser<'a> {
    plan: &'a JsonPlan,
    file: &'a str,
    text: &'a str,
    first_line: u64,
    boundary: Boundary,
    /// The bytes that were not UTF-8 and that are still ahead.
    invalid: &'a [(usize, u8)],
    builders: Vec<ColumnBuilder>,
    kept: KeptRows,
    /// The keys of the object before, in their order, with their columns.
    last_keys: Vec<(&'a str, Option<usize>)>,
    scratch: String,
}

#[derive(Default)]
struct JsonBlock {
    places: Vec<JsonPosition>,
    /// The values of all records: one position for each column of the target.
    spans: Vec<JsonSpan>,
    /// A complaint about the record after the last one, if it must end the statement.
    complaint: Option<(Complaint, JsonPosition)>,
}

impl<'a> JsonChunkParser<'a> {
    fn parse(plan: &JsonPlan, schema: &SchemaRef, chunk: TextChunk) -> Result<RecordBatch> {
        let checked = CheckedText::new(chunk.bytes);
        let rows_expected = checked.text.len() / (plan.target.len().max(1) * 16) + 1;
        let mut parser = JsonChunkParser {
            plan,
            file: &chunk.file.name,
            text: &checked.text,
            first_line: chunk.first_line,
            boundary: chunk.boundary,
            invalid: &checked.invalid,
            // Files keep to UTC, whatever thread reads them.
            builders: with_session_zone(None, || {
                plan.target.iter().map(|column| ColumnBuilder::new(&column.kind, rows_expected)).collect()
            }),
            kept: KeptRows::default(),
            last_keys: Vec::new(),
            scratch: String::new(),
        };
        // Walk and parse in turns, so that the noted positions stay in the cache.
        let mut objects = Objects::new(&checked.text, chunk.boundary);
        let mut block = JsonBlock::default();
        while parser.walk(&mut objects, &mut block)? {
            parser.parse_block(&mut block)?;
        }
        let columns = parser.builders.iter_mut().map(ColumnBuilder::finish).collect();
        let (columns, rows) = parser.kept.apply(columns)?;
        batch_of(schema, columns, rows)
    }

    /// Notes the values of the next objects. Returns `false` at the end of the chunk.
    fn walk(&mut self, objects: &mut Objects<'a>, block: &mut JsonBlock) -> Result<bool> {
        block.places.clear();
        block.spans.clear();
        let width = self.plan.target.len();
        while block.spans.len() < VALUES_PER_BLOCK && block.places.len() < RECORDS_PER_BLOCK {
            let Some((mut place, mut scanner)) = objects.next_object() else { break };
            let before = block.spans.len();
            block.spans.resize(before + width, JsonSpan::default());
            let mut walked = self.walk_object(&mut scanner, &mut place, &mut block.spans[before..]);
            objects.pass(&place, &scanner);
            if self.boundary == Boundary::Value {
                place.end = objects.at;
            }
            if let Some(complaint) = self.pass_invalid(&place) {
                walked = walked.and(Err(complaint));
            }
            let Err(complaint) = walked else {
                block.places.push(place);
                continue;
            };
            block.spans.truncate(before);
            // Rows before this record may have bad values, and the first error must win. So the block is parsed before
            // we report this one.
            if self.plan.reporter.on_error == OnError::Fail {
                block.complaint = Some((complaint, place));
                return Ok(true);
            }
            if self.boundary == Boundary::Value && complaint.column.is_none() {
                // Without line boundaries, we cannot tell where the next object starts.
                return Err(complaint.into_error(self.file, self.first_line + place.line));
            }
            self.report(complaint, &place)?;
        }
        Ok(!block.places.is_empty())
    }

    fn report(&self, complaint: Complaint, place: &JsonPosition) -> Result<()> {
        let line = self.first_line + place.line;
        self.plan.reporter.report(complaint, self.file, line, &self.text[place.start..place.end])
    }

    fn walk_object(
        &mut self,
        scanner: &mut Scanner<'a>,
        place: &mut JsonPosition,
        spans: &mut [JsonSpan],
    ) -> Result<(), Complaint> {
        let mut started = false;
        let mut number = 0;
        loop {
            let member = next_member_in(scanner, &mut started).map_err(|error| self.not_json(place, &error))?;
            let Some((key, value)) = member else { break };
            let column = match self.last_keys.get(number) {
                Some((last, column)) if *last == key => *column,
                _ => self.look_up(number, key)?,
            };
            number += 1;
            let Some(column) = column else { continue };
            let (start, end) = (scanner.position() - value.len(), scanner.position());
            if JsonKind::of(value) == JsonKind::String && value.contains('\\') {
                self.scratch.clear();
                let unescaped = unescape(&value[1..value.len() - 1], &mut self.scratch);
                unescaped.map_err(|error| self.not_json(place, &NotJson { at: start + 1 + error.at, ..error }))?;
            }
            spans[column] = JsonSpan { start: start as u32, end: end as u32 };
        }
        if self.boundary != Boundary::Value && scanner.peek().is_some() {
            return Err(self.not_json(place, &scanner.error("the end of the line")));
        }
        Ok(())
    }

    /// Finds the column of a key and remembers it for the same position in later objects.
    fn look_up(&mut self, number: usize, key: &'a str) -> Result<Option<usize>, Complaint> {
        let found = if key.contains('\\') { self.plan.column(&plain_key(key)) } else { self.plan.column(key) };
        let Ok(column) = found else { return Err(self.unknown_key(key)) };
        // The keys after this position belonged to another layout of objects.
        self.last_keys.truncate(number);
        if self.last_keys.len() == number {
            self.last_keys.push((key, column));
        }
        Ok(column)
    }

    fn unknown_key(&self, key: &str) -> Complaint {
        let error = unknown_column(self.file, key, &self.plan.target);
        let hint = self.plan.guess_hint.as_deref().or(error.hint_text()).unwrap_or_default().to_owned();
        Complaint {
            kind: error.kind(),
            column: Some(key.to_owned()),
            text: key.to_owned(),
            message: "there is no such column to load".to_owned(),
            hint: Some(hint),
        }
    }

    /// Makes the complaint about text that is not JSON. Moves `place` to the line of the error.
    fn not_json(&self, place: &mut JsonPosition, error: &NotJson) -> Complaint {
        // A scanner skips the line end to see what follows. Nothing after it belongs to this record.
        let end = place.start + self.text[place.start..place.end].trim_end().len();
        let at = error.at.min(end);
        let before = &self.text[place.start..at];
        place.line += count_lines(before.as_bytes());
        let character = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let rest = self.text[at..end].lines().next().unwrap_or_default();
        let found = if rest.trim().is_empty() { "the end of the line".to_owned() } else { Quoted(rest).to_string() };
        Complaint::line(format!("at character {character}, {} is expected and not {found}", error.expected))
    }

    /// Skips the invalid bytes up to the end of a record. Returns a complaint about the first one within the record.
    fn pass_invalid(&mut self, place: &JsonPosition) -> Option<Complaint> {
        let passed = self.invalid.iter().take_while(|(at, _)| *at < place.end).count();
        let (these, later) = self.invalid.split_at(passed);
        self.invalid = later;
        let (_, byte) = these.iter().find(|(at, _)| *at >= place.start)?;
        Some(
            Complaint::line(format!("the line holds the byte 0x{byte:02X}, which is not UTF-8"))
                .hint("convert the file to UTF-8, for example: iconv -f LATIN1 -t UTF-8"),
        )
    }

    fn parse_block(&mut self, block: &mut JsonBlock) -> Result<()> {
        let (plan, text, rows) = (self.plan, self.text, block.places.len());
        let texts = |column: usize| JsonMembers::new(text, &block.spans, plan, column);
        let mut bad = BadRows::default();
        for (column, builder) in self.builders.iter_mut().enumerate() {
            bad.append(column, builder, &mut texts(column), rows);
        }
        for (row, complaint) in bad.complaints(&plan.target, plan.guess_hint.as_deref(), texts) {
            self.report(complaint, &block.places[row])?;
        }
        self.kept.add(rows, bad.into_rows());
        match block.complaint.take() {
            Some((complaint, place)) => self.report(complaint, &place),
            None => Ok(()),
        }
    }
}

/// The texts of one column of a block.
struct JsonMembers<'a> {
    text: &'a str,
    spans: &'a [JsonSpan],
    width: usize,
    column: usize,
    missing: Option<&'a str>,
    /// Whether the column takes documents, so that a string keeps its quotes.
    takes_documents: bool,
    nulls: Nulls,
    scratch: String,
}

impl<'a> JsonMembers<'a> {
    fn new(text: &'a str, spans: &'a [JsonSpan], plan: &'a JsonPlan, column: usize) -> JsonMembers<'a> {
        JsonMembers {
            text,
            spans,
            width: plan.target.len(),
            column,
            missing: plan.missing[column].as_deref(),
            takes_documents: plan.target[column].kind == SqlType::Json,
            nulls: Nulls::new(&plan.target[column]),
            scratch: String::new(),
        }
    }
}

impl BlockTexts for JsonMembers<'_> {
    fn nulls(&mut self) -> &mut Nulls {
        &mut self.nulls
    }
}

impl BuilderTexts for JsonMembers<'_> {
    #[inline(always)]
    fn text(&mut self, row: usize) -> Option<&str> {
        let span = self.spans[row * self.width + self.column];
        // No value ends at 0, so this means that the key is missing.
        if span.end == 0 {
            return match self.missing {
                Some(text) => Some(text),
                None => self.nulls.null(row),
            };
        }
        let text = self.text;
        let value = &text[span.start as usize..span.end as usize];
        match JsonKind::of(value) {
            JsonKind::Null => self.nulls.null(row),
            JsonKind::String if !self.takes_documents => {
                let inside = &value[1..value.len() - 1];
                if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
                    return Some(inside);
                }
                self.scratch.clear();
                unescape(inside, &mut self.scratch).expect("the walk checked the escapes");
                Some(&self.scratch)
            }
            _ => Some(value),
        }
    }
}

/// Maps the keys of files to target columns by name, ignoring case. Each column takes one key. A key without a column
/// is an error, or is left for the lines that have it to report.
pub(crate) fn columns_of_keys(
    file: &str,
    keys: &[String],
    names: &[String],
    target: &[TargetColumn],
    options: &ReadOptions,
) -> Result<HashMap<String, Option<usize>>> {
    let places: HashMap<String, usize> =
        target.iter().enumerate().map(|(i, column)| (column.name.to_lowercase(), i)).collect();
    let mut columns = HashMap::with_capacity(keys.len());
    for (key, name) in keys.iter().zip(names) {
        let column = places.get(&name.to_lowercase()).copied();
        if column.is_some() || options.ignore_unknown {
            columns.insert(key.clone(), column);
        } else if options.on_error == OnError::Fail {
            return Err(unknown_column(file, name, target));
        }
    }
    Ok(columns)
}
