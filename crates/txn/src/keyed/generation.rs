//! One state of the base, for keyed tables: what a snapshot sees of a key without a version in memory.
//!
//! A snapshot reads the base as it was at the snapshot's own commit or earlier. It finds later commits among the
//! versions in memory, or must not see them. Opening a read costs more than a look-up, so a transaction takes a
//! [`Seat`](super::seat) with its own read, and seats pass from one transaction to the next. An idle seat must not hold
//! back the reuse of space for long. So each checkpoint closes the reads of all seats ([`Generation::let_go`]), as long
//! as they can open others, which means while the base still has this state.
//!
//! Before a checkpoint writes other rows, it opens one read of the state ([`Generation::end`]). After that, snapshots
//! of the older state continue with their open reads or open others like that one, until the last of them ends. Where a
//! base cannot do that, they share that one, one look-up at a time.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use rowmill_base::{CommitId, Error, Result};

use super::seat::Seat;
use crate::base::{BaseRead, OrderedBase};

/// The most seats with a read of their own. Without a seat, each look-up opens a read.
const SEATS_MAX: usize = 256;

/// One state of the base for keyed tables. See the module header.
pub(crate) struct Generation {
    /// The commit whose keyed rows the base has in this state.
    commit: CommitId,
    reads: Mutex<GenerationReads>,
    seats: Mutex<Seats>,
}

enum GenerationReads {
    /// The base has this state.
    Open(Arc<dyn OrderedBase>),
    /// The base has, or is about to have, another state. All look-ups share this read.
    Kept(Box<dyn BaseRead>),
    /// The state has no rows and never gets any.
    Empty,
    /// The state cannot be read. It is only compared with others, or its database is closed.
    Nobody,
}

#[derive(Default)]
struct Seats {
    all: Vec<Arc<Seat>>,
    free: Vec<Arc<Seat>>,
}

impl Generation {
    fn new(commit: CommitId, reads: GenerationReads) -> Generation {
        Generation { commit, reads: Mutex::new(reads), seats: Mutex::default() }
    }

    /// The current state of `base`, which must stay the same until [`Generation::end`].
    pub(crate) fn of_base(commit: CommitId, base: Arc<dyn OrderedBase>) -> Generation {
        Generation::new(commit, GenerationReads::Open(base))
    }

    /// The state that `read` sees.
    pub(crate) fn of_read(commit: CommitId, read: Box<dyn BaseRead>) -> Generation {
        Generation::new(commit, GenerationReads::Kept(read))
    }

    /// The state of a database that writes no rows to its base.
    pub(crate) fn empty(commit: CommitId) -> Generation {
        Generation::new(commit, GenerationReads::Empty)
    }

    /// A state that is never read.
    pub(crate) fn unread(commit: CommitId) -> Generation {
        Generation::new(commit, GenerationReads::Nobody)
    }

    pub(crate) fn commit(&self) -> CommitId {
        self.commit
    }

    /// Opens a read for the caller alone; `None` if the base no longer has the state and cannot read it again.
    pub(super) fn open(&self) -> Result<Option<Box<dyn BaseRead>>> {
        match &*self.reads.lock() {
            // Open it under the lock, so that the state cannot end in between.
            GenerationReads::Open(base) => base.read().map(Some),
            GenerationReads::Kept(read) => read.another(),
            GenerationReads::Empty | GenerationReads::Nobody => Ok(None),
        }
    }

    /// Calls `look` with a read of the state: the shared one, or one that is opened for this call. Returns `nothing` if
    /// the state is empty. `look` must not call this again, because the lock may be held.
    pub(super) fn read<T>(&self, nothing: T, look: impl FnOnce(&dyn BaseRead) -> Result<T>) -> Result<T> {
        let reads = self.reads.lock();
        let own = match &*reads {
            GenerationReads::Open(base) => base.read()?,
            GenerationReads::Kept(read) => return look(&**read),
            GenerationReads::Empty => return Ok(nothing),
            GenerationReads::Nobody => {
                return Err(Error::internal("keyed rows cannot be read: the database is closed"));
            }
        };
        // Our own read keeps the state, so look without the lock.
        drop(reads);
        look(&*own)
    }

    /// Takes a seat, which must be given back. Returns `None` if there are too many, or if the state has no rows to
    /// read.
    pub(super) fn take_seat(&self) -> Option<Arc<Seat>> {
        // A free seat may still have an open read, which saves opening one.
        if let Some(seat) = self.seats.lock().free.pop() {
            return Some(seat);
        }
        let is_of_use = matches!(*self.reads.lock(), GenerationReads::Open(_) | GenerationReads::Kept(_));
        let mut seats = self.seats.lock();
        if !is_of_use || seats.all.len() == SEATS_MAX {
            return None;
        }
        let seat = Arc::new(Seat::default());
        seats.all.push(Arc::clone(&seat));
        Some(seat)
    }

    /// Gives a seat back, together with its read.
    pub(super) fn give_seat_back(&self, seat: Arc<Seat>) {
        self.seats.lock().free.push(seat);
    }

    /// Closes the reads of all seats. They open new ones when they need them. The old reads would hold back space that
    /// the base has freed since.
    pub(crate) fn let_go(&self) {
        let all = self.seats.lock().all.clone();
        all.iter().for_each(|seat| seat.let_go());
    }

    /// Keeps the state readable from now on, even if the base moves on.
    pub(crate) fn end(&self) -> Result<()> {
        let mut reads = self.reads.lock();
        if let GenerationReads::Open(base) = &*reads {
            // The read must be opened before the checkpoint writes, because the base has this state only until then.
            let kept = base.read()?;
            *reads = GenerationReads::Kept(kept);
        }
        Ok(())
    }

    /// Releases the base. The state cannot be read afterwards.
    pub(crate) fn close(&self) {
        *self.reads.lock() = GenerationReads::Nobody;
        self.let_go();
    }

    /// Undoes [`Generation::end`]: `base` still has the state.
    pub(crate) fn resume(&self, base: Arc<dyn OrderedBase>) {
        *self.reads.lock() = GenerationReads::Open(base);
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation").field("commit", &self.commit).finish_non_exhaustive()
    }
}
