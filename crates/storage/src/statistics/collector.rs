//! Collects statistics from rows, one row after another.
//!
//! Rows, NULLs and distinct values are counted over all rows. Frequent values and the histogram come from a sample in
//! which every row is equally likely (Vitter: Random sampling with a reservoir, 1985). With this sample size, each
//! bound of 100 buckets is within half a bucket of its true place (Chaudhuri, Motwani, Narasayya: Random sampling for
//! histogram construction, 1998), for tables of any size. The random numbers are always the same, so that the same rows
//! give the same statistics.

use rapidhash::v3::rapidhash_v3;
use rowmill_base::{ColumnId, IndexId};

use super::registers::Registers;
use super::value_keys::{ValueKeys, shorten};
use super::{BUCKETS_MAX, ColumnStatistics, FREQUENT_MAX, TableStatistics};
use crate::keyed::ValueRef;
use crate::schema::ColumnDef;

/// The number of rows of the sample: 300 for each bucket of the histogram, as in PostgreSQL. By Chaudhuri, Motwani and
/// Narasayya, "Random sampling for histogram construction" (1998), a bucket of a million rows then differs from an
/// equal one by at most half, with a probability of 99 %. The statistics of a smaller table are exact.
pub const SAMPLE_ROWS: usize = 30_000;

/// A value is frequent if it has at least this many times the average number of rows.
const FREQUENT_TIMES: f64 = 1.25;
/// The number of times that a sample must have a value that is frequent. With fewer, the true share could easily be
/// half or twice as much.
const SEEN_MIN: usize = 8;

/// In a sampled row, this byte replaces the length of a value that is NULL or whose type has no keys.
const NO_VALUE: u8 = u8::MAX;

/// Makes statistics of the rows that are pushed.
#[derive(Debug)]
pub struct StatisticsCollector {
    columns: Vec<Collected>,
    rows: u64,
    /// The sampled rows. Each has, for every column, the length of its key (1 byte) and the key.
    sample: Vec<Vec<u8>>,
    sample_bytes: usize,
    random: u64,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Collected {
    id: ColumnId,
    keys: ValueKeys,
    nulls: u64,
    registers: Registers,
}

impl StatisticsCollector {
    /// Makes a collector for rows with these columns.
    pub fn new<'c>(columns: impl IntoIterator<Item = &'c ColumnDef>) -> StatisticsCollector {
        let of = |column: &ColumnDef| {
            let keys = ValueKeys::new(&column.kind);
            Collected { id: column.id, keys, nulls: 0, registers: Registers::new() }
        };
        StatisticsCollector {
            columns: columns.into_iter().map(of).collect(),
            rows: 0,
            sample: Vec::new(),
            sample_bytes: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            scratch: Vec::new(),
        }
    }

    /// The approximate memory of the collector in bytes.
    pub fn bytes(&self) -> u64 {
        let registers = self.columns.len() * Registers::BYTES;
        (registers + self.sample.capacity() * size_of::<Vec<u8>>() + self.sample_bytes) as u64
    }

    /// Adds a row. `values` must have the value of each column, in order.
    pub fn push<'v>(&mut self, values: impl IntoIterator<Item = ValueRef<'v>>) {
        self.rows += 1;
        let mut row = self.place();
        // The replaced row's buffer is reused, so its memory must be counted again afterwards.
        if let Some(row) = &mut row {
            self.sample_bytes -= row.capacity();
            row.clear();
        }
        let mut values = values.into_iter();
        for column in &mut self.columns {
            let value = values.next().expect("a row should have a value for each column");
            let is_there = column.keys.write_whole(value, &mut self.scratch);
            match is_there {
                // The hash must cover the whole value, before it is shortened for the sample.
                true => column.registers.put(rapidhash_v3(&self.scratch)),
                false => column.nulls += u64::from(value.is_null()),
            }
            let Some(row) = &mut row else { continue };
            if is_there && column.keys.is_ordered() {
                shorten(&mut self.scratch);
                row.push(self.scratch.len() as u8);
                row.extend_from_slice(&self.scratch);
            } else {
                row.push(NO_VALUE);
            }
        }
        if let Some(row) = row {
            self.sample_bytes += row.capacity();
            self.sample.push(row);
        }
    }

    /// Chooses whether the next row enters the sample. Returns its buffer, which may be that of the row that it
    /// replaces. `None` if the row is not sampled.
    fn place(&mut self) -> Option<Vec<u8>> {
        if self.sample.len() < SAMPLE_ROWS {
            return Some(Vec::new());
        }
        // Row number `n` enters with probability sample / n. This keeps all rows so far equally likely.
        let chosen = self.random_below(self.rows);
        (chosen < SAMPLE_ROWS as u64).then(|| self.sample.swap_remove(chosen as usize))
    }

    /// A random number below `end`. Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
    fn random_below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        ((u128::from(bits) * u128::from(end)) >> 64) as u64
    }

    /// Finishes the statistics of the rows, which are stored under `index`.
    pub fn finish(self, index: IndexId) -> TableStatistics {
        let StatisticsCollector { columns, rows, sample, .. } = self;
        // The offset of the next column in each sampled row.
        let mut places = vec![0; sample.len()];
        let mut columns: Vec<ColumnStatistics> = columns
            .into_iter()
            .map(|column| {
                let mut keys = Vec::with_capacity(sample.len());
                for (row, place) in sample.iter().zip(&mut places) {
                    let len = row[*place];
                    *place += 1;
                    if len != NO_VALUE {
                        keys.push(&row[*place..*place + usize::from(len)]);
                        *place += usize::from(len);
                    }
                }
                column.finish(rows, keys)
            })
            .collect();
        columns.sort_unstable_by_key(|column| column.column);
        TableStatistics { index, rows, columns }
    }
}

impl Collected {
    /// Finishes one column. `keys` are its keys in the sample, and `rows` is the number of all rows.
    fn finish(self, rows: u64, mut keys: Vec<&[u8]>) -> ColumnStatistics {
        keys.sort_unstable();
        let groups: Vec<&[&[u8]]> = keys.chunk_by(|one, other| one == other).collect();
        // The sample has every row, so its counts are exact.
        let is_complete = rows <= SAMPLE_ROWS as u64;
        // An estimate may be too low or too high. The sample gives a lower limit, and the rows with a value an upper
        // one.
        let (least, most) = (groups.len() as u64, (rows - self.nulls).max(groups.len() as u64));
        let distinct = match is_complete && self.keys.is_ordered() {
            true => least,
            false => (self.registers.estimate().round() as u64).clamp(least, most),
        };
        let null_share = self.nulls as f64 / rows.max(1) as f64;
        let is_frequent = frequent_of(&groups, keys.len(), distinct, is_complete);
        let share = |count: usize| count as f64 / keys.len() as f64 * (1.0 - null_share);
        let of_groups = || groups.iter().zip(&is_frequent);
        let frequent = of_groups().filter(|(_, is_frequent)| **is_frequent);
        let frequent = frequent.map(|(group, _)| (group[0].to_vec(), share(group.len()))).collect();
        let others: Vec<&[u8]> =
            of_groups().filter(|(_, is_frequent)| !**is_frequent).flat_map(|(group, _)| *group).copied().collect();
        ColumnStatistics { column: self.id, null_share, distinct, frequent, bounds: bounds_of(&others) }
    }
}

/// Decides which values of a sample are frequent. `groups` has the equal values of the sample. If there are few values
/// and these are probably all, all of them are frequent. Otherwise a value is frequent if it is clearly more frequent
/// than the average, or fills a bucket of the histogram.
fn frequent_of(groups: &[&[&[u8]]], values: usize, distinct: u64, is_complete: bool) -> Vec<bool> {
    let seen_min = if is_complete { 2 } else { SEEN_MIN };
    // If every sampled value occurred several times, a value that is not in the sample is unlikely.
    let are_all = groups.len() <= FREQUENT_MAX && (is_complete || groups.iter().all(|group| group.len() >= seen_min));
    if are_all {
        return vec![true; groups.len()];
    }
    let average = values as f64 / distinct.max(1) as f64;
    let least = (average * FREQUENT_TIMES).min(values as f64 / BUCKETS_MAX as f64).max(seen_min as f64);
    let mut chosen: Vec<usize> = (0..groups.len()).filter(|at| groups[*at].len() as f64 >= least).collect();
    // Keep the most frequent ones if there are too many.
    chosen.sort_by_key(|at| std::cmp::Reverse(groups[*at].len()));
    chosen.truncate(FREQUENT_MAX);
    let mut is_frequent = vec![false; groups.len()];
    chosen.into_iter().for_each(|at| is_frequent[at] = true);
    is_frequent
}

/// Picks the bounds of equal buckets from `values`, which must be sorted.
fn bounds_of(values: &[&[u8]]) -> Vec<Vec<u8>> {
    let Some(last) = values.len().checked_sub(1) else { return Vec::new() };
    let buckets = BUCKETS_MAX.min(last);
    let at = |bound: usize| (bound * last).checked_div(buckets).unwrap_or_default();
    (0..=buckets).map(|bound| values[at(bound)].to_vec()).collect()
}
