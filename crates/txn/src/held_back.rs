//! What holds space back: who reads which older state, and what would be given back without them.
//!
//! In the writing process a state keeps the blocks that it names by holding them, and the versions of keyed rows that it sees. Other
//! processes keep, by their reads of the base, whatever was removed since. Pages of the base that were replaced wait for both.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rowmill_base::{CommitId, Result};
use rowmill_storage::StoredChunk;

use crate::base::BaseSpace;
use crate::engine::Core;
use crate::snapshot::Snapshot;

/// An older state that somebody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The process that has it.
    pub process: u32,
    /// Its last commit, or of another process perhaps an older one.
    pub commit: CommitId,
    /// Commits since.
    pub commits_since: u64,
    /// It was taken so long ago at least: others have taken its place since. Not known of other processes.
    pub age: Option<Duration>,
    /// Bytes of column files that were removed or replaced since and are kept for it, as they may be for others too.
    pub held_bytes: u64,
}

/// What is kept for those who read older states, and for whom.
#[derive(Clone, Debug, Default)]
pub struct HeldBack {
    /// The oldest first.
    pub snapshots: Vec<SnapshotInfo>,
    /// Bytes of column files that nobody in this process reads any more: they wait for readers in other processes, or for the next
    /// checkpoint.
    pub waiting_bytes: u64,
    /// Bytes of memory that versions of keyed rows take: those behind the last checkpoint, and those that older states see.
    pub version_bytes: u64,
    /// Keyed rows are kept in memory from the commit behind this one on.
    pub versions_from: CommitId,
    /// The ordered base, with the pages that older states keep from being used again.
    pub base: BaseSpace,
}

impl Core {
    /// Who holds back what. In a process that only reads: who reads the base, and what of it waits.
    pub fn held_back(&self) -> Result<HeldBack> {
        let latest = self.latest();
        let mut snapshots = self.own_snapshots(&latest);
        let own = (!self.is_read_only()).then(std::process::id);
        let readers = self.base().readers()?;
        let of_others =
            readers.into_iter().filter(|reader| Some(reader.process) != own && reader.commit < latest.commit);
        snapshots.extend(of_others.map(|reader| SnapshotInfo {
            process: reader.process,
            commit: reader.commit,
            commits_since: latest.commit.0 - reader.commit.0,
            age: None,
            held_bytes: self.freed().bytes_kept_by(reader.commit),
        }));
        snapshots.sort_by_key(|snapshot| (snapshot.commit, snapshot.process));
        let store = latest.keyed.store();
        Ok(HeldBack {
            snapshots,
            waiting_bytes: self.freed().waiting().iter().map(|(_, extent)| extent.len).sum(),
            version_bytes: store.bytes(),
            versions_from: store.oldest_in_use().unwrap_or(latest.keyed.commit()),
            base: self.base().space()?,
        })
    }

    /// The oldest state that somebody has, of those that are not the latest.
    pub fn oldest_snapshot(&self) -> Result<Option<SnapshotInfo>> {
        Ok(self.held_back()?.snapshots.into_iter().next())
    }

    /// Older states that somebody in this process has, one of each commit.
    fn own_snapshots(&self, latest: &Arc<Snapshot>) -> Vec<SnapshotInfo> {
        let process = std::process::id();
        let known: HashSet<*const StoredChunk> = chunks(latest).map(std::ptr::from_ref).collect();
        let mut by_commit = BTreeMap::new();
        // A state that a checkpoint has replaced by one that says the same holds no more than that.
        for (state, since) in self.journal().replaced() {
            if state.commit >= latest.commit || self.is_shown_soon(&state) {
                continue;
            }
            let gone = chunks(&state).filter(|chunk| !known.contains(&std::ptr::from_ref(*chunk)));
            by_commit.entry(state.commit).or_insert(SnapshotInfo {
                process,
                commit: state.commit,
                commits_since: latest.commit.0 - state.commit.0,
                age: Some(since.elapsed()),
                held_bytes: gone.map(|chunk| chunk.extent().len).sum(),
            });
        }
        by_commit.into_values().collect()
    }

    /// Whether it is held by the journal itself, for a moment.
    fn is_shown_soon(&self, state: &Arc<Snapshot>) -> bool {
        state.commit >= self.journal().shown().commit
    }
}

fn chunks(state: &Snapshot) -> impl Iterator<Item = &StoredChunk> {
    state.tables.values().flat_map(|table| table.blocks.iter()).flat_map(|block| block.chunks())
}
