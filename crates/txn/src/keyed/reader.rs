//! What one transaction, or one snapshot, sees of keyed tables: its own writes, over the versions of commits, over the base.

use std::sync::Arc;

use rowmill_base::{IndexId, Result};

use super::read_set::ReadSet;
use super::seat::BaseReader;
use super::store::KeyedState;
use super::versions::Found;
use super::write_set::WriteSet;

/// Reads rows and index entries by their keys, which a [`TableCodec`](super::TableCodec) makes. It costs nothing to make.
///
/// For ranges see [`RangeScan`](super::RangeScan).
#[derive(Debug)]
pub struct Reader<'a> {
    state: &'a KeyedState,
    own: Option<&'a WriteSet>,
    base: Base<'a>,
    /// Where reads are noted, if they are.
    reads: Option<&'a ReadSet>,
}

#[derive(Debug)]
enum Base<'a> {
    Shared(&'a BaseReader),
    Own(BaseReader),
}

impl<'a> Reader<'a> {
    /// Of what a transaction has written over `state`, and reads the base by `base`.
    pub(crate) fn over(state: &'a KeyedState, own: Option<&'a WriteSet>, base: &'a BaseReader) -> Reader<'a> {
        Reader { state, own: own.filter(|own| !own.is_empty()), base: Base::Shared(base), reads: None }
    }

    /// The same, which notes what is read in `reads`, if that is there.
    pub(crate) fn noting(self, reads: Option<&'a ReadSet>) -> Reader<'a> {
        Reader { reads, ..self }
    }

    /// Of one state, and what a transaction has written over it.
    pub(crate) fn of(state: &'a KeyedState, own: Option<&'a WriteSet>) -> Reader<'a> {
        let own = own.filter(|own| !own.is_empty());
        Reader { state, own, base: Base::Own(BaseReader::new(state.generation())), reads: None }
    }

    pub(super) fn state(&self) -> &'a KeyedState {
        self.state
    }

    pub(super) fn own(&self) -> Option<&'a WriteSet> {
        self.own
    }

    pub(super) fn reads(&self) -> Option<&'a ReadSet> {
        self.reads
    }

    pub(super) fn base(&self) -> &BaseReader {
        match &self.base {
            Base::Shared(base) => base,
            Base::Own(base) => base,
        }
    }

    /// How many rows the table has whose rows `index` names, if that is known without counting them and no reads are noted.
    pub fn row_count(&self, index: IndexId) -> Option<u64> {
        if self.reads.is_some() {
            return None;
        }
        let committed = self.state.store().row_counts().rows(index, self.state.commit())?;
        committed.checked_add_signed(self.own_rows(index)?)
    }

    /// Notes that `rows` rows were counted of a table, so that they need not be counted again.
    pub fn note_row_count(&self, index: IndexId, rows: u64) {
        if let Some(own) = self.own_rows(index)
            && let Some(committed) = rows.checked_add_signed(-own)
        {
            self.state.store().row_counts().note(index, self.state.commit(), committed);
        }
    }

    /// The rows that the transaction has added to a table.
    fn own_rows(&self, index: IndexId) -> Option<i64> {
        self.own.map_or(Some(0), |own| own.rows_added(index))
    }

    /// Sets `row` to the row of `key`, and says whether there is one. Without one `row` is empty.
    pub fn get(&self, key: &[u8], row: &mut Vec<u8>) -> Result<bool> {
        let versions = self.state.store().versions().of_key(key);
        let hash = versions.hash(key);
        row.clear();
        if let Some(reads) = self.reads {
            reads.note_key(key, self.state.commit());
        }
        if let Some(written) = self.own.and_then(|own| own.find(hash, key)) {
            row.extend_from_slice(written.unwrap_or_default());
            return Ok(written.is_some());
        }
        match versions.get_hashed(hash, key, self.state.commit(), row).found {
            Found::Row => Ok(true),
            Found::Deleted => Ok(false),
            Found::Unknown => self.base().read(false, |base| base.append_value(key, row)),
        }
    }
}

/// What a transaction, or a snapshot, sees of keyed tables now, to be read as long as it is held, by any thread. What the
/// transaction writes later is not in it.
#[derive(Debug)]
pub struct KeyedView {
    state: Arc<KeyedState>,
    own: Option<Arc<WriteSet>>,
    reads: Option<Arc<ReadSet>>,
    base: BaseReader,
}

impl KeyedView {
    pub(crate) fn new(state: &Arc<KeyedState>, own: Option<&Arc<WriteSet>>, reads: Option<&Arc<ReadSet>>) -> KeyedView {
        let base = BaseReader::new(state.generation());
        KeyedView { state: Arc::clone(state), own: own.cloned(), reads: reads.cloned(), base }
    }

    /// The same, of whose reads nothing is noted: for guesses, on which no answer depends.
    pub(super) fn unnoted(&self) -> KeyedView {
        KeyedView::new(&self.state, self.own.as_ref(), None)
    }

    pub(super) fn state(&self) -> &KeyedState {
        &self.state
    }

    /// Reads it.
    pub fn reader(&self) -> Reader<'_> {
        Reader::over(&self.state, self.own.as_deref(), &self.base).noting(self.reads.as_deref())
    }
}

impl Clone for KeyedView {
    /// Each copy reads the base by itself, so that threads with one each do not wait for each other.
    fn clone(&self) -> Self {
        KeyedView::new(&self.state, self.own.as_ref(), self.reads.as_ref())
    }
}
