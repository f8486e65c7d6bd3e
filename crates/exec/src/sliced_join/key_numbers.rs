//! Numbers for the keys of both sides of a join: equal keys have equal numbers.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use parking_lot::Mutex;
use rowmill_base::{Reservation, Result};

use super::SliceSide;
use crate::row_keys::RowKeys;
use crate::row_set::RowSet;

/// The number of a key with a NULL, which equals no key.
pub(super) const NO_NUMBER: u32 = u32::MAX;

/// The places of the cache of short texts. The cache fits the second-level cache of a processor.
const CACHE_PLACES: usize = 1 << 13;
/// The longest text whose view holds all of its bytes.
const INLINE_BYTES: u32 = 12;

/// The numbers of all workers.
pub(super) struct SharedNumbers(Mutex<RowSet>);

/// One worker's numbers.
pub(super) struct KeyNumbers {
    keys: RowKeys,
    /// The keys that the worker has met.
    known: RowSet,
    /// The number of each of them.
    numbers: Vec<u32>,
    /// Short texts by their views, each with its number.
    cache: Vec<(u128, u32)>,
}

impl SharedNumbers {
    pub(super) fn new(memory: Reservation) -> SharedNumbers {
        SharedNumbers(Mutex::new(RowSet::new(memory)))
    }

    /// The number of keys so far.
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }
}

impl KeyNumbers {
    pub(super) fn new(side: &SliceSide, memory: Reservation) -> Result<KeyNumbers> {
        let keys = RowKeys::new(side.keys.iter().map(|key| side.kind(*key)))?;
        Ok(KeyNumbers {
            keys,
            known: RowSet::new(memory),
            numbers: Vec::new(),
            // The view of an empty text is 0, so no place may seem to hold it.
            cache: vec![(u128::MAX, NO_NUMBER); CACHE_PLACES],
        })
    }

    /// Appends the number of the key of each row.
    pub(super) fn add(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        shared: &SharedNumbers,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        if let [column] = columns
            && *column.data_type() == DataType::Utf8View
        {
            self.add_texts(column, shared, out);
        } else {
            let keys = self.keys.encode(columns)?;
            let is_null = |row: usize| columns.iter().any(|column| column.is_null(row));
            for row in 0..rows {
                out.push(if is_null(row) { NO_NUMBER } else { self.number(keys.get(row), shared) });
            }
        }
        self.known.account(self.numbers.capacity() * size_of::<u32>())?;
        shared.0.lock().account(0)
    }

    fn add_texts(&mut self, column: &ArrayRef, shared: &SharedNumbers, out: &mut Vec<u32>) {
        let texts = column.as_string_view();
        for (row, view) in texts.views().iter().enumerate() {
            if texts.is_null(row) {
                out.push(NO_NUMBER);
                continue;
            }
            // The low 32 bits of a view are the length.
            if *view as u32 > INLINE_BYTES {
                out.push(self.number(texts.value(row).as_bytes(), shared));
                continue;
            }
            let folded = (*view as u64) ^ ((*view >> 64) as u64).rotate_left(23);
            let place = (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as usize;
            if self.cache[place].0 != *view {
                self.cache[place] = (*view, self.number(texts.value(row).as_bytes(), shared));
            }
            out.push(self.cache[place].1);
        }
    }

    fn number(&mut self, key: &[u8], shared: &SharedNumbers) -> u32 {
        let (local, is_new) = self.known.insert(key);
        if is_new {
            self.numbers.push(shared.0.lock().insert(key).0 as u32);
        }
        self.numbers[local]
    }
}
