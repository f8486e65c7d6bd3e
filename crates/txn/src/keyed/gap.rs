//! Keys that come one behind the other lie in a gap of the snapshot that they are written over: once it is known where that
//! ends, none of them is looked up.

use rowmill_base::CommitId;

/// So many keys have to come in order before the first look at where the gap ends. It costs as much as a few look-ups.
const KEYS_BEFORE_LOOK: u32 = 16;

/// See the module. Of a key that is behind all that the transaction has written to the index it knows whether the snapshot has it.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    snapshot: CommitId,
    /// The snapshot has no key from here on before the end.
    start: Vec<u8>,
    /// The snapshot's first key behind that, or the end of the index; empty where nothing is known.
    end: Vec<u8>,
    /// Whether all that is behind what is written is behind the start.
    is_begun: bool,
    /// Keys that were not in it since the last look.
    missed: u32,
    /// As many are worth the next look: more each time, since the last one was of so little use.
    worth_a_look: u32,
}

impl Gap {
    /// One of which nothing is known.
    pub(super) fn unknown() -> Gap {
        Gap {
            snapshot: CommitId(0),
            start: Vec::new(),
            end: Vec::new(),
            is_begun: false,
            missed: 0,
            worth_a_look: KEYS_BEFORE_LOOK,
        }
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        self.end.clear();
        (self.is_begun, self.missed, self.worth_a_look) = (false, 0, KEYS_BEFORE_LOOK);
    }

    /// Whether a snapshot is known not to have `key`, if that is behind all that is written.
    #[inline]
    pub(super) fn has(&self, key: &[u8], snapshot: CommitId) -> bool {
        self.is_begun && self.snapshot == snapshot && key < &self.end[..]
    }

    /// Notes that a key behind all others is written.
    #[inline]
    pub(super) fn pass(&mut self, key: &[u8]) {
        if !self.is_begun && !self.end.is_empty() {
            self.is_begun = key >= &self.start[..];
        }
    }

    /// Notes that `greatest` is the greatest key that is written, and was not before.
    pub(super) fn go_back_to(&mut self, greatest: Option<&[u8]>) {
        self.is_begun &= greatest.is_some_and(|key| key >= &self.start[..]);
    }

    /// Notes that a key behind all others was not in it, and says whether to look where it ends.
    pub(crate) fn miss(&mut self) -> bool {
        self.missed += 1;
        self.missed >= self.worth_a_look
    }

    /// Notes that a snapshot has no key from `key` on, which is behind all that is written, before `end`.
    pub(crate) fn set(&mut self, snapshot: CommitId, key: &[u8], end: &[u8]) {
        self.start.clear();
        self.start.extend_from_slice(key);
        self.end.clear();
        self.end.extend_from_slice(end);
        (self.snapshot, self.is_begun, self.missed) = (snapshot, false, 0);
        self.worth_a_look = self.worth_a_look.saturating_mul(2);
    }
}
