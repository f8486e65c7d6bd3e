//! Tables of SQLite databases as rows of queries.
//!
//! SQLite stores the type with each value, and a declared type is only a wish. We give each column one type, by the
//! declared type as SQLite reads it, and convert each value to it. A value that does not fit is an error that names
//! table, column and value; the caller can ask for all columns as TEXT instead.
//!
//! | declared type contains | type |
//! | --- | --- |
//! | `BOOL` | BOOLEAN |
//! | `INT` | BIGINT |
//! | `CHAR`, `CLOB`, `TEXT` | TEXT |
//! | `BLOB` | BLOB |
//! | `REAL`, `FLOA`, `DOUB`, `DEC`, `NUM` | DOUBLE |
//! | `TIMESTAMP`, `DATETIME` | TIMESTAMP |
//! | `DATE` | DATE |
//! | anything else, or nothing | TEXT |
//!
//! - `column_type`: this table. `value_column`: one column of converted values. `reader`: the thread that reads a table
//!   while workers take its batches.

mod column_type;
mod reader;
mod value_column;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use rowmill_base::{Cancel, Error, ErrorKind, Result, SqlType, nearest};
use rowmill_exec::batch::BatchSource;
use rowmill_plan::Predicate;
use rowmill_query::catalog::RowSource;
use rusqlite::{Connection, OpenFlags};

use self::column_type::column_type;
use self::reader::SqliteBatches;
use crate::FileFolders;

/// How long a read waits for a program that writes the file.
const BUSY_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// The database of SQLite in a file, which is only read.
#[derive(Clone, Debug)]
pub struct SqliteFile {
    path: PathBuf,
    /// Whether all columns are TEXT.
    all_text: bool,
}

impl SqliteFile {
    /// Opens the database at `path`, which must lie in `folders`. With `all_text`, all columns are TEXT.
    pub fn open(path: &str, all_text: bool, folders: &FileFolders) -> Result<SqliteFile> {
        folders.check_pattern(path)?;
        let path = PathBuf::from(path.strip_prefix("file://").unwrap_or(path));
        if !path.is_file() {
            let what = format!("there is no file \"{}\"", path.display());
            return Err(Error::new(ErrorKind::UndefinedFile, what));
        }
        folders.check_file(&path)?;
        let file = SqliteFile { path, all_text };
        file.table_names()?;
        Ok(file)
    }

    fn connect(&self) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(|error| self.failed(&error))?;
        connection.busy_timeout(BUSY_PATIENCE).map_err(|error| self.failed(&error))?;
        Ok(connection)
    }

    /// The names of the tables and views, as spelled.
    fn table_names(&self) -> Result<Vec<String>> {
        let connection = self.connect()?;
        let sql = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') \
                   AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
        let mut statement = connection.prepare(sql).map_err(|error| self.failed(&error))?;
        let names = statement.query_map([], |row| row.get(0)).map_err(|error| self.failed(&error))?;
        names.collect::<Result<Vec<String>, _>>().map_err(|error| self.failed(&error))
    }

    /// Finds a table or view by its name in any case.
    pub fn table(&self, name: &str) -> Result<Option<Arc<SqliteTable>>> {
        let names = self.table_names()?;
        let Some(name) = names.into_iter().find(|known| known.to_lowercase() == name.to_lowercase()) else {
            return Ok(None);
        };
        let connection = self.connect()?;
        let sql = format!("SELECT * FROM {}", quoted(&name));
        let statement = connection.prepare(&sql).map_err(|error| self.failed(&error))?;
        let fields = statement.columns().map(|column| {
            let kind = if self.all_text { SqlType::TEXT } else { column_type(column.decl_type().unwrap_or_default()) };
            Field::new(column.name(), kind.arrow(), true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let shown = format!("{name} of {}", self.path.display());
        drop(statement);
        Ok(Some(Arc::new(SqliteTable { file: self.clone(), table: name, name: shown, schema })))
    }

    /// Finds a table or view by its name. Returns an error if there is none.
    pub fn require_table(&self, name: &str) -> Result<Arc<SqliteTable>> {
        if let Some(table) = self.table(name)? {
            return Ok(table);
        }
        let what = format!("there is no table or view \"{name}\" in {}", self.path.display());
        let error = Error::new(ErrorKind::UndefinedTable, what);
        let names = self.table_names()?;
        let near = nearest(name, names.iter().map(String::as_str));
        Err(if near.is_empty() { error } else { error.hint(format!("did you mean {}?", near.join(", "))) })
    }

    /// The error for a call of SQLite that failed.
    fn failed(&self, error: &rusqlite::Error) -> Error {
        let what = format!("reading {} as an SQLite database: {error}", self.path.display());
        let kind = match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => ErrorKind::BadFileFormat,
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => ErrorKind::Locked,
            _ => ErrorKind::Io,
        };
        Error::new(kind, what)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A table or view of a database of SQLite.
#[derive(Debug)]
pub struct SqliteTable {
    file: SqliteFile,
    /// The name of the table as spelled.
    table: String,
    /// The name for EXPLAIN.
    name: String,
    schema: SchemaRef,
}

impl RowSource for SqliteTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn open(
        &self,
        columns: &[usize],
        _predicates: &[Predicate],
        batch_rows: usize,
        _threads: usize,
        cancel: &Cancel,
    ) -> Result<Arc<dyn BatchSource>> {
        let schema = self.schema.project(columns).map_err(|error| Error::internal(error.to_string()))?;
        let source = SqliteBatches::start(self.file.clone(), self.table.clone(), Arc::new(schema), batch_rows, cancel)?;
        Ok(source)
    }
}

/// A name as SQLite reads it, whatever it contains.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests;
