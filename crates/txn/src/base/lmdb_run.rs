//! Runs: many new keys in order between two neighbours of the base, as the next orders of a district.
//!
//! LMDB cuts a full page in its middle, unless the new key is the last one of the page. Keys that come in order leave full pages behind
//! then, but half empty ones where anything stands behind them on the page:
//!
//! ```text
//! | a1 a2 a3 a4 b1 |  + a5 a6 a7 a8    LMDB by itself   | a1 a2 a3 | a4 a5 a6 | a7 a8 b1 |
//! | a1 a2 a3 a4    |  + a5 a6 a7 a8    without b1       | a1 a2 a3 a4 a5 | a6 a7 a8 b1   |
//! ```
//!
//! So what stands behind a run on its page is taken out, and put back behind it.

use std::ops::Bound;

use heed::{RoTxn, RwTxn};

use super::Operation;
use super::lmdb_file::Map;

/// Fewer keys are not worth taking others out: as many as stand on a page, of which half are passed on the average.
pub(super) const RUN_KEYS_MIN: usize = 16;

/// The entries behind a run that may stand on its page: the bytes of one.
const PAGE_BYTES: usize = 4_096;

/// How many of the operations put new keys in ascending order between two neighbours, and whether there is the one behind.
pub(super) fn run_keys<'b>(
    map: &Map,
    transaction: &RoTxn<'_>,
    operations: impl Iterator<Item = Operation<'b>>,
) -> heed::Result<usize> {
    let mut behind: Option<&[u8]> = None;
    let mut last: Option<&[u8]> = None;
    let mut keys = 0;
    for operation in operations {
        let Operation::Put { key, .. } = operation else { break };
        if last.is_none() {
            match map.get_greater_than_or_equal_to(transaction, key)? {
                Some((found, _)) => behind = Some(found),
                // Behind all others: nothing is on its page.
                None => return Ok(0),
            }
        }
        if last.is_some_and(|last| key <= last) || behind.is_some_and(|behind| key >= behind) {
            break;
        }
        last = Some(key);
        keys += 1;
    }
    Ok(keys)
}

/// Entries that were taken out, with their values as they are stored.
#[derive(Debug, Default)]
pub(super) struct TakenOut(Vec<(Vec<u8>, Vec<u8>)>);

/// Takes out what stands behind `key` on its page, as far as values lie on it at all.
pub(super) fn take_out(map: &Map, transaction: &mut RwTxn<'_>, key: &[u8]) -> heed::Result<TakenOut> {
    let mut taken = TakenOut::default();
    let mut bytes = 0;
    for entry in map.range(transaction, &(Bound::Excluded(key), Bound::Unbounded))? {
        let (key, stored) = entry?;
        bytes += key.len() + stored.len();
        if bytes > PAGE_BYTES {
            break;
        }
        taken.0.push((key.to_vec(), stored.to_vec()));
    }
    for (key, _) in &taken.0 {
        map.delete(transaction, key)?;
    }
    Ok(taken)
}

impl TakenOut {
    pub(super) fn put_back(self, map: &Map, transaction: &mut RwTxn<'_>) -> heed::Result<()> {
        self.0.iter().try_for_each(|(key, stored)| map.put(transaction, key, stored))
    }
}
