//! `cargo bench -p rowmill-txn` measures. `cargo test` runs every bench once on few rows, so that the benches keep
//! working.

// A bench should stop at the first failure.
#![allow(clippy::unwrap_used)]

mod versions;

use criterion::{Criterion, criterion_group, criterion_main};

/// Returns `full` when measuring and `few` in tests. Only `cargo bench` passes `--bench`.
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
    name = txn;
    config = short();
    targets = versions::benches
}
criterion_main!(txn);
