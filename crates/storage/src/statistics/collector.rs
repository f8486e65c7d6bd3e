//! Statistics out of rows, one after the other.
//!
//! Rows, NULLs and different values are counted over all rows; frequent values and the histogram come of a sample in which each row
//! is as likely as any other (Vitter: Random sampling with a reservoir, 1985). So many rows as it has place each bound of 100 buckets
//! within half a bucket (Chaudhuri, Motwani, Narasayya: Random sampling for histogram construction, 1998), whatever the table is. Its
//! random numbers are always the same ones: the same rows have the same statistics.

use rapidhash::v3::rapidhash_v3;
use rowmill_base::{ColumnId, IndexId};

use super::registers::Registers;
use super::value_keys::{ValueKeys, shorten};
use super::{BUCKETS_MAX, ColumnStatistics, FREQUENT_MAX, TableStatistics};
use crate::keyed::ValueRef;
use crate::schema::ColumnDef;

/// Rows of the sample: a table of fewer is known exactly.
pub const SAMPLE_ROWS: usize = 30_000;

/// How many times the average a value is there that is frequent.
const FREQUENT_TIMES: f64 = 1.25;
/// How often a sample has a value that is frequent. Of fewer its share would be half as much, or twice, as like as not.
const SEEN_MIN: usize = 8;

/// In a row of the sample, instead of the length of a value: it is NULL, or of a type without keys.
const NO_VALUE: u8 = u8::MAX;

/// Makes statistics of the rows that it is given.
#[derive(Debug)]
pub struct StatisticsCollector {
    columns: Vec<Collected>,
    rows: u64,
    /// Rows: of each column the length of its key (1) and the key.
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
    /// For rows with these columns.
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

    /// About how much memory it has.
    pub fn bytes(&self) -> u64 {
        let registers = self.columns.len() * Registers::BYTES;
        (registers + self.sample.capacity() * size_of::<Vec<u8>>() + self.sample_bytes) as u64
    }

    /// Adds a row: the value of each of the columns, in their order.
    pub fn push<'v>(&mut self, values: impl IntoIterator<Item = ValueRef<'v>>) {
        self.rows += 1;
        let mut row = self.place();
        if let Some(row) = &mut row {
            self.sample_bytes -= row.capacity();
            row.clear();
        }
        let mut values = values.into_iter();
        for column in &mut self.columns {
            let value = values.next().expect("a row has a value of each column");
            let is_there = column.keys.write_whole(value, &mut self.scratch);
            match is_there {
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

    /// What the next row of the sample is put into, which is taken out of it; `None` if the row is not to be one.
    fn place(&mut self) -> Option<Vec<u8>> {
        if self.sample.len() < SAMPLE_ROWS {
            return Some(Vec::new());
        }
        let chosen = self.random_below(self.rows);
        (chosen < SAMPLE_ROWS as u64).then(|| self.sample.swap_remove(chosen as usize))
    }

    /// Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
    fn random_below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        ((u128::from(bits) * u128::from(end)) >> 64) as u64
    }

    /// The statistics of the rows, which lie under `index`.
    pub fn finish(self, index: IndexId) -> TableStatistics {
        let StatisticsCollector { columns, rows, sample, .. } = self;
        // Where the next column begins in each row of the sample.
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
    /// `keys` are those of the sample, of whose rows `rows` are as many as there are all together or more.
    fn finish(self, rows: u64, mut keys: Vec<&[u8]>) -> ColumnStatistics {
        keys.sort_unstable();
        let groups: Vec<&[&[u8]]> = keys.chunk_by(|one, other| one == other).collect();
        let is_complete = rows <= SAMPLE_ROWS as u64;
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

/// Which of the values of a sample, in `groups` of equal ones, are frequent: all, if those are few and likely to be all there are;
/// otherwise those that are clearly there more often than the average of the table, or fill a bucket of the histogram.
fn frequent_of(groups: &[&[&[u8]]], values: usize, distinct: u64, is_complete: bool) -> Vec<bool> {
    let seen_min = if is_complete { 2 } else { SEEN_MIN };
    let are_all = groups.len() <= FREQUENT_MAX && (is_complete || groups.iter().all(|group| group.len() >= seen_min));
    if are_all {
        return vec![true; groups.len()];
    }
    let average = values as f64 / distinct.max(1) as f64;
    let least = (average * FREQUENT_TIMES).min(values as f64 / BUCKETS_MAX as f64).max(seen_min as f64);
    let mut chosen: Vec<usize> = (0..groups.len()).filter(|at| groups[*at].len() as f64 >= least).collect();
    chosen.sort_by_key(|at| std::cmp::Reverse(groups[*at].len()));
    chosen.truncate(FREQUENT_MAX);
    let mut is_frequent = vec![false; groups.len()];
    chosen.into_iter().for_each(|at| is_frequent[at] = true);
    is_frequent
}

/// Those of `values`, which are in order, between which lie as many each.
fn bounds_of(values: &[&[u8]]) -> Vec<Vec<u8>> {
    let Some(last) = values.len().checked_sub(1) else { return Vec::new() };
    let buckets = BUCKETS_MAX.min(last);
    let at = |bound: usize| (bound * last).checked_div(buckets).unwrap_or_default();
    (0..=buckets).map(|bound| values[at(bound)].to_vec()).collect()
}
