//! What a transaction or a snapshot sees of keyed tables: its own writes, then the versions of commits, then the base.

use std::sync::Arc;

use rowmill_base::{IndexId, Result};

use super::read_set::ReadSet;
use super::row_lookups::RowLookups;
use super::seat::BaseReader;
use super::store::KeyedState;
use super::versions::Visibility;
use super::write_set::WriteSet;

/// Reads rows and index entries by keys that a [`TableCodec`](super::TableCodec) makes. Creating a reader costs
/// nothing.
///
/// For ranges see [`RangeScan`](super::RangeScan).
#[derive(Debug)]
pub struct KeyedReader<'a> {
    state: &'a KeyedState,
    own: Option<&'a WriteSet>,
    base: Base<'a>,
    /// Under SERIALIZABLE, the set in which reads are recorded.
    reads: Option<&'a ReadSet>,
}

#[derive(Debug)]
enum Base<'a> {
    Shared(&'a BaseReader),
    Own(BaseReader),
}

impl<'a> KeyedReader<'a> {
    /// A reader of a transaction's writes over `state`. It reads the base through `base`.
    pub(crate) fn over(state: &'a KeyedState, own: Option<&'a WriteSet>, base: &'a BaseReader) -> KeyedReader<'a> {
        KeyedReader { state, own: own.filter(|own| !own.is_empty()), base: Base::Shared(base), reads: None }
    }

    /// Returns this reader with its reads recorded in `reads`, if set.
    pub(crate) fn noting(self, reads: Option<&'a ReadSet>) -> KeyedReader<'a> {
        KeyedReader { reads, ..self }
    }

    /// A reader of a transaction's writes over `state`, with its own read of the base.
    pub(crate) fn of(state: &'a KeyedState, own: Option<&'a WriteSet>) -> KeyedReader<'a> {
        let own = own.filter(|own| !own.is_empty());
        KeyedReader { state, own, base: Base::Own(BaseReader::new(state.generation())), reads: None }
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

    /// The number of rows of the table whose primary index is `index`, if it is known without counting. Always `None`
    /// if reads are recorded, because a count would have to record the whole table.
    pub fn row_count(&self, index: IndexId) -> Option<u64> {
        if self.reads.is_some() {
            return None;
        }
        let committed = self.state.store().row_counts().rows(index, self.state.commit())?;
        committed.checked_add_signed(self.own_rows(index)?)
    }

    /// Records that a table has `rows` rows, so that they need not be counted again.
    pub fn note_row_count(&self, index: IndexId, rows: u64) {
        if let Some(own) = self.own_rows(index)
            && let Some(committed) = rows.checked_add_signed(-own)
        {
            self.state.store().row_counts().note(index, self.state.commit(), committed);
        }
    }

    /// The number of rows that the transaction added to a table, if it is known.
    fn own_rows(&self, index: IndexId) -> Option<i64> {
        self.own.map_or(Some(0), |own| own.rows_added(index))
    }

    /// Sets `row` to the row of `key` and returns whether it exists. If not, `row` is empty.
    pub fn get(&self, key: &[u8], row: &mut Vec<u8>) -> Result<bool> {
        let versions = self.state.store().versions().of_key(key);
        let hash = versions.hash(key);
        row.clear();
        // The read must be recorded even if the row does not exist: another transaction may insert it.
        if let Some(reads) = self.reads {
            reads.note_key(key, self.state.commit());
        }
        // A write of the transaction itself hides everything else.
        if let Some(written) = self.own.and_then(|own| own.find(hash, key)) {
            row.extend_from_slice(written.unwrap_or_default());
            return Ok(written.is_some());
        }
        match versions.get_hashed(hash, key, self.state.commit(), row).found {
            Visibility::Row => Ok(true),
            Visibility::Deleted => Ok(false),
            Visibility::Unknown => self.base().read(false, |base| base.append_value(key, row)),
        }
    }
}

impl KeyedReader<'_> {
    /// Looks up the rows of all keys in `lookups` that have none yet.
    pub fn look_up(&self, lookups: &mut RowLookups) -> Result<()> {
        let (snapshot, versions) = (self.state.commit(), self.state.store().versions());
        let RowLookups { keys, found, of_base, row } = lookups;
        of_base.clear();
        for (at, key) in keys.iter().enumerate() {
            if found.has(at) {
                continue;
            }
            if let Some(reads) = self.reads {
                reads.note_key(key, snapshot);
            }
            let versions = versions.of_key(key);
            if self.own.is_none() && versions.is_unused() {
                of_base.push(at);
                continue;
            }
            let hash = versions.hash(key);
            if let Some(written) = self.own.and_then(|own| own.find(hash, key)) {
                written.into_iter().for_each(|row| found.set(at, row));
                continue;
            }
            match versions.get_hashed(hash, key, snapshot, row).found {
                Visibility::Row => found.set(at, row),
                Visibility::Deleted => {}
                Visibility::Unknown => of_base.push(at),
            }
        }
        if of_base.is_empty() {
            return Ok(());
        }
        self.base().read((), |base| base.get_several(keys, of_base, &mut |at, row| found.set(at, row)))
    }
}

/// What a transaction or a snapshot sees of keyed tables at one moment. Any thread can read it while it is held. It
/// does not include later writes of the transaction.
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

    /// Returns a view whose reads are not recorded. It must be used only for estimates, on which no result depends.
    pub(super) fn unnoted(&self) -> KeyedView {
        KeyedView::new(&self.state, self.own.as_ref(), None)
    }

    pub(super) fn state(&self) -> &KeyedState {
        &self.state
    }

    /// A reader of the view.
    pub fn reader(&self) -> KeyedReader<'_> {
        KeyedReader::over(&self.state, self.own.as_deref(), &self.base).noting(self.reads.as_deref())
    }
}

impl Clone for KeyedView {
    /// Each clone has its own read of the base, so that threads with one clone each do not wait for each other.
    fn clone(&self) -> Self {
        KeyedView::new(&self.state, self.own.as_ref(), self.reads.as_ref())
    }
}
