//! Rowmill as a module for Python: DB-API 2.0 (PEP 249), with results as Arrow, pandas and NumPy.
//!
//! The Python package `rowmill` wraps this module. Statements run without Python's lock, and Ctrl-C cancels them.
//!
//! - `connection`: connections, which cursors share. `open_databases`: the directories that are open. `shared`: the
//!   database connection itself, and how a statement runs beside Python. `cursor`: statements and their rows. `frames`:
//!   variables of Python as tables.
//! - `functions`: functions of Python as functions of SQL.
//! - `parameters`: Python values as parameters. `appender`: rows of Python values without SQL.
//! - `result`: the rows of a statement. `cells`: their values as Python values. `calendar`: dates and times.
//! - `capsule`: batches from and to other libraries, in Arrow's C interface.
//! - `adbc`: the driver for ADBC, which needs nothing of Python.
//! - `errors`: the exceptions of PEP 249.

mod adbc;
mod appender;
mod calendar;
mod capsule;
mod cells;
mod connection;
mod cursor;
mod errors;
mod frames;
mod functions;
mod open_databases;
mod parameters;
mod result;
mod shared;

use pyo3::prelude::*;

/// The module that the package `rowmill` wraps.
#[pymodule]
fn _rowmill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<connection::Connection>()?;
    module.add_class::<cursor::Cursor>()?;
    module.add_class::<appender::Appender>()?;
    module.add_class::<capsule::ArrowBatches>()?;
    module.add_function(wrap_pyfunction!(connection::connect, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    errors::add_to(module)
}
