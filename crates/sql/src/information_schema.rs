//! `information_schema`: the contents of the database as tables.
//!
//! The names and the first columns are the SQL standard's, so that tools find them. Names are shown as spelled and
//! types as in SQL. Each table is computed from the statement's snapshot when a query reads it.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use rowmill_base::{Error, Result, SETTINGS, SettingScope};
use rowmill_txn::SchemaDef;

use crate::catalog::StatementContext;
use crate::names::CATALOG;
use crate::pg_catalog;

pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

const TABLES: [&str; 6] = ["schemata", "tables", "views", "columns", "indexes", "settings"];

/// Returns the table `name` of `information_schema` as rows, or `None` if no such table exists.
pub(crate) fn rows(context: &Arc<StatementContext>, name: &str) -> Result<Option<RecordBatch>> {
    let rows = InformationSchema(Arc::clone(context)).table_rows(name);
    let batch = rows.map(|rows| rows.into_batch()).transpose();
    batch.map_err(|error| Error::internal(format!("information_schema.{name}: {error}")))
}

struct InformationSchema(Arc<StatementContext>);

impl InformationSchema {
    fn table_rows(&self, name: &str) -> Option<SchemaRows> {
        Some(match name {
            "schemata" => self.schemata(),
            "tables" => self.tables(),
            "views" => self.views(),
            "columns" => self.columns(),
            "indexes" => self.indexes(),
            "settings" => self.settings(),
            _ => return None,
        })
    }

    fn schemas(&self) -> impl Iterator<Item = &Arc<SchemaDef>> {
        self.0.snapshot.catalog().schemas()
    }

    fn schemata(&self) -> SchemaRows {
        let mut rows = SchemaRows::new(&["catalog_name", "schema_name"]);
        for schema in self.schemas() {
            rows.push([CATALOG.into(), schema.name.as_str().into()]);
        }
        rows.push([CATALOG.into(), INFORMATION_SCHEMA.into()]);
        rows
    }

    fn tables(&self) -> SchemaRows {
        let catalog = self.0.snapshot.catalog();
        // Views have no row count of their own, so it is NULL.
        let mut rows = SchemaRows::new(&["table_catalog", "table_schema", "table_name", "table_type", "table_rows"]);
        for schema in self.schemas() {
            for table in catalog.tables(schema.id).filter(|table| !table.is_sequence()) {
                let count =
                    self.0.snapshot.table(table.id).map(|table| rowmill_storage::TableSource::row_count(&*table));
                rows.push([
                    CATALOG.into(),
                    schema.name.as_str().into(),
                    table.name.as_str().into(),
                    if catalog.materialized(table.id).is_some() { "MATERIALIZED VIEW" } else { "BASE TABLE" }.into(),
                    SchemaCell::Number(count),
                ]);
            }
            for view in catalog.views(schema.id) {
                let name = view.name.as_str().into();
                rows.push([CATALOG.into(), schema.name.as_str().into(), name, "VIEW".into(), SchemaCell::Number(None)]);
            }
        }
        for table in TABLES {
            rows.push([
                CATALOG.into(),
                INFORMATION_SCHEMA.into(),
                table.into(),
                "VIEW".into(),
                SchemaCell::Number(None),
            ]);
        }
        rows
    }

    fn views(&self) -> SchemaRows {
        let catalog = self.0.snapshot.catalog();
        let mut rows = SchemaRows::new(&["table_catalog", "table_schema", "table_name", "view_definition"]);
        for schema in self.schemas() {
            for view in catalog.views(schema.id) {
                rows.push([
                    CATALOG.into(),
                    schema.name.as_str().into(),
                    view.name.as_str().into(),
                    view.sql.as_str().into(),
                ]);
            }
            for table in catalog.tables(schema.id) {
                if let Some(view) = catalog.materialized(table.id) {
                    rows.push([
                        CATALOG.into(),
                        schema.name.as_str().into(),
                        table.name.as_str().into(),
                        view.sql.as_str().into(),
                    ]);
                }
            }
        }
        rows
    }

    /// Lists the columns of tables only. The columns of a view follow from its query; `DESCRIBE` shows them.
    fn columns(&self) -> SchemaRows {
        let catalog = self.0.snapshot.catalog();
        let mut rows = SchemaRows::new(&[
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "ordinal_position",
            "column_default",
            "is_nullable",
            "data_type",
        ]);
        for schema in self.schemas() {
            for table in catalog.tables(schema.id).filter(|table| !table.is_sequence()) {
                for (position, column) in table.columns.iter().enumerate() {
                    rows.push([
                        CATALOG.into(),
                        schema.name.as_str().into(),
                        table.name.as_str().into(),
                        column.name.as_str().into(),
                        SchemaCell::Number(Some(position as u64 + 1)),
                        SchemaCell::Text(column.default.clone()),
                        if column.nullable { "YES" } else { "NO" }.into(),
                        SchemaCell::Text(Some(column.kind.to_string())),
                    ]);
                }
            }
        }
        rows
    }

    /// Lists the indexes of tables with a primary key, which is one of them. The standard has no such table.
    fn indexes(&self) -> SchemaRows {
        let catalog = self.0.snapshot.catalog();
        let mut rows = SchemaRows::new(&[
            "table_catalog",
            "table_schema",
            "table_name",
            "index_name",
            "index_columns",
            "is_unique",
            "is_primary",
        ]);
        let yes_no = |is: bool| if is { "YES" } else { "NO" };
        for schema in self.schemas() {
            for table in catalog.tables(schema.id) {
                for index in pg_catalog::indexes(table) {
                    rows.push([
                        CATALOG.into(),
                        schema.name.as_str().into(),
                        table.name.as_str().into(),
                        index.name.as_str().into(),
                        SchemaCell::Text(Some(pg_catalog::key_columns(table, index.parts))),
                        yes_no(index.is_unique).into(),
                        yes_no(index.is_primary).into(),
                    ]);
                }
            }
        }
        rows
    }

    fn settings(&self) -> SchemaRows {
        let mut rows = SchemaRows::new(&["name", "value", "scope", "description"]);
        for setting in SETTINGS {
            let scope = match setting.scope {
                SettingScope::Database => "database",
                SettingScope::Connection => "connection",
            };
            rows.push([
                setting.name.into(),
                SchemaCell::Text(self.0.settings.show(setting.name).ok()),
                scope.into(),
                setting.doc.into(),
            ]);
        }
        rows
    }
}

/// A value of a row.
enum SchemaCell {
    Text(Option<String>),
    Number(Option<u64>),
}

impl From<&str> for SchemaCell {
    fn from(text: &str) -> Self {
        SchemaCell::Text(Some(text.to_string()))
    }
}

/// Rows that are collected one by one. A column holds either numbers or texts.
struct SchemaRows {
    names: Vec<&'static str>,
    columns: Vec<Vec<SchemaCell>>,
}

impl SchemaRows {
    fn new(names: &[&'static str]) -> Self {
        SchemaRows { names: names.to_vec(), columns: names.iter().map(|_| Vec::new()).collect() }
    }

    fn push<const N: usize>(&mut self, row: [SchemaCell; N]) {
        assert_eq!(N, self.names.len(), "a row has a cell for every column");
        for (column, cell) in self.columns.iter_mut().zip(row) {
            column.push(cell);
        }
    }

    fn into_batch(self) -> Result<RecordBatch, ArrowError> {
        let numbers = |name: &str| matches!(name, "ordinal_position" | "table_rows");
        let fields = self.names.iter().map(|name| {
            let kind = if numbers(name) { DataType::UInt64 } else { DataType::Utf8View };
            Field::new(*name, kind, true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let arrays = self.names.iter().zip(self.columns).map(|(name, cells)| match numbers(name) {
            true => Arc::new(cells.into_iter().map(SchemaCell::number).collect::<UInt64Array>()) as ArrayRef,
            false => Arc::new(cells.into_iter().map(SchemaCell::text).collect::<StringViewArray>()) as ArrayRef,
        });
        RecordBatch::try_new(schema, arrays.collect())
    }
}

impl SchemaCell {
    fn text(self) -> Option<String> {
        match self {
            SchemaCell::Text(text) => text,
            SchemaCell::Number(number) => number.map(|number| number.to_string()),
        }
    }

    fn number(self) -> Option<u64> {
        match self {
            SchemaCell::Number(number) => number,
            SchemaCell::Text(_) => None,
        }
    }
}
