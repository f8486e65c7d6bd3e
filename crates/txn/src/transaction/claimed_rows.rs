//! Claims the rows that a statement has written, for transactions that wait for rows.

use rowmill_base::{Cancel, Isolation, Result};
use rowmill_storage::keyed::KeyRange;

use super::Transaction;
use crate::keyed::index_of;
use crate::keyed_writes::KeyedMark;
use crate::row_claims::{LostRow, RowClaimant};

/// Takes a key of a statement and, if its index is unique, the range of the keys that have the same unique values.
/// Returns the reason if the statement must run again.
type KeyTask<'t> = dyn FnMut(&[u8], Option<&KeyRange>) -> Option<LostRow> + 't;

impl Transaction {
    /// Makes statements wait for keyed rows that other such transactions have written, with the claims of `claimant` if
    /// it is given. Does nothing unless the level is [`Isolation::ReadCommitted`]: only there may a statement read a
    /// newer snapshot when it runs again. `connection` is the number of the connection, for the list of claims.
    pub fn wait_for_rows(&mut self, claimant: Option<RowClaimant>, connection: Option<u64>) {
        if self.isolation() == Isolation::ReadCommitted {
            self.claimant = Some(claimant.unwrap_or_else(|| self.engine.row_claims().claimant(connection)));
        }
    }

    /// Ends a statement that began at `mark`: claims the keys that it has written or locked. Returns why the statement
    /// must be undone and run again, if it must. A transaction that does not wait for rows claims nothing.
    pub fn claim_rows(&mut self, mark: KeyedMark) -> Result<Option<LostRow>> {
        let Some(claimant) = &mut self.claimant else { return Ok(None) };
        let (base, mut lost) = (self.base.keyed.commit(), Ok(None));
        let mut each = |task: &mut KeyTask<'_>| {
            let mut range = KeyRange::default();
            let mut visit = |key: &[u8], is_written: bool| {
                if !matches!(lost, Ok(None)) {
                    return;
                }
                // Rows with the same unique values exclude each other, whatever their keys are.
                let id = index_of(key).ok().filter(|_| is_written);
                let codec = self.keyed.as_ref().zip(id).and_then(|(written, id)| Some((written.codec_of(id)?, id)));
                let is_unique = match codec.and_then(|(codec, id)| Some((codec, codec.find_index(id)?))) {
                    Some((codec, index)) => codec.unique_range(index, key, &mut range),
                    None => Ok(false),
                };
                lost = is_unique.map(|is_unique| task(key, is_unique.then_some(&range)));
            };
            self.locked_keys.iter().for_each(|(key, _)| visit(key, false));
            if let Some(written) = self.keyed.as_ref().filter(|written| written.mark() > mark.written()) {
                written.keys_since(mark.written(), |key| visit(key, true));
            }
        };
        each(&mut |key, unique| {
            let claimed =
                claimant.claim(key).and_then(|()| unique.map_or(Ok(()), |range| claimant.claim(&range.start)));
            claimed.err().map(LostRow::Claimed)
        });
        // From here on no other claimant can write these rows. One that did so before its claim ended is found now.
        let shown = self.engine.snapshot()?;
        if shown.keyed.commit() > base {
            let versions = shown.keyed.store().versions();
            each(&mut |key, unique| {
                let is_newer = versions.of_key(key).latest_commit(key).is_some_and(|commit| commit > base)
                    || unique.is_some_and(|range| versions.changed_in(range, base).is_some());
                is_newer.then_some(LostRow::Written(base))
            });
        }
        match &lost {
            Ok(None) => self.note_locked_keys(),
            _ => self.locked_keys.clear(),
        }
        lost
    }

    /// Claims the key of a row without waiting. Returns whether no other transaction has it. A transaction that does
    /// not wait for rows keeps no claim.
    pub fn try_claim(&mut self, key: &[u8]) -> bool {
        match &mut self.claimant {
            Some(claimant) => claimant.claim(key).is_ok(),
            None => self.engine.row_claims().claimant(None).claim(key).is_ok(),
        }
    }

    /// Waits until the statement that has lost a row may run again.
    pub fn wait_for(&mut self, lost: LostRow, cancel: &Cancel) -> Result<()> {
        match (lost, &mut self.claimant) {
            (LostRow::Claimed(key), Some(claimant)) => claimant.wait(key, cancel),
            _ => Ok(()),
        }
    }
}
