//! Compares two states: definitions, blocks, rows, row numbers and deletes must be equal. Recent rows may be in
//! different runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use roaring::RoaringTreemap;
use rowmill_base::{Error, Result};
use rowmill_storage::{Block, OpenRun, concat_values};

use crate::catalog::Catalog;
use crate::definition::DefinitionKind;
use crate::manifest::BlockEntry;
use crate::snapshot::{Snapshot, TableSnapshot};

/// Lists the differences of `found` from `known`.
pub(super) fn differences(found: &Snapshot, known: &Snapshot) -> Result<Vec<String>> {
    let mut differences = Vec::new();
    if found.commit != known.commit {
        differences.push(format!("commit {} instead of {}", found.commit, known.commit));
    }
    let (found_defs, known_defs) = (definitions(&found.catalog)?, definitions(&known.catalog)?);
    for key in found_defs.keys().chain(known_defs.keys().filter(|key| !found_defs.contains_key(*key))) {
        if found_defs.get(key) != known_defs.get(key) {
            let (letter, id) = *key;
            let kind = DefinitionKind::of_letter(letter).expect("the letter of a kind");
            differences.push(format!("another definition of {} {id}", kind.name()));
        }
    }
    for (id, found) in &*found.tables {
        match known.tables.get(id) {
            Some(known) => table_differences(found, known, &mut differences)?,
            None => differences.push(format!("table {} should not exist", found.def.name)),
        }
    }
    for (_, table) in known.tables.iter().filter(|(id, _)| !found.tables.contains_key(id)) {
        differences.push(format!("table {} is missing", table.def.name));
    }
    Ok(differences)
}

/// All definitions, encoded as in the base, by kind and id.
fn definitions(catalog: &Catalog) -> Result<BTreeMap<(u8, u32), Vec<u8>>> {
    let mut all = BTreeMap::new();
    for kind in DefinitionKind::ALL {
        all.extend(kind.encode_all(catalog)?.into_iter().map(|(id, value)| ((kind.letter(), id), value)));
    }
    Ok(all)
}

fn table_differences(found: &TableSnapshot, known: &TableSnapshot, differences: &mut Vec<String>) -> Result<()> {
    let name = &known.def.name;
    if found.next_row != known.next_row {
        let (found, known) = (found.next_row, known.next_row);
        differences.push(format!("table {name}: the next row is {found} instead of {known}"));
    }
    if found.moved_rows != known.moved_rows {
        let (found, known) = (found.moved_rows, known.moved_rows);
        differences.push(format!("table {name}: {found} rows have moved instead of {known}"));
    }
    if found.blocks.len() != known.blocks.len() {
        let (found, known) = (found.blocks.len(), known.blocks.len());
        differences.push(format!("table {name}: {found} blocks instead of {known}"));
    }
    for (found, known) in found.blocks.iter().zip(&*known.blocks) {
        if found.first_row() != known.first_row() || BlockEntry::of(found) != BlockEntry::of(known) {
            differences.push(format!("table {name}: block {} instead of {}", found.id(), known.id()));
        } else if found.deleted() != known.deleted() {
            let deleted = |block: &Block| block.rows() - block.live_rows();
            let (rows, should) = (deleted(found), deleted(known));
            let block = known.id();
            differences.push(format!("table {name}, block {block}: {rows} rows are deleted, but {should} should be"));
        }
    }
    if same_runs(&found.runs, &known.runs) {
        return Ok(());
    }
    let (rows, should) = (live_rows(&found.runs), live_rows(&known.runs));
    if rows != should {
        let (rows, should) = (rows.len(), should.len());
        differences.push(format!("table {name}: {rows} recent rows, but {should} were written"));
        return Ok(());
    }
    for (index, column) in known.def.columns.iter().enumerate() {
        // We compare one column at a time, so that only one column is copied.
        if found.def.columns.len() <= index || live_values(found, index)? != live_values(known, index)? {
            differences.push(format!("table {name}, column {}: recent rows have other values", column.name));
        }
    }
    Ok(())
}

fn same_runs(found: &[Arc<OpenRun>], known: &[Arc<OpenRun>]) -> bool {
    let same = |(one, other): (&Arc<OpenRun>, &Arc<OpenRun>)| one.same_rows(other) && one.deleted() == other.deleted();
    found.len() == known.len() && found.iter().zip(known).all(same)
}

fn is_live(run: &OpenRun, position: u32) -> bool {
    run.deleted().is_none_or(|deleted| !deleted.contains(position))
}

/// The numbers of the rows that are not deleted.
fn live_rows(runs: &[Arc<OpenRun>]) -> RoaringTreemap {
    let rows = |run: &Arc<OpenRun>| {
        let (run, first) = (Arc::clone(run), run.first_row().0);
        (0..run.rows() as u32).filter(move |position| is_live(&run, *position)).map(move |row| first + u64::from(row))
    };
    runs.iter().flat_map(rows).collect()
}

/// The values of a column in all live rows, in the order of the row numbers. `None` if there are no runs.
fn live_values(table: &TableSnapshot, index: usize) -> Result<Option<ArrayRef>> {
    let live = |run: &Arc<OpenRun>| {
        let positions = (0..run.rows() as u32).filter(|position| is_live(run, *position));
        let values = take(&run.values(&table.def, index)?, &UInt32Array::from_iter_values(positions), None);
        values.map_err(|error| Error::internal(error.to_string()))
    };
    let parts = table.runs.iter().map(live).collect::<Result<Vec<ArrayRef>>>()?;
    if parts.is_empty() { Ok(None) } else { concat_values(&parts).map(Some) }
}
