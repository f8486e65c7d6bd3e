//! Errors of the database as errors of ADBC.

use std::ffi::c_char;

use adbc_core::error::{Error, Status};
use rowmill::ErrorKind;

/// The result of a call of ADBC.
pub(super) type AdbcResult<T> = std::result::Result<T, Error>;

/// An error of the database, with its SQLSTATE and hint.
pub(super) fn adbc_error(error: &rowmill::Error) -> Error {
    let message = match error.hint_text() {
        Some(hint) => format!("{}\nhint: {hint}", error.message()),
        None => error.message().to_owned(),
    };
    let mut adbc = Error::with_message_and_status(message, status_of(error.kind()));
    for (place, byte) in adbc.sqlstate.iter_mut().zip(error.sqlstate().bytes()) {
        *place = byte as c_char;
    }
    adbc
}

fn status_of(kind: ErrorKind) -> Status {
    match (kind, &kind.sqlstate()[..2]) {
        (ErrorKind::Unsupported, _) => Status::NotImplemented,
        (ErrorKind::UndefinedTable | ErrorKind::UndefinedSchema | ErrorKind::UndefinedFile, _) => Status::NotFound,
        (ErrorKind::DuplicateTable | ErrorKind::DuplicateObject | ErrorKind::DuplicateSchema, _) => {
            Status::AlreadyExists
        }
        (ErrorKind::Cancelled, _) => Status::Cancelled,
        (ErrorKind::Deadline, _) => Status::Timeout,
        (ErrorKind::Io | ErrorKind::DiskFull, _) => Status::IO,
        (ErrorKind::Internal | ErrorKind::Corrupt, _) => Status::Internal,
        (ErrorKind::ActiveTransaction | ErrorKind::NoActiveTransaction | ErrorKind::ReadOnly, _) => {
            Status::InvalidState
        }
        (_, "22") => Status::InvalidData,
        (_, "23") => Status::Integrity,
        (_, "42" | "21") => Status::InvalidArguments,
        _ => Status::Unknown,
    }
}

/// The error of a call that does not fit the state of its object.
pub(super) fn wrong_state(message: impl Into<String>) -> Error {
    Error::with_message_and_status(message, Status::InvalidState)
}

/// The error of an argument that cannot be used.
pub(super) fn wrong_argument(message: impl Into<String>) -> Error {
    Error::with_message_and_status(message, Status::InvalidArguments)
}

/// The error of a part of ADBC that this driver does not have.
pub(super) fn not_implemented(what: &str) -> Error {
    Error::with_message_and_status(format!("{what}: the driver of Rowmill does not have this"), Status::NotImplemented)
}

/// The error of an option that this driver does not have.
pub(super) fn no_option(key: &str) -> Error {
    not_implemented(&format!("the option {key}"))
}
