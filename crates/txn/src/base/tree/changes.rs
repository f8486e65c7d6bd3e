//! The changes of a batch in the order of keys, with one change per key.

use super::super::{Operation, WriteBatch, keys_of_prefix};
use crate::key_bytes::compare;

/// The new value of a key, or `None` to remove the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyChange<'w> {
    pub(super) key: &'w [u8],
    pub(super) value: Option<&'w [u8]>,
}

/// The effect of a batch on a tree: first all keys in `removed` are removed, then `changes` are applied.
#[derive(Debug, Default)]
pub(super) struct Changes<'w> {
    /// Ascending keys.
    pub(super) changes: Vec<KeyChange<'w>>,
    /// Ranges of keys, from the first up to, but not including, the second. An empty second key means no upper bound.
    removed: Vec<(&'w [u8], Vec<u8>)>,
}

impl<'w> Changes<'w> {
    pub(super) fn of(batch: &'w WriteBatch) -> Changes<'w> {
        let mut all = Changes::default();
        // A removal of a prefix ends the effect of the changes before it.
        let mut removals: Vec<(usize, &'w [u8], Vec<u8>)> = Vec::new();
        for operation in batch.operations() {
            match operation {
                Operation::Put { key, value } => all.changes.push(KeyChange { key, value: Some(value) }),
                Operation::Delete { key } => all.changes.push(KeyChange { key, value: None }),
                Operation::DeletePrefix { prefix } => {
                    let (start, end) = keys_of_prefix(prefix);
                    removals.push((all.changes.len(), start, end));
                }
            }
        }
        if !removals.is_empty() {
            let mut at = 0;
            all.changes.retain(|change| {
                at += 1;
                !removals.iter().any(|(before, start, end)| at <= *before && is_in(change.key, start, end))
            });
        }
        all.removed = removals.into_iter().map(|(_, start, end)| (start, end)).collect();
        all.sort();
        all
    }

    /// Sorts the changes and keeps the last one of each key.
    fn sort(&mut self) {
        // Checkpoints make few ascending runs, which a stable sort merges.
        self.changes.sort_by(|a, b| compare(a.key, b.key));
        let mut kept = 0;
        for at in 0..self.changes.len() {
            let change = self.changes[at];
            if kept > 0 && self.changes[kept - 1].key == change.key {
                self.changes[kept - 1] = change;
            } else {
                self.changes[kept] = change;
                kept += 1;
            }
        }
        self.changes.truncate(kept);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.removed.is_empty()
    }

    pub(super) fn removes(&self, key: &[u8]) -> bool {
        self.removed.iter().any(|(start, end)| is_in(key, start, end))
    }

    /// Whether keys from `lower` up to `upper` may be removed.
    pub(super) fn removes_some(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let meets = |(start, end): &(&[u8], Vec<u8>)| {
            upper.is_none_or(|upper| *start < upper) && (end.is_empty() || lower < &end[..])
        };
        self.removed.iter().any(meets)
    }

    /// Whether one range removes all keys from `lower` up to `upper`.
    pub(super) fn removes_all(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let covers = |(start, end): &(&[u8], Vec<u8>)| {
            *start <= lower && (end.is_empty() || upper.is_some_and(|upper| upper <= &end[..]))
        };
        self.removed.iter().any(covers)
    }
}

fn is_in(key: &[u8], start: &[u8], end: &[u8]) -> bool {
    start <= key && (end.is_empty() || key < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_key_counts_and_removals_end_earlier_ones() {
        let mut batch = WriteBatch::new();
        batch.put(b"b1", b"1");
        batch.put(b"a", b"1");
        batch.put(b"c", b"1");
        batch.delete_prefix(b"b");
        batch.put(b"b2", b"2");
        batch.put(b"a", b"2");
        batch.delete(b"c");
        let changes = Changes::of(&batch);
        let keys: Vec<_> = changes.changes.iter().map(|change| (change.key, change.value)).collect();
        assert_eq!(keys, [(&b"a"[..], Some(&b"2"[..])), (b"b2", Some(b"2")), (b"c", None)]);
        assert!(changes.removes(b"b") && changes.removes(b"bz") && !changes.removes(b"c"));
        assert!(changes.removes_all(b"b1", Some(b"c")) && !changes.removes_all(b"b1", None));
        assert!(changes.removes_some(b"", None) && !changes.removes_some(b"c", None));
    }
}
