//! Benchmarks of operators. `cargo bench -p rowmill-exec` measures them. `cargo test` runs each of them once on few
//! rows, so that they keep working.
//!
//! Operators run over a stored table or over batches in memory, with one worker. How work is shared is not measured
//! here.

// A benchmark should stop at any failure.
#![allow(clippy::unwrap_used)]

mod groups;
mod joins;
mod scans;
mod sorts;
mod table;
mod windows;

use criterion::{Criterion, criterion_group, criterion_main};

/// Returns `full` rows when measuring and `few` in tests. Only `cargo bench` passes `--bench`.
fn size(full: usize, few: usize) -> usize {
    if std::env::args().any(|argument| argument == "--bench") { full } else { few }
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_secs(1))
}

criterion_group! {
    name = exec;
    config = short();
    targets = scans::benches, groups::benches, joins::benches, sorts::benches, windows::benches
}
criterion_main!(exec);
