//! The table that rows without SQL go to: finds it, converts columns to its types, and inserts them.
//!
//! An [`Appender`](crate::Appender) and [`Connection::append`](crate::Connection::append) share it, so that both take
//! and refuse the same rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, SqlType, nearest};
use rowmill_sql::files::convert::{NotConverted, convert};
use rowmill_txn::{Catalog, TableDef, Transaction};

/// A column of a table, as [`Connection::columns`](crate::Connection::columns) describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableColumn {
    /// The name as the user wrote it. Lookups ignore case.
    pub name: String,
    /// The type of its values.
    pub kind: SqlType,
    /// Whether NULL is allowed.
    pub is_nullable: bool,
    /// Whether it is the time column of the table.
    pub is_time: bool,
}

/// A table that takes rows without SQL.
#[derive(Debug)]
pub(crate) struct AppendTarget {
    table: Arc<TableDef>,
}

impl AppendTarget {
    pub(crate) fn find(catalog: &Catalog, schema: &str, name: &str) -> Result<AppendTarget> {
        let schema = catalog
            .schema(schema)
            .ok_or_else(|| Error::new(ErrorKind::UndefinedSchema, format!("there is no schema \"{schema}\"")))?;
        let table = catalog.table(schema.id, name).cloned().ok_or_else(|| {
            let error = Error::new(ErrorKind::UndefinedTable, format!("there is no table \"{name}\""));
            let near = nearest(name, catalog.tables(schema.id).map(|table| table.name.as_str()));
            if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) }
        })?;
        if catalog.materialized(table.id).is_some() {
            let message = format!("\"{name}\" is a materialized view, not a table");
            return Err(Error::new(ErrorKind::WrongObject, message)
                .hint("append to the tables that its query reads, then REFRESH MATERIALIZED VIEW"));
        }
        // Only SQL statements evaluate CHECK conditions. An appender must not bypass them, so it refuses such a table.
        if table.keyed.as_ref().is_some_and(|keyed| !keyed.checks.is_empty()) {
            let message = format!("an appender does not check the conditions (CHECK) of table \"{}\"", table.name);
            return Err(Error::new(ErrorKind::Unsupported, message).hint("INSERT and COPY check them"));
        }
        Ok(AppendTarget { table })
    }

    pub(crate) fn table(&self) -> &TableDef {
        &self.table
    }

    pub(crate) fn columns(&self) -> Vec<TableColumn> {
        let time = self.table.time.as_ref().map(|time| time.column);
        let columns = self.table.columns.iter().map(|column| TableColumn {
            name: column.name.clone(),
            kind: column.kind.clone(),
            is_nullable: column.nullable,
            is_time: time == Some(column.id),
        });
        columns.collect()
    }

    pub(crate) fn check_columns(&self, found: usize) -> Result<()> {
        let wanted = self.table.columns.len();
        if found == wanted {
            return Ok(());
        }
        let message = format!("table {} has {wanted} columns, but {found} values were given", self.table.name);
        Err(Error::new(ErrorKind::CardinalityViolation, message))
    }

    /// Converts the columns of a batch to the types of the table's columns.
    pub(crate) fn convert_all(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.check_columns(batch.num_columns())?;
        batch.columns().iter().enumerate().map(|(index, values)| self.convert(index, values)).collect()
    }

    pub(crate) fn convert(&self, index: usize, values: &ArrayRef) -> Result<ArrayRef> {
        let column = &self.table.columns[index];
        let wanted: DataType = column.kind.arrow();
        if *values.data_type() == wanted {
            return Ok(Arc::clone(values));
        }
        let refuse = |why: String| {
            let message = format!("column {} of table {} takes {}: {why}", column.name, self.table.name, column.kind);
            Error::new(ErrorKind::DatatypeMismatch, message)
        };
        // Arrow does not know the texts of these types.
        if matches!(column.kind, SqlType::Uuid | SqlType::Numbered(_)) {
            return convert(values, &column.kind).map_err(|error| match error {
                NotConverted::Value(misfit) => refuse(format!("'{}' is not such a value", misfit.text)),
                NotConverted::Types => refuse(format!("it has no values of the type {}", values.data_type())),
            });
        }
        // With `safe`, a value that does not fit would silently become NULL.
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(values, &wanted, &strict).map_err(|error| refuse(error.to_string()))
    }

    /// Inserts columns of the right types. Returns the number of rows.
    pub(crate) fn insert(&self, transaction: &mut Transaction, columns: Vec<ArrayRef>) -> Result<u64> {
        // The columns have the right types here, so only a NULL in a NOT NULL column can fail.
        let batch = RecordBatch::try_new(self.table.arrow_schema(), columns)
            .map_err(|error| Error::new(ErrorKind::NotNullViolation, format!("table {}: {error}", self.table.name)))?;
        transaction.insert(self.table.id, &batch)?;
        Ok(batch.num_rows() as u64)
    }
}
