//! Filters made from the keys of a join's build side. A scan on the probe side uses them to leave out rows that match
//! nothing before the rows reach the join.
//!
//! A filter must never leave out a value that has a match. If the keys are numbers near each other, the filter is
//! exact: it has one bit for each number between the least and the greatest key. Otherwise it is a Bloom filter,
//! together with the range of the numbers if there is one, and lets only few other values pass.

mod bloom;
mod streamed;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_empty_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, concat, filter};
use arrow::datatypes::DataType;
use rowmill_base::{Error, Reservation, Result, SqlType};
use rowmill_storage::chunk::{ValueSet, Zone};

use self::bloom::Bloom;
pub(crate) use self::streamed::StreamedKeys;
use crate::cache::{L1_BYTES, L2_BYTES};
use crate::hash::{hash_of_bytes, mix};
use crate::numbers::{self, Width};

/// We use one bit per number of the range if that takes at most this many bits per value of the build side. The value
/// itself takes as many, so the bits never take more memory than the build side.
const BITS_PER_VALUE_MAX: u64 = 64;
/// The most bits per value if all bits together are at most [`BITS_NEAR_MAX`]. It only bounds the time to clear bits
/// that hardly any value sets; memory is bounded already. Without it (64 bits), TPC-H's Q4, Q5 and Q12 take 14, 18 and
/// 12 ms instead of 12, 16 and 11.
const BITS_PER_VALUE_NEAR_MAX: u64 = 256;
/// Bits that should fit the second-level cache. Looking one up then takes no longer than a Bloom filter and is exact.
const BITS_NEAR_MAX: u64 = 8 * L2_BYTES as u64;
/// A range of at most this many numbers always gets one bit per number, because the bits fit the first-level cache.
const BITS_ALWAYS: u64 = 8 * L1_BYTES as u64;
/// With more values than this, a Bloom filter (24 MiB) would not fit any cache. One of 1.2 million values lets a join
/// of ClickBench's table take 105 ms instead of 254.
const BLOOM_VALUES_MAX: usize = 1 << 24;
/// With at most this many values we keep the values themselves, so that a keyed table can be read by them. It bounds
/// the ranges that such a scan reads. With 512 and 65,536, a join of 3,000 neighbouring keys with a table of 1.5
/// million rows takes 17.2 and 0.9 ms instead of 0.8, one of 60,000 takes 24 and 11 ms instead of 24, and one of 50,000
/// scattered keys 22 and 38 ms instead of 22.
const FEW_VALUES_MAX: usize = 1 << 14;
/// Searching a list for one value takes about as long as looking at this many values of the list. For 1,000 values,
/// each search takes 40 ns in a list of 10,000 numbers and 89 ns in one of 100,000, and a number is decoded in 0.5 to
/// 0.7 ns.
const LISTED_PER_SEARCH: usize = 64;
/// With at most this many values we also keep a sorted list of them, so that whole blocks can be skipped.
/// With 32 values, Q11 of TPC-H takes 3.0 ms instead of 2.6.
const LIST_VALUES_MAX: usize = 1 << 10;

/// Counts the effect of filters.
#[derive(Debug, Default)]
pub struct FilterCounts {
    /// Rows that filters looked at.
    pub seen: AtomicU64,
    /// Rows that filters kept.
    pub kept: AtomicU64,
}

/// A filter of values of one type.
#[derive(Debug)]
pub struct KeyFilter {
    kind: DataType,
    /// Whether NULL has a match.
    keeps_null: bool,
    set: Set,
    /// The values themselves, if they are few. A value may occur more than once.
    few: Option<Vec<ArrayRef>>,
    /// The few values as a set that value lists are searched for. `None` inside if the type does not allow searching.
    few_set: OnceLock<Option<ValueSet>>,
    counts: Arc<FilterCounts>,
}

#[derive(Debug)]
enum Set {
    /// The filter keeps no value, because the build side has none.
    Nothing,
    /// The filter keeps every value, because it cannot distinguish values of this type.
    Everything,
    Numbers(NumberSet),
    Hashes(Bloom),
}

/// Numbers from `min` to `min + span`.
#[derive(Debug)]
struct NumberSet {
    min: u64,
    span: u64,
    members: KeyMembers,
}

#[derive(Debug)]
enum KeyMembers {
    /// A bit for each number.
    Bits(Vec<u64>),
    Bloom {
        bloom: Bloom,
        /// All numbers in order, if they are few.
        list: Option<Vec<u64>>,
    },
    /// Every number of the range may be a member.
    All,
}

impl KeyFilter {
    /// Whether filters support values of a type.
    pub(crate) fn is_for(kind: &DataType) -> bool {
        numbers::width_of(kind).is_some() || matches!(kind, DataType::Utf8View | DataType::BinaryView)
    }

    /// Makes a filter of values of type `kind` that keeps those of `parts`, which must have type `kind` or, if it is a
    /// signed integer, another one. The filter keeps NULL if `nulls_equal` is set and NULL is among the values.
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
        let few = is_few.then(|| parts.iter().map(|values| values_of_kind(values, kind)).collect::<Result<_>>());
        Ok(KeyFilter {
            kind: kind.clone(),
            keeps_null: nulls_equal && nulls > 0,
            set,
            few: few.transpose()?,
            few_set: OnceLock::new(),
            counts,
        })
    }

    /// Makes a filter of values of type `kind`, whose numbers have 64 bits, that keeps those with the numbers from
    /// `least` to `most`.
    pub(crate) fn between(kind: &DataType, least: u64, most: u64, counts: Arc<FilterCounts>) -> KeyFilter {
        let set = match least <= most {
            true => Set::Numbers(NumberSet { min: least, span: most - least, members: KeyMembers::All }),
            false => Set::Nothing,
        };
        KeyFilter { kind: kind.clone(), keeps_null: false, set, few: None, few_set: OnceLock::new(), counts }
    }

    /// The values that may have a match, and whether NULL has a match. A value may occur more than once. `None` if
    /// there are many values.
    pub(crate) fn few_values(&self) -> Option<(ArrayRef, bool)> {
        let parts: Vec<ArrayRef> = self.few.as_ref()?.iter().map(without_nulls).collect::<Option<_>>()?;
        let values = match parts.is_empty() {
            true => new_empty_array(&self.kind),
            false => concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).ok()?,
        };
        Some((values, self.keeps_null))
    }

    /// The values that have a match, as a set to search a value list for. `None` unless searching a list of `listed`
    /// values of type `kind` takes less time than looking at all of its values.
    pub(crate) fn searched(&self, kind: &SqlType, listed: usize) -> Option<&ValueSet> {
        let few = self.few.as_ref()?;
        let values: usize = few.iter().map(|values| values.len()).sum();
        // Many values make many searches. Looking at the whole list once is then faster.
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

    /// Marks the values that may have a match. Fails if `values` have another type than the filter.
    pub(crate) fn keep(&self, values: &ArrayRef) -> Result<BooleanBuffer> {
        if *values.data_type() != self.kind {
            let (found, kind) = (values.data_type(), &self.kind);
            return Err(Error::internal(format!("got values of {found} for a filter of values of {kind}")));
        }
        let rows = values.len();
        // NULLs get arbitrary bits here and are corrected at the end.
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

    /// Whether a value of a block may have a match. `zone` has the bounds of the block's values, if they are known,
    /// and `nulls` is the number of NULLs.
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

    /// Counts rows that were looked at, and the rows among them that were kept.
    pub(crate) fn count(&self, seen: usize, kept: usize) {
        self.counts.seen.fetch_add(seen as u64, Ordering::Relaxed);
        self.counts.kept.fetch_add(kept as u64, Ordering::Relaxed);
    }
}

/// The values that type `kind` has, as values of this type.
fn values_of_kind(values: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    if values.data_type() == kind {
        return Ok(Arc::clone(values));
    }
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    // A value outside of the type becomes NULL.
    let cast_values = cast(values, kind).map_err(failed)?;
    if cast_values.null_count() == values.null_count() {
        return Ok(cast_values);
    }
    let is_of_kind = (0..values.len()).map(|row| Some(values.is_null(row) || cast_values.is_valid(row)));
    filter(&cast_values, &is_of_kind.collect::<BooleanArray>()).map_err(failed)
}

impl NumberSet {
    /// Makes the set of the numbers in `parts`. `values` is the number of values that are not NULL, at least 1.
    fn new(parts: &[&ArrayRef], values: usize, memory: &mut Reservation) -> Result<NumberSet> {
        // A first pass finds the range, which decides the form of the set. A second pass inserts the numbers.
        let mut numbers = Vec::new();
        let (mut min, mut max) = (u64::MAX, 0);
        for part in parts {
            numbers.clear();
            numbers::extend_narrow(part, &mut numbers)?;
            if let Some(range) = numbers::range(&numbers, part.nulls()) {
                (min, max) = (min.min(range.0), max.max(range.1));
            }
        }
        let mut set = NumberSet { min, span: max - min, members: KeyMembers::All };
        set.members = set.room(values, memory)?;
        if !matches!(set.members, KeyMembers::All) {
            for part in parts {
                numbers.clear();
                numbers::extend_narrow(part, &mut numbers)?;
                set.insert(part, &numbers);
            }
        }
        if let KeyMembers::Bloom { list: Some(list), .. } = &mut set.members {
            list.sort_unstable();
            list.dedup();
        }
        Ok(set)
    }

    /// Chooses the form of the set for `values` numbers in the range, and makes room for it.
    fn room(&self, values: usize, memory: &mut Reservation) -> Result<KeyMembers> {
        let bits_of = |bits_per_value: u64| bits_per_value.saturating_mul(values as u64);
        let near = bits_of(BITS_PER_VALUE_NEAR_MAX).min(BITS_NEAR_MAX);
        // Exact bits are used as long as they stay small, both per value and in total.
        let bits_max = BITS_ALWAYS.max(bits_of(BITS_PER_VALUE_MAX)).max(near);
        Ok(if self.span < bits_max {
            let words = (self.span / 64) as usize + 1;
            memory.grow((words * size_of::<u64>()) as u64)?;
            KeyMembers::Bits(vec![0; words])
        } else if values <= BLOOM_VALUES_MAX {
            KeyMembers::Bloom { bloom: Bloom::new(values, memory)?, list: Some(Vec::new()) }
        } else {
            KeyMembers::All
        })
    }

    fn insert(&mut self, values: &ArrayRef, numbers: &[u64]) {
        let min = self.min;
        match &mut self.members {
            KeyMembers::Bits(bits) => each_valid(values, |row| {
                let bit = numbers[row] - min;
                bits[(bit / 64) as usize] |= 1 << (bit % 64);
            }),
            KeyMembers::Bloom { bloom, list } => each_valid(values, |row| {
                bloom.insert(mix(numbers[row]));
                match list {
                    Some(numbers_so_far) if numbers_so_far.len() < LIST_VALUES_MAX => numbers_so_far.push(numbers[row]),
                    // Duplicates also take room in the list, so a full list may be incomplete. We drop it, because a
                    // list must be complete to exclude a block.
                    _ => *list = None,
                }
            }),
            KeyMembers::All => {}
        }
    }

    /// Appends one bit for each number, in whole words.
    fn keep(&self, numbers: &[u64], out: &mut Vec<u64>) {
        let (min, span) = (self.min, self.span);
        match &self.members {
            KeyMembers::Bits(bits) => push_bits(numbers, out, |number| {
                // We do not branch on whether a number is in the range, because the branch would be hard to predict.
                let bit = number.wrapping_sub(min);
                let is_in_range = bit <= span;
                let bit = if is_in_range { bit } else { 0 };
                (bits[(bit / 64) as usize] >> (bit % 64) & 1 == 1) & is_in_range
            }),
            KeyMembers::Bloom { bloom, .. } => push_bits(numbers, out, |number| {
                // We always evaluate both conditions, because a branch would be hard to predict.
                (number.wrapping_sub(min) <= span) & bloom.may_hold(mix(number))
            }),
            KeyMembers::All => push_bits(numbers, out, |number| number.wrapping_sub(min) <= span),
        }
    }

    /// Whether a number from `low` to `high` may be in the set.
    fn may_hold_between(&self, low: u64, high: u64) -> bool {
        // Clip the bounds of the block to the range of the filter.
        let (low, high) = (low.max(self.min), high.min(self.min + self.span));
        if low > high {
            return false;
        }
        match &self.members {
            KeyMembers::Bits(bits) => any_bit(bits, low - self.min, high - self.min),
            KeyMembers::Bloom { list: Some(list), .. } => {
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

/// The rows that are looked at together, a multiple of 64. Their values should fit half of the first-level cache.
const ROWS_AT_ONCE: usize = L1_BYTES / 2 / size_of::<u64>();

/// Collects the bits that `keep` appends for pieces of `values`.
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

/// Hashes values that are no narrow numbers. The hash of a NULL is arbitrary.
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
    use rowmill_storage::chunk::ZoneBound;

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

    /// A number that is far from the numbers of other rows.
    fn far(row: i64) -> i64 {
        row.wrapping_mul(0x5851_f42d_4c95_7f2d)
    }

    #[test]
    fn a_filter_keeps_its_values_and_few_others() {
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
    fn a_filter_of_numbers_near_each_other_is_exact() {
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
    fn a_block_without_a_match_is_excluded_by_its_bounds() {
        let zone = |low: i64, high: i64| {
            let bound = |value| ZoneBound { value: ints(std::iter::once(value)), exact: true };
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
    fn any_bit_looks_only_at_the_given_range() {
        let bits = [1, 0, 0, 1 << 63];
        assert!(any_bit(&bits, 0, 0) && any_bit(&bits, 0, 255) && any_bit(&bits, 1, 255) && any_bit(&bits, 255, 255));
        assert!(
            !any_bit(&bits, 1, 1) && !any_bit(&bits, 1, 254) && !any_bit(&bits, 64, 127) && !any_bit(&bits, 200, 254)
        );
    }

    #[test]
    fn values_of_another_type_are_an_error() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["1"]));
        assert_eq!(filter(&ints(0..1), false).keep(&texts).unwrap_err().kind(), ErrorKind::Internal);
    }

    #[test]
    fn duplicates_do_not_make_a_truncated_list_look_complete() {
        // There are more numbers than a list takes, and each occurs twice.
        let filter = filter(&ints((0..3_000).map(|row| far(row / 2))), false);
        for row in 0..1_500 {
            let bound = |value: i64| ZoneBound { value: ints(std::iter::once(value)), exact: true };
            let zone = Zone { min: bound(far(row)), max: Some(bound(far(row))) };
            assert!(filter.may_hold(Some(&zone), 0).expect("numbers"), "{row}");
        }
    }
}
