//! The options of a statement for reading files. They are checked once, here.

use std::path::Path;

use rowmill_base::{Broker, Cancel, Error, ErrorKind, Result, SqlType, nearest};

use crate::folders::FileFolders;
use crate::secret::Secrets;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Values separated by commas, tabs or another character.
    Csv,
    /// One JSON object per line. Objects over several lines and an array of objects are read too.
    Json,
    /// The Arrow IPC file format, also known as Feather version 2. Streams are read too.
    Arrow,
}

impl FileFormat {
    /// The name of the format in `WITH (format ...)`.
    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Parquet => "parquet",
            FileFormat::Csv => "csv",
            FileFormat::Json => "json",
            FileFormat::Arrow => "arrow",
        }
    }

    /// The format with that name.
    pub fn from_name(name: &str) -> Result<FileFormat> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "parquet" => FileFormat::Parquet,
            "csv" | "tsv" | "text" => FileFormat::Csv,
            "json" | "jsonl" | "ndjson" => FileFormat::Json,
            "arrow" | "ipc" | "feather" => FileFormat::Arrow,
            _ => {
                return Err(Error::new(ErrorKind::InvalidParameter, format!("there is no file format '{name}'"))
                    .hint("the formats are parquet, csv, json and arrow"));
            }
        })
    }

    /// The format and the compression that a path's ending tells.
    pub(crate) fn of_path(path: &Path) -> (Option<FileFormat>, Compression) {
        let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let (stem, compression) = if let Some(stem) = name.strip_suffix(".gz") {
            (stem, Compression::Gzip)
        } else if let Some(stem) = name.strip_suffix(".zst") {
            (stem, Compression::Zstd)
        } else {
            (name.as_str(), Compression::None)
        };
        let format = match stem.rsplit_once('.').map(|(_, ending)| ending) {
            Some("parquet" | "pq") => Some(FileFormat::Parquet),
            Some("csv" | "tsv") => Some(FileFormat::Csv),
            Some("json" | "jsonl" | "ndjson") => Some(FileFormat::Json),
            Some("arrow" | "arrows" | "ipc" | "feather") => Some(FileFormat::Arrow),
            _ => None,
        };
        (format, compression)
    }

    /// Whether a path's ending says that its values are separated by tabs: `.tsv`, perhaps compressed.
    pub(crate) fn is_tsv(path: &Path) -> bool {
        let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let stem = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
        stem.ends_with(".tsv")
    }
}

/// The compression of a whole file. Parquet and Arrow are compressed within the file instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed.
    #[default]
    None,
    /// gzip, `.gz`.
    Gzip,
    /// Zstandard, `.zst`.
    Zstd,
}

impl Compression {
    fn from_name(name: &str) -> Result<Compression> {
        match name.to_ascii_lowercase().as_str() {
            "none" | "uncompressed" => Ok(Compression::None),
            "gzip" | "gz" => Ok(Compression::Gzip),
            "zstd" | "zst" => Ok(Compression::Zstd),
            _ => Err(Error::new(ErrorKind::InvalidParameter, format!("files compressed with '{name}' cannot be read"))
                .hint("the compressions are none, gzip and zstd")),
        }
    }
}

/// What to do with a line that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The statement fails with an error that names the line.
    #[default]
    Fail,
    /// The line is left out and reported as a [`crate::Reject`].
    Skip,
}

/// The options for reading files. By default everything is learned from the files.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The format. If `None`, it follows from the path's ending.
    pub format: Option<FileFormat>,
    /// The compression. If `None`, it follows from the path's ending.
    pub compression: Option<Compression>,
    /// CSV: whether the first record has the names. If `None`, it is guessed.
    pub header: Option<bool>,
    /// CSV: the ASCII character between fields. If `None`, it is guessed.
    pub delimiter: Option<u8>,
    /// CSV: the ASCII character around fields that contain delimiters or line ends. `None` disables quoting.
    pub quote: Option<u8>,
    /// CSV: the character that makes the next character within quotes literal. If `None`, it is the quote itself.
    pub escape: Option<u8>,
    /// CSV: the unquoted text that means NULL. By default it is empty, so that an empty field is NULL and `""` is the
    /// empty text.
    pub null_string: String,
    /// CSV, JSON: what to do with a line that cannot be read.
    pub on_error: OnError,
    /// CSV, JSON: the number of rows from which types are guessed if no table gives them. If `None`, 20,000 rows and at
    /// least those of the first 8 MiB.
    pub sample_rows: Option<usize>,
    /// CSV, JSON: whether every column is TEXT if no table gives the types.
    pub all_text: bool,
    /// CSV: the number of lines at the start of a file that are passed over.
    pub skipped_lines: usize,
    /// CSV, JSON: all columns with their types. If it is empty, they are guessed.
    pub columns: Vec<(String, SqlType)>,
    /// CSV, JSON: the types of some columns.
    pub types: Vec<(String, SqlType)>,
    /// Whether columns of the file that the table does not have are left out instead of refused.
    pub ignore_unknown: bool,
    /// Stops waiting for a pipe, a device or the network.
    pub cancel: Cancel,
    /// The folders in which the files must lie.
    pub folders: FileFolders,
    /// What the connection shows to stores of files.
    pub secrets: Secrets,
    /// Counts the memory of bytes that are read ahead over the network.
    pub memory: Option<Broker>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            format: None,
            compression: None,
            header: None,
            delimiter: None,
            quote: Some(b'"'),
            escape: None,
            null_string: String::new(),
            on_error: OnError::Fail,
            sample_rows: None,
            all_text: false,
            skipped_lines: 0,
            columns: Vec::new(),
            types: Vec::new(),
            ignore_unknown: false,
            cancel: Cancel::new(),
            folders: FileFolders::default(),
            secrets: Secrets::default(),
            memory: None,
        }
    }
}

impl ReadOptions {
    /// The option names that [`ReadOptions::set`] accepts.
    pub const NAMES: &'static [&'static str] = &[
        "format",
        "compression",
        "header",
        "delimiter",
        "quote",
        "escape",
        "null_string",
        "on_error",
        "sample_rows",
        "all_text",
        "skip",
        "ignore_unknown",
    ];

    /// Sets one option of `WITH (name value, ...)`. An empty value means that a switch is on.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "format" => self.format = Some(FileFormat::from_name(value)?),
            "compression" => self.compression = Some(Compression::from_name(value)?),
            "header" => self.header = Some(switch(&lower, value)?),
            "delimiter" | "delim" | "sep" => self.delimiter = Some(character(&lower, value)?),
            "quote" if value.is_empty() => self.quote = None,
            "quote" => self.quote = Some(character(&lower, value)?),
            "escape" => self.escape = Some(character(&lower, value)?),
            "null_string" | "null" | "nullstr" => self.null_string = value.to_owned(),
            "on_error" => {
                self.on_error = match value.to_ascii_lowercase().as_str() {
                    "fail" | "stop" | "abort" => OnError::Fail,
                    "skip" | "ignore" => OnError::Skip,
                    _ => return Err(invalid(&lower, value, "'fail' or 'skip'")),
                }
            }
            "sample_rows" => {
                let rows = value.parse().ok().filter(|rows| *rows > 0);
                self.sample_rows = Some(rows.ok_or_else(|| invalid(&lower, value, "a number of rows from 1 on"))?);
            }
            "skip" => {
                self.skipped_lines = value.parse().map_err(|_| invalid(&lower, value, "a number of lines"))?;
            }
            "all_text" => self.all_text = switch(&lower, value)?,
            "ignore_unknown" => self.ignore_unknown = switch(&lower, value)?,
            _ => return Err(unknown_option(name, ReadOptions::NAMES)),
        }
        Ok(())
    }
}

/// The size of the sample from which types are guessed. It is complete once both numbers are reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleSize {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl SampleSize {
    /// The sample size for each of several files.
    pub(crate) fn of_each(options: &ReadOptions, files: usize) -> SampleSize {
        match options.sample_rows {
            // Every file should give at least some rows, so that a type that differs is noticed.
            Some(rows) => SampleSize { rows: (rows / files).max(rows.min(100)), bytes: 0 },
            None => SampleSize { rows: (20_000 / files).max(100), bytes: (8 << 20) / files },
        }
    }

    /// How many rows of the next chunk should be examined, given the rows and bytes examined before.
    pub(crate) fn rows_left(self, rows: usize, bytes: usize) -> usize {
        if bytes < self.bytes { usize::MAX } else { self.rows.saturating_sub(rows) }
    }
}

/// The error for an unknown option. Suggests a similar name.
pub fn unknown_option(name: &str, known: &[&str]) -> Error {
    let error = Error::new(ErrorKind::UndefinedObject, format!("there is no option {name}"));
    match nearest(name, known.iter().copied()).first() {
        Some(meant) => error.hint(format!("did you mean {meant}?")),
        None => error.hint(format!("the options are {}", known.join(", "))),
    }
}

pub(crate) fn invalid(name: &str, value: &str, expected: &str) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("the option {name} takes {expected}, not '{value}'"))
}

/// Parses the value of a switch. An empty value means that it is on.
pub fn switch(name: &str, value: &str) -> Result<bool> {
    if value.is_empty() {
        return Ok(true);
    }
    rowmill_expr::text::reader::parse_bool(value).map_err(|_| invalid(name, value, "true or false"))
}

/// Parses one ASCII character. A tab may be written as itself or as `\t`.
pub(crate) fn character(name: &str, value: &str) -> Result<u8> {
    match value.as_bytes() {
        // SQL texts have no escapes, so a tab is often written as a backslash and a t.
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => Err(invalid(name, value, "one ASCII character")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_tell_format_and_compression() {
        let of = |path: &str| FileFormat::of_path(Path::new(path));
        assert_eq!(of("a/b.PARQUET"), (Some(FileFormat::Parquet), Compression::None));
        assert_eq!(of("x.tsv.gz"), (Some(FileFormat::Csv), Compression::Gzip));
        let is_tsv = |path: &str| FileFormat::is_tsv(Path::new(path));
        assert!(is_tsv("x.tsv.gz") && is_tsv("a/b.TSV") && !is_tsv("data.tsv.d/a.csv") && !is_tsv("a.tsv.bak"));
        assert_eq!(of("x.ndjson.zst"), (Some(FileFormat::Json), Compression::Zstd));
        assert_eq!(of("x.feather"), (Some(FileFormat::Arrow), Compression::None));
        assert_eq!(of("x.txt"), (None, Compression::None));
        assert_eq!(of("x"), (None, Compression::None));
    }

    #[test]
    fn options_are_checked_and_unknown_options_are_refused() {
        let mut options = ReadOptions::default();
        options.set("HEADER", "").expect("a switch");
        options.set("delimiter", "\\t").expect("a tab");
        options.set("quote", "").expect("none");
        options.set("on_error", "skip").expect("known");
        assert_eq!((options.header, options.delimiter, options.quote), (Some(true), Some(b'\t'), None));
        assert_eq!(options.on_error, OnError::Skip);
        assert_eq!(options.set("delimiter", "||").unwrap_err().kind(), ErrorKind::InvalidParameter);
        assert_eq!(options.set("format", "xlsx").unwrap_err().kind(), ErrorKind::InvalidParameter);
        let error = options.set("heder", "1").unwrap_err();
        assert_eq!((error.kind(), error.hint_text()), (ErrorKind::UndefinedObject, Some("did you mean header?")));
    }
}
