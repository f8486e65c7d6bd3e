//! A snapshot of RocksDB that keeps its database alive.
//!
//! RocksDB's snapshots borrow their database, but a read of a base must own everything that it needs. This type keeps
//! the two together. It holds the only unsafe code of the RocksDB base.

use std::sync::Arc;

use rocksdb::{DB, Snapshot};

/// A snapshot of RocksDB together with its database.
pub(super) struct OwnedSnapshot {
    /// Must come before the database, so that it is dropped first.
    snapshot: Snapshot<'static>,
    _database: Arc<DB>,
}

impl OwnedSnapshot {
    // The compiler does not know that the content of an `Arc` does not move.
    #[allow(unsafe_code)]
    pub(super) fn of(database: &Arc<DB>) -> OwnedSnapshot {
        // SAFETY: the snapshot borrows the database. The database does not move, and lives as long as the `Arc` beside
        // the snapshot, which is dropped after it. `get` lends the snapshot for no longer than `self` lives.
        let snapshot = unsafe { std::mem::transmute::<Snapshot<'_>, Snapshot<'static>>(database.snapshot()) };
        OwnedSnapshot { snapshot, _database: Arc::clone(database) }
    }

    pub(super) fn get(&self) -> &Snapshot<'_> {
        &self.snapshot
    }
}
