//! Numbered pieces of work that several threads share.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rowmill_base::{Error, Result};

/// Does the pieces of work with the numbers below `pieces` on up to `threads` threads, and returns their results in
/// order. Threads take pieces from a shared cursor. `what` names the work in errors.
pub fn each_piece<T: Send>(
    pieces: usize,
    threads: usize,
    what: &str,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<T>>> = Mutex::new((0..pieces).map(|_| None).collect());
    let take_pieces = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= pieces {
                return Ok(());
            }
            let result = work(number)?;
            results.lock()[number] = Some(result);
        }
    };
    // The caller's thread works too. After an error in any thread, the others end with the pieces that are left.
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(pieces)).map(|_| scope.spawn(take_pieces)).collect();
        let own = take_pieces();
        let joined = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|_| Err(Error::internal(format!("{what} panicked")))));
        joined.fold(own, Result::and)
    })?;
    let results = results.into_inner().into_iter().collect::<Option<_>>();
    results.ok_or_else(|| Error::internal(format!("{what} left out a piece")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_an_error_ends_the_work() {
        for threads in [0, 1, 3, 20] {
            let squares = each_piece(10, threads, "squaring", |number| Ok(number * number));
            assert_eq!(squares, Ok((0..10).map(|number| number * number).collect()));
            let failed = each_piece(10, threads, "failing", |number| match number {
                4 => Err(Error::internal("four")),
                number => Ok(number),
            });
            assert_eq!(failed, Err(Error::internal("four")));
        }
        assert_eq!(each_piece(0, 2, "nothing", |_| Ok(())), Ok(Vec::new()));
    }
}
