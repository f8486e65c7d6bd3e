//! `GET /export?table=|query=&format=`: a table or the result of a query as a file to download.
//!
//! Browsers send `GET` requests for pages of other sites without asking, so an export must change nothing: it takes
//! only a query with rows, and runs it in a transaction that only reads.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use rowmill::output::WriteOptions;
use rowmill::{Error, ErrorKind, Result};

use super::answer_format::AnswerFormat;
use super::entrance::login_of;
use super::import_options::{quoted_table, url_parameters};
use super::request::QueryRequest;
use super::{AnswerShape, error_response, failure, start};
use crate::server::ServerShared;
use crate::wire_error::ADMIN_SHUTDOWN;

pub(super) async fn export(State(shared): State<Arc<ServerShared>>, request: Request) -> Response {
    if shared.stop.is_stopping() {
        return failure(StatusCode::SERVICE_UNAVAILABLE, ADMIN_SHUTDOWN, "the server stops");
    }
    let (head, _) = request.into_parts();
    match url_parameters(&head).and_then(read) {
        Ok((sql, file)) => {
            let mut shape = AnswerShape::of_format(file.format, &head.headers);
            if file.write.compression.is_some() {
                shape.coding = super::ContentCoding::Identity;
            }
            shape.download = Some(file);
            let login = login_of(&head);
            start(QueryRequest { sql, params: Vec::new(), format: None }, shape, login, shared).await
        }
        Err(error) => error_response(&error),
    }
}

/// The file that an export answers with.
#[derive(Debug)]
pub(super) struct ExportFile {
    pub(super) format: AnswerFormat,
    pub(super) write: WriteOptions,
    /// The name of the file, which has only letters, digits, `_`, `-` and points.
    pub(super) name: String,
}

/// Reads the parameters. Returns the query and its file.
fn read(parameters: Vec<(String, String)>) -> Result<(String, ExportFile)> {
    let invalid = |message: String| Error::new(ErrorKind::InvalidParameter, message);
    let (mut source, mut format, mut write) = (None, None, WriteOptions::default());
    let (mut stem, mut ending, mut has_options) = (String::new(), "", false);
    for (name, value) in parameters {
        match name.as_str() {
            "table" | "query" if source.is_some() => {
                return Err(invalid("an export takes one of the parameters table and query".to_owned()));
            }
            "table" => {
                source = Some(format!("SELECT * FROM {}", quoted_table(&value)));
                stem = value;
            }
            "query" => {
                source = Some(value);
                stem = "query".to_owned();
            }
            "format" => format = Some(AnswerFormat::of_name(&value).map_err(invalid)?),
            _ => {
                write.set(&name, &value)?;
                has_options = true;
                if name == "compression" {
                    ending = match value.to_ascii_lowercase().as_str() {
                        "gzip" | "gz" => ".gz",
                        "zstd" | "zst" => ".zst",
                        _ => "",
                    };
                }
            }
        }
    }
    let source = source.ok_or_else(|| {
        invalid("an export needs the parameter table or query".to_owned()).hint("/export?table=visits&format=csv")
    })?;
    let format = format.unwrap_or(AnswerFormat::Csv);
    if has_options && matches!(format, AnswerFormat::Json | AnswerFormat::Arrow) {
        return Err(invalid(format!("the format {} takes no further parameters", format.name())));
    }
    let ending = if format == AnswerFormat::Parquet { "" } else { ending };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let stem: String = stem.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let name = format!("{stem}.{}{ending}", format.file_ending());
    Ok((source, ExportFile { format, write, name }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parameters: &[(&str, &str)]) -> Result<(String, String)> {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        read(parameters.collect()).map(|(sql, file)| (sql, file.name))
    }

    #[test]
    fn a_file_is_named_for_its_table() {
        let (sql, name) = of(&[("table", "main.vi\"s\r\nits")]).expect("an export");
        assert_eq!(sql, "SELECT * FROM \"main\".\"vi\"\"s\r\nits\"");
        assert_eq!(name, "main.vi_s__its.csv");
        let packed = of(&[("query", "SELECT 1"), ("format", "ndjson"), ("compression", "gzip")]).expect("an export");
        assert_eq!(packed.1, "query.ndjson.gz");
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for wrong in [
            &[][..],
            &[("table", "t"), ("query", "SELECT 1")],
            &[("table", "t"), ("format", "xml")],
            &[("table", "t"), ("format", "arrow"), ("header", "false")],
            &[("table", "t"), ("heder", "false")],
        ] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
