use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_base::ErrorKind;
use rowmill_io::{Call, Fault, FaultyDisk, MemoryDisk};
use rowmill_storage::spill::SpillMeter;

use super::*;
use crate::collect::collect;
use crate::hash::tests::let_all_hashes_meet;
use crate::test_input::{Failing, nullable_numbers, numbers};
use crate::values::ReadyBatches;

fn request(except: bool, broker: &Broker) -> SetRequest {
    SetRequest { except, cancel: Cancel::new(), broker: broker.clone(), temp: TempSpace::in_memory() }
}

/// A broker that lets counts go to disk after each batch if `spills`.
fn memory(spills: bool) -> Broker {
    let broker = Broker::new(1 << 20);
    broker.set_always_spills(spills);
    broker
}

fn operator(left: Arc<dyn BatchSource>, right: Arc<dyn BatchSource>, request: SetRequest) -> Arc<dyn BatchSource> {
    SetAll::new(left, right, request).expect("rows that can be compared")
}

fn run(
    left: &[Option<i64>],
    right: &[Option<i64>],
    except: bool,
    workers: usize,
    (batch_rows, spills): (usize, bool),
) -> Vec<Option<i64>> {
    let input = |values: &[Option<i64>]| nullable_numbers(values.to_vec(), batch_rows) as Arc<dyn BatchSource>;
    let broker = memory(spills);
    let source = operator(input(left), input(right), request(except, &broker));
    let batches = collect(&source, workers).expect("nothing fails");
    assert!(batches.iter().all(|batch| batch.num_rows() > 0));
    drop(source);
    assert_eq!(broker.used_bytes(), 0);
    let mut found: Vec<Option<i64>> =
        batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>()).collect();
    found.sort();
    found
}

fn model(left: &[Option<i64>], right: &[Option<i64>], except: bool) -> Vec<Option<i64>> {
    let mut rest = right.to_vec();
    let mut given: Vec<Option<i64>> = left
        .iter()
        .copied()
        .filter(|value| {
            let place = rest.iter().position(|other| other == value);
            place.is_some_and(|place| {
                rest.swap_remove(place);
                true
            }) != except
        })
        .collect();
    given.sort();
    given
}

#[test]
fn rows_are_returned_as_often_as_the_sql_standard_says() {
    let values =
        |count: i64, of: i64| (0..count).map(|row| (row % of != 3).then_some(row * 7 % of)).collect::<Vec<_>>();
    let inputs = [vec![], values(5, 2), values(60, 9), values(200, 13), vec![None; 4], vec![Some(0); 3]];
    for left in &inputs {
        for right in &inputs {
            for except in [true, false] {
                for (workers, batch_rows) in [(1, 1), (4, 3), (1, 1024), (4, 1024)] {
                    for spills in [false, true] {
                        let found = run(left, right, except, workers, (batch_rows, spills));
                        assert_eq!(found, model(left, right, except));
                    }
                }
            }
        }
    }
}

/// Rows of a number, a text and a float, each with few values and NULLs. `same` of a hundred rows are equal.
fn rows(count: usize, same: usize, seed: u64) -> Arc<ReadyBatches> {
    let mut random = SmallRng::seed_from_u64(seed);
    let floats = [Some(0.0), Some(-0.0), Some(f64::NAN), Some(-f64::NAN), Some(1.5), None];
    let texts = [None, Some(""), Some("a"), Some("a text that is longer than a view"), Some("b")];
    let picks: Vec<(i64, usize, usize)> = (0..count)
        .map(|row| match row % 100 < same {
            true => (7, 3, 2),
            false => (random.random_range(0..40), random.random_range(0..5), random.random_range(0..6)),
        })
        .collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(picks.iter().map(|(number, ..)| (*number > 0).then_some(*number)).collect::<Int64Array>()),
        Arc::new(picks.iter().map(|(_, text, _)| texts[*text]).collect::<StringViewArray>()),
        Arc::new(picks.iter().map(|(.., float)| floats[*float]).collect::<Float64Array>()),
    ];
    let fields = [DataType::Int64, DataType::Utf8View, DataType::Float64].map(|kind| Field::new("", kind, true));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns).expect("columns of one length");
    ReadyBatches::of_rows(&batch, 50)
}

/// The rows of batches in the form of bytes, in order.
fn sorted_rows(batches: &[RecordBatch], schema: &SchemaRef) -> Vec<Vec<u8>> {
    let keys = RowKeys::new(schema.fields().iter().map(|field| field.data_type().clone())).expect("types");
    let of_batch = |batch: &RecordBatch| {
        let encoded = keys.encode(batch.columns()).expect("rows");
        (0..batch.num_rows()).map(|row| encoded.get(row).to_vec()).collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<u8>> = batches.iter().flat_map(of_batch).collect();
    rows.sort();
    rows
}

#[test]
fn rows_that_go_to_disk_are_those_that_stay_in_memory() {
    for (left, right, same) in [(0, 0, 0), (900, 0, 0), (0, 900, 0), (900, 900, 0), (900, 1_500, 60), (1_500, 900, 100)]
    {
        for except in [false, true] {
            for workers in [1, 3] {
                let result = |spills: bool| {
                    let (broker, meter) = (memory(spills), Arc::<SpillMeter>::default());
                    let temp = TempSpace::in_memory().metered(&meter);
                    let request = SetRequest { temp: temp.clone(), ..request(except, &broker) };
                    let source = operator(rows(left, same, 1), rows(right, same, 2), request);
                    let batches = collect(&source, workers).expect("the disk has room");
                    let rows = sorted_rows(&batches, source.schema());
                    drop((source, batches));
                    assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0));
                    (rows, meter.bytes() > 0)
                };
                let ((in_memory, no_bytes), (spilled, some_bytes)) = (result(false), result(true));
                assert_eq!(spilled, in_memory, "{left} and {right} rows, {except}");
                assert_eq!((no_bytes, some_bytes), (false, right > 0));
            }
        }
    }
}

#[test]
fn rows_whose_hashes_are_all_equal_are_divided_in_vain_and_then_counted() {
    let expected = run(&[Some(1); 9], &[Some(1), Some(2)], true, 1, (1, false));
    let_all_hashes_meet(true);
    let found = run(&[Some(1); 9], &[Some(1), Some(2)], true, 1, (1, true));
    let_all_hashes_meet(false);
    assert_eq!(found, expected);
}

/// A disk that fails at some call must give an error or the right rows, and leave no file.
#[test]
fn set_operations_that_spill_to_a_disk_that_fails_leave_no_file() {
    let mut failures = 0;
    for seed in 0..200_u64 {
        let mut random = SmallRng::seed_from_u64(seed);
        let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
        let plan = disk.plan().clone();
        let has_quota = random.random_bool(0.5);
        let temp = TempSpace::on_disk(disk, if has_quota { random.random_range(0..6_000_000) } else { u64::MAX });
        temp.set_file_bytes_min(0);
        if !has_quota {
            let call = [Call::Open, Call::Read, Call::Write][random.random_range(0..3)];
            plan.fail(call, random.random_range(1..3_000), [Fault::Io, Fault::NoSpace][random.random_range(0..2)]);
        }
        let (except, broker) = (random.random(), memory(true));
        let inputs = || (rows(300, 30, seed), rows(400, 30, seed + 1));
        let source = operator(inputs().0, inputs().1, SetRequest { temp: temp.clone(), ..request(except, &broker) });
        match collect(&source, random.random_range(1..4)) {
            Ok(batches) => {
                let expected = operator(inputs().0, inputs().1, request(except, &memory(false)));
                let expected = collect(&expected, 1).expect("memory suffices");
                assert_eq!(sorted_rows(&batches, source.schema()), sorted_rows(&expected, source.schema()));
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::Io), "seed {seed}: {error}");
                failures += 1;
            }
        }
        drop(source);
        assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0), "seed {seed}");
    }
    assert!((20..200).contains(&failures), "{failures}");
}

#[test]
fn errors_and_cancel_end_the_work_and_a_low_memory_limit_does_not() {
    let run = |right: Arc<dyn BatchSource>, cancel: &Cancel, bytes| {
        let request = SetRequest { cancel: cancel.clone(), ..request(true, &Broker::new(bytes)) };
        collect(&operator(numbers(0..10, 1), right, request), 3)
    };
    let cancel = Cancel::new();
    let error = run(Arc::new(Failing(numbers(0..100, 1))), &cancel, 1 << 20).expect_err("an end");
    assert_eq!(error.kind(), ErrorKind::Io);
    let given = run(numbers(5..100_000, 100), &cancel, 10_000).expect("the disk has room");
    assert_eq!(given.iter().map(RecordBatch::num_rows).sum::<usize>(), 5);
    cancel.cancel();
    assert_eq!(run(numbers(0..10, 1), &cancel, 1 << 20).expect_err("an end").kind(), ErrorKind::Cancelled);
}

#[test]
fn a_set_operation_that_spills_can_be_cancelled_or_dropped_at_any_time() {
    for batches_first in 0..40 {
        for is_cancelled in [false, true] {
            let (broker, temp, cancel) = (memory(true), TempSpace::in_memory(), Cancel::new());
            let of_all = SetRequest { cancel: cancel.clone(), temp: temp.clone(), ..request(true, &broker) };
            let source = operator(rows(900, 30, 3), rows(500, 30, 4), of_all);
            let mut share = Arc::clone(&source).worker();
            let taken = share.by_ref().take(batches_first).filter(Result::is_ok).count();
            if is_cancelled && taken == batches_first {
                cancel.cancel();
                // The share may have been at its end.
                assert!(share.next().is_none_or(|batch| batch.unwrap_err().kind() == ErrorKind::Cancelled));
                assert!(share.next().is_none());
            }
            drop((share, source));
            assert_eq!((broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0));
        }
    }
}
