//! Panics, caught where a statement begins.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use rowmill_base::Result;

use crate::errors::from_panic;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` and turns a panic into an error with the panic's message. Prints nothing.
pub fn catch_panics<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    install_hook();
    let before = QUIET.replace(true);
    // The caller must discard or roll back everything that `work` may have left half done.
    let result = catch_unwind(AssertUnwindSafe(work));
    // We restore the previous value, because an outer call on this thread may still be active.
    QUIET.set(before);
    result.unwrap_or_else(|payload: Box<dyn Any + Send>| Err(from_panic(payload.as_ref())))
}

/// Stops printing the panics of this thread from now on. The code that catches them must report them.
///
/// Should be called in the start hook of a runtime whose threads run only statements.
pub fn quiet_panics() {
    install_hook();
    QUIET.set(true);
}

/// Installs a panic hook that leaves all other threads to the hook of the host program.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let host = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                host(info);
            }
        }));
    });
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
