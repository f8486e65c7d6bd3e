//! The formats of answers, and how a client asks for one.

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerFormat {
    /// One JSON object with columns and rows.
    Json,
    /// A JSON object for each row, each on a line of its own.
    JsonLines,
    /// CSV with the names of the columns.
    Csv,
    /// The streaming format of Arrow IPC.
    Arrow,
    /// Parquet.
    Parquet,
}

/// The formats, for errors.
const NAMES: &str = "json, ndjson, csv, arrow and parquet";

/// Each format: its name, and the media types that ask for it. The first of them is the type of the answer.
const FORMATS: [(AnswerFormat, &str, &[&str]); 5] = [
    (AnswerFormat::Json, "json", &["application/json"]),
    (AnswerFormat::JsonLines, "ndjson", &["application/x-ndjson", "application/jsonl", "application/ndjson"]),
    (AnswerFormat::Csv, "csv", &["text/csv"]),
    (AnswerFormat::Arrow, "arrow", &["application/vnd.apache.arrow.stream"]),
    (AnswerFormat::Parquet, "parquet", &["application/vnd.apache.parquet"]),
];

impl AnswerFormat {
    pub(super) fn of_name(name: &str) -> Result<AnswerFormat, String> {
        let found = FORMATS.iter().find(|(_, own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(format, ..)| *format).ok_or_else(|| format!("\"{name}\" is not a format: the formats are {NAMES}"))
    }

    /// Returns the first format that an `Accept` header names. Weights are not read, because clients that want one
    /// format name only that one.
    pub(super) fn of_accept(accept: &str) -> Result<AnswerFormat, String> {
        for wanted in accept.split(',') {
            let wanted = wanted.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            if ["", "*/*", "application/*", "text/html", "text/*"].contains(&wanted.as_str()) {
                return Ok(AnswerFormat::Json);
            }
            if let Some((format, ..)) = FORMATS.iter().find(|(.., types)| types.contains(&wanted.as_str())) {
                return Ok(*format);
            }
        }
        Err(format!("no format of the Accept header \"{accept}\" is known: the formats are {NAMES}"))
    }

    pub(super) fn content_type(self) -> &'static str {
        self.entry().2[0]
    }

    /// The name by which clients ask for the format.
    pub(super) fn name(self) -> &'static str {
        self.entry().1
    }

    /// The usual ending of a file of the format.
    pub(super) fn file_ending(self) -> &'static str {
        // A stream of Arrow has another ending than a file of Arrow.
        if self == AnswerFormat::Arrow { "arrows" } else { self.name() }
    }

    fn entry(self) -> &'static (AnswerFormat, &'static str, &'static [&'static str]) {
        let found = FORMATS.iter().find(|(format, ..)| *format == self);
        found.expect("the list has every format")
    }

    /// Whether compressing an answer of the format can make it much smaller. Parquet is compressed by itself.
    pub(super) fn is_compressible(self) -> bool {
        self != AnswerFormat::Parquet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_name_and_by_media_type() {
        assert_eq!(AnswerFormat::of_name("CSV"), Ok(AnswerFormat::Csv));
        assert!(AnswerFormat::of_name("xml").is_err());
        assert_eq!(AnswerFormat::of_accept("*/*"), Ok(AnswerFormat::Json));
        assert_eq!(AnswerFormat::of_accept("image/png, text/csv;q=0.9"), Ok(AnswerFormat::Csv));
        assert_eq!(AnswerFormat::of_accept("application/vnd.apache.arrow.stream"), Ok(AnswerFormat::Arrow));
        assert!(AnswerFormat::of_accept("image/png").is_err());
    }
}
