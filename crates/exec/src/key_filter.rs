//! What a join knows of the keys of its build side, so that rows of the probe side that match nothing are left out where
//! they are read.
//!
//! A filter never leaves out a value that has a match. It is exact where the numbers of the keys are near each other: one
//! bit for each between the least and the greatest. Otherwise it is a Bloom filter, beside the range if there is one, and
//! lets few others pass.

mod bloom;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_empty_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Reservation, Result, SqlType};
use rowmill_storage::chunk::{ValueSet, Zone};

use self::bloom::Bloom;
use crate::hash::{hash_of_bytes, mix};
use crate::numbers::{self, Width};

/// Bits for each value of the build side up to which there is one for each number.
const BITS_PER_VALUE_MAX: u64 = 64;
/// The same where there are no more bits than [`BITS_NEAR_MAX`].
const BITS_PER_VALUE_NEAR_MAX: u64 = 256;
/// Bits that fit the second cache: to look one up takes no longer than what a Bloom filter does, and leaves no doubt.
const BITS_NEAR_MAX: u64 = 1 << 23;
/// A range of so few numbers always has a bit for each: the bits fit the first cache.
const BITS_ALWAYS: u64 = 1 << 18;
/// Values above which a Bloom filter would not fit any cache.
const BLOOM_VALUES_MAX: usize = 1 << 24;
/// Values that are kept as they are, so that a table can be read by them as keys.
const FEW_VALUES_MAX: usize = 1 << 14;
/// Values of a list that are looked at in the time that one is searched for.
const LISTED_PER_SEARCH: usize = 32;
/// Values up to which a list of them is kept beside, by which blocks are passed over.
const LIST_VALUES_MAX: usize = 1 << 10;

/// What filters did.
#[derive(Debug, Default)]
pub struct FilterCounts {
    /// Rows that were looked at.
    pub seen: AtomicU64,
    /// Rows that were kept.
    pub kept: AtomicU64,
}

/// A filter of values of one type.
#[derive(Debug)]
pub struct KeyFilter {
    kind: DataType,
    /// Whether NULL has a match.
    keeps_null: bool,
    set: Set,
    /// The values themselves, some of them more than once, if they are few.
    few: Option<Vec<ArrayRef>>,
    /// The same as a set that value lists are searched for; none of types whose values are not searched for.
    few_set: OnceLock<Option<ValueSet>>,
    counts: Arc<FilterCounts>,
}

#[derive(Debug)]
enum Set {
    /// There are no values.
    Nothing,
    /// Values of this type are not told from each other.
    Everything,
    Numbers(NumberSet),
    Hashes(Bloom),
}

/// Numbers from `min` to `min + span`.
#[derive(Debug)]
struct NumberSet {
    min: u64,
    span: u64,
    members: Members,
}

#[derive(Debug)]
enum Members {
    /// A bit for each number.
    Bits(Vec<u64>),
    Bloom {
        bloom: Bloom,
        /// All of them in order, if they are few.
        list: Option<Vec<u64>>,
    },
    /// All that are in the range may be.
    All,
}

impl KeyFilter {
    /// Whether there are filters for values of a type.
    pub fn is_for(kind: &DataType) -> bool {
        numbers::width_of(kind).is_some() || matches!(kind, DataType::Utf8View | DataType::BinaryView)
    }

    /// A filter that keeps the values of `parts`, which are of type `kind`, and NULL if it is among them and has a match.
    pub(crate) fn new(
        kind: &DataType,
        parts: &[&ArrayRef],
        nulls_equal: bool,
        counts: Arc<FilterCounts>,
        memory: &mut Reservation,
    ) -> Result<KeyFilter> {
        let nulls: usize = parts.iter().map(|values| values.logical_null_count()).sum();
        let values = parts.iter().map(|values| values.len()).sum::<usize>() - nulls;
        let set = match numbers::width_of(kind) {
            _ if values == 0 => Set::Nothing,
            Some(Width::Narrow) => Set::Numbers(NumberSet::new(parts, values, memory)?),
            _ if values > BLOOM_VALUES_MAX || !KeyFilter::is_for(kind) => Set::Everything,
            _ => {
                let mut bloom = Bloom::new(values, memory)?;
                for values in parts {
                    let hashes = hashes(values)?;
                    each_valid(values, |row| bloom.insert(hashes[row]));
                }
                Set::Hashes(bloom)
            }
        };
        let is_few = values + nulls <= FEW_VALUES_MAX;
        let few = is_few.then(|| parts.iter().copied().map(Arc::clone).collect());
        Ok(KeyFilter {
            kind: kind.clone(),
            keeps_null: nulls_equal && nulls > 0,
            set,
            few,
            few_set: OnceLock::new(),
            counts,
        })
    }

    /// The values that may have a match, some of them more than once, and whether NULL has one; `None` if they are many.
    pub(crate) fn few_values(&self) -> Option<(ArrayRef, bool)> {
        let parts: Vec<ArrayRef> = self.few.as_ref()?.iter().map(without_nulls).collect::<Option<_>>()?;
        let values = match parts.is_empty() {
            true => new_empty_array(&self.kind),
            false => concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).ok()?,
        };
        Some((values, self.keeps_null))
    }

    /// The values that have a match, if they are so few that to search a list of `listed` values of type `kind` for them takes less
    /// time than to look at all of those.
    pub(crate) fn searched(&self, kind: &SqlType, listed: usize) -> Option<&ValueSet> {
        let few = self.few.as_ref()?;
        let values: usize = few.iter().map(|values| values.len()).sum();
        if values * LISTED_PER_SEARCH > listed || !matches!(self.set, Set::Numbers(_)) || self.kind.is_floating() {
            return None;
        }
        let set = || {
            let (values, has_null) = self.few_values().filter(|_| kind.arrow() == self.kind)?;
            let set = ValueSet::any_of(kind, &values)?;
            Some(if has_null { set.or(&ValueSet::null(kind)) } else { set })
        };
        self.few_set.get_or_init(set).as_ref()
    }

    /// Which of `values` may have a match. An error if they are of another type.
    pub fn keep(&self, values: &ArrayRef) -> Result<BooleanBuffer> {
        if *values.data_type() != self.kind {
            let (found, kind) = (values.data_type(), &self.kind);
            return Err(Error::internal(format!("values of {found} for a filter of values of {kind}")));
        }
        let rows = values.len();
        let kept = match &self.set {
            Set::Nothing => BooleanBuffer::new_unset(rows),
            Set::Everything => return Ok(BooleanBuffer::new_set(rows)),
            Set::Numbers(set) => {
                let mut numbers = Vec::with_capacity(rows.min(ROWS_AT_ONCE));
                in_pieces(values, |values, bits| {
                    numbers.clear();
                    numbers::extend_narrow(values, &mut numbers)?;
                    set.keep(&numbers, bits);
                    Ok(())
                })?
            }
            Set::Hashes(bloom) => in_pieces(values, |values, bits| {
                let hashes = hashes(values)?;
                push_bits(&hashes, bits, |hash| bloom.may_hold(hash));
                Ok(())
            })?,
        };
        Ok(match values.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) if self.keeps_null => &kept | &!nulls.inner(),
            Some(nulls) => &kept & nulls.inner(),
            None => kept,
        })
    }

    /// Whether a value of a block may have a match; `zone` has its bounds, if there are any.
    pub(crate) fn may_hold(&self, zone: Option<&Zone>, nulls: usize) -> Result<bool> {
        if self.keeps_null && nulls > 0 {
            return Ok(true);
        }
        match (&self.set, zone) {
            (Set::Nothing, _) => Ok(false),
            (Set::Numbers(set), Some(Zone { min, max: Some(max) })) if numbers::are_ordered(&self.kind) => {
                let mut bounds = Vec::with_capacity(2);
                numbers::extend_narrow(&min.value, &mut bounds)?;
                numbers::extend_narrow(&max.value, &mut bounds)?;
                Ok(set.may_hold_between(bounds[0], bounds[1]))
            }
            _ => Ok(true),
        }
    }

    /// Counts rows that were looked at, and how many of them were kept.
    pub(crate) fn count(&self, seen: usize, kept: usize) {
        self.counts.seen.fetch_add(seen as u64, Ordering::Relaxed);
        self.counts.kept.fetch_add(kept as u64, Ordering::Relaxed);
    }
}

impl NumberSet {
    /// The set of the numbers of `parts`, of which so many are not NULL; one at least.
    fn new(parts: &[&ArrayRef], values: usize, memory: &mut Reservation) -> Result<NumberSet> {
        let mut numbers = Vec::new();
        let (mut min, mut max) = (u64::MAX, 0);
        for part in parts {
            numbers.clear();
            numbers::extend_narrow(part, &mut numbers)?;
            if let Some(range) = numbers::range(&numbers, part.nulls()) {
                (min, max) = (min.min(range.0), max.max(range.1));
            }
        }
        let mut set = NumberSet { min, span: max - min, members: Members::All };
        set.members = set.room(values, memory)?;
        if !matches!(set.members, Members::All) {
            for part in parts {
                numbers.clear();
                numbers::extend_narrow(part, &mut numbers)?;
                set.insert(part, &numbers);
            }
        }
        if let Members::Bloom { list: Some(list), .. } = &mut set.members {
            list.sort_unstable();
            list.dedup();
        }
        Ok(set)
    }

    /// Room for so many numbers in the range.
    fn room(&self, values: usize, memory: &mut Reservation) -> Result<Members> {
        let bits_of = |bits_per_value: u64| bits_per_value.saturating_mul(values as u64);
        let near = bits_of(BITS_PER_VALUE_NEAR_MAX).min(BITS_NEAR_MAX);
        let bits_max = BITS_ALWAYS.max(bits_of(BITS_PER_VALUE_MAX)).max(near);
        Ok(if self.span < bits_max {
            let words = (self.span / 64) as usize + 1;
            memory.grow((words * size_of::<u64>()) as u64)?;
            Members::Bits(vec![0; words])
        } else if values <= BLOOM_VALUES_MAX {
            Members::Bloom { bloom: Bloom::new(values, memory)?, list: Some(Vec::new()) }
        } else {
            Members::All
        })
    }

    fn insert(&mut self, values: &ArrayRef, numbers: &[u64]) {
        let min = self.min;
        match &mut self.members {
            Members::Bits(bits) => each_valid(values, |row| {
                let bit = numbers[row] - min;
                bits[(bit / 64) as usize] |= 1 << (bit % 64);
            }),
            Members::Bloom { bloom, list } => each_valid(values, |row| {
                bloom.insert(mix(numbers[row]));
                match list {
                    Some(numbers_so_far) if numbers_so_far.len() < LIST_VALUES_MAX => numbers_so_far.push(numbers[row]),
                    // Whether one is missing cannot be told from their number: some may be the same.
                    _ => *list = None,
                }
            }),
            Members::All => {}
        }
    }

    /// Appends the bits of numbers to whole words.
    fn keep(&self, numbers: &[u64], out: &mut Vec<u64>) {
        let (min, span) = (self.min, self.span);
        match &self.members {
            Members::Bits(bits) => push_bits(numbers, out, |number| {
                // Whether a number is in the range is not branched on: it may be as often as not.
                let bit = number.wrapping_sub(min);
                let is_in_range = bit <= span;
                let bit = if is_in_range { bit } else { 0 };
                (bits[(bit / 64) as usize] >> (bit % 64) & 1 == 1) & is_in_range
            }),
            Members::Bloom { bloom, .. } => push_bits(numbers, out, |number| {
                // Both are asked about, for a branch would be taken as often as not.
                (number.wrapping_sub(min) <= span) & bloom.may_hold(mix(number))
            }),
            Members::All => push_bits(numbers, out, |number| number.wrapping_sub(min) <= span),
        }
    }

    /// Whether a number from `low` to `high` may be in the set.
    fn may_hold_between(&self, low: u64, high: u64) -> bool {
        let (low, high) = (low.max(self.min), high.min(self.min + self.span));
        if low > high {
            return false;
        }
        match &self.members {
            Members::Bits(bits) => any_bit(bits, low - self.min, high - self.min),
            Members::Bloom { list: Some(list), .. } => {
                let next = list.partition_point(|number| *number < low);
                list.get(next).is_some_and(|number| *number <= high)
            }
            _ => true,
        }
    }
}

fn without_nulls(values: &ArrayRef) -> Option<ArrayRef> {
    match values.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        None => Some(Arc::clone(values)),
        Some(nulls) => filter(values, &BooleanArray::new(nulls.into_inner(), None)).ok(),
    }
}

/// Rows that are looked at together, a multiple of 64: what is made of them fits the first cache.
const ROWS_AT_ONCE: usize = 1 << 11;

/// The bits that `keep` appends for pieces of `values`.
fn in_pieces(values: &ArrayRef, mut keep: impl FnMut(&ArrayRef, &mut Vec<u64>) -> Result<()>) -> Result<BooleanBuffer> {
    let rows = values.len();
    let mut bits = Vec::with_capacity(rows.div_ceil(64));
    for start in (0..rows).step_by(ROWS_AT_ONCE) {
        keep(&values.slice(start, ROWS_AT_ONCE.min(rows - start)), &mut bits)?;
    }
    Ok(BooleanBuffer::new(bits.into(), 0, rows))
}

/// Appends a bit for each number, and zeros up to a whole word.
#[inline(always)]
fn push_bits(numbers: &[u64], out: &mut Vec<u64>, is_kept: impl Fn(u64) -> bool) {
    let word = |numbers: &[u64]| numbers.iter().rev().fold(0, |bits, number| bits << 1 | u64::from(is_kept(*number)));
    out.extend(numbers.chunks(64).map(word));
}

/// Whether a bit from `first` to `last` is set.
fn any_bit(bits: &[u64], first: u64, last: u64) -> bool {
    let (first_word, last_word) = ((first / 64) as usize, (last / 64) as usize);
    let (from_first, to_last) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
    if first_word == last_word {
        return bits[first_word] & from_first & to_last != 0;
    }
    bits[first_word] & from_first != 0
        || bits[first_word + 1..last_word].iter().any(|word| *word != 0)
        || bits[last_word] & to_last != 0
}

/// The hashes of values that are no narrow numbers; NULL has any.
fn hashes(values: &ArrayRef) -> Result<Vec<u64>> {
    if let Some(texts) = values.as_string_view_opt() {
        return Ok((0..texts.len()).map(|row| hash_of_bytes(texts.value(row).as_bytes(), 0)).collect());
    }
    if let Some(bytes) = values.as_binary_view_opt() {
        return Ok((0..bytes.len()).map(|row| hash_of_bytes(bytes.value(row), 0)).collect());
    }
    let mut numbers = Vec::with_capacity(values.len());
    numbers::extend_wide(values, &mut numbers)?;
    Ok(numbers.iter().map(|number| mix(*number as u64 ^ mix((number >> 64) as u64))).collect())
}

/// Calls `at` for every value that is not NULL.
fn each_valid(values: &ArrayRef, mut at: impl FnMut(usize)) {
    match values.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => nulls.valid_indices().for_each(at),
        None => (0..values.len()).for_each(&mut at),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Decimal128Array, FixedSizeBinaryArray, Float64Array, Int16Array, Int64Array, StringViewArray, UInt64Array,
    };
    use rowmill_base::{Broker, ErrorKind};
    use rowmill_storage::chunk::Bound;

    use super::*;

    fn filter(values: &ArrayRef, nulls_equal: bool) -> KeyFilter {
        let broker = Broker::new(1 << 30);
        let half = values.len() / 2;
        let parts = [values.slice(0, half), values.slice(half, values.len() - half)];
        let mut memory = broker.reservation("test");
        let parts = [&parts[0], &parts[1]];
        KeyFilter::new(values.data_type(), &parts, nulls_equal, Arc::default(), &mut memory).expect("memory")
    }

    fn ints(values: impl Iterator<Item = i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    }

    fn kept(filter: &KeyFilter, values: &ArrayRef) -> usize {
        filter.keep(values).expect("one type").count_set_bits()
    }

    /// A number that is nowhere near the one of another row.
    fn far(row: i64) -> i64 {
        row.wrapping_mul(0x5851_f42d_4c95_7f2d)
    }

    #[test]
    fn what_is_in_is_kept_and_little_else() {
        let text = |row: i64| format!("{row}{}", " and on".repeat(row as usize % 4));
        let arrays = |rows: std::ops::Range<i64>| -> Vec<ArrayRef> {
            let ids: Vec<[u8; 16]> = rows.clone().map(|row| i128::from(row).to_be_bytes()).collect();
            vec![
                Arc::new(rows.clone().map(|row| Some(row as i16)).collect::<Int16Array>()),
                ints(rows.clone()),
                ints(rows.clone().map(far)),
                Arc::new(rows.clone().map(|row| Some(far(row) as u64)).collect::<UInt64Array>()),
                Arc::new(rows.clone().map(|row| Some(row as f64 / 3.0)).collect::<Float64Array>()),
                Arc::new(rows.clone().map(|row| Some(i128::from(row) << 64)).collect::<Decimal128Array>()),
                Arc::new(rows.map(|row| Some(text(row))).collect::<StringViewArray>()),
                Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).expect("sixteen bytes each")),
            ]
        };
        for (inside, outside) in arrays(0..5_000).iter().zip(arrays(5_000..20_000)) {
            let filter = filter(inside, false);
            assert_eq!(kept(&filter, inside), 5_000, "{}", inside.data_type());
            assert!(kept(&filter, &outside) < 15_000 / 50, "{}: {}", inside.data_type(), kept(&filter, &outside));
        }
    }

    #[test]
    fn numbers_near_each_other_are_told_exactly() {
        let filter = filter(&ints((-3_000..3_000).step_by(60)), false);
        assert_eq!(kept(&filter, &ints(-100_000..100_000)), 100);
    }

    #[test]
    fn null_is_kept_if_it_has_a_match() {
        let with_null: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let keeps = |values: &ArrayRef, nulls_equal| {
            filter(values, nulls_equal).keep(&with_null).expect("one type").iter().collect::<Vec<bool>>()
        };
        assert_eq!(keeps(&with_null, true), [true, true]);
        assert_eq!(keeps(&with_null, false), [true, false]);
        assert_eq!(keeps(&ints(2..3), true), [false, false]);
        assert_eq!(keeps(&with_null.slice(1, 1), true), [false, true]);
        assert_eq!(keeps(&with_null.slice(0, 0), true), [false, false]);
    }

    #[test]
    fn blocks_without_a_match_are_known() {
        let zone = |low: i64, high: i64| {
            let bound = |value| Bound { value: ints(std::iter::once(value)), exact: true };
            Zone { min: bound(low), max: Some(bound(high)) }
        };
        let may_hold = |filter: &KeyFilter, low, high| filter.may_hold(Some(&zone(low, high)), 5).expect("ints");
        for step in [1_000, 1 << 40] {
            let filter = filter(&ints((0..10).map(|row| row * step)), false);
            assert!(may_hold(&filter, 2 * step, 2 * step) && may_hold(&filter, i64::MIN, i64::MAX));
            assert!(may_hold(&filter, step + 1, 2 * step) && may_hold(&filter, 9 * step, 20 * step));
            assert!(!may_hold(&filter, step + 1, 2 * step - 1) && !may_hold(&filter, 9 * step + 1, 20 * step));
            assert!(!may_hold(&filter, -5, -1));
            assert!(filter.may_hold(None, 0).expect("nothing is known"));
        }
        let nothing = filter(&ints(0..0), false);
        assert!(!nothing.may_hold(None, 5).expect("nothing matches"));
    }

    #[test]
    fn bits_are_found_between_others() {
        let bits = [1, 0, 0, 1 << 63];
        assert!(any_bit(&bits, 0, 0) && any_bit(&bits, 0, 255) && any_bit(&bits, 1, 255) && any_bit(&bits, 255, 255));
        assert!(
            !any_bit(&bits, 1, 1) && !any_bit(&bits, 1, 254) && !any_bit(&bits, 64, 127) && !any_bit(&bits, 200, 254)
        );
    }

    #[test]
    fn another_type_is_an_error() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["1"]));
        assert_eq!(filter(&ints(0..1), false).keep(&texts).unwrap_err().kind(), ErrorKind::Internal);
    }

    #[test]
    fn values_that_come_often_do_not_make_a_list_look_whole() {
        // More than a list takes, of which many are the same.
        let filter = filter(&ints((0..3_000).map(|row| far(row / 2))), false);
        for row in 0..1_500 {
            let bound = |value: i64| Bound { value: ints(std::iter::once(value)), exact: true };
            let zone = Zone { min: bound(far(row)), max: Some(bound(far(row))) };
            assert!(filter.may_hold(Some(&zone), 0).expect("numbers"), "{row}");
        }
    }
}
