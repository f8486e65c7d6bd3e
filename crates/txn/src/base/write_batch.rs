//! What one write changes.

use std::collections::HashSet;
use std::ops::Range;

use rowmill_base::CommitId;

/// Changes of a base, applied in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    operations: Vec<Owned>,
    /// Keys and rows of [`WriteBatch::set_row`], one behind the other.
    rows: Vec<u8>,
    /// The keys that the operations leave with a value, but for rows.
    puts: HashSet<Vec<u8>>,
    /// The last commit of the base that it is made for, if it is made for one.
    behind: Option<CommitId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Owned {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeletePrefix(Vec<u8>),
    /// The key and the row, if it is not deleted, among the rows.
    Row(Range<usize>, Option<Range<usize>>),
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

    /// Sets the row of a key, or removes it: as [`WriteBatch::put`] and [`WriteBatch::delete`], without a string of its own for
    /// each key. [`WriteBatch::puts`] does not know of it.
    pub fn set_row(&mut self, key: &[u8], row: Option<&[u8]>) {
        let at = self.rows.len();
        self.rows.extend_from_slice(key);
        let behind_key = self.rows.len();
        self.rows.extend_from_slice(row.unwrap_or_default());
        let row = row.map(|_| behind_key..self.rows.len());
        self.operations.push(Owned::Row(at..behind_key, row));
    }

    /// Whether `key` has a value set by this batch once all of it is applied.
    pub fn puts(&self, key: &[u8]) -> bool {
        self.puts.contains(key)
    }

    /// Bytes of keys and values that it sets, about.
    pub(crate) fn bytes(&self) -> usize {
        let of = |operation: Operation<'_>| match operation {
            Operation::Put { key, value } => key.len() + value.len(),
            Operation::Delete { key } => key.len(),
            Operation::DeletePrefix { prefix } => prefix.len(),
        };
        self.operations().map(of).sum()
    }

    /// Whether the batch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The changes in order.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'_>> + Clone {
        self.operations.iter().map(|operation| match operation {
            Owned::Put(key, value) => Operation::Put { key, value },
            Owned::Delete(key) => Operation::Delete { key },
            Owned::DeletePrefix(prefix) => Operation::DeletePrefix { prefix },
            Owned::Row(key, Some(row)) => {
                Operation::Put { key: &self.rows[key.clone()], value: &self.rows[row.clone()] }
            }
            Owned::Row(key, None) => Operation::Delete { key: &self.rows[key.clone()] },
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
        batch.set_row(b"row", Some(b"its value"));
        batch.set_row(b"gone", None);
        assert_eq!(batch.operations().count(), 8);
        let rows: Vec<_> = batch.operations().skip(6).collect();
        let put = Operation::Put { key: b"row", value: b"its value" };
        assert_eq!(rows, [put, Operation::Delete { key: b"gone" }]);
    }
}
