//! Functions that read files: `read_csv`, `read_parquet`, `read_json` and `read_arrow`.
//!
//! Their options have the names of `COPY ... FROM` and those of DuckDB.

use std::sync::Arc;

use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_query::catalog::{FileCall, FileOption, RowSource};
use rowmill_txn::Catalog;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::catalog::StatementContext;
use crate::dialect::RowmillDialect;
use crate::files::rows::FileRows;
use crate::files::{FileFormat, FileSet, FileUnion, ReadOptions, UnionOptions, switch, unknown_option};
use crate::statement::named_type::sql_type;

/// The options that only these functions have. The others are those of [`ReadOptions::set`].
const OPTIONS: &[&str] = &[
    "columns",
    "types",
    "union_by_name",
    "filename",
    "hive_partitioning",
    "all_varchar",
    "sample_size",
    "ignore_errors",
    "nullstr",
    "delim",
    "auto_detect",
];

/// Returns the format that a function reads, if it is one that reads files.
pub(crate) fn format_of(function: &str) -> Option<FileFormat> {
    Some(match function {
        "read_csv" | "read_csv_auto" => FileFormat::Csv,
        "read_parquet" | "parquet_scan" => FileFormat::Parquet,
        "read_json" | "read_json_auto" | "read_ndjson" | "read_ndjson_auto" => FileFormat::Json,
        "read_arrow" => FileFormat::Arrow,
        _ => return None,
    })
}

/// Opens the files of a call.
pub(crate) fn rows(context: &StatementContext, call: &FileCall) -> Result<Arc<dyn RowSource>> {
    let format = format_of(&call.function);
    let mut read = ReadOptions { format, ..context.read_options() };
    let mut union = UnionOptions::default();
    for (name, value) in &call.options {
        match (name.as_str(), value) {
            ("columns", FileOption::Pairs(pairs)) => read.columns = types(context, pairs)?,
            ("types" | "dtypes" | "column_types", FileOption::Pairs(pairs)) => read.types = types(context, pairs)?,
            _ => set(&mut read, &mut union, name, value)?,
        }
    }
    if union.is_needed() {
        let (rows, notices) = FileUnion::open(&call.files, &read, &union)?;
        context.notices.lock().extend(notices);
        return Ok(rows);
    }
    let files = FileSet::open_all(&call.files, &read)?;
    context.notices.lock().extend(files.notices().iter().cloned());
    Ok(FileRows::new(files)?)
}

fn set(read: &mut ReadOptions, union: &mut UnionOptions, name: &str, value: &FileOption) -> Result<()> {
    match (name, value) {
        ("columns" | "types" | "dtypes" | "column_types", _) => {
            let message = format!("the option {name} takes names and types");
            return Err(Error::new(ErrorKind::InvalidParameter, message)
                .hint(format!("write {name} = {{'id': 'BIGINT', 'name': 'TEXT'}}")));
        }
        ("union_by_name", FileOption::Text(text)) => union.by_name = switch(name, text)?,
        ("hive_partitioning", FileOption::Text(text)) => union.hive_partitioning = switch(name, text)?,
        // A name instead of true is the name of the column.
        ("filename", FileOption::Text(text)) => {
            union.filename = match text.as_str() {
                "true" => Some(name.to_owned()),
                "false" => None,
                column => Some(column.to_owned()),
            }
        }
        (_, FileOption::Text(text)) => return set_text(read, name, text),
        (_, FileOption::List(_) | FileOption::Pairs(_)) => {
            let message = format!("the option {name} takes one value");
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
    }
    Ok(())
}

/// Sets an option that has the name of DuckDB, or one of `COPY`.
fn set_text(read: &mut ReadOptions, name: &str, text: &str) -> Result<()> {
    match name {
        "all_varchar" => read.set("all_text", text),
        "sample_size" if text == "-1" => read.set("sample_rows", &usize::MAX.to_string()),
        "sample_size" => read.set("sample_rows", text),
        "ignore_errors" => read.set("on_error", if switch(name, text)? { "skip" } else { "fail" }),
        // The reader finds the layout of JSON itself.
        "format" if matches!(text, "auto" | "newline_delimited" | "nd" | "array" | "unstructured") => Ok(()),
        "auto_detect" if switch(name, text)? => Ok(()),
        "auto_detect" => {
            let message = "auto_detect = false is not supported";
            Err(Error::new(ErrorKind::Unsupported, message).hint("the option columns states names and types"))
        }
        "ignore_unknown" => {
            let message = "the option ignore_unknown belongs to COPY, because a query names the columns that it reads";
            Err(Error::new(ErrorKind::InvalidParameter, message))
        }
        name => read.set(name, text).map_err(|error| match error.kind() {
            ErrorKind::UndefinedObject => {
                let known: Vec<&str> = ReadOptions::NAMES.iter().chain(OPTIONS).copied().collect();
                unknown_option(name, &known)
            }
            _ => error,
        }),
    }
}

fn types(context: &StatementContext, pairs: &[(String, String)]) -> Result<Vec<(String, SqlType)>> {
    let catalog = context.snapshot.catalog();
    pairs.iter().map(|(name, text)| Ok((name.clone(), type_of(catalog, text)?))).collect()
}

/// Returns the type that a text names.
fn type_of(catalog: &Catalog, text: &str) -> Result<SqlType> {
    let dialect = RowmillDialect::new(true, text.len());
    let parsed = Parser::new(&dialect).try_with_sql(text).and_then(|mut parser| {
        let parsed = parser.parse_data_type()?;
        Ok((parsed, parser.peek_token().token == Token::EOF))
    });
    match parsed {
        Ok((parsed, true)) => sql_type(catalog, &parsed),
        _ => Err(Error::new(ErrorKind::UndefinedObject, format!("there is no type {text}"))),
    }
}
