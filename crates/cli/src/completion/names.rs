//! The names of tables, columns and functions, as they are when the user asks.

use std::cell::OnceCell;

use rowmill::{Database, Result};

use super::place::NamedTable;

/// Reads names from the database.
pub(super) struct CatalogNames {
    database: Database,
    /// Functions do not change while the shell runs.
    functions: OnceCell<Vec<String>>,
}

impl CatalogNames {
    pub(super) fn new(database: &Database) -> CatalogNames {
        CatalogNames { database: database.clone(), functions: OnceCell::new() }
    }

    /// Runs a query with columns of texts. Returns no rows if it fails, because an error would disturb the typing.
    fn read<const N: usize>(&self, sql: &str) -> Vec<[String; N]> {
        let read = || -> Result<Vec<[String; N]>> {
            let rows = self.database.connect()?.query(sql)?.rows()?;
            let texts = |row: &rowmill::Row| {
                let mut texts = [const { String::new() }; N];
                for (place, text) in texts.iter_mut().enumerate() {
                    *text = row.get::<Option<String>>(place)?.unwrap_or_default();
                }
                Ok(texts)
            };
            rows.iter().map(texts).collect()
        };
        read().unwrap_or_default()
    }

    /// The names of tables and views.
    pub(super) fn relations(&self) -> Vec<String> {
        let sql = "SELECT table_name FROM information_schema.tables WHERE table_schema <> 'information_schema'";
        self.read(sql).into_iter().map(|[name]| as_typed(name)).collect()
    }

    /// The columns of those of `tables` that exist, or of all tables if none of them does. With `qualifier`, only the
    /// columns of the table with that name or alias.
    pub(super) fn columns_of(&self, tables: &[NamedTable], qualifier: Option<&str>) -> Vec<String> {
        let sql = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema <> \
                   'information_schema'";
        let all: Vec<[String; 2]> = self.read(sql);
        let wanted: Vec<&str> = match qualifier {
            Some(qualifier) => {
                let named = tables.iter().filter(|table| table.is_called(qualifier));
                named.map(|table| table.name.as_str()).chain([qualifier]).collect()
            }
            None => tables.iter().map(|table| table.name.as_str()).collect(),
        };
        let is_wanted = |table: &str| wanted.iter().any(|name| name.eq_ignore_ascii_case(table));
        let any_exists = qualifier.is_some() || all.iter().any(|[table, _]| is_wanted(table));
        all.into_iter()
            .filter(|[table, _]| !any_exists || is_wanted(table))
            .map(|[_, column]| as_typed(column))
            .collect()
    }

    /// The names of functions, each with the bracket that follows it.
    pub(super) fn functions(&self) -> Vec<String> {
        let read = || self.read("SELECT name FROM rowmill_functions()").into_iter().map(|[name]| format!("{name}("));
        self.functions.get_or_init(|| read().collect()).clone()
    }
}

/// Returns a name as the user has to type it: in quotes if it has other signs than letters.
fn as_typed(name: String) -> String {
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_numeric());
    if is_plain { name } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
