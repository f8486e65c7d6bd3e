use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringViewArray};
use arrow::datatypes::{Field, Int64Type, Schema};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rowmill_base::{Broker, ErrorKind};
use rowmill_io::{Call, Disk, Fault, FaultyDisk, MemoryDisk, RealDisk};

use super::*;

/// Bytes that compress, or that do not.
fn bytes_of(random: &mut StdRng, len: usize) -> Vec<u8> {
    let kinds = if random.random() { u8::MAX } else { 3 };
    (0..len).map(|_| random.random_range(0..=kinds)).collect()
}

fn read_all(section: &SpillSection) -> rowmill_base::Result<Vec<Vec<u8>>> {
    let mut reader = section.reader();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        frames.push(frame.to_vec());
    }
    Ok(frames)
}

/// The bytes of all files of a folder, in whole pages.
pub(super) fn bytes_on_disk(disk: &dyn Disk) -> u64 {
    let names = disk.list("").expect("a list");
    let lengths = names.iter().map(|name| disk.len(name).expect("a length").unwrap_or(0).next_multiple_of(4096));
    lengths.sum()
}

#[test]
fn sections_give_back_their_frames_and_every_byte_on_disk_is_charged() {
    let mut random = StdRng::seed_from_u64(1);
    let dir = tempfile::tempdir().expect("a folder");
    let (disk, broker) = (RealDisk::new(dir.path()), Broker::new(1 << 30));
    for file_bytes_min in [0, 1 << 14, 1 << 20] {
        let space = TempSpace::on_disk(disk.clone(), 1 << 30);
        space.set_file_bytes_min(file_bytes_min);
        let mut writer = space.writer("test", &broker);
        let mut expected = Vec::new();
        for flush in 0..20 {
            for _ in 0..random.random_range(0..5) {
                let frames = (0..random.random_range(0..4)).map(|_| {
                    let len = random.random_range(0..if flush % 7 == 3 { 1 << 20 } else { 9_000 });
                    bytes_of(&mut random, len)
                });
                let frames: Vec<Vec<u8>> = frames.collect();
                frames.iter().for_each(|frame| writer.put(frame).expect("written"));
                expected.push((writer.end_section(), frames));
            }
            writer.end_flush().expect("ended");
            assert_eq!(space.quota().used_bytes(), bytes_on_disk(&disk), "flush {flush}");
        }
        writer.finish().expect("finished");
        for (section, frames) in &expected {
            assert_eq!(read_all(section).expect("read"), *frames);
        }
        let files = space.files();
        assert_eq!(files.iter().filter(|file| file.is_on_disk).count(), disk.list("").expect("a list").len());
        match file_bytes_min {
            0 => assert!(files.len() > 10, "each flush is a file"),
            _ => assert!(files.len() < 10, "small flushes share a file"),
        }
        drop((expected, writer));
        assert_eq!((space.quota().used_bytes(), bytes_on_disk(&disk), broker.used_bytes()), (0, 0, 0));
        assert!(space.files().is_empty());
    }
}

#[test]
fn damaged_bytes_are_found() {
    let mut random = StdRng::seed_from_u64(2);
    let disk = MemoryDisk::new();
    let space = TempSpace::on_disk(disk.clone(), 1 << 30);
    space.set_file_bytes_min(0);
    let mut writer = space.writer("test", &Broker::new(1 << 30));
    let frames = [bytes_of(&mut random, 700), vec![7; 5_000], bytes_of(&mut random, 3)];
    frames.iter().for_each(|frame| writer.put(frame).expect("written"));
    let section = writer.end_section();
    writer.finish().expect("finished");
    let name = disk.list("").expect("a list").remove(0);
    let file = disk.open(&name, rowmill_io::OpenMode::Write).expect("opened");
    for at in 0..section.stored_bytes() {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[byte[0] ^ 1 << random.random_range(0..8)], at).expect("written");
        let found = read_all(&section);
        assert_eq!(found.expect_err("damaged").kind(), ErrorKind::Corrupt, "byte {at}");
        file.write_all_at(&byte, at).expect("written");
    }
    assert_eq!(read_all(&section).expect("read"), frames);
    file.set_len(section.stored_bytes() - 1).expect("cut");
    assert_eq!(read_all(&section).expect_err("too short").kind(), ErrorKind::Corrupt);
}

/// Writes and reads some sections. Returns an error or the right frames.
fn spill_and_read(space: &TempSpace) -> rowmill_base::Result<()> {
    let mut random = StdRng::seed_from_u64(3);
    let mut writer = space.writer("test", &Broker::new(1 << 30));
    let mut expected = Vec::new();
    for _ in 0..6 {
        let frames = vec![bytes_of(&mut random, 20_000), bytes_of(&mut random, 100)];
        frames.iter().try_for_each(|frame| writer.put(frame))?;
        expected.push((writer.end_section(), frames));
        writer.end_flush()?;
    }
    writer.finish()?;
    for (section, frames) in &expected {
        assert_eq!(read_all(section)?, *frames, "an answer must be right");
    }
    Ok(())
}

#[test]
fn a_failure_of_any_call_is_an_error_and_the_charge_equals_the_bytes_on_disk() {
    let calls = {
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        let plan = disk.plan().clone();
        let space = TempSpace::on_disk(disk, 1 << 30);
        space.set_file_bytes_min(30_000);
        spill_and_read(&space).expect("no failure yet");
        plan.count_all()
    };
    assert!(calls > 10, "{calls} calls");
    for fault in [Fault::Io, Fault::NoSpace, Fault::ShortWrite] {
        for nth in 1..=calls {
            let memory = MemoryDisk::new();
            let disk = FaultyDisk::new(Arc::new(memory.clone()));
            let plan = disk.plan().clone();
            let space = TempSpace::on_disk(disk, 1 << 30);
            space.set_file_bytes_min(30_000);
            plan.fail(None::<Call>, nth, fault);
            drop(spill_and_read(&space));
            assert_eq!(
                space.quota().used_bytes(),
                bytes_on_disk(&memory),
                "after call {nth} failed with {fault:?}: a file that is left must stay charged, and no other"
            );
        }
    }
}

#[test]
fn the_quota_is_never_passed() {
    let disk = MemoryDisk::new();
    let space = TempSpace::on_disk(disk.clone(), 40_000);
    space.set_file_bytes_min(0);
    let mut writer = space.writer("test", &Broker::new(1 << 30));
    let mut random = StdRng::seed_from_u64(4);
    let frame: Vec<u8> = (0..15_000).map(|_| random.random()).collect();
    let mut put = || {
        writer.put(&frame)?;
        let section = writer.end_section();
        writer.end_flush().map(|()| section)
    };
    let sections = [put().expect("the first"), put().expect("the second")];
    let error = put().expect_err("the third is too much");
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    drop(writer);
    assert_eq!(space.quota().used_bytes(), bytes_on_disk(&disk));
    assert_eq!(read_all(&sections[1]).expect("still there"), [frame]);
    drop(sections);
    assert_eq!((space.quota().used_bytes(), bytes_on_disk(&disk)), (0, 0));
}

#[test]
fn folders_of_dead_processes_are_removed_and_those_of_living_ones_stay() {
    let dir = tempfile::tempdir().expect("a folder");
    let orphan = dir.path().join("rowmill-temp-1-0");
    std::fs::create_dir(&orphan).expect("made");
    std::fs::write(orphan.join("1.spill"), [1; 100]).expect("written");
    std::fs::write(dir.path().join("other"), "of another program").expect("written");
    let (first, second) = (TempSpace::in_folder(dir.path(), 1 << 30), TempSpace::in_folder(dir.path(), 1 << 30));
    first.set_file_bytes_min(0);
    spill_and_read(&first).expect("spilled");
    assert!(!orphan.exists(), "the first use removes orphans");
    let names = || std::fs::read_dir(dir.path()).expect("a folder").count();
    assert_eq!(names(), 2);
    second.remove_orphans();
    assert_eq!(names(), 2, "the folder of the first space is locked");
    drop(first);
    assert_eq!(names(), 1, "a space removes its folder");
}

#[test]
fn batches_of_any_type_come_back_without_the_bytes_of_other_rows() {
    let texts = StringViewArray::from_iter(
        (0..5_000).map(|row| (row % 7 != 0).then(|| format!("a text that is too long for its view, number {row}"))),
    );
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..5_000).map(|row| (row % 5 != 0).then(|| (0..row % 4).map(Some).collect::<Vec<_>>())),
    );
    let numbers = Int64Array::from_iter((0..5_000).map(|row| (row % 3 != 0).then_some(row)));
    let columns: Vec<ArrayRef> = vec![Arc::new(texts), Arc::new(lists), Arc::new(numbers)];
    let fields = columns.iter().map(|column| Field::new("c", column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    let codec = BatchCodec::new(schema);
    let space = TempSpace::in_memory();
    let mut writer = space.writer("test", &Broker::new(1 << 30));
    let slices = [0..1_000, 1_000..1_000, 4_990..5_000];
    let sections = slices.clone().map(|rows| {
        codec.put(&batch.slice(rows.start, rows.len()), &mut writer).expect("written");
        let section = writer.end_section();
        assert!(section.stored_bytes() < 3_000 + 200 * rows.len() as u64);
        section
    });
    writer.finish().expect("finished");
    for (rows, section) in slices.into_iter().zip(sections) {
        let mut reader = section.reader();
        let found = codec.next(&mut reader).expect("read").expect("a batch");
        assert_eq!(found, batch.slice(rows.start, rows.len()));
        assert!(codec.next(&mut reader).expect("read").is_none());
    }

    let none = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        Vec::new(),
        &arrow::array::RecordBatchOptions::new().with_row_count(Some(12)),
    );
    let codec = BatchCodec::new(Arc::new(Schema::empty()));
    codec.put(&none.expect("rows without columns"), &mut writer).expect("written");
    let section = writer.end_section();
    writer.finish().expect("finished");
    assert_eq!(codec.next(&mut section.reader()).expect("read").expect("a batch").num_rows(), 12);
}
