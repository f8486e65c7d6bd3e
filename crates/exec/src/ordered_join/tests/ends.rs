//! Ordered joins that end early, and requests that do not fit.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind};
use rowmill_plan::{Aggregate, OrderedChoice, OrderedResult};
use rowmill_storage::spill::TempSpace;

use super::case::{KeyKind, OrderedCase, PositionKind, Run, column};
use crate::aggregate::named;
use crate::batch::BatchSource;

fn result(aggregates: bool) -> (OrderedResult, Vec<usize>, Vec<DataType>) {
    match aggregates {
        false => (OrderedResult::Rows { inner: false }, vec![column::LEFT_ID], vec![DataType::Int32]),
        true => {
            let count = Aggregate::new(named("count"), None, DataType::Int64);
            let kinds = vec![DataType::Int32, DataType::Int64];
            (OrderedResult::Aggregates(vec![count]), vec![column::LEFT_ID], kinds)
        }
    }
}

/// A case with many rows and batches, without keys.
fn case() -> OrderedCase {
    let mut case = (0..).map(|seed| OrderedCase::random(seed, 8)).find(|case| case.right.len() > 20).expect("one");
    case = OrderedCase { keys: Vec::new(), choice: OrderedChoice::All, ..case };
    case.left.iter_mut().flatten().for_each(|row| row.keys.clear());
    case.right.iter_mut().flatten().for_each(|row| row.keys.clear());
    case
}

#[test]
fn a_join_can_be_cancelled_or_dropped_at_any_time() {
    let case = case();
    for batches_first in 0..30 {
        for (spills, is_cancelled, aggregates) in
            [(false, false, false), (false, true, true), (true, true, false), (true, false, true)]
        {
            let temp = TempSpace::in_memory();
            let run = Run::new(&temp, spills);
            let (result, output, kinds) = result(aggregates);
            let join = case.join(result, output, kinds, &run).expect("a request that fits");
            let mut share = Arc::clone(&join).worker();
            let taken = share.by_ref().take(batches_first).filter(Result::is_ok).count();
            if is_cancelled && taken == batches_first {
                run.cancel.cancel();
                // The share may have been at its end.
                assert!(share.next().is_none_or(|batch| batch.unwrap_err().kind() == ErrorKind::Cancelled));
                assert!(share.next().is_none());
            }
            drop((share, join));
            assert_eq!((run.broker.used_bytes(), temp.quota().used_bytes(), temp.files().len()), (0, 0, 0));
        }
    }
}

#[test]
fn requests_that_do_not_fit_the_inputs_are_refused() {
    let refused = |change: &dyn Fn(&mut OrderedCase), aggregates: bool| -> Error {
        let mut case = case();
        change(&mut case);
        let temp = TempSpace::in_memory();
        let (result, output, kinds) = result(aggregates);
        case.join(result, output, kinds, &Run::new(&temp, false)).map(drop).expect_err("it does not fit")
    };
    let nearest = OrderedChoice::Nearest { to: column::TO };
    let error = refused(&|case| (case.choice, case.position) = (nearest, PositionKind::Text), false);
    assert_eq!((error.kind(), error.hint_text().is_some()), (ErrorKind::Unsupported, true));
    let last = |case: &mut OrderedCase| case.choice = OrderedChoice::Last;
    assert_eq!(refused(&last, true).kind(), ErrorKind::Internal);
    let of_id = OrderedChoice::Nearest { to: column::LEFT_ID };
    let other_type = |case: &mut OrderedCase| (case.choice, case.position) = (of_id, PositionKind::Timestamp);
    assert_eq!(refused(&other_type, false).kind(), ErrorKind::Internal);
    let no_column = OrderedChoice::Nearest { to: column::LEFT };
    assert_eq!(refused(&|case| case.choice = no_column, false).kind(), ErrorKind::Internal);
}

#[test]
fn a_key_whose_rows_do_not_fit_is_refused_with_the_limit() {
    let mut case = case();
    case.keys = vec![KeyKind::Dense];
    case.left.iter_mut().flatten().for_each(|row| row.keys = vec![Some(1)]);
    case.right.iter_mut().flatten().for_each(|row| row.keys = vec![Some(1)]);
    let temp = TempSpace::in_memory();
    let mut run = Run::new(&temp, true);
    run.broker = rowmill_base::Broker::new(2_000);
    run.broker.set_always_spills(true);
    let (result, output, kinds) =
        (OrderedResult::Rows { inner: true }, vec![case.in_pair(column::TEXT)], vec![DataType::Utf8View]);
    let join = case.join(result, output, kinds, &run).expect("a request that fits");
    let error = case.collect(join, &run).expect_err("too many rows");
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
    assert!(error.message().contains("JOIN") && error.message().contains("2000 bytes"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("memory_limit")), "{error}");
}
