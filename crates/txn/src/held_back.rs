//! Reports which readers hold space back, and how much.
//!
//! In the writing process, a state holds the blocks that it names and the versions of keyed rows that it sees. Other
//! processes, through their reads of the base, keep everything that was removed since. Replaced pages of the base wait
//! for both.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rowmill_base::{CommitId, Result};
use rowmill_storage::StoredChunk;

use crate::base::BaseSpace;
use crate::engine::Core;
use crate::snapshot::Snapshot;

/// An older state that is still in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The process that uses it.
    pub process: u32,
    /// The last commit of the state. For another process it may be an older commit.
    pub commit: CommitId,
    /// Number of commits since.
    pub commits_since: u64,
    /// Time since another state replaced it, so its users have had it for at least this long. Unknown for other
    /// processes.
    pub age: Option<Duration>,
    /// Bytes of column files that were removed or replaced since and are kept for this state. Other states may need the
    /// same bytes.
    pub held_bytes: u64,
}

/// Space that is kept for readers of older states, and the list of those states.
#[derive(Clone, Debug, Default)]
pub struct HeldBack {
    /// The older states, oldest first.
    pub snapshots: Vec<SnapshotInfo>,
    /// Bytes of column files that no state in this process needs. They wait for readers in other processes, or for the
    /// next checkpoint.
    pub waiting_bytes: u64,
    /// Memory for versions of keyed rows: versions since the last checkpoint, and versions that older states see.
    pub version_bytes: u64,
    /// Memory holds the versions of keyed rows of all commits after this one.
    pub versions_from: CommitId,
    /// The ordered base, including pages that older states keep from being reused.
    pub base: BaseSpace,
}

impl Core {
    /// Reports the older states and the space held for them. A process that only reads reports readers of the base and
    /// its space.
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

    /// The oldest state in use, apart from the latest.
    pub fn oldest_snapshot(&self) -> Result<Option<SnapshotInfo>> {
        Ok(self.held_back()?.snapshots.into_iter().next())
    }

    /// Older states in use in this process, one per commit.
    fn own_snapshots(&self, latest: &Arc<Snapshot>) -> Vec<SnapshotInfo> {
        let process = std::process::id();
        let known: HashSet<*const StoredChunk> = chunks(latest).map(std::ptr::from_ref).collect();
        let mut by_commit = BTreeMap::new();
        // A checkpoint may have replaced a state by an equal one. Both hold the same space, so one entry per commit is
        // enough.
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

    /// Whether the journal itself still holds the state and will show it soon.
    fn is_shown_soon(&self, state: &Arc<Snapshot>) -> bool {
        state.commit >= self.journal().shown().commit
    }
}

fn chunks(state: &Snapshot) -> impl Iterator<Item = &StoredChunk> {
    state.tables.values().flat_map(|table| table.blocks.iter()).flat_map(|block| block.chunks()).map(|chunk| &**chunk)
}
