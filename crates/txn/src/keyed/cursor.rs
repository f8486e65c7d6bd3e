//! A range of keys in order, read from what a transaction has written, from the versions in memory and from the base, as one.
//!
//! Each of the three gives a batch of its next keys; the least of the first ones is next, or the greatest downwards, and what
//! has been written later hides what has been written before.

use std::ops::Bound;

use rowmill_base::{IndexId, Result};
use rowmill_storage::keyed::{ByteRows, KeyRange};

use super::store::KeyedState;
use super::version_cursor::{VersionBatch, VersionCursor};
use super::write_set::WriteSet;

/// Keys that are copied at a time of each of the three.
const KEYS_AT_ONCE: usize = 256;

/// A row of a keyed table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyedRow {
    /// Its key, behind the head of its table's keys.
    pub key: Vec<u8>,
    /// The columns outside of the key.
    pub row: Vec<u8>,
}

/// Keys with their rows. Made to be filled again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowBatch {
    keys: ByteRows,
    rows: ByteRows,
}

impl RowBatch {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys, behind the head of their index's keys.
    pub fn keys(&self) -> &ByteRows {
        &self.keys
    }

    /// The columns outside of the keys.
    pub fn rows(&self) -> &ByteRows {
        &self.rows
    }

    /// Exchanges what it holds for other keys and rows.
    pub(crate) fn swap(&mut self, keys: &mut ByteRows, rows: &mut ByteRows) {
        std::mem::swap(&mut self.keys, keys);
        std::mem::swap(&mut self.rows, rows);
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.rows.clear();
    }

    pub(crate) fn push(&mut self, key: &[u8], row: &[u8]) {
        self.keys.push(key);
        self.rows.push(row);
    }
}

/// What is read: a snapshot, and what a transaction has written over it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) state: &'a KeyedState,
    pub(crate) own: Option<&'a WriteSet>,
}

impl Sources<'_> {
    /// Sets `row` to the row of `key`, if there is one.
    pub(crate) fn get(&self, key: &[u8], row: &mut Vec<u8>) -> Result<bool> {
        match self.own.and_then(|own| own.entries().get(key)) {
            Some(own) => {
                row.clear();
                row.extend_from_slice(own.as_deref().unwrap_or_default());
                Ok(own.is_some())
            }
            None => self.state.get(key, row),
        }
    }

    /// The first key of a range.
    pub(crate) fn first(&self, range: KeyRange) -> Result<Option<Vec<u8>>> {
        let mut batch = RowBatch::default();
        Entries::new(range, self.state, false, 1).next_batch(*self, 1, &mut batch)?;
        Ok((!batch.is_empty()).then(|| batch.keys().get(0).to_vec()))
    }
}

/// A place in a range of a table's rows, in the order of the primary key or of an index. It holds nothing: who has made it
/// reads on with it, and sees what was written meanwhile to keys that are yet to come.
#[derive(Debug)]
pub struct KeyedCursor {
    pub(crate) table: rowmill_base::TableId,
    pub(crate) index: Option<IndexId>,
    pub(crate) entries: Entries,
}

/// The keys of a range with their values.
#[derive(Debug)]
pub(crate) struct Entries {
    own: Feed,
    versions: Feed,
    base: Feed,
    version_cursor: VersionCursor,
    backward: bool,
    keys_at_once: usize,
}

/// One of the three: the keys that it gave last, and what is left of the range.
#[derive(Debug)]
struct Feed {
    batch: VersionBatch,
    at: usize,
    range: KeyRange,
    is_done: bool,
}

impl Feed {
    fn new(range: &KeyRange) -> Feed {
        Feed { batch: VersionBatch::default(), at: 0, range: range.clone(), is_done: range.is_empty() }
    }

    fn is_empty(&self) -> bool {
        self.at == self.batch.len()
    }

    fn key(&self) -> Option<&[u8]> {
        (!self.is_empty()).then(|| self.batch.get(self.at).0)
    }

    /// Notes that `filled` keys were asked for, which the batch has unless the range is at its end.
    fn note(&mut self, filled: usize, backward: bool) {
        if self.batch.len() < filled {
            self.is_done = true;
            return;
        }
        let last = self.batch.get(self.batch.len() - 1).0;
        let bound = if backward { &mut self.range.end } else { &mut self.range.start };
        bound.clear();
        bound.extend_from_slice(last);
        if !backward {
            // The least key above.
            bound.push(0);
        }
        self.is_done = self.range.is_empty();
    }
}

impl Entries {
    pub(crate) fn new(range: KeyRange, state: &KeyedState, backward: bool, keys_at_once: usize) -> Entries {
        Entries {
            own: Feed::new(&range),
            versions: Feed::new(&range),
            base: Feed::new(&range),
            version_cursor: VersionCursor::new(range, state.commit(), backward),
            backward,
            keys_at_once: keys_at_once.clamp(1, KEYS_AT_ONCE),
        }
    }

    /// Fills `out` with the next keys, `keys_max` at most; fewer only at the end of the range.
    pub(crate) fn next_batch(&mut self, sources: Sources<'_>, keys_max: usize, out: &mut RowBatch) -> Result<()> {
        out.clear();
        while out.len() < keys_max {
            self.fill(sources)?;
            let feeds = [&self.own, &self.versions, &self.base];
            let keys = feeds.iter().filter_map(|feed| feed.key());
            let Some(next) = (if self.backward { keys.max() } else { keys.min() }) else { return Ok(()) };
            let has_it = feeds.map(|feed| feed.key() == Some(next));
            // In the order of the three the first that has the key has what was written last.
            let newest = feeds[has_it.iter().position(|has_it| *has_it).expect("one of them gave it")];
            if let (key, Some(row)) = newest.batch.get(newest.at) {
                out.push(key, row);
            }
            for (feed, has_it) in [&mut self.own, &mut self.versions, &mut self.base].into_iter().zip(has_it) {
                feed.at += usize::from(has_it);
            }
        }
        Ok(())
    }

    fn fill(&mut self, sources: Sources<'_>) -> Result<()> {
        let (backward, limit) = (self.backward, self.keys_at_once);
        let feed = &mut self.own;
        if feed.is_empty() && !feed.is_done {
            feed.start_batch();
            if let Some(own) = sources.own {
                let start = Bound::Included(&feed.range.start[..]);
                let end = match &feed.range.end[..] {
                    [] => Bound::Unbounded,
                    end => Bound::Excluded(end),
                };
                let entries = own.entries().range::<[u8], _>((start, end));
                let mut push = |(key, row): (&Vec<u8>, &Option<Vec<u8>>)| feed.batch.push(key, row.as_deref());
                match backward {
                    true => entries.rev().take(limit).for_each(&mut push),
                    false => entries.take(limit).for_each(&mut push),
                }
            }
            feed.note(limit, backward);
        }
        let feed = &mut self.versions;
        if feed.is_empty() && !feed.is_done {
            feed.at = 0;
            self.version_cursor.next_batch(sources.state.store().versions(), limit, &mut feed.batch);
            feed.is_done = feed.batch.is_empty();
        }
        let feed = &mut self.base;
        if feed.is_empty() && !feed.is_done {
            feed.start_batch();
            let Feed { batch, range, .. } = &mut *feed;
            sources.state.generation().read(|base| {
                base.range(&range.start, &range.end, backward, &mut |key, row| {
                    batch.push(key, Some(row));
                    Ok(batch.len() < limit)
                })
            })?;
            feed.note(limit, backward);
        }
        Ok(())
    }
}

impl Feed {
    fn start_batch(&mut self) {
        self.batch.clear();
        self.at = 0;
    }
}
