//! About how many rows keyed tables have, for plans: counted when one asks for it, and again after a while.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rowmill_base::IndexId;

/// How long a count is believed.
const BELIEVED: Duration = Duration::from_secs(60);

/// See the module. Tables are called by the index of their rows, which is another one after TRUNCATE.
#[derive(Debug, Default)]
pub(crate) struct RowCounts(Mutex<HashMap<IndexId, (Instant, u64)>>);

impl RowCounts {
    /// The rows of a table as `count` has them, or had them a while ago.
    pub(super) fn get(&self, index: IndexId, count: impl FnOnce() -> u64) -> u64 {
        if let Some((at, rows)) = self.0.lock().get(&index)
            // A table that was empty is one that is being filled.
            && *rows > 0
            && at.elapsed() < BELIEVED
        {
            return *rows;
        }
        let rows = count();
        self.0.lock().insert(index, (Instant::now(), rows));
        rows
    }
}
