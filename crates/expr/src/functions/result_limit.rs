//! The limit on the bytes that one call of a function makes for a batch.
//!
//! `repeat('x', 2000000000)` asks for two gigabytes in each row. A function whose result can be much larger than its
//! arguments must ask here before it makes more, and fails if the batch would exceed the limit. The limit belongs to
//! the thread. The planner of a statement must set it to `result_value_max_bytes`, and the expressions of the plan
//! carry it to the threads that evaluate them. The constant folder must set it to [`FOLDED_BYTES_MAX`], so that a plan
//! never holds a huge constant.

use std::cell::Cell;

use rowmill_base::{Error, ErrorKind, Result};

/// The largest result of a call of constants that becomes a constant itself. The optimizer copies and compares
/// constants many times, so they should be small.
pub(crate) const FOLDED_BYTES_MAX: u64 = 1 << 16;

/// The default of the setting `result_value_max_bytes`.
const DEFAULT_BYTES_MAX: u64 = 256 << 20;

thread_local! {
    static BYTES_MAX: Cell<u64> = const { Cell::new(DEFAULT_BYTES_MAX) };
}

/// Runs `evaluate` with a limit of `bytes_max` on the result of each call.
pub fn with_result_limit<T>(bytes_max: u64, evaluate: impl FnOnce() -> T) -> T {
    /// Restores the previous limit, even after a panic.
    struct Former(u64);
    impl Drop for Former {
        fn drop(&mut self) {
            BYTES_MAX.set(self.0);
        }
    }
    let _former = Former(BYTES_MAX.replace(bytes_max));
    evaluate()
}

/// Returns the limit of this thread, for callers that pass it to other threads.
pub fn result_bytes_max() -> u64 {
    BYTES_MAX.get()
}

/// The limit on the result of one call, taken from the thread.
#[derive(Debug)]
pub(super) struct ResultLimit {
    function: &'static str,
    bytes_max: u64,
}

impl ResultLimit {
    /// Returns the limit for a call of `function`.
    pub(super) fn of(function: &'static str) -> ResultLimit {
        ResultLimit { function, bytes_max: BYTES_MAX.get() }
    }

    /// Returns an error if the total of `bytes` exceeds the limit.
    #[inline]
    pub(super) fn check(&self, bytes: u128) -> Result<()> {
        if bytes <= u128::from(self.bytes_max) { Ok(()) } else { Err(self.too_large(bytes)) }
    }

    #[cold]
    fn too_large(&self, bytes: u128) -> Error {
        let ResultLimit { function, bytes_max } = self;
        Error::new(
            ErrorKind::ResultTooLarge,
            format!(
                "{function} asks for {bytes} bytes in one batch, the limit is {bytes_max} (result_value_max_bytes)"
            ),
        )
        .hint(
            "raise it with SET result_value_max_bytes = '...', or lower the rows of a batch with SET batch_rows = ...",
        )
    }
}

#[cfg(test)]
mod tests {
    use rowmill_plan::ScalarExpr;

    use super::*;

    #[test]
    fn a_call_with_a_large_result_is_not_folded() {
        let folded = |times: i64| {
            let repeat = crate::functions::find("repeat").unwrap();
            let arguments = vec![ScalarExpr::literal("x"), ScalarExpr::literal(times)];
            let mut call = crate::typing::call(repeat, arguments).unwrap();
            crate::fold::fold(&mut call);
            call.as_constant().is_some()
        };
        assert!(folded(100));
        assert!(!folded(100_000));
    }

    #[test]
    fn a_limit_holds_only_inside_of_its_call() {
        let check = |bytes| ResultLimit::of("f").check(bytes).map_err(|error| error.kind());
        with_result_limit(10, || {
            assert_eq!(check(10), Ok(()));
            assert_eq!(check(11), Err(ErrorKind::ResultTooLarge));
        });
        assert_eq!(check(11), Ok(()));
        assert_eq!(check(u128::MAX), Err(ErrorKind::ResultTooLarge));
    }
}
