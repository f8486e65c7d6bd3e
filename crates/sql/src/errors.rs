//! Errors of statements that belong to no other module: panics, and errors that Arrow reports.

use std::any::Any;

use rowmill_base::Error;

/// Makes an internal error of the panic of a statement, with the panic's message. Such a panic is a bug.
pub(crate) fn from_panic(payload: &(dyn Any + Send)) -> Error {
    let message = payload
        .downcast_ref::<&str>()
        .map(|text| text.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into());
    Error::internal(format!("the statement failed with a bug: {message}"))
        .hint("the database stays usable; please report the statement")
}
