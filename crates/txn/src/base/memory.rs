//! The ordered base in memory, for databases without a directory. Tests also compare the other bases with it.
//!
//! Each key keeps its versions, newest last, each with the number of the write that made it. A read sees the newest
//! version that is not newer than the write with which it began. A write records each key that had an older
//! version. It also drops versions that no read sees any longer, of keys that earlier writes recorded. So a write costs
//! time for what it changes, not for what the base holds.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{Cancel, CommitId, Result};

use super::{
    BaseChecked, BaseCopy, BaseRead, BatchParts, Operation, OrderedBase, Reader, Visitor, check_batch, check_key,
    key_bounds, prefix_range, tree,
};

/// The number of entries that a scan copies at a time. It holds no lock while it passes them to the visitor.
const SCAN_ENTRIES: usize = 64;

/// An ordered base in memory. Its content is lost when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryBase {
    state: Arc<Mutex<MemoryState>>,
}

#[derive(Debug, Default)]
struct MemoryState {
    versions: BTreeMap<Vec<u8>, Vec<Version>>,
    /// The number of the last write.
    write: u64,
    commit: CommitId,
    /// The held reads by the number of the write that they see: the commit of that write, and the number of reads.
    reads: BTreeMap<u64, (CommitId, usize)>,
    /// The keys whose previous version the write with this number outdated, oldest write first.
    outdated: VecDeque<(u64, Vec<u8>)>,
}

#[derive(Clone, Debug)]
struct Version {
    write: u64,
    /// `None` if the write deleted the key.
    value: Option<Arc<[u8]>>,
}

impl MemoryBase {
    /// An empty base.
    pub fn new() -> MemoryBase {
        MemoryBase::default()
    }
}

/// The value that a read of `write` sees, if the key exists for it.
fn seen(versions: &[Version], write: u64) -> Option<&Arc<[u8]>> {
    versions.iter().rev().find(|version| version.write <= write)?.value.as_ref()
}

impl MemoryState {
    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        let version = Version { write: self.write, value: value.map(Arc::from) };
        // Deleting an absent key must not leave a version.
        if value.is_none() && !self.versions.contains_key(key) {
            return;
        }
        let versions = self.versions.entry(key.to_vec()).or_default();
        // Within one write the last operation on a key wins.
        match versions.last_mut() {
            Some(last) if last.write == self.write => *last = version,
            _ => versions.push(version),
        }
        // The key now has an older version, or a deletion, that a later sweep can drop.
        if versions.len() > 1 || value.is_none() {
            self.outdated.push_back((self.write, key.to_vec()));
        }
    }

    fn delete_prefix(&mut self, prefix: &[u8]) {
        let keys = self.versions.range(prefix_range(prefix)).map(|(key, _)| key.clone());
        for key in keys.collect::<Vec<_>>() {
            self.set(&key, None);
        }
    }

    /// Drops the versions that no current or later read can see.
    fn sweep(&mut self) {
        let oldest = self.reads.keys().next().copied().unwrap_or(self.write);
        while let Some((_, key)) = self.outdated.pop_front_if(|(write, _)| *write <= oldest) {
            let Some(versions) = self.versions.get_mut(&key) else { continue };
            // The oldest read sees the version at `first`. Later reads see that one or a newer one, so older ones can
            // go.
            let first = versions.iter().rposition(|version| version.write <= oldest).unwrap_or(0);
            versions.drain(..first);
            if matches!(versions.as_slice(), [Version { write, value: None }] if *write <= oldest) {
                self.versions.remove(&key);
            }
        }
    }
}

impl OrderedBase for MemoryBase {
    fn read(&self) -> Result<Box<dyn BaseRead>> {
        let mut state = self.state.lock();
        let (write, commit) = (state.write, state.commit);
        state.reads.entry(write).or_insert((commit, 0)).1 += 1;
        Ok(Box::new(MemoryRead { state: Arc::clone(&self.state), write, commit }))
    }

    fn write_parts(&self, parts: &mut BatchParts<'_>, at: CommitId) -> Result<()> {
        let parts: Vec<_> = parts.collect();
        let mut state = self.state.lock();
        // The state stays locked for all parts, so that a read sees all of them or nothing.
        parts.iter().try_for_each(|batch| check_batch(batch, at, state.commit))?;
        state.write += 1;
        state.commit = at;
        for operation in parts.iter().flat_map(|batch| batch.operations()) {
            match operation {
                Operation::Put { key, value } => state.set(key, Some(value)),
                Operation::Delete { key } => state.set(key, None),
                Operation::DeletePrefix { prefix } => state.delete_prefix(prefix),
            }
        }
        state.sweep();
        Ok(())
    }

    fn commit_id(&self) -> Result<CommitId> {
        Ok(self.state.lock().commit)
    }

    fn oldest_reader(&self) -> Result<Option<CommitId>> {
        Ok(self.state.lock().reads.values().next().map(|(commit, _)| *commit))
    }

    fn readers(&self) -> Result<Vec<Reader>> {
        let state = self.state.lock();
        let of =
            |(commit, count): &(CommitId, usize)| vec![Reader { commit: *commit, process: std::process::id() }; *count];
        Ok(state.reads.values().flat_map(of).collect())
    }

    /// Begins a copy, which is always a tree because it must outlive the process.
    fn begin_copy(&self, dir: &Path) -> Result<Box<dyn BaseCopy>> {
        tree::begin_copy(dir)
    }

    fn check(&self, cancel: &Cancel) -> Result<BaseChecked> {
        let mut checked = BaseChecked::default();
        self.read()?.scan(b"", &mut |key, value| {
            cancel.check()?;
            checked.entries += 1;
            checked.entry_bytes += (key.len() + value.len()) as u64;
            Ok(true)
        })?;
        Ok(checked)
    }

    fn read_again(&self) -> Result<Box<dyn BaseRead>> {
        self.read()
    }
}

struct MemoryRead {
    state: Arc<Mutex<MemoryState>>,
    write: u64,
    commit: CommitId,
}

impl MemoryRead {
    /// Returns the next entries of a range, at most `SCAN_ENTRIES`.
    fn entries(&self, range: (Bound<Vec<u8>>, Bound<Vec<u8>>), backward: bool) -> Vec<(Vec<u8>, Arc<[u8]>)> {
        let state = self.state.lock();
        let all = state.versions.range(range);
        let seen = |(key, all): (&Vec<u8>, &Vec<Version>)| Some((key.clone(), seen(all, self.write)?.clone()));
        match backward {
            true => all.rev().filter_map(seen).take(SCAN_ENTRIES).collect(),
            false => all.filter_map(seen).take(SCAN_ENTRIES).collect(),
        }
    }

    fn visit(
        &self,
        mut range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        backward: bool,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        loop {
            let entries = self.entries(range.clone(), backward);
            for (key, value) in &entries {
                if !visit(key, value)? {
                    return Ok(());
                }
            }
            // Continue after the last entry. The map may have changed, but the versions of this read stay.
            match entries.into_iter().last() {
                Some((key, _)) if backward => range.1 = Bound::Excluded(key),
                Some((key, _)) => range.0 = Bound::Excluded(key),
                None => return Ok(()),
            }
            // The map panics if the bounds exclude the same key or are reversed, so stop before that.
            if let (Bound::Excluded(start) | Bound::Included(start), Bound::Excluded(end)) = (&range.0, &range.1)
                && start >= end
            {
                return Ok(());
            }
        }
    }
}

impl BaseRead for MemoryRead {
    fn append_value(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        check_key(key)?;
        let state = self.state.lock();
        let value = state.versions.get(key).and_then(|all| seen(all, self.write));
        out.extend_from_slice(value.map_or(&[], |value| value));
        Ok(value.is_some())
    }

    fn scan(&self, prefix: &[u8], visit: &mut Visitor<'_>) -> Result<()> {
        self.visit(prefix_range(prefix), false, visit)
    }

    fn range(&self, start: &[u8], end: &[u8], backward: bool, visit: &mut Visitor<'_>) -> Result<()> {
        key_bounds(start, end)?.map_or(Ok(()), |range| self.visit(range, backward, visit))
    }

    fn commit_id(&self) -> Result<CommitId> {
        Ok(self.commit)
    }
}

impl Drop for MemoryRead {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let (_, held) = state.reads.get_mut(&self.write).expect("a read is counted while it is held");
        *held -= 1;
        if *held == 0 {
            state.reads.remove(&self.write);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::WriteBatch;
    use super::*;

    fn put(base: &MemoryBase, key: &[u8], value: &[u8]) {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        base.write(&batch, CommitId(1)).unwrap();
    }

    #[test]
    fn versions_are_dropped_when_no_read_sees_them() {
        let base = MemoryBase::new();
        let versions = |key: &[u8]| base.state.lock().versions.get(key).map_or(0, Vec::len);
        put(&base, b"a", b"1");
        let old = base.read().unwrap();
        put(&base, b"a", b"2");
        let mut delete = WriteBatch::new();
        delete.delete(b"a");
        delete.delete(b"never");
        base.write(&delete, CommitId(1)).unwrap();
        assert_eq!((versions(b"a"), versions(b"never")), (3, 0));
        assert_eq!(old.get(b"a").unwrap().unwrap(), b"1");
        drop(old);
        put(&base, b"b", b"");
        assert_eq!((versions(b"a"), versions(b"b")), (0, 1));
        assert_eq!(base.state.lock().outdated.len(), 0);
    }
}
