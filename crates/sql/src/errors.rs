//! What DataFusion and Arrow report, said in this engine's words and with a kind that a caller can act on.
//!
//! DataFusion's errors are trees: contexts ("Optimizer rule ... failed"), shared and collected errors, Arrow errors that
//! carry DataFusion errors that carry ours. The translation walks down to the error that knows what happened and reads
//! its message; where the message is the only place that says which name, value or type was meant, it is taken apart
//! ([`messages`]). Names of Arrow types and DataFusion's notation of literals become SQL on the way ([`wording`]), and
//! names that do not exist come with the ones that were probably meant.
//!
//! Our own code inside DataFusion's operators raises [`rowmill_base::Error`] through [`to_datafusion`] and gets exactly
//! that error back here.

mod messages;
mod wording;

use std::any::Any;
use std::error::Error as StdError;

use arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::parquet::errors::ParquetError;
use datafusion::sql::sqlparser::parser::ParserError;
use rowmill_base::{Error, ErrorKind, nearest};

pub(crate) use wording::plain;
#[allow(unused_imports)] // used by the functions to come
pub(crate) use wording::type_name;

/// Where the translation finds the names that exist.
pub trait NameCandidates {
    /// Tables and views that a statement may name, as they were spelled.
    fn tables(&self) -> Vec<String>;

    /// Functions of all kinds.
    fn functions(&self) -> Vec<String>;

    /// A column as it was spelled when it was made.
    fn column(&self, _relation: Option<&str>, name: &str) -> String {
        name.to_string()
    }

    /// Catalog and schema that an unqualified table name gets.
    fn default_schema(&self) -> (String, String) {
        ("datafusion".into(), "public".into())
    }
}

/// No names at all: errors without candidates.
#[derive(Clone, Copy, Debug)]
pub struct NoCandidates;

impl NameCandidates for NoCandidates {
    fn tables(&self) -> Vec<String> {
        Vec::new()
    }

    fn functions(&self) -> Vec<String> {
        Vec::new()
    }
}

/// One of our errors on its way through DataFusion; [`from_datafusion`] gives it back unchanged.
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error of a statement that DataFusion parsed, planned or ran.
pub fn from_datafusion(error: DataFusionError, names: &dyn NameCandidates) -> Error {
    translate(&error, names)
}

/// The error of a statement that panicked: a bug, with the panic's message.
pub fn from_panic(payload: &(dyn Any + Send)) -> Error {
    let message = payload
        .downcast_ref::<&str>()
        .map(|text| text.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into());
    Error::internal(format!("the statement failed with a bug: {message}"))
        .hint("the database stays usable; please report the statement")
}

fn translate(error: &DataFusionError, names: &dyn NameCandidates) -> Error {
    match error {
        DataFusionError::External(inner) => external(inner.as_ref(), names),
        DataFusionError::Shared(inner) => translate(inner, names),
        DataFusionError::Context(_, inner) => translate(inner, names),
        DataFusionError::Diagnostic(_, inner) => translate(inner, names),
        DataFusionError::Collection(all) => match all.first() {
            Some(first) => translate(first, names),
            None => Error::internal("an empty collection of errors"),
        },
        DataFusionError::ArrowError(inner, _) => from_arrow(inner, names),
        DataFusionError::ParquetError(inner) => from_parquet(inner, names),
        DataFusionError::ObjectStore(inner) => from_object_store(inner, names),
        DataFusionError::IoError(inner) => Error::io("a file that the statement uses", inner),
        DataFusionError::SQL(inner, _) => syntax_error(inner),
        DataFusionError::SchemaError(inner, _) => from_schema(inner, names),
        DataFusionError::NotImplemented(text) => messages::unsupported(text, names),
        DataFusionError::Plan(text) => messages::planning(text, names),
        DataFusionError::Execution(text) => messages::execution(text, names),
        DataFusionError::Configuration(text) => Error::new(ErrorKind::InvalidParameter, plain(text)),
        DataFusionError::ResourcesExhausted(text) => messages::exhausted(text),
        DataFusionError::ExecutionJoin(inner) if inner.is_cancelled() => {
            Error::new(ErrorKind::Cancelled, "the statement was cancelled")
        }
        DataFusionError::ExecutionJoin(inner) => {
            let text = inner.to_string();
            let message = text.split_once("panicked with message ").map_or(text.as_str(), |(_, rest)| rest);
            from_panic(&message.trim_matches('"').to_string())
        }
        DataFusionError::Internal(text) => messages::internal(text, names),
        DataFusionError::Substrait(text) | DataFusionError::Ffi(text) => Error::internal(plain(text)),
    }
}

/// An error that came from outside DataFusion: ours, or one of the libraries below.
fn external(error: &(dyn StdError + Send + Sync + 'static), names: &dyn NameCandidates) -> Error {
    let mut at: &(dyn StdError + 'static) = error;
    loop {
        if let Some(ours) = at.downcast_ref::<Error>() {
            return ours.clone();
        }
        if let Some(inner) = at.downcast_ref::<DataFusionError>() {
            return translate(inner, names);
        }
        if let Some(inner) = at.downcast_ref::<ArrowError>() {
            return from_arrow(inner, names);
        }
        if let Some(inner) = at.downcast_ref::<ParquetError>() {
            return from_parquet(inner, names);
        }
        match at.source() {
            Some(source) => at = source,
            None => break,
        }
    }
    let text = error.to_string();
    if text.starts_with("regex parse error") || text.contains("Compiled regex exceeds size limit") {
        return messages::bad_regex(&text);
    }
    Error::new(ErrorKind::InvalidParameter, plain(&text))
}

/// The error of an Arrow kernel: a value that does not fit, a text that is not a value, a division by zero.
pub(crate) fn from_arrow(error: &ArrowError, names: &dyn NameCandidates) -> Error {
    match error {
        ArrowError::ExternalError(inner) => external(inner.as_ref(), names),
        ArrowError::DivideByZero => messages::division_by_zero(),
        ArrowError::ArithmeticOverflow(text) => messages::overflow(text),
        ArrowError::CastError(text) => messages::bad_cast(text),
        ArrowError::ParseError(text) => messages::bad_text(text),
        ArrowError::ComputeError(text) | ArrowError::InvalidArgumentError(text) => messages::execution(text, names),
        ArrowError::NotYetImplemented(text) => messages::unsupported(text, names),
        ArrowError::MemoryError(text) => Error::new(ErrorKind::MemoryLimit, plain(text)),
        ArrowError::CsvError(text) | ArrowError::JsonError(text) | ArrowError::ParquetError(text) => {
            Error::new(ErrorKind::BadFileFormat, plain(text))
        }
        ArrowError::IpcError(text) | ArrowError::AvroError(text) => Error::new(ErrorKind::BadFileFormat, plain(text)),
        ArrowError::IoError(_, inner) => Error::io("a file that the statement uses", inner),
        ArrowError::OffsetOverflowError(bytes) => messages::batch_too_large(*bytes as u64),
        ArrowError::DictionaryKeyOverflowError | ArrowError::RunEndIndexOverflowError => {
            Error::new(ErrorKind::ResultTooLarge, "a dictionary has more values than its keys can number")
        }
        ArrowError::SchemaError(text) | ArrowError::CDataInterface(text) => {
            Error::new(ErrorKind::DatatypeMismatch, plain(text))
        }
    }
}

fn from_parquet(error: &ParquetError, names: &dyn NameCandidates) -> Error {
    if let ParquetError::External(inner) = error {
        return external(inner.as_ref(), names);
    }
    Error::new(ErrorKind::BadFileFormat, format!("not a readable Parquet file: {}", plain(&error.to_string())))
}

fn from_object_store(error: &datafusion::object_store::Error, names: &dyn NameCandidates) -> Error {
    use datafusion::object_store::Error as Store;
    match error {
        Store::NotFound { path, .. } => Error::new(ErrorKind::UndefinedFile, format!("there is no file \"{path}\"")),
        Store::Generic { source, .. } => external(source.as_ref(), names),
        other => Error::new(ErrorKind::Io, plain(&other.to_string())),
    }
}

/// The error of a statement that is not SQL: what was found, where, and what would go there.
pub fn syntax_error(error: &ParserError) -> Error {
    let text = match error {
        ParserError::RecursionLimitExceeded => {
            return Error::new(ErrorKind::StatementTooComplex, "the statement nests deeper than the parser goes")
                .hint("raise it with SET expression_depth_max = ..., or write the statement flatter");
        }
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
    };
    messages::syntax(text)
}

fn from_schema(error: &SchemaError, names: &dyn NameCandidates) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => undefined_column(field, valid_fields, names),
        SchemaError::AmbiguousReference { field } => ambiguous_column(field, names),
        SchemaError::DuplicateQualifiedField { qualifier, name } => Error::new(
            ErrorKind::DuplicateColumn,
            format!("column \"{name}\" appears twice in \"{}\"", qualifier.table()),
        )
        .hint("give the columns, or the two tables, different names with AS"),
        SchemaError::DuplicateUnqualifiedField { name } => {
            Error::new(ErrorKind::DuplicateColumn, format!("column \"{}\" appears twice", plain(name)))
                .hint("give one of them another name with AS")
        }
    }
}

fn ambiguous_column(field: &Column, names: &dyn NameCandidates) -> Error {
    let name = names.column(None, &field.name);
    Error::new(
        ErrorKind::AmbiguousColumn,
        format!("column \"{name}\" is in more than one table of the FROM clause{}", position(field)),
    )
    .hint(format!("write the table in front of it: table.{name}"))
}

fn undefined_column(field: &Column, valid: &[Column], names: &dyn NameCandidates) -> Error {
    let relation = field.relation.as_ref().map(|relation| relation.table().to_string());
    let relations: Vec<&str> =
        valid.iter().filter_map(|column| column.relation.as_ref().map(|relation| relation.table())).collect();
    if let Some(asked) = &relation
        && !relations.is_empty()
        && !relations.iter().any(|known| known.eq_ignore_ascii_case(asked))
    {
        return undefined_relation(asked, field, valid, &relations);
    }
    let qualified = match &relation {
        Some(relation) => format!("{relation}.{}", field.name),
        None => field.name.clone(),
    };
    let error =
        Error::new(ErrorKind::UndefinedColumn, format!("there is no column \"{qualified}\"{}", position(field)));
    let mut known: Vec<String> = valid
        .iter()
        .filter(|column| !column.name.contains(['(', '\u{1}']))
        .map(|column| names.column(column.relation.as_ref().map(|relation| relation.table()), &column.name))
        .collect();
    known.sort();
    known.dedup();
    let near = nearest(&field.name, known.iter().map(String::as_str));
    match (near.is_empty(), known.len()) {
        (false, _) => error.hint(format!("did you mean {}?", near.join(", "))),
        (true, 1..=20) => error.hint(format!("the columns are {}", known.join(", "))),
        (true, _) => error,
    }
}

fn undefined_relation(asked: &str, field: &Column, valid: &[Column], relations: &[&str]) -> Error {
    let error = Error::new(
        ErrorKind::UndefinedTable,
        format!("\"{asked}\" is not a table or alias of the FROM clause{}", position(field)),
    );
    let mut holders: Vec<&str> = valid
        .iter()
        .filter(|column| column.name == field.name)
        .filter_map(|column| column.relation.as_ref().map(|relation| relation.table()))
        .collect();
    if holders.is_empty() {
        holders = nearest(asked, relations.iter().copied());
    }
    holders.sort();
    holders.dedup();
    match holders.as_slice() {
        [] => error,
        few => {
            let few: Vec<String> = few.iter().take(3).map(|table| format!("{table}.{}", field.name)).collect();
            error.hint(format!("did you mean {}?", few.join(", ")))
        }
    }
}

/// ` at line 1, column 8`, if the planner knows where the name stands.
fn position(field: &Column) -> String {
    match field.spans.first() {
        Some(span) if span.start.line > 0 => format!(" at line {}, column {}", span.start.line, span.start.column),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
