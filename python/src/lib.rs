//! Rowmill as a module for Python: DB-API 2.0 (PEP 249), with results as Arrow, pandas and NumPy.
//!
//! The Python package `rowmill` wraps this module. Statements run without Python's lock, and Ctrl-C cancels them.
//!
//! - `connection`: connections, which cursors share. `shared`: the database connection itself, and how a statement runs
//!   beside Python. `cursor`: statements and their rows.
//! - `parameters`: Python values as parameters. `cells`: values of results as Python values.
//! - `capsule`: batches from and to other libraries, in Arrow's C interface.
//! - `errors`: the exceptions of PEP 249.

mod capsule;
mod cells;
mod connection;
mod cursor;
mod errors;
mod parameters;
mod shared;

use pyo3::prelude::*;

/// The module that the package `rowmill` wraps.
#[pymodule]
fn _rowmill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<connection::Connection>()?;
    module.add_class::<cursor::Cursor>()?;
    module.add_function(wrap_pyfunction!(connection::connect, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    errors::add_to(module)
}
