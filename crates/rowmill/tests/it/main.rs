//! The database from the outside: the SQL suite plainly and under hostile settings, damage, hostile statements, the
//! benchmark queries, and whether the project's pages tell the truth.

#![allow(clippy::unwrap_used)]

mod agreement;
mod backup;
mod damage;
mod differential;
mod forced_ways;
mod hermitage;
mod hostile_settings;
mod hostile_statements;
mod kill;
mod library;
mod lifted;
mod pages;
mod programs;
mod sql_suite;
mod statement_cache;

use std::path::PathBuf;

/// The root of the source tree in which the tests run. Asked for when they run: a test that was built in one checkout may
/// be run from another that shares its build folder.
fn source_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    PathBuf::from(package).join("../..")
}
