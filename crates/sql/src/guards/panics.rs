//! Panics, caught where a statement begins.
//!
//! The panic hook belongs to the host program, so we leave it alone: it runs before the panic is caught here, and by
//! default prints the panic to stderr. A panic is a bug of ours, and the backtrace that the hook can print helps to
//! find it. The caller gets an error in any case.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rowmill_base::Result;

use crate::errors::from_panic;

/// Runs `work` and turns a panic into an error with the panic's message.
pub(crate) fn catch_panics<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // The caller must discard or roll back everything that `work` may have left half done.
    let result = catch_unwind(AssertUnwindSafe(work));
    result.unwrap_or_else(|payload: Box<dyn Any + Send>| Err(from_panic(payload.as_ref())))
}

#[cfg(test)]
mod tests {
    use rowmill_base::{Error, ErrorKind};

    use super::*;

    #[test]
    fn a_panic_becomes_an_internal_error_and_results_stay() {
        assert_eq!(catch_panics(|| Ok(7)).expect("a result"), 7);
        let error = catch_panics(|| Err::<(), _>(Error::corrupt("x"))).expect_err("an error");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let error = catch_panics::<()>(|| panic!("invariant {}", 5)).expect_err("a panic");
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(error.message().contains("invariant 5"), "{error}");
    }
}
