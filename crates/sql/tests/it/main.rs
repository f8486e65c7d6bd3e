//! Sessions end to end: SQL in, batches out.

#![allow(clippy::unwrap_used)]

mod access;
mod cancel;
mod explain;
mod hostile;
mod names;
mod pg_forms;
mod prepared;
mod queries;
mod refused;
mod settings;
mod support;
mod views;
