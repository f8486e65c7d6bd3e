//! Tables of `pg_catalog` and `information_schema`, built row by row.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, Int64Builder, ListBuilder, RecordBatch, RecordBatchOptions, StringViewArray,
    new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema, TimestampMicrosecondType};
use arrow::error::ArrowError;
use rowmill_base::{Error, Result, SqlType, TimeUnit};
use rowmill_plan::logical::DECLARED_TYPE;

use super::shapes::{PgColumns, pg_catalog};

/// The type of a column, as PostgreSQL knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PgColumn {
    Text,
    /// A text that is a name.
    Name,
    /// A text of one byte.
    Char,
    /// The number of an object.
    Oid,
    Small,
    Int,
    Big,
    Real,
    Truth,
    Time,
    /// A list of numbers that is shown without braces.
    SmallVector,
    OidVector,
    Smalls,
    Oids,
    Texts,
}

impl PgColumn {
    /// The column type with this name in the list of tables.
    pub(super) fn of(name: &str) -> Option<PgColumn> {
        Some(match name {
            "text" => PgColumn::Text,
            "name" => PgColumn::Name,
            "char" => PgColumn::Char,
            "oid" => PgColumn::Oid,
            "int2" => PgColumn::Small,
            "int4" => PgColumn::Int,
            "int8" => PgColumn::Big,
            "float4" => PgColumn::Real,
            "bool" => PgColumn::Truth,
            "timestamptz" => PgColumn::Time,
            "int2vector" => PgColumn::SmallVector,
            "oidvector" => PgColumn::OidVector,
            "int2[]" => PgColumn::Smalls,
            "oid[]" => PgColumn::Oids,
            "text[]" => PgColumn::Texts,
            _ => return None,
        })
    }

    /// The type of the engine.
    fn sql_type(self) -> SqlType {
        let list = |item| SqlType::List(Box::new(item));
        match self {
            PgColumn::Text | PgColumn::Name | PgColumn::Char => SqlType::TEXT,
            PgColumn::Oid | PgColumn::Big => SqlType::Int64,
            PgColumn::Small => SqlType::Int16,
            PgColumn::Int => SqlType::Int32,
            PgColumn::Real => SqlType::Float32,
            PgColumn::Truth => SqlType::Boolean,
            PgColumn::Time => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: true },
            PgColumn::SmallVector | PgColumn::Smalls => list(SqlType::Int16),
            PgColumn::OidVector | PgColumn::Oids => list(SqlType::Int64),
            PgColumn::Texts => list(SqlType::TEXT),
        }
    }

    /// The name of the type on the wire, if the type of the engine does not tell it.
    fn declared(self) -> Option<&'static str> {
        Some(match self {
            PgColumn::Name => "name",
            PgColumn::Char => "char",
            PgColumn::Oid => "oid",
            PgColumn::SmallVector => "int2vector",
            PgColumn::OidVector => "oidvector",
            PgColumn::Oids => "oid[]",
            _ => return None,
        })
    }
}

/// A value of a row.
#[derive(Clone, Debug)]
pub(crate) enum PgCell {
    Null,
    Text(String),
    Number(i64),
    Truth(bool),
    Numbers(Vec<i64>),
}

impl From<&str> for PgCell {
    fn from(text: &str) -> Self {
        PgCell::Text(text.to_owned())
    }
}

impl From<String> for PgCell {
    fn from(text: String) -> Self {
        PgCell::Text(text)
    }
}

impl From<u32> for PgCell {
    fn from(number: u32) -> Self {
        PgCell::Number(number.into())
    }
}

impl From<i64> for PgCell {
    fn from(number: i64) -> Self {
        PgCell::Number(number)
    }
}

impl From<bool> for PgCell {
    fn from(truth: bool) -> Self {
        PgCell::Truth(truth)
    }
}

impl From<Vec<i64>> for PgCell {
    fn from(numbers: Vec<i64>) -> Self {
        PgCell::Numbers(numbers)
    }
}

impl<T: Into<PgCell>> From<Option<T>> for PgCell {
    fn from(value: Option<T>) -> Self {
        value.map_or(PgCell::Null, Into::into)
    }
}

/// A table that is being built.
pub(crate) struct PgRows {
    columns: PgColumns,
    rows: Vec<Vec<PgCell>>,
}

impl PgRows {
    pub(crate) fn new(columns: PgColumns) -> PgRows {
        PgRows { columns, rows: Vec::new() }
    }

    /// The table `name` of `pg_catalog`, without rows.
    pub(super) fn of(name: &str) -> PgRows {
        PgRows::new(&pg_catalog()[name])
    }

    /// Adds a row. Columns that `values` does not name are NULL.
    pub(crate) fn push<const N: usize>(&mut self, values: [(&str, PgCell); N]) {
        self.push_all(values);
    }

    /// Adds a row, as `push` does. Of two values for a column, the later one counts.
    pub(super) fn push_all<'v>(&mut self, values: impl IntoIterator<Item = (&'v str, PgCell)>) {
        let mut row = vec![PgCell::Null; self.columns.len()];
        for (name, value) in values {
            let place = self.columns.iter().position(|(own, _)| *own == name);
            row[place.unwrap_or_else(|| panic!("the table has a column {name}"))] = value;
        }
        self.rows.push(row);
    }

    pub(crate) fn into_batch(self) -> Result<RecordBatch> {
        let failed = |error: ArrowError| Error::internal(format!("pg_catalog: {error}"));
        let column = |(place, (_, kind)): (usize, &(&str, PgColumn))| array(*kind, place, &self.rows);
        let arrays = self.columns.iter().enumerate().map(column).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let fields = self.columns.iter().map(|(name, kind)| {
            let field = Field::new(*name, kind.sql_type().arrow(), true);
            match kind.declared() {
                Some(declared) => field.with_metadata([(DECLARED_TYPE.to_owned(), declared.to_owned())].into()),
                None => field,
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(failed)
    }
}

fn array(kind: PgColumn, place: usize, rows: &[Vec<PgCell>]) -> Result<ArrayRef, ArrowError> {
    let cells = rows.iter().map(|row| &row[place]);
    let numbers = || cells.clone().map(PgCell::number).collect::<Int64Array>();
    let values: ArrayRef = match kind {
        PgColumn::Text | PgColumn::Name | PgColumn::Char => {
            Arc::new(cells.map(PgCell::text).collect::<StringViewArray>())
        }
        PgColumn::Oid | PgColumn::Big | PgColumn::Small | PgColumn::Int | PgColumn::Real => Arc::new(numbers()),
        // Microseconds since 1970-01-01 UTC.
        PgColumn::Time => Arc::new(numbers().reinterpret_cast::<TimestampMicrosecondType>().with_timezone("UTC")),
        PgColumn::Truth => {
            let truths = cells.map(|cell| match cell {
                PgCell::Truth(truth) => Some(*truth),
                _ => None,
            });
            Arc::new(truths.collect::<BooleanArray>())
        }
        PgColumn::SmallVector | PgColumn::Smalls | PgColumn::OidVector | PgColumn::Oids => {
            let mut lists = ListBuilder::new(Int64Builder::new());
            for cell in cells {
                match cell {
                    PgCell::Numbers(numbers) => lists.append_value(numbers.iter().map(|number| Some(*number))),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        // Rights and options, which nothing here has.
        PgColumn::Texts => new_null_array(&kind.sql_type().arrow(), rows.len()),
    };
    cast(&values, &kind.sql_type().arrow())
}

impl PgCell {
    fn text(&self) -> Option<&str> {
        if let PgCell::Text(text) = self { Some(text) } else { None }
    }

    fn number(&self) -> Option<i64> {
        if let PgCell::Number(number) = self { Some(*number) } else { None }
    }
}
