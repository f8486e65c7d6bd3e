//! Runs: many new keys in order between two adjacent keys of the base. For example, the next orders of a TPC-C
//! district.
//!
//! LMDB splits a full page in its middle, unless the new key is the last one of the page. So keys that come in order
//! leave full pages, but only half full ones if any entry follows them on their page:
//!
//! ```text
//! | a1 a2 a3 a4 b1 |  + a5 a6 a7 a8    LMDB by itself   | a1 a2 a3 | a4 a5 a6 | a7 a8 b1 |
//! | a1 a2 a3 a4    |  + a5 a6 a7 a8    without b1       | a1 a2 a3 a4 a5 | a6 a7 a8 b1   |
//! ```
//!
//! So before we put a run, we take out the entries that follow it on its page, and put them back after it.

use heed::{RoTxn, RwTxn};

use super::Operation;
use super::lmdb::WriteFailure;
use super::lmdb_file::Map;
use super::lmdb_tree::TreeReader;

/// The fewest keys for which taking out other entries pays off.
pub(super) const RUN_KEYS_MIN: usize = 16;

/// The longest value that we take out. Longer values have their own pages, so their entries stay in place.
const VALUE_BYTES_MAX: usize = 2_000;

/// Returns the first key of a run at the start of `operations`, and the number of its keys. Returns `None` if there is
/// no run, and also if no key of the base follows it, because then none follows it on its page.
pub(super) fn find_run<'b>(
    map: &Map,
    transaction: &RoTxn<'_>,
    mut operations: impl Iterator<Item = Operation<'b>>,
) -> heed::Result<Option<(&'b [u8], usize)>> {
    let Some(Operation::Put { key: first, .. }) = operations.next() else { return Ok(None) };
    let Some((behind, _)) = map.get_greater_than_or_equal_to(transaction, first)? else { return Ok(None) };
    // The first key exists already, so the put replaces a value and cannot split the page.
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

/// Entries that were taken out, with their values as stored.
#[derive(Debug, Default)]
pub(super) struct TakenOut(Vec<(Vec<u8>, Vec<u8>)>);

/// Takes out the entries that follow the place of `key` on its page.
///
/// `before` reads the state with which the transaction began, because the pages of the transaction itself cannot be
/// read. That is close enough, because batches change keys in ascending order. Entries of further pages must stay: LMDB
/// would fill up a nearly empty page from its neighbour, which could move the last entry before the run.
pub(super) fn take_out(
    map: &Map,
    before: &TreeReader,
    transaction: &mut RwTxn<'_>,
    key: &[u8],
) -> Result<TakenOut, WriteFailure> {
    let mut keys = Vec::new();
    before.visit_rest_of_page(key, &mut |key, stored| {
        let is_short = stored.len() <= VALUE_BYTES_MAX;
        if is_short {
            keys.push(key.to_vec());
        }
        Ok(is_short)
    })?;
    let mut taken = TakenOut::default();
    for key in keys {
        // The transaction may have changed or deleted the entry since it began, so take its current value.
        let stored = map.get(transaction, &key)?.map(<[u8]>::to_vec);
        if let Some(stored) = stored {
            map.delete(transaction, &key)?;
            taken.0.push((key, stored));
        }
    }
    Ok(taken)
}

impl TakenOut {
    pub(super) fn put_back(self, map: &Map, transaction: &mut RwTxn<'_>) -> heed::Result<()> {
        self.0.iter().try_for_each(|(key, stored)| map.put(transaction, key, stored))
    }
}
