//! The gap of a snapshot into which ascending keys are written. Once we know where the gap ends, none of the keys needs
//! a look-up in the snapshot.
//!
//! For example, a transaction inserts orders 1001, 1002 and so on, and the next key of the snapshot belongs to another
//! district. All new keys up to that one are known to be absent from the snapshot.

use rowmill_base::CommitId;

/// The number of keys that must come in order before we look for the end of the gap, which costs as much as a few
/// look-ups.
const KEYS_BEFORE_LOOK: u32 = 16;

/// A range in which a snapshot has no key. It answers only for keys greater than all that the transaction has written
/// to the index.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    snapshot: CommitId,
    /// The snapshot has no key from this one up to the end.
    start: Vec<u8>,
    /// The snapshot's first key after that, or the end of the index. Empty if nothing is known.
    end: Vec<u8>,
    /// Whether the greatest written key is at or after `start`, so that every greater key is too.
    is_begun: bool,
    /// The number of keys outside the known gap since the last look.
    missed: u32,
    /// The number of such keys that justifies the next look. It doubles each time, because the last look helped too
    /// little.
    worth_a_look: u32,
}

impl Gap {
    /// An unknown gap: [`Gap::has`] answers `false` for every key.
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

    /// Forgets all knowledge about the gap.
    pub(super) fn forget(&mut self) {
        self.end.clear();
        (self.is_begun, self.missed, self.worth_a_look) = (false, 0, KEYS_BEFORE_LOOK);
    }

    /// Whether the snapshot is known not to have `key`, which must be greater than all written keys.
    #[inline]
    pub(super) fn has(&self, key: &[u8], snapshot: CommitId) -> bool {
        self.is_begun && self.snapshot == snapshot && key < &self.end[..]
    }

    /// Records that `key`, which is greater than all others, was written.
    #[inline]
    pub(super) fn pass(&mut self, key: &[u8]) {
        if !self.is_begun && !self.end.is_empty() {
            // Keys between the greatest written key and `start` may exist, so the gap applies only from `start` on.
            self.is_begun = key >= &self.start[..];
        }
    }

    /// Records that after an undo `greatest` is the greatest written key.
    pub(super) fn go_back_to(&mut self, greatest: Option<&[u8]>) {
        self.is_begun &= greatest.is_some_and(|key| key >= &self.start[..]);
    }

    /// Records that a key greater than all others was outside the gap. Returns whether to look for the end of the gap
    /// now.
    pub(crate) fn miss(&mut self) -> bool {
        self.missed += 1;
        self.missed >= self.worth_a_look
    }

    /// Records that the snapshot has no key from `key` up to `end`. `key` must be greater than all written keys.
    pub(crate) fn set(&mut self, snapshot: CommitId, key: &[u8], end: &[u8]) {
        self.start.clear();
        self.start.extend_from_slice(key);
        self.end.clear();
        self.end.extend_from_slice(end);
        (self.snapshot, self.is_begun, self.missed) = (snapshot, false, 0);
        self.worth_a_look = self.worth_a_look.saturating_mul(2);
    }
}
