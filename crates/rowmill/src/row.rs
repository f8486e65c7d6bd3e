//! One row of a result.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_program::ResultRows;

use crate::cell::{CellRef, is_read_in_place};
use crate::{FromRow, FromValue};

/// One row of a result.
#[derive(Clone, Debug)]
pub struct Row {
    rows: RowBatch,
    row: usize,
}

/// Rows of a result that were computed together.
#[derive(Clone, Debug)]
pub(crate) enum RowBatch {
    Arrow(Arc<RecordBatch>),
    /// The rows of a program, with the names and types of their columns.
    Program(Arc<(SchemaRef, ResultRows)>),
}

impl RowBatch {
    pub(crate) fn of_program(schema: &SchemaRef, rows: ResultRows) -> Result<RowBatch> {
        Ok(match rows.kinds().iter().all(is_read_in_place) {
            true => RowBatch::Program(Arc::new((Arc::clone(schema), rows))),
            false => RowBatch::Arrow(Arc::new(rows.to_batch(schema)?)),
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            RowBatch::Arrow(batch) => batch.num_rows(),
            RowBatch::Program(program) => program.1.len(),
        }
    }

    fn schema(&self) -> &SchemaRef {
        match self {
            RowBatch::Arrow(batch) => batch.schema_ref(),
            RowBatch::Program(program) => &program.0,
        }
    }

    /// Returns the rows from `first` on as a batch.
    pub(crate) fn to_batch(&self, first: usize) -> Result<RecordBatch> {
        let sliced = |batch: &RecordBatch| batch.slice(first, batch.num_rows() - first);
        match self {
            RowBatch::Arrow(batch) => Ok(sliced(batch)),
            RowBatch::Program(program) => program.1.to_batch(&program.0).map(|batch| sliced(&batch)),
        }
    }
}

/// A column of a row: by position or by name.
#[derive(Clone, Copy, Debug)]
pub enum ColumnRef<'a> {
    /// The position, counted from 0.
    Position(usize),
    /// The name, in any case.
    Name(&'a str),
}

impl From<usize> for ColumnRef<'_> {
    fn from(position: usize) -> Self {
        ColumnRef::Position(position)
    }
}

impl<'a> From<&'a str> for ColumnRef<'a> {
    fn from(name: &'a str) -> Self {
        ColumnRef::Name(name)
    }
}

impl<'a> From<&'a String> for ColumnRef<'a> {
    fn from(name: &'a String) -> Self {
        ColumnRef::Name(name)
    }
}

impl Row {
    pub(crate) fn new(rows: RowBatch, row: usize) -> Self {
        Row { rows, row }
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        self.schema().fields().len()
    }

    /// Whether the row has no columns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        self.rows.schema()
    }

    /// The names of the columns, in order.
    pub fn column_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.schema().fields().iter().map(|field| field.name().as_str())
    }

    /// The position of a column.
    pub fn column_index<'a>(&self, column: impl Into<ColumnRef<'a>>) -> Result<usize> {
        match column.into() {
            ColumnRef::Position(position) if position < self.len() => Ok(position),
            ColumnRef::Position(position) => {
                let message = format!("column {position} of a result with {} columns", self.len());
                Err(Error::new(ErrorKind::UndefinedColumn, message))
            }
            ColumnRef::Name(name) => {
                let found = self.column_names().position(|known| known.eq_ignore_ascii_case(name));
                found.ok_or_else(|| {
                    let names: Vec<&str> = self.column_names().collect();
                    Error::new(ErrorKind::UndefinedColumn, format!("the result has no column \"{name}\""))
                        .hint(format!("its columns are {}", names.join(", ")))
                })
            }
        }
    }

    /// Reads the value of a column, by position or name. A column that may be NULL must be read as an `Option`;
    /// otherwise NULL is an error. A value that the type cannot hold is an error, too: 3.5 is no `i64`.
    ///
    /// ```
    /// # use rowmill::{Database, Result};
    /// # fn main() -> Result<()> {
    /// # let mut connection = Database::memory()?.connect()?;
    /// let row = connection.query_one("SELECT 3.5 AS half, NULL AS nothing, 'mill' AS word", ())?;
    /// assert_eq!(row.get::<f64>("half")?, 3.5);
    /// assert_eq!(row.get::<Option<i32>>("nothing")?, None);
    /// assert_eq!(row.get::<&str>(2)?, "mill");
    ///
    /// let error = row.get::<i64>("half").unwrap_err();
    /// let what = "column \"half\": the value 3.5 of the type DECIMAL(2,1) cannot be read as i64";
    /// assert_eq!(error.message(), what);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get<'r, 'a, T: FromValue<'r>>(&'r self, column: impl Into<ColumnRef<'a>>) -> Result<T> {
        let index = self.column_index(column)?;
        T::from_value(self.cell_at(index))
            .map_err(|error| error.context(format_args!("column \"{}\"", self.schema().field(index).name())))
    }

    /// The value of a column, without a conversion.
    pub fn cell<'a>(&self, column: impl Into<ColumnRef<'a>>) -> Result<CellRef<'_>> {
        self.column_index(column).map(|index| self.cell_at(index))
    }

    /// Reads all columns, in order: `row.read::<(i64, String)>()`.
    pub fn read<'r, T: FromRow<'r>>(&'r self) -> Result<T> {
        T::from_row(self)
    }

    pub(crate) fn cell_at(&self, index: usize) -> CellRef<'_> {
        match &self.rows {
            RowBatch::Arrow(batch) => CellRef::new(batch.column(index), self.row),
            RowBatch::Program(program) => CellRef::of_program(&program.1, self.row, index),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::RowBatch;
    use crate::cell::CellRef;
    use crate::{Connection, Database, Decimal, Row, Value};

    fn row(sql: &str) -> Row {
        Database::memory().unwrap().connect().unwrap().query_one(sql, ()).unwrap()
    }

    #[test]
    fn values_are_read_into_every_type_that_holds_them() {
        let row = row("SELECT CAST(-3 AS TINYINT), CAST(200 AS TINYINT UNSIGNED), 18446744073709551615::UBIGINT,
            0.5::DOUBLE, 1.25::REAL, true, 'text', '\\x00ff'::BLOB, -12.30, [1, 2, NULL], 3.0,
            '550e8400-e29b-41d4-a716-446655440000'::UUID, DATE '2024-02-29', 12345678901234567890123456789");
        assert_eq!(
            (row.get::<i8>(0).unwrap(), row.get::<i128>(0).unwrap(), row.get::<f32>(0).unwrap()),
            (-3, -3, -3.0)
        );
        assert_eq!((row.get::<u8>(1).unwrap(), row.get::<u64>(2).unwrap()), (200, u64::MAX));
        assert_eq!((row.get::<f64>(3).unwrap(), row.get::<f32>(4).unwrap()), (0.5, 1.25));
        assert!(row.get::<bool>(5).unwrap());
        assert_eq!((row.get::<&str>(6).unwrap(), row.get::<String>(6).unwrap()), ("text", "text".to_owned()));
        assert_eq!(row.get::<Vec<u8>>(7).unwrap(), row.get::<&[u8]>(7).unwrap());
        assert_eq!(row.get::<Decimal>(8).unwrap().to_string(), "-12.30");
        assert_eq!((row.get::<String>(8).unwrap(), row.get::<f64>(8).unwrap()), ("-12.30".to_owned(), -12.3));
        assert_eq!(row.get::<Vec<Option<i64>>>(9).unwrap(), [Some(1), Some(2), None]);
        assert_eq!(row.get::<i32>(10).unwrap(), 3);
        assert_eq!(row.get::<[u8; 16]>(11).unwrap()[0], 0x55);
        assert_eq!(row.get::<String>(12).unwrap(), "2024-02-29");
        assert_eq!(row.get::<i128>(13).unwrap(), 12345678901234567890123456789);
        assert_eq!(row.get::<Value>(9).unwrap(), Value::List(vec![1.into(), 2.into(), Value::Null]));
        assert_eq!(row.get::<Value>(2).unwrap(), Value::Decimal("18446744073709551615".parse().unwrap()));
    }

    #[test]
    fn a_value_that_the_type_cannot_hold_is_an_error_that_names_it() {
        let row = row("SELECT 300 AS n, 3.5::DOUBLE AS d, 'x' AS t, NULL AS z, 12345678.123456789 AS long, -1 AS m,
            9007199254740993 AS odd, [1, NULL] AS list");
        let message = |error: rowmill_base::Error| error.message().to_owned();
        assert_eq!(
            message(row.get::<u8>("n").unwrap_err()),
            "column \"n\": the value 300 of the type BIGINT cannot be read as u8"
        );
        assert_eq!(
            message(row.get::<i64>("D").unwrap_err()),
            "column \"d\": the value 3.5 of the type DOUBLE cannot be read as i64"
        );
        assert_eq!(message(row.get::<bool>(3).unwrap_err()), "column \"z\": NULL cannot be read as bool");
        assert!(row.get::<i64>("t").is_err() && row.get::<&str>("n").is_err() && row.get::<bool>("t").is_err());
        assert!(row.get::<f64>("long").is_err() && row.get::<f32>("odd").is_err() && row.get::<f64>("odd").is_err());
        assert!(
            row.get::<u64>("m").is_err() && row.get::<Vec<i64>>("list").is_err() && row.get::<i64>("list").is_err()
        );
        assert!(row.get::<i64>("nothing").unwrap_err().hint_text().unwrap().contains("long"));
        assert!(row.get::<i64>(8).is_err());
    }

    /// A table with a key, so that its rows are read by a program, and a column of every type.
    const TYPES: &str = "CREATE TABLE every_type (id INT PRIMARY KEY, truth BOOLEAN, tiny TINYINT, small SMALLINT,
        big BIGINT, utiny TINYINT UNSIGNED, ubig BIGINT UNSIGNED, real4 REAL, real8 DOUBLE, price DECIMAL(12, 2),
        wide DECIMAL(50, 3), day DATE, clock TIME, moment TIMESTAMP, seconds TIMESTAMP(0),
        instant TIMESTAMP WITH TIME ZONE, span INTERVAL, word TEXT, bytes BLOB, key UUID, doc JSON, items INT[],
        address IPV4)";

    fn every_type() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(TYPES).unwrap();
        let row = "INSERT INTO every_type VALUES (1, true, -3, 300, -9000000000, 200, 18446744073709551615, 1.25, -0.5,
            -12.30, 12345678901234567890123456789012345.678, '1969-12-31', '23:59:59.5', '2024-02-29 12:34:56.789012',
            '2024-02-29 12:34:56', '2024-02-29 12:34:56+02', INTERVAL '1 month 2 days', 'text', '\\x00ff',
            '550e8400-e29b-41d4-a716-446655440000', '{\"a\": 1}', [1, NULL], '192.0.2.1')";
        connection.execute_batch(row).unwrap();
        connection.execute_batch("INSERT INTO every_type (id) VALUES (2)").unwrap();
        connection
    }

    #[test]
    fn a_value_of_a_program_is_read_as_that_of_a_column() {
        let mut connection = every_type();
        for sql in ["SET TIME ZONE 'UTC'", "SET TIME ZONE 'Europe/Berlin'"] {
            connection.execute_batch(sql).unwrap();
            let find = connection.prepare("SELECT * FROM every_type WHERE id = ?").unwrap();
            for id in [1, 2, 1] {
                let row = find.query(&mut connection, [id]).unwrap().rows().unwrap().remove(0);
                let batch = row.rows.to_batch(0).unwrap();
                for (at, column) in batch.columns().iter().enumerate() {
                    let (read, expected) = (row.cell_at(at), CellRef::new(column, 0));
                    let name = row.column_names().nth(at).unwrap();
                    assert_eq!(read.is_null(), expected.is_null(), "{name}");
                    assert_eq!(read.kind(), expected.kind(), "{name}");
                    assert_eq!(read.to_text().unwrap(), expected.to_text().unwrap(), "{name}");
                    assert_eq!(row.get::<Option<Value>>(at).unwrap(), read_value(expected), "{name}");
                    if !expected.is_null() {
                        assert_eq!((read.number(), read.time_units()), (expected.number(), expected.time_units()));
                        assert_eq!((read.boolean(), read.text()), (expected.boolean(), expected.text()), "{name}");
                        assert_eq!(read.bytes(), expected.bytes(), "{name}");
                    }
                }
            }
        }
    }

    fn read_value(cell: CellRef<'_>) -> Option<Value> {
        crate::FromValue::from_value(cell).unwrap()
    }

    #[test]
    fn rows_of_a_program_come_one_by_one_and_then_as_a_batch() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (id INT PRIMARY KEY, word TEXT)").unwrap();
        connection.execute_batch("INSERT INTO t SELECT i, 'w' || i FROM generate_series(1, 5) AS s(i)").unwrap();
        let find = connection.prepare("SELECT id, word FROM t WHERE id >= ? ORDER BY id").unwrap();
        for taken in 0..=4 {
            let mut rows = find.query(&mut connection, [2]).unwrap();
            let read: Vec<Row> = (0..taken).map(|_| rows.next_row().unwrap().unwrap()).collect();
            assert!(read.iter().all(|row| matches!(row.rows, RowBatch::Program(_))));
            let left: usize = rows.map(|batch| batch.unwrap().num_rows()).sum();
            assert_eq!((read.len(), left), (taken, 4 - taken));
            // The rows stay after the next statement of the connection.
            assert_eq!(find.query(&mut connection, [5]).unwrap().rows().unwrap().len(), 1);
            let words: Vec<&str> = read.iter().map(|row| row.get(1).unwrap()).collect();
            assert_eq!(words, ["w2", "w3", "w4", "w5"][..taken]);
        }
    }
}
