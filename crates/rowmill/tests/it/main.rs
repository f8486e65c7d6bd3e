//! Tests of the database from the outside: the SQL suite, plain and under hostile settings, damage, hostile statements,
//! the benchmark queries, and whether the paths in the project's documents exist.

#![allow(clippy::unwrap_used)]

mod advisory_locks;
mod agreement;
mod appending;
mod attached;
mod backup;
mod column_copies;
mod damage;
mod differential;
mod document_parts;
#[path = "../../../../tests/each.rs"]
mod each;
mod exported;
mod forced_ways;
mod function_lists;
mod functions_page;
mod hermitage;
mod hostile_settings;
mod hostile_statements;
mod kill;
mod killed_upserts;
mod library;
mod lifted;
mod materialized;
mod new_rules;
mod numbered_types;
mod page_examples;
mod pages;
mod programs;
mod progress;
mod python;
mod remote_files;
mod replaced_columns;
mod row_waits;
mod spilling;
mod sql_suite;
mod sqlite_files;
mod statement_cache;
mod temporary;
mod time_clauses;
mod usual_calls;
mod views_under_load;
mod waiting_rows;
mod wide_decimals;
mod writers;
mod wrong_statements;

use std::path::PathBuf;

use rowmill_allocator::CountingAllocator;

// The allocator of the shell and the server. The tests take a tenth less of user time with it than with the C
// library's.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The root of the source tree in which the tests run. We must read it at run time, because a test that was built in
/// one checkout may run in another one that shares its build folder.
fn source_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    PathBuf::from(package).join("../..")
}
