//! Windows that spill: buckets of every size, failing disks, and readers that stop early.

use rowmill_io::{Call, Fault, FaultyDisk, MemoryDisk};
use rowmill_storage::spill::SpillMeter;

use super::*;

/// Rows with one large partition: `share` rows in a hundred should be in it. For example, with a share of 100 all rows
/// have the same values in the columns of partitions.
fn skewed(rows: usize, share: usize, seed: u64) -> RecordBatch {
    let batch = table(rows, seed);
    let taken = UInt32Array::from_iter_values((0..rows).map(|row| if row % 100 < share { 0 } else { row as u32 }));
    let columns = batch.columns().iter().enumerate().map(|(number, column)| match number {
        column::FEW | column::TEXT | column::FLOAT | column::WIDE => {
            arrow::compute::take(column, &taken, None).expect("rows of the table")
        }
        _ => Arc::clone(column),
    });
    RecordBatch::try_new(batch.schema(), columns.collect()).expect("columns of one length")
}

/// A running count, a rank and a text of another row.
fn calls() -> Vec<WindowCall> {
    let before = frame(FrameUnit::Rows, FrameBound::Unbounded, FrameBound::CurrentRow);
    let first = WindowFunction::Nth { value: column::TEXT, nth: FrameRow::First, skips_nulls: false };
    vec![
        rank(RankFunction::RowNumber),
        aggregate_call(aggregate(named("sum"), Some(column::SMALL)), before.clone()),
        call(first, before, DataType::Utf8View),
    ]
}

fn case(partition: &[usize], limit: Option<usize>) -> WindowCase {
    WindowCase { partition: partition.to_vec(), order: vec![sort_key(column::ID)], calls: calls(), limit }
}

/// A broker that lets rows go to disk after the first batch. A partition may have all rows of a test.
fn short_memory() -> Broker {
    let broker = Broker::new(1 << 22);
    broker.set_always_spills(true);
    broker
}

fn batches_of(table: &RecordBatch) -> Arc<ReadyBatches> {
    ReadyBatches::of_rows(table, 37)
}

#[test]
fn partitions_of_any_size_are_those_of_the_model() {
    for (rows, share) in [(0, 0), (1, 0), (400, 0), (700, 30), (700, 70), (700, 97), (700, 100)] {
        let table = skewed(rows, share, rows as u64 + share as u64);
        for partition in [vec![column::ID], vec![column::TEXT], vec![column::FLOAT], vec![column::FEW, column::WIDE]] {
            for (threads, limit) in [(1, None), (3, None), (3, Some(2))] {
                let case = case(&partition, limit);
                let found = run_over(batches_of(&table), &case, threads, &short_memory()).expect("the disk has room");
                let expected = expected(&table, &case.partition, &case.order, &case.calls);
                check_found(&table, &case, &found, &expected);
            }
        }
    }
}

#[test]
fn rows_are_written_again_for_each_division_and_only_if_memory_is_short() {
    let spilled = |table: &RecordBatch, spills: bool| {
        let broker = short_memory();
        broker.set_always_spills(spills);
        let (meter, temp) = (Arc::<SpillMeter>::default(), TempSpace::in_memory());
        let temp = temp.metered(&meter);
        let window: Arc<dyn BatchSource> =
            operator(batches_of(table), &case(&[column::FEW], None), &broker, &temp, &Cancel::new());
        let rows: usize = collect(&window, 2).expect("the disk has room").iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, table.num_rows());
        drop(window);
        assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0));
        meter.bytes()
    };
    let table = skewed(700, 50, 1);
    assert_eq!(spilled(&table, false), 0);
    let (small, large) = (spilled(&table.slice(0, 20), true), spilled(&table, true));
    assert!(small > 0 && large > 2 * 35 * small, "{small} bytes for 20 rows, {large} bytes for 700");
}

/// A disk that fails at some call must give an error or the right rows, and leave no file.
#[test]
fn windows_that_spill_to_a_disk_that_fails_leave_no_file() {
    let mut failures = 0;
    for seed in 0..300_u64 {
        let mut random = SmallRng::seed_from_u64(seed);
        let table = skewed(random.random_range(1..300), random.random_range(0..100), seed);
        let partitions = [&[column::FEW][..], &[column::TEXT], &[column::ID], &[]];
        let partition = partitions.choose(&mut random).unwrap().to_vec();
        let case = case(&partition, None);
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        let plan = disk.plan().clone();
        let has_quota = random.random_bool(0.5);
        let temp = TempSpace::on_disk(disk, if has_quota { random.random_range(0..60_000) } else { u64::MAX });
        temp.set_file_bytes_min(0);
        if !has_quota {
            let call = [Call::Open, Call::Read, Call::Write][random.random_range(0..3)];
            plan.fail(call, random.random_range(1..8), [Fault::Io, Fault::NoSpace][random.random_range(0..2)]);
        }
        let broker = short_memory();
        let window: Arc<dyn BatchSource> = operator(batches_of(&table), &case, &broker, &temp, &Cancel::new());
        match collect(&window, random.random_range(1..4)) {
            Ok(batches) => {
                let found = arrow::compute::concat_batches(window.schema(), &batches).expect("one schema");
                check_found(&table, &case, &found, &expected(&table, &case.partition, &case.order, &case.calls));
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::Io), "seed {seed}: {error}");
                failures += 1;
            }
        }
        drop(window);
        assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0), "seed {seed}");
    }
    assert!((30..300).contains(&failures), "{failures}");
}

#[test]
fn a_window_that_spills_can_be_cancelled_or_dropped_at_any_time() {
    let table = skewed(700, 50, 2);
    for batches_first in 0..60 {
        for (is_cancelled, partition) in
            [(false, &[column::TEXT][..]), (true, &[column::TEXT]), (false, &[]), (true, &[])]
        {
            let (broker, temp, cancel) = (short_memory(), TempSpace::in_memory(), Cancel::new());
            let window = operator(batches_of(&table), &case(partition, None), &broker, &temp, &cancel);
            let mut share = Arc::clone(&window).worker();
            let taken = share.by_ref().take(batches_first).filter(Result::is_ok).count();
            if is_cancelled && taken == batches_first {
                cancel.cancel();
                // The share may have been at its end, or have batches that are computed already.
                let error = share.by_ref().find_map(Result::err);
                assert!(error.is_none_or(|error| error.kind() == ErrorKind::Cancelled));
                assert!(share.next().is_none());
            }
            drop((share, window));
            assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0));
        }
    }
}
