//! A batch of changes for one write to a base.

use std::collections::HashSet;
use std::ops::Range;

use rowmill_base::CommitId;

/// Changes of a base, applied in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    operations: Vec<Owned>,
    /// Keys and rows of [`WriteBatch::set_row`], one after the other in one buffer.
    rows: Vec<u8>,
    /// The keys that have a value after all operations, except keys of rows.
    puts: HashSet<Vec<u8>>,
    /// The last commit of the base for which the batch was made, if it is bound to one.
    behind: Option<CommitId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Owned {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeletePrefix(Vec<u8>),
    /// The places in `rows` of a key and its row. A deleted row has no place.
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
    /// Removes a key. Does nothing if the key is absent.
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

    /// Makes a batch that may be applied only to a base whose last commit is `commit`.
    pub(crate) fn behind(commit: CommitId) -> WriteBatch {
        WriteBatch { behind: Some(commit), ..WriteBatch::default() }
    }

    /// Whether the batch may change a base whose last commit is `last`.
    pub(super) fn is_behind(&self, last: CommitId) -> bool {
        self.behind.is_none_or(|commit| commit == last)
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        let key = key.into();
        self.puts.insert(key.clone());
        self.operations.push(Owned::Put(key, value.into()));
    }

    /// Removes `key`. Does nothing if the key is absent.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) {
        let key = key.into();
        self.puts.remove(&key);
        self.operations.push(Owned::Delete(key));
    }

    /// Removes all keys that start with `prefix`, including those that this batch put before.
    pub(crate) fn delete_prefix(&mut self, prefix: impl Into<Vec<u8>>) {
        let prefix = prefix.into();
        // Operations apply in order, so a deletion also ends the effect of earlier puts.
        self.puts.retain(|key| !key.starts_with(&prefix));
        self.operations.push(Owned::DeletePrefix(prefix));
    }

    /// Sets the row of a key, or removes the key if `row` is `None`. This is cheaper than [`WriteBatch::put`] and
    /// [`WriteBatch::delete`], because all rows share one buffer. [`WriteBatch::puts`] does not see these keys.
    pub(crate) fn set_row(&mut self, key: &[u8], row: Option<&[u8]>) {
        let at = self.rows.len();
        self.rows.extend_from_slice(key);
        // The row follows its key in the shared buffer. Two ranges remember where both are.
        let behind_key = self.rows.len();
        self.rows.extend_from_slice(row.unwrap_or_default());
        let row = row.map(|_| behind_key..self.rows.len());
        self.operations.push(Owned::Row(at..behind_key, row));
    }

    /// Whether `key` has a value after the whole batch was applied, and this batch set it.
    pub fn puts(&self, key: &[u8]) -> bool {
        self.puts.contains(key)
    }

    /// The bytes of memory that the rows of [`WriteBatch::set_row`] take, without room for more.
    pub(crate) fn row_bytes(&self) -> usize {
        self.rows.len() + self.operations.len() * size_of::<Owned>()
    }

    /// Whether the batch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The changes, in order.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> + Clone {
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
