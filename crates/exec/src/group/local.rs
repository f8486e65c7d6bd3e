//! Groups of the rows of one block: small numbers for the combinations of key values that occur in it.
//!
//! Each key gives a number per row: its code if the values are listed, otherwise its bits or the index of its value
//! among the values met so far. The numbers of all keys are packed into 64 bits. For example, if the second key has
//! numbers of 5 bits, the packed number is `first << 5 | second`. A small range of packed numbers indexes an array; a
//! large one goes through a hash table.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use rowmill_base::{Error, Result};

use super::bits::{Bits, bits_of, hash_of_bytes, mix};
use super::rows::PartValues;
use super::texts::texts_of;
use crate::cache::LOOKUPS_AT_ONCE;
use crate::window::sort_entries;

/// Numbers of at most this many bits index an array. It bounds the array to 4 MiB. With 18, 19, 20 and 22 bits,
/// ClickBench's groups by region, agent and system take 39, 38, 29 and 30 ms, and those by counter, system and age 40,
/// 22, 23 and 23 ms.
const DENSE_BITS_MAX: u32 = 20;

/// Rows that show whether a key is nearly unique: less than a hundredth of a full block, so looking costs little. With
/// 1,024 to 16,384 rows, groups by nearly unique pairs of ClickBench take equally long.
const SAMPLE_ROWS: usize = 1 << 12;

/// The group of each row.
pub(super) struct LocalGroups {
    /// The group of each row.
    pub(super) groups: Vec<u32>,
    /// The first row of each group.
    pub(super) first_rows: Vec<u32>,
}

/// A number per row below 2^bits. Two rows have equal numbers exactly if their values are equal.
struct LocalNumbers {
    bits: u32,
    of_rows: OfRows,
}

enum OfRows {
    Codes(Arc<Vec<u32>>),
    Numbers(ScalarBuffer<u64>),
}

/// Finds the groups of `rows` rows by their keys, at least one. `None` if the caller should take each row for a group,
/// because hardly any two rows are alike. Rows that are still alike are joined when the groups of all blocks are
/// merged.
pub(super) fn group(keys: &[PartValues], rows: usize) -> Result<Option<LocalGroups>> {
    if is_only_list(keys) {
        return Ok(None);
    }
    let mut all = Vec::with_capacity(keys.len());
    for key in keys {
        let numbers = numbers_of(key, rows)?;
        if is_nearly_unique(&numbers) {
            return Ok(None);
        }
        all.push(numbers);
    }
    Ok(places(&packed_keys(all), AlikeRows::MayBeApart))
}

/// Finds the groups of `rows` rows by their keys, at least one. Other than [`group`], it joins all rows that are alike.
pub(super) fn group_all(keys: &[PartValues], rows: usize) -> Result<LocalGroups> {
    if is_only_list(keys) {
        let rows = 0..rows as u32;
        return Ok(LocalGroups { groups: rows.clone().collect(), first_rows: rows.collect() });
    }
    let all = keys.iter().map(|key| numbers_of(key, rows)).collect::<Result<Vec<_>>>()?;
    places(&packed_keys(all), AlikeRows::Together).ok_or_else(|| Error::internal("rows without groups"))
}

/// Whether the only key is a list, which has each group once.
fn is_only_list(keys: &[PartValues]) -> bool {
    matches!(keys, [PartValues { codes: None, is_list: true, .. }])
}

/// What the search for groups does if hardly any two rows are alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AlikeRows {
    /// It finds all groups.
    Together,
    /// It gives up.
    MayBeApart,
}

/// Packs the numbers of all keys into one. There must be at least one key.
fn packed_keys(keys: Vec<LocalNumbers>) -> LocalNumbers {
    let packed = keys.into_iter().reduce(|mut packed, mut next| self::packed(&mut packed, &mut next));
    packed.expect("a grouping by codes has keys")
}

/// Packs the numbers of two keys into one. A side with more than 32 bits must be renumbered first, so that both fit 64
/// bits.
fn packed(left: &mut LocalNumbers, right: &mut LocalNumbers) -> LocalNumbers {
    for wide in [&mut *left, &mut *right] {
        if wide.bits > 32 {
            *wide = renumbered(wide);
        }
    }
    let (bits, shift) = (left.bits + right.bits, right.bits);
    let of_rows = match (&left.of_rows, &right.of_rows) {
        (OfRows::Codes(left), OfRows::Codes(right)) if bits < u32::BITS => {
            let packed = left.iter().zip(&**right).map(|(left, right)| left << shift | right).collect();
            return LocalNumbers { bits, of_rows: OfRows::Codes(Arc::new(packed)) };
        }
        (OfRows::Codes(left), OfRows::Codes(right)) => {
            left.iter().zip(&**right).map(|(left, right)| u64::from(*left) << shift | u64::from(*right)).collect()
        }
        (OfRows::Codes(left), OfRows::Numbers(right)) => {
            left.iter().zip(&**right).map(|(left, right)| u64::from(*left) << shift | right).collect()
        }
        (OfRows::Numbers(left), OfRows::Codes(right)) => {
            left.iter().zip(&**right).map(|(left, right)| left << shift | u64::from(*right)).collect()
        }
        (OfRows::Numbers(left), OfRows::Numbers(right)) => {
            left.iter().zip(&**right).map(|(left, right)| left << shift | right).collect()
        }
    };
    LocalNumbers { bits, of_rows: OfRows::Numbers(of_rows) }
}

/// Whether hardly any number of a wide key repeats, judged by a sample.
fn is_nearly_unique(key: &LocalNumbers) -> bool {
    let OfRows::Numbers(numbers) = &key.of_rows else { return false };
    if key.bits <= 32 || numbers.len() < SAMPLE_ROWS {
        return false;
    }
    let step = numbers.len() / SAMPLE_ROWS;
    // We sample runs of neighbours because neighbours are alike more often than other rows.
    let sample: Vec<u64> = numbers.chunks(step * 16).flat_map(|rows| &rows[..rows.len().min(16)]).copied().collect();
    places_of(&sample, |number| mix(*number)).first_rows.len() * 32 > sample.len() * 31
}

fn numbers_of(key: &PartValues, rows: usize) -> Result<LocalNumbers> {
    let numbers = match &key.codes {
        None => numbers_of_values(&key.values)?,
        Some(codes) if key.is_list => {
            LocalNumbers { bits: bits_for(key.values.len()), of_rows: OfRows::Codes(Arc::clone(codes)) }
        }
        // A function of listed values may return equal results for different codes.
        Some(codes) => {
            let LocalNumbers { bits, of_rows } = numbers_of_values(&key.values)?;
            let of_rows = match of_rows {
                OfRows::Codes(of_values) => {
                    OfRows::Codes(Arc::new(codes.iter().map(|code| of_values[*code as usize]).collect()))
                }
                OfRows::Numbers(of_values) => {
                    OfRows::Numbers(codes.iter().map(|code| of_values[*code as usize]).collect())
                }
            };
            LocalNumbers { bits, of_rows }
        }
    };
    let found = match &numbers.of_rows {
        OfRows::Codes(codes) => codes.len(),
        OfRows::Numbers(numbers) => numbers.len(),
    };
    assert_eq!(found, rows, "a key has a value for each row");
    Ok(numbers)
}

impl From<LocalGroups> for LocalNumbers {
    fn from(groups: LocalGroups) -> LocalNumbers {
        LocalNumbers { bits: bits_for(groups.first_rows.len()), of_rows: OfRows::Codes(Arc::new(groups.groups)) }
    }
}

/// A number for each value.
fn numbers_of_values(values: &ArrayRef) -> Result<LocalNumbers> {
    if let Some(texts) = texts_of(values) {
        return Ok(places_of_texts(&texts).into());
    }
    let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let is_signed = !values.data_type().is_unsigned_integer() && !values.data_type().is_floating();
    Ok(match bits_of(values)? {
        Bits::Narrow { numbers, width } => {
            // Flipping the sign puts negative numbers before the others.
            let sign = if is_signed && width > 1 { 1 << (width - 1) } else { 0 };
            // More bits would be hashed all the same.
            let bits_max = SlotTable::NUMBER_BITS_MAX.min(width - 1);
            let shifted = in_range(&numbers, nulls.as_ref(), bits_max, |number| number ^ sign);
            match (shifted, nulls) {
                (Some(shifted), _) => shifted,
                (None, None) => LocalNumbers { bits: width, of_rows: OfRows::Numbers(numbers) },
                (None, Some(nulls)) => {
                    let valued: Vec<(u64, bool)> =
                        numbers.iter().enumerate().map(|(row, number)| (*number, nulls.is_valid(row))).collect();
                    places_of(&valued, |(number, valid)| mix(*number ^ u64::from(*valid))).into()
                }
            }
        }
        Bits::Wide(numbers) => {
            let sign = if is_signed { 1 << (u128::BITS - 1) } else { 0 };
            if let Some(shifted) = in_range(&numbers, nulls.as_ref(), u64::BITS, |number| number ^ sign) {
                return Ok(shifted);
            }
            let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            let valued: Vec<(u128, bool)> =
                numbers.iter().enumerate().map(|(row, number)| (*number, is_valid(row))).collect();
            let hash = |bits: u128, valid: bool| mix(bits as u64 ^ mix((bits >> 64) as u64 ^ u64::from(valid)));
            places_of(&valued, |(number, valid)| hash(*number, *valid)).into()
        }
    })
}

/// Numbers counted from the least one, with NULL after the greatest one. They have few bits if the values have a narrow
/// range, such as years. `order` puts the bits of a value in the order of the values. `None` if the numbers do not fit
/// 64 bits, or if there is no NULL and they have more than `bits_max` bits.
fn in_range<N, T>(
    values: &[N],
    nulls: Option<&NullBuffer>,
    bits_max: u32,
    order: impl Fn(N) -> T,
) -> Option<LocalNumbers>
where
    N: Copy,
    T: Copy + Ord + std::ops::Sub<Output = T> + TryInto<u64>,
{
    let bounds = |values: &[N]| {
        let mut ordered = values.iter().map(|value| order(*value));
        let first = ordered.next()?;
        Some(ordered.fold((first, first), |(least, greatest), value| (least.min(value), greatest.max(value))))
    };
    let joined = |(one_least, one_greatest): (T, T), (least, greatest): (T, T)| {
        (one_least.min(least), one_greatest.max(greatest))
    };
    let bounds = match nulls {
        None => bounds(values),
        Some(nulls) => nulls.valid_slices().filter_map(|(start, end)| bounds(&values[start..end])).reduce(joined),
    };
    let (least, room) = match bounds {
        // One more number than the room is that of NULL.
        Some((least, greatest)) => (least, (greatest - least).try_into().ok().and_then(|span| span.checked_add(1))?),
        None => return Some(LocalNumbers { bits: 0, of_rows: OfRows::Codes(Arc::new(vec![0; values.len()])) }),
    };
    let last = if nulls.is_some() { room } else { room - 1 };
    let bits = u64::BITS - last.leading_zeros();
    if nulls.is_none() && bits > bits_max {
        return None;
    }
    let number = |value: &N| (order(*value) - least).try_into().unwrap_or_default();
    let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
    let of_rows = match (bits < u32::BITS, nulls) {
        (true, None) => OfRows::Codes(Arc::new(values.iter().map(|value| number(value) as u32).collect())),
        (true, Some(_)) => {
            let codes = values.iter().enumerate();
            let codes = codes.map(|(row, value)| if is_null(row) { room as u32 } else { number(value) as u32 });
            OfRows::Codes(Arc::new(codes.collect()))
        }
        (false, None) => OfRows::Numbers(values.iter().map(number).collect()),
        (false, Some(_)) => {
            let numbers = values.iter().enumerate();
            OfRows::Numbers(numbers.map(|(row, value)| if is_null(row) { room } else { number(value) }).collect())
        }
    };
    Some(LocalNumbers { bits, of_rows })
}

fn renumbered(wide: &LocalNumbers) -> LocalNumbers {
    match &wide.of_rows {
        OfRows::Codes(codes) => LocalNumbers { bits: wide.bits, of_rows: OfRows::Codes(Arc::clone(codes)) },
        OfRows::Numbers(numbers) => places_of(numbers, |number| mix(*number)).into(),
    }
}

/// The number of bits that hold the numbers below `count`.
fn bits_for(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// Groups rows by their packed number. `None` if the rows that are alike may be apart, and hardly any number is met
/// twice.
fn places(packed: &LocalNumbers, alike: AlikeRows) -> Option<LocalGroups> {
    // Choose the fastest table: an array for a small range, then slots that hold the number, then a general hash table.
    let bits = packed.bits;
    match &packed.of_rows {
        OfRows::Codes(codes) if is_dense(bits, codes.len()) => {
            Some(places_of_dense(codes, |code| *code as usize, bits))
        }
        OfRows::Numbers(numbers) if is_dense(bits, numbers.len()) => {
            Some(places_of_dense(numbers, |number| *number as usize, bits))
        }
        OfRows::Codes(codes) if codes.len() <= SlotTable::ROWS_MAX => {
            let numbers = codes.iter().map(|code| u64::from(*code));
            SlotTable::places(numbers.clone()).or_else(|| sorted_if(alike, numbers, bits))
        }
        OfRows::Codes(codes) => Some(places_of(codes, |code| mix((*code).into()))),
        OfRows::Numbers(numbers) if bits <= SlotTable::NUMBER_BITS_MAX && numbers.len() <= SlotTable::ROWS_MAX => {
            SlotTable::places(numbers.iter().copied()).or_else(|| sorted_if(alike, numbers.iter().copied(), bits))
        }
        OfRows::Numbers(numbers) => Some(places_of(numbers, |number| mix(*number))),
    }
}

/// Groups rows by sorting their numbers of `bits` bits, unless alike rows may be apart.
fn sorted_if(alike: AlikeRows, numbers: impl ExactSizeIterator<Item = u64>, bits: u32) -> Option<LocalGroups> {
    (alike == AlikeRows::Together).then(|| places_by_sort(numbers, bits))
}

/// Groups rows by sorting their numbers of `bits` bits. If most rows have a group of their own, that takes half of the
/// time of a hash table, which does not fit a cache. Groups are numbered in the order of their numbers.
fn places_by_sort(numbers: impl ExactSizeIterator<Item = u64>, bits: u32) -> LocalGroups {
    const ROW_BITS: u32 = SlotTable::PLACE_BITS;
    let rows = numbers.len();
    let mut entries: Vec<u64> = (0..).zip(numbers).map(|(row, number)| number << ROW_BITS | row).collect();
    sort_entries(&mut entries, &mut Vec::new(), ROW_BITS, ROW_BITS + bits);
    let mut found = LocalGroups { groups: vec![0; rows], first_rows: Vec::with_capacity(rows) };
    for alike in entries.chunk_by(|one, next| one >> ROW_BITS == next >> ROW_BITS) {
        let row_of = |entry: u64| (entry & SlotTable::ROWS_MAX as u64) as u32;
        let group = found.first_rows.len() as u32;
        alike.iter().for_each(|entry| found.groups[row_of(*entry) as usize] = group);
        found.first_rows.push(row_of(alike[0]));
    }
    found
}

fn is_dense(bits: u32, rows: usize) -> bool {
    bits <= DENSE_BITS_MAX && 1 << bits <= rows.max(512) * 4
}

/// Groups rows by numbers of `bits` bits. Groups are numbered in the order of their numbers. Where a number occurs for
/// the first time is unpredictable, so none of the three passes branches on it.
fn places_of_dense<T>(numbers: &[T], index: impl Fn(&T) -> usize, bits: u32) -> LocalGroups {
    let mut of_numbers = vec![u32::MAX; 1 << bits];
    // From the last row to the first one, so that the first row of each number is written last.
    for (row, number) in numbers.iter().enumerate().rev() {
        of_numbers[index(number)] = row as u32;
    }
    let (mut first_rows, mut groups) = (vec![0; of_numbers.len().min(numbers.len()) + 1], 0);
    for of_number in &mut of_numbers {
        let row = std::mem::replace(of_number, groups as u32);
        // If no row has the number, the next number writes over this.
        first_rows[groups] = row;
        groups += usize::from(row != u32::MAX);
    }
    first_rows.truncate(groups);
    LocalGroups { groups: numbers.iter().map(|number| of_numbers[index(number)]).collect(), first_rows }
}

/// A hash table of numbers. A slot holds both number and group, so finding one takes a single memory access.
struct SlotTable {
    /// The number, and in the lowest bits one more than its group; 0 is a free slot.
    slots: Vec<u64>,
    len: usize,
}

impl SlotTable {
    /// Bits of a group number; a block has fewer rows.
    const PLACE_BITS: u32 = 20;
    const NUMBER_BITS_MAX: u32 = 64 - SlotTable::PLACE_BITS;
    const ROWS_MAX: usize = (1 << SlotTable::PLACE_BITS) - 1;

    /// The groups of the numbers; `None` if hardly any of the first eighth is met twice.
    fn places(mut numbers: impl ExactSizeIterator<Item = u64>) -> Option<LocalGroups> {
        let rows = numbers.len();
        let mut table = SlotTable { slots: vec![0; (rows * 2).next_power_of_two().clamp(1 << 8, 1 << 14)], len: 0 };
        let mut found = LocalGroups { groups: Vec::with_capacity(rows), first_rows: Vec::new() };
        let (mut some, mut hashes) = ([0; LOOKUPS_AT_ONCE], [0; LOOKUPS_AT_ONCE]);
        for start in (0..rows).step_by(LOOKUPS_AT_ONCE) {
            let count = LOOKUPS_AT_ONCE.min(rows - start);
            let mask = table.slots.len() as u64 - 1;
            let mut glances = 0;
            // First only read the slots, without a branch. `black_box` must keep the compiler from dropping these
            // reads.
            for ((number, hash), next) in some.iter_mut().zip(&mut hashes).zip(numbers.by_ref().take(count)) {
                (*number, *hash) = (next, mix(next));
                glances ^= table.slots[(*hash & mask) as usize];
            }
            std::hint::black_box(glances);
            for (row, (number, hash)) in some.iter().zip(&hashes).take(count).enumerate() {
                let place = table.place(*number, *hash);
                if place == found.first_rows.len() {
                    found.first_rows.push((start + row) as u32);
                }
                found.groups.push(place as u32);
            }
            // Leave room for the next batch, so that `place` need not check the load of the table.
            if table.len + LOOKUPS_AT_ONCE > table.slots.len() / 2 {
                table.grow();
            }
            let met = start + count;
            let is_time_to_tell = met == (rows / 8).next_multiple_of(LOOKUPS_AT_ONCE) && met >= SAMPLE_ROWS;
            if is_time_to_tell && found.first_rows.len() * 16 > met * 15 {
                return None;
            }
        }
        Some(found)
    }

    #[inline]
    fn place(&mut self, number: u64, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            if self.slots[slot] >> SlotTable::PLACE_BITS == number {
                return (self.slots[slot] & SlotTable::ROWS_MAX as u64) as usize - 1;
            }
            slot = (slot + 1) & mask;
        }
        self.len += 1;
        self.slots[slot] = number << SlotTable::PLACE_BITS | self.len as u64;
        self.len - 1
    }

    #[cold]
    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        let before = std::mem::replace(&mut self.slots, vec![0; mask + 1]);
        for known in before.into_iter().filter(|known| *known != 0) {
            let mut slot = mix(known >> SlotTable::PLACE_BITS) as usize & mask;
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = known;
        }
    }
}

fn places_of<T: PartialEq>(values: &[T], hash: impl Fn(&T) -> u64) -> LocalGroups {
    let mut table = LocalPlaces::new();
    let mut groups = Vec::with_capacity(values.len());
    let mut last: Option<(&T, u32)> = None;
    for (row, value) in values.iter().enumerate() {
        // Neighbours are often alike, for example the hours of events. They need no lookup.
        let group = match last {
            Some((before, group)) if before == value => group,
            _ => table.place(hash(value), row as u32, |other| values[other as usize] == *value),
        };
        groups.push(group);
        last = Some((value, group));
    }
    LocalGroups { groups, first_rows: table.first_rows }
}

/// The index of each text among the distinct ones. NULL is one of them.
fn places_of_texts(texts: &BinaryViewArray) -> LocalGroups {
    let mut table = LocalPlaces::new();
    let value = |row: usize| texts.is_valid(row).then(|| texts.value(row));
    let place = |row: usize| {
        let text = value(row);
        let hash = hash_of_bytes(text.unwrap_or_default(), u64::from(text.is_some()));
        table.place(hash, row as u32, |other| value(other as usize) == text)
    };
    let groups = (0..texts.len()).map(place).collect();
    LocalGroups { groups, first_rows: table.first_rows }
}

/// A hash table from values, which stay in their array, to the order in which they were met.
struct LocalPlaces {
    /// One more than an index into the other two; 0 is free.
    slots: Vec<u32>,
    hashes: Vec<u64>,
    first_rows: Vec<u32>,
}

impl LocalPlaces {
    /// We start small because many rows often have few values.
    fn new() -> LocalPlaces {
        LocalPlaces { slots: vec![0; 1024], hashes: Vec::new(), first_rows: Vec::new() }
    }

    #[inline]
    fn place(&mut self, hash: u64, row: u32, is_same: impl Fn(u32) -> bool) -> u32 {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            let place = self.slots[slot] as usize - 1;
            if self.hashes[place] == hash && is_same(self.first_rows[place]) {
                return place as u32;
            }
            slot = (slot + 1) & mask;
        }
        let place = self.first_rows.len() as u32;
        self.hashes.push(hash);
        self.first_rows.push(row);
        self.slots[slot] = place + 1;
        if self.first_rows.len() * 2 > self.slots.len() {
            self.grow();
        }
        place
    }

    #[cold]
    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        self.slots = vec![0; mask + 1];
        for (place, hash) in self.hashes.iter().enumerate() {
            let mut slot = *hash as usize & mask;
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = place as u32 + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Float64Array, Int32Array, Int64Array, StringViewArray, UInt8Array};

    fn of(values: ArrayRef) -> PartValues {
        PartValues { values, codes: None, is_list: false }
    }

    #[test]
    fn all_alike_rows_are_together_even_if_there_are_few() {
        // Hardly any pair of keys is met twice. The blocks have different lengths.
        for rows in [1, 100, 40_000, 300_000_usize] {
            let first: Vec<u32> = (0..rows).map(|row| (row * 7_919 % 1_000) as u32).collect();
            let second: Vec<i64> = (0..rows).map(|row| (row / 2 * 31 % (rows / 3 + 1)) as i64 * 3_600).collect();
            let keys = [
                PartValues {
                    codes: Some(Arc::new(first.clone())),
                    is_list: true,
                    ..of(Arc::new(Int64Array::from_iter_values(0..1_000)))
                },
                of(Arc::new(Int64Array::from(second.clone()))),
            ];
            let found = group_all(&keys, rows).expect("keys of a supported type");
            let mut known = std::collections::HashMap::new();
            for row in 0..rows {
                let group = *known.entry((first[row], second[row])).or_insert(found.groups[row]);
                assert_eq!(group, found.groups[row], "row {row} of {rows}");
                let first_row = found.first_rows[group as usize] as usize;
                assert!(first_row <= row && found.groups[first_row] == group);
            }
            assert_eq!(known.len(), found.first_rows.len());
        }
    }

    #[test]
    fn numbers_of_a_narrow_range_have_few_bits() {
        let check = |values: ArrayRef, bits: u32| {
            let found = numbers_of_values(&values).expect("a supported type");
            assert_eq!(found.bits, bits, "{values:?}");
            let numbers: Vec<u64> = match &found.of_rows {
                OfRows::Codes(codes) => codes.iter().map(|code| u64::from(*code)).collect(),
                OfRows::Numbers(numbers) => numbers.to_vec(),
            };
            assert!(numbers.iter().all(|number| bits == 64 || number >> bits == 0));
            let shown: Vec<String> = (0..values.len()).map(|row| format!("{:?}", values.slice(row, 1))).collect();
            for (one, other) in (0..shown.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
                assert_eq!(
                    numbers[one] == numbers[other],
                    shown[one] == shown[other],
                    "{} {}",
                    shown[one],
                    shown[other]
                );
            }
        };
        check(Arc::new(Int64Array::from(vec![2000, 2003, 2001, 2003])), 2);
        check(Arc::new(Int64Array::from(vec![Some(-2), None, Some(1), Some(-1), None])), 3);
        check(Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX, 0])), 64);
        check(Arc::new(Int64Array::from(vec![None, None::<i64>])), 0);
        check(Arc::new(UInt8Array::from(vec![0, 255, 7])), 8);
        check(Arc::new(Int32Array::from(vec![Some(i32::MIN), Some(i32::MAX), None])), 33);
        check(Arc::new(Decimal128Array::from(vec![Some(-5), Some(1_000_000), None, Some(-5)])), 20);
        check(Arc::new(Float64Array::from(vec![0.5, -0.5, 0.0, -0.0].into_iter().take(3).collect::<Vec<_>>())), 64);
        // These do not fit 64 bits, so each value has a number of its own.
        check(Arc::new(Decimal128Array::from(vec![Some(i128::from(i64::MAX) * 9), None, Some(-5), Some(-5)])), 2);
        check(Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX), Some(i64::MIN)])), 2);
    }

    #[test]
    fn rows_are_together_exactly_if_their_keys_are_equal() {
        let numbers: Vec<Option<i64>> =
            (0..5_000_i64).map(|row| (row % 7 != 0).then_some(row * row % 1_000 * i64::MAX / 1_000)).collect();
        let texts: Vec<Option<String>> =
            (0..5_000).map(|row| (row % 5 != 0).then(|| format!("text number {}", row % 300))).collect();
        let keys = [
            of(Arc::new(Int64Array::from(numbers.clone()))),
            of(Arc::new(StringViewArray::from_iter(texts.clone()))),
            PartValues {
                codes: Some(Arc::new((0..5_000).map(|row| row % 2).collect())),
                ..of(Arc::new(Int64Array::from(vec![4, 9])))
            },
        ];
        for count in 1..=3 {
            let found = group(&keys[..count], 5_000).expect("keys of a supported type").expect("many are alike");
            let mut known = std::collections::HashMap::new();
            for row in 0..5_000_usize {
                let key = (numbers[row], texts[row].clone().filter(|_| count > 1), if count > 2 { row % 2 } else { 0 });
                let key = if count > 1 { (key.0, Some(key.1), key.2) } else { (key.0, None, 0) };
                let group = known.entry(key).or_insert(found.groups[row]);
                assert_eq!(*group, found.groups[row], "row {row} of {count} keys");
            }
            assert_eq!(known.len(), found.first_rows.len());
        }
    }
}
