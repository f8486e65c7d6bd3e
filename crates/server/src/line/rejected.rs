//! Lines that were rejected, and the table that keeps them.

use std::borrow::Cow;
use std::sync::Arc;

use rowmill::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use rowmill::{Connection, Error, ErrorKind, Result};

/// The name of the table.
pub(super) const REJECTED_TABLE: &str = "rowmill_rejected_lines";
/// The most lines of one request that may be rejected. With more, the whole request is refused, so that a body of
/// garbage takes no more memory than this number of lines.
pub(crate) const REJECTED_MAX: usize = 10_000;

/// A line that was not stored.
#[derive(Debug)]
pub(crate) struct RejectedLine<'a> {
    /// The number of the line in the body, counted from 1.
    pub(crate) number: u64,
    /// The line as it was sent. Bytes that are no UTF-8 are replaced.
    pub(crate) text: Cow<'a, str>,
    /// Why it was rejected.
    pub(crate) reason: String,
}

/// Adds lines to the table, in the open transaction. Makes the table if it is missing.
pub(super) fn keep_rejected(connection: &mut Connection, lines: &[RejectedLine<'_>], now_us: i64) -> Result<()> {
    match connection.columns(REJECTED_TABLE) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::UndefinedTable => {
            let columns = "received TIMESTAMP, line_number BIGINT, line TEXT, reason TEXT";
            let clauses = "TIMESTAMP(received) PARTITION BY DAY";
            connection.execute_batch(&format!("CREATE TABLE {REJECTED_TABLE} ({columns}) {clauses}"))?;
        }
        Err(error) => return Err(error),
    }
    let received = TimestampMicrosecondArray::from(vec![now_us; lines.len()]);
    let numbers = lines.iter().map(|line| i64::try_from(line.number).unwrap_or(i64::MAX));
    let numbers = Int64Array::from_iter_values(numbers);
    let texts = StringViewArray::from_iter_values(lines.iter().map(|line| &line.text));
    let reasons = StringViewArray::from_iter_values(lines.iter().map(|line| &line.reason));
    let columns: [(&str, ArrayRef); 4] = [
        ("received", Arc::new(received)),
        ("line_number", Arc::new(numbers)),
        ("line", Arc::new(texts)),
        ("reason", Arc::new(reasons)),
    ];
    let batch = RecordBatch::try_from_iter(columns)
        .map_err(|error| Error::internal(format!("rows of rejected lines: {error}")))?;
    connection.append(REJECTED_TABLE, &batch)?;
    Ok(())
}
