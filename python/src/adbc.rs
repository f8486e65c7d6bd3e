//! The driver for ADBC (<https://arrow.apache.org/adbc/>), which programs load from this library by the name
//! `AdbcDriverInit`. The package `rowmill.adbc` opens it for Python.
//!
//! - `database`: the driver and its databases. `connection`: connections and transactions. `statement`: queries, their
//!   parameters and results.
//! - `ingest`: Arrow data into tables. `objects`, `catalog_batch`: the catalog as ADBC shows it. `info`: the facts of
//!   the driver.
//! - `errors`: the errors of ADBC.

// The macro of `adbc_ffi` makes the C function that fills the driver's table of functions.
#![allow(unsafe_code)]

mod catalog_batch;
mod connection;
mod database;
mod errors;
mod info;
mod ingest;
mod objects;
mod statement;

adbc_ffi::export_driver!(AdbcRowmillInit, database::RowmillDriver);
