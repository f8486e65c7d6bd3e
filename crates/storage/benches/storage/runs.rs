//! Compares skipping by runs of equal rows with testing each row.
//!
//! For each row, a byte next to the value says how many rows from this one on are equal, at most 255. If a value fails,
//! its whole run is skipped. The processor tests many rows at a time in a plain loop, so runs pay only from about five
//! to ten rows on. Stored runs (`list+runs`) do not need a byte per row.

use criterion::{Criterion, Throughput};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::size;

/// Makes values in runs of `run_rows` rows on average, and for each row the number of equal rows from it on.
fn column(rows: usize, run_rows: usize) -> (Vec<u32>, Vec<u8>) {
    let rng = &mut SmallRng::seed_from_u64(run_rows as u64);
    let mut values = Vec::with_capacity(rows);
    while values.len() < rows {
        let run = rng.random_range(1..=2 * run_rows - 1).min(rows - values.len());
        let value = rng.random_range(0..100);
        values.extend(std::iter::repeat_n(value, run));
    }
    let mut equal = vec![1_u8; rows];
    // Backwards, because the count of a row builds on that of the next one.
    for row in (0..rows - 1).rev() {
        if values[row] == values[row + 1] {
            equal[row] = equal[row + 1].saturating_add(1);
        }
    }
    (values, equal)
}

/// Marks the rows with the value `wanted` as bits.
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
