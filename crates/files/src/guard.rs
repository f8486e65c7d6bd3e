//! Runs decoders of foreign formats safely.
//!
//! The decoders of Parquet and Arrow IPC check their input, but some damage still makes them panic, for example with a
//! slice out of bounds. A file must never end the process, so every call into these decoders must go through
//! [`guarded`].

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rowmill_base::{Error, ErrorKind, Result};

thread_local! {
    /// The last failure of a file that a decoder of this thread has read. Decoders turn errors of the file into texts.
    static FILE_FAILURE: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Makes an error of a file for a decoder. [`guarded`] returns `error` itself.
#[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "files on disk have errors of the system"))]
pub(crate) fn file_failure(error: Error) -> io::Error {
    FILE_FAILURE.set(Some(error.clone()));
    io::Error::other(error)
}

/// The error that [`file_failure`] was given, if the decoder has passed it on as it is.
pub(crate) fn own_error(error: &io::Error) -> Option<Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).cloned()
}

/// Runs `decode`, and turns an error or a panic into an error that names `file`. After an error, the caller must not
/// use the state that `decode` worked on.
pub(crate) fn guarded<T, E: fmt::Display>(file: &str, decode: impl FnOnce() -> Result<T, E>) -> Result<T> {
    FILE_FAILURE.set(None);
    // The caller drops the decoder after an error, so a broken state is never seen.
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    match (decoded, FILE_FAILURE.take()) {
        (Ok(Ok(value)), _) => Ok(value),
        // The file is not damaged: it could not be read.
        (_, Some(failure)) => Err(failure),
        (Ok(Err(error)), None) => Err(damaged(file, error)),
        (Err(panic), None) => Err(damaged(file, panic_text(&*panic))),
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
        let failing = || Err(file_failure(Error::new(ErrorKind::Cancelled, "asked to")).to_string());
        assert_eq!(guarded::<(), String>("a.parquet", failing).unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(guarded("a", || Ok::<_, String>(1)).expect("an earlier failure does not count"), 1);
    }
}
