//! The exceptions of PEP 249, and the exception for each kind of error.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::{PyTypeInfo, create_exception};
use rowmill::ErrorKind;

create_exception!(rowmill, Warning, PyException, "An important notice.");
create_exception!(rowmill, Error, PyException, "The base of all errors. `sqlstate` and `hint` are its attributes.");
create_exception!(rowmill, InterfaceError, Error, "The module was used in a wrong way.");
create_exception!(rowmill, DatabaseError, Error, "An error of the database.");
create_exception!(rowmill, DataError, DatabaseError, "A value does not fit.");
create_exception!(rowmill, OperationalError, DatabaseError, "Memory, the disk or another transaction is in the way.");
create_exception!(rowmill, IntegrityError, DatabaseError, "A constraint is violated.");
create_exception!(rowmill, InternalError, DatabaseError, "A bug, or stored bytes that are damaged.");
create_exception!(rowmill, ProgrammingError, DatabaseError, "The statement is wrong.");
create_exception!(rowmill, NotSupportedError, DatabaseError, "The statement is valid, but not supported.");

/// Adds the exceptions to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Warning", py.get_type::<Warning>())?;
    module.add("Error", py.get_type::<Error>())?;
    module.add("InterfaceError", py.get_type::<InterfaceError>())?;
    module.add("DatabaseError", py.get_type::<DatabaseError>())?;
    module.add("DataError", py.get_type::<DataError>())?;
    module.add("OperationalError", py.get_type::<OperationalError>())?;
    module.add("IntegrityError", py.get_type::<IntegrityError>())?;
    module.add("InternalError", py.get_type::<InternalError>())?;
    module.add("ProgrammingError", py.get_type::<ProgrammingError>())?;
    module.add("NotSupportedError", py.get_type::<NotSupportedError>())
}

fn of<E: PyTypeInfo>(message: String) -> PyErr {
    PyErr::new::<E, _>(message)
}

/// The exception for an error of the database, with another hint.
pub(crate) fn raised_with_hint(py: Python<'_>, error: &rowmill::Error, hint: &str) -> PyErr {
    raised(py, &error.clone().hint(hint))
}

/// The exception for an error of the database.
pub(crate) fn raised(py: Python<'_>, error: &rowmill::Error) -> PyErr {
    let kind = error.kind();
    let message = match error.hint_text() {
        Some(hint) => format!("{}\nhint: {hint}", error.message()),
        None => error.message().to_owned(),
    };
    let exception = match (kind, &kind.sqlstate()[..2]) {
        (ErrorKind::Unsupported, _) => of::<NotSupportedError>(message),
        (ErrorKind::Internal | ErrorKind::Corrupt, _) => of::<InternalError>(message),
        (_, "22") => of::<DataError>(message),
        (_, "23") => of::<IntegrityError>(message),
        (_, "42" | "21" | "26" | "25" | "3F" | "2B") => of::<ProgrammingError>(message),
        _ => of::<OperationalError>(message),
    };
    let value = exception.value(py);
    // An exception without these attributes is still the right exception.
    let _ = value.setattr("sqlstate", kind.sqlstate());
    let _ = value.setattr("hint", error.hint_text());
    exception
}

/// The exception for a call that does not fit the state of its object.
pub(crate) fn misuse(message: &str) -> PyErr {
    InterfaceError::new_err(message.to_owned())
}

/// The exception for a value that Python's types cannot hold. `what` is the value.
pub(crate) fn out_of_range(what: &str) -> PyErr {
    DataError::new_err(format!(
        "{what} is beyond the years of Python's datetime\nhint: read it as text: CAST(... AS TEXT)"
    ))
}

/// The exception for a result whose form is not known here, which is a bug.
pub(crate) fn unreadable(message: &str) -> PyErr {
    InternalError::new_err(message.to_owned())
}
