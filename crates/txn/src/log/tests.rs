//! Tests of the log on disks that lose power, fail, or hold damaged bytes.

#![allow(clippy::unwrap_used)]

use rowmill_io::{Call, Fate, Fault, FaultyDisk, MemoryDisk, crash_state};

use super::*;

const SMALL: LogOptions = LogOptions { segment_bytes: 512 };
const START: Position = Position(0);

/// Pseudo-random numbers that depend only on the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % end
    }

    /// A random payload, which may be longer than a segment.
    fn payload(&mut self) -> Vec<u8> {
        let len = match self.below(10) {
            0 => self.below(1_500),
            1 => 0,
            _ => self.below(90),
        };
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

fn replayed(disk: &dyn Disk, from: Position) -> Result<(Replayed, Vec<Vec<u8>>)> {
    let mut payloads = Vec::new();
    let replayed = Log::replay(disk, SMALL, from, &mut |payload| {
        payloads.push(payload.to_vec());
        Ok(())
    })?;
    Ok((replayed, payloads))
}

fn start(disk: &Arc<dyn Disk>) -> Log {
    Log::start(disk, SMALL, replayed(&**disk, START).unwrap().0).unwrap()
}

#[test]
fn appended_records_are_replayed_after_any_number_of_restarts() {
    let mut random = Random(7);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (mut from, mut files_most) = (START, 0);
    for _ in 0..60 {
        let (replayed_before, _) = replayed(&*disk, from).unwrap();
        from = replayed_before.next;
        let log = Log::start(&disk, SMALL, replayed_before).unwrap();
        let mut kept: VecDeque<(Position, Vec<u8>)> = VecDeque::new();
        for _ in 0..random.below(80) {
            let payload = random.payload();
            let end = log.append(&payload).unwrap();
            kept.push_back((end, payload));
            match random.below(8) {
                0 => log.sync_to(kept[random.below(kept.len() as u64) as usize].0).unwrap(),
                1 => {
                    from =
                        kept.drain(..random.below(kept.len() as u64) as usize).next_back().map_or(from, |last| last.0);
                    log.release(from);
                }
                _ => {}
            }
        }
        assert!(log.synced() <= log.end());
        drop(log);
        let (_, payloads) = replayed(&*disk, from).unwrap();
        assert_eq!(payloads, kept.into_iter().map(|(_, payload)| payload).collect::<Vec<_>>());
        files_most = files_most.max(disk.list(FOLDER).unwrap().len());
    }
    assert!(files_most < 60, "files should be reused: {files_most}");
}

#[test]
fn the_number_of_files_does_not_grow_with_the_number_of_records() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let log = start(&disk);
    for _ in 0..10_000 {
        let end = log.append(&[1; 100]).unwrap();
        log.sync_to(end).unwrap();
        log.release(end);
    }
    assert!(disk.list(FOLDER).unwrap().len() <= 4, "{:?}", disk.list(FOLDER).unwrap());
}

#[test]
fn a_power_cut_keeps_all_synced_records_and_leaves_no_partial_record() {
    for seed in 1..40 {
        let mut random = Random(seed);
        let faulty = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
        let plan = faulty.plan().clone();
        let disk: Arc<dyn Disk> = faulty;
        plan.record();
        let log = start(&disk);
        let first = log.end();
        let mut appended = Vec::new();
        // The number of disk calls and the number of records synced by then.
        let mut acknowledged = vec![(plan.records().len(), 0)];
        for _ in 0..40 {
            let payload = random.payload();
            let end = log.append(&payload).unwrap();
            appended.push(payload);
            if random.below(3) == 0 {
                log.sync_to(end).unwrap();
                acknowledged.push((plan.records().len(), appended.len()));
            }
        }
        drop(log);
        let records = plan.records();
        for number in 0..40 {
            let cut = acknowledged[0].0 + random.below((records.len() - acknowledged[0].0) as u64 + 1) as usize;
            let after = crash_state(&records[..cut], |_| match random.below(4) {
                0 => Fate::Lost,
                1 => {
                    let start = random.below(64) as usize;
                    Fate::Torn { start, end: start + random.below(200) as usize }
                }
                _ => Fate::Kept,
            });
            let after = after.unwrap();
            let (_, payloads) = replayed(&after, first).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let certain = acknowledged.iter().rfind(|(calls, _)| *calls <= cut).unwrap().1;
            assert!(payloads.len() >= certain, "seed {seed}: {} of {certain}", payloads.len());
            assert_eq!(payloads, appended[..payloads.len()], "seed {seed}");
            // Following is slow here, because it waits for a half-written file, so we do it only a few times.
            if number < 8 {
                follow_after_a_cut(&after, first, &payloads);
            }
        }
    }
}

/// A process that only reads after the cut must see a prefix of the surviving records. It may see fewer, because the
/// file that says how far the log goes is not synced.
fn follow_after_a_cut(disk: &dyn Disk, first: Position, there: &[Vec<u8>]) {
    let mut followed = Vec::new();
    let end = Log::follow(disk, SMALL, first, &mut |payload| {
        followed.push(payload.to_vec());
        Ok(())
    });
    match end {
        Ok(end) => assert!(end.is_some() && there.starts_with(&followed), "{end:?}: {} records", followed.len()),
        Err(error) => assert!(error.message().contains("log/synced"), "{error}"),
    }
}

#[test]
fn any_damage_to_a_synced_log_is_an_error_or_without_effect() {
    let mut random = Random(11);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let log = start(&disk);
    let first = log.end();
    let appended: Vec<Vec<u8>> = (0..30).map(|_| random.payload()).collect();
    for payload in &appended {
        let end = log.append(payload).unwrap();
        log.sync_to(end).unwrap();
    }
    drop(log);
    let mut found = 0;
    for name in disk.list(FOLDER).unwrap() {
        let path = format!("{FOLDER}/{name}");
        let len = disk.len(&path).unwrap().unwrap();
        for _ in 0..400 {
            let at = random.below(len);
            let file = disk.open(&path, OpenMode::Write).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1 << random.below(8)], at).unwrap();
            match replayed(&*disk, first) {
                Ok((_, payloads)) => assert_eq!(payloads, appended, "byte {at} of {path}"),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NewerFormat), "{error}");
                    found += 1;
                }
            }
            file.write_all_at(&byte, at).unwrap();
        }
    }
    assert!(found > 100, "{found}");
}

#[test]
fn sync_returns_to_each_writer_only_after_its_record_is_synced() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let log = start(&disk);
    let first = log.end();
    std::thread::scope(|scope| {
        for writer in 0..8_u8 {
            let log = &log;
            scope.spawn(move || {
                for _ in 0..500 {
                    let end = log.append(&[writer; 60]).unwrap();
                    log.sync_to(end).unwrap();
                    assert!(log.synced() >= end);
                }
            });
        }
    });
    assert_eq!(log.synced(), log.end());
    drop(log);
    let (_, payloads) = replayed(&*disk, first).unwrap();
    (0..8).for_each(|writer| assert_eq!(payloads.iter().filter(|payload| payload[0] == writer).count(), 500));
}

#[test]
fn acknowledged_records_survive_every_disk_fault() {
    let run = |fault: Option<(u64, Fault)>| {
        let faulty = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
        let plan = faulty.plan().clone();
        let disk: Arc<dyn Disk> = faulty;
        let log = start(&disk);
        let first = log.end();
        if let Some((nth, fault)) = fault {
            plan.fail_from(None, nth, fault);
        }
        let (before, mut random) = (plan.count_all(), Random(5));
        let (mut appended, mut certain, mut failed) = (Vec::new(), 0, false);
        for _ in 0..30 {
            let payload = random.payload();
            appended.push(payload.clone());
            match log.append(&payload).and_then(|end| log.sync_to(end)) {
                Ok(()) => {
                    assert!(!failed, "nothing may be written after a failure");
                    certain = appended.len();
                }
                Err(_) => failed = true,
            }
        }
        let calls = plan.count_all() - before;
        drop(log);
        plan.clear();
        let (_, payloads) = replayed(&*disk, first).unwrap();
        assert!(payloads.len() >= certain && payloads == appended[..payloads.len()], "{fault:?}");
        calls
    };
    let calls = run(None);
    for fault in [Fault::Io, Fault::NoSpace, Fault::ShortWrite] {
        for nth in 1..=calls {
            run(Some((nth, fault)));
        }
    }
}

#[test]
fn the_log_works_again_when_a_full_disk_has_space() {
    let faulty = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let plan = faulty.plan().clone();
    let disk: Arc<dyn Disk> = faulty;
    let log = start(&disk);
    log.append(&[3; 40]).unwrap();
    plan.fail_from(Call::SetLen, 1, Fault::NoSpace);
    let mut appended = 0;
    let error = loop {
        match log.append(&[3; 40]) {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    plan.clear();
    let end = log.append(&[3; 40]).unwrap();
    log.sync_to(end).unwrap();
    assert!(appended > 5);
}

#[test]
fn a_long_record_holds_few_files_open() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let log = start(&disk);
    let open = |log: &Log| log.writing.lock().segments.iter().filter(|segment| segment.is_open()).count();
    let long: Vec<u8> = (0..100 * SMALL.segment_bytes).map(|at| at as u8).collect();
    // One record in a few slices, as a commit writes it, and one after it.
    log.expect(long.len() as u64);
    log.append(&long).unwrap();
    assert!(open(&log) <= OPEN_SEGMENTS as usize + 2, "{} segments are open", open(&log));
    let end = log.append(b"short").unwrap();
    log.sync_to(end).unwrap();
    log.append(b"another").unwrap();
    assert!(open(&log) <= OPEN_SEGMENTS as usize + 2, "{} segments are open", open(&log));
    drop(log);
    let (_, payloads) = replayed(&*disk, START).unwrap();
    assert_eq!(payloads, [&long[..], b"short", b"another"]);
}
