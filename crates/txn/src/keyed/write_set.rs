//! What a transaction has written to keyed tables: ordered, and undone to any earlier length.

use super::store::KeyedChanges;

/// Bytes of memory beyond those of a key and its row, about.
const ENTRY_BYTES: u64 = 96;

/// Keys with their new rows, and what they had before, newest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteSet {
    entries: KeyedChanges,
    undo: Vec<Undo>,
    bytes: u64,
}

/// A key and what the set had of it.
#[derive(Clone, Debug)]
struct Undo {
    key: Vec<u8>,
    before: Option<Option<Vec<u8>>>,
}

impl Undo {
    fn bytes(&self) -> u64 {
        let before = self.before.iter().flatten().map(Vec::len).sum::<usize>();
        ENTRY_BYTES + 2 * self.key.len() as u64 + before as u64
    }
}

impl WriteSet {
    pub(crate) fn entries(&self) -> &KeyedChanges {
        &self.entries
    }

    pub(crate) fn take(&mut self) -> KeyedChanges {
        self.undo.clear();
        self.bytes = 0;
        std::mem::take(&mut self.entries)
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn put(&mut self, key: Vec<u8>, row: Option<Vec<u8>>) {
        let before = self.set(key.clone(), Some(row));
        self.note(Undo { key, before });
    }

    /// Forgets what was written to keys that begin with `prefix`.
    pub(crate) fn clear(&mut self, prefix: &[u8]) {
        let from = self.entries.range(prefix.to_vec()..);
        let keys: Vec<Vec<u8>> = from.map(|(key, _)| key).take_while(|key| key.starts_with(prefix)).cloned().collect();
        for key in keys {
            let before = self.set(key.clone(), None);
            self.note(Undo { key, before });
        }
    }

    /// Has the set have `entry` of a key; what it had.
    fn set(&mut self, key: Vec<u8>, entry: Option<Option<Vec<u8>>>) -> Option<Option<Vec<u8>>> {
        let row_bytes = |entry: &Option<Option<Vec<u8>>>| entry.iter().flatten().map(Vec::len).sum::<usize>() as u64;
        self.bytes += row_bytes(&entry);
        let before = match entry {
            Some(row) => self.entries.insert(key, row),
            None => self.entries.remove(&key),
        };
        self.bytes -= row_bytes(&before);
        before
    }

    fn note(&mut self, undo: Undo) {
        self.bytes += undo.bytes();
        self.undo.push(undo);
    }

    /// A point to go back to.
    pub(crate) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Takes back what was written since `mark`.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            let undo = self.undo.pop().expect("it is longer than the mark");
            self.bytes -= undo.bytes();
            self.set(undo.key, undo.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_since_a_mark_is_taken_back() {
        let mut set = WriteSet::default();
        let put = |set: &mut WriteSet, key: &str, row: Option<&str>| set.put(key.into(), row.map(Into::into));
        put(&mut set, "a1", Some("x"));
        put(&mut set, "b", Some("y"));
        let (first, before, bytes) = (set.mark(), set.entries().clone(), set.bytes());
        put(&mut set, "a1", None);
        put(&mut set, "a2", Some("z"));
        let (second, between) = (set.mark(), set.entries().clone());
        set.clear(b"a");
        assert_eq!(set.entries().keys().collect::<Vec<_>>(), [b"b"]);
        set.undo_to(second);
        assert_eq!(*set.entries(), between);
        set.undo_to(first);
        assert_eq!((set.entries(), set.bytes()), (&before, bytes));
        assert_eq!(set.take(), before);
        assert_eq!((set.entries().len(), set.bytes(), set.mark()), (0, 0, 0));
    }
}
