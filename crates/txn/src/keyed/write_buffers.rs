//! Buffers of one write of a keyed row.

use rowmill_storage::keyed::KeyRange;

use super::index_scan::{FoundRow, IndexScan};
use super::range_scan::RangeScan;

/// Kept from one write to the next, and from one transaction to the next.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffers {
    pub(crate) key: Vec<u8>,
    pub(crate) row: Vec<u8>,
    pub(crate) entry: Vec<u8>,
    pub(crate) old_entry: Vec<u8>,
    /// A row that is there already.
    pub(crate) found: Vec<u8>,
    /// Whole columns of an entry that is shortened, and a row that has the same one.
    pub(crate) columns: Vec<u8>,
    pub(crate) found_by_entry: FoundRow,
    /// A value whose bytes are not in its row.
    pub(crate) value: Vec<u8>,
    /// Keys that only one row may have.
    pub(crate) range: KeyRange,
    pub(crate) scan: RangeScan,
    pub(crate) index_scan: IndexScan,
}
