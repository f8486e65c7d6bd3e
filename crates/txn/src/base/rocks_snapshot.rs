//! A snapshot of RocksDB together with the database that it is of.
//!
//! RocksDB's snapshots borrow their database, and a read of a base lives by itself. Here the two live together; this is all that
//! is unsafe of the base.

use std::sync::Arc;

use rocksdb::{DB, Snapshot};

/// See the module.
pub(super) struct OwnedSnapshot {
    /// Before the database, so that it goes first.
    snapshot: Snapshot<'static>,
    _database: Arc<DB>,
}

impl OwnedSnapshot {
    // The compiler does not know that what an `Arc` points to stays where it is.
    #[allow(unsafe_code)]
    pub(super) fn of(database: &Arc<DB>) -> OwnedSnapshot {
        // SAFETY: the snapshot borrows the database, which lives at one place as long as the `Arc` beside it does, and that
        // is dropped behind it. `get` gives the snapshot out for no longer than `self` lives.
        let snapshot = unsafe { std::mem::transmute::<Snapshot<'_>, Snapshot<'static>>(database.snapshot()) };
        OwnedSnapshot { snapshot, _database: Arc::clone(database) }
    }

    pub(super) fn get(&self) -> &Snapshot<'_> {
        &self.snapshot
    }
}
