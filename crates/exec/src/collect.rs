//! Runs a tree of operators to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use arrow::array::RecordBatch;
use rowmill_base::Result;

use crate::batch::BatchSource;

/// Returns all batches of `source`. It is read by as many workers as have something to do, but at most by `threads`.
/// The caller's thread is one of them, and the only one if the system refuses to start others. The batches of one
/// share stay in their order.
///
/// Fails with the error of one of the shares. The other shares end after their current batch.
pub fn collect(source: &Arc<dyn BatchSource>, threads: usize) -> Result<Vec<RecordBatch>> {
    let failed = AtomicBool::new(false);
    let helpers = threads.min(source.parallelism()).saturating_sub(1);
    thread::scope(|scope| {
        let read = || read_share(source, &failed);
        let spawned: Vec<_> =
            // If the system refuses a thread, we go on with the ones that we have.
            (0..helpers).map_while(|_| thread::Builder::new().spawn_scoped(scope, read).ok()).collect();
        let mut batches = read();
        for helper in spawned {
            let share = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            batches = batches.and_then(|mut batches| {
                batches.extend(share?);
                Ok(batches)
            });
        }
        batches
    })
}

fn read_share(source: &Arc<dyn BatchSource>, failed: &AtomicBool) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for batch in Arc::clone(source).worker() {
        if failed.load(Ordering::Relaxed) {
            break;
        }
        batches.push(batch.inspect_err(|_| failed.store(true, Ordering::Relaxed))?);
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use rowmill_base::ErrorKind;

    use super::*;
    use crate::test_input::{Failing, numbers, numbers_of};

    #[test]
    fn every_batch_is_collected_once() {
        for threads in [0, 1, 3, 50] {
            let source: Arc<dyn BatchSource> = numbers(0..1_000, 10);
            let mut found = numbers_of(&collect(&source, threads).expect("nothing fails"));
            found.sort_unstable();
            assert_eq!(found, (0..1_000).collect::<Vec<_>>());
        }
    }

    #[test]
    fn one_share_that_fails_fails_all() {
        let source: Arc<dyn BatchSource> = Arc::new(Failing(numbers(0..1_000, 10)));
        assert_eq!(collect(&source, 4).unwrap_err().kind(), ErrorKind::Io);
    }
}
