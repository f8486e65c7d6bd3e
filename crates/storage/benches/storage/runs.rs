//! Skipping by runs of equal rows against testing each row.
//!
//! Beside the values stands for each row how many rows from it on are equal, 255 at most: a byte. A value that fails is
//! passed over with its run. Testing each row is a loop that the processor does many rows of at a time, so that runs pay
//! only from some five to ten rows on; stored runs ([`Encoding::ListRuns`](rowmill_storage::chunk::Encoding)) need no byte a row.

use criterion::{Criterion, Throughput};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::size;

/// Values in runs of so many rows on average, and for each row how many are equal from it on.
fn column(rows: usize, run_rows: usize) -> (Vec<u32>, Vec<u8>) {
    let rng = &mut SmallRng::seed_from_u64(run_rows as u64);
    let mut values = Vec::with_capacity(rows);
    while values.len() < rows {
        let run = rng.random_range(1..=2 * run_rows - 1).min(rows - values.len());
        let value = rng.random_range(0..100);
        values.extend(std::iter::repeat_n(value, run));
    }
    let mut equal = vec![1_u8; rows];
    for row in (0..rows - 1).rev() {
        if values[row] == values[row + 1] {
            equal[row] = equal[row + 1].saturating_add(1);
        }
    }
    (values, equal)
}

/// The rows that have `wanted`, as bits.
fn by_rows(values: &[u32], wanted: u32, bits: &mut [u64]) {
    for (word, values) in bits.iter_mut().zip(values.chunks(64)) {
        *word = values.iter().rev().fold(0, |word, value| word << 1 | u64::from(*value == wanted));
    }
}

fn by_runs(values: &[u32], equal: &[u8], wanted: u32, bits: &mut [u64]) {
    bits.fill(0);
    let mut row = 0;
    while row < values.len() {
        let end = row + usize::from(equal[row]);
        if values[row] == wanted {
            (row..end).for_each(|row| bits[row / 64] |= 1 << (row % 64));
        }
        row = end;
    }
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let rows = size(1 << 19, 1 << 12);
    let mut group = criterion.benchmark_group("runs");
    group.throughput(Throughput::Elements(rows as u64));
    for run_rows in [1, 4, 16, 64, 255] {
        let (values, equal) = column(rows, run_rows);
        let mut expected = vec![0; rows.div_ceil(64)];
        by_rows(&values, 42, &mut expected);
        let mut bits = expected.clone();
        group.bench_function(format!("each row, runs of {run_rows}"), |bencher| {
            bencher.iter(|| by_rows(&values, 42, &mut bits));
        });
        assert_eq!(bits, expected);
        group.bench_function(format!("by runs, runs of {run_rows}"), |bencher| {
            bencher.iter(|| by_runs(&values, &equal, 42, &mut bits));
        });
        assert_eq!(bits, expected);
    }
    group.finish();
}
