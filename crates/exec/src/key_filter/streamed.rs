//! A filter of keys whose number is not known in advance, and which are not kept.
//!
//! A join that writes its build side to disk sees each key once. It cannot choose the form of the filter by the number
//! and the range of the keys, as [`KeyFilter::new`] does, so it always uses a Bloom filter of a given size. If there
//! are too many keys for it, only their range is left.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use rowmill_base::{Reservation, Result};

use super::bloom::Bloom;
use super::{FilterCounts, KeyFilter, KeyMembers, NumberSet, Set, each_valid, hashes};
use crate::hash::mix;
use crate::numbers::{self, Width};

/// The keys that one worker has seen.
#[derive(Debug)]
pub(crate) struct StreamedKeys {
    kind: DataType,
    bloom: Option<Bloom>,
    values: usize,
    has_null: bool,
    range: Option<(u64, u64)>,
    numbers: Vec<u64>,
    _memory: Reservation,
}

impl StreamedKeys {
    /// Makes a filter of `bytes` bytes for keys of type `kind`, without keys.
    pub(crate) fn new(kind: &DataType, bytes: u64, mut memory: Reservation) -> Result<StreamedKeys> {
        let bloom = KeyFilter::is_for(kind).then(|| Bloom::of_bytes(bytes as usize, &mut memory)).transpose()?;
        Ok(StreamedKeys {
            kind: kind.clone(),
            bloom,
            values: 0,
            has_null: false,
            range: None,
            numbers: Vec::new(),
            _memory: memory,
        })
    }

    /// Adds keys.
    pub(crate) fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let nulls = values.logical_null_count();
        self.has_null |= nulls > 0;
        self.values += values.len() - nulls;
        if numbers::width_of(&self.kind) == Some(Width::Narrow) {
            self.numbers.clear();
            numbers::extend_narrow(values, &mut self.numbers)?;
            self.range = both(self.range, numbers::range(&self.numbers, values.nulls()));
            self.numbers.iter_mut().for_each(|number| *number = mix(*number));
        } else if self.bloom.is_some() {
            self.numbers = hashes(values)?;
        }
        if let Some(bloom) = &mut self.bloom {
            each_valid(values, |row| bloom.insert(self.numbers[row]));
        }
        Ok(())
    }

    /// Adds the keys that another worker has seen.
    pub(crate) fn merge(&mut self, other: StreamedKeys) {
        self.values += other.values;
        self.has_null |= other.has_null;
        self.range = both(self.range, other.range);
        // Memory may have changed between the workers, so their filters may differ in size.
        self.bloom = self.bloom.take().zip(other.bloom).and_then(|(bloom, other)| bloom.merged(&other));
    }

    /// Makes the filter.
    pub(crate) fn finish(self, nulls_equal: bool, counts: Arc<FilterCounts>) -> KeyFilter {
        let bloom = self.bloom.filter(|bloom| bloom.has_room_for(self.values));
        let set = match (self.range, bloom) {
            _ if self.values == 0 => Set::Nothing,
            (Some((min, max)), bloom) => {
                let members = bloom.map_or(KeyMembers::All, |bloom| KeyMembers::Bloom { bloom, list: None });
                Set::Numbers(NumberSet { min, span: max - min, members })
            }
            (None, Some(bloom)) => Set::Hashes(bloom),
            (None, None) => Set::Everything,
        };
        KeyFilter {
            kind: self.kind,
            keeps_null: nulls_equal && self.has_null,
            set,
            few: None,
            few_set: Default::default(),
            counts,
        }
    }
}

fn both(left: Option<(u64, u64)>, right: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (left, right) {
        (Some(left), Some(right)) => Some((left.0.min(right.0), left.1.max(right.1))),
        (range, None) | (None, range) => range,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use rowmill_base::Broker;

    use super::*;

    #[test]
    fn keys_of_all_workers_pass_and_most_others_do_not() {
        let broker = Broker::new(1 << 20);
        let ints = |rows: std::ops::Range<i64>| Arc::new(Int64Array::from_iter_values(rows)) as ArrayRef;
        let texts = |rows: std::ops::Range<i64>| {
            Arc::new(rows.map(|row| Some(format!("text {row}"))).collect::<StringViewArray>()) as ArrayRef
        };
        let kept = |of: &dyn Fn(std::ops::Range<i64>) -> ArrayRef, bytes: [u64; 2]| {
            let keys = bytes.map(|bytes| StreamedKeys::new(of(0..0).data_type(), bytes, broker.reservation("test")));
            let [mut left, mut right] = keys.map(|keys| keys.expect("memory"));
            left.add(&of(0..500)).expect("keys");
            right.add(&of(500..1_000)).expect("keys");
            left.merge(right);
            let filter = left.finish(false, Arc::default());
            assert_eq!(filter.keep(&of(0..1_000)).expect("values").count_set_bits(), 1_000);
            filter.keep(&of(1_000..2_000)).expect("values").count_set_bits()
        };
        assert_eq!(kept(&ints, [2_000, 2_000]), 0, "the range is exact");
        assert!(kept(&texts, [2_000, 2_000]) < 100);
        assert_eq!((kept(&ints, [2_000, 1_000]), kept(&texts, [2_000, 1_000])), (0, 1_000));
        assert_eq!((kept(&ints, [8, 8]), kept(&texts, [8, 8])), (0, 1_000), "too many keys");
        assert_eq!(broker.used_bytes(), 0);
    }
}
