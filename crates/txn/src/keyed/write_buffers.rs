//! Buffers for writing a keyed row.

use rowmill_storage::keyed::KeyRange;

use super::index_scan::{FoundRow, IndexScan};
use super::range_scan::RangeScan;

/// Buffers that are kept from one write to the next and from one transaction to the next, so that a write allocates
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffers {
    pub(crate) key: Vec<u8>,
    pub(crate) row: Vec<u8>,
    pub(crate) entry: Vec<u8>,
    pub(crate) old_entry: Vec<u8>,
    /// An existing row.
    pub(crate) found: Vec<u8>,
    /// The complete columns of a shortened entry, and a row with an equal entry.
    pub(crate) columns: Vec<u8>,
    pub(crate) found_by_entry: FoundRow,
    /// A value whose bytes are not in its row.
    pub(crate) value: Vec<u8>,
    /// Such a value of the new version of the row.
    pub(crate) new_value: Vec<u8>,
    /// The range of keys that only one row may have.
    pub(crate) range: KeyRange,
    pub(crate) scan: RangeScan,
    pub(crate) index_scan: IndexScan,
}
