//! Errors of statements that have no better place: panics, and what Arrow reports.

use std::any::Any;

use rowmill_base::Error;

/// The error of a statement that panicked: a bug, with the panic's message.
pub fn from_panic(payload: &(dyn Any + Send)) -> Error {
    let message = payload
        .downcast_ref::<&str>()
        .map(|text| text.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into());
    Error::internal(format!("the statement failed with a bug: {message}"))
        .hint("the database stays usable; please report the statement")
}
