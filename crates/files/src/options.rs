//! What a statement says about the files it reads, checked once.

use std::path::Path;

use rowmill_base::{Cancel, Error, ErrorKind, Result, nearest};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Separated values: by commas, tabs or another character.
    Csv,
    /// One JSON object a line; objects over several lines and one array of objects are read too.
    Json,
    /// The file format of Arrow IPC, also known as Feather version 2; streams are read too.
    Arrow,
}

impl FileFormat {
    /// The name that `WITH (format ...)` takes.
    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Parquet => "parquet",
            FileFormat::Csv => "csv",
            FileFormat::Json => "json",
            FileFormat::Arrow => "arrow",
        }
    }

    /// The format of that name.
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

    /// What a path's ending says: the format, and how the file is compressed.
    pub fn of_path(path: &Path) -> (Option<FileFormat>, Compression) {
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
}

/// How a whole file is compressed. Parquet and Arrow compress inside of the file instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// It is not.
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
            _ => Err(Error::new(ErrorKind::InvalidParameter, format!("files compressed by '{name}' are not read"))
                .hint("the compressions are none, gzip and zstd")),
        }
    }
}

/// What happens on a line that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The statement fails and says which line.
    #[default]
    Fail,
    /// The line is left out and reported as a [`crate::Reject`].
    Skip,
}

/// How files are read. The default learns everything from the files.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The format; from the path's ending if `None`.
    pub format: Option<FileFormat>,
    /// The compression; from the path's ending if `None`.
    pub compression: Option<Compression>,
    /// CSV: whether the first record holds the names; found out if `None`.
    pub header: Option<bool>,
    /// CSV: the ASCII character between fields; found out if `None`.
    pub delimiter: Option<u8>,
    /// CSV: the ASCII character around fields that hold delimiters or line ends; `None` switches quoting off.
    pub quote: Option<u8>,
    /// CSV: what makes the next character inside of quotes stand for itself; the quote itself if `None`.
    pub escape: Option<u8>,
    /// CSV: the unquoted text that is NULL. Where it is empty, as it is by default, an empty field is NULL and `""`
    /// is the empty text.
    pub null_string: String,
    /// CSV, JSON: what happens on a line that cannot be read.
    pub on_error: OnError,
    /// CSV, JSON: rows that types are guessed from where no table gives them. If `None`, 20,000 and those of the first
    /// 8 MiB.
    pub sample_rows: Option<usize>,
    /// CSV, JSON: every column is TEXT where no table gives the types.
    pub all_text: bool,
    /// Columns of the file that the table does not have are left out instead of refused.
    pub ignore_unknown: bool,
    /// Ends the reading of a pipe or device, which may have no end.
    pub cancel: Cancel,
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
            ignore_unknown: false,
            cancel: Cancel::new(),
        }
    }
}

impl ReadOptions {
    /// The names that [`ReadOptions::set`] takes.
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
        "ignore_unknown",
    ];

    /// Sets one option of `WITH (name value, ...)`. A switch without a value is given as `""` and switches on.
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
            "all_text" => self.all_text = switch(&lower, value)?,
            "ignore_unknown" => self.ignore_unknown = switch(&lower, value)?,
            _ => return Err(unknown_option(name, ReadOptions::NAMES)),
        }
        Ok(())
    }
}

/// How much of a file types are guessed from: enough once both are reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleSize {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl SampleSize {
    /// Each file's share where there are several.
    pub(crate) fn of_each(options: &ReadOptions, files: usize) -> SampleSize {
        match options.sample_rows {
            Some(rows) => SampleSize { rows: (rows / files).max(rows.min(100)), bytes: 0 },
            None => SampleSize { rows: (20_000 / files).max(100), bytes: (8 << 20) / files },
        }
    }

    /// Rows to look at in the next chunk, given what was looked at before.
    pub(crate) fn rows_left(self, rows: usize, bytes: usize) -> usize {
        if bytes < self.bytes { usize::MAX } else { self.rows.saturating_sub(rows) }
    }
}

/// The error for an option that nothing reads.
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

pub(crate) fn switch(name: &str, value: &str) -> Result<bool> {
    if value.is_empty() {
        return Ok(true);
    }
    rowmill_expr::text::reader::parse_bool(value).map_err(|_| invalid(name, value, "true or false"))
}

/// One ASCII character; `\t` is written as such or as two characters.
pub(crate) fn character(name: &str, value: &str) -> Result<u8> {
    match value.as_bytes() {
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
        assert_eq!(of("x.ndjson.zst"), (Some(FileFormat::Json), Compression::Zstd));
        assert_eq!(of("x.feather"), (Some(FileFormat::Arrow), Compression::None));
        assert_eq!(of("x.txt"), (None, Compression::None));
        assert_eq!(of("x"), (None, Compression::None));
    }

    #[test]
    fn options_are_checked_and_unknown_ones_refused() {
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
