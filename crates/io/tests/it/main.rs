//! What every disk must do, run over each of them.

#![allow(clippy::unwrap_used)]

mod conformance;

use std::sync::Arc;

use rowmill_io::{MemoryDisk, RealDisk};

#[test]
fn real_disk_conforms() {
    let dir = tempfile::tempdir().unwrap();
    conformance::disk_conformance(Arc::new(RealDisk::new(dir.path())));
}

#[test]
fn memory_disk_conforms() {
    conformance::disk_conformance(Arc::new(MemoryDisk::new()));
}
