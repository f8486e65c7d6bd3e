//! Runs decoders of foreign formats safely.
//!
//! The decoders of Parquet and Arrow IPC check their input, but some damage still makes them panic, for example with a
//! slice out of bounds. A file must never end the process, so every call into these decoders must go through
//! [`guarded`].

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rowmill_base::{Error, ErrorKind, Result};

/// Runs `decode`, and turns an error or a panic into an error that names `file`. After an error, the caller must not
/// use the state that `decode` worked on.
pub(crate) fn guarded<T, E: fmt::Display>(file: &str, decode: impl FnOnce() -> Result<T, E>) -> Result<T> {
    // The caller drops the decoder after an error, so a broken state is never seen.
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(damaged(file, error)),
        Err(panic) => Err(damaged(file, panic_text(&*panic))),
    }
}

/// Makes the error for a file whose content its format does not allow.
pub(crate) fn damaged(file: &str, what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::BadFileFormat, format!("{file} cannot be read: {what}"))
        .hint("the file is damaged, cut short, or of another format; WITH (format ...) names one")
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("its decoder failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_panics_name_the_file() {
        assert_eq!(guarded("a", || Ok::<_, String>(1)).expect("fine"), 1);
        let error = guarded::<(), _>("a.parquet", || Err("short")).unwrap_err();
        assert!(error.message().contains("a.parquet") && error.message().contains("short"));
        let error = guarded::<(), String>("a.parquet", || panic!("index {}", 7)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFileFormat);
        assert!(error.message().contains("index 7"));
    }
}
