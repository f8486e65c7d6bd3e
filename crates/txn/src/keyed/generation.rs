//! One state of the base, as far as keyed tables go: what lies under the versions that a snapshot sees.
//!
//! A snapshot reads the base as it was at its own commit or before; what came later it finds among the versions in memory,
//! or does not see. While the base has that state, whoever reads it opens a read for as long as it takes, so that a snapshot
//! that nobody reads holds nothing back. Before a checkpoint writes other rows it has one read opened, which all
//! snapshots of the older state share from then on, one at a time, until the last of them is gone.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{CommitId, Error, Result};

use crate::base::{BaseRead, OrderedBase};

/// See the module.
pub(crate) struct Generation {
    /// Rows of keyed tables are those of this commit.
    commit: CommitId,
    reads: Mutex<Reads>,
}

enum Reads {
    /// The base has this state.
    Open(Arc<dyn OrderedBase>),
    /// The base has, or is about to have, another one.
    Kept(Box<dyn BaseRead>),
    /// Nobody reads it: a state that is only compared with others, or of a database that is closed.
    Nobody,
}

impl Generation {
    /// What `base` has, and goes on having until [`Generation::end`].
    pub(crate) fn of_base(commit: CommitId, base: Arc<dyn OrderedBase>) -> Generation {
        Generation { commit, reads: Mutex::new(Reads::Open(base)) }
    }

    /// What `read` sees.
    pub(crate) fn of_read(commit: CommitId, read: Box<dyn BaseRead>) -> Generation {
        Generation { commit, reads: Mutex::new(Reads::Kept(read)) }
    }

    /// One that is never read.
    pub(crate) fn unread(commit: CommitId) -> Generation {
        Generation { commit, reads: Mutex::new(Reads::Nobody) }
    }

    pub(crate) fn commit(&self) -> CommitId {
        self.commit
    }

    /// Reads the state. What `look` does must not read it again.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&dyn BaseRead) -> Result<T>) -> Result<T> {
        let reads = self.reads.lock();
        let own = match &*reads {
            // Opened while the state cannot end.
            Reads::Open(base) => base.read()?,
            Reads::Kept(read) => return look(&**read),
            Reads::Nobody => return Err(Error::internal("keyed rows of a snapshot whose database is closed")),
        };
        drop(reads);
        look(&*own)
    }

    /// Keeps the state readable from now on, whatever the base has.
    pub(crate) fn end(&self) -> Result<()> {
        let mut reads = self.reads.lock();
        if let Reads::Open(base) = &*reads {
            let kept = base.read()?;
            *reads = Reads::Kept(kept);
        }
        Ok(())
    }

    /// Lets go of the base. Nothing is read any more.
    pub(crate) fn close(&self) {
        *self.reads.lock() = Reads::Nobody;
    }

    /// Takes the end back: `base` has the state after all.
    pub(crate) fn resume(&self, base: Arc<dyn OrderedBase>) {
        *self.reads.lock() = Reads::Open(base);
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation").field("commit", &self.commit).finish_non_exhaustive()
    }
}
