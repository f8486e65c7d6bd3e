//! What one write changes.

use std::collections::HashSet;

use rowmill_base::CommitId;

/// Changes of a base, applied in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    operations: Vec<Owned>,
    /// The keys that the operations leave with a value.
    puts: HashSet<Vec<u8>>,
    /// The last commit of the base that it is made for, if it is made for one.
    behind: Option<CommitId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Owned {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeletePrefix(Vec<u8>),
}

/// One change of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Sets the value of a key.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its value from now on.
        value: &'a [u8],
    },
    /// Removes a key. Fine if it is absent.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Removes all keys that start with a prefix.
    DeletePrefix {
        /// The prefix. The empty one removes all keys.
        prefix: &'a [u8],
    },
}

impl WriteBatch {
    /// A batch that changes nothing.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// One that changes a base whose last commit is `commit`, and is refused by any other.
    pub fn behind(commit: CommitId) -> WriteBatch {
        WriteBatch { behind: Some(commit), ..WriteBatch::default() }
    }

    /// Whether it may change a base whose last commit is `last`.
    pub(super) fn is_behind(&self, last: CommitId) -> bool {
        self.behind.is_none_or(|commit| commit == last)
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        let key = key.into();
        self.puts.insert(key.clone());
        self.operations.push(Owned::Put(key, value.into()));
    }

    /// Removes `key`. Fine if it is absent.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) {
        let key = key.into();
        self.puts.remove(&key);
        self.operations.push(Owned::Delete(key));
    }

    /// Removes all keys that start with `prefix`, those put earlier in this batch included.
    pub fn delete_prefix(&mut self, prefix: impl Into<Vec<u8>>) {
        let prefix = prefix.into();
        self.puts.retain(|key| !key.starts_with(&prefix));
        self.operations.push(Owned::DeletePrefix(prefix));
    }

    /// Whether `key` has a value set by this batch once all of it is applied.
    pub fn puts(&self, key: &[u8]) -> bool {
        self.puts.contains(key)
    }

    /// Whether the batch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The changes in order.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        self.operations.iter().map(|operation| match operation {
            Owned::Put(key, value) => Operation::Put { key, value },
            Owned::Delete(key) => Operation::Delete { key },
            Owned::DeletePrefix(prefix) => Operation::DeletePrefix { prefix },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_follows_the_order_of_the_operations() {
        let mut batch = WriteBatch::new();
        assert!(batch.is_empty());
        batch.put(b"a1", b"");
        batch.put(b"a2", b"");
        batch.put(b"b", b"");
        batch.delete(b"b");
        assert!(batch.puts(b"a1") && !batch.puts(b"b"));
        batch.delete_prefix(b"a");
        batch.put(b"a2", b"");
        assert!(!batch.puts(b"a1") && batch.puts(b"a2"));
        assert_eq!(batch.operations().count(), 6);
    }
}
