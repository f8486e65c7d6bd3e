//! The set of a column's values for which a condition is true, as ranges in the order of values.
//!
//! `column op constant`, `IN`, `BETWEEN`, `LIKE 'start%'` and their combinations with `AND`, `OR` and `NOT` are ranges
//! of values. So we turn a condition into ranges once. For example, `x > 3 AND x <= 9` is one range. Each chunk then
//! looks the ranges up in its zone map, in its value list (by binary search, without decoding it), or among its rows if
//! it has no list.

use std::convert::Infallible;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use rowmill_base::SqlType;

use super::Verdict;
use super::borders::{Borders, Share};
use super::head::{Facts, StoredZone};
use super::kinds::{Kind, Physical, with_kind};
use crate::sequence::Word;
use crate::strings::ByteStrings;
use crate::wide;

/// Some values of a column, and optionally NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSet {
    pub(super) values: ValueRanges,
    /// Whether the set contains NULL.
    pub(super) null: bool,
}

/// Ranges of values other than NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueRanges {
    /// Keys of a type with a fixed size. For a type with neither keys nor strings, only the full and the empty set are
    /// possible.
    Keys(Borders<u128>),
    Strings(Borders<Vec<u8>>),
}

impl ValueSet {
    /// All values of the type `kind` except NULL.
    pub fn all(kind: &SqlType) -> ValueSet {
        let values = match is_string(kind) {
            true => ValueRanges::Strings(Borders::all()),
            false => ValueRanges::Keys(Borders::all()),
        };
        ValueSet { values, null: false }
    }

    /// NULL alone, in a column of the type `kind`.
    pub fn null(kind: &SqlType) -> ValueSet {
        ValueSet { null: true, ..ValueSet::all(kind).other_values() }
    }

    /// The set of the values in `values`, an array of the type `kind` without NULLs. `None` if the type has no equality
    /// here.
    pub fn any_of(kind: &SqlType, values: &ArrayRef) -> Option<ValueSet> {
        if values.null_count() > 0 {
            return None;
        }
        let values = match is_string(kind) {
            true => ValueRanges::Strings(points(strings_of(values)?, |string| Some(string_behind(string)))),
            false => ValueRanges::Keys(points(keys_of(kind, values)?, |key| key.checked_add(1))),
        };
        Some(ValueSet { values, null: false })
    }

    /// The values less than the one row of `value`, and with `or_equal` that value too. `None` if the type has no
    /// order.
    pub fn less_than(kind: &SqlType, value: &ArrayRef, or_equal: bool) -> Option<ValueSet> {
        if !kind.is_ordered() || value.len() != 1 || value.null_count() > 0 {
            return None;
        }
        let values = if is_string(kind) {
            let string = strings_of(value)?.pop()?;
            ValueRanges::Strings(Borders::before(Some(if or_equal { string_behind(&string) } else { string })))
        } else {
            let key = keys_of(kind, value)?.pop()?;
            ValueRanges::Keys(Borders::before(if or_equal { key.checked_add(1) } else { Some(key) }))
        };
        Some(ValueSet { values, null: false })
    }

    /// The set of strings that start with `prefix`.
    pub fn starting_with(prefix: &[u8]) -> ValueSet {
        // The end of the range is the prefix with its last byte raised. A byte of 255 cannot be raised, so such bytes
        // are cut off first. If all bytes are 255, the range has no end.
        let behind = prefix.iter().rposition(|byte| *byte != u8::MAX).map(|last| {
            let mut behind = prefix[..=last].to_vec();
            behind[last] += 1;
            behind
        });
        ValueSet { values: ValueRanges::Strings(Borders::between(prefix.to_vec(), behind)), null: false }
    }

    /// The complement, except NULL: for a NULL row neither a condition nor its negation is true.
    #[must_use]
    pub fn other_values(self) -> ValueSet {
        let values = match self.values {
            ValueRanges::Keys(keys) => ValueRanges::Keys(keys.not()),
            ValueRanges::Strings(strings) => ValueRanges::Strings(strings.not()),
        };
        ValueSet { values, null: false }
    }

    /// The intersection of two sets, which must be of one type.
    #[must_use]
    pub fn and(&self, other: &ValueSet) -> ValueSet {
        ValueSet { values: self.values.with(&other.values, Borders::and, Borders::and), null: self.null && other.null }
    }

    /// The union of two sets, which must be of one type.
    #[must_use]
    pub fn or(&self, other: &ValueSet) -> ValueSet {
        ValueSet { values: self.values.with(&other.values, Borders::or, Borders::or), null: self.null || other.null }
    }

    /// Whether the set contains the one row of `value`, an array of the type `kind`.
    pub fn contains(&self, kind: &SqlType, value: &ArrayRef) -> bool {
        if value.logical_null_count() > 0 {
            return self.null;
        }
        match &self.values {
            ValueRanges::Keys(keys) => match keys_of(kind, value).and_then(|keys| keys.first().copied()) {
                // A type without keys has either all values or none.
                Some(key) => keys.contains(&key),
                None => *keys == Borders::all(),
            },
            ValueRanges::Strings(strings) => {
                strings_of(value).and_then(|mut values| values.pop()).is_some_and(|value| strings.contains(&value))
            }
        }
    }

    /// The set of a column of 256 bits for a chunk that stores its values in 128 bits.
    pub(super) fn narrowed(&self) -> ValueSet {
        let values = match &self.values {
            ValueRanges::Strings(strings) => {
                let keys = strings.try_map(&u128::MAX, |border| Ok::<_, Infallible>(wide::narrow_key(border)));
                ValueRanges::Keys(keys.unwrap_or_else(|never| match never {}))
            }
            keys => keys.clone(),
        };
        ValueSet { values, null: self.null }
    }

    /// Whether the set contains NULL.
    pub fn has_null(&self) -> bool {
        self.null
    }

    /// For each row of `least` and `greatest`, whether the set may contain a value from that closed range. Both arrays
    /// must have the type `kind`. If one of the two is NULL, or the least is above the greatest, nothing is known about
    /// the range, so any value may be in it.
    pub fn meets(&self, kind: &SqlType, least: &ArrayRef, greatest: &ArrayRef) -> Vec<bool> {
        fn each<T: Ord + Clone + Default>(
            borders: &Borders<T>,
            bounds: Option<(Vec<T>, Vec<T>)>,
            is_known: impl Fn(usize) -> bool,
            rows: usize,
        ) -> Vec<bool> {
            let has_any = *borders != Borders::none();
            let Some((least, greatest)) = bounds else { return vec![has_any; rows] };
            let meets = |row: usize| {
                // Nothing may be excluded because of bounds that are unknown or contradict each other.
                let (least, greatest) = (&least[row], &greatest[row]);
                has_any && (!is_known(row) || least > greatest || borders.share(least, Some(greatest)) != Share::None)
            };
            (0..rows).map(meets).collect()
        }
        let rows = least.len().min(greatest.len());
        let is_known = |row: usize| least.is_valid(row) && greatest.is_valid(row);
        match &self.values {
            ValueRanges::Keys(keys) => each(keys, keys_of(kind, least).zip(keys_of(kind, greatest)), is_known, rows),
            ValueRanges::Strings(strings) => each(strings, strings_of(least).zip(strings_of(greatest)), is_known, rows),
        }
    }

    /// Decides the condition for all rows of a chunk from its head.
    pub(super) fn verdict(&self, facts: &Facts) -> Verdict {
        let any_value = facts.null_count < facts.rows;
        // Values and NULLs are judged separately. The verdict holds only if both agree, or only one of them occurs.
        let of_values = any_value.then(|| self.values.share(facts));
        let of_nulls = (facts.null_count > 0).then_some(if self.null { Share::All } else { Share::None });
        let is = |share: Share| [of_values, of_nulls].into_iter().flatten().all(|found| found == share);
        match (is(Share::None), is(Share::All)) {
            (true, _) => Verdict::Nothing,
            (_, true) => Verdict::Everything,
            _ => Verdict::Unknown,
        }
    }
}

/// A function that combines two sets.
type Combination<T> = fn(&Borders<T>, &Borders<T>) -> Borders<T>;

impl ValueRanges {
    fn with(&self, other: &ValueRanges, keys: Combination<u128>, strings: Combination<Vec<u8>>) -> ValueRanges {
        match (self, other) {
            (ValueRanges::Keys(left), ValueRanges::Keys(right)) => ValueRanges::Keys(keys(left, right)),
            (ValueRanges::Strings(left), ValueRanges::Strings(right)) => ValueRanges::Strings(strings(left, right)),
            _ => unreachable!("both sets are of one column"),
        }
    }

    /// Whether all, some or none of the values in the zone are in the set.
    fn share(&self, facts: &Facts) -> Share {
        // Without a zone map, any value may occur in the chunk.
        let max = |zone: &StoredZone| zone.max.as_ref().map(|max| max.bytes.clone());
        let zone = facts.zone.as_ref();
        match self {
            ValueRanges::Keys(keys) => match zone.and_then(|zone| key_bounds(zone, facts.physical)) {
                Some((min, max)) => keys.share(&min, max.as_ref()),
                None => keys.share(&0, None),
            },
            ValueRanges::Strings(strings) => match zone {
                Some(zone) => strings.share(&zone.min.bytes, max(zone).as_ref()),
                None => strings.share(&Vec::new(), None),
            },
        }
    }
}

/// Whether values are stored as byte strings.
fn is_string(kind: &SqlType) -> bool {
    matches!(Physical::of(kind), Physical::Text | Physical::Blob | Physical::Wide)
}

/// The next string after `string` in the order of all strings.
fn string_behind(string: &[u8]) -> Vec<u8> {
    [string, &[0]].concat()
}

fn points<T: Ord + Clone + Default>(mut values: Vec<T>, behind: impl Fn(&T) -> Option<T>) -> Borders<T> {
    values.sort_unstable();
    values.dedup();
    // We join halves. Adding one value after another would copy all earlier borders each time.
    fn joined<T: Ord + Clone + Default>(values: &[T], behind: &impl Fn(&T) -> Option<T>) -> Borders<T> {
        match values {
            [] => Borders::none(),
            [value] => Borders::between(value.clone(), behind(value)),
            _ => {
                let (left, right) = values.split_at(values.len() / 2);
                joined(left, behind).or(&joined(right, behind))
            }
        }
    }
    joined(&values, &behind)
}

/// The keys of all rows. `None` if the type has no keys.
fn keys_of(kind: &SqlType, array: &ArrayRef) -> Option<Vec<u128>> {
    if *array.data_type() != kind.arrow() {
        return None;
    }
    with_kind!(
        Physical::of(kind),
        K => Some(K::keys(array).into_iter().map(Word::widen).collect()),
        else None
    )
}

fn strings_of(array: &ArrayRef) -> Option<Vec<Vec<u8>>> {
    let strings = match array.data_type() {
        DataType::Decimal256(..) => ByteStrings::new(&wide::compact_strings(array).ok()?),
        _ => ByteStrings::new(array),
    };
    let strings = strings.ok()?;
    Some((0..strings.len()).map(|row| strings.value(row).to_vec()).collect())
}

/// The bounds of a zone as keys. `None` if a bound is not a valid key of the type.
fn key_bounds(zone: &StoredZone, physical: Physical) -> Option<(u128, Option<u128>)> {
    with_kind!(
        physical,
        K => {
            let read = |bytes: &[u8]| <K as Kind>::Key::read(bytes).widen();
            let key = |bytes: &[u8]| (bytes.len() == <K as Kind>::Key::BYTES).then(|| read(bytes));
            let max = match &zone.max {
                Some(max) => Some(key(&max.bytes)?),
                None => None,
            };
            Some((key(&zone.min.bytes)?, max))
        },
        else None
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int32Array, StringViewArray};

    use super::*;

    #[test]
    fn a_set_meets_the_ranges_that_hold_one_of_its_values() {
        let numbers = |values: Vec<Option<i32>>| Arc::new(Int32Array::from(values)) as ArrayRef;
        let least = numbers(vec![Some(1), Some(6), Some(8), None, Some(9)]);
        let greatest = numbers(vec![Some(4), Some(6), Some(20), Some(0), Some(8)]);
        let kind = SqlType::Int32;
        let five_to_seven = ValueSet::less_than(&kind, &numbers(vec![Some(5)]), false)
            .expect("ordered")
            .other_values()
            .and(&ValueSet::less_than(&kind, &numbers(vec![Some(7)]), true).expect("ordered"));
        assert_eq!(five_to_seven.meets(&kind, &least, &greatest), [false, true, false, true, true]);
        let four_or_nine = ValueSet::any_of(&kind, &numbers(vec![Some(9), Some(4)])).expect("values");
        assert_eq!(four_or_nine.meets(&kind, &least, &greatest), [true, false, true, true, true]);
        let null = ValueSet::null(&kind);
        assert_eq!((null.meets(&kind, &least, &greatest), null.has_null()), (vec![false; 5], true));
    }

    #[test]
    fn a_prefix_meets_only_ranges_that_hold_such_texts_and_zero_equals_minus_zero() {
        let texts = |text: &str| Arc::new(StringViewArray::from(vec![text])) as ArrayRef;
        let set = ValueSet::starting_with(b"ab");
        let meets = |least: &str, greatest: &str| set.meets(&SqlType::TEXT, &texts(least), &texts(greatest)) == [true];
        assert!(meets("a", "b") && meets("abz", "c") && meets("", "ab"));
        assert!(!meets("", "a") && !meets("ac", "b"));
        let floats = |value: f64| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
        let zero = ValueSet::any_of(&SqlType::Float64, &floats(0.0)).expect("values");
        assert_eq!(zero.meets(&SqlType::Float64, &floats(-1.0), &floats(-0.0)), [true]);
    }
}
