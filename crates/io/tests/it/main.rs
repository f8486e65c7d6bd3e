//! Tests that every disk must pass.

#![allow(clippy::unwrap_used)]

mod conformance;
mod model;

use std::sync::Arc;

use rowmill_base::{ErrorKind, Result};
use rowmill_io::{Disk, FaultyDisk, Mapping, MemoryDisk, OpenMode, RealDisk};

/// A copy of mapped bytes.
#[allow(unsafe_code)]
fn copy_of(mapping: &Mapping, offset: u64, len: usize) -> Result<Vec<u8>> {
    // SAFETY: each test uses its disk from one thread, so no other thread writes while this one copies.
    unsafe { mapping.slice(offset, len) }.map(<[u8]>::to_vec)
}

#[test]
fn real_disk_conforms() {
    let dir = tempfile::tempdir().unwrap();
    conformance::disk_conformance(Arc::new(RealDisk::new(dir.path())));
}

#[test]
fn memory_disk_conforms() {
    conformance::disk_conformance(Arc::new(MemoryDisk::new()));
}

#[test]
fn faulty_disk_without_faults_conforms() {
    conformance::disk_conformance(Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new()))));
}

/// `populate` must find a cut that this process cannot know of. A plain touch would raise SIGBUS.
#[test]
fn populate_finds_a_file_that_another_process_has_cut() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(dir.path());
    disk.open("f", OpenMode::Create).unwrap().write_all_at(&[1; 100_000], 0).unwrap();
    let mapping = disk.map("f", 0).unwrap();
    copy_of(&mapping, 0, 100_000).unwrap();
    std::fs::File::options().write(true).open(dir.path().join("f")).unwrap().set_len(10).unwrap();
    let error = mapping.populate(50_000, 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("was cut"), "{error}");
    mapping.populate(0, 10).unwrap();
}

/// A file that replaces another one must not be read through the mapping of the first.
#[test]
fn a_mapping_does_not_read_a_file_that_replaced_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(dir.path());
    disk.open("f", OpenMode::Create).unwrap().write_all_at(&[1; 10], 0).unwrap();
    let mapping = disk.map("f", 0).unwrap();
    std::fs::write(dir.path().join("g"), [2; 100]).unwrap();
    std::fs::rename(dir.path().join("g"), dir.path().join("f")).unwrap();
    assert_eq!(copy_of(&mapping, 0, 100).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(copy_of(&mapping, 0, 10).unwrap(), [1; 10]);
}
