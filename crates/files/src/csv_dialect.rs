//! Learns the dialect of a CSV file: delimiter, header, names and types.
//!
//! The delimiter is one of `,` `;` tab `|`: the one that gives the same number of fields in most of the first lines.
//! Among equals, more fields win. The first record is a header if a column has a type that its first value does not
//! fit. If all columns are text, it is a header if its values differ from each other and from all values below them.
//! Statements can override both.

use std::collections::HashSet;
use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result};

use crate::csv_scan::{Dialect, FieldSpan, RecordScanner, trimmed, undo_escapes};
use crate::jobs::ReadProgress;
use crate::mapping::listed;
use crate::options::{FileFormat, ReadOptions, SampleSize};
use crate::source_file::SourceFile;
use crate::text_source::{Boundary, CheckedText, TextSource};
use crate::type_guess::Guess;

/// The number of bytes that are searched for the delimiter.
const PREVIEW_BYTES: usize = 256 << 10;
/// The number of records that are searched for the delimiter.
const PREVIEW_RECORDS: usize = 1_000;
/// The candidates, the most usual first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// A first value longer than this is data and not a name.
const HEADER_CHARS_MAX: usize = 128;

/// The dialect, names and types of a file.
#[derive(Clone, Debug)]
pub(crate) struct CsvShape {
    pub(crate) dialect: Dialect,
    /// Whether the first record has names: stated by the statement, or guessed.
    pub(crate) header: bool,
    /// Whether the statement stated it.
    pub(crate) header_given: bool,
    /// The fields of the first record.
    pub(crate) first: Vec<String>,
    /// The types of the columns, guessed from the records after the header.
    pub(crate) guesses: Vec<Guess>,
    /// The number of records that the types were guessed from.
    pub(crate) sampled: usize,
}

impl CsvShape {
    /// Examines the beginning of a file.
    pub(crate) fn learn(file: &Arc<SourceFile>, options: &ReadOptions, size: SampleSize) -> Result<CsvShape> {
        let dialect = Dialect {
            delimiter: match options.delimiter {
                Some(delimiter) => delimiter,
                None => find_delimiter(file, options)?,
            },
            quote: options.quote,
            escape: options.escape.or(options.quote).unwrap_or(b'"'),
            null_string: options.null_string.clone(),
        };
        if dialect.quote == Some(dialect.delimiter) {
            return Err(Error::new(ErrorKind::InvalidParameter, "delimiter and quote are the same character"));
        }
        let sample = Sample::read(file, &dialect, options, size)?;
        let header = options.header.unwrap_or_else(|| sample.has_header());
        let mut guesses = sample.guesses;
        // Without a header, the first record is data, so its types count too.
        if !header {
            for (guess, text) in guesses.iter_mut().zip(&sample.first) {
                *guess = std::mem::take(guess).widen(sample_guess(text.as_deref()));
            }
        }
        Ok(CsvShape {
            dialect,
            header,
            header_given: options.header.is_some(),
            first: sample.first.into_iter().map(Option::unwrap_or_default).collect(),
            guesses,
            sampled: sample.records,
        })
    }

    /// The kind of record boundary of the file.
    pub(crate) fn boundary(&self) -> Boundary {
        boundary(&self.dialect)
    }

    /// The names of the columns: those of the header, or `column1`, `column2`, ...
    pub(crate) fn names(&self) -> Vec<String> {
        if self.header {
            self.first.iter().map(|name| name.trim().to_owned()).collect()
        } else {
            (1..=self.first.len()).map(|place| format!("column{place}")).collect()
        }
    }

    /// The error for a file whose columns differ from those of the first file of its set. `None` if they agree.
    pub(crate) fn disagreement(&self, file: &str, other: &CsvShape, other_file: &str) -> Option<Error> {
        let differing = self.names().into_iter().zip(other.names()).find(|(a, b)| a.to_lowercase() != b.to_lowercase());
        let message = if self.first.len() != other.first.len() {
            format!("{file} has {} columns and {other_file} has {}", self.first.len(), other.first.len())
        } else if self.dialect != other.dialect {
            let shown = |delimiter: u8| char::from(delimiter).escape_default().to_string();
            let (own, others) = (shown(self.dialect.delimiter), shown(other.dialect.delimiter));
            format!("{file} separates its fields by '{own}' and {other_file} by '{others}'")
        } else if let Some((own, other)) = differing {
            format!("{file} has a column {own} where {other_file} has {other}")
        } else {
            return None;
        };
        Some(Error::new(ErrorKind::DatatypeMismatch, format!("the files do not agree: {message}")).hint(format!(
            "load them one by one, or say what they have in common; {other_file} has the columns {}",
            listed(other.names().iter().map(String::as_str))
        )))
    }
}

fn boundary(dialect: &Dialect) -> Boundary {
    match dialect.quote {
        Some(quote) => Boundary::Quoted { delimiter: dialect.delimiter, quote, escape: dialect.escape },
        None => Boundary::Line,
    }
}

/// Finds the delimiter on which the first lines agree best.
fn find_delimiter(file: &Arc<SourceFile>, options: &ReadOptions) -> Result<u8> {
    if FileFormat::is_tsv(&file.path) {
        return Ok(b'\t');
    }
    let mut source = TextSource::open(file, Boundary::Line, &ReadProgress::default())?;
    let (bytes, all) = source.preview(PREVIEW_BYTES)?;
    let text = CheckedText::new(bytes.to_vec()).text;
    let scored = DELIMITERS.iter().map(|delimiter| {
        let dialect = Dialect {
            delimiter: *delimiter,
            quote: options.quote,
            escape: options.escape.or(options.quote).unwrap_or(b'"'),
            null_string: String::new(),
        };
        (agreement(&text, &dialect, all), *delimiter)
    });
    // `max_by_key` returns the last maximum. Reversed, that is the most usual of the best candidates.
    let best = scored.rev().max_by_key(|(score, _)| *score);
    Ok(best.filter(|((lines, _), _)| *lines > 0).map_or(b',', |(_, delimiter)| delimiter))
}

/// How many of a thousand records have the most frequent number of fields above one, and that number.
fn agreement(text: &str, dialect: &Dialect, all: bool) -> (usize, usize) {
    let mut widths = Vec::new();
    let mut scanner = RecordScanner::new(text, dialect, 1);
    let mut fields = Vec::new();
    while let Some((place, scanned)) = scanner.next_record(&mut fields) {
        // The last record of the preview may be incomplete, so it is not counted.
        let cut_off = !all && place.end == text.len();
        let blank = fields.len() == 1 && fields[0].range().is_empty();
        if !cut_off && !blank {
            widths.push(if scanned.is_ok() { fields.len() } else { 0 });
        }
        fields.clear();
        if widths.len() == PREVIEW_RECORDS {
            break;
        }
    }
    let count = |width: usize| widths.iter().filter(|other| **other == width).count();
    let best = widths.iter().filter(|width| **width > 1).map(|width| (count(*width), *width)).max();
    best.map_or((0, 0), |(records, width)| (records * 1_000 / widths.len(), width))
}

/// The first records of a file.
struct Sample {
    /// The fields of the first record. `None` is NULL.
    first: Vec<Option<String>>,
    /// The types of the records after the first.
    guesses: Vec<Guess>,
    /// For each column, whether the value of the first record occurs again below it.
    repeated: Vec<bool>,
    /// The number of records after the first.
    records: usize,
}

impl Sample {
    fn read(file: &Arc<SourceFile>, dialect: &Dialect, options: &ReadOptions, size: SampleSize) -> Result<Sample> {
        let mut sample = Sample { first: Vec::new(), guesses: Vec::new(), repeated: Vec::new(), records: 0 };
        let mut source = TextSource::open(file, boundary(dialect), &ReadProgress::default())?;
        let mut bytes = 0;
        while size.rows_left(sample.records, bytes) > 0 {
            let Some(chunk) = source.next_chunk()? else { break };
            let rows_max = size.rows_left(sample.records, bytes);
            bytes += chunk.bytes.len();
            sample.add(&CheckedText::new(chunk.bytes).text, dialect, options.all_text, rows_max);
        }
        if sample.first.is_empty() {
            return Err(Error::new(ErrorKind::BadFileFormat, format!("{} has no columns: it is empty", file.name)));
        }
        Ok(sample)
    }

    /// Adds the records of a chunk, at most `rows_max`.
    fn add(&mut self, text: &str, dialect: &Dialect, all_text: bool, rows_max: usize) {
        let mut scanner = RecordScanner::new(text, dialect, 1);
        let mut fields = Vec::new();
        let mut scratch = String::new();
        let end = self.records.saturating_add(rows_max);
        while self.records < end {
            let Some((_, scanned)) = scanner.next_record(&mut fields) else { return };
            let blank = fields.len() == 1 && fields[0].range().is_empty() && !fields[0].quoted();
            if self.first.is_empty() {
                // Blank lines at the top are not the header.
                if scanned.is_ok() && !blank {
                    self.set_first(text, &fields, dialect);
                }
            } else if scanned.is_ok() && fields.len() == self.first.len() {
                // Lines with another number of fields are skipped. The reader reports them later.
                self.add_record(text, &fields, dialect, all_text, &mut scratch);
            }
            fields.clear();
        }
    }

    fn set_first(&mut self, text: &str, fields: &[FieldSpan], dialect: &Dialect) {
        let mut scratch = String::new();
        self.first = fields.iter().map(|span| field(text, *span, dialect, &mut scratch).map(str::to_owned)).collect();
        self.guesses = vec![Guess::Nothing; fields.len()];
        self.repeated = vec![false; fields.len()];
    }

    fn add_record(
        &mut self,
        text: &str,
        fields: &[FieldSpan],
        dialect: &Dialect,
        all_text: bool,
        scratch: &mut String,
    ) {
        self.records += 1;
        for (column, span) in fields.iter().enumerate() {
            // NULL tells nothing about the type.
            let Some(field) = field(text, *span, dialect, scratch) else { continue };
            if all_text {
                self.guesses[column] = Guess::Text;
            } else if !field.is_empty() {
                self.guesses[column].add_text(trimmed(field));
            }
            self.repeated[column] |= self.first[column].as_deref() == Some(field);
        }
    }

    /// Whether the first record looks like names.
    fn has_header(&self) -> bool {
        let mut seen = HashSet::new();
        let like_names = self.first.iter().all(|name| {
            let name = name.as_deref().unwrap_or_default().trim();
            !name.is_empty()
                && name.chars().count() <= HEADER_CHARS_MAX
                && Guess::of_text(name) == Guess::Text
                && !name.starts_with(|c: char| c.is_ascii_digit())
                && seen.insert(name.to_lowercase())
        });
        if self.records == 0 {
            return like_names;
        }
        // If a typed column has a first value of another type, that value is a name, because data would have the type
        // too.
        let told = self.guesses.iter().zip(&self.first).any(|(guess, first)| {
            let typed = !matches!(guess, Guess::Nothing | Guess::Text);
            typed
                && first.as_deref().is_some_and(|text| {
                    !text.is_empty() && guess.clone().widen(sample_guess(Some(text))) == Guess::Text
                })
        });
        told || like_names
            && !self.repeated.contains(&true)
            && self.guesses.iter().all(|guess| matches!(guess, Guess::Nothing | Guess::Text))
    }
}

/// The text of a field. `None` is NULL.
fn field<'a>(text: &'a str, span: FieldSpan, dialect: &Dialect, scratch: &'a mut String) -> Option<&'a str> {
    let inside = &text[span.range()];
    if span.escaped() {
        scratch.clear();
        undo_escapes(inside, dialect.escape, scratch);
        return Some(scratch);
    }
    (span.quoted() || inside != dialect.null_string).then_some(inside)
}

/// The guess for one field. Blanks around a value do not count, and an empty field tells nothing.
fn sample_guess(text: Option<&str>) -> Guess {
    match text {
        None | Some("") => Guess::Nothing,
        Some(text) => Guess::of_text(trimmed(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::FileLocation;
    use crate::options::Compression;

    fn learn(text: &str, options: &ReadOptions) -> Result<CsvShape> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.csv");
        std::fs::write(&path, text).expect("written");
        let file =
            Arc::new(SourceFile::new(&FileLocation::Disk(path), Compression::None, &rowmill_base::Cancel::new())?);
        CsvShape::learn(&file, options, SampleSize::of_each(options, 1))
    }

    fn shown(text: &str) -> String {
        let shape = learn(text, &ReadOptions::default()).expect("learned");
        let columns: Vec<String> =
            shape.names().iter().zip(&shape.guesses).map(|(name, guess)| format!("{name} {}", guess.kind())).collect();
        format!("{} {}", char::from(shape.dialect.delimiter), columns.join(", "))
    }

    #[test]
    fn delimiters_headers_and_types_are_found() {
        assert_eq!(shown("id,name\n1,a\n2,b\n"), ", id BIGINT, name TEXT");
        assert_eq!(shown("1,a\n2,b\n"), ", column1 BIGINT, column2 TEXT");
        assert_eq!(shown("a;b\n1,5;x\n2,5;y\n"), "; a TEXT, b TEXT");
        assert_eq!(shown("name|day\nx|2013-07-31\n"), "| name TEXT, day DATE");
        assert_eq!(shown("a\tb\n\"x\ty\"\t2\n"), "\t a TEXT, b BIGINT");
        assert_eq!(shown("city,country\nBerlin,DE\nRome,IT\n"), ", city TEXT, country TEXT");
        assert_eq!(shown("Berlin,DE\nRome,DE\n"), ", column1 TEXT, column2 TEXT");
        assert_eq!(shown("id\n1\n2\n"), ", id BIGINT");
        assert_eq!(shown("a,b\n"), ", a TEXT, b TEXT");
        assert_eq!(shown("a,b\n,\n,5\n"), ", a TEXT, b BIGINT");
        assert_eq!(shown("zip,n\n01234, 5\n99999, 6\n"), ", zip TEXT, n BIGINT");
        assert_eq!(shown("\"the id\",\"the \"\"name\"\"\"\n1,x\n"), ", the id BIGINT, the \"name\" TEXT");
        assert_eq!(shown("\n\na,b\n1,2\n"), ", a BIGINT, b BIGINT");
    }

    #[test]
    fn options_of_a_statement_override_the_guesses() {
        let options = ReadOptions { header: Some(false), delimiter: Some(b','), ..ReadOptions::default() };
        let shape = learn("a,b\n1,2\n", &options).expect("learned");
        assert_eq!(shape.names(), ["column1", "column2"]);
        assert_eq!(shape.guesses, [Guess::Text, Guess::Text]);
        let options = ReadOptions { all_text: true, ..ReadOptions::default() };
        let shape = learn("a,b\n1,2\n", &options).expect("learned");
        assert_eq!(shape.guesses, [Guess::Text, Guess::Text]);
        let options = ReadOptions { null_string: "NULL".to_owned(), ..ReadOptions::default() };
        let shape = learn("a,b\n1,NULL\nNULL,2\n", &options).expect("learned");
        assert!(shape.guesses.iter().all(|guess| matches!(guess, Guess::Integer { .. })));
        assert_eq!(learn("", &ReadOptions::default()).unwrap_err().kind(), ErrorKind::BadFileFormat);
    }
}
