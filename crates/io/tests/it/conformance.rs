//! One test suite for every implementation of [`Disk`]. The disk must be empty before, and is empty afterwards.

use std::sync::Arc;

use rowmill_base::ErrorKind;
use rowmill_io::{Disk, OpenMode};

use crate::copy_of;

pub(crate) fn disk_conformance(disk: Arc<dyn Disk>) {
    for case in [
        absent_files_and_folders,
        files_are_created_listed_and_removed,
        folders_nest_and_go_with_their_files,
        bytes_read_back_as_written,
        reads_beyond_the_end_are_corrupt,
        jumped_over_and_extended_ranges_are_zeros,
        cut_bytes_do_not_come_back,
        punched_ranges_are_zeros_and_keep_the_length,
        read_handles_do_not_write,
        a_removed_file_lives_on_for_its_handles,
        mappings_follow_growth,
        mappings_refuse_what_is_not_there,
        mappings_know_of_cuts,
        mappings_of_removed_files,
        a_longer_mapping_for_an_outgrown_one,
        many_threads_share_a_handle,
    ] {
        case(disk.as_ref());
        disk.remove_dir("t").unwrap();
        assert_eq!(disk.list("").unwrap(), [""; 0]);
        disk.create_dir("t/1").unwrap();
    }
    disk.remove_dir("t").unwrap();
}

const GIB: u64 = 1 << 30;

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn read(disk: &dyn Disk, path: &str, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xAA; len];
    disk.open(path, OpenMode::Read).unwrap().read_exact_at(&mut buf, offset).unwrap();
    buf
}

fn absent_files_and_folders(disk: &dyn Disk) {
    disk.create_dir("t").unwrap();
    assert_eq!(disk.len("t/none").unwrap(), None);
    assert_eq!(disk.list("t/none").unwrap(), [""; 0]);
    disk.remove("t/none").unwrap();
    disk.remove_dir("t/none").unwrap();
    for mode in [OpenMode::Read, OpenMode::Write] {
        let error = disk.open("t/none", mode).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains(&disk.describe("t/none")), "{error}");
    }
    assert_eq!(disk.open("t/none/file", OpenMode::Create).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(disk.map("t/none", 0).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(disk.sync_dir("t/none").unwrap_err().kind(), ErrorKind::Corrupt);
}

fn files_are_created_listed_and_removed(disk: &dyn Disk) {
    let file = disk.open("t/1/b", OpenMode::Create).unwrap();
    assert!(file.is_empty().unwrap());
    disk.open("t/1/a", OpenMode::Create).unwrap().write_all_at(b"abc", 0).unwrap();
    disk.open("t/1/a", OpenMode::Create).unwrap();
    disk.sync_dir("t/1").unwrap();
    assert_eq!(disk.list("t/1").unwrap(), ["a", "b"]);
    assert_eq!(disk.list("t").unwrap(), ["1"]);
    assert_eq!(disk.len("t/1/a").unwrap(), Some(3));
    assert_eq!(disk.len("t/1").unwrap(), None, "a folder is no file");
    disk.remove("t/1/a").unwrap();
    disk.sync_dir("t/1").unwrap();
    assert_eq!(disk.list("t/1").unwrap(), ["b"]);
    assert_eq!(disk.len("t/1/a").unwrap(), None);
}

fn folders_nest_and_go_with_their_files(disk: &dyn Disk) {
    disk.create_dir("t/2/deep/er").unwrap();
    disk.create_dir("t/2/deep/er").unwrap();
    disk.open("t/2/deep/er/f", OpenMode::Create).unwrap();
    disk.open("t/2/f", OpenMode::Create).unwrap();
    disk.open("t/22", OpenMode::Create).unwrap();
    assert_eq!(disk.list("t/2").unwrap(), ["deep", "f"]);
    disk.remove_dir("t/2").unwrap();
    assert_eq!(disk.list("t").unwrap(), ["1", "22"]);
    assert_eq!(disk.len("t/2/deep/er/f").unwrap(), None);
}

fn bytes_read_back_as_written(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    let written = bytes(200_000, 1);
    file.write_all_at(&written, 0).unwrap();
    file.write_all_at(&[9; 10], 100).unwrap();
    file.write_all_at(&[], 1 << 40).unwrap();
    file.sync().unwrap();
    assert_eq!(file.len().unwrap(), 200_000);
    assert_eq!(read(disk, "t/1/f", 0, 100), written[..100]);
    assert_eq!(read(disk, "t/1/f", 100, 10), [9; 10]);
    assert_eq!(read(disk, "t/1/f", 110, 199_890), written[110..]);
    assert_eq!(read(disk, "t/1/f", 200_000, 0), [0u8; 0]);
}

fn reads_beyond_the_end_are_corrupt(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 10], 0).unwrap();
    for offset in [1, 10, 1 << 40] {
        let error = file.read_exact_at(&mut [0; 10], offset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains(&disk.describe("t/1/f")), "{error}");
    }
}

fn jumped_over_and_extended_ranges_are_zeros(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 10], 10_000).unwrap();
    file.set_len(30_000).unwrap();
    assert_eq!(file.len().unwrap(), 30_000);
    assert_eq!(read(disk, "t/1/f", 0, 10_000), [0; 10_000]);
    assert_eq!(read(disk, "t/1/f", 10_000, 10), [1; 10]);
    assert_eq!(read(disk, "t/1/f", 10_010, 19_990), [0; 19_990]);
}

fn cut_bytes_do_not_come_back(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 30_000], 0).unwrap();
    file.set_len(5_001).unwrap();
    assert_eq!(disk.len("t/1/f").unwrap(), Some(5_001));
    file.read_exact_at(&mut [0; 2], 5_000).unwrap_err();
    file.set_len(30_000).unwrap();
    assert_eq!(read(disk, "t/1/f", 0, 5_001), [1; 5_001]);
    assert_eq!(read(disk, "t/1/f", 5_001, 24_999), [0; 24_999]);
}

fn punched_ranges_are_zeros_and_keep_the_length(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 100_000], 0).unwrap();
    let mapping = disk.map("t/1/f", 0).unwrap();
    file.punch(50, 0).unwrap();
    file.punch(5_000, 20).unwrap();
    file.punch(10_001, 29_998).unwrap();
    file.punch(99_999, 1 << 40).unwrap();
    file.punch(200_000, 10).unwrap();
    let mut expected = vec![1; 100_000];
    expected[5_000..5_020].fill(0);
    expected[10_001..39_999].fill(0);
    expected[99_999] = 0;
    assert_eq!(file.len().unwrap(), 100_000);
    assert_eq!(read(disk, "t/1/f", 0, 100_000), expected);
    assert_eq!(copy_of(&mapping, 0, 100_000).unwrap(), expected);
    file.write_all_at(&[2; 4], 20_000).unwrap();
    assert_eq!(copy_of(&mapping, 19_999, 6).unwrap(), [0, 2, 2, 2, 2, 0]);
}

fn read_handles_do_not_write(disk: &dyn Disk) {
    disk.open("t/1/f", OpenMode::Create).unwrap().write_all_at(&[1; 10], 0).unwrap();
    let file = disk.open("t/1/f", OpenMode::Read).unwrap();
    file.write_all_at(&[2], 0).unwrap_err();
    file.set_len(0).unwrap_err();
    file.punch(0, 10).unwrap_err();
    assert_eq!(read(disk, "t/1/f", 0, 10), [1; 10]);
}

fn a_removed_file_lives_on_for_its_handles(disk: &dyn Disk) {
    let old = disk.open("t/1/f", OpenMode::Create).unwrap();
    old.write_all_at(&[1; 10], 0).unwrap();
    disk.remove("t/1/f").unwrap();
    let new = disk.open("t/1/f", OpenMode::Create).unwrap();
    assert_eq!(new.len().unwrap(), 0);
    let mut buf = [0; 10];
    old.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(buf, [1; 10]);
    old.set_len(3).unwrap();
    assert_eq!(new.len().unwrap(), 0);
}

fn mappings_follow_growth(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    let mapping = disk.map("t/1/f", 0).unwrap();
    assert!(mapping.capacity() >= GIB);
    assert_eq!(copy_of(&mapping, 0, 0).unwrap(), [0u8; 0]);
    for part in 0..20 {
        let written = bytes(10_000, part as u8);
        file.write_all_at(&written, part * 10_000).unwrap();
        mapping.populate(part * 10_000, 10_000).unwrap();
        assert_eq!(copy_of(&mapping, part * 10_000, 10_000).unwrap(), written);
    }
    assert_eq!(copy_of(&mapping, 0, 200_000).unwrap(), read(disk, "t/1/f", 0, 200_000));
}

fn mappings_refuse_what_is_not_there(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 10], 0).unwrap();
    let mapping = disk.map("t/1/f", 0).unwrap();
    for (offset, len) in [(0, 11), (10, 1), (5_000, 1), (1 << 40, 1), (u64::MAX, 2), (0, usize::MAX)] {
        let error = copy_of(&mapping, offset, len).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains(&disk.describe("t/1/f")), "{error}");
        assert_eq!(mapping.populate(offset, len).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    // A range after the end of the mapping but inside the file is a bug of the caller, not damage.
    let beyond = mapping.capacity();
    file.write_all_at(&[1], beyond).unwrap();
    assert_eq!(copy_of(&mapping, beyond, 1).unwrap_err().kind(), ErrorKind::Internal);
}

fn mappings_know_of_cuts(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 100_000], 0).unwrap();
    let mapping = disk.map("t/1/f", 0).unwrap();
    copy_of(&mapping, 0, 100_000).unwrap();
    disk.open("t/1/f", OpenMode::Write).unwrap().set_len(50_000).unwrap();
    assert_eq!(copy_of(&mapping, 49_999, 2).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(mapping.populate(90_000, 1).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(copy_of(&mapping, 0, 50_000).unwrap(), [1; 50_000]);
    file.write_all_at(&[2; 10], 60_000).unwrap();
    assert_eq!(copy_of(&mapping, 59_999, 11).unwrap(), [0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
}

fn mappings_of_removed_files(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 10_000], 0).unwrap();
    let mapping = disk.map("t/1/f", 0).unwrap();
    disk.remove("t/1/f").unwrap();
    assert_eq!(copy_of(&mapping, 0, 10_000).unwrap(), [1; 10_000]);
    mapping.populate(0, 10_000).unwrap();
    let new = disk.open("t/1/f", OpenMode::Create).unwrap();
    new.write_all_at(&[2; 20_000], 0).unwrap();
    assert_eq!(copy_of(&mapping, 0, 20_000).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(copy_of(&mapping, 0, 10_000).unwrap(), [1; 10_000]);
    assert_eq!(copy_of(&disk.map("t/1/f", 0).unwrap(), 0, 20_000).unwrap(), [2; 20_000]);
}

fn a_longer_mapping_for_an_outgrown_one(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    file.write_all_at(&[1; 10_000], 0).unwrap();
    let short = disk.map("t/1/f", 0).unwrap();
    let held = copy_of(&short, 0, 10_000).unwrap();
    let end = short.capacity();
    // The file is sparse: only the written pages exist.
    file.write_all_at(&[2; 10_000], end - 5_000).unwrap();
    let long = disk.map("t/1/f", end + 5_000).unwrap();
    assert!(long.capacity() >= end + 5_000);
    assert_eq!(copy_of(&long, end - 5_000, 10_000).unwrap(), [2; 10_000]);
    assert_eq!(copy_of(&long, 0, 10_000).unwrap(), held);
    assert_eq!(copy_of(&short, end - 5_000, 5_000).unwrap(), [2; 5_000]);
    // Writes below the old end must now be visible in both mappings.
    file.write_all_at(&[3; 10_000], 20_000).unwrap();
    file.punch(22_000, 1_000).unwrap();
    assert_eq!(copy_of(&short, 20_000, 10_000).unwrap(), copy_of(&long, 20_000, 10_000).unwrap());
    assert_eq!(copy_of(&short, 21_999, 2).unwrap(), [3, 0]);
    file.set_len(25_000).unwrap();
    file.set_len(30_000).unwrap();
    assert_eq!(copy_of(&short, 24_999, 2).unwrap(), [3, 0]);
    assert_eq!(copy_of(&long, 24_999, 2).unwrap(), [3, 0]);
}

fn many_threads_share_a_handle(disk: &dyn Disk) {
    let file = disk.open("t/1/f", OpenMode::Create).unwrap();
    let mapping = disk.map("t/1/f", 0).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (file, mapping) = (&file, &mapping);
            scope.spawn(move || {
                for part in 0..50 {
                    let (written, offset) = (bytes(3_000, (thread * 50 + part) as u8), (part * 4 + thread) * 3_000);
                    file.write_all_at(&written, offset).unwrap();
                    assert_eq!(copy_of(mapping, offset, 3_000).unwrap(), written);
                }
            });
        }
    });
    assert_eq!(file.len().unwrap(), 600_000);
}
