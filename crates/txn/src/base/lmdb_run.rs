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

use heed::{RoTxn, RwTxn, WithoutTls};

use super::Operation;
use super::lmdb_file::Map;

/// Fewer keys are not worth it that others are taken out for them.
pub(super) const RUN_KEYS_MIN: usize = 16;

/// A longer value lies on pages of its own, and its entry is left where it is.
const VALUE_BYTES_MAX: usize = 2_000;

/// The first key of a run that the operations begin with, and how many keys it has. `None` also where no other key is behind it, and so
/// none on its page.
pub(super) fn find_run<'b>(
    map: &Map,
    transaction: &RoTxn<'_>,
    mut operations: impl Iterator<Item = Operation<'b>>,
) -> heed::Result<Option<(&'b [u8], usize)>> {
    let Some(Operation::Put { key: first, .. }) = operations.next() else { return Ok(None) };
    let Some((behind, _)) = map.get_greater_than_or_equal_to(transaction, first)? else { return Ok(None) };
    if behind == first {
        return Ok(None);
    }
    let mut last = first;
    let others = operations.take_while(|operation| match operation {
        Operation::Put { key, .. } => *key > std::mem::replace(&mut last, *key) && *key < behind,
        Operation::Delete { .. } | Operation::DeletePrefix { .. } => false,
    });
    let keys = 1 + others.count();
    Ok((keys >= RUN_KEYS_MIN).then_some((first, keys)))
}

/// Entries that were taken out, with their values as they are stored.
#[derive(Debug, Default)]
pub(super) struct TakenOut(Vec<(Vec<u8>, Vec<u8>)>);

/// Takes out what stands behind the place of `key` on its page.
///
/// Where pages end only addresses tell, of the mapped pages that `before` reads: the state that the transaction began with. It is near
/// enough, since batches change keys in ascending order. No more than that page is touched: one that is left nearly empty would be
/// given keys of its neighbour, the last one before the run among them.
pub(super) fn take_out(
    map: &Map,
    before: &RoTxn<'_, WithoutTls>,
    transaction: &mut RwTxn<'_>,
    key: &[u8],
) -> heed::Result<TakenOut> {
    let mut taken = TakenOut::default();
    let Some((last, _)) = map.get_lower_than(before, key)? else { return Ok(taken) };
    let page_bytes = map.stat(before)?.page_size as usize;
    let page_of = |key: &[u8]| key.as_ptr().addr() / page_bytes;
    for entry in map.range(before, &(Bound::Excluded(key), Bound::Unbounded))? {
        let (key, stored) = entry?;
        if page_of(key) != page_of(last) || stored.len() > VALUE_BYTES_MAX {
            break;
        }
        if let Some(stored) = map.get(transaction, key)? {
            taken.0.push((key.to_vec(), stored.to_vec()));
        }
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
