//! The names of tables, columns and keys, for the text of a program.

use std::sync::Arc;

use rowmill_base::{IndexId, TableId};
use rowmill_plan::program::ProgramNames;
use rowmill_storage::{KeyColumn, TableDef};

/// Finds names in the definitions of the tables that a program uses.
#[derive(Debug)]
pub struct DefinitionNames<'t>(pub &'t [Arc<TableDef>]);

impl DefinitionNames<'_> {
    fn definition(&self, id: TableId) -> Option<&TableDef> {
        self.0.iter().find(|def| def.id == id).map(|def| &**def)
    }
}

impl ProgramNames for DefinitionNames<'_> {
    fn table(&self, id: TableId) -> String {
        self.definition(id).map_or_else(|| format!("table {}", id.0), |def| def.name.clone())
    }

    fn column(&self, table: TableId, column: usize) -> String {
        let column_def = self.definition(table).and_then(|def| def.columns.get(column));
        column_def.map_or_else(|| column.to_string(), |column| column.name.clone())
    }

    fn key(&self, table: TableId, index: Option<IndexId>) -> (String, Vec<usize>) {
        let Some((def, keyed)) = self.definition(table).and_then(|def| Some((def, def.keyed.as_ref()?))) else {
            return ("a key".to_owned(), Vec::new());
        };
        let columns = |parts: &[KeyColumn]| parts.iter().filter_map(|part| def.column_by_id(part.column)).collect();
        match index.and_then(|id| keyed.indexes.iter().find(|index| index.id == id)) {
            None => ("primary key".to_owned(), columns(&keyed.key)),
            Some(index) => {
                let mut all: Vec<usize> = columns(&index.parts);
                all.extend(columns(&keyed.key));
                (format!("index {}", index.name), all)
            }
        }
    }
}
