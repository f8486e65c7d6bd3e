//! What a request asks of an import: the table, and how its rows are read.
//!
//! The parameters of the URL are the options of `COPY ... FROM`, under their names, and two of our own: `columns` names
//! the columns of the table, `create` makes the table if there is none. The format may also be told by the type of the
//! body, and its compression by `Content-Encoding`.

use axum::extract::Query;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use rowmill::input::{FileSet, ReadOptions, unknown_option};
use rowmill::{Connection, Error, ErrorKind, Result};

use super::header_text;
use crate::sql_words::{quoted_name, quoted_text};

/// The media types of bodies that tell a format, and the options of `COPY` that they stand for.
const TYPES: [(&str, &[(&str, &str)]); 10] = [
    ("text/csv", &[("format", "csv")]),
    ("text/tab-separated-values", &[("format", "csv"), ("delimiter", "\\t")]),
    ("application/x-ndjson", &[("format", "json")]),
    ("application/ndjson", &[("format", "json")]),
    ("application/jsonl", &[("format", "json")]),
    ("application/json", &[("format", "json")]),
    ("application/vnd.apache.parquet", &[("format", "parquet")]),
    ("application/x-parquet", &[("format", "parquet")]),
    ("application/vnd.apache.arrow.stream", &[("format", "arrow")]),
    ("application/vnd.apache.arrow.file", &[("format", "arrow")]),
];

/// The parameters that are not options of `COPY`.
const OWN: [&str; 3] = ["columns", "create", "reject_table"];

/// What a request asks for.
#[derive(Debug)]
pub(super) struct ImportOptions {
    /// The table as it is written in the URL.
    pub(super) name: String,
    /// The table as SQL: `"schema"."table"`.
    table: String,
    columns: Vec<String>,
    creates: bool,
    /// The options of `COPY`, by name.
    copy: Vec<(String, String)>,
    /// The same options, for the columns of the body.
    read: ReadOptions,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidParameter, message)
}

/// Returns a table's name with or without a schema as SQL.
pub(super) fn quoted_table(name: &str) -> String {
    name.split('.').map(quoted_name).collect::<Vec<_>>().join(".")
}

/// Reads the parameters of a URL.
pub(super) fn url_parameters(head: &Parts) -> Result<Vec<(String, String)>> {
    let read = Query::<Vec<(String, String)>>::try_from_uri(&head.uri);
    let Query(parameters) =
        read.map_err(|error| invalid(format!("the parameters of the URL cannot be read: {error}")))?;
    for (at, (name, _)) in parameters.iter().enumerate() {
        if parameters[..at].iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
            return Err(invalid(format!("the parameter {name} is given twice")));
        }
    }
    Ok(parameters)
}

/// Returns an error without its place in a statement of our own, which the client has not written.
pub(super) fn without_place(error: &Error) -> Error {
    let place = error.position().map(|place| format!(" (line {}, column {})", place.line, place.column));
    let message = error.message();
    let message = place.and_then(|place| message.strip_suffix(&place)).unwrap_or(message);
    let told = Error::new(error.kind(), message);
    match error.hint_text() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

/// Reads a parameter that is on or off.
fn switch(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "true" | "1" | "on" => Ok(true),
        "false" | "0" | "off" => Ok(false),
        _ => Err(invalid(format!("the parameter {name} takes true or false, not '{value}'"))),
    }
}

impl ImportOptions {
    pub(super) fn read(table: &str, head: &Parts) -> Result<ImportOptions> {
        let mut options = ImportOptions {
            name: table.to_owned(),
            table: quoted_table(table),
            columns: Vec::new(),
            creates: false,
            copy: Vec::new(),
            read: ReadOptions::default(),
        };
        for (name, value) in url_parameters(head)? {
            match name.to_ascii_lowercase().as_str() {
                "columns" => options.columns = value.split(',').map(|column| column.trim().to_owned()).collect(),
                "create" => options.creates = switch(&name, &value)?,
                "reject_table" => options.copy.push(("reject_table".to_owned(), value)),
                _ => options.set(&name, &value)?,
            }
        }
        options.take_type(header_text(&head.headers, CONTENT_TYPE))?;
        options.take_encoding(header_text(&head.headers, CONTENT_ENCODING))?;
        if options.read.format.is_none() {
            return Err(invalid("the format of the body is not known")
                .hint("add ?format=csv, or json, parquet or arrow, or send the Content-Type of the format"));
        }
        if options.creates && !options.columns.is_empty() {
            return Err(invalid("create makes all columns of the body, so it takes no parameter columns"));
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.read.set(name, value).map_err(|error| match error.kind() {
            ErrorKind::UndefinedObject => {
                let known: Vec<&str> = ReadOptions::NAMES.iter().copied().chain(OWN).collect();
                unknown_option(name, &known)
            }
            _ => error,
        })?;
        self.copy.push((name.to_ascii_lowercase(), value.to_owned()));
        Ok(())
    }

    /// Takes what the type of the body tells and no parameter does.
    fn take_type(&mut self, content_type: Option<&str>) -> Result<()> {
        let kind = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let Some((_, told)) = TYPES.iter().find(|(known, _)| *known == kind) else { return Ok(()) };
        if self.read.format.is_some() {
            return Ok(());
        }
        for (name, value) in *told {
            if !self.copy.iter().any(|(given, _)| given == name) {
                self.set(name, value)?;
            }
        }
        Ok(())
    }

    fn take_encoding(&mut self, encoding: Option<&str>) -> Result<()> {
        match encoding.map(str::trim) {
            None | Some("" | "identity") => Ok(()),
            Some(coding @ ("gzip" | "zstd")) => self.set("compression", coding),
            Some(other) => Err(invalid(format!("the encoding \"{other}\" of the body is unknown: use gzip or zstd"))),
        }
    }

    /// Whether the table is to be made. Returns an error if it is not, and the table or a column is missing.
    pub(super) fn is_to_create(&self, connection: &mut Connection) -> Result<bool> {
        let columns = match self.columns.as_slice() {
            [] => "*".to_owned(),
            columns => names(columns),
        };
        let query = connection.parse(&format!("SELECT {columns} FROM {}", self.table))?;
        match connection.shape(&query, &[]) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::UndefinedTable && self.creates => Ok(true),
            // A role may add rows to a table that it may not read.
            Err(error) if error.kind() == ErrorKind::InsufficientPrivilege => Ok(false),
            Err(error) => {
                let told = without_place(&error);
                Err(match error.kind() {
                    ErrorKind::UndefinedTable => told.hint("add create=true to make it from the body"),
                    _ => told,
                })
            }
        }
    }

    /// The statement that makes a table for the columns of a file.
    pub(super) fn definition(&self, path: &str) -> Result<String> {
        let columns = FileSet::open(path, &self.read)?.own_columns()?;
        let columns: Vec<String> =
            columns.iter().map(|column| format!("{} {}", quoted_name(&column.name), column.kind)).collect();
        Ok(format!("CREATE TABLE {} ({})", self.table, columns.join(", ")))
    }

    /// The table and its columns, for `COPY`.
    pub(super) fn target(&self) -> String {
        match self.columns.as_slice() {
            [] => self.table.clone(),
            columns => format!("{} ({})", self.table, names(columns)),
        }
    }

    /// The table of lines that cannot be read.
    pub(super) fn reject_table(&self) -> Option<&str> {
        let option = self.copy.iter().find(|(name, _)| name == "reject_table");
        option.map(|(_, table)| table.as_str()).filter(|table| !table.is_empty())
    }

    /// The options, for `COPY`.
    pub(super) fn clause(&self) -> String {
        let options = self.copy.iter().map(|(name, value)| format!("{name} {}", quoted_text(value)));
        format!("WITH ({})", options.collect::<Vec<_>>().join(", "))
    }
}

fn names(columns: &[String]) -> String {
    columns.iter().map(|column| quoted_name(column)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str, headers: &[(&str, &str)]) -> Result<ImportOptions> {
        let mut request = axum::http::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        ImportOptions::read("Main.visits", &head)
    }

    #[test]
    fn parameters_are_options_of_copy() {
        let options = read("/import/x?format=csv&delimiter=%3B&columns=a,%20b&ON_ERROR=skip&reject_table=bad", &[]);
        let options = options.expect("options");
        assert_eq!(options.target(), "\"Main\".\"visits\" (\"a\", \"b\")");
        let clause = "WITH (format 'csv', delimiter ';', on_error 'skip', reject_table 'bad')";
        assert_eq!(options.clause(), clause);
        let typed = read("/", &[("Content-Type", "text/tab-separated-values; charset=utf-8")]).expect("options");
        assert_eq!(typed.clause(), "WITH (format 'csv', delimiter '\\t')");
        let packed = read("/?format=json", &[("Content-Type", "text/csv"), ("Content-Encoding", "gzip")]);
        assert_eq!(packed.expect("options").clause(), "WITH (format 'json', compression 'gzip')");
    }

    #[test]
    fn wrong_requests_are_refused() {
        for (uri, header) in [
            ("/", None),
            ("/?format=xml", None),
            ("/?format=csv&formt=csv", None),
            ("/?format=csv&format=csv", None),
            ("/?format=csv&create=maybe", None),
            ("/?format=csv&create=true&columns=a", None),
            ("/?format=csv", Some(("Content-Encoding", "br"))),
            ("/?format=%FF%", None),
        ] {
            assert!(read(uri, header.as_slice()).is_err(), "{uri}");
        }
        let error = read("/?format=csv&reject_tabl=x", &[]).expect_err("unknown");
        assert_eq!(error.hint_text(), Some("did you mean reject_table?"));
    }
}
