//! Merges recent rows into a run of rows of the base.
//!
//! ```text
//! base      1  2     4  5  6         a recent row hides the row of the base with its key
//! recent             4     6x 7      6 is deleted
//! run       1  2     4  5     7
//! ```
//!
//! The rows of a run are lent from where they are, so only the list of them is new.

use rowmill_base::Result;
use rowmill_storage::RowRunTaker;

use super::version_cursor::VersionBatch;

/// The next keys of a transaction's own writes and of the versions in memory, in this order, and where each of the two
/// is. Own writes hide versions.
pub(super) struct RecentKeys<'k> {
    feeds: [(usize, &'k VersionBatch); 2],
    /// The last key up to which both are known, if they go on after their batches.
    horizon: Option<&'k [u8]>,
    backward: bool,
}

/// The keys that a run of rows has passed.
pub(super) struct PassedKeys {
    /// Their number, with deleted ones.
    pub(super) keys: usize,
    /// The last of them.
    pub(super) last: Vec<u8>,
    /// Whether the run ended because it had enough rows.
    pub(super) is_full: bool,
}

impl<'k> RecentKeys<'k> {
    pub(super) fn new(
        feeds: [(usize, &'k VersionBatch); 2],
        horizon: Option<&'k [u8]>,
        backward: bool,
    ) -> RecentKeys<'k> {
        RecentKeys { feeds, horizon, backward }
    }

    /// Where the two are in their batches.
    pub(super) fn places(&self) -> [usize; 2] {
        self.feeds.map(|(at, _)| at)
    }

    /// Hands rows of the base, and the recent rows between and after them, to `take`, at most `rows_max`. If there are
    /// `rows_max` rows of the base, more may follow, so the run ends with the last one.
    pub(super) fn merge(
        &mut self,
        keys: &[&[u8]],
        rows: &[&[u8]],
        rows_max: usize,
        take: &mut RowRunTaker<'_>,
    ) -> Result<PassedKeys> {
        let backward = self.backward;
        let is_cut = keys.len() == rows_max;
        let horizon = if is_cut { keys.last().copied() } else { self.horizon };
        let is_beyond =
            |key: &[u8]| horizon.is_some_and(|horizon| if backward { key < horizon } else { key > horizon });
        // Most runs have no recent key.
        if self.peek().is_none_or(|(key, _)| is_beyond(key)) {
            if !keys.is_empty() {
                take(keys, rows)?;
            }
            let last = keys.last().copied().unwrap_or_default().to_vec();
            return Ok(PassedKeys { keys: keys.len(), last, is_full: is_cut });
        }
        let (mut merged_keys, mut merged_rows) = (Vec::with_capacity(rows_max), Vec::with_capacity(rows_max));
        let (mut of_base, mut passed, mut last): (usize, usize, &[u8]) = (0, 0, &[]);
        while merged_keys.len() < rows_max {
            let recent = self.peek().filter(|(key, _)| !is_beyond(key));
            let left = &keys[of_base..];
            let before = match recent {
                None => left.len(),
                Some((next, _)) => keys_before(left, next, backward),
            };
            let before = before.min(rows_max - merged_keys.len());
            merged_keys.extend_from_slice(&left[..before]);
            merged_rows.extend_from_slice(&rows[of_base..of_base + before]);
            of_base += before;
            passed += before;
            last = left[..before].last().copied().unwrap_or(last);
            let Some((key, row)) = recent.filter(|_| merged_keys.len() < rows_max) else { break };
            self.pass(key);
            of_base += usize::from(keys.get(of_base).is_some_and(|of_base| *of_base == key));
            if let Some(row) = row {
                merged_keys.push(key);
                merged_rows.push(row);
            }
            passed += 1;
            last = key;
        }
        if !merged_keys.is_empty() {
            take(&merged_keys, &merged_rows)?;
        }
        let is_full = is_cut || merged_keys.len() == rows_max;
        Ok(PassedKeys { keys: passed, last: last.to_vec(), is_full })
    }

    /// The next key and its row, or `None` for the row if the key is deleted.
    fn peek(&self) -> Option<(&'k [u8], Option<&'k [u8]>)> {
        let [own, version] = self.feeds.map(|(at, batch)| (at < batch.len()).then(|| batch.get(at)));
        match (own, version) {
            (Some(own), Some(version)) if own.0 == version.0 || (own.0 > version.0) == self.backward => Some(own),
            (own, None) => own,
            (_, version) => version,
        }
    }

    /// Leaves a key that was returned by [`peek`](Self::peek).
    fn pass(&mut self, key: &[u8]) {
        for (at, batch) in &mut self.feeds {
            *at += usize::from(*at < batch.len() && batch.get(*at).0 == key);
        }
    }
}

/// The number of `keys` that come before `next`. The next recent key is mostly near, so we look near the first key
/// before we halve: after 1, 2, 4, ... keys.
fn keys_before(keys: &[&[u8]], next: &[u8], backward: bool) -> usize {
    let is_before = |key: &[u8]| if backward { key > next } else { key < next };
    let (mut from, mut step) = (0, 1);
    while from + step <= keys.len() && is_before(keys[from + step - 1]) {
        from += step;
        step *= 2;
    }
    let end = keys.len().min(from + step - 1);
    from + keys[from..end].partition_point(|key| is_before(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_before_another_are_counted_in_both_directions() {
        for len in 0..40_u8 {
            let stored: Vec<[u8; 1]> = (0..len).map(|key| [2 * key + 1]).collect();
            let mut keys: Vec<&[u8]> = stored.iter().map(|key| &key[..]).collect();
            for next in 0..=2 * len + 1 {
                let before = stored.iter().filter(|key| key[0] < next).count();
                assert_eq!(keys_before(&keys, &[next], false), before, "{next} among {len}");
            }
            keys.reverse();
            for next in 0..=2 * len + 1 {
                let before = stored.iter().filter(|key| key[0] > next).count();
                assert_eq!(keys_before(&keys, &[next], true), before, "{next} among {len}, backward");
            }
        }
    }
}
