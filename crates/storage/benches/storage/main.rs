//! `cargo bench -p rowmill-storage` measures. `cargo test` runs every bench once on few rows, so that none of them
//! breaks unnoticed.

// A bench should stop when something unexpected happens.
#![allow(clippy::unwrap_used)]

mod encodings;
mod keyed;
mod mapping;
mod runs;

use criterion::{Criterion, criterion_group, criterion_main};

/// Returns `full` when measuring and `few` within the tests. Only `cargo bench` passes `--bench`.
fn size(full: usize, few: usize) -> usize {
    if std::env::args().any(|argument| argument == "--bench") { full } else { few }
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(600))
}

criterion_group! {
    name = storage;
    config = short();
    targets = encodings::benches, keyed::benches, mapping::benches, runs::benches
}
criterion_main!(storage);
