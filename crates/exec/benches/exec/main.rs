//! `cargo bench -p rowmill-exec` measures; `cargo test` runs every bench once on few rows, so that none rots.
//!
//! Operators run over a stored table or over batches in memory, by one worker: how work is shared is not measured here.

// A bench stops at what is not as it should be.
#![allow(clippy::unwrap_used)]

mod groups;
mod joins;
mod scans;
mod sorts;
mod table;
mod windows;

use criterion::{Criterion, criterion_group, criterion_main};

/// `full` rows when measuring, `few` within the tests. Only `cargo bench` passes `--bench`.
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
