//! The order of the rows of one slice of time: by key, then by bucket.
//!
//! Keys are compared by numbers that they get in the order of their first rows. A slice has many rows of few keys, so
//! rows whose keys have the same bits as a row before take its number, and only the others are converted to bytes and
//! looked up.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{ArrowNativeType, DataType};
use rowmill_base::Result;

use super::sliced::failed;
use crate::hash::mix;
use crate::row_keys::RowKeys;
use crate::row_set::RowSet;
use crate::window::{WindowEntry, sort_entries};

/// The slots that find a row with the same bits, as a power of two. They take 64 KiB, a part of the second cache.
const CANDIDATE_SLOT_BITS: u32 = 14;

/// Rows, and how many rows for each of them, before which we do not decide whether most keys have their own bits.
const CANDIDATE_ROWS_MIN: usize = 1 << 12;

/// The numbers of the keys in the columns, one for each of `rows` rows: their places in `known`.
pub(super) fn key_numbers(columns: &[ArrayRef], rows: usize, keys: &RowKeys, known: &mut RowSet) -> Result<Vec<u32>> {
    let candidates = match columns {
        [column] => KeyCandidates::of(column),
        _ => None,
    };
    let Some(KeyCandidates { rows, mut of_rows }) = candidates else {
        let encoded = keys.encode(columns)?;
        return Ok((0..rows).map(|row| known.insert(encoded.get(row)).0 as u32).collect());
    };
    let count = rows.len();
    let encoded = keys.encode(&[take(&columns[0], &UInt32Array::from(rows), None).map_err(failed)?])?;
    let numbers: Vec<u32> = (0..count).map(|row| known.insert(encoded.get(row)).0 as u32).collect();
    of_rows.iter_mut().for_each(|number| *number = numbers[*number as usize]);
    Ok(of_rows)
}

/// Rows that have all keys of a column. Two of them may have the same key.
struct KeyCandidates {
    /// The candidates.
    rows: Vec<u32>,
    /// For each row the place of its candidate in `rows`, which has the same bits.
    of_rows: Vec<u32>,
}

impl KeyCandidates {
    /// Returns `None` if rows cannot be compared by a few bits, or if most rows would be candidates.
    fn of(column: &ArrayRef) -> Option<KeyCandidates> {
        if column.null_count() > 0 {
            return None;
        }
        // Bits of a view that name a longer text are equal only if the text is the same one.
        let data = column.to_data();
        match column.data_type() {
            DataType::Utf8View | DataType::BinaryView => {
                Self::of_bits(&data.buffer::<u128>(0)[..data.len()], |view| (view >> 64) as u64 ^ view as u64)
            }
            kind => match kind.primitive_width()? {
                4 => Self::of_bits(&data.buffer::<u32>(0)[..data.len()], u64::from),
                8 => Self::of_bits(&data.buffer::<u64>(0)[..data.len()], |bits| bits),
                _ => None,
            },
        }
    }

    fn of_bits<T: ArrowNativeType>(values: &[T], word: impl Fn(T) -> u64) -> Option<KeyCandidates> {
        let mut slots = vec![0_u32; 1 << CANDIDATE_SLOT_BITS];
        let (mut rows, mut bits): (Vec<u32>, Vec<T>) = (Vec::new(), Vec::new());
        let mut of_rows = Vec::with_capacity(values.len());
        for (row, value) in values.iter().enumerate() {
            let slot = &mut slots[(mix(word(*value)) >> (u64::BITS - CANDIDATE_SLOT_BITS)) as usize];
            if bits.get(*slot as usize) != Some(value) {
                if rows.len() > CANDIDATE_ROWS_MIN + row / 2 {
                    return None;
                }
                *slot = rows.len() as u32;
                rows.push(row as u32);
                bits.push(*value);
            }
            of_rows.push(*slot);
        }
        Some(KeyCandidates { rows, of_rows })
    }
}

/// The rows of a slice in order.
pub(super) struct SliceOrder {
    /// The number of each row's key.
    keys: Vec<u32>,
    rows: Vec<u32>,
    /// The beginning of each row's bucket.
    ticks: Vec<i64>,
}

/// The rows of one key in the order of their buckets.
pub(super) struct KeyedRows<'a> {
    pub(super) key: u32,
    pub(super) rows: &'a [u32],
    pub(super) ticks: &'a [i64],
}

impl SliceOrder {
    /// Sorts rows by the numbers of their keys, which are places in `known`, and their buckets. The set holds the
    /// memory of the order.
    pub(super) fn of(numbers: &[u32], ticks: &[i64], known: &mut RowSet) -> Result<SliceOrder> {
        let first = ticks.iter().min().copied().unwrap_or_default();
        // Beginnings of buckets are multiples of many units, so their last bits are often the same.
        let used = ticks.iter().fold(0, |used, ticks| used | ticks.abs_diff(first));
        let unused = if used == 0 { 0 } else { used.trailing_zeros() };
        let place = |ticks: &i64| ticks.abs_diff(first) >> unused;
        let ticks_of = |place: u64| first.wrapping_add_unsigned(place << unused);
        let bits = BitsOfEntries {
            key: width(known.len() as u64),
            bucket: width(used >> unused),
            row: width(ticks.len() as u64),
        };
        if bits.all() <= u64::BITS {
            SliceOrder::sorted::<u64>(numbers, ticks.iter().map(place), ticks_of, bits, known)
        } else {
            SliceOrder::sorted::<u128>(numbers, ticks.iter().map(place), ticks_of, bits, known)
        }
    }

    fn sorted<E: WindowEntry>(
        numbers: &[u32],
        buckets: impl Iterator<Item = u64>,
        ticks_of: impl Fn(u64) -> i64,
        bits: BitsOfEntries,
        known: &mut RowSet,
    ) -> Result<SliceOrder> {
        let above_row = bits.bucket + bits.row;
        let entry = |((row, number), bucket): ((u64, &u32), u64)| {
            E::of(u64::from(*number), above_row).with(E::of(bucket, bits.row)).with(E::of(row, 0))
        };
        let mut entries: Vec<E> = (0..).zip(numbers).zip(buckets).map(entry).collect();
        let mut scratch = Vec::new();
        sort_entries(&mut entries, &mut scratch, bits.row, bits.all());
        known.account((entries.capacity() + scratch.capacity()) * size_of::<E>())?;
        drop(scratch);
        Ok(SliceOrder {
            keys: entries.iter().map(|entry| entry.above(above_row).low() as u32).collect(),
            rows: entries.iter().map(|entry| entry.below(bits.row).low() as u32).collect(),
            ticks: entries.iter().map(|entry| ticks_of(entry.below(above_row).above(bits.row).low())).collect(),
        })
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The keys that have rows, with their rows.
    pub(super) fn of_keys(&self) -> impl Iterator<Item = KeyedRows<'_>> {
        let mut end = 0;
        self.keys.chunk_by(|one, next| one == next).map(move |keys| {
            let places = end..end + keys.len();
            end = places.end;
            KeyedRows { key: keys[0], rows: &self.rows[places.clone()], ticks: &self.ticks[places] }
        })
    }
}

/// The widths of the parts of an entry, from the highest one on.
#[derive(Clone, Copy)]
struct BitsOfEntries {
    key: u32,
    bucket: u32,
    row: u32,
}

impl BitsOfEntries {
    fn all(self) -> u32 {
        self.key + self.bucket + self.row
    }
}

/// The bits that a number takes.
fn width(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int32Array, Int64Array, StringViewArray};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use rowmill_base::Broker;

    use super::*;

    fn known() -> RowSet {
        RowSet::new(Broker::new(1 << 30).reservation("a test"))
    }

    /// The numbers of keys must be the same exactly where `texts` are.
    fn check(columns: &[ArrayRef], texts: &[String]) {
        let keys = RowKeys::new(columns.iter().map(|column| column.data_type().clone())).expect("types of keys");
        let mut set = known();
        let numbers = key_numbers(columns, texts.len(), &keys, &mut set).expect("keys");
        let mut of_text: HashMap<&str, u32> = HashMap::new();
        for (text, number) in texts.iter().zip(&numbers) {
            assert_eq!(of_text.entry(text).or_insert(*number), number, "{text}");
        }
        assert_eq!(of_text.len(), set.len());
    }

    #[test]
    fn equal_keys_have_equal_numbers_whatever_their_bits() {
        let random = &mut SmallRng::seed_from_u64(5);
        // With many distinct keys, rows are not compared by their bits.
        for distinct in [1, 3, 1_000, 40_000] {
            let rows: Vec<i64> = (0..60_000).map(|_| random.random_range(0..distinct)).collect();
            let with_nulls = |row: &i64| (row % 7 > 0).then_some(*row);
            let texts: Vec<String> = rows.iter().map(i64::to_string).collect();
            let long = |row: &i64| format!("a text of more than twelve bytes, {row}");
            let columns: [ArrayRef; 4] = [
                Arc::new(Int64Array::from(rows.clone())),
                Arc::new(rows.iter().map(|row| *row as i32).collect::<Int32Array>()),
                Arc::new(texts.iter().map(Some).collect::<StringViewArray>()),
                Arc::new(rows.iter().map(long).map(Some).collect::<StringViewArray>()),
            ];
            for column in &columns {
                check(std::slice::from_ref(column), &texts);
            }
            check(&[], &vec![String::new(); 10]);
            let column: ArrayRef = Arc::new(rows.iter().map(with_nulls).collect::<Int64Array>());
            let of_nulls: Vec<String> = rows.iter().map(|row| format!("{:?}", with_nulls(row))).collect();
            check(&[column], &of_nulls);
            let halves: ArrayRef = Arc::new(rows.iter().map(|row| row / 2).collect::<Int64Array>());
            let rests: ArrayRef = Arc::new(rows.iter().map(|row| row % 2).collect::<Int64Array>());
            check(&[halves, rests], &texts);
        }
        let floats = [0.0, -0.0, f64::NAN, -f64::NAN, 1.0];
        let column: ArrayRef = Arc::new((0..100).map(|row| Some(floats[row % 5])).collect::<Float64Array>());
        let texts: Vec<String> =
            (0..100).map(|row| ["zero", "zero", "nan", "nan", "one"][row % 5].to_owned()).collect();
        check(&[column], &texts);
    }

    #[test]
    fn rows_are_in_the_order_of_keys_and_buckets() {
        let random = &mut SmallRng::seed_from_u64(6);
        // The last of these needs entries of more than 64 bits.
        for (keys, unit) in [(1, 1), (5, 60_000_000_000), (900, 1 << 20), (70_000, 7_777_777_777_777)] {
            for rows in [0, 1, 10, 5_000] {
                let mut set = known();
                (0..keys).for_each(|key: u64| {
                    set.insert(&key.to_le_bytes());
                });
                let numbers: Vec<u32> = (0..rows).map(|_| random.random_range(0..keys) as u32).collect();
                let ticks: Vec<i64> = (0..rows).map(|_| random.random_range(-1_000..1_000) * unit).collect();
                let order = SliceOrder::of(&numbers, &ticks, &mut set).expect("memory");
                let mut expected: Vec<(u32, i64, u32)> =
                    (0..rows).map(|row| (numbers[row as usize], ticks[row as usize], row)).collect();
                expected.sort_unstable();
                let found = order.of_keys().flat_map(|KeyedRows { key, rows, ticks }| {
                    ticks.iter().zip(rows).map(move |(ticks, row)| (key, *ticks, *row))
                });
                assert_eq!(found.collect::<Vec<_>>(), expected);
                assert_eq!(order.len(), expected.len());
            }
        }
    }
}
