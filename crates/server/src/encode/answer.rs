//! Rows of a program as `DataRow` messages, without a batch of Arrow between them.
//!
//! A statement on keyed tables finds a row in a microsecond or two. To put it into arrays and to resolve their types
//! would take as long again. We do this for types whose values need no formatting of their own; results with a column
//! of another type become a batch ([`EncodedBatch`](super::EncodedBatch)).

use bytes::{BufMut, BytesMut};
use rowmill::arrow::datatypes::{Field, Schema};
use rowmill::pg_types::PgType;
use rowmill::{Answer, Result, SqlType, TimeUnit};

use super::cell::put_integer;
use super::{EPOCH_DAYS, EPOCH_MICROS, WireFormat, put_length};

/// A column of a result, by the way its values are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AnswerColumn {
    kind: SqlType,
    cell: AnswerCell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerCell {
    BoolText,
    BoolBinary,
    IntegerText,
    Int2,
    Int4,
    Int8,
    Float8,
    Text,
    Bytes,
    Date,
    Timestamp,
}

/// The columns of a result that the client was told, or `None` if a column needs a batch.
pub(crate) fn answer_columns(told: &Schema, formats: &[WireFormat]) -> Option<Vec<AnswerColumn>> {
    told.fields().iter().zip(formats).map(|(field, format)| AnswerColumn::of(field, *format)).collect()
}

/// Whether the columns of an answer have these types.
pub(crate) fn has_columns(answer: &Answer<'_>, columns: &[AnswerColumn]) -> bool {
    let is_alike = |(index, column): (usize, &AnswerColumn)| match (answer.column_type(index), &column.kind) {
        (Some(SqlType::Text { .. }), SqlType::Text { .. }) => true,
        (found, kind) => found == Some(kind),
    };
    answer.column_count() == columns.len() && columns.iter().enumerate().all(is_alike)
}

/// Appends the rows of an answer as messages.
pub(crate) fn put_answer(answer: &Answer<'_>, columns: &[AnswerColumn], out: &mut BytesMut) -> Result<()> {
    for row in 0..answer.len() {
        out.put_u8(b'D');
        let message_at = out.len();
        out.put_u32(0);
        out.put_i16(columns.len() as i16);
        for (index, column) in columns.iter().enumerate() {
            if answer.is_null(row, index)? {
                out.put_i32(-1);
                continue;
            }
            let value_at = out.len();
            out.put_u32(0);
            column.cell.put(answer, row, index, out)?;
            put_length(out, value_at, value_at + 4);
        }
        put_length(out, message_at, message_at);
    }
    Ok(())
}

impl AnswerColumn {
    fn of(field: &Field, format: WireFormat) -> Option<AnswerColumn> {
        let kind = SqlType::from_arrow(field.data_type())?;
        // A declared type, for example `oid`, may have another binary form.
        if PgType::of_field(field) != PgType::of(&kind) {
            return None;
        }
        let cell = match (&kind, format) {
            (SqlType::Boolean, WireFormat::Text) => AnswerCell::BoolText,
            (SqlType::Boolean, WireFormat::Binary) => AnswerCell::BoolBinary,
            (SqlType::Int8 | SqlType::Int16 | SqlType::Int32 | SqlType::Int64, WireFormat::Text) => {
                AnswerCell::IntegerText
            }
            (SqlType::Int8 | SqlType::Int16, WireFormat::Binary) => AnswerCell::Int2,
            (SqlType::Int32, WireFormat::Binary) => AnswerCell::Int4,
            (SqlType::Int64, WireFormat::Binary) => AnswerCell::Int8,
            (SqlType::Float64, WireFormat::Binary) => AnswerCell::Float8,
            (SqlType::Text { .. }, _) => AnswerCell::Text,
            (SqlType::Blob | SqlType::Uuid, WireFormat::Binary) => AnswerCell::Bytes,
            (SqlType::Date, WireFormat::Binary) => AnswerCell::Date,
            (SqlType::Timestamp { unit: TimeUnit::Microsecond, .. }, WireFormat::Binary) => AnswerCell::Timestamp,
            _ => return None,
        };
        Some(AnswerColumn { kind, cell })
    }
}

impl AnswerCell {
    /// Appends a value that is not NULL.
    #[inline]
    fn put(self, answer: &Answer<'_>, row: usize, column: usize, out: &mut BytesMut) -> Result<()> {
        match self {
            AnswerCell::BoolText => out.put_u8(if answer.integer(row, column)? == 0 { b'f' } else { b't' }),
            AnswerCell::BoolBinary => out.put_u8(answer.integer(row, column)? as u8),
            AnswerCell::IntegerText => put_integer(answer.integer(row, column)?, out),
            AnswerCell::Int2 => out.put_i16(answer.integer(row, column)? as i16),
            AnswerCell::Int4 => out.put_i32(answer.integer(row, column)? as i32),
            AnswerCell::Int8 => out.put_i64(answer.integer(row, column)?),
            AnswerCell::Float8 => out.put_f64(answer.double(row, column)?),
            AnswerCell::Text => out.put_slice(answer.text(row, column)?.as_bytes()),
            AnswerCell::Bytes => out.put_slice(answer.blob(row, column)?),
            AnswerCell::Date => {
                let days = answer.integer(row, column)? as i32;
                out.put_i32(days.saturating_sub(EPOCH_DAYS));
            }
            AnswerCell::Timestamp => out.put_i64(answer.integer(row, column)?.saturating_sub(EPOCH_MICROS)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rowmill::arrow::array::RecordBatch;
    use rowmill::{Database, Param};

    use super::super::{EncodedBatch, canonical};
    use super::*;

    const TABLE: &str = "CREATE TABLE k (id BIGINT PRIMARY KEY, a BOOLEAN, b TINYINT, c SMALLINT, d INTEGER, e DOUBLE,
        f TEXT, g VARCHAR(9), h BLOB, i UUID, j DATE, l TIMESTAMP, m TIMESTAMPTZ);
        INSERT INTO k (id) VALUES (1);
        INSERT INTO k VALUES (2, true, -3, 300, -70000, 0.5, 'aé', '', '\\x00ff',
            '6f1b5e1e-0000-4000-8000-000000000001', '1969-12-31', '1999-12-31 23:59:59.5', '2024-02-29 12:00:00+02')";

    fn batch_rows(batch: &RecordBatch, format: WireFormat) -> BytesMut {
        let columns = batch.columns().iter().map(|column| canonical(column).expect("a type of ours"));
        let batch = RecordBatch::try_new(batch.schema(), columns.collect()).expect("the same types");
        let formats = vec![format; batch.num_columns()];
        let mut out = BytesMut::new();
        let mut encoded = EncodedBatch::new(&batch, batch.schema_ref(), &formats).expect("types of ours");
        encoded.encode_rows(0..batch.num_rows(), &mut out, usize::MAX);
        out
    }

    /// The rows of a query, written in place and as a batch.
    fn both(columns: &str, format: WireFormat) -> Option<(BytesMut, BytesMut)> {
        let mut connection = Database::memory().expect("a database").connect().expect("a connection");
        connection.execute_batch(TABLE).expect("a table");
        let sql = format!("SELECT {columns} FROM k WHERE id <= $1 ORDER BY id");
        let statement = connection.prepare(&sql).expect("a query");
        let told = Arc::clone(statement.schema().expect("columns"));
        let columns = answer_columns(&told, &vec![format; told.fields().len()])?;
        let answer = statement.ask(&mut connection, &[Param::Integer(9)]).expect("rows");
        assert!(has_columns(&answer, &columns), "{columns:?}");
        assert_eq!(answer.len(), 2);
        let mut out = BytesMut::new();
        put_answer(&answer, &columns, &mut out).expect("values of these types");
        Some((out, batch_rows(&answer.to_batch().expect("a batch"), format)))
    }

    #[test]
    fn rows_in_place_have_the_bytes_of_a_batch() {
        let (place, batch) = both("id, a, b, c, d, e, f, g, h, i, j, l, m", WireFormat::Binary).expect("short ways");
        assert_eq!(place, batch);
        let (place, batch) = both("id, a, b, c, d, f, g", WireFormat::Text).expect("short ways");
        assert_eq!(place, batch);
    }

    #[test]
    fn types_that_need_formatting_become_a_batch() {
        for column in ["e", "h", "i", "j", "l", "m"] {
            assert!(both(column, WireFormat::Text).is_none(), "{column}");
        }
    }
}
