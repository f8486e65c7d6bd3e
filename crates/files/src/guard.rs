//! Decoders of foreign formats, fenced in.
//!
//! The decoders of Parquet and Arrow IPC check what they read, yet some damage still ends in a panic there, such as a
//! slice out of bounds. A file must never end the process, so every call into them goes through [`guarded`].

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rowmill_base::{Error, ErrorKind, Result};

/// Runs `decode`; its error, or its panic, becomes an error that names `file`. What `decode` was working on must not be
/// used after an error.
pub(crate) fn guarded<T, E: fmt::Display>(file: &str, decode: impl FnOnce() -> Result<T, E>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(damaged(file, error)),
        Err(panic) => Err(damaged(file, panic_text(&*panic))),
    }
}

/// A file that is not what its format asks for.
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
