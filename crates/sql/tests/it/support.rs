//! Helpers that the tests share: an engine with tables, and results as text.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use rowmill_base::{ErrorKind, SchemaId, Settings, SqlType};
use rowmill_sql::{Outcome, Session, query_threads};
use rowmill_txn::{ColumnSpec, Engine};

/// Opens an empty database in memory.
pub(crate) fn engine() -> Arc<Engine> {
    Engine::memory(Settings::default()).unwrap()
}

/// Returns the id of the schema `main`.
pub(crate) fn main_schema(engine: &Engine) -> SchemaId {
    engine.snapshot().unwrap().catalog().schema("main").unwrap().id
}

/// Creates a table with columns of a name, a type and values.
pub(crate) fn table(engine: &Arc<Engine>, name: &str, columns: Vec<(&str, SqlType, ArrayRef)>) {
    let mut transaction = engine.begin().unwrap();
    let specs = columns.iter().map(|(name, kind, _)| ColumnSpec::new(*name, kind.clone())).collect();
    let id = transaction.create_table(main_schema(engine), name, specs).unwrap();
    let schema = transaction.view().unwrap().catalog().table(main_schema(engine), name).unwrap().arrow_schema();
    let arrays = columns.into_iter().map(|(_, _, values)| values).collect();
    transaction.insert(id, &RecordBatch::try_new(schema, arrays).unwrap()).unwrap();
    transaction.commit().unwrap();
}

/// Creates `t (A INTEGER, "B b" TEXT)` with five rows, one of them with NULLs.
pub(crate) fn small() -> (Arc<Engine>, Session) {
    use arrow::array::{Int32Array, StringViewArray};
    let engine = engine();
    let a = Arc::new(Int32Array::from(vec![Some(1), Some(2), Some(3), None, Some(2)]));
    let b = Arc::new(StringViewArray::from(vec![Some("x"), Some("y"), Some("x"), None, Some("z")]));
    table(&engine, "T", vec![("A", SqlType::Int32, a), ("B b", SqlType::TEXT, b)]);
    let session = Session::new(Arc::clone(&engine), query_threads()).unwrap();
    (engine, session)
}

/// Runs one statement.
pub(crate) fn run(session: &mut Session, sql: &str) -> rowmill_base::Result<Outcome> {
    let statement = session.parse(sql)?.remove(0);
    session.run_in_engine(&statement, &[])
}

/// Returns the header and the rows of a result, cells separated by `|`.
pub(crate) fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    match run(session, sql) {
        Ok(outcome) => text(outcome),
        Err(error) => panic!("{sql}: {error:?}"),
    }
}

/// Returns the rows of a result in the order of their text, without the header.
pub(crate) fn sorted(session: &mut Session, sql: &str) -> Vec<String> {
    let mut rows = rows(session, sql);
    rows.remove(0);
    rows.sort();
    rows
}

/// Returns the error of a statement, whether it fails at once or while its rows are pulled.
pub(crate) fn error(session: &mut Session, sql: &str) -> rowmill_base::Error {
    match run(session, sql) {
        Err(error) => error,
        Ok(Outcome::Rows(mut stream)) => match stream.find_map(Result::err) {
            Some(error) => error,
            None => panic!("{sql}: no error"),
        },
        Ok(other) => panic!("{sql}: {other:?}"),
    }
}

pub(crate) fn error_kind(session: &mut Session, sql: &str) -> ErrorKind {
    error(session, sql).kind()
}

pub(crate) fn text(outcome: Outcome) -> Vec<String> {
    let Outcome::Rows(stream) = outcome else { panic!("rows were expected, not {outcome:?}") };
    let names: Vec<String> = stream.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut lines = vec![names.join("|")];
    let options = FormatOptions::default().with_null("NULL");
    for batch in stream {
        let batch = batch.unwrap();
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            lines.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    lines
}
