//! The result of a statement in each format.
//!
//! An error after the first bytes can no longer change the status of the answer. JSON and lines of JSON then end with
//! an object `error`. The other formats have no place for it, so the connection is broken off.

use std::io::Write;

use rowmill::arrow::ipc::writer::StreamWriter;
use rowmill::output::{FileFormat, WriteOptions, stream_writer};
use rowmill::text::{TextColumn, write_json_string};
use rowmill::{Error, Outcome, Result, RowStream, SqlType};

use super::answer_format::AnswerFormat;
use super::answer_writer::AnswerWriter;
use super::error_json;

/// Writes the result of a statement. `options` are those of its file, for formats that are one.
pub(super) fn write_result(
    outcome: Outcome,
    notices: &[String],
    format: AnswerFormat,
    options: &WriteOptions,
    mut out: AnswerWriter,
) {
    let rows = match outcome {
        Outcome::Rows(rows) => rows,
        Outcome::Changed { tag, rows } => return write_done(tag, Some(rows), notices, format, &mut out),
        Outcome::Done { tag } => return write_done(tag, None, notices, format, &mut out),
    };
    let written = match format {
        AnswerFormat::Json => write_json(rows, notices, &mut out),
        AnswerFormat::JsonLines => write_file(rows, FileFormat::Json, options, &out),
        AnswerFormat::Csv => write_file(rows, FileFormat::Csv, options, &out),
        AnswerFormat::Parquet => write_file(rows, FileFormat::Parquet, options, &out),
        AnswerFormat::Arrow => write_arrow(rows, &out),
    };
    // If the client has gone, there is no place to report an error to.
    match (written, format) {
        (Ok(()), _) => drop(out.finish()),
        (Err(error), AnswerFormat::JsonLines) if options.compression.is_none() => {
            let _ = writeln!(out, "{}", serde_json::json!({"error": error_json(&error)})).and_then(|()| out.finish());
        }
        (Err(error), _) => out.break_off(&error),
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("sending the answer", &error)
}

/// Writes the answer of a statement without rows: in JSON its kind and its count, in other formats nothing.
fn write_done(tag: &str, rows: Option<u64>, notices: &[String], format: AnswerFormat, out: &mut AnswerWriter) {
    if matches!(format, AnswerFormat::Json | AnswerFormat::JsonLines) {
        let mut answer = serde_json::json!({"tag": tag});
        if let Some(rows) = rows {
            answer["rows_changed"] = rows.into();
        }
        if !notices.is_empty() {
            answer["notices"] = notices.into();
        }
        let _ = writeln!(out, "{answer}");
    }
    let _ = out.finish();
}

/// Writes `{"columns": [{"name": ..., "type": ...}], "rows": [[...], ...], "row_count": ...}`.
fn write_json(rows: RowStream, notices: &[String], out: &mut AnswerWriter) -> Result<()> {
    let mut text = String::from("{\"columns\": [");
    for (index, field) in rows.schema().fields().iter().enumerate() {
        text.push_str(if index > 0 { ", {\"name\": " } else { "{\"name\": " });
        write_json_string(field.name(), &mut text);
        text.push_str(", \"type\": ");
        let kind = SqlType::of_field(field).unwrap_or(SqlType::TEXT);
        write_json_string(&kind.to_string(), &mut text);
        text.push('}');
    }
    text.push_str("], \"rows\": [");
    let mut count = 0_u64;
    let mut fault = None;
    for batch in rows {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                fault = Some(error);
                break;
            }
        };
        let columns = batch.schema_ref().fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, array)| TextColumn::of_field(field, array)).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            text.push_str(if count > 0 { ",\n[" } else { "\n[" });
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                column.write_json(row, &mut text);
            }
            text.push(']');
            count += 1;
            if text.len() >= 16 << 10 {
                out.write_all(text.as_bytes()).map_err(failed)?;
                text.clear();
            }
        }
    }
    text.push_str(&format!("\n], \"row_count\": {count}"));
    if !notices.is_empty() {
        text.push_str(&format!(", \"notices\": {}", serde_json::Value::from(notices)));
    }
    if let Some(error) = fault {
        text.push_str(&format!(", \"error\": {}", error_json(&error)));
    }
    text.push_str("}\n");
    out.write_all(text.as_bytes()).map_err(failed)
}

/// Writes the rows as a file of this format.
fn write_file(rows: RowStream, format: FileFormat, options: &WriteOptions, out: &AnswerWriter) -> Result<()> {
    let options = WriteOptions { format: Some(format), ..options.clone() };
    let mut writer = stream_writer(Box::new(out.clone()), "the answer", &rows.schema(), &options)?;
    for batch in rows {
        if let Err(error) = batch.and_then(|batch| writer.write(&batch)) {
            if format == FileFormat::Json {
                // The rows before the error go out whole, so that an error after them has a line of its own.
                let _ = writer.finish();
            }
            return Err(error);
        }
    }
    writer.finish().map(|_| ())
}

fn write_arrow(rows: RowStream, out: &AnswerWriter) -> Result<()> {
    let internal = |error: rowmill::arrow::error::ArrowError| Error::internal(format!("writing Arrow: {error}"));
    let mut writer = StreamWriter::try_new(out.clone(), &rows.schema()).map_err(internal)?;
    for batch in rows {
        writer.write(&batch?).map_err(internal)?;
    }
    writer.finish().map_err(internal)
}
