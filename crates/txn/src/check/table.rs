//! Checks of the tables of a state: their definitions, the order of their rows, and the bytes of their columns.

use std::collections::HashSet;

use rowmill_base::{BlockId, Result};
use rowmill_storage::{ROW_NUMBERS_NAME, TableDef};

use super::{Finding, RunningCheck};
use crate::deletes::Holder;
use crate::manifest::Meta;
use crate::snapshot::{Snapshot, TableSnapshot};

impl RunningCheck<'_> {
    /// Checks each table and each of its columns. `meta` has the next unused ids, if they are known.
    pub(super) fn tables(&mut self, state: &Snapshot, meta: Option<Meta>) -> Result<()> {
        let mut blocks = HashSet::new();
        for def in state.catalog.all_tables() {
            let schema = state.catalog.schema_by_id(def.schema);
            let name = format!("table {}.{}", schema.map_or("?", |schema| &schema.name), def.name);
            let mut finding = Finding::new(name.clone());
            if schema.is_none() {
                finding.problem(format!("its schema {} does not exist", def.schema));
            }
            check_definition(def, meta, &mut finding);
            let Some(table) = state.tables.get(&def.id) else {
                finding.problem("it has a definition but no rows");
                self.finish(finding);
                continue;
            };
            check_order(table, &mut finding);
            check_blocks(table, meta, &mut blocks, &mut finding);
            check_runs(table, &mut finding)?;
            self.finish(finding);
            self.columns(&name, table)?;
        }
        for id in state.tables.keys().filter(|id| state.catalog.table_by_id(**id).is_none()) {
            let mut finding = Finding::new(format!("table {id}"));
            finding.problem("it has rows but no definition");
            self.finish(finding);
        }
        Ok(())
    }

    fn columns(&mut self, name: &str, table: &TableSnapshot) -> Result<()> {
        for (index, column) in table.def.columns.iter().enumerate() {
            let mut finding = Finding::new(format!("{name}, column {}", column.name));
            for block in &*table.blocks {
                let bytes = finding.take(block.check_chunk(&table.def, index, self.cancel))?;
                finding.bytes += bytes.unwrap_or_default();
            }
            self.finish(finding);
        }
        let mut finding = Finding::new(format!("{name}, {ROW_NUMBERS_NAME}"));
        for block in &*table.blocks {
            let bytes = finding.take(block.check_row_numbers(&table.def, self.cancel))?;
            finding.bytes += bytes.unwrap_or_default();
        }
        if finding.bytes > 0 || !finding.problems.is_empty() {
            self.finish(finding);
        }
        Ok(())
    }
}

fn check_definition(def: &TableDef, meta: Option<Meta>, finding: &mut Finding) {
    if meta.is_some_and(|meta| def.id >= meta.next_table) {
        finding.problem(format!("its id {} was never given out", def.id));
    }
    let (mut ids, mut names) = (HashSet::new(), HashSet::new());
    for column in &def.columns {
        if !ids.insert(column.id) || column.id >= def.next_column {
            finding
                .problem(format!("column {} has the id {} of another, or one never given out", column.name, column.id));
        }
        if !names.insert(column.name.to_lowercase()) {
            finding.problem(format!("there is more than one column {}", column.name));
        }
    }
}

/// Row numbers must be ascending, unique and below the next one. Deleted rows must exist.
fn check_order(table: &TableSnapshot, finding: &mut Finding) {
    let (blocks, runs) = (&table.blocks, &table.runs);
    if !blocks.is_sorted_by_key(|block| block.first_row()) || !runs.is_sorted_by_key(|run| run.first_row()) {
        finding.problem("its blocks or recent rows are not in the order of their row numbers");
    }
    let holders = Holder::all(blocks, runs);
    for pair in holders.windows(2) {
        if pair[0].end_row() > pair[1].first_row() {
            let (end, first) = (pair[0].end_row(), pair[1].first_row());
            finding.problem(format!("rows up to {end} and rows from {first} on have the same numbers"));
        }
    }
    if let Some(last) = holders.last().filter(|last| last.end_row() > table.next_row) {
        finding.problem(format!("it has rows up to {}, but the next one is {}", last.end_row(), table.next_row));
    }
    for holder in &holders {
        let deleted = holder.deleted().and_then(|deleted| deleted.max());
        if deleted.is_some_and(|last| last as usize >= holder.rows()) {
            finding.problem(format!("more rows are deleted from {} on than exist", holder.first_row()));
        }
        if holder.deleted().is_some_and(|deleted| deleted.len() >= holder.rows() as u64) {
            finding.problem(format!("all rows from {} up to {} are deleted", holder.first_row(), holder.end_row()));
        }
    }
}

fn check_blocks(table: &TableSnapshot, meta: Option<Meta>, known: &mut HashSet<BlockId>, finding: &mut Finding) {
    for block in &*table.blocks {
        if !known.insert(block.id()) {
            finding.problem(format!("another block also has the id {}", block.id()));
        }
        if meta.is_some_and(|meta| block.id() >= meta.next_block) {
            finding.problem(format!("the id of block {} was never given out", block.id()));
        }
    }
}

fn check_runs(table: &TableSnapshot, finding: &mut Finding) -> Result<()> {
    for run in &*table.runs {
        finding.bytes += run.memory_bytes();
        for (index, column) in table.def.columns.iter().enumerate() {
            let values = finding.take(run.values(&table.def, index))?;
            if values.is_some_and(|values| values.len() != run.rows() || *values.data_type() != column.kind.arrow()) {
                finding.problem(format!("recent rows from {} on lack values of {}", run.first_row(), column.name));
            }
        }
    }
    Ok(())
}
