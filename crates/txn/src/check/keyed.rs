//! Checks of keyed tables: each key and row must belong to its table, each row must have its entry in every index and
//! each entry its row, and each row must have the rows that it refers to.

use rowmill_base::{Cancel, Error, Result};
use rowmill_storage::keyed::KeyRange;

use super::{Finding, RunningCheck};
use crate::keyed::{RangeScan, RowBatch, TableCodec, WriteBuffers, index_head};
use crate::parents::{Sought, find_parent, foreign_keys};
use crate::snapshot::Snapshot;

/// Keys that are read at a time. The cost of a call is shared by a thousand keys, and the check looks for its
/// cancellation after each call.
const KEYS_AT_ONCE: usize = 1024;

/// The tables whose rows or index entries differ between two states.
pub(super) fn differences(found: &Snapshot, known: &Snapshot, cancel: &Cancel) -> Result<Vec<String>> {
    let mut differ = Vec::new();
    [found, known].into_iter().for_each(look_anew);
    for def in known.catalog.all_tables() {
        let Some(keyed) = &def.keyed else { continue };
        for index in keyed.index_ids() {
            let (found_reader, known_reader) = (found.reader(), known.reader());
            let (mut found_scan, mut known_scan) = (scan_of(&index_head(index)), scan_of(&index_head(index)));
            let (mut a, mut b) = (RowBatch::default(), RowBatch::default());
            loop {
                cancel.check()?;
                a.fill(&mut found_scan, &found_reader, KEYS_AT_ONCE)?;
                b.fill(&mut known_scan, &known_reader, KEYS_AT_ONCE)?;
                if a != b {
                    differ.push(def.name.clone());
                }
                if a != b || a.is_empty() {
                    break;
                }
            }
        }
    }
    differ.dedup();
    Ok(differ)
}

/// Drops open reads, so that the next look-up sees the base as it is now.
fn look_anew(state: &Snapshot) {
    state.keyed.generation().let_go();
}

/// A scan of all keys that begin with `head`.
fn scan_of(head: &[u8]) -> RangeScan {
    let (range, mut scan) = (KeyRange::of_prefix(head), RangeScan::default());
    scan.start(&range.start, &range.end, false, KEYS_AT_ONCE);
    scan
}

impl RunningCheck<'_> {
    pub(super) fn keyed_tables(&mut self, state: &Snapshot) -> Result<()> {
        look_anew(state);
        for def in state.catalog.all_tables().filter(|def| def.keyed.is_some()) {
            let schema = state.catalog.schema_by_id(def.schema).map_or("", |schema| &schema.name[..]);
            let mut finding = Finding::new(format!("table {schema}.{}, keys", def.name));
            let codec = |id| {
                let def =
                    state.catalog.table_by_id(id).ok_or_else(|| Error::corrupt("a referred table does not exist"));
                TableCodec::new(def?)
            };
            let checked = codec(def.id).and_then(|own| {
                let parents = foreign_keys(&own).iter().map(|key| codec(key.parent)).collect::<Result<Vec<_>>>()?;
                self.keyed_table(&own, &parents, state, &mut finding)
            });
            finding.take(checked)?;
            self.finish(finding);
        }
        Ok(())
    }

    /// Checks the rows and indexes of one table. `parents` belong to its foreign keys, in the same order.
    fn keyed_table(
        &self,
        codec: &TableCodec,
        parents: &[TableCodec],
        state: &Snapshot,
        finding: &mut Finding,
    ) -> Result<()> {
        let reader = state.reader();
        let (mut batch, mut scratch, mut found) = (RowBatch::default(), Vec::new(), Vec::new());
        let (mut key, mut expected, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let mut buffers = WriteBuffers::default();
        let mut rows = scan_of(codec.keys(None)?.0);
        loop {
            self.cancel.check()?;
            batch.fill(&mut rows, &reader, KEYS_AT_ONCE)?;
            if batch.is_empty() {
                break;
            }
            for (key, row) in batch.keys().iter().zip(batch.rows().iter()) {
                finding.bytes += (key.len() + row.len()) as u64;
                let Some(values) = finding.take(codec.values(key, row, &mut scratch))? else { continue };
                for (foreign_key, parents) in foreign_keys(codec).iter().zip(parents) {
                    let sought = find_parent(&reader, codec, &values, foreign_key, parents, &mut buffers);
                    if matches!(finding.take(sought)?, Some(Some(Sought::Nothing | Sought::Impossible))) {
                        let (said, parent) = (codec.say(key), &parents.def().name);
                        let name = &foreign_key.name;
                        finding.problem(format!(
                            "the row {said} violates foreign key {name}: table {parent} has no such row"
                        ));
                    }
                }
                let read = codec.row(key, row)?;
                for index in codec.indexes() {
                    let made = codec.entry_of_row(index, &read, key, &mut expected, &mut value);
                    if finding.take(made)?.is_some() && !reader.get(&expected, &mut found)? {
                        finding.problem(format!("the row {} is not in index {}", codec.say(key), index.def.name));
                    }
                }
            }
        }
        for index in codec.indexes() {
            let (mut last_unique, mut unique) = (KeyRange::default(), KeyRange::default());
            // A shortened entry only holds a hash, so we compare the whole columns of such neighbours.
            let (mut last_columns, mut columns) = (Vec::new(), Vec::new());
            let mut entries = scan_of(&index_head(index.def.id));
            loop {
                self.cancel.check()?;
                batch.fill(&mut entries, &reader, KEYS_AT_ONCE)?;
                if batch.is_empty() {
                    break;
                }
                for entry in batch.keys().iter() {
                    finding.bytes += entry.len() as u64;
                    let row = codec.row_key(index.def.id, entry, &mut key).and_then(|()| {
                        if !reader.get(&key, &mut found)? {
                            return Ok(false);
                        }
                        let row = codec.row(&key, &found)?;
                        codec.entry_of_row(index, &row, &key, &mut expected, &mut value)?;
                        columns.clear();
                        if index.is_short(entry) {
                            index.columns_of_row(&row, &mut columns, &mut value)?;
                        }
                        Ok(expected == entry)
                    });
                    let is_right = finding.take(row)?;
                    if is_right == Some(false) {
                        let (name, said) = (&index.def.name, codec.say(entry));
                        finding.problem(format!("index {name} has {said}, but there is no such row"));
                    }
                    let is_unique = codec.unique_range(index, entry, &mut unique)?;
                    if is_unique && unique == last_unique && columns == last_columns {
                        let (name, said) = (&index.def.name, codec.say(entry));
                        finding.take::<()>(Err(Error::corrupt(format!("the unique index {name} has {said} twice"))))?;
                    }
                    if is_unique {
                        std::mem::swap(&mut unique, &mut last_unique);
                        std::mem::swap(&mut columns, &mut last_columns);
                    }
                }
            }
        }
        Ok(())
    }
}
