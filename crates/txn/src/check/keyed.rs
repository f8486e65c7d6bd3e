//! Keyed tables: each key and row is one of its table, each row has its entry in each index and each entry its row.

use rowmill_base::{Cancel, Error, Result};
use rowmill_storage::keyed::KeyRange;

use super::{Check, Finding};
use crate::keyed::{Entries, RowBatch, Sources, TableCodec, index_head};
use crate::snapshot::Snapshot;

/// Keys that are looked at at a time.
const KEYS_AT_ONCE: usize = 1024;

/// The tables of which two states have other rows or index entries.
pub(super) fn differences(found: &Snapshot, known: &Snapshot, cancel: &Cancel) -> Result<Vec<String>> {
    let mut differ = Vec::new();
    for def in known.catalog.all_tables() {
        let Some(keyed) = &def.keyed else { continue };
        for index in keyed.index_ids() {
            let of_state = |state: &Snapshot| {
                let range = KeyRange::of_prefix(&index_head(index));
                Entries::new(range, &state.keyed, false, KEYS_AT_ONCE)
            };
            let (mut found_entries, mut known_entries) = (of_state(found), of_state(known));
            let (mut a, mut b) = (RowBatch::default(), RowBatch::default());
            loop {
                cancel.check()?;
                found_entries.next_batch(Sources { state: &found.keyed, own: None }, KEYS_AT_ONCE, &mut a)?;
                known_entries.next_batch(Sources { state: &known.keyed, own: None }, KEYS_AT_ONCE, &mut b)?;
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

impl Check<'_> {
    pub(super) fn keyed_tables(&mut self, state: &Snapshot) -> Result<()> {
        for def in state.catalog.all_tables().filter(|def| def.keyed.is_some()) {
            let schema = state.catalog.schema_by_id(def.schema).map_or("", |schema| &schema.name[..]);
            let mut finding = Finding::new(format!("table {schema}.{}, keys", def.name));
            let checked = TableCodec::new(def).and_then(|codec| self.keyed_table(&codec, state, &mut finding));
            finding.take(checked)?;
            self.finish(finding);
        }
        Ok(())
    }

    fn keyed_table(&self, codec: &TableCodec, state: &Snapshot, finding: &mut Finding) -> Result<()> {
        let sources = Sources { state: &state.keyed, own: None };
        let (mut batch, mut scratch, mut found) = (RowBatch::default(), Vec::new(), Vec::new());
        let mut rows = Entries::new(KeyRange::of_prefix(codec.keys(None)?.0), &state.keyed, false, KEYS_AT_ONCE);
        loop {
            self.cancel.check()?;
            rows.next_batch(sources, KEYS_AT_ONCE, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            for (key, row) in batch.keys().iter().zip(batch.rows().iter()) {
                finding.bytes += (key.len() + row.len()) as u64;
                let entries = codec.values(key, row, &mut scratch).and_then(|values| {
                    codec.indexes().iter().map(|index| codec.entry(index, &values, key)).collect::<Result<Vec<_>>>()
                });
                let Some(entries) = finding.take(entries)? else { continue };
                for (index, entry) in codec.indexes().iter().zip(entries) {
                    if !sources.get(&entry, &mut found)? {
                        finding.problem(format!("the row {} is not in index {}", codec.say(key), index.def.name));
                    }
                }
            }
        }
        for index in codec.indexes() {
            let mut last_unique: Option<KeyRange> = None;
            let range = KeyRange::of_prefix(&index_head(index.def.id));
            let mut entries = Entries::new(range, &state.keyed, false, KEYS_AT_ONCE);
            loop {
                self.cancel.check()?;
                entries.next_batch(sources, KEYS_AT_ONCE, &mut batch)?;
                if batch.is_empty() {
                    break;
                }
                for entry in batch.keys().iter() {
                    finding.bytes += entry.len() as u64;
                    let row = codec.row_key(index, entry).and_then(|key| match sources.get(&key, &mut found)? {
                        true => codec.values(&key, &found, &mut scratch).and_then(|values| {
                            let expected = codec.entry(index, &values, &key)?;
                            Ok(expected == entry)
                        }),
                        false => Ok(false),
                    });
                    let is_right = finding.take(row)?;
                    if is_right == Some(false) {
                        let (name, said) = (&index.def.name, codec.say(entry));
                        finding.problem(format!("index {name} has {said}, and there is no such row"));
                    }
                    let unique = codec.unique_range(index, entry)?;
                    if unique.is_some() && unique == last_unique {
                        let (name, said) = (&index.def.name, codec.say(entry));
                        finding.take::<()>(Err(Error::corrupt(format!("the unique index {name} has {said} twice"))))?;
                    }
                    last_unique = unique;
                }
            }
        }
        Ok(())
    }
}
