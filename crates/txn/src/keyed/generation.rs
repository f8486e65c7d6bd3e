//! One state of the base, as far as keyed tables go: what lies under the versions that a snapshot sees.
//!
//! A snapshot reads the base as it was at its own commit or before; what came later it finds among the versions in memory,
//! or does not see. Opening a read costs more than a look-up, so who reads again and again takes a [`Seat`](super::seat)
//! with a read of its own, and seats go from one transaction to the next. So that a seat whose owner does nothing holds
//! nothing back for long, each checkpoint takes the reads out of them ([`Generation::let_go`]), as long as another one can be
//! opened: while the base has the state.
//!
//! Before a checkpoint writes other rows it has one read opened ([`Generation::end`]). From then on snapshots of the older
//! state go on with the reads that they have, or share that one, one look-up at a time, until the last of them is gone.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::{CommitId, Error, Result};

use super::seat::Seat;
use crate::base::{BaseRead, OrderedBase};

/// Seats with a read of their own. Others open one for each look-up: all processes together may hold 1,024 reads.
const SEATS_MAX: usize = 256;

/// See the module.
pub(crate) struct Generation {
    /// Rows of keyed tables are those of this commit.
    commit: CommitId,
    reads: Mutex<Reads>,
    seats: Mutex<Seats>,
}

enum Reads {
    /// The base has this state.
    Open(Arc<dyn OrderedBase>),
    /// The base has, or is about to have, another one.
    Kept(Box<dyn BaseRead>),
    /// It has no rows, and never gets any.
    Empty,
    /// Nobody reads it: a state that is only compared with others, or of a database that is closed.
    Nobody,
}

#[derive(Default)]
struct Seats {
    all: Vec<Arc<Seat>>,
    free: Vec<Arc<Seat>>,
}

impl Generation {
    fn new(commit: CommitId, reads: Reads) -> Generation {
        Generation { commit, reads: Mutex::new(reads), seats: Mutex::default() }
    }

    /// What `base` has, and goes on having until [`Generation::end`].
    pub(crate) fn of_base(commit: CommitId, base: Arc<dyn OrderedBase>) -> Generation {
        Generation::new(commit, Reads::Open(base))
    }

    /// What `read` sees.
    pub(crate) fn of_read(commit: CommitId, read: Box<dyn BaseRead>) -> Generation {
        Generation::new(commit, Reads::Kept(read))
    }

    /// That of a database which writes no rows to its base.
    pub(crate) fn empty(commit: CommitId) -> Generation {
        Generation::new(commit, Reads::Empty)
    }

    /// One that is never read.
    pub(crate) fn unread(commit: CommitId) -> Generation {
        Generation::new(commit, Reads::Nobody)
    }

    pub(crate) fn commit(&self) -> CommitId {
        self.commit
    }

    /// A read of the caller's own, while there are any to be had.
    pub(super) fn open(&self) -> Result<Option<Box<dyn BaseRead>>> {
        match &*self.reads.lock() {
            // Opened while the state cannot end.
            Reads::Open(base) => base.read().map(Some),
            _ => Ok(None),
        }
    }

    /// Reads the state with a read that is shared, or for this once; of an empty one `nothing` is what is found. What `look`
    /// does must not read it again.
    pub(super) fn read<T>(&self, nothing: T, look: impl FnOnce(&dyn BaseRead) -> Result<T>) -> Result<T> {
        let reads = self.reads.lock();
        let own = match &*reads {
            Reads::Open(base) => base.read()?,
            Reads::Kept(read) => return look(&**read),
            Reads::Empty => return Ok(nothing),
            Reads::Nobody => return Err(Error::internal("keyed rows of a snapshot whose database is closed")),
        };
        drop(reads);
        look(&*own)
    }

    /// A seat, to be given back; `None` if there are too many, or nothing to sit for.
    pub(super) fn take_seat(&self) -> Option<Arc<Seat>> {
        if let Some(seat) = self.seats.lock().free.pop() {
            return Some(seat);
        }
        let is_of_use = matches!(*self.reads.lock(), Reads::Open(_));
        let mut seats = self.seats.lock();
        if !is_of_use || seats.all.len() == SEATS_MAX {
            return None;
        }
        let seat = Arc::new(Seat::default());
        seats.all.push(Arc::clone(&seat));
        Some(seat)
    }

    /// Gives a seat back, with its read.
    pub(super) fn give_seat_back(&self, seat: Arc<Seat>) {
        self.seats.lock().free.push(seat);
    }

    /// Ends the reads of all seats, which open others when they need them: those of now hold back the space that the base
    /// has freed since.
    pub(crate) fn let_go(&self) {
        let all = self.seats.lock().all.clone();
        all.iter().for_each(|seat| seat.let_go());
    }

    /// Does what takes a moment in which nobody reads the state: the reads of seats are ended, and others are opened behind it.
    /// `work` says whether the moment has come, and is tried for as long as `patience` lasts.
    pub(crate) fn alone(&self, patience: Duration, mut work: impl FnMut() -> Result<bool>) -> Result<bool> {
        let deadline = Instant::now() + patience;
        // Nobody opens a read meanwhile.
        let _reads = self.reads.lock();
        loop {
            // Whoever holds the lock of a seat reads for a moment, or waits for the lock that is held here.
            let all = self.seats.lock().all.clone();
            all.iter().for_each(|seat| seat.let_go_if_idle());
            if work()? {
                return Ok(true);
            }
            if Instant::now() > deadline {
                return Ok(false);
            }
        }
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
        self.let_go();
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
