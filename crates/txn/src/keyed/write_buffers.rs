//! Buffers of one write of a keyed row.

use rowmill_storage::keyed::KeyRange;

use super::index_scan::IndexScan;
use super::range_scan::RangeScan;

/// Kept from one write to the next, and from one transaction to the next.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffers {
    pub(crate) key: Vec<u8>,
    pub(crate) row: Vec<u8>,
    pub(crate) entry: Vec<u8>,
    pub(crate) old_entry: Vec<u8>,
    /// A row that is there already, and its key.
    pub(crate) found: Vec<u8>,
    pub(crate) found_key: Vec<u8>,
    /// Whole columns of an entry that is shortened, and those of a row that is there already.
    pub(crate) columns: Vec<u8>,
    pub(crate) found_columns: Vec<u8>,
    /// A value whose bytes are not in its row.
    pub(crate) value: Vec<u8>,
    /// Keys that only one row may have.
    pub(crate) range: KeyRange,
    pub(crate) scan: RangeScan,
    pub(crate) index_scan: IndexScan,
}
