//! Reads CSV chunks into record batches.
//!
//! A chunk is scanned into the spans of its fields, some thousand records at a time, so that text and spans stay in the
//! cache. Then it is parsed column by column. A record with a wrong number of fields, or a value that does not fit its
//! column, is a complaint. Then the statement either fails with the complaint on the first line, or reports all of them
//! and leaves out their rows.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Error, Result, SqlType};

use crate::bad_rows::{BadRows, BlockTexts, Nulls};
use crate::csv_scan::{BadRecord, Dialect, FieldSpan, RecordPlace, RecordScanner, trimmed, undo_escapes};
use crate::kept_rows::KeptRows;
use crate::mapping::{TargetColumn, batch_of};
use crate::report::{Complaint, Quoted, Reporter};
use crate::text_source::{CheckedText, ChunkPlan, TextChunk};
use rowmill_expr::session_zone::with_session_zone;
use rowmill_expr::text::column_builder::{BuilderTexts, ColumnBuilder};

/// The number of spans that are scanned before they are parsed.
const FIELDS_PER_BLOCK: usize = 1 << 15;
/// The maximum number of records that are scanned before they are parsed.
const RECORDS_PER_BLOCK: usize = 1 << 13;

/// The plan for reading the files of a set into a target.
#[derive(Debug)]
pub(crate) struct CsvPlan {
    pub(crate) dialect: Dialect,
    pub(crate) header: bool,
    /// The number of fields of a record.
    pub(crate) width: usize,
    pub(crate) target: Vec<TargetColumn>,
    /// For each target column, the field that it is read from.
    pub(crate) fields: Vec<Option<usize>>,
    pub(crate) reporter: Reporter,
    /// The hint for a value that does not have the guessed type of its column.
    pub(crate) guess_hint: Option<String>,
}

impl ChunkPlan for CsvPlan {
    fn target(&self) -> &[TargetColumn] {
        &self.target
    }

    fn parse(&self, schema: &SchemaRef, chunk: TextChunk) -> Result<RecordBatch> {
        ChunkParser::parse(self, schema, chunk)
    }
}

/// The state of parsing one chunk.
struct ChunkParser<'a> {
    plan: &'a CsvPlan,
    file: &'a str,
    text: &'a str,
    /// The bytes that were not UTF-8 and that are still ahead.
    invalid: &'a [(usize, u8)],
    builders: Vec<ColumnBuilder>,
    kept: KeptRows,
}

/// Records between scanning and parsing.
#[derive(Default)]
struct CsvBlock {
    places: Vec<RecordPlace>,
    /// The fields of all records, `width` for each.
    spans: Vec<FieldSpan>,
    /// A complaint about the line after the last record, if it must end the statement.
    complaint: Option<(Complaint, RecordPlace)>,
}

impl<'a> ChunkParser<'a> {
    fn parse(plan: &CsvPlan, schema: &SchemaRef, chunk: TextChunk) -> Result<RecordBatch> {
        let checked = CheckedText::new(chunk.bytes);
        // A rough guess of eight bytes per field. It only sizes the first allocation.
        let rows_expected = checked.text.len() / (plan.width * 8) + 1;
        let read = plan.target.iter().zip(&plan.fields).filter(|(_, field)| field.is_some());
        let mut parser = ChunkParser {
            plan,
            file: &chunk.file.name,
            text: &checked.text,
            invalid: &checked.invalid,
            // Files keep to UTC, whatever thread reads them.
            builders: with_session_zone(None, || {
                read.map(|(column, _)| ColumnBuilder::new(&column.kind, rows_expected)).collect()
            }),
            kept: KeptRows::default(),
        };
        let mut scanner = RecordScanner::new(&checked.text, &plan.dialect, chunk.first_line);
        if chunk.first && plan.header {
            parser.skip_header(&mut scanner);
        }
        let mut block = CsvBlock::default();
        while parser.scan(&mut scanner, &mut block)? {
            parser.parse_block(&mut block)?;
        }
        parser.finish(schema)
    }

    /// Skips the header: the first record that is not blank.
    fn skip_header(&mut self, scanner: &mut RecordScanner<'_>) {
        let mut fields = Vec::new();
        while let Some((place, _)) = scanner.next_record(&mut fields) {
            self.pass_invalid(&place);
            if !is_blank(&fields) {
                return;
            }
            fields.clear();
        }
    }

    /// Scans the next block of records. Returns `false` at the end of the chunk.
    fn scan(&mut self, scanner: &mut RecordScanner<'_>, block: &mut CsvBlock) -> Result<bool> {
        block.places.clear();
        block.spans.clear();
        let width = self.plan.width;
        while block.spans.len() < FIELDS_PER_BLOCK && block.places.len() < RECORDS_PER_BLOCK {
            let before = block.spans.len();
            let Some((place, scanned)) = scanner.next_record(&mut block.spans) else { break };
            let found = block.spans.len() - before;
            // The usual case: a sound record, and no invalid bytes ahead.
            if scanned.is_ok() && found == width && self.invalid.is_empty() {
                block.places.push(place);
                continue;
            }
            // Blank lines are skipped, unless the file has one column: then a blank line is a NULL.
            if scanned.is_ok() && width > 1 && is_blank(&block.spans[before..]) {
                block.spans.truncate(before);
                continue;
            }
            let invalid = self.pass_invalid(&place);
            let complaint = match (scanned, invalid) {
                (Err(bad), _) => self.bad_record(bad),
                (Ok(()), Some((at, byte))) => self.bad_byte(&block.spans[before..], at, byte),
                (Ok(()), None) if found != width => self.bad_width(found),
                (Ok(()), None) => {
                    block.places.push(place);
                    continue;
                }
            };
            block.spans.truncate(before);
            if self.plan.reporter.on_error == crate::OnError::Fail {
                // A line before this one may have a bad value, and the first error must win. So the block is parsed
                // before we report this one.
                block.complaint = Some((complaint, place));
                return Ok(true);
            }
            self.report(complaint, &place)?;
        }
        Ok(!block.places.is_empty())
    }

    fn report(&self, complaint: Complaint, place: &RecordPlace) -> Result<()> {
        self.plan.reporter.report(complaint, self.file, place.line, &self.text[place.start..place.end])
    }

    /// Skips the invalid bytes up to the end of a record. Returns the first one within the record.
    fn pass_invalid(&mut self, place: &RecordPlace) -> Option<(usize, u8)> {
        let passed = self.invalid.iter().take_while(|(at, _)| *at < place.end).count();
        let (these, later) = self.invalid.split_at(passed);
        self.invalid = later;
        these.iter().find(|(at, _)| *at >= place.start).copied()
    }

    fn bad_record(&self, bad: BadRecord) -> Complaint {
        match bad {
            BadRecord::UnclosedQuote { field } => {
                Complaint::line(format!("the quote that opens {} is not closed", self.field_name(field)))
                    .hint("write a quote within a quoted field twice; WITH (quote '') reads quotes as they are")
            }
            BadRecord::TextBehindQuote { field, at } => {
                let rest = self.text[at..].lines().next().unwrap_or_default();
                Complaint::line(format!(
                    "{} has text after its closing quote: {}",
                    self.field_name(field),
                    Quoted(rest)
                ))
                .hint("write a quote within a quoted field twice; WITH (quote '') reads quotes as they are")
            }
        }
    }

    fn bad_byte(&self, fields: &[FieldSpan], at: usize, byte: u8) -> Complaint {
        let place = fields.iter().position(|span| span.range().contains(&at));
        let place = place.map_or_else(|| "the line".to_owned(), |field| self.field_name(field));
        Complaint::line(format!("{place} holds the byte 0x{byte:02X}, which is not UTF-8"))
            .hint("convert the file to UTF-8, for example: iconv -f LATIN1 -t UTF-8")
    }

    fn bad_width(&self, found: usize) -> Complaint {
        let width = self.plan.width;
        let plural = if found == 1 { "field" } else { "fields" };
        Complaint::line(format!("the line has {found} {plural}, and {width} are expected"))
            .hint("WITH (on_error 'skip') leaves such lines out; WITH (delimiter ...) names another delimiter")
    }

    /// The name of the column that a field is read into, or the number of the field.
    fn field_name(&self, field: usize) -> String {
        match self.plan.fields.iter().position(|from| *from == Some(field)) {
            Some(column) => format!("column {}", self.plan.target[column].name),
            None => format!("field {}", field + 1),
        }
    }

    fn parse_block(&mut self, block: &mut CsvBlock) -> Result<()> {
        let (plan, text, rows) = (self.plan, self.text, block.places.len());
        let texts = |column: usize| Fields::new(text, &block.spans, plan, column);
        let mut bad = BadRows::default();
        let read = (0..plan.target.len()).filter(|column| plan.fields[*column].is_some());
        for (builder, column) in self.builders.iter_mut().zip(read) {
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

    fn finish(mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = self.builders.iter_mut().map(ColumnBuilder::finish).collect();
        let (columns, rows) = self.kept.apply(columns)?;
        let mut read = columns.into_iter();
        let all = self.plan.target.iter().zip(&self.plan.fields);
        let columns = all.map(|(column, field)| match field {
            Some(_) => read.next().ok_or_else(|| Error::internal("a column that is read must have a builder")),
            None => column.filled(rows),
        });
        batch_of(schema, columns.collect::<Result<_>>()?, rows)
    }
}

fn is_blank(fields: &[FieldSpan]) -> bool {
    matches!(fields, [only] if only.range().is_empty() && !only.quoted())
}

/// The texts of one column of a block.
struct Fields<'a> {
    text: &'a str,
    spans: &'a [FieldSpan],
    width: usize,
    field: usize,
    null_string: &'a str,
    escape: u8,
    /// Whether blanks around a value belong to it.
    is_text: bool,
    nulls: Nulls,
    scratch: String,
}

impl<'a> Fields<'a> {
    fn new(text: &'a str, spans: &'a [FieldSpan], plan: &'a CsvPlan, column: usize) -> Fields<'a> {
        let target = &plan.target[column];
        Fields {
            text,
            spans,
            width: plan.width,
            field: plan.fields[column].unwrap_or_default(),
            null_string: &plan.dialect.null_string,
            escape: plan.dialect.escape,
            is_text: matches!(target.kind, SqlType::Text { .. } | SqlType::Blob),
            nulls: Nulls::new(target),
            scratch: String::new(),
        }
    }
}

impl BlockTexts for Fields<'_> {
    fn nulls(&mut self) -> &mut Nulls {
        &mut self.nulls
    }
}

impl BuilderTexts for Fields<'_> {
    #[inline(always)]
    fn text(&mut self, row: usize) -> Option<&str> {
        let span = self.spans[row * self.width + self.field];
        let text = self.text;
        let mut inside = &text[span.range()];
        if span.escaped() {
            self.scratch.clear();
            undo_escapes(inside, self.escape, &mut self.scratch);
            return Some(&self.scratch);
        }
        if !self.is_text {
            inside = trimmed(inside);
            // Some writers quote every field, also those without a value.
            if inside.is_empty() && self.null_string.is_empty() {
                return self.nulls.null(row);
            }
        }
        if !span.quoted() && inside == self.null_string {
            return self.nulls.null(row);
        }
        Some(inside)
    }
}
