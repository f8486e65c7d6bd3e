//! `rowmill_oldest_snapshot()`: the oldest state that is still read, what it holds back, and who reads it.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use rowmill_base::{Error, Result};
use rowmill_plan::Constant;

use crate::catalog::StatementContext;
use crate::log_functions::takes_no_argument;
use crate::open_connections::{ConnectionActivity, OpenConnection};
use crate::outcome::nullable_batch;
use crate::redaction::without_passwords;

/// Returns the rows of `rowmill_oldest_snapshot()`, or `None` if `name` is another function. There is a row for each
/// connection that reads the state; one without a connection if its readers are not connections of a server; and none
/// if nothing reads an older state than the latest.
pub(crate) fn rows(context: &StatementContext, name: &str, arguments: &[Constant]) -> Result<Option<RecordBatch>> {
    if name != "rowmill_oldest_snapshot" {
        return Ok(None);
    }
    if !arguments.is_empty() {
        return Err(takes_no_argument(name));
    }
    let engine = context.engine.upgrade();
    let engine = engine.ok_or_else(|| Error::internal("a statement of a database that is closed"))?;
    let oldest = engine.oldest_snapshot()?;
    let mut readers: Vec<Option<(Arc<OpenConnection>, ConnectionActivity)>> = Vec::new();
    if let Some(oldest) = &oldest {
        let connections = context.connections.all().into_iter();
        let reading = connections.map(|connection| (Arc::clone(&connection), connection.activity()));
        readers.extend(reading.filter(|(_, now)| now.reads == Some(oldest.commit)).map(Some));
        if readers.is_empty() {
            readers.push(None);
        }
    }
    let rows = readers.len();
    let connections = || readers.iter().map(Option::as_ref);
    let texts = |text: fn(&OpenConnection, &ConnectionActivity) -> Option<String>| -> ArrayRef {
        let text = |reader: Option<&(Arc<OpenConnection>, ConnectionActivity)>| {
            reader.and_then(|(connection, now)| text(connection, now))
        };
        Arc::new(connections().map(text).collect::<StringArray>())
    };
    let numbers = |number: Option<u64>| -> ArrayRef { Arc::new(UInt64Array::from(vec![number; rows])) };
    let oldest = oldest.as_ref();
    let age = oldest.and_then(|oldest| oldest.age).map(|age| age.as_secs_f64() * 1e3);
    let process: ArrayRef = Arc::new(UInt32Array::from(vec![oldest.map(|oldest| oldest.process); rows]));
    let numbered = connections().map(|reader| Some(reader?.0.number)).collect::<UInt64Array>();
    nullable_batch(vec![
        ("process", process),
        ("commit", numbers(oldest.map(|oldest| oldest.commit.0))),
        ("commits_since", numbers(oldest.map(|oldest| oldest.commits_since))),
        ("age_ms", Arc::new(Float64Array::from(vec![age; rows]))),
        ("held_bytes", numbers(oldest.map(|oldest| oldest.held_bytes))),
        ("connection", Arc::new(numbered)),
        ("user_name", texts(|connection, _| connection.client.user.clone())),
        ("client", texts(|connection, _| connection.client.address.clone())),
        ("state", texts(|_, now| Some(now.state.name().to_owned()))),
        ("statement", texts(|_, now| Some(without_passwords(&now.text).into_owned()))),
    ])
    .map(Some)
}
